"""Proximal maps of the robust phase retrieval residual, free and in a box."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels._safe import safe_ratio, scaled_norm
from fedjax_admm.kernels.compiling import Real, Size
from fedjax_admm.kernels.elementwise._boxes import project_linf_ball

_Three = tuple[Array, Array, Array]


def prox_phase_residual(v: Array, step: Size, x: Array, y: Real) -> Array:
    """Proximal map of `g(w) = |y - (x^T w)**2|`, the global minimiser for every step.

    Only the component along `x` moves. With `u0 = x^T v`, `rho = step ||x||**2`, `s = sqrt(max(y,
    0))` and `sgn(0) = +1`: `u = sgn(u0) min(max(s, |u0| / (1 + 2 rho)), H)`, `H = |u0| / (1 - 2
    rho)` if `2 rho < 1`, else infinite, and `w = v + x (u - u0) / ||x||**2` (`w = v` if `x = 0`).

    Ties: for `u0 = 0` and `2 rho >= 1` both signs of `u` minimise and + is returned (at `2 rho = 1`
    the interval between them too). Derivative there: that for `u0 > 0`; where two of the three
    values of the formula coincide: the mean of both sides; with respect to `y` at `y <= 0`: 0. No
    box: see `prox_phase_residual_box` and `prox_phase_residual_clipped`.

    Args:
      v: points, shape (..., dim), floating dtype.
      x: measurement vectors.
      y: measured intensities; may be negative.

    Returns:
      Minimisers, shape (..., dim), dtype of `v`.

    Reference: Mirzaeifard and Werner, client update of robust phase retrieval; D. Davis, D.
    Drusvyatskiy, K. J. MacPhee, C. Paquette, "Subgradient methods for sharp weakly convex
    functions", Journal of Optimization Theory and Applications 179, 2018 (the loss).
    """
    v, step, x, y = matched(v, step, x, y)
    dtype = v.dtype
    v, step, y = widened(v), widened(step), widened(y)
    # In units in which x is near 1: no square of it leaves the range.
    x, _, scale = scaled_norm(x)
    scale = scale[..., 0]
    squared = jnp.sum(x * x, axis=-1)
    projection = jnp.sum(x * v, axis=-1)
    sign = jnp.where(projection >= 0, 1.0, -1.0)
    magnitude = sign * projection
    reach = 2 * step * squared * scale * scale
    amplitude = _amplitude(y) / scale
    convex = reach < 1
    ceiling = jnp.where(convex, magnitude / jnp.where(convex, 1 - reach, 1.0), jnp.inf)
    target = sign * jnp.minimum(jnp.maximum(amplitude, magnitude / (1 + reach)), ceiling)
    return (v + safe_ratio(target - projection, squared)[..., None] * x).astype(dtype)


def prox_phase_residual_clipped(v: Array, step: Size, x: Array, y: Real, radius: Size) -> Array:
    """Proximal map of `|y - (x^T w)**2|`, clipped to a box: an approximation.

    `min(max(prox_phase_residual(v, step, x, y), -radius), radius)` stands for the proximal map of
    the sum of the residual and the indicator of `|w_i| <= radius`. It is exact wherever the box
    does not bind and in general nowhere else: the excess of the objective can be large there.
    `prox_phase_residual_box` is exact everywhere.

    Ties and derivatives: as in `prox_phase_residual` and, at `|w_i| = radius`, `project_linf_ball`.

    Args:
      v: points, shape (..., dim), floating dtype.
      x: measurement vectors.
      y: measured intensities; may be negative.
      radius: at least 0 and possibly infinite.

    Returns:
      Points of the box, shape (..., dim), dtype of `v`.

    Reference: Mirzaeifard and Werner, client update of robust phase retrieval.
    """
    v, radius = matched(v, radius)
    return _clip_rows(prox_phase_residual(v, step, x, y), radius)


def prox_phase_residual_box(v: Array, step: Size, x: Array, y: Real, radius: Size) -> Array:
    """Proximal map of `|y - (x^T w)**2|` on a box, the global minimiser for every step.

    `g(w) = |y - (x^T w)**2|` where `|w_i| <= radius` for all `i`, else infinite. Among the
    points of the box with one value of `x^T w` the closest to `v` is `w(nu) = min(max(v + nu x,
    -radius), radius)` for some `nu`, and `p(nu) = x^T w(nu)` is nondecreasing and linear
    between at most `2 dim` breakpoints `|v_i + nu x_i| = radius`. Along this curve `g(w) + ||w
    - v||**2 / (2 step)` has the derivative `p'(nu) (nu + 2 step sign(p(nu)**2 - y) p(nu)) /
    step`. Hence, with `s = sqrt(max(y, 0))`, each of its local minima is a zero, crossed
    upwards, of `nu + 2 step p(nu)`, `nu - 2 step p(nu)`, `p(nu) - s` or `p(nu) + s`: on a piece
    `p(nu) = c + S nu`, where `S` adds the `x_i**2` of the entries inside the box, at `nu = -2
    step c / (1 + 2 step S)`, `2 step c / (1 - 2 step S)`, `(s - c) / S` or `(-s - c) / S`. The
    best of all is returned, after O(dim**2) operations per row. Where the box does not bind it
    is `prox_phase_residual`.

    Ties: of several minimisers the one of greatest `x^T w` (rounding decides where objectives tie
    in exact arithmetic only). Derivative at ties: that of the minimiser returned; at the limit
    between two pieces or formulas: that of one of them, or the mean; with respect to `y` at `y <=
    0`: 0.

    Args:
      v: points, shape (..., dim), floating dtype; may lie outside the box.
      x: measurement vectors.
      y: measured intensities; may be negative.
      radius: at least 0 and possibly infinite.

    Returns:
      Minimisers, shape (..., dim), dtype of `v`.

    Reference: Mirzaeifard and Werner, client update of robust phase retrieval (the function); K. C.
    Kiwiel, "Breakpoint searching algorithms for the continuous quadratic knapsack problem",
    Mathematical Programming 112, 2008 (the curve and its breakpoints).
    """
    return _minimise_in_box(*matched(v, step, x, y, radius))


_clip_rows = jnp.vectorize(project_linf_ball, signature="(n),()->(n)")


def _amplitude(y: Real) -> Array:
    """`sqrt(max(y, 0))`, with derivative 0 at `y <= 0`."""
    measured = jnp.greater(y, 0)
    return jnp.where(measured, jnp.sqrt(jnp.where(measured, y, 1.0)), 0.0)


@partial(jnp.vectorize, signature="(n),(),(n),(),()->(n)")
def _minimise_in_box(v: Array, step: Array, x: Array, y: Array, radius: Array) -> Array:
    """Choose a crossing without derivatives, then compute it again with them: one row."""
    kind, low, high = _best_crossing(*stop_gradient((v, step, x, y, radius)))
    own, gain, level = (factor[kind] for factor in _crossings(v, step, x, y, radius))
    nu, _, _ = _solve_piece((own, gain, level), low, high, v, x, radius)
    return project_linf_ball(v + nu * x, radius)


def _best_crossing(v: Array, step: Array, x: Array, y: Array, radius: Array) -> _Three:
    """Which of the four functions crosses 0 at the minimiser, and the ends of that piece."""
    own, gain, level = crossings = _crossings(v, step, x, y, radius)
    # The minimiser has |x^T w| <= root and |nu| <= 2 step root; the ends of the curve keep away.
    root = jnp.sqrt(jnp.maximum(y, jnp.sum(x * project_linf_ball(v, radius)) ** 2))
    end = 1 + 4 * step * root
    breaks = [jnp.where(x == 0, end, safe_ratio(side - v, x)) for side in (-radius, radius)]
    nodes = jnp.clip(jnp.concatenate([*breaks, jnp.stack([-end, end])]), -end, end)
    nodes = jnp.sort(nodes, descending=True)  # so that of equal objectives the first is wanted
    low, high = nodes[1:], nodes[:-1]

    def value(nu: Array) -> Array:
        return own * nu + gain * jnp.sum(x * project_linf_ball(v + nu * x, radius)) - level

    def objective(low: Array, high: Array) -> Array:
        _, product, squared = _solve_piece(crossings, low, high, v, x, radius)
        return 2 * step * jnp.abs(y - product**2) + squared

    values = jax.vmap(value)(nodes)
    below, above = values[1:], values[:-1]
    crossed = (below <= 0) & (above >= 0) & (below < above)
    objectives = jnp.where(crossed, jax.vmap(objective)(low, high), jnp.inf)
    piece, kind = divmod(jnp.argmin(objectives), len(own))
    return kind, low[piece], high[piece]


def _crossings(v: Array, step: Array, x: Array, y: Array, radius: Array) -> _Three:
    """Factors of the four functions `own nu + gain p(nu) - level`.

    The first one belongs to the sign of the residual at `nu = 0`: there, for `step = 0` or
    `p(0) = 0`, both signs have their zero, and only this one has the right derivative.
    """
    outside = jnp.sum(x * project_linf_ball(v, radius)) ** 2 >= y
    pull = jnp.where(outside, 2 * step, -2 * step)
    amplitude = _amplitude(y)
    own = jnp.asarray([1, 0, 1, 0], v.dtype)
    gain = jnp.stack([pull, jnp.ones_like(pull), -pull, jnp.ones_like(pull)])
    level = jnp.stack([0 * amplitude, amplitude, 0 * amplitude, -amplitude])
    return own, gain, level


def _solve_piece(
    crossing: _Three, low: Array, high: Array, v: Array, x: Array, radius: Array
) -> _Three:
    """Solve `own nu + gain p(nu) = level` on a piece: `nu`, `p(nu)`, `||w(nu) - v||**2`."""
    own, gain, level = crossing
    moved = v + (low + high) / 2 * x
    free = jnp.abs(moved) < radius
    base = jnp.where(free, v, project_linf_ball(moved, radius))
    offset, slope = jnp.sum(x * base), jnp.sum(jnp.where(free, x * x, 0.0))
    nu = jnp.clip(safe_ratio(level - gain * offset, own + gain * slope), low, high)
    return nu, offset + slope * nu, slope * nu**2 + jnp.sum((base - v) ** 2)
