"""What is recorded of a run: `measure(solver, problem, state) -> dict`, one file per family."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
