"""Checks of a problem: all that it says its clients can do, against each other."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, finite_array, listed, typed_key
from fedjax_admm._run_checks import check_arrays, difference
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
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    dtype_of,
    make,
    unfit,
)

_KNOWN = (
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
_STEPS = (0.01, 1.0, 100.0)
_DRAWS = 256
_ROWS = "Row l of the points belongs to client l alone."


class _Bench(NamedTuple):
    problem: Any
    points: np.ndarray  # shape=(clients, dim)
    key: jax.Array
    exact: bool | None
    steps: tuple[float, ...]

    @property
    def name(self) -> str:
        return type(self.problem).__name__

    @property
    def clients(self) -> int:
        return self.problem.num_clients

    def can(self, *capabilities: type) -> bool:
        return has(self.problem, *capabilities)

    def wide(self) -> tuple[Any, jax.Array]:
        """Return the problem and the points in float64."""
        return cast(self.problem, np.float64), jnp.asarray(self.points, np.float64)


def check_problem(
    problem: Any,
    *,
    points: ArrayLike | None = None,
    key: jax.Array | None = None,
    steps: Sequence[float] = _STEPS,
    exact: bool | None = None,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check every capability that a problem has; what it has not is not looked at.

    Numbers are compared in float64, to which the floating leaves of the problem are cast.

    - `clients`: it is a pytree of arrays, `start`, tree and graph fit the number of clients, and
      there is a capability at all.
    - `dtype`: results have the shapes of `fedjax_admm.capabilities`, and the dtype of the data,
      float32 and float64; they are finite.
    - `apart`: what a client returns does not depend on the points of the others.
    - `gradients`: along random directions they lie between the one-sided difference quotients of
      the values, which are one number where the loss is smooth.
    - `minibatches`: with a key, the mean of many draws is near the full gradient, and the same key
      draws the same.
    - `clipped`: the data's part of a clipped gradient is no longer than the clip.
    - `smoothed`: with little smoothing they are nearly the gradients.
    - `prox`: `f(w) + |w - v|^2 / (2 step)` is nowhere lower among many points, nor after steps
      along its gradient; of an inexact prox, which has a memory, it is not above that of v.
    - `memory`: the prox keeps the structure, shapes and dtypes of its memory.
    - `difference`: the proximal map of the convex part is monotone, as every exact one is.
    - `minimizers`: no point nearby is better.
    - `projection`: projecting twice is projecting once.
    - `take`: the problem of some clients returns their rows, draws from a key included.
    - `parameters`: every number of a model is in its parameters, stacked models in stacked ones.
    - `transforms`: the same numbers under `jax.jit` and `jax.vmap`.

    Args:
      problem: any.
      points: shape (clients, dim): where it is looked at; `start` and standard normal numbers if
        None.
      key: a typed key, for minibatches; `jax.random.key(3)` if None.
      steps: of the prox, positive.
      exact: whether the prox is exact; whether it has no memory if None.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the problem has no clients or no models, or another argument does not fit.
    """
    clients = getattr(problem, "num_clients", None)
    if isinstance(problem, type) or not isinstance(clients, int | np.integer) or clients < 1:
        raise unfit("problem", problem, "an object with a whole number of clients, num_clients")
    check_arrays("problem", problem)
    key = jax.random.key(3) if key is None else key
    typed_key(key)
    if not all(np.isfinite(step) and step > 0 for step in steps):
        raise unfit("steps", steps, "positive")
    start = getattr(problem, "start", None)
    if points is None and start is None:
        raise InputError(
            f"must be given, because {type(problem).__name__} has no start",
            argument="points",
            remedy="give models, shape (clients, dim)",
        )
    if points is None:
        first = np.broadcast_to(np.asarray(start, float), (clients, start.shape[-1]))
        points = first + np.random.default_rng(0).standard_normal(first.shape)
    seen = np.asarray(finite_array("points", points, (int(clients), None)), float)
    make(_Bench(problem, seen, key, exact, tuple(map(float, steps))), _CHECKS, only)


# Compiled once for all problems of a class.


@jax.jit
def _values(problem, points):
    return problem.values(points)


@jax.jit
def _gradients(problem, points, key=None):
    return problem.gradients(points, key)


@jax.jit
def _many_gradients(problem, points, keys):
    return jax.vmap(lambda key: problem.gradients(points, key))(keys)


@jax.jit
def _clipped(problem, points, clip):
    return problem.clipped_gradients(points, clip)


@jax.jit
def _smoothed(problem, points, mu):
    return problem.smoothed_gradients(points, mu)


