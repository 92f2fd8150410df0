"""Checks of clients' losses: values, gradients and proximal maps, against each other."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.capabilities import (
    ClippedGradients,
    Gradients,
    Prox,
    Values,
    has,
)
from fedjax_admm.testing._shared import (
    cast,
    demand,
    demand_close,
    demand_finite,
    demand_same_form,
    demand_stacked,
    doing,
    dtype_of,
    row_text,
)

_DRAWS = 256


class Bench(NamedTuple):
    """A problem, with the points at which it is looked at."""

    problem: Any
    points: np.ndarray  # shape=(clients, dim)
    key: jax.Array
    exact: bool | None
    steps: tuple[float, ...]

    @property
    def name(self) -> str:
        """Return the name of the problem in sentences."""
        return type(self.problem).__name__

    @property
    def clients(self) -> int:
        """Return the number of clients."""
        return self.problem.num_clients

    def can(self, *capabilities: type) -> bool:
        """Return whether the problem has capabilities."""
        return has(self.problem, *capabilities)

    def usual(self) -> jax.Array:
        """Return the points in the dtype of the data."""
        return jnp.asarray(self.points, dtype_of(self.problem))

    def wide(self) -> tuple[Any, jax.Array]:
        """Return the problem and the points in float64."""
        return cast(self.problem, np.float64), jnp.asarray(self.points, np.float64)


@cache
def ask(method: str) -> Any:
    """Return a method of a problem as a function that is compiled once per class."""
    return jax.jit(lambda problem, *arguments: getattr(problem, method)(*arguments))


@jax.jit
def _many_gradients(problem, points, keys):
    return jax.vmap(lambda key: problem.gradients(points, key))(keys)


@jax.jit
def _costs(problem, candidates, points, step):
    """Return the objectives of the prox of candidates (tries, clients, dim), (tries, clients)."""
    values = jax.lax.map(problem.values, candidates)
    return values + jnp.sum((candidates - points[None]) ** 2, -1) / (2 * step)[None]


def filled(points: jax.Array, number: float) -> jax.Array:
    """Return a number for every client, in the dtype of the points."""
    return jnp.full(points.shape[0], number, points.dtype)


def _gradients(b: Bench) -> None:
    if not b.can(Values, Gradients):
        return
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        problem, points = b.wide()
        places = [points]
        if getattr(problem, "start", None) is not None:
            places.append(jnp.broadcast_to(problem.start, points.shape))
        for x in places:
            with doing(f"{b.name}.gradients"):
                slopes = ask("gradients")(problem, x)
            for _ in range(4):
                _between(b, problem, x, slopes, jnp.asarray(rng.standard_normal(x.shape)))


def _between(b: Bench, problem, x, slopes, direction) -> None:
    """Demand a slope between the difference quotients of both sides."""
    width = 1e-6 * (1 + float(jnp.max(jnp.abs(x))))
    ends = [np.asarray(ask("values")(problem, x + s * direction)) for s in (-width, 0.0, width)]
    behind, ahead = (ends[1] - ends[0]) / width, (ends[2] - ends[1]) / width
    low, high = np.minimum(behind, ahead), np.maximum(behind, ahead)
    slope = np.asarray(jnp.sum(slopes * direction, -1))
    rounding = 8e-16 * max(np.max(np.abs(end)) for end in ends) / width
    room = 1e-5 * (1e-2 + np.maximum(np.abs(low), np.abs(high))) + rounding
    off = ~((slope >= low - room) & (slope <= high + room))
    if np.any(off):
        k = int(np.argmax(off))
        raise AssertionError(
            f"{b.name}.gradients must be the derivative of values, but for client {k} at "
            f"{row_text(x[k])} along {row_text(direction[k])} it gives {slope[k]:.6g}, and the "
            f"values have between {low[k]:.6g} and {high[k]:.6g}. Is its sign wrong? Let jax.grad "
            "take it where you can."
        )


def _minibatches(b: Bench) -> None:
    if not b.can(Gradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        keys = jax.random.split(b.key, _DRAWS)
        with doing(f"{b.name}.gradients with a key"):
            draws = np.asarray(_many_gradients(problem, points, keys))
            again = ask("gradients")(problem, points, keys[0])
        where, remedy = f"{b.name}.gradients with one key, twice", "Draw everything from the key."
        demand_close(where, again, draws[0], 1e-9, 1e-9, remedy)
        exact = np.asarray(ask("gradients")(problem, points))
        apart = np.abs(draws.mean(0) - exact)
        error = draws.std(0, ddof=1) / np.sqrt(_DRAWS)
        room = 6 * error + 1e-8 * (1 + np.abs(exact))
        place = np.unravel_index(np.argmax(apart - room), apart.shape)
        demand(
            np.all(apart <= room),
            f"{b.name}.gradients with a key must be right in the mean, but entry {place[1]} of "
            f"client {place[0]} is {draws.mean(0)[place]:.6g} over {_DRAWS} draws, with the "
            f"standard error {error[place]:.2g}, and the full gradient has {exact[place]:.6g}; "
            "divide by the size of the batch and draw all samples equally often.",
        )


def _clipped(b: Bench) -> None:
    if not b.can(ClippedGradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        clipped = ask("clipped_gradients")
        with doing(f"{b.name}.clipped_gradients"):
            without_data = clipped(problem, points, jnp.asarray(1e-12))
        for clip in (1e-3, 0.1, 10.0):
            moved = clipped(problem, points, jnp.asarray(clip)) - without_data
            lengths = np.linalg.norm(np.asarray(moved), axis=-1)
            k = int(np.argmax(lengths))
            demand(
                lengths[k] <= clip * (1 + 1e-6) + 1e-9,
                f"{b.name}.clipped_gradients must clip the gradient of every sample to {clip:g} "
                f"before the mean, but the data of client {k} move it by {lengths[k]:.6g}.",
            )


def _prox(b: Bench) -> None:
    if not b.can(Prox, Values):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.prox_memory"):
            memory = problem.prox_memory(points)
        exact = not jax.tree.leaves(memory) if b.exact is None else b.exact
        for number in b.steps:
            step = filled(points, number)
            with doing(f"{b.name}.prox at step {number:g}"):
                result, new = ask("prox")(problem, points, step, memory)
                for _ in range(0 if exact else 3):
                    result, new = ask("prox")(problem, points, step, new)
            demand_finite(f"{b.name}.prox at step {number:g}", result)
            others = [points, *(_others(b, problem, points, step, result) if exact else [])]
            costs = np.asarray(_costs(problem, jnp.stack([result, *others]), points, step))
            lowest = np.nanmin(costs[1:], 0)
            excess = costs[0] - lowest - 1e-9 * (1 + np.abs(lowest))
            k = int(np.argmax(excess))
            better = others[int(np.nanargmin(costs[1:, k]))][k]
            demand(
                excess[k] <= 0,
                f"{b.name}.prox must minimise f(w) + |w - v|^2 / (2 step), but for client {k} at "
                f"v = {row_text(points[k])} and step = {number:g} it returns "
                f"{row_text(result[k])} with the objective {costs[0, k]:.9g}, while "
                f"{row_text(better)} has {lowest[k]:.9g}. Is the step multiplied where it should "
                "divide? An inexact prox is checked with exact=False.",
            )


def _others(b: Bench, problem, points, step, result) -> list[jax.Array]:
    """Return points that must not be better than an exact prox."""
    rng = np.random.default_rng(2)
    tries = [0 * points]
    tries += [result + t * (points - result) for t in (1e-3, 1e-2, 0.1, 0.5, -1e-2, -0.1)]
    for scale in (1e-4, 1e-2, 1.0):
        tries += [result + scale * rng.standard_normal(points.shape) for _ in range(12)]
    if b.can(Gradients):
        slope = ask("gradients")(problem, result) + (result - points) / step[:, None]
        tries += [result - length * slope for length in 10.0 ** np.arange(-5, 1)]
    return tries


def _memory(b: Bench) -> None:
    if not b.can(Prox):
        return
    points = b.usual()
    with doing(f"{b.name}.prox"):
        memory = b.problem.prox_memory(points)
        _, new = ask("prox")(b.problem, points, filled(points, 0.7), memory)
    demand_same_form(f"{b.name}.prox", "a memory", memory, new)
    demand_stacked(f"The memory of clients of {b.name}.prox", memory, b.clients)


LOSS_CHECKS = {
    "gradients": _gradients,
    "minibatches": _minibatches,
    "clipped": _clipped,
    "prox": _prox,
    "memory": _memory,
}
