"""Experiments by name: every module below this folder whose name is public lists its own.

A new paper is a new file: its experiments stand where the name of the file comes in the alphabet.
"""

import pkgutil
from importlib import import_module

from fedjax_admm._checks import InputError
from fedjax_admm.trials import experiments
from fedjax_admm.trials.experiments._experiment import Experiment


def all_experiments() -> dict[str, Experiment]:
    """Return every experiment by name, in the order of the modules' names."""
    modules = sorted(
        module.name
        for module in pkgutil.walk_packages(experiments.__path__, f"{experiments.__name__}.")
        if not (module.ispkg or module.name.rpartition(".")[2].startswith("_"))
    )
    return {
        experiment.name: experiment
        for name in modules
        for experiment in import_module(name).EXPERIMENTS
    }


def find(name: str) -> Experiment:
    """Return the experiment of a name.

    Raises:
      InputError: no experiment has that name.
    """
    known = all_experiments()
    if name not in known:
        raise InputError(
            f"there is no experiment {name!r}; `fedjax-admm list` shows them: {', '.join(known)}",
            value=name,
        )
    return known[name]