@jax.jit
def _prox(problem, points, step, memory):
    return problem.prox(points, step, memory)


@jax.jit
def _convex_part(problem, points, step):
    return problem.prox_convex_part(points, step)


@jax.jit
def _concave_part(problem, points, step, mu):
    return problem.prox_concave_part(points, step, mu)


@jax.jit
def _fresh_prox(problem, points, step):
    return problem.prox(points, step, problem.prox_memory(points))[0]


@jax.jit
def _costs(problem, candidates, points, step):
    """Return the objectives of the prox of candidates (tries, clients, dim), (tries, clients)."""
    values = jax.lax.map(problem.values, candidates)
    return values + jnp.sum((candidates - points[None]) ** 2, -1) / (2 * step)[None]


def _answers(b: _Bench) -> dict[str, Callable[[Any, jax.Array], Any]]:
    """Return what a problem says at points, row by row: name -> function(problem, points)."""
    # Their own module-level programs serve again where other checks ask the same.
    found: dict[str, Callable[[Any, jax.Array], Any]] = {}
    if b.can(Values):
        found["values"] = _values
    if b.can(Gradients):
        found["gradients"] = _gradients
        found["gradients with a key"] = lambda p, x: _gradients(p, x, b.key)
    if b.can(ClippedGradients):
        found["clipped_gradients"] = lambda p, x: _clipped(p, x, jnp.ones((), x.dtype))
    if b.can(SmoothedGradients):
        found["smoothed_gradients"] = lambda p, x: _smoothed(p, x, _full(x, 0.3))
    if b.can(Prox):
        found["prox"] = lambda p, x: _fresh_prox(p, x, _full(x, 0.7))
    if b.can(DifferenceOfConvex):
        found["prox_convex_part"] = lambda p, x: _convex_part(p, x, _full(x, 0.7))
        found["prox_concave_part"] = lambda p, x: _concave_part(p, x, _full(x, 0.7), _full(x, 1.9))
    if b.can(Projection):
        found["project"] = lambda p, x: p.project(x)
    return found


def _full(points: jax.Array, number: float) -> jax.Array:
    return jnp.full(points.shape[0], number, points.dtype)


# --- the checks -----------------------------------------------------------------------------------


def _clients(b: _Bench) -> None:
    demand(
        any(b.can(capability) for capability in _KNOWN),
        f"{b.name} can do nothing that a solver asks for; give it methods such as "
        f"{listed(['values', 'gradients', 'prox'])} of fedjax_admm.capabilities.",
    )
    demand(
        len(jax.tree.leaves(b.problem)) > 0,
        f"{b.name} is a pytree without leaves; register its data as leaves.",
    )
    start = getattr(b.problem, "start", None)
    dim = b.points.shape[-1]
    if start is not None:
        demand(
            start.shape in ((dim,), (b.clients, dim)),
            f"{b.name}.start must have shape ({dim},), or ({b.clients}, {dim}) with a model of "
            f"each client, but its shape is {start.shape}.",
        )
    for name, size in (("tree", "num_clients"), ("graph", "num_nodes")):
        base = getattr(b.problem, name, None)
        if base is not None:
            found = getattr(base, size)
            demand(
                found == b.clients,
                f"{b.name} has {b.clients} clients, but its {name} has {found}.",
            )


def _dtype(b: _Bench) -> None:
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            problem, points = cast(b.problem, dtype), jnp.asarray(b.points, dtype)
            for name, function in _answers(b).items():
                where = f"{b.name}.{name} of {np.dtype(dtype).name} data"
                with doing(where):
                    found = function(problem, points)
                shape = points.shape[:1] if name == "values" else points.shape
                demand_kind(where, found, shape, dtype)
                demand_finite(where, found)


def _apart(b: _Bench) -> None:
    if b.clients < 2:
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    other = points.at[0].add(0.5)
    for name, function in _answers(b).items():
        with doing(f"{b.name}.{name}"):
            here, there = function(b.problem, points), function(b.problem, other)
        where = f"What clients other than the first return of {b.name}.{name} before and after "
        demand_close(f"{where}the first point moved", there[1:], here[1:], 1e-5, 1e-6, _ROWS)


