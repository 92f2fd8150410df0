"""Solvers around another solver."""
