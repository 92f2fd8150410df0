from fedjax_admm.trials.solve.localization._choice import (
    Choice as Choice,
    chosen_path as chosen_path,
)
from fedjax_admm.trials.solve.localization._figure import draw_location as draw_location
from fedjax_admm.trials.solve.localization._fit import Location as Location, locate as locate
from fedjax_admm.trials.solve.localization._path import (
    LocatedPath as LocatedPath,
    locate_log as locate_log,
    window_positions as window_positions,
)
from fedjax_admm.trials.solve.localization._path_figure import draw_path as draw_path
from fedjax_admm.trials.solve.localization._path_report import (
    path_solution as path_solution,
    path_text as path_text,
)
from fedjax_admm.trials.solve.localization._report import (
    report as report,
    solution as solution,
)
from fedjax_admm.trials.solve.localization._settings import (
    LocalizationSettings as LocalizationSettings,
)
