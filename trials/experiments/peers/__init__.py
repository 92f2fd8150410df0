"""Solvers of the field beside each other, at equal tuning effort."""
