"""Running a solver: rounds in a scan or a loop, what is checked before, which keys have served."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
