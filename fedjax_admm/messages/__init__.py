"""Messages on their way: channels, aggregators, attacks and delays."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
