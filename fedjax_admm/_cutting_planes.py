r"""A proximal step on a loss with kinks, by cutting planes, with a certificate.

    phi(z) = f(z) + ||z - v||^2 / (2 step)

Of a convex f every subgradient g_j = g(z_j) gives a plane below it, f(z) >= c_j + <g_j, z - v> with
c_j = f(z_j) + <g_j, v - z_j>. The largest of some planes in the place of f is a model of phi, whose
minimum by duality is, over weights l_j >= 0 whose sum is 1,

    max_l  <c, l> - step / 2 ||sum_j l_j g_j||^2     at z = v - step sum_j l_j g_j

Every l gives a lower bound of phi, so that the gap of the best point is at most `best value -
bound`. A round finds l, evaluates phi at the model's minimiser or halfway between it and the best
point, in turns, and takes the plane from there. The new plane replaces the one of least weight,
which is merged with that of the next weight, so that the bound does not fall.

Reference: K. C. Kiwiel, "Proximity control in bundle methods for convex nondifferentiable
minimization", Mathematical Programming 46 (1990); aggregation of planes and the dual problem.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._linear_algebra import positive_inverse

# Number of planes at most: dim + 1 determine a point, and one is new.
_PLANES = 24
# Largest gap of a solved problem, relative to phi.
_RELATIVE = 1e-4
# Numbers are equal that differ by so many units of rounding.
_ROUNDING = 16


class _Search(NamedTuple):
    z: jax.Array  # shape=(dim,): the best point
    value: jax.Array  # shape=(): phi there
    bound: jax.Array  # shape=(): below the minimum of phi
    slopes: jax.Array  # shape=(planes, dim): g_j
    heights: jax.Array  # shape=(planes,): c_j
    weights: jax.Array  # shape=(planes,): l_j
    rounds: jax.Array  # shape=(), int32


def minimize_by_planes(
    value_and_slope: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    centre: jax.Array,
    step: jax.Array,
    start: jax.Array,
    known: tuple[jax.Array, jax.Array],
    tolerance: jax.Array,
    rounds: int | jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the best point (dim,), and whether its gap is small enough, shape ().

    Args:
      value_and_slope: phi and its slope at a point (dim,).
      centre: v, shape (dim,).
      step: shape (), positive.
      start: shape (dim,).
      known: phi and its slope there.
      tolerance: shape (): the search ends as soon as the gap is at most this and at most 1e-4 of
        phi; at once where the start's gap, step / 2 ||slope||^2, is at most this. In the end
        either of the two is small enough.
      rounds: largest number of rounds, of one evaluation each.
    """
    number = min(start.shape[-1] + 2, _PLANES)
    value, slope = known
    widest = step / 2 * jnp.sum(slope**2)
    eps = _ROUNDING * jnp.finfo(start.dtype).eps

    def plane(z, value, slope):
        away = z - centre
        height = value + jnp.sum(away**2) / (2 * step) - jnp.sum(slope * away)
        return slope - away / step, height

    def gap_of(now):
        gap, size = now.value - now.bound, jnp.abs(now.value)
        return gap, _RELATIVE * size, eps * (size + widest)

    def goes_on(now):
        gap, share, rounding = gap_of(now)
        small = jnp.maximum(jnp.minimum(tolerance, share), rounding)
        return (gap > small) & (now.rounds < rounds)

    def search(now):
        weights = _dual(now.slopes, now.heights, step, now.weights)
        mean = jnp.sum(weights[:, None] * now.slopes, 0)
        bound = jnp.sum(weights * now.heights) - step / 2 * jnp.sum(mean**2)
        share = jnp.where(now.rounds % 2 == 0, 1.0, 0.5).astype(start.dtype)
        z = now.z + share * (centre - step * mean - now.z)
        value, slope = value_and_slope(z)
        better = value < now.value
        return _Search(
            jnp.where(better, z, now.z),
            jnp.where(better, value, now.value),
            jnp.maximum(now.bound, bound),
            *_replaced(now.slopes, now.heights, weights, *plane(z, value, slope)),
            now.rounds + 1,
        )

    first_slope, first_height = plane(start, value, slope)
    first = _Search(
        *(start, value, value - widest),
        jnp.tile(first_slope, (number, 1)),
        jnp.tile(first_height, number),
        (jnp.arange(number) == 0).astype(start.dtype),
        jnp.where(widest <= tolerance, rounds, 0).astype(jnp.int32),
    )
    last = jax.lax.while_loop(goes_on, search, first)
    gap, share, rounding = gap_of(last)
    return last.z, jnp.abs(gap) <= jnp.maximum(jnp.maximum(tolerance, share), rounding)


