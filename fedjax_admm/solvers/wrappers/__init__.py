"""Wrappers: solvers that run another solver."""
