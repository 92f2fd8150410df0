"""Checks of a user's arguments: numbers, arrays, counts, texts, functions, and their sizes.

scalar("rho", rho, above=0)             a number as an array, or one sentence with the argument
count("rounds", rounds)                 a static whole number
instance("tree", tree, Tree, "a tree")  an object of a class
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
