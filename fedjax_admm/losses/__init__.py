"""Losses of one sample, of a node or client, and the minimisation of pooled ones."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
