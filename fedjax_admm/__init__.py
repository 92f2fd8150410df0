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
        trees,
        trials,
    )
    from fedjax_admm.checks import InputError
    from fedjax_admm.measures import (
        central_signal_error,
        localization_error,
        personal_error,
        tree_signal_error,
    )
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
    from fedjax_admm.problems.phase_retrieval import (
        PhaseRetrieval,
        draw_phase_retrieval,
        phase_retrieval,
        spectral_start,
    )
    from fedjax_admm.problems.robust_regression import (
        RobustRegression,
        draw_robust_regression,
        robust_regression,
    )
    from fedjax_admm.protocol import Solver, Turn
    from fedjax_admm.runs import RoundState, Run, Status, run, run_until
    from fedjax_admm.schedules import Schedule, from_optax, schedule
    from fedjax_admm.solvers.centralized_localization import locate_centrally
    from fedjax_admm.solvers.centralized_subgradient import (
        CentralizedSubgradient,
        centralized_subgradient,
        polyak,
    )
    from fedjax_admm.solvers.fsmdm import FSMDM, fsmdm
    from fedjax_admm.solvers.hfsad import consensus_links, hfsad, scad_regularizers
    from fedjax_admm.solvers.hierarchical import (
        HierarchicalADMM,
        Link,
        consensus_admm,
        hierarchical_admm,
        link,
    )
    from fedjax_admm.solvers.subgradient import FederatedSubgradient, federated_subgradient
    from fedjax_admm.traffic import Ledger, Traffic, ledger
    from fedjax_admm.trees import Tree

# Public name -> the module that defines it; a module stands for itself.
_HOMES = {
    "checks": ("InputError",),
    "measures": (
        "central_signal_error",
        "localization_error",
        "personal_error",
        "tree_signal_error",
    ),
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
    "problems.phase_retrieval": (
        "PhaseRetrieval",
        "draw_phase_retrieval",
        "phase_retrieval",
        "spectral_start",
    ),
    "problems.robust_regression": (
        "RobustRegression",
        "draw_robust_regression",
        "robust_regression",
    ),
    "protocol": ("Solver", "Turn"),
    "runs": ("RoundState", "Run", "Status", "run", "run_until"),
    "schedules": ("Schedule", "from_optax", "schedule"),
    "solvers.centralized_localization": ("locate_centrally",),
    "solvers.centralized_subgradient": (
        "CentralizedSubgradient",
        "centralized_subgradient",
        "polyak",
    ),
    "solvers.fsmdm": ("FSMDM", "fsmdm"),
    "solvers.hfsad": ("consensus_links", "hfsad", "scad_regularizers"),
    "solvers.hierarchical": (
        "HierarchicalADMM",
        "Link",
        "consensus_admm",
        "hierarchical_admm",
        "link",
    ),
    "solvers.subgradient": ("FederatedSubgradient", "federated_subgradient"),
    "traffic": ("Ledger", "Traffic", "ledger"),
    "trees": ("Tree",),
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
    "trees",
    "trials",
)

__all__ = [
    "CentralizedSubgradient",
    "FSMDM",
    "FederatedSubgradient",
    "HierarchicalADMM",
    "InputError",
    "Ledger",
    "Link",
    "PhaseRetrieval",
    "Presence",
    "RangeLocalization",
    "RobustRegression",
    "RoundState",
    "Run",
    "Schedule",
    "Solver",
    "Status",
    "Traffic",
    "Tree",
    "Turn",
    "__version__",
    "cauchy_noise",
    "central_signal_error",
    "centralized_subgradient",
    "consensus_admm",
    "consensus_links",
    "draw_localization",
    "draw_phase_retrieval",
    "draw_robust_regression",
    "federated_subgradient",
    "from_optax",
    "fsmdm",
    "gaussian_noise",
    "hfsad",
    "hierarchical_admm",
    "kernels",
    "ledger",
    "link",
    "localization_error",
    "locate_centrally",
    "measures",
    "no_noise",
    "outliers",
    "participation",
    "penalties",
    "personal_error",
    "phase_retrieval",
    "polyak",
    "problems",
    "range_localization",
    "robust_regression",
    "run",
    "run_until",
    "scad_regularizers",
    "schedule",
    "schedules",
    "solvers",
    "spectral_start",
    "tree_signal_error",
    "trees",
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
