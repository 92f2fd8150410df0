"""Proximal maps and projections of matrices, which fill the last two axes."""
