"""Nearest matrices with given sums of rows and columns: the search that both distances share.

The rows are solved for in closed form, whatever shifts g the columns have; what is left is a smooth
convex problem in g. Newton's method by conjugate gradients finds it in a few steps where it works,
and sweeps over rows and columns, which always do, lead there.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels._loops import while_loop
from fedjax_admm.kernels._safe import safe_ratio, unit_of
from fedjax_admm.kernels.compiling import Real

_SWEEPS = 3  # after a step of Newton's method that failed


class Distance(NamedTuple):
    """What a distance means for a matrix v, shifts of its columns, and the sums of its rows."""

    rows: Callable[[Array, Array], Array]  # (m, n), (m, 1) -> the nearest rows with these sums
    weights: Callable[[Array], Array]  # (m, n) -> slopes of its entries by their shifts
    shifts: Callable[
        [Array, Array, Array], Array
    ]  # matrix, sums, these rows -> their shifts (m, 1)
    euclidean: bool  # points scale with the sums, and no cell is forbidden by -inf


def transported(
    v: Array,
    row_marginals: Real,
    column_marginals: Real,
    distance: Distance,
    iterations: int,
    tolerance: float | None,
) -> tuple[Array, Array]:
    """Return the nearest matrices with given sums, and the largest error of a sum, shape (...)."""
    v, above, beside = matched(v, row_marginals, column_marginals)
    if v.ndim < 2:
        raise ValueError(f"matrices have at least two axes, but the shape is {v.shape}.")
    batch, (m, n) = v.shape[:-2], v.shape[-2:]
    rows = jnp.broadcast_to(widened(above), (*batch, m))
    columns = jnp.broadcast_to(widened(beside), (*batch, n))
    if v.size == 0:  # no sum is but 0
        return v, jnp.max(jnp.concatenate([rows, columns], -1), -1, initial=0).astype(v.dtype)
    rows, columns = rows.reshape(-1, m), columns.reshape(-1, n)
    solve = partial(_one, distance, iterations, tolerance)
    found, missed = jax.vmap(solve)(widened(v).reshape(-1, m, n), rows, columns)
    return found.reshape(v.shape).astype(v.dtype), missed.reshape(batch).astype(v.dtype)


def _one(distance, iterations, tolerance, v, rows, columns):
    usable = jnp.isfinite(v) if distance.euclidean else v < jnp.inf
    broken = ~jnp.all(usable) | ~jnp.all(rows >= 0) | ~jnp.all(columns >= 0)
    wanted = columns
    scale = unit_of(jnp.max(rows))
    rows = jnp.where(broken, 1, rows / scale)[:, None]
    columns = jnp.where(broken, 1, columns / scale)[None, :]
    # Sums that differ by rounding have no solution; one of the two has to give way.
    columns = columns * safe_ratio(jnp.sum(rows), jnp.sum(columns))
    v = jnp.where(broken, 0, v / scale if distance.euclidean else v)
    fixed = tuple(stop_gradient(part) for part in (v, rows, columns))
    reach = jnp.max(jnp.where(fixed[0] > -jnp.inf, jnp.abs(fixed[0]), 0))
    rounding = 4 * jnp.finfo(v.dtype).eps * sum(v.shape) ** 0.5 * (1 + reach)
    goal = rounding if tolerance is None else jnp.asarray(tolerance, v.dtype)
    g = _search(distance, fixed, goal, iterations)
    x = _last_step(distance, v, rows, columns, g)
    found = jnp.where(broken, jnp.nan, scale * x)
    rest = scale * stop_gradient(jnp.abs(jnp.sum(x, axis=1, keepdims=True) - rows))
    missed = jnp.maximum(
        jnp.max(rest), jnp.max(jnp.abs(jnp.sum(stop_gradient(found), axis=0) - wanted))
    )
    return found, stop_gradient(missed)


def _search(distance, problem, goal, iterations):
    """Return shifts of columns, without derivative."""
    v, rows, columns = problem

    def look(g):
        x = distance.rows(v + g, rows)
        error = columns - jnp.sum(x, axis=0, keepdims=True)
        return g, x, error, jnp.max(jnp.abs(error))

    def swept(g, x):
        shifted = (v + distance.shifts(v + g, rows, x)).mT
        return distance.shifts(shifted, columns.mT, distance.rows(shifted, columns.mT)).mT

    def goes_on(carry):
        (_, _, _, missed), _, count = carry
        return (missed > goal) & (count < iterations)

    def body(carry):
        here, sweeps, count = carry
        g, x, error, missed = here
        sweeping = sweeps > 0
        newton = g + _solve(distance.weights(x), jnp.where(sweeping, 0, error))
        there = look(jnp.where(sweeping, swept(g, x), newton))
        taken = sweeping | (there[-1] <= missed / 2)  # false for NaN
        here = jax.tree.map(partial(jnp.where, taken), there, here)
        sweeps = jnp.where(sweeping, sweeps - 1, jnp.where(taken, 0, _SWEEPS))
        return here, sweeps, count + 1

    start = (look(jnp.zeros_like(columns)), jnp.int32(_SWEEPS), jnp.int32(0))
    return while_loop(goes_on, body, start)[0][0]


def _last_step(distance, v, rows, columns, g):
    """Return the point by one more step of Newton's method, which carries the derivatives."""
    x = distance.rows(v + g, rows)
    error = columns - jnp.sum(x, axis=0, keepdims=True)
    weights = stop_gradient(distance.weights(x))
    balanced = partial(_balanced, _blocks(weights))
    step = jax.lax.custom_linear_solve(
        partial(_curvature, weights),
        error,
        lambda _, right: balanced(_solve(weights, balanced(right))),
        symmetric=True,
    )
    moved = distance.rows(v + g + step, rows)
    after = jnp.max(jnp.abs(columns - jnp.sum(moved, axis=0, keepdims=True)))
    better = stop_gradient(after < jnp.max(jnp.abs(error)))
    return jnp.where(better, moved, stop_gradient(x) + (moved - stop_gradient(moved)))


