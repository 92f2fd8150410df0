"""Solvers: one file per algorithm, each a pure step over a stacked client state."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
