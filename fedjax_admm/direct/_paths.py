r"""The path of a target from ranges at many times, with offsets and a scale of the ranges.

A row is one range, of the anchor a_l at the time t_i; rows are in the order of time, and several
may share a time:

    d_i = (c + e_l) ||x_i - a_l|| + b_l + k_i + noise of the scale sigma
    b_l ~ N(0, tau^2),   c ~ N(1, 0.1^2),   e_l ~ N(0, kappa^2),   k_i = k_{i-1} + noise
    x_i = x_{i-1} + B_i h_{i-1},   h_i = R_i h_{i-1},   both with noise

e_l, a factor of each anchor's own, and k_i, the offset of the target's clock and a random walk with
the intensity w, are there only if asked for. B_i is the displacement since the row before in the
frame of the target's body, and R_i its turn, as an odometer tells them; h is the unknown heading,
whose length is the odometer's factor. Without an odometer B_i is the time that has passed and
R_i = I, so that h is the velocity. In a span of dt, over the length s = |B|, the noise is that of a
random walk of h with the intensity q (per square root of time) and of x with the intensity p:

    Q_xx = (q^2 dt s^2 / 3 + p^2 dt) I,   Q_xh = q^2 dt s / 2 I,   Q_hh = q^2 dt I

Where an odometer was silent the target may have moved anywhere at its mean speed v: B = 0, and
v^2 dt^2 and 1 are added to Q_xx and Q_hh.

The path is the mode of the posterior with Huber's loss of the residuals, by Gauss-Newton steps:
each is one pass of filter and smoother over the chain, linear in (x, h, c, k, b, e), with the
weights `min(1, 1.345 sigma / |residual|)`, and 0 beyond 5 sigma in the later steps. Between the
steps sigma, q, p, tau, kappa and w descend, by a search along their logarithms, the robust negative
log-likelihood

    sum_i  beta log(S_i) / 2 + huber(e_i / sqrt(S_i)),   S_i = H_i P_i H_i^T + sigma_i^2

of the innovations e_i up to 5 deviations, with beta = E[z huber'(z)] of a standard normal z, which
makes sigma right for normal errors; in the first steps sigma follows the median of |e| / sqrt(S).
With tau the data say whether anchors have offsets at all. To compare models, the evidence is

    sum_i log(0.95 exp(-log(2 pi S_i) / 2 - huber(e_i / sqrt(S_i)) / beta) + 0.05 / (2 reach))

References: B. M. Bell, "The iterated Kalman smoother as a Gauss-Newton method", SIAM J.
Optimization 4(3), 1994; P. J. Huber, "Robust Statistics", 1981, sections 6.4 and 7.8; F. C.
Schweppe, "Evaluation of likelihood functions for Gaussian signals", IEEE Transactions on
Information Theory 11(1), 1965.
"""

