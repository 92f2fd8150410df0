"""Monte Carlo trials, experiments, result files, plots and the command line."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedjax_admm.trials.engine import MonteCarlo, default_mesh, monte_carlo
    from fedjax_admm.trials.experiment import DirectMethod, Experiment, SolverMethod, Sweep
    from fedjax_admm.trials.results import Results, load
    from fedjax_admm.trials.runner import Request, run_experiment
    from fedjax_admm.trials.statistics import paired_difference, summarize
    from fedjax_admm.trials.store import ChunkStore

# Public name -> the module that defines it; loaded when first used (PEP 562), so that the
# command line answers a mistake without loading JAX.
_HOMES = {
    "engine": ("MonteCarlo", "default_mesh", "monte_carlo"),
    "experiment": ("DirectMethod", "Experiment", "SolverMethod", "Sweep"),
    "results": ("Results", "load"),
    "runner": ("Request", "run_experiment"),
    "statistics": ("paired_difference", "summarize"),
    "store": ("ChunkStore",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ChunkStore",
    "DirectMethod",
    "Experiment",
    "MonteCarlo",
    "Request",
    "Results",
    "SolverMethod",
    "Sweep",
    "default_mesh",
    "load",
    "monte_carlo",
    "paired_difference",
    "run_experiment",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
