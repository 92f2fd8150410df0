"""Trend filtering: a fixed number of rounds of ADMM over the exact map of chains, and their gap."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, weighed, widened
from fedjax_admm.kernels._gaps import approximate
from fedjax_admm.kernels._loops import scan
from fedjax_admm.kernels.chains._centred import centred
from fedjax_admm.kernels.chains._total_variation import prox_tv1d
from fedjax_admm.kernels.compiling import Size

_ORDERS = (1, 2)
# In units of half the range of the point; beyond, the linear system is ill-conditioned in float32.
_LARGEST_RHO = 32.0


@approximate
def prox_trend_filter(
    v: Array,
    step: Size,
    weight: Size = 1.0,
    *,
    order: int = 1,
    iterations: int = 200,
    axis: int = -1,
) -> tuple[Array, Array]:
    """Proximal map of the trend filter's penalty, `g(x) = sum_i |(D^(order + 1) x)_i|`.

    `D` takes differences of neighbours: at order 1 the minimiser is piecewise linear, at order 2
    piecewise quadratic. `Prox(v; step)` comes from `iterations` rounds of ADMM, where `A` is
    `D^order`: `x <- (I + rho A^T A)^-1 (v + rho A^T (a + u))` by a banded factor, `a <- Prox_tv(A x
    - u; step / rho)` by the exact map of chains, `u <- u + a - A x`, and `rho` is the step in units
    of half the range of `v`, at most 32. The gap bounds what the result lacks: `step g(x) + ||x -
    v||^2 / 2` exceeds its minimum by at most the gap, and `x` is at most `sqrt(2 gap)` from the
    minimiser. Long chains need more rounds, the more so at order 2.

    Ties: none, the minimiser is unique. Derivative: that of the rounds made, in the point and in
    the step; at kinks that of `prox_tv1d`.

    Args:
      order: 1 or 2, static.
      iterations: the number of rounds, static.

    Returns:
      Approximate minimisers, broadcast shape, dtype of `v`; from `with_gap` their gaps too, that
      shape without `axis`.

    Reference: A. Ramdas and R. J. Tibshirani, "Fast and flexible ADMM algorithms for trend
    filtering", Journal of Computational and Graphical Statistics 25(3), 2016 (the splitting); S.-J.
    Kim, K. Koh, S. Boyd and D. Gorinevsky, "l1 trend filtering", SIAM Review 51(2), 2009.
    """
    _check(order)
    v, step = weighed(v, step, weight)
    shape = jnp.broadcast_shapes(v.shape, step.shape)
    rows = jnp.moveaxis(jnp.broadcast_to(widened(v), shape), axis, 0)
    step = jnp.moveaxis(widened(step if step.ndim else jnp.full((1,) * v.ndim, step)), axis, 0)
    if rows.shape[0] < order + 2 or rows.size == 0:
        return jnp.moveaxis(rows, 0, axis).astype(v.dtype), jnp.zeros(rows.shape[1:], v.dtype)
    y, middle, scale = centred(rows, 0)
    # No dual variable exceeds this number: a greater step is as good.
    bound = jnp.minimum(step / scale, 4.0 * float(rows.shape[0]) ** (order + 1))
    bound = jnp.broadcast_to(bound, (1, *rows.shape[1:]))
    rho = jnp.minimum(bound, _LARGEST_RHO)
    inner = jnp.maximum(bound / _LARGEST_RHO, 1.0)  # step / rho, where both are 0 too
    factor = _factor(rho, order, rows.shape[0])

    def body(carry, _):
        trend, dual = carry
        x = _solve(factor, y + rho * _adjoint(trend + dual, order))
        slopes = jnp.diff(x, order, axis=0)
        trend = prox_tv1d(slopes - dual, inner, axis=0)
        return (trend, dual + trend - slopes), None

    start = jnp.diff(y, order, axis=0)
    (trend, dual), _ = scan(body, (start, jnp.zeros_like(start)), length=iterations)
    x = _solve(factor, y + rho * _adjoint(trend + dual, order))
    gap = _gap(x, y, bound, rho * jnp.cumsum(dual, axis=0)[:-1], order) * scale[0] * scale[0]
    return jnp.moveaxis(middle + scale * x, 0, axis).astype(v.dtype), gap.astype(v.dtype)


def trend_filter_value(x: Array, weight: Size = 1.0, *, order: int = 1, axis: int = -1) -> Array:
    """Penalty of the trend filter, `g(x) = sum_i |(D^(order + 1) x)_i|`.

    Derivative where a difference is 0: 0, the middle of the subdifferential.
    """
    _check(order)
    x, weight = matched(x, weight)
    bends = jnp.diff(widened(x), order + 1, axis=axis)
    sizes = widened(weight) * (bends * stop_gradient(jnp.sign(bends)))
    return jnp.sum(sizes, axis=axis).astype(x.dtype)


def _check(order: int) -> None:
    if order not in _ORDERS:
        raise ValueError(f"order must be 1 or 2, but it is {order!r}; order 0 is prox_tv1d.")


def _gap(x: Array, y: Array, bound: Array, dual: Array, order: int) -> Array:
    """Return how far the primal objective at x is above the dual one, term by positive term."""
    dual = jnp.where(dual > bound, bound, jnp.where(dual < -bound, -bound, dual))
    bends = jnp.diff(x, order + 1, axis=0)
    other = y - _adjoint(dual, order + 1)
    lacking = jnp.maximum(bound * bends * jnp.sign(bends) - dual * bends, 0.0)
    return jnp.sum(lacking, 0) + jnp.sum((x - other) ** 2, 0) / 2


def _adjoint(a: Array, order: int) -> Array:
    """Transposed differences of some order along the first axis."""
    for _ in range(order):
        edge = jnp.zeros_like(a[:1])
        a = jnp.concatenate([edge, a]) - jnp.concatenate([a, edge])
    return a


def _factor(rho: Array, order: int, size: int) -> tuple[Array, Array, Array]:
    """Return both subdiagonals of L and the pivots P in `L P L^T = I + rho D'^T D'`, (n, ...)."""
    taps = (-1.0, 1.0, 0.0) if order == 1 else (1.0, -2.0, 1.0)

    def band(offset: int) -> Array:
        """Entry i is that of row i and column i - offset."""
        total = jnp.zeros(size, rho.dtype)
        for j in range(offset, order + 1):
            total = total.at[j : j + size - order].add(taps[j] * taps[j - offset])
        return total.reshape(-1, *(1,) * (rho.ndim - 1)) * rho

    def body(carry, entry):
        before, twice_before, lower_before = carry
        diagonal, first, second = entry
        second = second / twice_before
        first = (first - second * twice_before * lower_before) / before
        pivot = diagonal - first * first * before - second * second * twice_before
        return (pivot, before, first), (first, second, pivot)

    one = jnp.ones(rho.shape[1:], rho.dtype)
    bands = (1 + band(0), band(1), band(2))
    return scan(body, (one, one, 0 * one), bands)[1]


def _solve(factor: tuple[Array, Array, Array], b: Array) -> Array:
    """Solve with the banded factor along the first axis."""
    first, second, pivot = factor
    nothing = jnp.zeros_like(b[0])

    def forward(carry, entry):
        before, twice_before = carry
        b, first, second = entry
        found = b - first * before - second * twice_before
        return (found, before), found

    def backward(carry, entry):
        # What entries behind this one take from it, and from the one before.
        taken, from_before = carry
        b, first, second = entry
        found = b - taken
        return (from_before + first * found, second * found), found

    _, found = scan(forward, (nothing, nothing), (b, first, second))
    _, found = scan(backward, (nothing, nothing), (found / pivot, first, second), reverse=True)
    return found
