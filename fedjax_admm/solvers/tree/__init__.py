"""Solvers whose messages go up and down a tree."""
