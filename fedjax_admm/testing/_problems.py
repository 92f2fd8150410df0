"""Checks of a problem: each capability that it has, against the others."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import capabilities as can
from fedjax_admm.testing import _demand as demand
from fedjax_admm.testing._demand import Only, ask

_DRAWS = 256
# Answer -> the capability, and what is asked besides the points, from ones for every client.
_ANSWERS = {
    "values": (can.Values, lambda ones: ()),
    "gradients": (can.Gradients, lambda ones: ()),
    "gradients with a key": (can.Gradients, lambda ones: (jax.random.key(3),)),
    "clipped_gradients": (can.ClippedGradients, lambda ones: (ones[0],)),
    "smoothed_gradients": (can.SmoothedGradients, lambda ones: (0.3 * ones,)),
    "prox": (can.Prox, lambda ones: (0.7 * ones,)),
    "prox_convex_part": (can.DifferenceOfConvex, lambda ones: (0.7 * ones,)),
    "prox_concave_part": (can.DifferenceOfConvex, lambda ones: (0.7 * ones, 1.9 * ones)),
    "project": (can.Projection, lambda ones: ()),
}


class _Bench(NamedTuple):
    name: str
    problem: Any  # its floats are float64
    points: jax.Array  # shape=(clients, dim), float64

    @property
    def answers(self) -> list[str]:
        return [name for name, (kind, _) in _ANSWERS.items() if can.has(self.problem, kind)]


def check_problem(problem: Any, *, points: ArrayLike | None = None, only: Only = None) -> None:
    """Check every capability that a problem has.

    Numbers are compared in float64, to which the floating leaves of the problem are cast.

    - `dtype`: there is a capability at all; results have the shapes of `fedjax_admm.capabilities`,
      and the dtype of the data, float32 and float64; they are finite.
    - `apart`: a client's answer does not depend on the points of the others; the problem of some
      clients, which `take` returns, has their answers, draws from a key included.
    - `gradients`: along random directions they lie between the one-sided difference quotients of
      the values, which are one number where the loss is smooth.
    - `minibatches`: with a key, the mean of many draws is near the full gradient.
    - `clipped`: the data's part of a clipped gradient is no longer than the clip.
    - `prox`: `f(w) + |w - v|^2 / (2 step)` is nowhere lower among many points, nor after steps
      along its gradient; that of an inexact prox, which has a memory, is not above that of v. The
      memory keeps its structure, shapes and dtypes.

    Args:
      problem: any.
      points: shape (clients, dim): where it is looked at; if None, `start` and standard normal
        numbers. A problem without `start` needs them.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the problem has no number of clients, or is no pytree, or `only` names no check.
    """
    wanted = "an object with the number of its clients, num_clients"
    demand.fits("problem", problem, wanted, hasattr(problem, "num_clients"))
    if points is None:
        start, rng = np.asarray(problem.start), np.random.default_rng(0)
        points = start + rng.standard_normal((problem.num_clients, start.shape[-1]))
    with jax.enable_x64(True):
        bench = _Bench(demand.name_of(problem), *demand.cast((problem, points), np.float64))
        demand.make(bench, PROBLEM_CHECKS, only)


def _answer(name: str, problem: Any, points: jax.Array) -> jax.Array:
    """Return an answer to points, row by row."""
    more = _ANSWERS[name][1](jnp.ones_like(points[:, 0]))
    memory = (problem.prox_memory(points),) if name == "prox" else ()
    result = ask(name.split()[0], problem, points, *more, *memory)
    return result[0] if memory else result


def _dtype(b: _Bench) -> None:
    sentence = f"{b.name} can do nothing that a solver asks for: see fedjax_admm.capabilities."
    demand.that(b.answers or can.has(b.problem, can.Minimizers), sentence)
    for dtype, problem, points in demand.both_precisions(b.problem, b.points):
        for name in b.answers:
            shape = points.shape[: 1 if name == "values" else 2]
            where = f"{b.name}.{name} of {np.dtype(dtype).name} data"
            result = _answer(name, problem, points)
            demand.kind(where, result, shape, dtype)
            demand.finite(where, result)


def _apart(b: _Bench) -> None:
    some = jnp.asarray([len(b.points) - 1, 0][: len(b.points)], jnp.int32)
    part = b.problem.take(some) if can.has(b.problem, can.Subset) else None
    for name in b.answers:
        here, there = (_answer(name, b.problem, x) for x in (b.points, b.points.at[0].add(0.5)))
        where = f"{b.name}.{name} of other clients before and after the first point moved"
        remedy = "Row l of the points belongs to client l alone."
        demand.close(where, there[1:], here[1:], 1e-9, 1e-9, remedy)
        if part is not None:
            where = f"{b.name}.take(clients).{name} and the rows of {name}"
            remedy = "Draws must depend on a client's number among all." * ("key" in name)
            taken = _answer(name, part, b.points[some])
            demand.close(where, taken, here[some], 1e-9, 1e-9, remedy)


def _gradients(b: _Bench) -> None:
    rng, start = np.random.default_rng(1), getattr(b.problem, "start", b.points)
    asked = {"values", "gradients"} <= set(b.answers)
    for x in (b.points, jnp.broadcast_to(start, b.points.shape)) * asked:
        gradients, width = ask("gradients", b.problem, x), 1e-6 * (1 + float(jnp.max(jnp.abs(x))))
        for line in jnp.asarray(rng.standard_normal((4, *x.shape))):
            ends = [ask("values", b.problem, x + s * line) for s in (-width, 0.0, width)]
            sides, slope = np.diff(ends, axis=0) / width, np.asarray(jnp.sum(gradients * line, -1))
            room = 1e-5 * (1e-2 + np.abs(sides).max(0)) + 8e-16 * np.abs(ends).max() / width
            low, high = sides.min(0) - room, sides.max(0) + room
            off = ~((slope >= low) & (slope <= high))
            k = int(np.argmax(off))
            where = f"for client {k} at {demand.row(x[k])} along {demand.row(line[k])}"
            found = f"it gives {slope[k]:.6g}, and the values have {low[k]:.6g} to {high[k]:.6g}"
            sentence = f"{b.name}.gradients must be the derivative of values, but {where} {found}."
            demand.that(not off[k], f"{sentence} Is its sign wrong?")


def _minibatches(b: _Bench) -> None:
    if "gradients" not in b.answers:
        return
    keys = jax.random.split(jax.random.key(3), _DRAWS)
    draws = np.asarray(jax.jit(jax.vmap(b.problem.gradients, (None, 0)))(b.points, keys))
    exact, mean = np.asarray(ask("gradients", b.problem, b.points)), draws.mean(0)
    error = draws.std(0, ddof=1) / np.sqrt(_DRAWS)
    excess = np.abs(mean - exact) - 6 * error - 1e-8 * (1 + np.abs(exact))
    k, i = np.unravel_index(np.argmax(excess), excess.shape)
    found = f"entry {i} of client {k} is {mean[k, i]:.6g} +- {error[k, i]:.2g} over {_DRAWS} draws"
    sentence = f"{b.name}.gradients with a key must be right in the mean, but {found}, and in full "
    demand.that(excess[k, i] <= 0, f"{sentence}it is {exact[k, i]:.6g}.")


def _clipped(b: _Bench) -> None:
    for clip in (1e-3, 0.1, 10.0) * ("clipped_gradients" in b.answers):
        clips = jnp.asarray([1e-12, clip])
        ends = [ask("clipped_gradients", b.problem, b.points, clip) for clip in clips]
        lengths = np.linalg.norm(np.asarray(ends[1] - ends[0]), axis=-1)
        found = f"the data of client {lengths.argmax()} move it by {lengths.max():.6g}"
        sentence = f"{b.name}.clipped_gradients must clip the gradient of every sample to {clip:g} "
        limit = clip * (1 + 1e-6) + 1e-9
        demand.that(lengths.max() <= limit, f"{sentence}before the mean, but {found}.")


def _prox(b: _Bench) -> None:
    v, rng = b.points, np.random.default_rng(2)
    for number in (0.01, 1.0, 100.0) * ("prox" in b.answers):
        step, result, memory = jnp.full_like(v[:, 0], number), v, b.problem.prox_memory(v)
        demand.stacked(f"The memory of clients of {b.name}.prox", memory, len(v))
        exact = not jax.tree.leaves(memory)
        for _ in range(1 if exact else 4):
            result, new = ask("prox", b.problem, v, step, memory)
            demand.same_form(f"The memory of {b.name}.prox", memory, new)
            memory = new
        tries = [result, v]
        if exact:
            tries += [0 * v, *(result + t * (v - result) for t in (1e-3, 0.1, 0.5, -0.1))]
            scales = np.repeat((1e-4, 1e-2, 1.0), 12)
            tries += [result + scale * rng.standard_normal(v.shape) for scale in scales]
        if exact and "gradients" in b.answers:
            slope = ask("gradients", b.problem, result) + (result - v) / number
            tries += [result - length * slope for length in 10.0 ** np.arange(-5, 1)]
        if "values" in b.answers:
            tries = jnp.stack(tries)
            values = jnp.stack([ask("values", b.problem, one) for one in tries])
            demand.lowest(f"{b.name}.prox", "f", v, number, tries, values)


PROBLEM_CHECKS = demand.named(_dtype, _apart, _gradients, _minibatches, _clipped, _prox)
