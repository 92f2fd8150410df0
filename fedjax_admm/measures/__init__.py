"""Measures, recorded during a run: `measure(solver, problem, state) -> dict`."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
