r"""The central reference of ranges with offsets, clocks, gaps and paths.

All ranges in one place. What is minimised is the sum of the clients' losses,

    sum_l f_l(x, c) = min over b of  sum_lti w_lti | ||x_t - a_l|| + c_t + b_l - d_lti |
                                     + sum_l p_l (b_l - m_l)^2 / 2

Each time has a grid of positions. At each of them c_t is the weighted median of what the ranges
of the time leave at `b = m`, and b is the best one for these ranges. From the cheapest points
robust steps descend on the smoothed losses

    k^2 sum (sqrt(1 + (w r / k)^2) - 1) + k sum p (b - m)^2 / 2,

k times the loss above for small k; k falls from 3 m to nothing, a step at each. The model of least
cost that was ever visited is returned.

Reference: E. J. Schlossmacher, "An iterative technique for absolute deviations curve fitting",
JASA 68 (1973) 857-859, with an absolute value that is smoothed.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp

from fedjax_admm import kernels
from fedjax_admm.problems import RangeLocalization
from fedjax_admm.regions import Fit, refine, soft_l1

_FIRST, _RATIO = 3.0, 0.75  # thresholds: metres, and the factor from one to the next
_EACH = 4  # descents at each, because one may be refused


def locate_measured(
    problem: RangeLocalization, grid: jax.Array, starts: int, steps: int
) -> jax.Array:
    """Return the model of least cost that was visited, shape (times * columns,).

    Args:
      problem: ranges.
      grid: positions, shape (points, dim), metres.
      starts: how many of the cheapest points of every time are starts.
      steps: robust steps from each start.
    """
    offsets = jnp.zeros_like(problem.anchors[:, 0])
    if problem.offsets is not None:
        offsets = jnp.clip(problem.offsets.centre, problem.offsets.lower, problem.offsets.upper)
    each = jax.lax.map(
        lambda time: _cheapest(problem, grid, starts, offsets, *time),
        (jnp.swapaxes(problem.ranges, 0, 1), jnp.swapaxes(problem.weights, 0, 1)),
    )
    models = jnp.swapaxes(each, 0, 1).reshape(starts, -1)
    # Of a weight of one over a metre, a threshold of one metre is 1.
    present = jnp.maximum(jnp.sum(problem.measured, dtype=grid.dtype), 1)
    typical = problem.unit * jnp.sum(problem.weights) / present

    def descended(model: jax.Array) -> tuple[jax.Array, jax.Array]:
        def look_and_move(carry, step):
            fit, best, best_cost = carry
            threshold = typical * jnp.maximum(_FIRST * _RATIO ** step.astype(grid.dtype), 1e-9)
            cost = jnp.sum(problem.values(jnp.tile(fit.model, (problem.num_clients, 1))))
            best = jnp.where(cost < best_cost, fit.model, best)
            moved = refine(_smoothed(problem, threshold), fit, soft_l1(threshold), steps=_EACH)
            return (moved, best, jnp.fmin(cost, best_cost)), None

        fit = Fit(model, offsets, problem.dim, problem.columns)
        first = fit, model, jnp.full((), jnp.inf, grid.dtype)
        (_, best, cost), _ = jax.lax.scan(look_and_move, first, jnp.arange(steps + 1))
        return best, cost

    best, costs = jax.vmap(descended)(models)
    return best[jnp.argmin(costs)]


def _smoothed(problem: RangeLocalization, threshold: jax.Array) -> RangeLocalization:
    """Return the problem with the prior that goes with the smoothed loss of a threshold."""
    if problem.offsets is None:
        return problem
    precision = threshold * problem.offsets.precision
    return replace(problem, offsets=replace(problem.offsets, precision=precision))


def _cheapest(
    problem: RangeLocalization,
    grid: jax.Array,
    starts: int,
    offsets: jax.Array,
    ranges: jax.Array,
    weights: jax.Array,
) -> jax.Array:
    """Return the models (starts, columns) of least cost for the ranges (clients, n) of a time."""

    def at(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        lengths = kernels.safe_norm(point[None] - problem.anchors)
        clock = jnp.zeros_like(point[0])
        if problem.columns > problem.dim:
            known = jnp.broadcast_to((lengths + offsets)[:, None], ranges.shape)
            flat = known.reshape(-1), ranges.reshape(-1), weights.reshape(-1)
            clock, _ = kernels.range_offset(*flat)
        lone = replace(problem, ranges=ranges[:, None], weights=weights[:, None])
        values, _ = lone.values_and_slopes((lengths + clock)[:, None])
        return jnp.sum(values), clock

    costs, clocks = jax.vmap(at)(grid)
    _, places = jax.lax.top_k(-costs, starts)
    models = grid[places]
    if problem.columns > problem.dim:
        models = jnp.concatenate([models, clocks[places][:, None]], -1)
    return models
