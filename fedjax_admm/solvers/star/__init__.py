"""Solvers whose messages go to one server."""
