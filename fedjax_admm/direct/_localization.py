r"""Centralised reference for range localisation: the best that the data allow, by brute force.

All ranges in one place. The cost `sum_l | ||w - a_l|| - d_l |` is looked at on a grid, the
cheapest points are starts, and from each of them reweighted Gauss-Newton descends:

    wt_l = 1 / max(|r_l|, epsilon),   u_l = (w - a_l) / ||w - a_l||,   r_l = ||w - a_l|| - d_l
    w <- w - (sum_l wt_l u_l u_l^T + 1e-9 I)^{-1} sum_l wt_l r_l u_l

with epsilon from 3 m, times 0.75 per step, down to 1e-9. The point of least cost that was ever
visited is returned. It does not share the local minima of the methods that it judges, and it is
not federated.

Reference: least absolute deviation by iteratively reweighted least squares, E. J. Schlossmacher,
"An iterative technique for absolute deviations curve fitting", JASA 68 (1973) 857-859, on the
linearised residuals.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    InputError,
    count,
    scalar,
)
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm.capabilities import Ranges, needs
from fedjax_admm.kernels import safe_norm
from fedjax_admm.problems import Localization


@needs(Ranges)
def locate_centrally(
    problem: Localization,
    *,
    half_width: ArrayLike = 33.0,
    points_per_axis: int = 13,
    starts: int = 12,
    steps: int = 60,
) -> jax.Array:
    """Locate the target with all ranges in one place; pure, and vmappable over problems.

    Args:
      problem: sensors and ranges.
      half_width: the grid covers the cube of this half width around the origin, metres; give
        the bounding cube of wherever the target can be.
      points_per_axis: grid points per axis.
      starts: how many of the cheapest grid points are starts.
      steps: Gauss-Newton steps from each start.

    Returns:
      The position of least cost ever visited, shape (dim,).

    Raises:
      InputError: a count is not positive, or there are more starts than grid points.
    """
    points_per_axis = count("points_per_axis", points_per_axis, at_least=2)
    starts, steps = count("starts", starts), count("steps", steps)
    dim = problem.anchors.shape[1]
    points = points_per_axis**dim
    if starts > points:
        raise InputError(
            f"must be at most the {points} grid points, but it is {starts}",
            argument="starts",
            value=starts,
        )

    half_width = scalar("half_width", half_width, above=0)
    dtype = problem.anchors.dtype
    axis = jnp.linspace(-1, 1, points_per_axis, dtype=dtype) * jnp.asarray(half_width, dtype)
    mesh = jnp.meshgrid(*(axis,) * dim, indexing="ij")
    grid = jnp.stack([coordinate.reshape(-1) for coordinate in mesh], -1)
    _, cheapest = jax.lax.top_k(-_costs(problem, grid), starts)
    candidates = grid[cheapest]

    def descend(carry, step):
        positions, best, best_cost = carry
        epsilon = jnp.maximum(3 * 0.75 ** step.astype(dtype), 1e-9)
        positions = _gauss_newton(problem, positions, epsilon)
        cost = _costs(problem, positions)
        better = cost < best_cost
        best = jnp.where(better[:, None], positions, best)
        return (positions, best, jnp.minimum(cost, best_cost)), None

    first = (candidates, candidates, _costs(problem, candidates))
    (_, best, best_cost), _ = jax.lax.scan(descend, first, jnp.arange(steps))
    return best[jnp.argmin(best_cost)]


def _residuals(problem: Localization, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return offsets (..., clients, dim) and residuals (..., clients) of positions (..., dim)."""
    shape = (*positions.shape[:-1], *problem.anchors.shape)
    offset = positions[..., None, :] - jnp.broadcast_to(problem.anchors, shape)
    distances = jnp.broadcast_to(problem.distances, shape[:-1])
    return offset, safe_norm(offset) - distances


def _costs(problem: Localization, positions: jax.Array) -> jax.Array:
    """Return the cost of each position; a step that left the finite numbers costs infinity."""
    cost = jnp.sum(jnp.abs(_residuals(problem, positions)[1]), -1)
    return jnp.where(jnp.isnan(cost), jnp.inf, cost)


def _gauss_newton(problem: Localization, positions: jax.Array, epsilon: jax.Array) -> jax.Array:
    """Take one reweighted Gauss-Newton step from each position, shape (starts, dim)."""
    offset, residual = _residuals(problem, positions)
    direction = offset / jnp.maximum(safe_norm(offset, keepdims=True), 1e-12)
    weight = 1 / jnp.maximum(jnp.abs(residual), epsilon)
    weighted = weight[..., None] * direction
    # Sums and products only: LAPACK in a batch can wait for ever on several devices of one CPU.
    hessian = jnp.sum(weighted[..., :, None] * direction[..., None, :], -3)
    hessian += 1e-9 * jnp.eye(positions.shape[-1], dtype=positions.dtype)[None]
    gradient = jnp.sum(weighted * residual[..., None], -2)
    return positions - jnp.sum(positive_inverse(hessian) * gradient[..., None, :], -1)
