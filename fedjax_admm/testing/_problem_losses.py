"""Checks of what clients know of their losses: values, gradients and proximal maps."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._run import difference
from fedjax_admm.capabilities import (
    ClippedGradients,
    DifferenceOfConvex,
    Gradients,
    Minimizers,
    Prox,
    SmoothedGradients,
    Values,
)
from fedjax_admm.testing._problem_bench import (
    Bench,
    ask_clipped,
    ask_convex_part,
    ask_costs,
    ask_gradients,
    ask_many_gradients,
    ask_prox,
    ask_smoothed,
    ask_values,
    full,
    is_exact,
    told,
)
from fedjax_admm.testing._shared import (
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    dtype_of,
)

_DRAWS = 256


def check_gradients(b: Bench) -> None:
    """Check gradients against one-sided difference quotients of values."""
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
                slopes = ask_gradients(problem, x)
            for _ in range(4):
                direction = jnp.asarray(rng.standard_normal(x.shape))
                _between(b, problem, x, slopes, direction)


def _between(b: Bench, problem, x, slopes, direction) -> None:
    width = 1e-6 * (1 + float(jnp.max(jnp.abs(x))))
    values = [np.asarray(ask_values(problem, x + s * direction)) for s in (-width, 0.0, width)]
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
            f"{told(x[k])} along {told(direction[k])} it gives {slope[k]:.6g}, and the values have "
            f"{wanted}.{hint} Let jax.grad take it where you can."
        )


def check_minibatches(b: Bench) -> None:
    """Check that gradients with a key are right in the mean."""
    if not b.can(Gradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        keys = jax.random.split(b.key, _DRAWS)
        with doing(f"{b.name}.gradients with a key"):
            draws = np.asarray(ask_many_gradients(problem, points, keys))
            again = ask_gradients(problem, points, keys[0])
        demand_close(
            f"{b.name}.gradients with one key, twice",
            again,
            draws[0],
            1e-9,
            1e-9,
            "All that is drawn must come from the key.",
        )
        full = np.asarray(ask_gradients(problem, points))
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


def check_clipped(b: Bench) -> None:
    """Check that the data's part of a clipped gradient is no longer than the clip."""
    if not b.can(ClippedGradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.clipped_gradients"):
            none = ask_clipped(problem, points, jnp.asarray(1e-12))
            for clip in (1e-3, 0.1, 10.0):
                found = ask_clipped(problem, points, jnp.asarray(clip))
                lengths = np.linalg.norm(np.asarray(found - none), axis=-1)
                k = int(np.argmax(lengths))
                demand(
                    lengths[k] <= clip * (1 + 1e-6) + 1e-9,
                    f"{b.name}.clipped_gradients must clip the gradient of every sample to "
                    f"{clip:g} before the mean, but the data of client {k} move it by "
                    f"{lengths[k]:.6g}.",
                )
            most = [ask_clipped(problem, points, jnp.asarray(clip)) for clip in (1e12, 1e13)]
        where = f"{b.name}.clipped_gradients with clips of 1e12 and 1e13"
        demand_close(where, most[0], most[1], 1e-6, 1e-9)


def check_smoothed(b: Bench) -> None:
    """Check that little smoothing leaves the gradients."""
    if not b.can(SmoothedGradients, Gradients):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.smoothed_gradients"):
            found = ask_smoothed(problem, points, full(points, 1e-6))
        exact = ask_gradients(problem, points)
        lengths = np.linalg.norm(np.asarray(found - exact), axis=-1)
        room = 1e-2 * (1 + np.linalg.norm(np.asarray(exact), axis=-1))
        k = int(np.argmax(lengths - room))
        demand(
            lengths[k] <= room[k],
            f"{b.name}.smoothed_gradients with mu = 1e-6 must be nearly the gradients, but for "
            f"client {k} at {told(points[k])} they are {told(found[k])} and {told(exact[k])}.",
        )


def check_proximal(b: Bench) -> None:
    """Check that no point that is tried is better than the prox."""
    if not b.can(Prox, Values):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.prox_memory"):
            memory = problem.prox_memory(points)
        for number in b.steps:
            step = full(points, number)
            with doing(f"{b.name}.prox at step {number:g}"):
                found, kept = ask_prox(problem, points, step, memory)
                if not is_exact(b, memory):
                    for _ in range(3):
                        found, kept = ask_prox(problem, points, step, kept)
            demand_finite(f"{b.name}.prox at step {number:g}", found)
            others = _others(b, problem, points, step, found, memory)
            costs = np.asarray(ask_costs(problem, jnp.stack([found, *others]), points, step))
            lowest = np.nanmin(costs[1:], 0)
            excess = costs[0] - lowest - 1e-9 * (1 + np.abs(lowest))
            k = int(np.argmax(excess))
            better = others[int(np.nanargmin(costs[1:, k]))][k]
            demand(
                excess[k] <= 0,
                f"{b.name}.prox must minimise f(w) + |w - v|^2 / (2 step), but for client {k} at "
                f"v = {told(points[k])} and step = {number:g} it returns {told(found[k])} with the "
                f"objective {costs[0, k]:.9g}, while {told(better)} has {lowest[k]:.9g}. Is the "
                "step multiplied where it should divide? An inexact prox is checked with "
                "exact=False.",
            )


def _others(b: Bench, problem, points, step, found, memory) -> list[jax.Array]:
    """Return the points which the prox must not be worse than."""
    if not is_exact(b, memory):
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
        slope = ask_gradients(problem, found) + (found - points) / step[:, None]
        tries += [found - length * slope for length in 10.0 ** np.arange(-5, 1)]
    return tries


def check_memory(b: Bench) -> None:
    """Check that the prox keeps the form of its memory."""
    if not b.can(Prox):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    with doing(f"{b.name}.prox"):
        memory = b.problem.prox_memory(points)
        _, kept = ask_prox(b.problem, points, full(points, 0.7), memory)
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


def check_difference(b: Bench) -> None:
    """Check that the prox of the convex part is monotone."""
    if not b.can(DifferenceOfConvex):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        if b.can(Prox) and not is_exact(b, problem.prox_memory(points)):
            return
        rng = np.random.default_rng(3)
        for number in (0.1, 2.0):
            step = full(points, number)
            other = points + jnp.asarray(rng.standard_normal(points.shape))
            with doing(f"{b.name}.prox_convex_part"):
                ends = [ask_convex_part(problem, x, step) for x in (points, other)]
            along = np.asarray(jnp.sum((ends[0] - ends[1]) * (points - other), -1))
            k = int(np.argmin(along))
            demand(
                along[k] >= -1e-9,
                f"A proximal map is monotone, but between {told(points[k])} and {told(other[k])} "
                f"{b.name}.prox_convex_part of client {k} at step {number:g} moves against the "
                f"difference of the points: their product is {along[k]:.6g}.",
            )


def check_minimizers(b: Bench) -> None:
    """Check that no point near a minimiser is better."""
    if not b.can(Minimizers, Values):
        return
    with jax.enable_x64(True):
        problem, points = b.wide()
        with doing(f"{b.name}.minimizers"):
            found = jax.jit(lambda p: p.minimizers())(problem)
        demand_kind(f"{b.name}.minimizers", found, points.shape, points.dtype)
        rng = np.random.default_rng(4)
        best = np.asarray(ask_values(problem, found))
        for scale in (1e-3, 0.1, 1.0):
            for _ in range(8):
                other = found + scale * jnp.asarray(rng.standard_normal(points.shape))
                values = np.asarray(ask_values(problem, other))
                worse = best - values - 1e-6 * (1 + np.abs(best))
                k = int(np.argmax(worse))
                demand(
                    worse[k] <= 0,
                    f"{b.name}.minimizers must minimise each client's loss, but client {k} has the "
                    f"value {best[k]:.9g} there and {values[k]:.9g} at {told(other[k])}.",
                )
