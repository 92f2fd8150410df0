"""Normalised subgradient descent with all data in one place: the baseline of HFSAD.

    F(w) = (1 / N) sum_n f_n(w) + P(w),    g a subgradient of F (sign(0) = 0)
    w <- project(w - s_k g / ||g||),       k = 1, 2, ...

The step length s_k is a schedule (geometric and 1/sqrt(k) are usual), or Polyak's
`(F(w) - F*)_+ / ||g||`, which needs the optimal value F*.

The iterates do not depend on where the data are. The traffic is that of a tree: per step one
message up (a sum of subgradients) and one down (the model) on every link. Absent clients are left
out of the sum of subgradients and of F(w) in Polyak's step; P always counts.

With an exchange, the clients' subgradients are messages to the cloud, and m times the aggregate of
the m that arrive replaces their sum. Edge servers then forward every message instead of adding them
up, since the cloud aggregates; a message counts once per link.

Reference: D. Davis, D. Drusvyatskiy, K. J. MacPhee, C. Paquette, "Subgradient methods for sharp
weakly convex functions", Journal of Optimization Theory and Applications 179 (2018) 962-982,
Algorithms 1 (Polyak) and 2 (geometric).
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import build, declared, number
from fedjax_admm.capabilities import Gradients, OnTree, Projection, Values
from fedjax_admm.kernels import safe_norm, safe_ratio
from fedjax_admm.schedules import Schedule, ScheduleLike, as_schedule
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.traffic import Traffic


class CentralServer(NamedTuple):
    """The one model, and the steps that it has taken."""

    model: jax.Array  # shape=(dim,): w
    rounds: jax.Array  # shape=(), int32


@roles.pytree_dataclass
class ScheduledStep:
    """A step length that depends on the count alone."""

    schedule: Schedule  # of the step from 1

    def beside(self, problem, models):
        """Return nothing: no client sends its loss."""

    def __call__(self, count, value, norm):
        """Return the length of step `count`."""
        return self.schedule(count)


@roles.pytree_dataclass
class PolyakStep:
    """Polyak's step length `(F(w) - F*)_+ / ||g||`, at most what reaches F*; an oracle's."""

    optimum: jax.Array = declared(number)  # shape=(): F*

    def beside(self, problem, models):
        """Return f_n(w), shape (clients,)."""
        return problem.values(models)

    def __call__(self, count, value, norm):
        """Return the length for a value of F and a norm of its subgradient."""
        return safe_ratio(jnp.maximum(value - self.optimum, 0), norm)


def _step_rule(name: str, value: Any) -> Any:
    if isinstance(value, PolyakStep):
        return value
    return ScheduledStep(as_schedule(name, value, above=0))


@roles.pytree_dataclass
class CentralizedSubgradient(roles.StarSolver):
    """Normalised subgradient descent; build it with `centralized_subgradient`."""

    step_length: ScheduledStep | PolyakStep = declared(_step_rule)
    regularizer: roles.Penalty = roles.regularized()
    exchange: roles.Exchange = roles.exchanged()  # of subgradients

    requires: ClassVar[tuple[type, ...]] = (OnTree, Values, Gradients, Projection)

    def start_server(self, model, num_clients) -> CentralServer:
        """Start at the first model."""
        return CentralServer(model, jnp.zeros((), jnp.int32))

    def broadcast(self, server: CentralServer) -> jax.Array:
        """Send the model."""
        return server.model

    def start_clients(self, problem, models, key):
        """Start without subgradients."""
        beside = self.step_length.beside(problem, models)
        return (), roles.RoundMessage((jnp.zeros_like(models),), beside=beside)

    def client(self, problem, clients, model, key):
        """Say g_n, and f_n(w) where it is asked for."""
        beside = self.step_length.beside(problem, model)
        return (), roles.RoundMessage((problem.gradients(model, key),), beside=beside)

    def server(self, server: CentralServer, received: roles.Received, info) -> CentralServer:
        """Return the model after a step, before it is projected."""
        model, count = server.model, server.rounds + 1
        penalty, slope = jax.value_and_grad(self.regularizer.value)(model)
        gradient = received.sums[0] / received.num_clients + slope
        norm = safe_norm(gradient)
        value = penalty if received.beside is None else received.beside + penalty
        length = self.step_length(count, value, norm)
        return CentralServer(model - length * safe_ratio(gradient, norm), count)

    def model(self, server: CentralServer) -> jax.Array:
        """Return the model."""
        return server.model

    def rounds(self, state: roles.StarState) -> jax.Array:
        """Return the steps taken, shape (), int32."""
        return state.server.rounds

    def step(self, problem, state: roles.StarState, info) -> roles.StarState:
        """Return the state after one step and the projection."""
        state = super().step(problem, state, info)
        projected = problem.project(state.server.model)
        return state._replace(server=state.server._replace(model=projected))

    def traffic(self, problem) -> Traffic:
        """Return dim numbers up (a sum of subgradients) and down; Polyak's F(w) is an oracle's."""
        shape = (problem.start.shape[-1],)
        return self.exchange.traffic(up=[shape], down=[shape])

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count one message per active client, and one per server below the root.

        Where something happens to messages: one per link between an active client and the root.
        """
        if not self.exchange.plain:
            sizes = problem.tree.level_sizes
            links = np.repeat(np.arange(1, len(sizes) + 1, dtype=np.int32), sizes)
            way = jnp.asarray(links)[problem.tree.client_parents]
            return jnp.sum(jnp.where(active, way, 0), dtype=jnp.int32)
        return jnp.sum(active, dtype=jnp.int32) + (problem.tree.num_servers - 1)


def centralized_subgradient(
    step_length: ScheduleLike | PolyakStep,
    regularizer: roles.Penalty | None = None,
    *,
    exchange: roles.Exchange | None = None,
) -> CentralizedSubgradient:
    """Build `CentralizedSubgradient`.

    Args:
      step_length: a schedule of the step's number from 1, such as `geometric(1.0, 0.99)` or
        `power_decay(0.1, 0.5)`, an optax schedule or another function of the count; a number, which
        stands for a constant; or `polyak(optimum)`.
      regularizer: P; none if None. Its derivative at a kink of |t| is 0.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    return build(CentralizedSubgradient, **locals())


def polyak(optimum: ArrayLike) -> PolyakStep:
    """Build `PolyakStep` from the optimal value F*."""
    return build(PolyakStep, **locals())
