"""The solvers of the field for smooth losses, with the settings that are tried for each.

Units are those of losses with a curvature of about one tenth (`LINEAR`) or one (`NETWORK`).
"""

from collections.abc import Callable
from typing import Any

from fedjax_admm.penalties import Penalty, l1
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import (
    consensus_admm,
    fed_admm,
    fed_avg,
    fed_dr,
    fed_dyn,
    fed_pd,
    fed_plt,
    fed_prox,
    fed_subgradient,
    fsmdm,
    local_gradient,
    prox_skip,
    scaffold,
    tree_link,
)
from fedjax_admm.trials.experiments.peers._roster import ONLY, Recipe, Setting, between

STEPS = 5
"""Local gradient steps per round, for all methods that take several."""


# Each takes the two tuned numbers of its method, and the server's regulariser.


def with_steps(builder: Callable[..., Any]) -> Callable[[Setting, Penalty], Any]:
    """Return a recipe whose clients take local gradient steps of a tuned rate."""

    def build(setting: Setting, regularizer: Penalty) -> Any:
        local = local_gradient(setting.second, steps=STEPS)
        return builder(setting.first, local=local, regularizer=regularizer)

    return build


def averaging(setting: Setting, regularizer: Penalty) -> Any:
    """Build FedAvg."""
    return fed_avg(setting.first, local_steps=STEPS, regularizer=regularizer)


def with_variates(setting: Setting, regularizer: Penalty) -> Any:
    """Build SCAFFOLD."""
    return scaffold(
        setting.second, local_steps=STEPS, server_step=setting.first, regularizer=regularizer
    )


def skipping(setting: Setting, regularizer: Penalty) -> Any:
    """Build ProxSkip."""
    return prox_skip(setting.second, probability=setting.first, regularizer=regularizer)


def subgradient(setting: Setting, regularizer: Penalty) -> Any:
    """Build federated subgradient descent."""
    steps = power_decay(setting.first, setting.second)
    return fed_subgradient(steps, regularizer=regularizer)


def smoothing(setting: Setting, regularizer: Penalty, beta: float | None = None) -> Any:
    """Build FSMDM, from whose losses nothing is subtracted: the copy z only holds x back a little.

    The smoothing beta is omega / d if None.
    """
    d, omega = setting.first, setting.second
    c, beta = 0.1 * d, omega / d if beta is None else beta
    return fsmdm(c=c, d=d, alpha=2 / c, beta=beta, omega=omega, regularizer=regularizer)


def _consensus(setting: Setting, regularizer: Penalty) -> Any:
    sigma, omega = setting.first, setting.second
    link = tree_link(sigma, omega / sigma, l1(omega))
    return consensus_admm(link, regularizer, client_update="linearized")


def smooth_recipes(curvature: float) -> dict[str, Recipe]:
    """Return all star methods with their grids, for losses of about this curvature."""
    rates = tuple(rate / curvature for rate in (0.3, 1.0, 2.0))
    penalties = tuple(penalty * curvature for penalty in (0.003, 0.01, 0.03, 0.1))
    lengths = tuple(length / curvature for length in (3.0, 10.0, 30.0, 100.0))
    slow = tuple(rate / curvature for rate in (0.3, 1.0, 3.0, 10.0))
    sigmas = tuple(sigma * curvature for sigma in (0.1, 0.3, 1.0, 3.0))
    return {
        "FedAvg": Recipe(averaging, between(0.01 / curvature, 3 / curvature, 12), ONLY, STEPS),
        "FedProx": Recipe(with_steps(fed_prox), penalties, rates, STEPS),
        "SCAFFOLD": Recipe(with_variates, (1.0, 2.0, 4.0, 8.0), rates, STEPS),
        "ProxSkip": Recipe(skipping, (0.3, 0.6, 1.0), slow, 1),
        "FedADMM": Recipe(with_steps(fed_admm), penalties, rates, STEPS),
        "FedDR": Recipe(with_steps(fed_dr), lengths, rates, STEPS, STEPS),
        "FedPD": Recipe(with_steps(fed_pd), lengths, rates, STEPS),
        "FedDyn": Recipe(with_steps(fed_dyn), penalties, rates, STEPS),
        "Fed-PLT": Recipe(with_steps(fed_plt), lengths, rates, STEPS),
        "subgradient": Recipe(
            subgradient, between(1 / curvature, 100 / curvature, 6), (0.0, 0.5), 1
        ),
        "FSMDM": Recipe(smoothing, sigmas, (0.1, 0.3, 1.0), STEPS, sums=True),
        "consensus ADMM": Recipe(_consensus, sigmas, (0.3, 1.0, 3.0), 1, sums=True),
    }
