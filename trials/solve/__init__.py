"""One problem of a user's own, from a file: the commands `solve FAMILY`, a room for each.

from fedjax_admm.trials.solve import LocalizationSettings, Stages, solve_file, write_solution

settings, stages = LocalizationSettings(rounds=500), Stages(print)
found = solve_file(settings, Path("ranges.csv"), stages)
print(found.text)
write_solution(found, Path("ranges.csv"), Path("located"), stages)
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
