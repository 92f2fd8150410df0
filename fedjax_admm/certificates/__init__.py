"""What can be promised about a solution: duality gap, clustering conditions, safe steps."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
