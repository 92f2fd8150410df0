"""Proximal maps and projections of vectors, which lie along an axis."""
