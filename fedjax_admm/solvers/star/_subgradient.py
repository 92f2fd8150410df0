r"""Federated subgradient descent: the baseline DSRL of robust localisation.

Round k = 1, 2, ...: every active client returns one subgradient step from the server's model, an
inactive one counts with the model itself, and the server takes the plain mean over all clients:

    w <- (1 / L) sum_l (w - eta_k u_l active_l) ,    u_l a subgradient of f_l at w

Reference: R. Mirzaeifard, N. K. D. Venkategowda, S. Werner, "Robust Networked Federated Learning
for Localization", APSIPA ASC 2023, pp. 1193-1198, arXiv:2308.16737, in its federated form.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.capabilities import Gradients, OnStar, first_model
from fedjax_admm.schedules import Schedule, ScheduleLike, as_schedule, power_decay, sqrt_decay
from fedjax_admm.traffic import Traffic


class FederatedSubgradientState(NamedTuple):
    """The server's model; the clients keep nothing."""

    server: jax.Array  # shape=(dim,)
    rounds: jax.Array  # shape=(), int32: rounds done


@register_dataclass
@dataclass(frozen=True, eq=False)
class FederatedSubgradient:
    """Federated subgradient descent; build it with `federated_subgradient`."""

    step_size: Schedule  # eta_k in metres, of the global round k from 1

    requires: ClassVar[tuple[type, ...]] = (OnStar, Gradients)

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(clients,)`."""
        return (problem.num_clients,)

    def init(self, problem, key) -> FederatedSubgradientState:
        """Start at the problem's start."""
        return FederatedSubgradientState(first_model(problem), jnp.zeros((), jnp.int32))

    def step(self, problem, state: FederatedSubgradientState, turn) -> FederatedSubgradientState:
        """Return the state after one global round."""
        count = state.rounds + 1
        copies = jnp.broadcast_to(state.server, (problem.num_clients, *state.server.shape))
        direction = jnp.where(turn.active[:, None], problem.gradients(copies, turn.key), 0)
        return FederatedSubgradientState(
            state.server - self.step_size(count) * jnp.mean(direction, 0), count
        )

    def estimate(self, state: FederatedSubgradientState) -> jax.Array:
        """Return the server's model, shape (dim,)."""
        return state.server

    def traffic(self, problem) -> Traffic:
        """Return dim numbers up and dim down."""
        dim = problem.start.shape[-1]
        return Traffic(up=dim, down=dim)

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Return the number of active clients: one message each way."""
        return jnp.sum(active, dtype=jnp.int32)


def federated_subgradient(step_size: ScheduleLike | None = None) -> FederatedSubgradient:
    """Build `FederatedSubgradient`.

    Args:
      step_size: eta_k in metres, a schedule, an optax schedule or another function of the count,
        or a number, which stands for a constant; `sqrt_decay(16.0)`, tuned for 21 sensors in a cube
        of 60 m, if None. `subgradient_steps` has the others with which the method is compared.

    Returns:
      The solver.

    Raises:
      InputError: `step_size` is not a schedule, or a number that is not positive.
    """
    chosen = sqrt_decay(16.0) if step_size is None else step_size
    return FederatedSubgradient(as_schedule("step_size", chosen, above=0))


def subgradient_steps() -> dict[str, Schedule]:
    """Return the step sizes with which the method is compared, by name: two tuned, one not.

    All are of one class, so that an experiment can stack them into one program.
    """
    return {
        "16 k^-0.5": power_decay(16.0, 0.5),
        "100 k^-1": power_decay(100.0, 1.0),
        "1 k^-0.5": power_decay(1.0, 0.5),
    }
