"""Checks of a problem: each capability that it has, against the others."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, finite_array
from fedjax_admm._run._checks import check_arrays
from fedjax_admm.capabilities import (
    ClippedGradients,
    DifferenceOfConvex,
    Gradients,
    Minimizers,
    Projection,
    Prox,
    SmoothedGradients,
    Subset,
    Values,
    has,
)
from fedjax_admm.testing import _demand as demand
from fedjax_admm.testing._shared import (
    NO_BRANCH,
    both_precisions,
    cast,
    doing,
    dtype_of,
    make,
    row_text,
    unfit,
)

_DRAWS = 256
_STEPS = (0.01, 1.0, 100.0)  # of the prox


class _Bench(NamedTuple):
    """A problem, with the points at which it is looked at."""

    problem: Any
    points: np.ndarray  # shape=(clients, dim)

    @property
    def name(self) -> str:
        return type(self.problem).__name__

    @property
    def clients(self) -> int:
        return self.problem.num_clients

    def can(self, *capabilities: type) -> bool:
        return has(self.problem, *capabilities)

    def usual(self) -> jax.Array:
        """Return the points in the dtype of the data."""
        return jnp.asarray(self.points, dtype_of(self.problem))

    def wide(self) -> tuple[Any, jax.Array]:
        """Return the problem and the points in float64."""
        return cast(self.problem, np.float64), jnp.asarray(self.points, np.float64)


def check_problem(
    problem: Any, *, points: ArrayLike | None = None, only: str | Sequence[str] | None = None
) -> None:
    """Check every capability that a problem has.

    Numbers are compared in float64, to which the floating leaves of the problem are cast.

    - `clients`: there is a capability at all; `start`, tree and graph fit the number of clients.
    - `dtype`: results have the shapes of `fedjax_admm.capabilities`, and the dtype of the data,
      float32 and float64; they are finite.
    - `apart`: a client's answer does not depend on the points of the others.
    - `gradients`: along random directions they lie between the one-sided difference quotients of
      the values, which are one number where the loss is smooth.
    - `minibatches`: with a key, the mean of many draws is near the full gradient, and the same key
      draws the same.
    - `clipped`: the data's part of a clipped gradient is no longer than the clip.
    - `prox`: `f(w) + |w - v|^2 / (2 step)` is nowhere lower among many points, nor after steps
      along its gradient; that of an inexact prox, which has a memory, is not above that of v. The
      memory keeps its structure, shapes and dtypes.
    - `take`: the problem of some clients returns their rows, draws from a key included.

    Args:
      problem: any.
      points: shape (clients, dim): where it is looked at; if None, `start` and standard normal
        numbers.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the problem has no clients or no models, or another argument does not fit.
    """
    clients = getattr(problem, "num_clients", None)
    if isinstance(problem, type) or not isinstance(clients, int | np.integer) or clients < 1:
        raise unfit("problem", problem, "an object with a whole number of clients, num_clients")
    check_arrays("problem", problem)
    start = getattr(problem, "start", None)
    if points is None:
        if start is None:
            raise InputError(
                f"must be given, because {type(problem).__name__} has no start",
                argument="points",
                remedy="give models, shape (clients, dim)",
            )
        here = np.asarray(start, float)
        first = np.broadcast_to(here, (int(clients), here.shape[-1]))
        points = first + np.random.default_rng(0).standard_normal(first.shape)
    points = np.asarray(finite_array("points", points, (int(clients), None)), float)
    make(_Bench(problem, points), PROBLEM_CHECKS, only)


@cache
def _ask(method: str) -> Any:
    """Return a method of a problem as a function that is compiled once per class."""
    return jax.jit(lambda problem, *arguments: getattr(problem, method)(*arguments))


@jax.jit
def _fresh_prox(problem, points, step):
    return problem.prox(points, step, problem.prox_memory(points))[0]


@jax.jit
def _many_gradients(problem, points, keys):
    return jax.vmap(lambda key: problem.gradients(points, key))(keys)


@jax.jit
def _costs(problem, candidates, points, step):
    """Return the objectives of the prox of candidates (tries, clients, dim), (tries, clients)."""
    values = jax.lax.map(problem.values, candidates)
    return values + jnp.sum((candidates - points[None]) ** 2, -1) / (2 * step)[None]


def _answers(b: _Bench) -> dict[str, Callable[[Any, jax.Array], Any]]:
    """Return the answers to points, row by row: name -> function(problem, points)."""

    def ask(method: str, *numbers: float) -> Callable[[Any, jax.Array], Any]:
        return lambda p, x: _ask(method)(p, x, *(_filled(x, number) for number in numbers))

    key = jax.random.key(3)
    answers = (
        ("values", Values, ask("values")),
        ("gradients", Gradients, ask("gradients")),
        ("gradients with a key", Gradients, lambda p, x: _ask("gradients")(p, x, key)),
        (
            "clipped_gradients",
            ClippedGradients,
            lambda p, x: _ask("clipped_gradients")(p, x, jnp.ones((), x.dtype)),
        ),
        ("smoothed_gradients", SmoothedGradients, ask("smoothed_gradients", 0.3)),
        ("prox", Prox, lambda p, x: _fresh_prox(p, x, _filled(x, 0.7))),
        ("prox_convex_part", DifferenceOfConvex, ask("prox_convex_part", 0.7)),
        ("prox_concave_part", DifferenceOfConvex, ask("prox_concave_part", 0.7, 1.9)),
        ("project", Projection, ask("project")),
    )
    return {name: answer for name, capability, answer in answers if b.can(capability)}


def _filled(points: jax.Array, number: float) -> jax.Array:
    """Return a number for every client, in the dtype of the points."""
    return jnp.full(points.shape[0], number, points.dtype)


def _clients(b: _Bench) -> None:
    demand.that(
        _answers(b) or b.can(Minimizers) or b.can(Subset),
        f"{b.name} can do nothing that a solver asks for; give it methods such as values, "
        "gradients and prox of fedjax_admm.capabilities.",
    )
    start = getattr(b.problem, "start", b.points)
    demand.that(
        start is None or start.shape in (b.points.shape, b.points.shape[1:]),
        f"{b.name}.start must be a model or a model of each client, but its shape is "
        f"{getattr(start, 'shape', None)}.",
    )
    for name, size in (("tree", "num_clients"), ("graph", "num_nodes")):
        number = getattr(getattr(b.problem, name, None), size, b.clients)
        sentence = f"{b.name} has {b.clients} clients, but its {name} has {number}."
        demand.that(number == b.clients, sentence)


def _dtype(b: _Bench) -> None:
    for dtype, problem, points in both_precisions(b.problem, b.points):
        for name, answer in _answers(b).items():
            where = f"{b.name}.{name} of {np.dtype(dtype).name} data"
            with doing(where, NO_BRANCH):
                result = answer(problem, points)
            demand.kind(where, result, points.shape[: 1 if name == "values" else 2], dtype)
            demand.finite(where, result)


def _apart(b: _Bench) -> None:
    points = b.usual()
    for name, answer in _answers(b).items():
        with doing(f"{b.name}.{name}"):
            here, there = answer(b.problem, points), answer(b.problem, points.at[0].add(0.5))
        where = f"{b.name}.{name} of other clients before and after the first point moved"
        remedy = "Row l of the points belongs to client l alone."
        demand.close(where, there[1:], here[1:], 1e-5, 1e-6, remedy)


def _gradients(b: _Bench) -> None:
    if not b.can(Values, Gradients):
        return
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        problem, points = b.wide()
        start = getattr(problem, "start", None)
        for x in (points, points if start is None else jnp.broadcast_to(start, points.shape)):
            with doing(f"{b.name}.gradients"):
                slopes = _ask("gradients")(problem, x)
            for _ in range(4):
                _between(b, problem, x, slopes, jnp.asarray(rng.standard_normal(x.shape)))


def _between(b: _Bench, problem, x, slopes, direction) -> None:
    """Demand a slope between the difference quotients of both sides."""
    width = 1e-6 * (1 + float(jnp.max(jnp.abs(x))))
    ends = [np.asarray(_ask("values")(problem, x + s * direction)) for s in (-width, 0.0, width)]
    sides = np.diff(ends, axis=0) / width
    low, high = sides.min(0), sides.max(0)
    slope = np.asarray(jnp.sum(slopes * direction, -1))
    room = 1e-5 * (1e-2 + np.abs(sides).max(0)) + 8e-16 * np.abs(ends).max() / width
    off = ~((slope >= low - room) & (slope <= high + room))
    k = int(np.argmax(off))
    demand.that(
        not off[k],
        f"{b.name}.gradients must be the derivative of values, but for client {k} at "
        f"{row_text(x[k])} along {row_text(direction[k])} it gives {slope[k]:.6g}, and the "
        f"values have between {low[k]:.6g} and {high[k]:.6g}. Is its sign wrong? Let jax.grad "
        "take it where you can.",
    )


def _minibatches(b: _Bench) -> None:
    if not b.can(Gradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        keys = jax.random.split(jax.random.key(3), _DRAWS)
        with doing(f"{b.name}.gradients with a key"):
            draws = np.asarray(_many_gradients(problem, points, keys))
            again = _ask("gradients")(problem, points, keys[0])
        where, remedy = f"{b.name}.gradients with one key, twice", "Draw everything from the key."
        demand.close(where, again, draws[0], 1e-9, 1e-9, remedy)
        exact, mean = np.asarray(_ask("gradients")(problem, points)), draws.mean(0)
        error = draws.std(0, ddof=1) / np.sqrt(_DRAWS)
        excess = np.abs(mean - exact) - 6 * error - 1e-8 * (1 + np.abs(exact))
        k, i = np.unravel_index(np.argmax(excess), excess.shape)
        demand.that(
            excess[k, i] <= 0,
            f"{b.name}.gradients with a key must be right in the mean, but entry {i} of client {k} "
            f"is {mean[k, i]:.6g} over {_DRAWS} draws, with the standard error {error[k, i]:.2g}, "
            f"and the full gradient has {exact[k, i]:.6g}; divide by the size of the batch and "
            "draw all samples equally often.",
        )


def _clipped(b: _Bench) -> None:
    if not b.can(ClippedGradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        clipped = _ask("clipped_gradients")
        with doing(f"{b.name}.clipped_gradients"):
            without_data = clipped(problem, points, jnp.asarray(1e-12))
        for clip in (1e-3, 0.1, 10.0):
            moved = clipped(problem, points, jnp.asarray(clip)) - without_data
            lengths = np.linalg.norm(np.asarray(moved), axis=-1)
            k = int(np.argmax(lengths))
            demand.that(
                lengths[k] <= clip * (1 + 1e-6) + 1e-9,
                f"{b.name}.clipped_gradients must clip the gradient of every sample to {clip:g} "
                f"before the mean, but the data of client {k} move it by {lengths[k]:.6g}.",
            )


def _prox(b: _Bench) -> None:
    if not b.can(Prox):
        return
    points = b.usual()
    with doing(f"{b.name}.prox"):
        memory = b.problem.prox_memory(points)
        _, new = _ask("prox")(b.problem, points, _filled(points, 0.7), memory)
    demand.same_form(f"{b.name}.prox", "a memory", memory, new)
    demand.stacked(f"The memory of clients of {b.name}.prox", memory, b.clients)
    if b.can(Values):
        with jax.enable_x64(True):
            for step in _STEPS:
                _minimises(b, step)


def _minimises(b: _Bench, number: float) -> None:
    problem, points = b.wide()
    memory, step = problem.prox_memory(points), _filled(points, number)
    exact, result = not jax.tree.leaves(memory), points
    for _ in range(1 if exact else 4):
        result, memory = _ask("prox")(problem, points, step, memory)
    demand.finite(f"{b.name}.prox at step {number:g}", result)
    tries = [points]
    if exact:
        rng = np.random.default_rng(2)
        tries += [0 * points, *(result + t * (points - result) for t in (1e-3, 0.1, 0.5, -0.1))]
        for scale in (1e-4, 1e-2, 1.0):
            tries += [result + scale * rng.standard_normal(points.shape) for _ in range(12)]
        if b.can(Gradients):
            slope = _ask("gradients")(problem, result) + (result - points) / step[:, None]
            tries += [result - length * slope for length in 10.0 ** np.arange(-5, 1)]
    costs = np.asarray(_costs(problem, jnp.stack([result, *tries]), points, step))
    lowest = np.nanmin(costs[1:], 0)
    k = int(np.argmax(costs[0] - lowest - 1e-9 * (1 + np.abs(lowest))))
    better = tries[int(np.nanargmin(costs[1:, k]))][k]
    demand.that(
        costs[0, k] <= lowest[k] + 1e-9 * (1 + abs(lowest[k])),
        f"{b.name}.prox must minimise f(w) + |w - v|^2 / (2 step), but for client {k} at v = "
        f"{row_text(points[k])} and step = {number:g} it returns {row_text(result[k])} with the "
        f"objective {costs[0, k]:.9g}, while {row_text(better)} has {lowest[k]:.9g}. Is the step "
        "multiplied where it should divide?",
    )


def _take(b: _Bench) -> None:
    if not b.can(Subset):
        return
    points = b.usual()
    some = jnp.asarray([b.clients - 1, 0][: b.clients], jnp.int32)
    with doing(f"{b.name}.take"):
        part = b.problem.take(some)
    demand.that(
        part.num_clients == some.size,
        f"{b.name}.take of {some.size} clients must be a problem with as many, but it has "
        f"{part.num_clients}.",
    )
    for name, answer in _answers(b).items():
        with doing(f"{b.name}.take(clients).{name}"):
            result = answer(part, points[some])
        remedy = "Draws must depend on a client's number among all." if "key" in name else ""
        where = f"{b.name}.take(clients).{name} and the rows of {name}"
        demand.close(where, result, answer(b.problem, points)[some], 1e-5, 1e-6, remedy)


PROBLEM_CHECKS = {
    "clients": _clients,
    "dtype": _dtype,
    "apart": _apart,
    "gradients": _gradients,
    "minibatches": _minibatches,
    "clipped": _clipped,
    "prox": _prox,
    "take": _take,
}