def _gradient(b: _Bench) -> None:
    if not b.can(Values, Gradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        rng = np.random.default_rng(1)
        places = [points]
        if getattr(problem, "start", None) is not None:
            places.append(jnp.broadcast_to(problem.start, points.shape))
        for x in places:
            with doing(f"{b.name}.gradients"):
                slopes = _gradients(problem, x)
            for _ in range(4):
                direction = jnp.asarray(rng.standard_normal(x.shape))
                _between(b, problem, x, slopes, direction)


def _between(b: _Bench, problem, x, slopes, direction) -> None:
    width = 1e-6 * (1 + float(jnp.max(jnp.abs(x))))
    values = [np.asarray(_values(problem, x + s * direction)) for s in (-width, 0.0, width)]
    behind, ahead = (values[1] - values[0]) / width, (values[2] - values[1]) / width
    low, high = np.minimum(behind, ahead), np.maximum(behind, ahead)
    slope = np.asarray(jnp.sum(slopes * direction, -1))
    rounding = 8e-16 * max(np.max(np.abs(value)) for value in values) / width
    room = 1e-5 * (1e-2 + np.maximum(np.abs(low), np.abs(high))) + rounding
    off = ~((slope >= low - room) & (slope <= high + room))
    if np.any(off):
        k = int(np.argmax(off))
        smooth = np.abs(ahead[k] - behind[k]) <= 2e-4 * (1e-2 + np.abs(high[k]))
        wanted = f"{ahead[k]:.6g}" if smooth else f"between {low[k]:.6g} and {high[k]:.6g}"
        hint = " Is its sign wrong?" if abs(slope[k] + high[k]) < 1e-2 * abs(high[k]) else ""
        raise AssertionError(
            f"{b.name}.gradients must be the derivative of values, but for client {k} at "
            f"{_row(x[k])} along {_row(direction[k])} it gives {slope[k]:.6g}, and the values have "
            f"{wanted}.{hint} Let jax.grad take it where you can."
        )


def _minibatches(b: _Bench) -> None:
    if not b.can(Gradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        keys = jax.random.split(b.key, _DRAWS)
        with doing(f"{b.name}.gradients with a key"):
            draws = np.asarray(_many_gradients(problem, points, keys))
            again = _gradients(problem, points, keys[0])
        demand_close(
            f"{b.name}.gradients with one key, twice",
            again,
            draws[0],
            1e-9,
            1e-9,
            "All that is drawn must come from the key.",
        )
        full = np.asarray(_gradients(problem, points))
        apart = np.abs(draws.mean(0) - full)
        error = draws.std(0, ddof=1) / np.sqrt(_DRAWS)
        room = 6 * error + 1e-8 * (1 + np.abs(full))
        place = np.unravel_index(np.argmax(apart - room), apart.shape)
        demand(
            np.all(apart <= room),
            f"{b.name}.gradients with a key must be right in the mean, but entry {place[1]} of "
            f"client {place[0]} is {draws.mean(0)[place]:.6g} over {_DRAWS} draws, with the "
            f"standard error {error[place]:.2g}, and the full gradient has {full[place]:.6g}; "
            "divide by the size of the batch and draw all samples equally often.",
        )


def _clip(b: _Bench) -> None:
    if not b.can(ClippedGradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.clipped_gradients"):
            none = _clipped(problem, points, jnp.asarray(1e-12))
            for clip in (1e-3, 0.1, 10.0):
                found = _clipped(problem, points, jnp.asarray(clip))
                lengths = np.linalg.norm(np.asarray(found - none), axis=-1)
                k = int(np.argmax(lengths))
                demand(
                    lengths[k] <= clip * (1 + 1e-6) + 1e-9,
                    f"{b.name}.clipped_gradients must clip the gradient of every sample to "
                    f"{clip:g} before the mean, but the data of client {k} move it by "
                    f"{lengths[k]:.6g}.",
                )
            most = [_clipped(problem, points, jnp.asarray(clip)) for clip in (1e12, 1e13)]
        where = f"{b.name}.clipped_gradients with clips of 1e12 and 1e13"
        demand_close(where, *most, 1e-6, 1e-9)


def _smoothing(b: _Bench) -> None:
    if not b.can(SmoothedGradients, Gradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.smoothed_gradients"):
            found = _smoothed(problem, points, _full(points, 1e-6))
        exact = _gradients(problem, points)
        lengths = np.linalg.norm(np.asarray(found - exact), axis=-1)
        room = 1e-2 * (1 + np.linalg.norm(np.asarray(exact), axis=-1))
        k = int(np.argmax(lengths - room))
        demand(
            lengths[k] <= room[k],
            f"{b.name}.smoothed_gradients with mu = 1e-6 must be nearly the gradients, but for "
            f"client {k} at {_row(points[k])} they are {_row(found[k])} and {_row(exact[k])}.",
        )


def _is_exact(b: _Bench, memory: Any) -> bool:
    return not jax.tree.leaves(memory) if b.exact is None else b.exact


def _proximal(b: _Bench) -> None:
    if not b.can(Prox, Values):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.prox_memory"):
            memory = problem.prox_memory(points)
        for number in b.steps:
            step = _full(points, number)
            with doing(f"{b.name}.prox at step {number:g}"):
                found, kept = _prox(problem, points, step, memory)
                if not _is_exact(b, memory):
                    for _ in range(3):
                        found, kept = _prox(problem, points, step, kept)
            demand_finite(f"{b.name}.prox at step {number:g}", found)
            others = _others(b, problem, points, step, found, memory)
            costs = np.asarray(_costs(problem, jnp.stack([found, *others]), points, step))
            lowest = np.nanmin(costs[1:], 0)
            excess = costs[0] - lowest - 1e-9 * (1 + np.abs(lowest))
            k = int(np.argmax(excess))
            better = others[int(np.nanargmin(costs[1:, k]))][k]
            demand(
                excess[k] <= 0,
                f"{b.name}.prox must minimise f(w) + |w - v|^2 / (2 step), but for client {k} at "
                f"v = {_row(points[k])} and step = {number:g} it returns {_row(found[k])} with the "
                f"objective {costs[0, k]:.9g}, while {_row(better)} has {lowest[k]:.9g}. Is the "
                "step multiplied where it should divide? An inexact prox is checked with "
                "exact=False.",
            )


def _others(b: _Bench, problem, points, step, found, memory) -> list[jax.Array]:
    """Return the points which the prox must not be worse than."""
    if not _is_exact(b, memory):
        return [points]
    rng = np.random.default_rng(2)
    tries = [points, 0 * points]
    tries += [found + t * (points - found) for t in (1e-3, 1e-2, 0.1, 0.5, -1e-2, -0.1)]
    tries += [
        found + scale * jnp.asarray(rng.standard_normal(points.shape))
        for scale in (1e-4, 1e-2, 1.0)
        for _ in range(12)
    ]
    if b.can(Gradients):
        slope = _gradients(problem, found) + (found - points) / step[:, None]
        tries += [found - length * slope for length in 10.0 ** np.arange(-5, 1)]
    return tries


def _memory(b: _Bench) -> None:
    if not b.can(Prox):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    with doing(f"{b.name}.prox"):
        memory = b.problem.prox_memory(points)
        _, kept = _prox(b.problem, points, _full(points, 0.7), memory)
    found = difference(memory, kept)
    demand(
        not found,
        f"{b.name}.prox must return a memory with the structure, shapes and dtypes of the one that "
        f"it is given, but {found}.",
    )
    for path, leaf in jax.tree.leaves_with_path(memory):
        demand(
            leaf.shape[:1] == (b.clients,),
            f"The memory of {b.name}.prox must be stacked over clients, but "
            f"{jax.tree_util.keystr(path)} has shape {leaf.shape}.",
        )


def _difference(b: _Bench) -> None:
    if not b.can(DifferenceOfConvex):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        if b.can(Prox) and not _is_exact(b, problem.prox_memory(points)):
            return
        rng = np.random.default_rng(3)
        for number in (0.1, 2.0):
            step = _full(points, number)
            other = points + jnp.asarray(rng.standard_normal(points.shape))
            with doing(f"{b.name}.prox_convex_part"):
                ends = [_convex_part(problem, x, step) for x in (points, other)]
            along = np.asarray(jnp.sum((ends[0] - ends[1]) * (points - other), -1))
            k = int(np.argmin(along))
            demand(
                along[k] >= -1e-9,
                f"A proximal map is monotone, but between {_row(points[k])} and {_row(other[k])} "
                f"{b.name}.prox_convex_part of client {k} at step {number:g} moves against the "
                f"difference of the points: their product is {along[k]:.6g}.",
            )


def _minimal(b: _Bench) -> None:
    if not b.can(Minimizers, Values):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.minimizers"):
            found = jax.jit(lambda p: p.minimizers())(problem)
        demand_kind(f"{b.name}.minimizers", found, points.shape, points.dtype)
        rng = np.random.default_rng(4)
        best = np.asarray(_values(problem, found))
        for scale in (1e-3, 0.1, 1.0):
            for _ in range(8):
                other = found + scale * jnp.asarray(rng.standard_normal(points.shape))
                values = np.asarray(_values(problem, other))
                worse = best - values - 1e-6 * (1 + np.abs(best))
                k = int(np.argmax(worse))
                demand(
                    worse[k] <= 0,
                    f"{b.name}.minimizers must minimise each client's loss, but client {k} has the "
                    f"value {best[k]:.9g} there and {values[k]:.9g} at {_row(other[k])}.",
                )


def _projection(b: _Bench) -> None:
    if not b.can(Projection):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    with doing(f"{b.name}.project"):
        once = b.problem.project(3 * points)
        twice = b.problem.project(once)
    demand_close(f"{b.name}.project twice and once", twice, once, 1e-5, 1e-6)


def _take(b: _Bench) -> None:
    if not b.can(Subset):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    some = jnp.asarray([b.clients - 1, 0][: b.clients], jnp.int32)
    with doing(f"{b.name}.take"):
        part = b.problem.take(some)
    demand(
        part.num_clients == some.size,
        f"{b.name}.take of {some.size} clients must be a problem with as many, but it has "
        f"{part.num_clients}.",
    )
    for name, function in _answers(b).items():
        with doing(f"{b.name}.take(clients).{name}"):
            found = function(part, points[some])
        remedy = "Draws must depend on a client's number among all." if "key" in name else ""
        where = f"{b.name}.take(clients).{name} and the rows of {name}"
        demand_close(where, found, function(b.problem, points)[some], 1e-5, 1e-6, remedy)


def _parameters(b: _Bench) -> None:
    if not b.can(Parameters):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    with doing(f"{b.name}.parameters"):
        stacked = b.problem.parameters(points)
    for path, leaf in jax.tree.leaves_with_path(stacked):
        demand(
            leaf.shape[:1] == (b.clients,),
            f"{b.name}.parameters of stacked models must be stacked, but "
            f"{jax.tree_util.keystr(path)} has shape {leaf.shape}.",
        )
    leaves = jax.tree.leaves(stacked)
    flat = np.concatenate([np.asarray(leaf).reshape(b.clients, -1) for leaf in leaves], 1)
    for k in range(b.clients):
        missing = np.setdiff1d(np.asarray(points[k]), flat[k].astype(points.dtype))
        demand(
            not missing.size,
            f"{b.name}.parameters must hold every number of a model, but for client {k} "
            f"{missing[:1]} is nowhere in it.",
        )
    if flat.shape[1] == points.shape[1]:
        alone = b.problem.parameters(points[0])
        first = jax.tree.map(lambda leaf: leaf[0], stacked)
        where = f"{b.name}.parameters of one model and of the first of a stack"
        demand_close(where, alone, first, 0.0, 0.0)


def _transforms(b: _Bench) -> None:
    points = jnp.asarray(b.points, dtype_of(b.problem))
    both = jnp.stack([points, points + 0.1])
    eps = float(jnp.finfo(points.dtype).eps)
    for name, function in _answers(b).items():
        with doing(f"{b.name}.{name} under jax.vmap"):
            mapped = jax.jit(jax.vmap(partial(function, b.problem)))(both)
        # Programs of whole rows and of stacks round differently, an inexact prox many times over.
        loose = 1e4 if "prox" in name or "smoothed" in name else 1e2
        for found, x in zip(mapped, both, strict=True):
            wanted = function(b.problem, x)
            size = 1 + float(jnp.max(jnp.abs(wanted)))
            where = f"{b.name}.{name} with and without jax.vmap"
            demand_close(where, found, wanted, loose * eps, loose * eps * size)
    for name in ("values", "gradients"):
        if hasattr(b.problem, name) and name in _answers(b):
            with doing(f"{b.name}.{name} without jax.jit"):
                plain = getattr(b.problem, name)(points)
            wanted = _answers(b)[name](b.problem, points)
            size = 1 + float(jnp.max(jnp.abs(wanted)))
            where = f"{b.name}.{name} with and without jax.jit"
            demand_close(where, wanted, plain, 1e2 * eps, 1e2 * eps * size)


def _row(numbers: Any) -> str:
    return np.array2string(np.asarray(numbers), precision=4, separator=", ", threshold=6)


_CHECKS = {
    "clients": _clients,
    "dtype": _dtype,
    "apart": _apart,
    "gradients": _gradient,
    "minibatches": _minibatches,
    "clipped": _clip,
    "smoothed": _smoothing,
    "prox": _proximal,
    "memory": _memory,
    "difference": _difference,
    "minimizers": _minimal,
    "projection": _projection,
    "take": _take,
    "parameters": _parameters,
    "transforms": _transforms,
}
PROBLEM_CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the checks that `check_problem` makes."""
