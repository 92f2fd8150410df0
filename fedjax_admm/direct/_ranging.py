r"""Ranges of a moving target as a linear chain, and what is not known of it.

A row is one range, of the anchor a_l at the time t_i; rows are in the order of time, and several
may share a time:

    d_i = (c + e_l) ||x_i - a_l|| + m + b_l + g_{l,i} + k_i + noise of the scale sigma
    b_l ~ N(0, tau^2),   e_l ~ N(0, kappa^2),   k_i = k_{i-1} + noise of the intensity w
    g_l stationary, E[g_{l,i} g_{l,j}] = s^2 exp(-|t_i - t_j| / T)
    x_i = x_{i-1} + B_i h_{i-1},   h_i = R_i h_{i-1},   both with noise

g_l, the slow error of an anchor, is what bodies, walls and antennas do to its ranges for a while: a
Gauss-Markov sequence of the first order. e_l, a factor of each anchor's own, and k_i, the offset of
the target's clock and a random walk, are there only if asked for. B_i is the displacement since the
row before in the frame of the target's body, and R_i its turn, as an odometer tells them; h is the
unknown heading, whose length is the odometer's factor. Without an odometer B_i is the time that has
passed and R_i = I, so that h is the velocity. In a span of dt, over the length l = |B|, the noise
is that of a random walk of h with the intensity q (per square root of time) and of x with the
intensity p:

    Q_xx = (q^2 dt l^2 / 3 + p^2 dt) I,   Q_xh = q^2 dt l / 2 I,   Q_hh = q^2 dt I

Where an odometer was silent the target may have moved anywhere at its mean speed v: B = 0, and
v^2 dt^2 and 1 are added to Q_xx and Q_hh. After a gap x, h and k are as unknown as at the start.

Reference: Y. Bar-Shalom, X. R. Li and T. Kirubarajan, "Estimation with applications to tracking and
navigation", 2001, sections 6.2 and 8.
"""

import math
from dataclasses import field

import jax
import jax.numpy as jnp

from fedjax_admm import kernels
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.direct._chains import Chain, filtered

TUNING = 1.345  # of Huber's loss: 95 % efficient for normal errors
CONSISTENT = math.erf(TUNING / math.sqrt(2))  # E[z huber'(z)] of a standard normal z
REJECTED = 5.0  # sigma: a larger residual counts for nothing
MAD_TO_DEVIATION = 1.4826
_SCALE_WIDTH = 0.014  # of the prior of c, a Cauchy distribution around 1
_COMMON_DEVIATION = 4.0  # of the prior of m, in the deviations of a range's whole error
_ANCHOR_DEVIATION = 0.08  # metres: of a surveyed place, and of where the antenna's centre is
_WIDTHS = {"memory": 1.0}  # of the priors of logarithms, where it is not 3
_STRAY = 0.05  # share of ranges that say nothing, in the evidence


