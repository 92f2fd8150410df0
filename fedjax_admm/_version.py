"""The version of fedjax-admm, in one place."""

__version__ = "0.1.0"
"""The version of the package, as `pip` knows it."""
