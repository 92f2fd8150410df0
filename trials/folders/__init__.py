"""What a folder of results may be: who writes there now, and which of its files are ours.

A command writes into a folder that is new, empty or provably its own, one process at a time, and
replaces nothing that it has not written, unless it is told to.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
