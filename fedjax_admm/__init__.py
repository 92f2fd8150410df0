"""fedjax-admm: batch solvers for federated optimisation by ADMM and its primal-dual relatives.

Public names load their modules when they are first used (PEP 562), so that
`import fedjax_admm.kernels` costs a JAX user nothing but jax.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedjax_admm._version import __version__

if TYPE_CHECKING:
    from fedjax_admm import (
        kernels,
        measures,
        participation,
        penalties,
        problems,
        schedules,
        solvers,
        trials,
    )
    from fedjax_admm.checks import InputError
    from fedjax_admm.measures import localization_error
    from fedjax_admm.participation import Presence, where_active
    from fedjax_admm.problems.localization import (
        RangeLocalization,
        cauchy_noise,
        draw_localization,
        gaussian_noise,
        no_noise,
        outliers,
        range_localization,
    )
    from fedjax_admm.protocol import Solver, Turn
    from fedjax_admm.runs import RoundState, Run, Status, run, run_until
    from fedjax_admm.schedules import Schedule, from_optax, schedule
    from fedjax_admm.solvers.centralized_localization import locate_centrally
    from fedjax_admm.solvers.fsmdm import FSMDM, fsmdm
    from fedjax_admm.solvers.subgradient import FederatedSubgradient, federated_subgradient
    from fedjax_admm.traffic import Ledger, Traffic, ledger

# Public name -> the module that defines it; a module stands for itself.
_HOMES = {
    "checks": ("InputError",),
    "measures": ("localization_error",),
    "participation": ("Presence", "where_active"),
    "problems.localization": (
        "RangeLocalization",
        "cauchy_noise",
        "draw_localization",
        "gaussian_noise",
        "no_noise",
        "outliers",
        "range_localization",
    ),
    "protocol": ("Solver", "Turn"),
    "runs": ("RoundState", "Run", "Status", "run", "run_until"),
    "schedules": ("Schedule", "from_optax", "schedule"),
    "solvers.centralized_localization": ("locate_centrally",),
    "solvers.fsmdm": ("FSMDM", "fsmdm"),
    "solvers.subgradient": ("FederatedSubgradient", "federated_subgradient"),
    "traffic": ("Ledger", "Traffic", "ledger"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = (
    "kernels",
    "measures",
    "participation",
    "penalties",
    "problems",
    "schedules",
    "solvers",
    "trials",
)

__all__ = [
    "FSMDM",
    "FederatedSubgradient",
    "InputError",
    "Ledger",
    "Presence",
    "RangeLocalization",
    "RoundState",
    "Run",
    "Schedule",
    "Solver",
    "Status",
    "Traffic",
    "Turn",
    "__version__",
    "cauchy_noise",
    "draw_localization",
    "federated_subgradient",
    "from_optax",
    "fsmdm",
    "gaussian_noise",
    "kernels",
    "ledger",
    "localization_error",
    "locate_centrally",
    "measures",
    "no_noise",
    "outliers",
    "participation",
    "penalties",
    "problems",
    "range_localization",
    "run",
    "run_until",
    "schedule",
    "schedules",
    "solvers",
    "trials",
    "where_active",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
