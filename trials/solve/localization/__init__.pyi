from fedjax_admm.trials.solve.localization._figure import draw_location as draw_location
from fedjax_admm.trials.solve.localization._fit import Location as Location, locate as locate
from fedjax_admm.trials.solve.localization._report import (
    report as report,
    solution as solution,
)
from fedjax_admm.trials.solve.localization._settings import (
    LocalizationSettings as LocalizationSettings,
)
