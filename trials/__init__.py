"""Monte Carlo trials, experiments, result files, figures and the command line.

Names load when they are first used; `__init__.pyi` lists them.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
