from fedjax_admm.trials.solve.networked._figure import draw_networked as draw_networked
from fedjax_admm.trials.solve.networked._fit import (
    NetworkedFit as NetworkedFit,
    fit_networked as fit_networked,
)
from fedjax_admm.trials.solve.networked._report import solution as solution, summary as summary
from fedjax_admm.trials.solve.networked._settings import NetworkedSettings as NetworkedSettings
