"""Checks of a problem: each capability that it has, against the others."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, finite_array, typed_key
from fedjax_admm._run import check_arrays
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
)
from fedjax_admm.testing._problem_losses import LOSS_CHECKS, Bench, ask, filled
from fedjax_admm.testing._shared import (
    both_precisions,
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    make,
    unfit,
)

_ROWS = "Row l of the points belongs to client l alone."


@jax.jit
def _fresh_prox(problem, points, step):
    return problem.prox(points, step, problem.prox_memory(points))[0]


def _answers(b: Bench) -> dict[str, Callable[[Any, jax.Array], Any]]:
    """Return the answers to points, row by row: name -> function(problem, points)."""
    answers: dict[str, tuple[type, Callable[[Any, jax.Array], Any]]] = {
        "values": (Values, ask("values")),
        "gradients": (Gradients, ask("gradients")),
        "gradients with a key": (Gradients, lambda p, x: ask("gradients")(p, x, b.key)),
        "clipped_gradients": (
            ClippedGradients,
            lambda p, x: ask("clipped_gradients")(p, x, jnp.ones((), x.dtype)),
        ),
        "smoothed_gradients": (
            SmoothedGradients,
            lambda p, x: ask("smoothed_gradients")(p, x, filled(x, 0.3)),
        ),
        "prox": (Prox, lambda p, x: _fresh_prox(p, x, filled(x, 0.7))),
        "prox_convex_part": (
            DifferenceOfConvex,
            lambda p, x: ask("prox_convex_part")(p, x, filled(x, 0.7)),
        ),
        "prox_concave_part": (
            DifferenceOfConvex,
            lambda p, x: ask("prox_concave_part")(p, x, filled(x, 0.7), filled(x, 1.9)),
        ),
        "project": (Projection, ask("project")),
    }
    return {name: answer for name, (capability, answer) in answers.items() if b.can(capability)}


def _clients(b: Bench) -> None:
    demand(
        _answers(b) or b.can(Minimizers) or b.can(Subset),
        f"{b.name} can do nothing that a solver asks for; give it methods such as values, "
        "gradients and prox of fedjax_admm.capabilities.",
    )
    leaves = jax.tree.leaves(b.problem)
    demand(leaves, f"{b.name} is a pytree without leaves; register its data as leaves.")
    start, dim = getattr(b.problem, "start", None), b.points.shape[-1]
    demand(
        start is None or start.shape in ((dim,), (b.clients, dim)),
        f"{b.name}.start must have shape ({dim},), or ({b.clients}, {dim}) with a model of each "
        f"client, but its shape is {getattr(start, 'shape', None)}.",
    )
    for name, size in (("tree", "num_clients"), ("graph", "num_nodes")):
        number = getattr(getattr(b.problem, name, None), size, b.clients)
        sentence = f"{b.name} has {b.clients} clients, but its {name} has {number}."
        demand(number == b.clients, sentence)


def _dtype(b: Bench) -> None:
    for dtype, problem, points in both_precisions(b.problem, b.points):
        for name, answer in _answers(b).items():
            where = f"{b.name}.{name} of {np.dtype(dtype).name} data"
            with doing(where):
                result = answer(problem, points)
            shape = points.shape[:1] if name == "values" else points.shape
            demand_kind(where, result, shape, dtype)
            demand_finite(where, result)


def _apart(b: Bench) -> None:
    points = b.usual()
    for name, answer in _answers(b).items():
        with doing(f"{b.name}.{name}"):
            here, there = answer(b.problem, points), answer(b.problem, points.at[0].add(0.5))
        where = f"The answers of {b.name}.{name} for clients other than the first, before and after"
        demand_close(f"{where} the first point moved,", there[1:], here[1:], 1e-5, 1e-6, _ROWS)


def _take(b: Bench) -> None:
    if not b.can(Subset):
        return
    points = b.usual()
    some = jnp.asarray([b.clients - 1, 0][: b.clients], jnp.int32)
    with doing(f"{b.name}.take"):
        part = b.problem.take(some)
    demand(
        part.num_clients == some.size,
        f"{b.name}.take of {some.size} clients must be a problem with as many, but it has "
        f"{part.num_clients}.",
    )
    for name, answer in _answers(b).items():
        with doing(f"{b.name}.take(clients).{name}"):
            result = answer(part, points[some])
        remedy = "Draws must depend on a client's number among all." if "key" in name else ""
        where = f"{b.name}.take(clients).{name} and the rows of {name}"
        demand_close(where, result, answer(b.problem, points)[some], 1e-5, 1e-6, remedy)


def _transforms(b: Bench) -> None:
    points = b.usual()
    both = jnp.stack([points, points + 0.1])
    eps = float(jnp.finfo(points.dtype).eps)
    for name, answer in _answers(b).items():
        with doing(f"{b.name}.{name} under jax.vmap"):
            mapped = jax.jit(jax.vmap(partial(answer, b.problem)))(both)
        # Programs of whole rows and of stacks round differently, an inexact prox many times over.
        loose = (1e4 if "prox" in name or "smoothed" in name else 1e2) * eps
        alone = jnp.stack([answer(b.problem, x) for x in both])
        size = 1 + float(jnp.max(jnp.abs(alone)))
        where = f"{b.name}.{name} with and without jax.vmap"
        demand_close(where, mapped, alone, loose, loose * size)
        if name in ("values", "gradients"):
            with doing(f"{b.name}.{name} without jax.jit"):
                plain = getattr(b.problem, name)(points)
            where = f"{b.name}.{name} with and without jax.jit"
            demand_close(where, alone[0], plain, loose, loose * size)


PROBLEM_CHECKS = {
    "clients": _clients,
    "dtype": _dtype,
    "apart": _apart,
    **LOSS_CHECKS,
    "take": _take,
    "transforms": _transforms,
}


def check_problem(
    problem: Any,
    *,
    points: ArrayLike | None = None,
    key: jax.Array | None = None,
    steps: Sequence[float] = (0.01, 1.0, 100.0),
    exact: bool | None = None,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check every capability that a problem has.

    Numbers are compared in float64, to which the floating leaves of the problem are cast.

    - `clients`: it is a pytree of arrays, `start`, tree and graph fit the number of clients, and
      there is a capability at all.
    - `dtype`: results have the shapes of `fedjax_admm.capabilities`, and the dtype of the data,
      float32 and float64; they are finite.
    - `apart`: a client's answer does not depend on the points of the others.
    - `gradients`: along random directions they lie between the one-sided difference quotients of
      the values, which are one number where the loss is smooth.
    - `minibatches`: with a key, the mean of many draws is near the full gradient, and the same key
      draws the same.
    - `clipped`: the data's part of a clipped gradient is no longer than the clip.
    - `prox`: `f(w) + |w - v|^2 / (2 step)` is nowhere lower among many points, nor after steps
      along its gradient; that of an inexact prox, which has a memory, is not above that of v.
    - `memory`: the prox keeps the structure, shapes and dtypes of its memory.
    - `take`: the problem of some clients returns their rows, draws from a key included.
    - `transforms`: the same numbers under `jax.jit` and `jax.vmap`.

    Args:
      problem: any.
      points: shape (clients, dim): where it is looked at; if None, `start` and standard normal
        numbers.
      key: a typed key, for minibatches; `jax.random.key(3)` if None.
      steps: of the prox, positive.
      exact: whether the prox is exact; if None, whether it has no memory.
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
    make(Bench(problem, points, key, exact, tuple(map(float, steps))), PROBLEM_CHECKS, only)
