"""Projections onto the exponential cone and its dual, by one root of one unknown.

A point outside of both the cone and its polar is the difference of a point of the cone and one of
the dual cone, orthogonal to each other. Of two such points on the curved parts of the boundaries
the first has the slope `rho = x / y`, and both are known once `rho` is. With `v = (r, s, t)`,

    A = (rho - 1) r + s,   B = r - rho s,   Q = rho**2 - rho + 1,
    point of the cone    A / Q (rho, 1, exp(rho)),
    point of the dual    B / Q (-1, rho - 1, exp(-rho)),

their third entries have the difference t where `exp(rho) A - exp(-rho) B - Q t = 0`. Between the
zeros of A and B the left side rises from below 0 to above it.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import slice_in_dim, stop_gradient

from fedjax_admm.kernels._arguments import matched
from fedjax_admm.kernels._loops import while_loop
from fedjax_admm.kernels._safe import scaled_norm

_Three = tuple[Array, Array, Array]


def project_exponential_cone(v: Array, axis: int = -1) -> Array:
    """Project onto the exponential cone, `C = closure {(x, y, z): y > 0, y exp(x / y) <= z}`.

    The closure adds `{(x, 0, z): x <= 0 <= z}`. With `v = (r, s, t)`: `Prox(v; step) = v` in the
    cone, 0 in the polar cone, `(r, 0, max(t, 0))` where `r <= 0` and `s <= 0`, else `A / Q (rho, 1,
    exp(rho))` with `A = (rho - 1) r + s`, `B = r - rho s`, `Q = rho^2 - rho + 1` and the only root
    of `exp(rho) A - exp(-rho) B = Q t` with `A >= 0` and `B >= 0`, found by Newton's method between
    two bounds. Points of the cone come back unchanged, bit for bit.

    Derivative: that of the root, by the implicit function theorem. On the boundary of the cone: the
    identity; on that of the polar cone: zero; where `r = 0 > s` or `s = 0 > r`: that of `(r, 0,
    max(t, 0))`, whose last entry has 1/2 at `t = 0`.

    Args:
      v: points, any shape with three entries along `axis`, floating dtype.
      axis: the axis that holds `x`, `y` and `z`.

    Reference: H. A. Friberg, "Projection onto the exponential cone: a univariate root-finding
    problem", Optimization Methods and Software 38(3), 2023 (there in the order z, y, x).
    """
    (v,) = matched(v)
    if v.ndim == 0 or v.shape[axis] != 3:
        raise ValueError(
            "project_exponential_cone takes points (x, y, z), three entries along axis "
            f"{axis}, but v has the shape {v.shape}."
        )
    scaled, _, scale = scaled_norm(v, axis)
    r, s, t = (slice_in_dim(scaled, i, i + 1, axis=axis) for i in range(3))
    inside = (s > 0) & (s * jnp.exp(r / jnp.where(s > 0, s, 1.0)) <= t)
    polar = (r > 0) & (r * jnp.exp(s / jnp.where(r > 0, r, 1.0) - 1) <= -t)
    flat = (r <= 0) & (s <= 0)
    # Where there is no root to look for, that of (1, 1, 0) is found in few steps.
    curved = ~(inside | polar | flat)
    point = _curved(*(jnp.where(curved, a, b) for a, b in ((r, 1.0), (s, 1.0), (t, 0.0))))
    edge = (r, jnp.zeros_like(s), jnp.maximum(t, 0.0))
    parts = [
        jnp.where(curved, on_curve, jnp.where(polar, 0.0, on_edge))
        for on_curve, on_edge in zip(point, edge, strict=True)
    ]
    return jnp.where(inside, v, (jnp.concatenate(parts, axis) * scale).astype(v.dtype))


def project_dual_exponential_cone(v: Array, axis: int = -1) -> Array:
    """Project onto the dual exponential cone, `C = closure {x < 0, -x exp(y / x) <= e z}`.

    The points are `(x, y, z)`; the closure adds `{(0, y, z): y >= 0, z >= 0}`. `Prox(v; step) = v +
    P(-v)` with the projection P onto the exponential cone (Moreau's decomposition).

    Derivative: as that of `project_exponential_cone` at `-v`: zero on the boundary of the polar
    cone, the identity on that of the dual cone.

    Args:
      v: points, any shape with three entries along `axis`, floating dtype.
      axis: the axis that holds `x`, `y` and `z`.

    Reference: H. A. Friberg, "Projection onto the exponential cone: a univariate root-finding
    problem", Optimization Methods and Software 38(3), 2023 (there in the order z, y, x).
    """
    (v,) = matched(v)
    return v + project_exponential_cone(-v, axis)


def _curved(r: Array, s: Array, t: Array) -> _Three:
    """Return the projection where both points lie on the curved parts."""

    def residual(rho):
        return _residual(rho, r, s, t)

    def solve(_, start):
        del start
        return _root(*stop_gradient((r, s, t)))

    def solve_tangent(linear, right):
        slope = linear(jnp.ones_like(right))
        return right / jnp.maximum(slope, 2.0**20 * float(jnp.finfo(slope.dtype).tiny))

    rho = jax.lax.custom_root(residual, jnp.zeros_like(r), solve, solve_tangent)
    # At the ends rho is a bound of the search: no root, and without a derivative.
    rho = jnp.where(jnp.abs(rho) < _far(rho.dtype), rho, stop_gradient(rho))
    # Whatever is multiplied by exp(-|rho|) may be rounded: the formulas on both sides of 0.
    q = rho * rho - rho + 1
    up = rho >= 0
    small = jnp.exp(-jnp.where(up, rho, -rho))
    left, right = (rho - 1) * r + s, r - rho * s
    z = jnp.where(up, jnp.maximum(t + small * right / q, 0.0), small * left / q)
    back = small * (z - t)  # B / Q where rho < 0
    y = jnp.where(up, small * z, s + (rho - 1) * back)
    return jnp.where(up, rho * y, r - back), y, z


def _residual(rho: Array, r: Array, s: Array, t: Array) -> Array:
    """Return `exp(rho) A - exp(-rho) B - Q t`, divided by the larger exponential."""
    up = rho >= 0
    small = jnp.exp(-jnp.where(up, rho, -rho))
    square = small * small
    left, right = (rho - 1) * r + s, r - rho * s
    q = rho * rho - rho + 1
    return jnp.where(up, left - square * right, square * left - right) - small * q * t


def _root(r: Array, s: Array, t: Array) -> Array:
    """Return the root between the zeros of A and B, by Newton's method or halving."""
    far = _far(r.dtype)
    after = jnp.where(r > 0, 1 - s / jnp.where(r > 0, r, 1.0), -far)
    after = jnp.maximum(after, jnp.where(s < 0, r / jnp.where(s < 0, s, -1.0), -far))
    before = jnp.where(r < 0, 1 - s / jnp.where(r < 0, r, -1.0), far)
    before = jnp.minimum(before, jnp.where(s > 0, r / jnp.where(s > 0, s, 1.0), far))
    low, high = jnp.clip(after, -far, far), jnp.clip(before, -far, far)
    width = 2 * float(jnp.finfo(r.dtype).eps)

    def goes_on(carry):
        _, _, rho, moved, count = carry
        return jnp.any(jnp.abs(moved) > width * jnp.maximum(jnp.abs(rho), 1)) & (count < _STEPS)

    def step(carry):
        low, high, rho, moved, count = carry
        value, slope = jax.jvp(lambda rho: _residual(rho, r, s, t), (rho,), (jnp.ones_like(rho),))
        low, high = jnp.where(value < 0, rho, low), jnp.where(value < 0, high, rho)
        newton = rho - value / jnp.where(slope > 0, slope, 1.0)
        # Newton's step where it stays between the bounds and is half the last one at most.
        fast = (newton >= low) & (newton <= high) & (slope > 0)
        fast &= 2 * jnp.abs(newton - rho) <= jnp.abs(moved)
        new = jnp.where(fast, newton, (low + high) / 2)
        return low, high, new, new - rho, count + 1

    start = jnp.clip(0.0, low, high)
    first = (low, high, start, high - low, jnp.int32(0))
    return while_loop(goes_on, step, first)[2]


_STEPS = 150


def _far(dtype: jnp.dtype) -> float:
    """Return a rho from which on exp(-rho) is 0 in the dtype, so that the root acts on nothing."""
    return 16 - math.log(float(jnp.finfo(dtype).smallest_subnormal))
