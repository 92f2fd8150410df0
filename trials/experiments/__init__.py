"""The experiments, one module per paper; each module lists its own in `EXPERIMENTS`."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
