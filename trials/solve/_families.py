"""The families that `solve` knows, in the order in which they are listed."""

from fedjax_admm.trials.solve.localization._settings import LocalizationSettings
from fedjax_admm.trials.solve.networked._settings import NetworkedSettings
from fedjax_admm.trials.solve.private._settings import PrivateSettings
from fedjax_admm.trials.solve.ratings._settings import RatingsSettings

FAMILIES = (LocalizationSettings, NetworkedSettings, RatingsSettings, PrivateSettings)
"""The settings of every family of `fedjax-admm solve`."""
