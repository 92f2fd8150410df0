"""One problem of a user's own, from a file: the commands `solve FAMILY`, a room for each.

from fedjax_admm.trials.solve import (
    LocalizationSettings, Stages, claimed_folder, solve_file, write_solution
)

settings, path, stages = LocalizationSettings(rounds=500), Path("ranges.csv"), Stages(print)
found = solve_file(settings, path, stages)
print(found.text)
with claimed_folder(settings, path, Path("located")) as folder:
    write_solution(found, path, folder, stages)
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