def _curvature(weights, u):
    """Return the derivative of the column sums along shifts u, shape (1, n)."""
    mean = safe_ratio(
        jnp.sum(weights * u, axis=1, keepdims=True), jnp.sum(weights, axis=1, keepdims=True)
    )
    return jnp.sum(weights * (u - mean), axis=0, keepdims=True)


def _blocks(weights):
    """Return which columns entries connect: the number of the first column that each leads to."""
    n = weights.shape[1]

    def join(carry):
        first, _ = carry
        rows = jnp.min(jnp.where(weights > 0, first, n), axis=1, keepdims=True)
        found = jnp.min(jnp.where(weights > 0, rows, n), axis=0, keepdims=True)
        found = jnp.minimum(found, first)
        return found, jnp.any(found < first)

    return while_loop(lambda carry: carry[1], join, (jnp.arange(n)[None, :], jnp.bool_(True)))[0]


def _balanced(blocks, u):
    """Take the mean off the columns of each block: no shift within blocks moves mass between them.

    The curvature has constants of blocks as its null space. Conjugate gradients solve for what is
    orthogonal to it; of other right sides they would return what depends on their rounding, and
    not what the transposed solution is.
    """
    n, number = u.shape[1], blocks[0]
    sums = jax.ops.segment_sum(u[0], number, n)
    sizes = jax.ops.segment_sum(jnp.ones_like(u[0]), number, n)
    return u - (sums / jnp.maximum(sizes, 1))[number][None, :]


def _solve(weights, right):
    """Conjugate gradients for the singular curvature: what is out of its range is left alone."""
    share = safe_ratio(weights, jnp.sum(weights, axis=1, keepdims=True))
    diagonal = jnp.sum(weights * (1 - share), axis=0, keepdims=True)
    eps = jnp.finfo(right.dtype).eps
    inverse = jnp.where(diagonal > eps * jnp.max(diagonal), diagonal, 0)
    inverse = safe_ratio(1.0, inverse)
    first = inverse * right
    slope = jnp.sum(right * first)

    def goes_on(carry):
        _, _, _, left, count = carry
        return (left > eps**2 * slope) & (count < 2 * right.size + 10)

    def body(carry):
        x, rest, direction, left, count = carry
        bent = _curvature(weights, direction)
        bend = jnp.sum(direction * bent)
        # Constants are what the curvature does not see.
        flat = ~(bend > 64 * eps * jnp.sum(diagonal * direction * direction))
        length = jnp.where(flat, 0, left / jnp.where(flat, 1, bend))
        x, rest = x + length * direction, rest - length * bent
        scaled = inverse * rest
        new = jnp.where(flat, 0, jnp.sum(rest * scaled))
        return x, rest, scaled + new / left * direction, new, count + 1

    start = (jnp.zeros_like(right), right, first, slope, jnp.int32(0))
    return while_loop(goes_on, body, start)[0]
