"""One page that shows runs side by side, in a file of its own that needs nothing from elsewhere."""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