@pytree_dataclass
class Rows:
    """What is known before the path is; places are relative to the middle of the anchors."""

    anchors: jax.Array  # shape=(anchors, dim)
    anchor: jax.Array  # shape=(rows,), int32
    ranges: jax.Array  # shape=(rows,)
    relative: jax.Array  # shape=(rows,): errors' scale in units of the common sigma
    spans: jax.Array  # shape=(rows,): time since the row before; infinite after a gap
    shifts: jax.Array  # shape=(rows, dim, dim): B
    turns: jax.Array  # shape=(rows, dim, dim): R
    lengths: jax.Array  # shape=(rows,): l
    unknown: jax.Array  # shape=(rows,): v dt where an odometer was silent, else 0
    prior: jax.Array  # shape=(moving,): standard deviations of x, h and k
    reach: jax.Array  # shape=(): half of the width where the target may be
    free: jax.Array  # shape=(3,): 1 or 0: whether there are offsets, a scale, and own scales
    clock: bool = field(metadata={"static": True})  # whether there is k

    def some(self, which) -> "Rows":
        """Return some rows, of which each that does not follow the one before is after a gap."""
        names = "anchor", "ranges", "relative", "spans", "shifts", "turns", "lengths", "unknown"
        kept = {name: getattr(self, name)[which] for name in names}
        new = jnp.diff(which, prepend=which[:1] - 1) != 1
        kept["spans"] = jnp.where(new, jnp.inf, kept["spans"])
        return Rows(**(vars(self) | kept))

    @property
    def moving(self) -> int:
        """Return the number of entries of the state that move."""
        return 2 * self.anchors.shape[1] + self.clock

    @property
    def size(self) -> int:
        """Return the number of entries of a state: x, h, k, b, g, e."""
        return self.moving + 3 * len(self.anchors)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of what the likelihood of the innovations finds."""
        return (*_LOGARITHMS, *("drift",) * self.clock, "scale", "common")

    def named(self, theta: jax.Array) -> dict[str, jax.Array]:
        """Return the values of theta, which has logarithms but for the scale and the offset."""
        values = {
            name: each if name in ("scale", "common") else jnp.exp(each)
            for name, each in zip(self.names, theta, strict=True)
        }
        return {"drift": jnp.zeros_like(theta[0])} | values

    def place(self, kind: int) -> jax.Array:
        """Return where the state has b, g or e of each row's anchor: kind 0, 1 or 2."""
        return self.moving + kind * len(self.anchors) + self.anchor

    def model(self, states: jax.Array, theta: jax.Array):
        """Return ranges of states (rows, size), unit vectors (rows, dim), c + e, and distances."""
        at = lambda kind: jnp.take_along_axis(states, self.place(kind)[:, None], 1)[:, 0]  # noqa: E731
        dim, value = self.anchors.shape[1], self.named(theta)
        gap = states[:, :dim] - self.anchors[self.anchor]
        distance = kernels.safe_norm(gap)
        ratio = value["scale"] + at(2)
        offset = value["common"] + at(0) + at(1)
        if self.clock:
            offset = offset + states[:, 2 * dim]
        ways = gap / jnp.maximum(distance, 1e-12)[:, None]
        return offset + ratio * distance, ways, ratio, distance


_LOGARITHMS = ("noise", "turning", "slip", "offset_spread", "slow", "memory", "scale_spread")


def chain_of(rows: Rows, states, theta, weights, *, wide: bool = False) -> Chain:
    """Return the chain, linear around the states (rows, size).

    With `wide` the states have, besides, what theta and the rows take as known: c, m, and the
    anchors' places.
    """
    (count, dim), value, moving = rows.anchors.shape, rows.named(theta), rows.moving
    dtype, number = states.dtype, len(states)
    fresh = jnp.isinf(rows.spans)
    spans = jnp.where(fresh, 0, rows.spans)
    place, heading = slice(0, dim), slice(dim, 2 * dim)
    identity = jnp.eye(dim, dtype=dtype)
    step = jnp.broadcast_to(jnp.eye(moving, dtype=dtype), (number, moving, moving))
    step = step.at[:, place, heading].set(rows.shifts).at[:, heading, heading].set(rows.turns)
    walk = value["turning"] ** 2 * spans

    def blocks(variances):
        return variances[:, None, None] * identity[None]

    spread = walk * rows.lengths**2 / 3 + value["slip"] ** 2 * spans + rows.unknown**2
    across = blocks(walk * rows.lengths / 2)
    noise = jnp.zeros((number, moving, moving), dtype)
    noise = noise.at[:, place, place].set(blocks(spread))
    noise = noise.at[:, place, heading].set(across).at[:, heading, place].set(across)
    noise = noise.at[:, heading, heading].set(blocks(walk + jnp.where(rows.unknown > 0, 1.0, 0.0)))
    if rows.clock:
        noise = noise.at[:, 2 * dim, 2 * dim].set(value["drift"] ** 2 * spans)
    again = fresh[:, None, None]
    step = jnp.where(again, 0, step)
    noise = jnp.where(again, jnp.diag(rows.prior**2)[None], noise)

    expected, ways, ratio, distance = rows.model(states, theta)
    each = jnp.arange(number)
    row = jnp.zeros((number, rows.size), dtype).at[:, place].set(ratio[:, None] * ways)
    row = row.at[each, rows.place(0)].set(1).at[each, rows.place(1)].set(1)
    row = row.at[:, 2 * dim : moving].set(1)
    row = row.at[each, rows.place(2)].set(distance)
    measured = rows.ranges - expected + jnp.sum(row * states, 1)
    (offsets, scale, own), slow = rows.free, value["slow"]
    deviations = [
        rows.prior,
        jnp.full(count, value["offset_spread"] * offsets),
        jnp.full(count, slow),
        jnp.full(count, value["scale_spread"] * own),
    ]
    if wide:
        here = jax.nn.one_hot(rows.anchor, count, dtype=dtype)
        places = -here[:, :, None] * (ratio[:, None] * ways)[:, None]
        one = jnp.ones((number, 1), dtype)
        row = jnp.concatenate([row, distance[:, None], one, places.reshape(number, -1)], 1)
        loose = _scale_deviation(value["scale"]) * scale, _common_deviation(value) * offsets
        deviations += [jnp.stack(loose), jnp.full(count * dim, _ANCHOR_DEVIATION)]
    here = jnp.arange(row.shape[1])
    return Chain(
        deviation=jnp.concatenate(deviations).astype(dtype),
        slow=(here >= moving + count) & (here < moving + 2 * count),
        step=step,
        noise=noise,
        decay=jnp.where(fresh, 0, jnp.exp(-spans / value["memory"])),
        row=row,
        measured=measured,
        precision=weights / (value["noise"] * rows.relative) ** 2,
    )


