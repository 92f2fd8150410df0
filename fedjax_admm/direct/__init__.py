"""Answers without rounds: local and pooled models, oracles, biases, central localisation."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
