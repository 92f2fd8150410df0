"""The experiments, one module per paper; each module lists its own in `EXPERIMENTS`."""

from fedjax_admm.checks import InputError
from fedjax_admm.trials.experiment import Experiment
from fedjax_admm.trials.experiments import (
    fedmc,
    fsmdm,
    hfsad,
    nfl,
    nfl_digits,
    nfl_weather,
    zcdp,
)

_MODULES = (fsmdm, hfsad, nfl, nfl_weather, nfl_digits, fedmc, zcdp)


def all_experiments() -> dict[str, Experiment]:
    """Return every experiment by name, in the order in which they are listed."""
    return {experiment.name: experiment for module in _MODULES for experiment in module.EXPERIMENTS}


def find(name: str) -> Experiment:
    """Return the experiment of a name.

    Raises:
      InputError: there is none.
    """
    experiments = all_experiments()
    if name not in experiments:
        raise InputError(
            f"there is no experiment {name!r}; `fedjax-admm list` shows them: "
            f"{', '.join(experiments)}."
        )
    return experiments[name]