def _dual(slopes, heights, step, weights) -> jax.Array:
    """Return the weights that maximise the bound, (planes,), from feasible ones, by an active set.

    On the simplex a constant that is added to all entries of `Q = step G G^T` changes nothing, and
    Q is positive definite for planes whose slopes are affinely independent then; a ridge near
    rounding makes it so for others.
    Of the planes S the best weights, of any sign, are `Q_S^-1 (c - theta)`. If one is negative, the
    first that vanishes on the way there leaves S; else the plane that lies highest at the model's
    minimiser enters, until none lies above those of S.
    """
    q = step * jnp.matmul(slopes, slopes.T, precision=jax.lax.Precision.HIGHEST)
    unit = jnp.mean(jnp.diagonal(q))
    unit = jnp.where(unit > 0, unit, 1)
    eye, eps = jnp.eye(heights.size, dtype=q.dtype), jnp.finfo(q.dtype).eps
    q = q / unit + 1 + _ROUNDING * eps * eye
    c = (heights - jnp.max(heights)) / unit

    def goes_on(carry):
        return ~carry[2] & (carry[3] < 4 * heights.size)

    def pivot(carry):
        weights, inside, _, turns = carry
        both = inside[:, None] & inside[None]
        inverse = jnp.where(both, positive_inverse(jnp.where(both, q, eye)), 0)
        theta = (jnp.sum(inverse * c[None]) - 1) / jnp.sum(inverse)
        best = jnp.sum(inverse * (c - theta)[None], 1)
        leaves = inside & (best < 0)
        way = jnp.where(leaves, weights / jnp.where(leaves, weights - best, 1), jnp.inf)
        out = jnp.argmin(way)
        length = jnp.minimum(way[out], 1)
        new = jnp.maximum(weights + length * (best - weights), 0)
        blocked = jnp.any(leaves)
        new = jnp.where(blocked & (jnp.arange(new.size) == out), 0, new)
        new = new / jnp.sum(new)
        above = c - jnp.sum(q * new[None], 1)
        level = jnp.sum(new * above)
        above = jnp.where(inside, -jnp.inf, above)
        highest = jnp.argmax(above)
        done = ~blocked & ~(above[highest] > level + _ROUNDING * eps * (1 + jnp.abs(level)))
        changed = jnp.where(blocked, out, highest)
        moved = inside.at[changed].set(~blocked)
        return new, jnp.where(done, inside, moved), done, turns + 1

    none = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(goes_on, pivot, (weights, weights > 0, none > 0, none))[0]


def _replaced(slopes, heights, weights, slope, height) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the planes with a new one in place of the lightest, which is merged with the next."""
    light, next_one = jax.lax.top_k(-weights, 2)[1]
    both = weights[light] + weights[next_one]
    share = jnp.where(both > 0, weights[light] / jnp.where(both > 0, both, 1), 0)

    def merged(rows, new):
        mean = share * rows[light] + (1 - share) * rows[next_one]
        return rows.at[next_one].set(mean).at[light].set(new)

    weights = weights.at[next_one].set(both).at[light].set(0)
    return merged(slopes, slope), merged(heights, height), weights
