"""What is asked of a problem: programs that are compiled once for all problems of a class."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import (
    ClippedGradients,
    DifferenceOfConvex,
    Gradients,
    Minimizers,
    Parameters,
    Projection,
    Prox,
    SmoothedGradients,
    Subset,
    Values,
    has,
)
from fedjax_admm.testing._shared import (
    cast,
)

KNOWN = (
    Values,
    Gradients,
    ClippedGradients,
    SmoothedGradients,
    Prox,
    DifferenceOfConvex,
    Minimizers,
    Projection,
    Subset,
    Parameters,
)


@short_repr
class Bench(NamedTuple):
    """A problem, and where it is looked at."""

    problem: Any
    points: np.ndarray  # shape=(clients, dim)
    key: jax.Array
    exact: bool | None
    steps: tuple[float, ...]

    @property
    def name(self) -> str:
        """Return what the problem is called in messages."""
        return type(self.problem).__name__

    @property
    def clients(self) -> int:
        """Return the number of clients."""
        return self.problem.num_clients

    def can(self, *capabilities: type) -> bool:
        """Return whether the problem has capabilities."""
        return has(self.problem, *capabilities)

    def wide(self) -> tuple[Any, jax.Array]:
        """Return the problem and the points in float64."""
        return cast(self.problem, np.float64), jnp.asarray(self.points, np.float64)


# Compiled once for all problems of a class.


@jax.jit
def ask_values(problem, points):
    """Return the values."""
    return problem.values(points)


@jax.jit
def ask_gradients(problem, points, key=None):
    """Return the gradients."""
    return problem.gradients(points, key)


@jax.jit
def ask_many_gradients(problem, points, keys):
    """Return the gradients of many draws, (draws, clients, dim)."""
    return jax.vmap(lambda key: problem.gradients(points, key))(keys)


@jax.jit
def ask_clipped(problem, points, clip):
    """Return the clipped gradients."""
    return problem.clipped_gradients(points, clip)


@jax.jit
def ask_smoothed(problem, points, mu):
    """Return the smoothed gradients."""
    return problem.smoothed_gradients(points, mu)


@jax.jit
def ask_prox(problem, points, step, memory):
    """Return the prox and its memory."""
    return problem.prox(points, step, memory)


@jax.jit
def ask_convex_part(problem, points, step):
    """Return the prox of the convex part."""
    return problem.prox_convex_part(points, step)


@jax.jit
def ask_concave_part(problem, points, step, mu):
    """Return the prox of the concave part."""
    return problem.prox_concave_part(points, step, mu)


@jax.jit
def ask_fresh_prox(problem, points, step):
    """Return the prox that begins at the points."""
    return problem.prox(points, step, problem.prox_memory(points))[0]


@jax.jit
def ask_costs(problem, candidates, points, step):
    """Return the objectives of the prox of candidates (tries, clients, dim), (tries, clients)."""
    values = jax.lax.map(problem.values, candidates)
    return values + jnp.sum((candidates - points[None]) ** 2, -1) / (2 * step)[None]


def answers(b: Bench) -> dict[str, Callable[[Any, jax.Array], Any]]:
    """Return what a problem says at points, row by row: name -> function(problem, points)."""
    # Their own module-level programs serve again where other checks ask the same.
    found: dict[str, Callable[[Any, jax.Array], Any]] = {}
    if b.can(Values):
        found["values"] = ask_values
    if b.can(Gradients):
        found["gradients"] = ask_gradients
        found["gradients with a key"] = lambda p, x: ask_gradients(p, x, b.key)
    if b.can(ClippedGradients):
        found["clipped_gradients"] = lambda p, x: ask_clipped(p, x, jnp.ones((), x.dtype))
    if b.can(SmoothedGradients):
        found["smoothed_gradients"] = lambda p, x: ask_smoothed(p, x, full(x, 0.3))
    if b.can(Prox):
        found["prox"] = lambda p, x: ask_fresh_prox(p, x, full(x, 0.7))
    if b.can(DifferenceOfConvex):
        found["prox_convex_part"] = lambda p, x: ask_convex_part(p, x, full(x, 0.7))
        found["prox_concave_part"] = lambda p, x: ask_concave_part(p, x, full(x, 0.7), full(x, 1.9))
    if b.can(Projection):
        found["project"] = lambda p, x: p.project(x)
    return found


def full(points: jax.Array, number: float) -> jax.Array:
    """Return a number for every client, in the dtype of the points."""
    return jnp.full(points.shape[0], number, points.dtype)


def is_exact(b: Bench, memory: Any) -> bool:
    """Return whether the prox is exact: as was said, or because it has no memory."""
    return not jax.tree.leaves(memory) if b.exact is None else b.exact


def told(numbers: Any) -> str:
    """Write a row of numbers."""
    return np.array2string(np.asarray(numbers), precision=4, separator=", ", threshold=6)
