"""Proximal maps that shrink whole groups of entries."""
