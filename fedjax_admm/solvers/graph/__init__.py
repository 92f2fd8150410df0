"""Solvers whose messages go to neighbours on a graph."""
