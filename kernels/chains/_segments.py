"""The segments on which a chain stays constant under total variation, found in linear time.

The minimiser of `sum_i (x_i - y_i)**2 / 2 + sum_i s_i |x_{i+1} - x_i|` over the entries to the left
of entry i + 1 is `x_i = clip(x_{i+1}, low_i, high_i)`. The derivative of what these entries cost as
a function of x_i is piecewise linear and rises; `low_i` and `high_i` are where it takes the values
-s_i and s_i. Its knots stand in a queue with two ends: link i takes off at both ends the knots that
lie outside [low_i, high_i] and puts on these two. A knot goes on once and comes off once at most,
so that the loop ends after 3 n rounds.

A link of strength 0 empties the queue: rows of a batch are one long chain, cut between the rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from fedjax_admm.kernels._loops import scan, while_loop


class _Forward(NamedTuple):
    entry: Array  # of the entry whose knots are looked for; shape=(), dtype=jnp.int32, as the next
    left: Array  # first knot in the queue
    right: Array  # behind the last knot
    rising: tuple[Array, ...]  # slope and intercept of the derivative left of all knots
    falling: tuple[Array, ...]  # the same right of all knots
    first: tuple[Array, ...]  # the first knot: position, change of slope, of intercept
    last: tuple[Array, ...]  # the last knot
    queue: tuple[Array, ...]  # all knots, each of shape (2 n + 2,)
    low: Array  # shape=(n,)
    high: Array  # shape=(n,)


@jax.custom_batching.custom_vmap
def chain_segments(y: Array, strength: Array) -> tuple[Array, Array]:
    """Return the minimiser on one chain and the signs of its jumps.

    Entries (n,) are finite and near 1; `strength` (n,) is that of the link to the next entry, 0 for
    the last, whose sign means nothing. A jump of height 0 is none. No derivatives: those of the
    minimiser follow from the segments. Under `jax.vmap` the chains are laid one behind the other
    where that is faster.

    Reference: N. A. Johnson, "A dynamic programming algorithm for the fused lasso and
    L0-segmentation", Journal of Computational and Graphical Statistics 22(2), 2013.
    """
    low, high = _forward(y, strength)

    def back(following, entry):
        low, high, strength = entry
        rises, falls = following > high, following < low
        x = jnp.where((strength == 0) | falls, low, jnp.where(rises, high, following))
        return x, (x, jnp.sign(following - x))

    _, found = scan(back, jnp.zeros((), y.dtype), (low, high, strength), reverse=True)
    return found


def _forward(y: Array, strength: Array) -> tuple[Array, Array]:
    """Return the bounds of every entry, given the next one."""
    n, one, zero = y.size, jnp.ones((), y.dtype), jnp.zeros((), y.dtype)
    middle = jnp.asarray(n, jnp.int32)

    # The queue is read behind its last writing in a round: read before, XLA would copy it whole.
    def body(c: _Forward) -> _Forward:
        s = strength[c.entry]
        below = (c.left < c.right) & (c.rising[0] * c.first[0] + c.rising[1] < -s)
        behind = jnp.where(below, c.left + 1, c.left)
        above = (behind < c.right) & (c.falling[0] * c.last[0] + c.falling[1] > s)
        done = ~(below | above)
        low, high = (-s - c.rising[1]) / c.rising[0], (s - c.falling[1]) / c.falling[0]
        left = jnp.where(done, jnp.where(s == 0, middle, c.left - 1), behind)
        right = jnp.where(
            done, jnp.where(s == 0, middle, c.right + 1), jnp.where(above, c.right - 1, c.right)
        )
        first = (low, c.rising[0], c.rising[1] + s)
        last = (high, -c.falling[0], s - c.falling[1])
        # Outside the queue's ends: what is written before its time is written over.
        queue = _put(_put(c.queue, c.left - 1, first), c.right, last)
        following = y[jnp.minimum(c.entry + 1, n - 1)]
        rising = tuple(c.rising[k] + jnp.where(below, c.first[k + 1], 0) for k in (0, 1))
        falling = tuple(c.falling[k] - jnp.where(above, c.last[k + 1], 0) for k in (0, 1))
        return _Forward(
            jnp.where(done, c.entry + 1, c.entry),
            left,
            right,
            _either(done, (one, -following - s), rising),
            _either(done, (one, s - following), falling),
            tuple(part[left] for part in queue),
            tuple(part[right - 1] for part in queue),
            queue,
            *_put((c.low, c.high), c.entry, (low, high)),
        )

    def fresh(size: int) -> Array:
        return jnp.zeros(size, y.dtype)

    knots = tuple(fresh(2 * n + 2) for _ in range(3))
    none, edge = (zero, zero, zero), (one, -y[0])
    start = _Forward(
        jnp.zeros((), jnp.int32), middle, middle, edge, edge, none, none, knots, fresh(n), fresh(n)
    )
    end = while_loop(lambda c: c.entry < n, body, start)
    return end.low, end.high


def _put(queue, place, knot):
    return tuple(
        lax.dynamic_update_index_in_dim(part, number, place, 0)
        for part, number in zip(queue, knot, strict=True)
    )


def _either(condition, here, there):
    return tuple(jnp.where(condition, *pair) for pair in zip(here, there, strict=True))


@chain_segments.def_vmap
def _batched(size, batched, y, strength):
    arguments = [
        part if mapped else jnp.broadcast_to(part[None], (size, *part.shape))
        for part, mapped in zip((y, strength), batched, strict=True)
    ]
    found = lax.platform_dependent(*arguments, cpu=end_to_end, default=side_by_side)
    return found, (True, True)


def end_to_end(y: Array, strength: Array) -> tuple[Array, Array]:
    """`chain_segments` of rows laid one behind the other: no row waits for the slowest."""
    x, sign = chain_segments(y.reshape(-1), strength.reshape(-1))
    return x.reshape(y.shape), sign.reshape(y.shape)


def side_by_side(y: Array, strength: Array) -> tuple[Array, Array]:
    """`chain_segments` of rows in one loop: few rounds of many numbers, as a GPU likes them."""
    return jax.vmap(chain_segments.fun)(y, strength)
