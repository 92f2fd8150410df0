"""One problem of a user's own, from a file: the commands `solve FAMILY`, a room for each.

from fedjax_admm.trials.solve import localization, solve_file

found = solve_file(localization.LocalizationSettings(rounds=500), Path("ranges.csv"))
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
