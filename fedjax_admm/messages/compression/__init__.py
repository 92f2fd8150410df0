"""Fewer bits for a message, and what feedback makes up for."""
