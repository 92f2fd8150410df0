"""Proximal maps made of proximal maps."""
