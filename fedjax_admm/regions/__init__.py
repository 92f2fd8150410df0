"""Localisation with its uncertainty: robust fits, covariances, bootstraps, regions and bounds."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
