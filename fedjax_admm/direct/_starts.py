r"""Where a path may start: places of single windows of ranges, and the best sequence of them.

The ranges of a window are those of one place. From points on a circle (in space: a sphere) around
its anchors, damped Gauss-Newton steps with Huber's weights descend to local minima of

    c_w(x) = sum_i rho((||x - a_i|| - d_i) / s),   rho Huber's loss, constant beyond 8 deviations

of which the best distinct ones are kept: mirror images and other modes. The sequence is the one of
least sum of c and of the cost of its moves, by dynamic programming:

    sum_w c_w(x_w) / t + phi(||x_w - x_{w-1}|| / (v dt + 2 s)),   phi(u) = u^2 / 2, linear from 2 on

Here s is the median residual's deviation, v the median speed of the best places of windows, and
t = 2 `width` / `hop` tempers ranges that several windows share and whose errors are alike.

Reference: A. J. Viterbi, "Error bounds for convolutional codes", IEEE Transactions on Information
Theory 13(2), 1967 (the dynamic programme).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import kernels
from fedjax_admm._linear_algebra import positive_inverse

_STEPS = 14  # of Gauss-Newton
_KEPT = 4  # candidates of a window
_TUNING, _CUT = 1.345, 8.0  # of the loss, in deviations
_SAME = 6.0  # deviations: closer candidates are one
_BATCH = 1024  # windows at a time
_MAD_TO_DEVIATION = 1.4826
_GAP = 20.0  # times that locating a target once takes
SILENT = 1e3  # a range with such a scale of its error, in that of the median one, says nothing


def once(anchors: int, times: jax.Array) -> tuple[int, jax.Array, jax.Array]:
    """Return how many ranges locate a target once, how long they take, and which rows end a gap.

    A gap is so long that the target may be anywhere after it.
    """
    rows = len(times)
    width = min(rows, max(3 * anchors, 12))
    ends = np.arange(width - 1, rows)
    lasting = jnp.maximum(jnp.median(times[ends] - times[ends - width + 1]), 1e-30)
    return width, lasting, jnp.diff(times, prepend=times[:1]) > _GAP * lasting


@partial(jax.jit, static_argnames="clock")
def started(anchors, which, ranges, relative, times, clock: bool) -> jax.Array:
    """Return a rough place for each row, shape (rows, dim).

    Args:
      anchors: shape (anchors, dim), metres.
      which: the anchor of each row, shape (rows,), int32.
      ranges: shape (rows,), metres.
      relative: shape (rows,), scales of errors; a row far above 1 says nothing.
      times: shape (rows,), seconds.
      clock: whether the ranges of a window share an unknown offset.
    """
    rows = len(ranges)
    width, _, gaps = once(len(anchors), times)
    part = jnp.cumsum(gaps)
    hop = max(width // 2, 1)
    first = np.unique(np.minimum(np.arange(0, rows, hop), rows - width))
    taken = jnp.asarray(first[:, None] + np.arange(width))
    centre = first + width // 2
    there = (part[taken] == part[centre][:, None]) & (relative < SILENT)[taken]
    floor = 1e-4 * jnp.median(jnp.abs(ranges)) + 1e-9
    radius = jnp.max(kernels.safe_norm(anchors - jnp.mean(anchors, 0)[None]))

    def settle(given):
        return _settled(*given, floor=floor, radius=radius, clock=clock)

    given = anchors[which[taken]], ranges[taken], there
    points, residuals = jax.lax.map(settle, given, batch_size=min(_BATCH, len(first)))
    middling = jax.vmap(_median)(jnp.abs(residuals), there)
    scale = _MAD_TO_DEVIATION * jnp.median(jnp.min(middling, 1)) + floor
    ratio = jnp.abs(residuals) / scale
    loss = jnp.where(
        ratio < _TUNING, ratio**2 / 2, _TUNING * (jnp.minimum(ratio, _CUT) - _TUNING / 2)
    )
    costs = jnp.sum(jnp.where(there[:, None], loss, 0), -1) * hop / (2 * width)
    places, costs = jax.vmap(partial(_distinct, apart=_SAME * scale))(points, costs)
    best = _sequence(places, costs, times[centre], scale)
    here, marks = jnp.arange(rows, dtype=ranges.dtype), jnp.asarray(centre, ranges.dtype)
    lines = jax.vmap(lambda column: jnp.interp(here, marks, column), 1, 1)
    return lines(best)


def _settled(around, ranges, there, *, floor, radius, clock):
    """Return the minima that steps from all directions reach, and the residuals of each."""
    dim = around.shape[1]
    present = there.astype(ranges.dtype)
    number = jnp.maximum(jnp.sum(present), 1)
    middle = jnp.sum(jnp.where(there[:, None], around, 0), 0) / number
    far = radius if clock else _median(ranges, there)
    points = middle[None] + far * jnp.asarray(_directions(dim), around.dtype)

    def residuals(points):
        gap = points[:, None] - around[None]
        distance = kernels.safe_norm(gap)
        error = distance - ranges[None]
        if clock:
            error = error - _median(error, there)[:, None]
        return error, gap / jnp.maximum(distance, 1e-12)[..., None]

    def step(turn, points):
        error, ways = residuals(points)
        scale = jnp.maximum(_MAD_TO_DEVIATION * _median(jnp.abs(error), there)[:, None], floor)
        weights = present[None] / jnp.maximum(1, jnp.abs(error) / (1.5 * scale))
        if clock:
            share = weights / jnp.maximum(jnp.sum(weights, 1, keepdims=True), 1e-30)
            error = error - jnp.sum(share * error, 1, keepdims=True)
            ways = ways - jnp.sum(share[..., None] * ways, 1, keepdims=True)
        heavy = weights[..., None] * ways
        damping = (1e-3 + 0.3 * 0.6 ** turn.astype(ranges.dtype)) * len(ranges)
        bend = jnp.sum(heavy[..., None] * ways[..., None, :], 1)
        bend = bend + damping * jnp.eye(dim, dtype=bend.dtype)[None]
        pull = jnp.sum(heavy * error[..., None], 1)
        return points - jnp.sum(positive_inverse(bend) * pull[:, None], -1)

    points = jax.lax.fori_loop(0, _STEPS, step, points)
    return points, residuals(points)[0]


def _median(values: jax.Array, there: jax.Array) -> jax.Array:
    """Return the upper median of the last axis where `there` holds, 0 if it holds nowhere."""
    ordered = jnp.sort(jnp.where(there, values, jnp.inf), -1)
    middle = ordered[..., jnp.sum(there) // 2]
    return jnp.where(jnp.any(there), middle, 0)


def _directions(dim: int) -> np.ndarray:
    """Return unit vectors, evenly spread: 12 in the plane, 20 on a spiral in space."""
    if dim == 2:
        angle = np.arange(12) * np.pi / 6
        return np.stack([np.cos(angle), np.sin(angle)], -1)
    number = np.arange(20) + 0.5
    height, angle = 1 - number / 10, np.pi * (1 + 5**0.5) * number
    wide = np.sqrt(1 - height**2)
    return np.stack([wide * np.cos(angle), wide * np.sin(angle), height], -1)


def _distinct(points, costs, *, apart):
    """Return the best points that are not the same, and their costs; infinite without one."""
    kept = []
    for _ in range(_KEPT):
        best = jnp.argmin(costs)
        kept.append((points[best], costs[best]))
        near = kernels.safe_norm(points - points[best][None]) < apart
        costs = jnp.where(near, jnp.inf, costs)
    places, costs = map(jnp.stack, zip(*kept, strict=True))
    return places, costs


def _sequence(places, costs, times, scale) -> jax.Array:
    """Return the best place of each window, shape (windows, dim)."""
    windows = len(places)
    if windows == 1:
        return places[:, jnp.argmin(costs[0])]
    spans = jnp.maximum(jnp.diff(times), 1e-9)
    best = jnp.take_along_axis(places, jnp.argmin(costs, 1)[:, None, None], 1)[:, 0]
    speeds = kernels.safe_norm(jnp.diff(best, axis=0)) / spans
    fast = jnp.maximum(jnp.median(speeds), 2 * scale / jnp.median(spans) / 3)

    def forwards(total, given):
        before, after, cost, span = given
        far = kernels.safe_norm(before[:, None] - after[None]) / (fast * span + 2 * scale)
        move = jnp.where(far < 2, far**2 / 2, 2 * jnp.minimum(far, 12) - 2)
        through = total[:, None] + move
        return cost + jnp.min(through, 0), jnp.argmin(through, 0)

    given = places[:-1], places[1:], costs[1:], spans
    total, came = jax.lax.scan(forwards, costs[0], given)
    last = jnp.argmin(total)
    back = lambda here, came: (came[here], here)  # noqa: E731
    first, others = jax.lax.scan(back, last, came, reverse=True)
    chosen = jnp.concatenate([first[None], others])
    return jnp.take_along_axis(places, chosen[:, None, None], 1)[:, 0]
