"""Solvers: one file per algorithm, each a pure step over a stacked client state."""
