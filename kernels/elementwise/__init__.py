"""Proximal maps of functions of one number, applied entry by entry."""