def _scale_deviation(scale):
    """Return the deviation of the normal distribution with the slope of the Cauchy prior of c."""
    return jnp.sqrt((_SCALE_WIDTH**2 + (scale - 1) ** 2) / 2)


def _common_deviation(value):
    return _COMMON_DEVIATION * jnp.hypot(value["slow"], value["noise"])


def prior_precisions(rows: Rows, theta) -> jax.Array:
    """Return the precisions of normal priors of theta, with the slopes of the true ones."""
    value = rows.named(theta)
    widths = jnp.asarray([_WIDTHS.get(name, 3.0) for name in rows.names[:-2]], theta.dtype)
    of = jnp.stack([_scale_deviation(value["scale"]), _common_deviation(value)])
    return jnp.concatenate([widths, of]) ** -2


def residuals(rows: Rows, states, theta) -> jax.Array:
    """Return ranges minus what the states say."""
    return rows.ranges - rows.model(states, theta)[0]


def huber_weights(rows: Rows, states, theta, reject) -> jax.Array:
    """Return the weights of Huber's loss, with `reject` 0 of what is far away."""
    size = jnp.abs(residuals(rows, states, theta)) / (rows.named(theta)["noise"] * rows.relative)
    far = REJECTED * jnp.maximum(1, MAD_TO_DEVIATION * jnp.median(size))
    return jnp.where(reject & (size > far), 0, jnp.minimum(1, TUNING / jnp.maximum(size, TUNING)))


def innovations(rows: Rows, states, theta, weights) -> tuple[jax.Array, jax.Array]:
    """Return the innovations and their variances, those of the ranges included."""
    innovation, variance = filtered(chain_of(rows, states, theta, weights))
    return innovation, variance + (rows.named(theta)["noise"] * rows.relative) ** 2


def loss(innovation, variance, most: float) -> jax.Array:
    """Return Huber's loss of innovations up to `most` deviations."""
    size = jnp.minimum(jnp.abs(innovation) / jnp.sqrt(variance), most)
    return jnp.where(size < TUNING, size**2 / 2, TUNING * (size - TUNING / 2))


def evidence_of(rows: Rows, innovation, variance) -> jax.Array:
    """Return the logarithm of the likelihood of all ranges, those rejected included."""
    likely = (
        -jnp.log(2 * math.pi * variance) / 2 - loss(innovation, variance, REJECTED) / CONSISTENT
    )
    stray = jnp.log(_STRAY / (2 * rows.reach))
    return jnp.sum(jnp.logaddexp(math.log1p(-_STRAY) + likely, stray))
