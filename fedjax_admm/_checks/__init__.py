"""Checks of what people give: numbers, arrays, counts, texts, functions, and their sizes.

scalar("rho", rho, above=0)            a number as an array, or one sentence that names the argument
count("rounds", rounds)                a static whole number
instance("tree", tree, Tree, "a tree") what an argument must be
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
