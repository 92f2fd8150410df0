"""`solve networked`: a model per node of a network."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
