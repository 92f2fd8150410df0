r"""Centralised reference for range localisation: the best that the data allow, by brute force.

All ranges in one place. For ranges with offsets, gaps, clocks or paths see `_measured`; for one
range of every sensor the cost `sum_l | ||w - a_l|| - d_l |` is evaluated on a grid, the
cheapest points are starts, and from each of them reweighted Gauss-Newton descends:

    wt_l = 1 / max(|r_l|, epsilon),   u_l = (w - a_l) / ||w - a_l||,   r_l = ||w - a_l|| - d_l
    w <- w - (sum_l wt_l u_l u_l^T + 1e-9 I)^{-1} sum_l wt_l r_l u_l

with epsilon from 3 m, times 0.75 per step, down to 1e-9; the system of as many unknowns as space
has dimensions is solved by its factors L D L^T, written out. The point of least cost that was ever
visited is returned. It does not share the local minima of the methods that it judges, and it is
not federated.

Reference: least absolute deviation by iteratively reweighted least squares, E. J. Schlossmacher,
"An iterative technique for absolute deviations curve fitting", JASA 68 (1973) 857-859, on the
linearised residuals.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    refuse,
    scalar,
)
from fedjax_admm.capabilities import Ranges, needs
from fedjax_admm.direct._measured import locate_measured
from fedjax_admm.problems import Localization, RangeLocalization


@needs(Ranges)
def locate_centrally(
    problem: Localization | RangeLocalization,
    *,
    half_width: ArrayLike = 33.0,
    points_per_axis: int = 13,
    starts: int = 12,
    steps: int = 60,
) -> jax.Array:
    """Locate the target with all ranges in one place; pure, and vmappable over problems.

    Args:
      problem: sensors and ranges, with whatever `problems.localization` takes; a path is located
        without a prior of motion.
      half_width: the grid covers the cube of this half width around the origin, metres; give
        the bounding cube of wherever the target can be.
      points_per_axis: grid points per axis.
      starts: how many of the cheapest grid points are starts; of a path, those of every time.
      steps: Gauss-Newton steps from each start.

    Returns:
      The model of least cost ever visited: a position (dim,), and of a `RangeLocalization` with a
      clock or a path (times * columns,), which its methods `positions`, `clock_offsets` and
      `offsets_at` read.
    """
    points_per_axis = count("points_per_axis", points_per_axis, at_least=2)
    starts, steps = count("starts", starts), count("steps", steps)
    dim = problem.anchors.shape[1]
    points = points_per_axis**dim
    refuse(starts > points, "starts", f"must be at most the {points} grid points", starts)
    half_width = scalar("half_width", half_width, above=0)
    dtype = problem.anchors.dtype
    axis = jnp.linspace(-1, 1, points_per_axis, dtype=dtype) * jnp.asarray(half_width, dtype)
    mesh = jnp.meshgrid(*(axis,) * dim, indexing="ij")
    grid = [coordinate.reshape(-1) for coordinate in mesh]
    if isinstance(problem, RangeLocalization):
        return locate_measured(problem, jnp.stack(grid, -1), starts, steps)
    _, cheapest = jax.lax.top_k(-_costs(problem, grid), starts)
    candidates = tuple(coordinate[cheapest] for coordinate in grid)

    def look_and_move(carry, step):
        positions, best, best_cost = carry
        epsilon = jnp.maximum(3 * 0.75 ** step.astype(dtype), 1e-9)
        cost, moved = _gauss_newton(problem, positions, epsilon)
        better = cost < best_cost
        best = tuple(jnp.where(better, new, old) for new, old in zip(positions, best, strict=True))
        return (moved, best, jnp.minimum(cost, best_cost)), None

    first = (candidates, candidates, jnp.full(starts, jnp.inf, dtype))
    (_, best, best_cost), _ = jax.lax.scan(look_and_move, first, jnp.arange(steps + 1))
    cheapest = jnp.argmin(best_cost)
    return jnp.stack([coordinate[cheapest] for coordinate in best])


_Points = Sequence[jax.Array]
"""Points coordinate by coordinate: as many arrays as space has dimensions."""

_AT_ONCE = 32  # sensors whose costs are added in one expression


def _distance(offset: _Points) -> jax.Array:
    """Return lengths; those of a localisation problem have squares within the range."""
    squared = offset[0] * offset[0]
    for part in offset[1:]:
        squared = squared + part * part
    return jnp.sqrt(squared)


def _costs(problem: Localization, points: _Points) -> jax.Array:
    """Return the cost of each of many points, coordinates of shape (points,).

    The sum over sensors is written out, some at a time: XLA's reduction on a CPU is scalar code,
    and takes six times as long.
    """

    def add(total, sensors):
        anchors, distances = sensors
        for anchor, distance in zip(anchors, distances, strict=True):
            offset = [x - a for x, a in zip(points, anchor, strict=True)]
            total = total + jnp.abs(_distance(offset) - distance)
        return total, None

    anchors, distances = problem.anchors, problem.distances
    blocks = len(distances) // _AT_ONCE
    whole = blocks * _AT_ONCE
    total = jnp.zeros_like(points[0])
    if blocks:
        cut = anchors[:whole].reshape(blocks, _AT_ONCE, -1), distances[:whole].reshape(blocks, -1)
        total, _ = jax.lax.scan(add, total, cut)
    return add(total, (anchors[whole:], distances[whole:]))[0]


def _gauss_newton(
    problem: Localization, points: _Points, epsilon: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """Return the cost of each point, and where a reweighted Gauss-Newton step takes it.

    A point that has left the finite numbers costs infinity.
    """
    offset = [x[None] - a[:, None] for x, a in zip(points, problem.anchors.T, strict=True)]
    distance = _distance(offset)
    residual = distance - problem.distances[:, None]
    cost = jnp.sum(jnp.abs(residual), 0)
    direction = [part / jnp.maximum(distance, 1e-12) for part in offset]
    weight = 1 / jnp.maximum(jnp.abs(residual), epsilon)
    weighted = [weight * part for part in direction]
    matrix = [
        [jnp.sum(weighted[i] * direction[j], 0) + (1e-9 if i == j else 0.0) for j in range(i + 1)]
        for i in range(len(points))
    ]
    step = _solved(matrix, [jnp.sum(part * residual, 0) for part in weighted])
    moved = tuple(x - part for x, part in zip(points, step, strict=True))
    return jnp.where(jnp.isnan(cost), jnp.inf, cost), moved


def _solved(matrix: Sequence[_Points], right: _Points) -> list[jax.Array]:
    """Solve small positive definite systems, all at once: sums, products and quotients alone.

    LAPACK in a batch can wait for ever on several devices of one CPU.

    Args:
      matrix: its lower triangle, row by row; entries of any one shape.
      right: the right side.

    Reference: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition,
    section 10.1 (the factors L D L^T, without square roots).
    """
    size = len(right)
    lower = [[jnp.zeros_like(right[0])] * size for _ in range(size)]
    pivots: list[jax.Array] = []
    for j in range(size):
        pivots.append(matrix[j][j] - sum(lower[j][k] ** 2 * pivots[k] for k in range(j)))
        for i in range(j + 1, size):
            rest = sum(lower[i][k] * lower[j][k] * pivots[k] for k in range(j))
            lower[i][j] = (matrix[i][j] - rest) / pivots[j]
    forward: list[jax.Array] = []
    for i in range(size):
        forward.append(right[i] - sum(lower[i][k] * forward[k] for k in range(i)))
    solution = [part / pivot for part, pivot in zip(forward, pivots, strict=True)]
    for i in reversed(range(size)):
        solution[i] = solution[i] - sum(lower[k][i] * solution[k] for k in range(i + 1, size))
    return solution
