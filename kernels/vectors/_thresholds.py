"""Thresholds of sums of clipped entries, the search that projections of vectors share.

`sum_i w_i clip(z_i - t w_i, lower_i, upper_i) = total` has a left side that falls in t along a
broken line. Newton's method finds the piece with the root in a few passes over the entries, where
sorting them would take a hundred. It works on stopped gradients; what is differentiated is one more
step, the exact solution on the piece that was found. Each search is repeated around the threshold
found first: the entries that matter are then small, and a sum over a million of them is right.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._loops import while_loop
from fedjax_admm.kernels._safe import safe_ratio

# Newton's error and slope fall together by a factor of 4, or the interval is halved every other
# pass: both searches end long before.
_PASSES = 400
# Sums of larger numbers may leave the range of float32.
_LARGE = 1e24


def headroom(size: Array) -> Array:
    """Return a power of two that leaves room for a sum of 1e12 numbers of this size, mostly 1."""
    return jnp.where(stop_gradient(size) > _LARGE, jnp.asarray(2.0**40, size.dtype), 1.0)


def positive_part(z: Array, mass: Array, axis: int, weights: Array | None = None) -> Array:
    """Return `max(z - t w, 0)` with the threshold for which `sum w max(z - t w, 0) = mass`.

    `z` is at most 0 where the weight is not 0, and there 0 somewhere; the mass is near 1, or 0; the
    largest weight is near 1.

    Derivative: entries at the threshold count as those that are 0; at mass 0 the largest entry
    counts as positive.
    """
    fixed, total = stop_gradient(z), stop_gradient(mass)
    w = None if weights is None else stop_gradient(weights)
    top = 1.0 if w is None else jnp.max(jnp.where(fixed >= 0, w, 0.0), axis=axis, keepdims=True)
    base = _climb(fixed, w, total, -safe_ratio(total, jnp.square(top)), axis)[1]
    near = _moved(z, base, weights)
    rest = _climb(stop_gradient(near), w, total, jnp.zeros_like(base), axis)[0]
    above = _moved(near, rest, weights)
    # NaN is kept: it goes into the sum, and so into every entry.
    kept = ~(stop_gradient(above) <= 0) | ((total == 0) & (fixed == 0))
    w = jnp.ones((), z.dtype) if weights is None else weights
    held = jnp.where(kept, w * jnp.where(kept, above, 0.0), 0.0)
    excess = safe_ratio(
        jnp.sum(held, axis=axis, keepdims=True) - mass,
        jnp.sum(jnp.where(kept, w * w, 0.0), axis=axis, keepdims=True),
    )
    x = above - excess * w
    return jnp.where(kept & ~(stop_gradient(x) < 0), x, 0.0)


def _moved(z: Array, t: Array, weights: Array | None) -> Array:
    return z - (t if weights is None else t * weights)


def _climb(z: Array, w: Array | None, mass: Array, start: Array, axis: int) -> tuple[Array, Array]:
    """Newton's method from the left: the sum is convex in t, so no step goes beyond the root.

    Return the root, and a number below it whatever the rounding was. Both come out of the loop: a
    product outside would be rounded in one use, and fused into a difference in another.
    """
    room = 4 * float(jnp.finfo(z.dtype).eps)

    def climb(carry):
        t, _, slope, _, passes = carry
        above = _moved(z, t, w)
        inside = above > 0
        parts, squares = (above, 1.0) if w is None else (w * above, w * w)
        total = jnp.sum(jnp.where(inside, parts, 0.0), axis=axis, keepdims=True)
        found = jnp.sum(jnp.where(inside, squares, 0.0), axis=axis, keepdims=True, dtype=z.dtype)
        ahead = t + safe_ratio(total - mass, found)
        # With the same entries as before, the last step has ended at the root.
        rises = (ahead > t) & (found != slope)
        t = jnp.where(rises, ahead, t)
        return t, t - room * jnp.abs(t), found, jnp.any(rises), passes + 1

    shape = jnp.broadcast_shapes(start.shape, jnp.sum(z, axis=axis, keepdims=True).shape)
    start = jnp.broadcast_to(start, shape)
    carry = (start, start, jnp.full_like(start, -1.0), jnp.asarray(True), jnp.asarray(0))
    return while_loop(lambda carry: carry[3] & (carry[4] < _PASSES), climb, carry)[:2]


def clipped_part(
    z: Array, lower: Array, upper: Array, weights: Array, total: Array, axis: int
) -> Array:
    """Return `clip(z - t w, lower, upper)` with the `t` for which its sum with weights is `total`.

    The total must be within reach. Derivative: entries at a bound count as those that stay there.
    """
    fixed = stop_gradient(z)
    low, high, w, goal = (stop_gradient(part) for part in (lower, upper, weights, total))
    count = max(jnp.broadcast_shapes(z.shape, lower.shape, upper.shape, w.shape)[axis], 1)
    squares = jnp.sum(jnp.broadcast_to(w * w, z.shape) / count, axis=axis, keepdims=True)
    plane = jnp.sum(w * fixed / count, axis=axis, keepdims=True) - goal / count
    base = _root(fixed, low, high, w, goal, axis, safe_ratio(plane, squares))
    near = z - base * weights
    rest = _root(stop_gradient(near), low, high, w, goal, axis, jnp.zeros_like(base))
    above = near - rest * weights
    free = ~((stop_gradient(above) <= low) | (stop_gradient(above) >= high))  # NaN is free
    bound = jnp.where(stop_gradient(above) > low, upper, lower)
    x = jnp.where(free, above, bound)
    excess = safe_ratio(
        jnp.sum(weights * x, axis=axis, keepdims=True) - total,
        jnp.sum(jnp.where(free, weights * weights, 0.0), axis=axis, keepdims=True),
    )
    x = jnp.where(free, x - excess * weights, x)
    x = jnp.where(stop_gradient(x) < low, lower, x)
    return jnp.where(stop_gradient(x) > high, upper, x)


def _root(z, low, high, w, goal, axis, start):
    """Return the root for a box, searched from `start` between the outermost corners."""
    weighted = w != 0
    divisor = jnp.where(weighted, w, 1.0)
    corners = [jnp.where(weighted, (z - bound) / divisor, jnp.inf) for bound in (low, high)]
    finite = [jnp.isfinite(corner) for corner in corners]

    def outermost(far, of, among):
        parts = [
            among(jnp.where(good, corner, far), axis=axis, keepdims=True, initial=far)
            for corner, good in zip(corners, finite, strict=True)
        ]
        found = of(*parts)
        return jnp.where(jnp.isfinite(found), found, start)

    left = outermost(jnp.inf, jnp.minimum, jnp.min)
    right = outermost(-jnp.inf, jnp.maximum, jnp.max)
    reach = right / 2 - left / 2 + jnp.abs(left) / 2 + jnp.abs(right) / 2
    reach = jnp.where(reach > 0, reach, 1.0)  # at a corner itself an entry does not move
    left, right = left - reach, right + reach

    def at(t):
        above = z - t * w
        inside = (above > low) & (above < high)
        x = jnp.clip(above, low, high)
        error = jnp.sum(w * x, axis=axis, keepdims=True) - goal
        return error, jnp.sum(jnp.where(inside, w * w, 0.0), axis=axis, keepdims=True), known

    start = jnp.clip(start, left, right)
    size = jnp.sum(jnp.abs(w * jnp.clip(z - start * w, low, high)), axis=axis, keepdims=True)
    known = float(jnp.finfo(z.dtype).eps) * (size + jnp.abs(goal))
    return falling_root(at, start, left, right)


def falling_root(
    at: Callable[[Array], tuple[Array, Array, Array]], start: Array, left: Array, right: Array
) -> Array:
    """Return a root of a broken line that falls, by Newton's method kept between signs.

    `at(t)` returns the error, how fast it falls (at least 0), and how well it is known. All corners
    of the line lie between `left` and `right`; beyond them Newton's step is exact. Without a root
    it is the nearest end.
    """

    def search(carry):
        t, low, high, last, _, passes = carry
        error, fall, known = at(t)
        low, high = jnp.where(error > 0, t, low), jnp.where(error < 0, t, high)
        newton = t + safe_ratio(error, fall)
        # A step that did not halve the error is followed by one that halves the interval.
        trusted = (fall > 0) & (jnp.abs(error) <= last / 2)
        trusted = trusted & (low < newton) & (newton < high)
        ahead = jnp.where(
            trusted, newton, jnp.clip(low, left, right) / 2 + jnp.clip(high, left, right) / 2
        )
        moves = (
            (jnp.abs(error) > known)
            & (low < ahead)
            & (ahead < high)
            & ~((fall > 0) & (newton == t))
        )
        last = jnp.where(trusted, jnp.abs(error), jnp.inf)
        return jnp.where(moves, ahead, t), low, high, last, jnp.any(moves), passes + 1

    infinite = jnp.full_like(start, jnp.inf)
    carry = (start, -infinite, infinite, infinite, jnp.asarray(True), jnp.asarray(0))
    return while_loop(lambda carry: carry[4] & (carry[5] < _PASSES), search, carry)[0]
