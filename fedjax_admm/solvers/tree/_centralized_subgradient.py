r"""Normalised subgradient descent with all data in one place: the baseline of HFSAD.

    F(w) = (1 / N) sum_n f_n(w) + P(w),    g a subgradient of F (sign(0) = 0)
    w <- project(w - s_k g / ||g||),       k = 1, 2, ...

Step lengths s_k: any schedule (geometric and 1/sqrt(k) are usual), or Polyak's
`(F(w) - F*)_+ / ||g||`, which needs the optimal value.

Its iterates do not depend on where the data are: over a tree, one step costs one message up and one
down per link (the sum of subgradients, the model), and that is how its traffic is counted. Absent
clients' terms are left out of the sum of subgradients; P is the server's and stays, and Polyak's
F(w) counts everybody.

Where something happens to messages, the clients' subgradients are messages to the cloud; with m of
them heard, each g_n as it arrives,

    sum_n g_n  is  m Agg(g_n of those who are heard)

Nobody on the way can add up what has yet to be judged: edge servers pass every message on, and it
counts once per link, up and down.

Reference: D. Davis, D. Drusvyatskiy, K. J. MacPhee, C. Paquette, "Subgradient methods for sharp
weakly convex functions", Journal of Optimization Theory and Applications 179 (2018) 962-982,
Algorithms 1 (Polyak) and 2 (geometric).
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import number
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import Gradients, OnTree, Projection, Values, first_model
from fedjax_admm.kernels import safe_norm, safe_ratio
from fedjax_admm.messages import Exchange, check_exchange
from fedjax_admm.penalties import Penalty
from fedjax_admm.schedules import Schedule, ScheduleLike, as_schedule
from fedjax_admm.solvers._present import (
    Message,
    Post,
    check_regularizer,
    exchanged,
    open_post,
)
from fedjax_admm.traffic import Traffic


@short_repr
class CentralizedState(NamedTuple):
    """The one model."""

    model: jax.Array  # shape=(dim,)
    rounds: jax.Array  # shape=(), int32: steps taken
    post: Post | tuple[()] = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class ScheduledStep:
    """A step length that depends on the count alone."""

    schedule: Schedule  # of the step from 1

    def __call__(self, count, value, norm):
        """Return the length of step `count`."""
        return self.schedule(count)


@register_dataclass
@dataclass(frozen=True, eq=False)
class PolyakStep:
    """Polyak's step length `(F(w) - F*)_+ / ||g||`, at most what reaches F*; an oracle's."""

    optimum: jax.Array  # shape=(): F*

    def __call__(self, count, value, norm):
        """Return the length for a value of F and a norm of its subgradient."""
        return safe_ratio(jnp.maximum(value - self.optimum, 0), norm)


@register_dataclass
@dataclass(frozen=True, eq=False)
class CentralizedSubgradient:
    """Normalised subgradient descent; build it with `centralized_subgradient`."""

    step_length: ScheduledStep | PolyakStep
    regularizer: Penalty
    exchange: Exchange = field(default_factory=Exchange)  # of subgradients

    requires: ClassVar[tuple[type, ...]] = (OnTree, Values, Gradients, Projection)

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(clients,)`."""
        return (problem.num_clients,)

    def init(self, problem, key) -> CentralizedState:
        """Start at the problem's start."""
        start = first_model(problem)
        slopes = jnp.zeros((problem.num_clients, *start.shape), start.dtype)
        post = open_post(self.exchange, key, (slopes,), start)
        return CentralizedState(start, jnp.zeros((), jnp.int32), post)

    def step(self, problem, state: CentralizedState, turn) -> CentralizedState:
        """Return the state after one step."""
        count, model = state.rounds + 1, state.model
        copies = jnp.broadcast_to(model, (problem.num_clients, *model.shape))
        mean, post = self._mean(problem, state, turn, copies)
        penalty, slope = jax.value_and_grad(self.regularizer.value)(model)
        gradient = mean + slope
        norm = safe_norm(gradient)
        value = jnp.sum(problem.values(copies)) / problem.num_clients + penalty
        length = self.step_length(count, value, norm)
        moved = model - length * safe_ratio(gradient, norm)
        return CentralizedState(problem.project(moved), count, post)

    def _mean(self, problem, state: CentralizedState, turn, copies: jax.Array):
        """Return the sum of the subgradients that are heard over all clients, and the post."""
        if self.exchange.plain:
            terms = jnp.where(turn.active[:, None], problem.gradients(copies, turn.key), 0)
            return jnp.mean(terms, 0), ()

        def update(problem, clients, read, key):
            return clients, Message((problem.gradients(read, key),))

        everybody = turn._replace(selected=None)
        mail = exchanged(problem, everybody, self.exchange, state.post, (), state.model, update)
        return mail.values[0] / problem.num_clients, mail.post

    def estimate(self, state: CentralizedState) -> jax.Array:
        """Return the model, shape (dim,)."""
        return state.model

    def traffic(self, problem) -> Traffic:
        """Return dim numbers up (a sum of subgradients) and dim down (the model)."""
        dim = problem.start.shape[-1]
        return self.exchange.traffic(up=[(dim,)], down=[(dim,)])

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
    regularizer: Penalty | None = None,
    *,
    exchange: Exchange | None = None,
) -> CentralizedSubgradient:
    """Build `CentralizedSubgradient`.

    Args:
      step_length: a schedule of the step's number from 1, such as `geometric(1.0, 0.99)` or
        `power_decay(0.1, 0.5)`, an optax schedule or another function of the count; a number, which
        stands for a constant; or `polyak(optimum)`.
      regularizer: P; none if None. Its derivative at a kink of |t| is 0.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver.

    Raises:
      InputError: `step_length` is neither a schedule nor Polyak's rule, or a number that is not
        positive.
    """
    rule = step_length
    if not isinstance(rule, PolyakStep):
        rule = ScheduledStep(as_schedule("step_length", rule, above=0))
    return CentralizedSubgradient(rule, check_regularizer(regularizer), check_exchange(exchange))


def polyak(optimum: ArrayLike) -> PolyakStep:
    """Build `PolyakStep` from the optimal value F*.

    Raises:
      InputError: it is not a finite number.
    """
    return PolyakStep(number("optimum", optimum))
