"""Gradient steps of clients, and an estimate of their losses' curvature, which sets step sizes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._threefry import split
from fedjax_admm.capabilities import Gradients, Minibatches, Subset, has, slopes_and_states
from fedjax_admm.devices import row_of
from fedjax_admm.solvers._declared import open_fields

# The curvature is estimated on so many clients, evenly spaced.
_LOOKED_AT = 32
_POWER_STEPS = 20
_WALL = 10  # the curvature along a step over the one that it was made for, at most


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
    kept: Any = (),
) -> tuple[jax.Array, Any]:
    """Take gradient steps `w <- w - rate (g_l(w) + pull(w))`, each with its own minibatch.

    Args:
      problem: of the clients that take part.
      start: shape (clients, dim).
      key: is split, one key per step; a problem with minibatches takes them from it in turn.
      rate: shape () or (clients, 1).
      steps: how many.
      pull: what is added to the gradients, (clients, dim) to the same; nothing if None.
      kept: the states of the clients' losses, `kept_states`.

    Returns:
      Shape (clients, dim), and the states after the steps.
    """

    def step(carry: Any, key: Any) -> tuple[Any, None]:
        w, kept = carry
        slope, kept = slopes_and_states(problem, w, key, kept)
        return (w - rate * (slope if pull is None else slope + pull(w)), kept), None

    return jax.lax.scan(step, (start, kept), draws(problem, key, steps))[0]


def draws(problem: Any, key: jax.Array, steps: int) -> Any:
    """Return what `problem.gradients` takes for a key in each of some steps, stacked: (steps,)."""
    return problem.batches(key, steps) if has(problem, Minibatches) else split(key, steps)


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
        clients = np.asarray(looked_at(problem.num_clients), np.int32)  # known inside of a program
        problem, points = problem.take(clients), points[clients]
    return as_curvature(jnp.max(_curvatures(problem, points, _directions(points))))


def check_curvature_known(part: Any, problem: Any) -> None:
    """Check that the numbers of a solver that follow from the curvature can be found."""
    names = open_fields(part)
    if names and not has(problem, Gradients):
        lacks = f"is to be found from gradients, which {type(problem).__name__} lacks"
        raise InputError(lacks, names[0], "give it")


def looked_at(num_clients: int) -> list[int]:
    """Return the clients whose curvatures are estimated."""
    number = min(num_clients, _LOOKED_AT)
    return [i * num_clients // number for i in range(number)]


def row_alone(problem: Any, number: int) -> Any:
    """Return the problem of one client of a problem of all."""
    if has(problem, Subset):
        return problem.take(jnp.array([number], jnp.int32))
    return row_of(problem, number)


def curvature_alone(
    solver: Any, problem: Any, point: jax.Array, number: int, num_clients: int
) -> jax.Array:
    """Return what one client says of its curvature, shape (); 0 where nobody needs to know it.

    Args:
      solver: whose numbers may follow from it.
      problem: of this client alone.
      point: shape (dim,).
      number: which client it is, from 0.
      num_clients: how many there are in all.
    """
    clients = looked_at(num_clients) if has(problem, Subset) else list(range(num_clients))
    if not open_fields(solver) or number not in clients:
        return jnp.zeros((), point.dtype)
    return _own_curvature(problem, point, np.int32(clients.index(number)), len(clients))


def own_curvature(problem: Any, point: jax.Array, place: jax.Array, number: int) -> jax.Array:
    """Estimate one client's curvature; `as_curvature` makes the largest of all one of them.

    Args:
      problem: of this client alone.
      point: shape (dim,).
      place: of the client among those that are looked at, shape (), int32.
      number: how many are looked at.

    Returns:
      Shape ().
    """
    if not has(problem, Gradients):
        return jnp.ones((), point.dtype)
    directions = _directions(jnp.broadcast_to(point, (number, *point.shape)))
    return _curvatures(problem, point[None], directions[place][None])[0]


_own_curvature = jax.jit(own_curvature, static_argnums=3)


def as_curvature(largest: jax.Array) -> jax.Array:
    """Return the largest estimate, with a margin of 5 %; 1 where there is none."""
    found = 1.05 * largest
    usable = jnp.isfinite(found) & (found > jnp.sqrt(jnp.finfo(found.dtype).tiny))
    return jax.lax.stop_gradient(jnp.where(usable, found, 1))


def _directions(points: jax.Array) -> jax.Array:
    return jax.random.normal(jax.random.key(0), points.shape, points.dtype)


def _curvatures(problem: Any, points: jax.Array, direction: jax.Array) -> jax.Array:
    """Return each client's larger |eigenvalue| at its point and one step further, (clients,).

    A step behind a wall of the loss, `beyond`, tells nothing of what is before it.
    """
    at_start = _largest_eigenvalues(problem, points, direction)
    slopes = problem.gradients(points)
    usable = jnp.where(at_start > 0, at_start, 1)
    onwards = points - slopes / usable[:, None]
    there = _largest_eigenvalues(problem, onwards, direction)
    lost = beyond(points, onwards, slopes, problem.gradients(onwards), usable)
    return jnp.where(lost, at_start, jnp.maximum(at_start, there))


def beyond(
    w: jax.Array, moved: jax.Array, before: jax.Array, after: jax.Array, curvature: jax.Array
) -> jax.Array:
    """Return whether steps lead behind a wall of the loss, where none of what is known holds.

    The gradient there is not finite, or the curvature along the step s, over which the gradient
    changes by y, is more than ten times the one that s was made for:
    `<s, y> > 10 curvature ||s||^2`. Steps and changes that are noise of rounding tell nothing.

    Args:
      w: points, shape (clients, dim).
      moved: the points after the steps.
      before: the gradients at `w`.
      after: the gradients at `moved`.
      curvature: shape (clients,).

    Returns:
      Shape (clients,), bool.
    """
    w, moved, before, after, curvature = jax.lax.stop_gradient((w, moved, before, after, curvature))

    def size(x: jax.Array) -> jax.Array:
        return jnp.max(jnp.abs(x), -1, initial=0)

    step, bent, noise = moved - w, after - before, 8 * jnp.finfo(w.dtype).eps
    far = size(step)
    sure = (far > noise * size(w)) & ~(size(bent) <= noise * size(before))
    # Divided first: squares of the numbers on a wall overflow.
    far = jnp.where(sure, far, 1)[:, None]
    along = jnp.sum(step / far * (bent / far), -1)
    wall = ~(along <= _WALL * curvature * jnp.sum((step / far) ** 2, -1))
    return (sure & wall) | ~jnp.isfinite(size(after))


def _largest_eigenvalues(problem: Any, points: jax.Array, direction: jax.Array) -> jax.Array:
    """Return the largest |eigenvalue| of each client's Hessian, about, shape (clients,)."""

    def length(v: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(v * v, -1))

    def power(v: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        size = length(v)[:, None]
        v = v / jnp.where(size > 0, size, 1)
        bent = jax.jvp(problem.gradients, (points,), (v,))[1]
        return bent, length(bent)

    return jax.lax.scan(power, direction, length=_POWER_STEPS)[1][-1]
