"""fedjax-admm: batch solvers for federated optimisation by ADMM and its primal-dual relatives.

Public names load their modules when they are first used (PEP 562), so that
`import fedjax_admm.kernels` costs a JAX user nothing but jax.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedjax_admm._version import __version__

if TYPE_CHECKING:
    from fedjax_admm import (
        edge_penalties,
        graphs,
        kernels,
        measures,
        participation,
        penalties,
        privacy,
        problems,
        ratings,
        sample_losses,
        schedules,
        solvers,
        trees,
        trials,
    )
    from fedjax_admm.centralized_regression import minimize_regression
    from fedjax_admm.certificates import Explanation, critical_lambda, explain
    from fedjax_admm.checks import InputError
    from fedjax_admm.consensus_measures import consensus_error, consensus_gap, consensus_ledger
    from fedjax_admm.duality import (
        duality_gap,
        gap_within,
        objective,
        optimality_residual,
    )
    from fedjax_admm.factor_models import Factors, given_start, uniform_start
    from fedjax_admm.graphs import Graph
    from fedjax_admm.measures import (
        central_signal_error,
        localization_error,
        network_error,
        personal_error,
        tree_signal_error,
    )
    from fedjax_admm.on_chip import run_on_chip
    from fedjax_admm.participation import Presence, where_active
    from fedjax_admm.problems.consensus import (
        ConsensusRegression,
        consensus_regression,
        draw_consensus_regression,
        with_loss,
    )
    from fedjax_admm.problems.localization import (
        RangeLocalization,
        cauchy_noise,
        draw_localization,
        gaussian_noise,
        no_noise,
        outliers,
        range_localization,
    )
    from fedjax_admm.problems.matrix_completion import (
        MatrixCompletion,
        given_clients,
        matrix_completion,
    )
    from fedjax_admm.problems.networked import (
        Networked,
        draw_networked_regression,
        networked_logistic,
        networked_regression,
        networked_training,
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
    from fedjax_admm.rating_measures import (
        augmented_lagrangian,
        completion_objective,
        completion_residual,
        factor_error,
        fresh_rating_error,
        rating_error,
        theory_beta,
    )
    from fedjax_admm.ratings import Ratings, draw_ratings, read_ratings
    from fedjax_admm.runs import (
        RoundState,
        Run,
        Status,
        run,
        run_until,
    )
    from fedjax_admm.schedules import Schedule, from_optax, schedule
    from fedjax_admm.sharding import device_mesh, place
    from fedjax_admm.solvers.averaging import (
        FederatedAveraging,
        federated_averaging,
        federated_proximal_averaging,
    )
    from fedjax_admm.solvers.centralized_localization import locate_centrally
    from fedjax_admm.solvers.centralized_subgradient import (
        CentralizedSubgradient,
        centralized_subgradient,
        polyak,
    )
    from fedjax_admm.solvers.fedmavg import FedMAvg, fedmavg
    from fedjax_admm.solvers.fedmc import FedMCADMM, fedmc_admm, typical_beta
    from fedjax_admm.solvers.fsmdm import FSMDM, fsmdm
    from fedjax_admm.solvers.gtv import GTVPrimalDual, gtv_primal_dual, step_ratio
    from fedjax_admm.solvers.hfsad import consensus_links, hfsad, scad_regularizers
    from fedjax_admm.solvers.hierarchical import (
        HierarchicalADMM,
        Link,
        consensus_admm,
        hierarchical_admm,
        link,
    )
    from fedjax_admm.solvers.ifca import IFCA, ifca
    from fedjax_admm.solvers.p_admm import PADMM, p_admm
    from fedjax_admm.solvers.pooling import cluster_oracle, local_models, pooled_model
    from fedjax_admm.solvers.private_admm import PrivateNetworkedADMM, private_networked_admm
    from fedjax_admm.solvers.private_subgradient import PrivateSubgradient, private_subgradient
    from fedjax_admm.solvers.rating_baselines import (
        alternating_least_squares,
        damped_biases,
        global_mean,
        item_means,
        user_means,
    )
    from fedjax_admm.solvers.subgradient import FederatedSubgradient, federated_subgradient
    from fedjax_admm.stability import largest_safe_step
    from fedjax_admm.traffic import Ledger, Traffic, ledger
    from fedjax_admm.trees import Tree
    from fedjax_admm.tuning import GridSearch, grid_search

# Public name -> the module that defines it; a module stands for itself.
_HOMES = {
    "centralized_regression": ("minimize_regression",),
    "certificates": ("Explanation", "critical_lambda", "explain"),
    "checks": ("InputError",),
    "consensus_measures": ("consensus_error", "consensus_gap", "consensus_ledger"),
    "duality": ("duality_gap", "gap_within", "objective", "optimality_residual"),
    "factor_models": ("Factors", "given_start", "uniform_start"),
    "graphs": ("Graph",),
    "measures": (
        "central_signal_error",
        "localization_error",
        "network_error",
        "personal_error",
        "tree_signal_error",
    ),
    "on_chip": ("run_on_chip",),
    "participation": ("Presence", "where_active"),
    "problems.consensus": (
        "ConsensusRegression",
        "consensus_regression",
        "draw_consensus_regression",
        "with_loss",
    ),
    "problems.localization": (
        "RangeLocalization",
        "cauchy_noise",
        "draw_localization",
        "gaussian_noise",
        "no_noise",
        "outliers",
        "range_localization",
    ),
    "problems.matrix_completion": ("MatrixCompletion", "given_clients", "matrix_completion"),
    "problems.networked": (
        "Networked",
        "draw_networked_regression",
        "networked_logistic",
        "networked_regression",
        "networked_training",
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
    "rating_measures": (
        "augmented_lagrangian",
        "completion_objective",
        "completion_residual",
        "factor_error",
        "fresh_rating_error",
        "rating_error",
        "theory_beta",
    ),
    "ratings": ("Ratings", "draw_ratings", "read_ratings"),
    "runs": (
        "RoundState",
        "Run",
        "Status",
        "run",
        "run_until",
    ),
    "schedules": ("Schedule", "from_optax", "schedule"),
    "sharding": ("device_mesh", "place"),
    "solvers.averaging": (
        "FederatedAveraging",
        "federated_averaging",
        "federated_proximal_averaging",
    ),
    "solvers.centralized_localization": ("locate_centrally",),
    "solvers.centralized_subgradient": (
        "CentralizedSubgradient",
        "centralized_subgradient",
        "polyak",
    ),
    "solvers.fedmavg": ("FedMAvg", "fedmavg"),
    "solvers.fedmc": ("FedMCADMM", "fedmc_admm", "typical_beta"),
    "solvers.fsmdm": ("FSMDM", "fsmdm"),
    "solvers.gtv": ("GTVPrimalDual", "gtv_primal_dual", "step_ratio"),
    "solvers.hfsad": ("consensus_links", "hfsad", "scad_regularizers"),
    "solvers.hierarchical": (
        "HierarchicalADMM",
        "Link",
        "consensus_admm",
        "hierarchical_admm",
        "link",
    ),
    "solvers.ifca": ("IFCA", "ifca"),
    "solvers.p_admm": ("PADMM", "p_admm"),
    "solvers.pooling": ("cluster_oracle", "local_models", "pooled_model"),
    "solvers.private_admm": ("PrivateNetworkedADMM", "private_networked_admm"),
    "solvers.private_subgradient": ("PrivateSubgradient", "private_subgradient"),
    "solvers.rating_baselines": (
        "alternating_least_squares",
        "damped_biases",
        "global_mean",
        "item_means",
        "user_means",
    ),
    "solvers.subgradient": ("FederatedSubgradient", "federated_subgradient"),
    "stability": ("largest_safe_step",),
    "traffic": ("Ledger", "Traffic", "ledger"),
    "trees": ("Tree",),
    "tuning": ("GridSearch", "grid_search"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = (
    "edge_penalties",
    "graphs",
    "kernels",
    "measures",
    "participation",
    "penalties",
    "privacy",
    "problems",
    "ratings",
    "sample_losses",
    "schedules",
    "solvers",
    "trees",
    "trials",
)

__all__ = [
    "CentralizedSubgradient",
    "ConsensusRegression",
    "Explanation",
    "FSMDM",
    "Factors",
    "FedMAvg",
    "FedMCADMM",
    "FederatedAveraging",
    "FederatedSubgradient",
    "GTVPrimalDual",
    "Graph",
    "GridSearch",
    "HierarchicalADMM",
    "IFCA",
    "InputError",
    "Ledger",
    "Link",
    "MatrixCompletion",
    "Networked",
    "PADMM",
    "PhaseRetrieval",
    "Presence",
    "PrivateNetworkedADMM",
    "PrivateSubgradient",
    "RangeLocalization",
    "Ratings",
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
    "alternating_least_squares",
    "augmented_lagrangian",
    "cauchy_noise",
    "central_signal_error",
    "centralized_subgradient",
    "cluster_oracle",
    "completion_objective",
    "completion_residual",
    "consensus_admm",
    "consensus_error",
    "consensus_gap",
    "consensus_ledger",
    "consensus_links",
    "consensus_regression",
    "critical_lambda",
    "damped_biases",
    "device_mesh",
    "draw_consensus_regression",
    "draw_localization",
    "draw_networked_regression",
    "draw_phase_retrieval",
    "draw_ratings",
    "draw_robust_regression",
    "duality_gap",
    "edge_penalties",
    "explain",
    "factor_error",
    "federated_averaging",
    "federated_proximal_averaging",
    "federated_subgradient",
    "fedmavg",
    "fedmc_admm",
    "fresh_rating_error",
    "from_optax",
    "fsmdm",
    "gap_within",
    "gaussian_noise",
    "given_clients",
    "given_start",
    "global_mean",
    "graphs",
    "grid_search",
    "gtv_primal_dual",
    "hfsad",
    "hierarchical_admm",
    "ifca",
    "item_means",
    "kernels",
    "largest_safe_step",
    "ledger",
    "link",
    "local_models",
    "localization_error",
    "locate_centrally",
    "matrix_completion",
    "measures",
    "minimize_regression",
    "network_error",
    "networked_logistic",
    "networked_regression",
    "networked_training",
    "no_noise",
    "objective",
    "optimality_residual",
    "outliers",
    "p_admm",
    "participation",
    "penalties",
    "personal_error",
    "phase_retrieval",
    "place",
    "polyak",
    "pooled_model",
    "privacy",
    "private_networked_admm",
    "private_subgradient",
    "problems",
    "range_localization",
    "rating_error",
    "ratings",
    "read_ratings",
    "robust_regression",
    "run",
    "run_on_chip",
    "run_until",
    "sample_losses",
    "scad_regularizers",
    "schedule",
    "schedules",
    "solvers",
    "spectral_start",
    "step_ratio",
    "theory_beta",
    "tree_signal_error",
    "trees",
    "trials",
    "typical_beta",
    "uniform_start",
    "user_means",
    "where_active",
    "with_loss",
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
