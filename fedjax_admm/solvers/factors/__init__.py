"""Solvers of factor models: clients keep factors of their own beside shared ones."""
