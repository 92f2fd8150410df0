"""What solvers with one server share: work for those who take part alone, and steps of one's own.

A round of a star is: those who take part compute something from the server's model and from what
they keep, and send a message; everybody else keeps everything. Where the participation draws a
fixed number of clients (`Turn.selected`) and the problem can leave the others out (`Subset`), only
the drawn ones are computed: gather, update, scatter. The work of a round then grows with them and
not with all clients.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, one_line
from fedjax_admm.capabilities import Gradients, Minibatches, Subset, has
from fedjax_admm.participation import where_active
from fedjax_admm.penalties import Penalty, zero
from fedjax_admm.traffic import Traffic

Clients = TypeVar("Clients")
Message = TypeVar("Message")

# Of all clients so many, evenly spaced, are looked at for their curvature.
_LOOKED_AT = 32
_POWER_STEPS = 20


class StarSolver:
    """A solver whose clients talk to one server: dim numbers up and down per participant."""

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return `(clients,)`."""
        return (problem.num_clients,)

    def traffic(self, problem: Any) -> Traffic:
        """Return dim numbers up and dim down."""
        dim = problem.start.shape[-1]
        return Traffic(up=dim, down=dim)

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Return the number of active clients: one message each way."""
        return jnp.sum(active, dtype=jnp.int32)


def update_present(
    problem: Any,
    turn: Any,
    clients: Clients,
    update: Callable[[Any, Clients, jax.Array], tuple[Clients, Message]],
) -> tuple[Clients, Message, jax.Array]:
    """Update the clients that take part in a round, and add up what they send.

    Args:
      problem: of all clients.
      turn: of the round.
      clients: what every client keeps, a pytree of arrays (clients, ...).
      update: `(problem, clients, key) -> (clients, messages)` for the clients of the problem that
        it is given, which may be some of all; messages are a pytree of arrays (clients, ...). It
        may close over what the server sends, but over nothing with an axis of clients.

    Returns:
      What every client keeps after the round, the sum of the messages of those who took part (the
      axis of clients is gone), and how many they were, shape (), int32.
    """
    number = jnp.sum(turn.active, dtype=jnp.int32)
    if turn.selected is None or not has(problem, Subset):
        updated, messages = update(problem, clients, turn.key)
        silent = jax.tree.map(jnp.zeros_like, messages)
        heard = where_active(turn.active, messages, silent)
        kept = where_active(turn.active, updated, clients)
    else:
        drawn = turn.selected
        some = jax.tree.map(lambda leaf: leaf[drawn], clients)
        updated, heard = update(problem.take(drawn), some, turn.key)
        kept = jax.tree.map(lambda leaf, new: leaf.at[drawn].set(new), clients, updated)
    return kept, jax.tree.map(lambda leaf: jnp.sum(leaf, 0), heard), number


def copies(model: jax.Array, problem: Any) -> jax.Array:
    """Return a model (dim,) for every client of a problem, shape (clients, dim)."""
    return jnp.broadcast_to(model, (problem.num_clients, *model.shape))


def descend(
    problem: Any,
    start: jax.Array,
    key: jax.Array,
    rate: jax.Array,
    steps: int,
    pull: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """Take gradient steps `w <- w - rate (g_l(w) + pull(w))`, each with its own minibatch.

    Args:
      problem: of the clients that take part.
      start: shape (clients, dim).
      key: is split, one key per step; a problem with minibatches takes them from it in turn.
      rate: shape () or (clients, 1).
      steps: how many.
      pull: what is added to the gradients, (clients, dim) to the same; nothing if None.

    Returns:
      Shape (clients, dim).
    """

    def step(w: jax.Array, key: Any) -> tuple[jax.Array, None]:
        slope = problem.gradients(w, key)
        return w - rate * (slope if pull is None else slope + pull(w)), None

    draws = (
        problem.batches(key, steps) if has(problem, Minibatches) else jax.random.split(key, steps)
    )
    return jax.lax.scan(step, start, draws)[0]


def check_regularizer(regularizer: Any) -> Penalty:
    """Return what the server adds to the mean of the losses, no penalty if it is None.

    Raises:
      InputError: it has no prox.
    """
    if regularizer is None:
        return zero()
    if isinstance(regularizer, type) or not hasattr(regularizer, "prox"):
        raise InputError(
            f"must be a penalty such as penalties.l1(0.1), but it is {one_line(regularizer)}",
            argument="regularizer",
            value=regularizer,
        )
    return regularizer


def largest_curvature(problem: Any, points: jax.Array) -> jax.Array:
    """Estimate the largest curvature of the clients' losses, by which steps are chosen.

    It is the largest |eigenvalue| that 20 steps of the power method find in the Hessians of up to
    32 clients (evenly spaced ones, where the problem can leave the others out), at the given points
    and one gradient step further, with a margin of 5 %. It is an estimate and no bound: the
    curvature elsewhere may be larger. Where there is none, as for piecewise linear losses, it is 1,
    and so it is where a problem has a prox and no gradients.

    Args:
      problem: with gradients, if it has them.
      points: shape (clients, dim) or (dim,): models near which the solver begins.

    Returns:
      Shape ().
    """
    points = copies(points, problem) if points.ndim == 1 else points
    if not has(problem, Gradients):
        return jnp.ones((), points.dtype)
    if has(problem, Subset) and problem.num_clients > _LOOKED_AT:
        spaced = [i * problem.num_clients // _LOOKED_AT for i in range(_LOOKED_AT)]
        looked_at = jnp.asarray(spaced, jnp.int32)
        problem, points = problem.take(looked_at), points[looked_at]
    at_start = _curvatures(problem, points)
    slopes = problem.gradients(points)
    onwards = points - slopes / jnp.where(at_start > 0, at_start, 1)[:, None]
    found = 1.05 * jnp.max(jnp.maximum(at_start, _curvatures(problem, onwards)))
    usable = jnp.isfinite(found) & (found > jnp.sqrt(jnp.finfo(found.dtype).tiny))
    return jax.lax.stop_gradient(jnp.where(usable, found, 1))


def _curvatures(problem: Any, points: jax.Array) -> jax.Array:
    """Return the largest |eigenvalue| of each client's Hessian, about, shape (clients,)."""
    direction = jax.random.normal(jax.random.key(0), points.shape, points.dtype)

    def length(v: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(v * v, -1))

    def power(v: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        size = length(v)[:, None]
        v = v / jnp.where(size > 0, size, 1)
        bent = jax.jvp(problem.gradients, (points,), (v,))[1]
        return bent, length(bent)

    return jax.lax.scan(power, direction, length=_POWER_STEPS)[1][-1]