import math
from dataclasses import field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import (
    finite_array,
    flag,
    is_concrete,
    number,
    of_shape,
    real_array,
    refuse,
    whole_numbers,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.direct._chains import Chain, filtered, smoothed

_TUNING = 1.345  # of Huber's loss: 95 % efficient for normal errors
_CONSISTENT = math.erf(_TUNING / math.sqrt(2))  # E[z huber'(z)] of a standard normal z
_REJECTED = 5.0  # sigma: a larger residual counts for nothing
_SCALE_DEVIATION = 0.1  # of the prior of c
_MAD_TO_DEVIATION = 1.4826
_STRAY = 0.05  # share of ranges that say nothing, in the evidence
_MOST_STEPS, _REJECTING = 60, 10  # Gauss-Newton steps, and from which on ranges are rejected
_SMALLEST_MOVE = 0.05  # of the search, in the logarithms
_BETTER = 0.1  # by how much a move lowers the negative log-likelihood


@pytree_dataclass
class PathEstimate:
    """A located path; rows are those of the ranges."""

    positions: jax.Array  # shape=(rows, dim), metres
    covariances: jax.Array  # shape=(rows, dim, dim), square metres
    headings: jax.Array  # shape=(rows, dim): h; the velocity without an odometer
    residuals: jax.Array  # shape=(rows,): range minus what the model says, metres
    weights: jax.Array  # shape=(rows,): of Huber's loss; 0 of a rejected range
    scale: jax.Array  # shape=(): c
    scale_deviation: jax.Array  # shape=(): its posterior standard deviation
    scales: jax.Array  # shape=(anchors,): c + e
    scale_deviations: jax.Array  # shape=(anchors,)
    offsets: jax.Array  # shape=(anchors,): b, metres
    offset_deviations: jax.Array  # shape=(anchors,), metres
    clock: jax.Array  # shape=(rows,): k, metres
    noise: jax.Array  # shape=(): sigma, metres
    turning: jax.Array  # shape=(): q
    slip: jax.Array  # shape=(): p
    offset_spread: jax.Array  # shape=(): tau, metres
    scale_spread: jax.Array  # shape=(): kappa
    drift: jax.Array  # shape=(): w, metres per root of a second
    evidence: jax.Array  # shape=(): of the ranges, a natural logarithm
    steps: jax.Array  # shape=(), int32: Gauss-Newton steps that were taken


@pytree_dataclass
class _Rows:
    """What is known before the path is."""

    anchors: jax.Array  # shape=(anchors, dim)
    anchor: jax.Array  # shape=(rows,), int32
    ranges: jax.Array  # shape=(rows,)
    relative: jax.Array  # shape=(rows,): errors' scale in units of the common sigma
    spans: jax.Array  # shape=(rows,): time since the row before
    shifts: jax.Array  # shape=(rows, dim, dim): B
    turns: jax.Array  # shape=(rows, dim, dim): R
    lengths: jax.Array  # shape=(rows,): s
    unknown: jax.Array  # shape=(rows,): v dt where an odometer was silent, else 0
    prior: jax.Array  # shape=(size,): standard deviations of the state; of b and e 1 or 0
    centre: jax.Array  # shape=(size,): means
    reach: jax.Array  # shape=(): half of the width where the target may be
    own: bool = field(metadata={"static": True})  # whether there are e
    clock: bool = field(metadata={"static": True})  # whether there is k

    @property
    def moving(self) -> int:
        """Return the number of entries of the state before the offsets b."""
        return 2 * self.anchors.shape[1] + 1 + self.clock

    def model(self, states: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return ranges of states (rows, size), unit vectors (rows, dim) and c + e (rows,)."""
        count, dim = self.anchors.shape
        gap = states[:, :dim] - self.anchors[self.anchor]
        distance = kernels.safe_norm(gap)
        ratio = states[:, 2 * dim]
        offset = jnp.take_along_axis(states, (self.moving + self.anchor)[:, None], 1)[:, 0]
        if self.clock:
            offset = offset + states[:, 2 * dim + 1]
        if self.own:
            each = self.moving + count + self.anchor
            ratio = ratio + jnp.take_along_axis(states, each[:, None], 1)[:, 0]
        return offset + ratio * distance, gap / jnp.maximum(distance, 1e-12)[:, None], ratio


def locate_path(
    anchors: ArrayLike,
    anchor: ArrayLike,
    ranges: ArrayLike,
    times: ArrayLike,
    *,
    sigma: ArrayLike | None = None,
    moves: ArrayLike | None = None,
    turns: ArrayLike | None = None,
    offsets: bool = True,
    scale: bool = True,
    own_scales: bool = False,
    clock: bool = False,
) -> PathEstimate:
    """Locate a path with all ranges in one place; pure, in float64 for more than a few rows.

    Args:
      anchors: positions, shape (anchors, dim), dim 2 or 3, metres.
      anchor: which anchor each range is of, shape (rows,), whole numbers.
      ranges: shape (rows,), metres, positive, with a clock of any sign.
      times: shape (rows,), seconds, not decreasing.
      sigma: relative scales of the errors, shape (rows,) or a number; their common factor is found.
      moves: displacement in the plane since the row before, forwards and to the left in the frame
        of the body that it then had, shape (rows, 2), metres; the first row is not used, and NaN is
        an unknown move. Without moves the velocity is nearly constant. `dead_reckoning` makes them
        from an odometer.
      turns: turn since the row before, shape (rows,), radians, counterclockwise; NaN with the move.
      offsets: whether anchors may have offsets; without, b = 0.
      scale: whether ranges may have a factor; without, c = 1.
      own_scales: whether anchors may have factors that differ; without, e = 0.
      clock: whether all ranges of a time share an unknown offset, as those of a target whose clock
        is not synchronous and differences to an anchor do; without, k = 0.

    Raises:
      InputError: shapes do not agree, times decrease, or only one of `moves` and `turns` is given.
    """
    anchors = finite_array("anchors", anchors, (None, None))
    dtype = anchors.dtype
    of_shape("anchors", anchors, (None, 2), (None, 3))
    times = finite_array("times", times, (None,)).astype(dtype)
    rows = len(times)
    ranges = finite_array("ranges", ranges, (rows,)).astype(dtype)
    if not flag("clock", clock):
        number("ranges", ranges, above=0)
    which = whole_numbers("anchor", anchor, (rows,), at_most=len(anchors) - 1)
    which = jnp.asarray(which)
    falls = is_concrete(times) and np.any(np.diff(np.asarray(times)) < 0)
    refuse(falls, "times", "must not decrease, but some do", remedy="sort the rows by time")
    refuse((moves is None) != (turns is None), "moves", "must be given with {turns}, or neither")
    relative = jnp.ones(rows, dtype)
    if sigma is not None:
        relative = jnp.broadcast_to(number("sigma", sigma, above=0).astype(dtype), (rows,))
        relative = relative / jnp.median(relative)
    spans = jnp.diff(times, prepend=times[:1])
    if moves is None or turns is None:
        moves, turns = jnp.stack([spans, jnp.zeros_like(spans)], -1), jnp.zeros_like(spans)
        fastest = jnp.full((), jnp.inf, dtype)
    else:
        moves = _odometry("moves", moves, (rows, 2), dtype).at[0].set(0)
        turns = _odometry("turns", turns, (rows,), dtype).at[0].set(0)
        fastest = jnp.full((), 2.0, dtype)  # a length of the heading h; it is 1 if all is right
    free = jnp.asarray([flag("offsets", offsets), flag("scale", scale)], dtype)
    given = anchors, which.astype(jnp.int32), ranges, relative, spans, moves, turns, fastest, free
    return _located(*given, own=flag("own_scales", own_scales), clock=clock)


def _odometry(name: str, value: ArrayLike, shape: tuple[int, ...], dtype) -> jax.Array:
    """Check an array whose entries may be NaN."""
    real_array(name, value)
    array = jnp.asarray(value, dtype)
    finite_array(name, jnp.where(jnp.isnan(array), 0, array), shape)
    return array


@partial(jax.jit, static_argnames=("own", "clock"))
def _located(
    anchors, which, ranges, relative, spans, moves, turns, fastest, free, *, own, clock
) -> PathEstimate:
    (count, dim), (offsets, scale) = anchors.shape, free
    dtype = anchors.dtype
    middle = jnp.mean(anchors, 0)
    radius = jnp.max(jnp.abs(anchors - middle[None]))
    reach = 1.2 * jnp.maximum(radius, radius if clock else jnp.median(ranges))
    first, duration = _windowed(anchors, which, ranges, spans, middle, reach, clock)
    fastest = jnp.where(jnp.isinf(fastest), 2 * reach / duration, fastest)
    begun = ranges - kernels.safe_norm(first - anchors[which])
    begun = jnp.median(begun) if clock else jnp.zeros((), dtype)
    prior = jnp.concatenate(
        [
            jnp.full(dim, 3 * reach),
            jnp.full(dim, fastest),
            jnp.full(1, _SCALE_DEVIATION * scale),
            jnp.full(int(clock), 3 * reach),
            jnp.full(count, offsets),
            jnp.full(count * own, scale),
        ]
    )
    centre = jnp.zeros_like(prior).at[:dim].set(middle).at[2 * dim].set(1)
    centre = centre.at[2 * dim + 1].set(begun) if clock else centre
    known = jnp.isfinite(moves).all(1) & jnp.isfinite(turns)
    moves = jnp.where(known[:, None], moves, 0)
    turns = jnp.where(known, turns, 0)
    lengths = kernels.safe_norm(moves)
    speed = jnp.sum(lengths) / jnp.maximum(jnp.sum(jnp.where(known, spans, 0)), 1e-30)
    rows = _Rows(
        anchors,
        which,
        ranges,
        relative,
        spans,
        jax.vmap(partial(_rotation, dim=dim))(moves, lengths),
        jax.vmap(partial(_rotation, dim=dim))(
            jnp.stack([jnp.cos(turns), jnp.sin(turns)], -1), jnp.ones_like(turns)
        ),
        lengths,
        jnp.where(known, 0, speed * spans),
        prior,
        centre,
        reach,
        own,
        clock,
    )
    states = jnp.broadcast_to(centre, (len(ranges), len(centre))).at[:, :dim].set(first)
    gaps = jnp.abs(_residuals(rows, states)) / relative
    sigma = _MAD_TO_DEVIATION * jnp.median(gaps) + 4 * jnp.finfo(dtype).eps * reach
    # As much noise as displaces a target by sigma / 3 within the ranges that locate it once.
    travelled = jnp.maximum(jnp.sum(lengths) * duration / jnp.maximum(jnp.sum(spans), 1e-30), 1e-30)
    begin = jnp.stack(
        [
            sigma,
            sigma / 3 / jnp.sqrt(duration) / travelled,
            sigma / 3 / jnp.sqrt(duration),
            _SCALE_DEVIATION * (reach if clock else jnp.median(ranges)),
            *([jnp.full((), _SCALE_DEVIATION, dtype)] if own else ()),
            *([sigma / 3 / jnp.sqrt(duration)] if clock else ()),
        ]
    )
    logs, states, step = _searched(rows, states, jnp.log(begin))
    weights = _weights(rows, states, logs, True)
    states, covariances = smoothed(_chain(rows, states, logs, weights))
    last, spread = states[-1], covariances[-1]
    scales, variances = jnp.zeros(count, dtype), jnp.zeros(count, dtype)
    if own:
        each = rows.moving + count + jnp.arange(count)
        scales, variances = last[each], spread[each, each] + 2 * spread[2 * dim, each]
    intensity = _Intensities.of(rows, logs)
    place = slice(rows.moving, rows.moving + count)
    return PathEstimate(
        positions=states[:, :dim],
        covariances=covariances[:, :dim, :dim],
        headings=states[:, dim : 2 * dim],
        residuals=_residuals(rows, states),
        weights=_weights(rows, states, logs, True),
        scale=last[2 * dim],
        scale_deviation=_root(spread[2 * dim, 2 * dim]),
        scales=last[2 * dim] + scales,
        scale_deviations=_root(spread[2 * dim, 2 * dim] + variances),
        offsets=last[place],
        offset_deviations=_root(jnp.diagonal(spread)[place]),
        clock=states[:, 2 * dim + 1] if clock else jnp.zeros_like(ranges),
        noise=intensity.sigma,
        turning=intensity.turning,
        slip=intensity.slip,
        offset_spread=intensity.spread * offsets,
        scale_spread=intensity.scale_spread * scale,
        drift=intensity.drift,
        evidence=_evidence(rows, states, logs, weights),
        steps=step,
    )


def _root(variance: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.maximum(variance, 0))


@pytree_dataclass
class _Intensities:
    """What the search moves; 0 where there is none."""

    sigma: jax.Array
    turning: jax.Array
    slip: jax.Array
    spread: jax.Array  # tau
    scale_spread: jax.Array  # kappa
    drift: jax.Array  # w

    @classmethod
    def of(cls, rows: _Rows, logs: jax.Array) -> "_Intensities":
        """Read the logarithms (4 + own + clock,)."""
        found, zero = jnp.exp(logs), jnp.zeros_like(logs[0])
        own, clock = found[4] if rows.own else zero, found[-1] if rows.clock else zero
        return cls(found[0], found[1], found[2], found[3], own, clock)


def _searched(rows: _Rows, states: jax.Array, first: jax.Array):
    """Alternate Gauss-Newton steps of the path and moves of the logarithms of intensities."""
    number = len(first)
    unit = jnp.eye(number, dtype=first.dtype)
    around = jnp.concatenate([jnp.zeros_like(unit[:1]), unit, -unit])

    def going(carry):
        _, _, move, step = carry
        moving = (step <= _REJECTING) | (jnp.max(move) > _SMALLEST_MOVE)
        return (step < _MOST_STEPS) & moving

    def advance(carry):
        logs, states, move, step = carry
        early = step < _REJECTING
        weights = _weights(rows, states, logs, ~early)
        states, _ = smoothed(_chain(rows, states, logs, weights))
        weights = _weights(rows, states, logs, ~early)
        costs, medians = jax.vmap(lambda logs: _cost(rows, states, logs, weights))(
            logs[None] + around * move[None]
        )
        up, down = costs[1 : number + 1], costs[number + 1 :]
        limit = costs[0] - _BETTER
        sign = jnp.where((up < limit) & (up <= down), 1, jnp.where(down < limit, -1, 0))
        shorter = jnp.where(sign == 0, 0.6 * move, jnp.minimum(1.5 * move, 1))
        change = sign * move
        # Outliers break the likelihood as long as they are not rejected, but not the median.
        robust = jnp.clip(jnp.log(jnp.maximum(medians[0], 1e-30)), -1, 1)
        change = change.at[0].set(jnp.where(early, robust, change[0]))
        return logs + change, states, jnp.where(early, 1, shorter), step + 1

    start = first, states, jnp.ones_like(first), jnp.zeros((), jnp.int32)
    logs, states, _, step = jax.lax.while_loop(going, advance, start)
    return logs, states, step


def _cost(rows: _Rows, states, logs, weights) -> tuple[jax.Array, jax.Array]:
    """Return the robust negative log-likelihood of the innovations, and their robust deviation."""
    variance, loss, size = _innovations(rows, states, logs, weights)
    cost = jnp.sum(jnp.where(weights > 0, _CONSISTENT * jnp.log(variance) / 2 + loss, 0))
    return cost, _MAD_TO_DEVIATION * jnp.median(size)


def _evidence(rows: _Rows, states, logs, weights) -> jax.Array:
    """Return the logarithm of the likelihood of all ranges, those rejected included."""
    variance, loss, _ = _innovations(rows, states, logs, weights)
    likely = -jnp.log(2 * math.pi * variance) / 2 - loss / _CONSISTENT
    stray = jnp.log(_STRAY / (2 * rows.reach))
    return jnp.sum(jnp.logaddexp(math.log1p(-_STRAY) + likely, stray))


def _innovations(rows: _Rows, states, logs, weights) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return variances of innovations, Huber's loss of them up to 5 deviations, and their sizes."""
    seen = filtered(_chain(rows, states, logs, weights))
    variance = seen.variance + (jnp.exp(logs[0]) * rows.relative) ** 2
    size = jnp.abs(seen.innovation) / jnp.sqrt(variance)
    cut = jnp.minimum(size, _REJECTED)
    loss = jnp.where(cut < _TUNING, cut**2 / 2, _TUNING * (cut - _TUNING / 2))
    return variance, loss, size


def _weights(rows: _Rows, states, logs, reject) -> jax.Array:
    """Return the weights of Huber's loss, with `reject` 0 of what is far away."""
    size = jnp.abs(_residuals(rows, states)) / (jnp.exp(logs[0]) * rows.relative)
    weights = jnp.minimum(1, _TUNING / jnp.maximum(size, _TUNING))
    return jnp.where(reject & (size > _REJECTED), 0, weights)


def _chain(rows: _Rows, states, logs, weights) -> Chain:
    """Return the chain, linear around the states (rows, size)."""
    (anchors, dim), size = rows.anchors.shape, len(rows.prior)
    intensity = _Intensities.of(rows, logs)
    dtype, count = states.dtype, len(states)
    place, heading = slice(0, dim), slice(dim, 2 * dim)
    identity = jnp.eye(dim, dtype=dtype)
    step = jnp.broadcast_to(jnp.eye(size, dtype=dtype), (count, size, size))
    step = step.at[:, place, heading].set(rows.shifts).at[:, heading, heading].set(rows.turns)
    walk, lengths = intensity.turning**2 * rows.spans, rows.lengths

    def blocks(variances):
        return variances[:, None, None] * identity[None]

    spread = walk * lengths**2 / 3 + intensity.slip**2 * rows.spans + rows.unknown**2
    noise = jnp.zeros((count, size, size), dtype)
    noise = noise.at[:, place, place].set(blocks(spread))
    noise = noise.at[:, place, heading].set(blocks(walk * lengths / 2))
    noise = noise.at[:, heading, place].set(blocks(walk * lengths / 2))
    noise = noise.at[:, heading, heading].set(blocks(walk + jnp.where(rows.unknown > 0, 1.0, 0.0)))
    if rows.clock:
        noise = noise.at[:, 2 * dim + 1, 2 * dim + 1].set(intensity.drift**2 * rows.spans)
    expected, ways, ratio = rows.model(states)
    every, each = jnp.arange(count, dtype=rows.anchor.dtype), rows.moving + rows.anchor
    distance = kernels.safe_norm(states[:, place] - rows.anchors[rows.anchor])
    row = jnp.zeros((count, size), dtype).at[:, place].set(ratio[:, None] * ways)
    row = row.at[:, 2 * dim].set(distance).at[every, each].set(1)
    prior = rows.prior.at[rows.moving : rows.moving + anchors].multiply(intensity.spread)
    if rows.clock:
        row = row.at[:, 2 * dim + 1].set(1)
    if rows.own:
        row = row.at[every, each + anchors].set(distance)
        prior = prior.at[rows.moving + anchors :].multiply(intensity.scale_spread)
    measured = rows.ranges - expected + jnp.einsum("rs,rs->r", row, states, precision="highest")
    precision = weights / (intensity.sigma * rows.relative) ** 2
    return Chain(rows.centre, jnp.diag(prior**2), step, noise, row, measured, precision)


def _residuals(rows: _Rows, states) -> jax.Array:
    return rows.ranges - rows.model(states)[0]


def _rotation(direction: jax.Array, upright: jax.Array, *, dim: int) -> jax.Array:
    """Return the matrix (dim, dim) that multiplies a vector by a complex number in the plane."""
    forwards, left = direction
    plane = jnp.stack([jnp.stack([forwards, -left]), jnp.stack([left, forwards])])
    return plane if dim == 2 else jax.scipy.linalg.block_diag(plane, upright)


def _windowed(anchors, which, ranges, spans, middle, reach, clock) -> tuple[jax.Array, jax.Array]:
    """Return a rough place for each row, and how long the ranges of a window take.

    It is the point of a grid of least absolute deviation from the ranges of a window around.
    """
    count, dim = anchors.shape
    rows = len(ranges)
    width = min(rows, max(5 * dim, 2 * count))
    axis = jnp.linspace(-1, 1, {2: 40, 3: 16}[dim], dtype=anchors.dtype) * reach
    mesh = jnp.meshgrid(*(axis,) * dim, indexing="ij")
    grid = middle[None] + jnp.stack([each.reshape(-1) for each in mesh], -1)
    lengths = kernels.safe_norm(grid[:, None] - anchors[None])  # (points, anchors)
    apart = max(width // 3, 1)
    starts = jnp.minimum(jnp.arange(0, rows, apart), rows - width)

    def best(start):
        taken = start + jnp.arange(width)
        gaps = lengths[:, which[taken]] - ranges[taken][None]
        gaps = gaps - jnp.median(gaps, 1, keepdims=True) if clock else gaps
        return grid[jnp.argmin(jnp.sum(jnp.sqrt(jnp.abs(gaps)), 1))]

    places = jax.lax.map(best, starts)
    centres = starts + width // 2
    nearest = jnp.searchsorted(centres[1:] + centres[:-1], 2 * jnp.arange(rows))
    duration = jnp.sum(spans) * width / rows
    return places[nearest], jnp.maximum(duration, 1e-30)
