"""The table through which every solver goes: a new solver adds one line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

import fedjax_admm as fa
from fedjax_admm import schedules


@dataclass(frozen=True)
class Case:
    """A solver, a problem that it can solve, and what of its state belongs to each client."""

    solver: Callable[[], Any]
    problem: Callable[[], Any]
    clients: Callable[[Any], Any]  # state -> pytree stacked over the axes of the mask


def localization() -> fa.RangeLocalization:
    return fa.draw_localization(jax.random.key(11), fa.cauchy_noise(1.0), clients=6)


SOLVERS = {
    "FSMDM": Case(lambda: fa.fsmdm(), localization, lambda state: state.client),
    "FSMDM tuned, 3 local": Case(
        lambda: fa.fsmdm("tuned", local_updates=3), localization, lambda state: state.client
    ),
    "FederatedSubgradient": Case(
        lambda: fa.federated_subgradient(), localization, lambda state: ()
    ),
    "FederatedSubgradient 100/k": Case(
        lambda: fa.federated_subgradient(schedules.power_decay(100.0, 1.0)),
        localization,
        lambda state: (),
    ),
}
