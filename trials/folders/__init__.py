"""Folders of results: one writer at a time, and nothing of somebody else's is lost.

A command writes into a folder that is new or empty, unless it is told to go on with the result
there or to replace it.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
