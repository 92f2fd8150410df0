r"""The path of a target from ranges at many times, with offsets and a scale of the ranges.

`_ranging` has the model: a chain whose ranges have a scale, a common offset, offsets and slow
errors of anchors, and white noise. The path is the mode of its posterior with Huber's loss of the
residuals, by Gauss-Newton steps from the best sequence of places of windows (`_starts`), and what
else is unknown maximises the robust likelihood of the innovations (`_scoring`). To compare models,
the evidence is

    sum_i log(0.95 exp(-log(2 pi S_i) / 2 - huber(e_i / sqrt(S_i)) / beta) + 0.05 / (2 reach))

of innovations up to 5 deviations. Of long logs the likelihood and the evidence have pieces alone,
evenly in time; the path has all rows.

Covariances of places are those of a last pass around the same path, in which the scale, the common
offset, and the anchors' places (0.08 m) are unknown too. What the path takes as known would make
regions too small.
"""

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
from fedjax_admm.direct._chains import smoothed
from fedjax_admm.direct._ranging import (
    MAD_TO_DEVIATION,
    Rows,
    chain_of,
    huber_weights,
    residuals,
)
from fedjax_admm.direct._scoring import scored
from fedjax_admm.direct._starts import SILENT, once, started

_PIECES, _PIECE = 8, 500  # of a long log, whose likelihood is maximised, and the rows of each
_PATH_STEPS = 12  # of Gauss and Newton at most
_COARSE, _REJECTING = 4, 7  # steps with a coarser theta, and from which on ranges are rejected
_STILL = 0.05  # the last step, in sigma
_FASTEST = (
    2.0  # deviation of the length of the heading h of an odometer, which is 1 if all is right
)


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
    offsets: jax.Array  # shape=(anchors,): m + b, metres
    offset_deviations: jax.Array  # shape=(anchors,), metres
    slow_errors: jax.Array  # shape=(rows,): g of the anchor of the row, metres
    clock: jax.Array  # shape=(rows,): k, metres
    noise: jax.Array  # shape=(): sigma, metres
    slow: jax.Array  # shape=(): s, metres
    memory: jax.Array  # shape=(): T, seconds
    turning: jax.Array  # shape=(): q
    slip: jax.Array  # shape=(): p
    offset_spread: jax.Array  # shape=(): tau, metres
    scale_spread: jax.Array  # shape=(): kappa
    drift: jax.Array  # shape=(): w, metres per root of a second
    evidence: jax.Array  # shape=(): of the ranges, a natural logarithm
    steps: jax.Array  # shape=(), int32: steps of the search that were taken


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
    start: ArrayLike | None = None,
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
      start: a rough place of each row, shape (rows, dim), metres; without, it is found.

    Raises:
      InputError: shapes do not agree, times decrease, or only one of `moves` and `turns` is given.
    """
    flag("clock", clock)
    measured = _checked(anchors, anchor, ranges, times, sigma, clock)
    anchors, times = measured[0], measured[-1]
    dtype, rows = measured[0].dtype, len(measured[-1])
    refuse((moves is None) != (turns is None), "moves", "must be given with {turns}, or neither")
    spans = jnp.diff(times, prepend=times[:1])
    if moves is None or turns is None:
        moves, turns = jnp.stack([spans, jnp.zeros_like(spans)], -1), jnp.zeros_like(spans)
        fastest = jnp.full((), jnp.inf, dtype)
    else:
        moves = _odometry("moves", moves, (rows, 2), dtype).at[0].set(0)
        turns = _odometry("turns", turns, (rows,), dtype).at[0].set(0)
        fastest = jnp.full((), _FASTEST, dtype)
    free = [flag("offsets", offsets), flag("scale", scale), flag("own_scales", own_scales)]
    free = jnp.asarray(free, dtype)
    if start is None:
        places = started(*measured, clock=clock)
    else:
        places = finite_array("start", start, (rows, anchors.shape[1])).astype(dtype)
    return _located(*measured, moves, turns, fastest, free, places, clock=clock)


def rough_path(
    anchors: ArrayLike,
    anchor: ArrayLike,
    ranges: ArrayLike,
    times: ArrayLike,
    *,
    sigma: ArrayLike | None = None,
    clock: bool = False,
) -> jax.Array:
    """Locate windows of ranges, each by itself, and return their best sequence, (rows, dim).

    It is where `locate_path` starts, and takes a small part of its time. Arguments are those of
    `locate_path`; ranges with a sigma of more than a thousand times the median say nothing.

    Raises:
      InputError: shapes do not agree, or times decrease.
    """
    flag("clock", clock)
    return started(*_checked(anchors, anchor, ranges, times, sigma, clock), clock=clock)


def _checked(anchors, anchor, ranges, times, sigma, clock: bool) -> tuple[jax.Array, ...]:
    """Return anchors, the anchor of each row, ranges, relative scales and times from the first."""
    anchors = finite_array("anchors", anchors, (None, None))
    dtype = anchors.dtype
    of_shape("anchors", anchors, (None, 2), (None, 3))
    if is_concrete(times):  # from the first one on, before float32 rounds seconds since 1970
        times = np.asarray(times, None if isinstance(times, jax.Array) else np.float64)
        times = times - times[:1]
    times = finite_array("times", times, (None,)).astype(dtype)
    rows = len(times)
    ranges = finite_array("ranges", ranges, (rows,)).astype(dtype)
    if not clock:
        number("ranges", ranges, above=0)
    which = whole_numbers("anchor", anchor, (rows,), at_most=len(anchors) - 1)
    which = jnp.asarray(which)
    falls = is_concrete(times) and np.any(np.diff(np.asarray(times)) < 0)
    refuse(falls, "times", "must not decrease, but some do", remedy="sort the rows by time")
    relative = jnp.ones(rows, dtype)
    if sigma is not None:
        relative = jnp.broadcast_to(number("sigma", sigma, above=0).astype(dtype), (rows,))
        relative = relative / jnp.median(relative)
    return anchors, which.astype(jnp.int32), ranges, relative, times


def _odometry(name: str, value: ArrayLike, shape: tuple[int, ...], dtype) -> jax.Array:
    """Check an array whose entries may be NaN."""
    real_array(name, value)
    array = jnp.asarray(value, dtype)
    finite_array(name, jnp.where(jnp.isnan(array), 0, array), shape)
    return array


@partial(jax.jit, static_argnames="clock")
def _located(
    anchors, which, ranges, relative, times, moves, turns, fastest, free, places, *, clock
) -> PathEstimate:
    (count, dim), number = anchors.shape, len(ranges)
    dtype = anchors.dtype
    middle = jnp.mean(anchors, 0)
    anchors, places = anchors - middle[None], places - middle[None]
    _, lasting, gaps = once(count, times)
    spans = jnp.diff(times, prepend=times[:1])
    known = jnp.isfinite(moves).all(1) & jnp.isfinite(turns)
    gaps = gaps & (jnp.isinf(fastest) | ~known)
    radius = jnp.max(jnp.abs(anchors))
    reach = 1.2 * jnp.maximum(radius, radius if clock else jnp.median(ranges))
    begun = ranges - kernels.safe_norm(places - anchors[which])
    begun = jnp.median(begun) if clock else jnp.zeros((), dtype)
    moves, turns = jnp.where(known[:, None], moves, 0), jnp.where(known, turns, 0)
    lengths = kernels.safe_norm(moves)
    calm = jnp.where(gaps, 0, spans)
    travelled = jnp.sum(jnp.where(gaps, 0, lengths))
    speed = travelled / jnp.maximum(jnp.sum(jnp.where(known, calm, 0)), 1e-30)
    fastest = jnp.where(jnp.isinf(fastest), 2 * reach / lasting, fastest)
    prior = [jnp.full(dim, 3 * reach), jnp.full(dim, fastest), jnp.full(int(clock), 3 * reach)]
    rows = Rows(
        anchors=anchors,
        anchor=which,
        ranges=ranges - begun,
        relative=relative,
        spans=jnp.where(gaps, jnp.inf, spans),
        shifts=jax.vmap(partial(_rotation, dim=dim))(moves, lengths),
        turns=jax.vmap(partial(_rotation, dim=dim))(
            jnp.stack([jnp.cos(turns), jnp.sin(turns)], -1), jnp.ones_like(turns)
        ),
        lengths=lengths,
        unknown=jnp.where(known, 0, speed * spans),
        prior=jnp.concatenate(prior),
        reach=reach,
        free=free,
        clock=clock,
    )
    states = jnp.zeros((number, rows.size), dtype).at[:, :dim].set(places)
    taken = _pieces(number)
    few = rows.some(taken)
    errors = jnp.abs(ranges - begun - kernels.safe_norm(places - anchors[which])) / relative
    sigma = MAD_TO_DEVIATION * jnp.median(errors) + 4 * jnp.finfo(dtype).eps * reach
    # As much noise as displaces a target by sigma / 3 within the ranges that locate it once.
    way = jnp.maximum(travelled * lasting / jnp.maximum(jnp.sum(calm), 1e-30), 1e-30)
    begin = {
        "noise": sigma,
        "turning": sigma / 3 / jnp.sqrt(lasting) / way,
        "slip": sigma / 3 / jnp.sqrt(lasting),
        "offset_spread": sigma,
        "slow": sigma,
        "memory": 10 * lasting,
        "scale_spread": jnp.full((), 0.01, dtype),
        "drift": sigma / 3 / jnp.sqrt(lasting),
        "scale": jnp.ones((), dtype),
        "common": jnp.zeros((), dtype),
    }
    first = jnp.stack([begin[name] for name in rows.names])
    first = jnp.concatenate([jnp.log(first[:-2]), first[-2:]])
    lower, upper = first - 9, first + 9
    floor = jnp.log(jnp.maximum(_floor(few), 4 * jnp.finfo(dtype).eps * reach))
    first, lower = first.at[0].set(jnp.maximum(first[0], floor)), lower.at[0].set(floor)
    longest = jnp.log(jnp.maximum(jnp.sum(calm), lasting))
    lower = lower.at[5].set(jnp.log(lasting / 4))
    upper = upper.at[5].set(longest).at[0].set(jnp.maximum(upper[0], floor + 1))
    theta, fitted, evidence, step = scored(few, states[taken], first, lower, upper)
    states = states.at[taken].set(fitted)
    states = _settled(rows, states, first, theta)
    weights = huber_weights(rows, states, theta, True)
    wide = smoothed(chain_of(rows, states, theta, weights, wide=True), dim)
    value, last = rows.named(theta), states[-1]
    deviations = jnp.sqrt(jnp.maximum(jnp.diagonal(wide.last), 0))
    (offsets, _, own_scales), place = free, rows.moving + jnp.arange(count)
    each = place + 2 * count
    variances = wide.last[each, each] + 2 * wide.last[rows.size, each]
    together = wide.last[place, place] + 2 * wide.last[rows.size + 1, place]
    return PathEstimate(
        positions=states[:, :dim] + middle[None],
        covariances=wide.covariance,
        headings=states[:, dim : 2 * dim],
        residuals=residuals(rows, states, theta),
        weights=weights,
        scale=value["scale"],
        scale_deviation=deviations[rows.size],
        scales=value["scale"] + last[each],
        scale_deviations=_root(deviations[rows.size] ** 2 + variances),
        offsets=value["common"] + last[place],
        offset_deviations=_root(deviations[rows.size + 1] ** 2 + together),
        slow_errors=jnp.take_along_axis(states, rows.place(1)[:, None], 1)[:, 0],
        clock=states[:, 2 * dim] + begun if clock else jnp.zeros_like(ranges),
        noise=value["noise"],
        slow=value["slow"],
        memory=value["memory"],
        turning=value["turning"],
        slip=value["slip"],
        offset_spread=value["offset_spread"] * offsets,
        scale_spread=value["scale_spread"] * own_scales,
        drift=value["drift"],
        evidence=evidence,
        steps=step,
    )


def _root(variance: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.maximum(variance, 0))


def _pieces(rows: int) -> np.ndarray:
    """Return the rows whose likelihood is maximised: all, or pieces evenly in the log."""
    if rows <= _PIECES * _PIECE:
        return np.arange(rows)
    first = np.linspace(0, rows - _PIECE, _PIECES).astype(int)
    return (first[:, None] + np.arange(_PIECE)).ravel()


def _settled(rows: Rows, states, first, theta) -> jax.Array:
    """Make Gauss-Newton steps of the path until it moves no more, from a coarse theta to a fine."""
    dim, sigma = rows.anchors.shape[1], rows.named(theta)["noise"]

    def going(carry):
        _, moved, step = carry
        return (step < _PATH_STEPS) & (moved > _STILL * sigma)

    def advance(carry):
        states, _, step = carry
        share = jnp.minimum(step.astype(theta.dtype) / _COARSE, 1)
        here, late = first + share * (theta - first), step >= _REJECTING
        weights = huber_weights(rows, states, here, late)
        new = smoothed(chain_of(rows, states, here, weights), 0).mean
        moved = jnp.where(step > _REJECTING, jnp.max(jnp.abs(new - states)[:, :dim]), jnp.inf)
        return new, moved, step + 1

    start = states, jnp.full((), jnp.inf, states.dtype), jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(going, advance, start)[0]


def _floor(rows: Rows) -> jax.Array:
    """Return the least noise: a fifth of that of the smaller second differences of an anchor."""
    order = jnp.argsort(rows.anchor, stable=True)
    times = jnp.cumsum(jnp.where(jnp.isinf(rows.spans), 0, rows.spans))[order]
    ranges, anchor = (rows.ranges / rows.relative)[order], rows.anchor[order]
    span = jnp.maximum(times[2:] - times[:-2], 1e-30)
    share = (times[1:-1] - times[:-2]) / span
    bend = jnp.abs(ranges[1:-1] - (1 - share) * ranges[:-2] - share * ranges[2:])
    # A quantile below the median has no outliers as long as four in ten of the bends have none.
    there = (anchor[2:] == anchor[:-2]) & (rows.relative < SILENT)[order][1:-1]
    small = jnp.nanquantile(jnp.where(there, bend, jnp.nan), 0.2)
    return 0.2 / (0.253 * 1.22) * jnp.nan_to_num(small)


def _rotation(direction: jax.Array, upright: jax.Array, *, dim: int) -> jax.Array:
    """Return the matrix (dim, dim) that multiplies a vector by a complex number in the plane."""
    forwards, left = direction
    plane = jnp.stack([jnp.stack([forwards, -left]), jnp.stack([left, forwards])])
    return plane if dim == 2 else jax.scipy.linalg.block_diag(plane, upright)
