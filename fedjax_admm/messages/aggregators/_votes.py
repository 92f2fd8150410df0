"""Votes: vectors with weights that stand in groups, one group per receiver.

Everything here takes `values` (vectors, dim), `votes` (vectors,) that are 0 for those who are
absent, the group of every vector (vectors,) int32, and how many groups there are. Where there is
one, as at a star's server, the group is not looked at and sums are plain sums.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm.messages.aggregators._network import sort_columns


class AnyNumber:
    """An aggregator that serves groups of any size."""

    def check(self, number: int) -> None:
        """Accept any number of vectors."""


class Ranked(NamedTuple):
    """Vectors by group, and within a group every coordinate in its own order; the absent last."""

    values: jax.Array  # shape=(vectors, dim); inf where absent
    votes: jax.Array  # shape=(vectors, dim), of these values
    passed: jax.Array  # shape=(vectors, dim): the votes of the group up to and with these
    total: jax.Array  # shape=(groups, dim): all votes of the group
    groups: jax.Array  # shape=(vectors,), int32
    begins: jax.Array  # shape=(groups,), int32: where groups begin


def group_sums(array: jax.Array, groups: jax.Array, number: int) -> jax.Array:
    """Return sums over the vectors of every group, shape (number, ...), dtype of the array."""
    if number == 1:
        return jnp.sum(array, axis=0, keepdims=True, dtype=array.dtype)
    return jax.ops.segment_sum(array, groups, num_segments=number)


def of_group(per_group: jax.Array, groups: jax.Array) -> jax.Array:
    """Return for every vector what belongs to its group, shape (vectors, ...)."""
    if per_group.shape[0] == 1:
        return jnp.broadcast_to(per_group, (groups.shape[0], *per_group.shape[1:]))
    return per_group[groups]


def weighted_mean(
    values: jax.Array, votes: jax.Array, groups: jax.Array, number: int, previous: jax.Array
) -> jax.Array:
    """Return `sum_l s_l x_l / sum_l s_l` of every group; `previous` where there are no votes."""
    wide = votes if votes.ndim == 2 else votes[:, None]
    # Twice, so that neither a value that is not finite nor its derivative leaks.
    parts = wide * jnp.where(wide > 0, values, 0)
    weight = group_sums(wide, groups, number)
    some = weight > 0
    return jnp.where(some, group_sums(parts, groups, number) / jnp.where(some, weight, 1), previous)


def attending(
    values: jax.Array, weights: jax.Array, groups: jax.Array, number: int, cap: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Return vectors that are finite, and votes: of those who are present, and capped.

    Who sends a vector with an entry that is not finite counts as absent.
    """
    present = (weights > 0) & jnp.all(jnp.isfinite(values), axis=-1)
    votes = jnp.where(present, weights, 0)
    if cap is not None:
        votes = capped(votes, cap, groups, number)
    return jnp.where(present[:, None], values, 0), votes


def capped(votes: jax.Array, cap: jax.Array, groups: jax.Array, number: int) -> jax.Array:
    """Return votes of at most `cap` times the median vote of those present in the group."""
    heads = jnp.where(votes > 0, jnp.ones_like(votes), 0)
    ranked = rank(votes[:, None], heads, groups, number)
    typical = jnp.where(ranked.total > 0, middle(ranked), 1)[:, 0]
    cap = cap.astype(votes.dtype)
    finite = cap < jnp.inf
    limit = jnp.where(finite, jnp.where(finite, cap, 1) * typical, jnp.inf)
    return jnp.minimum(votes, of_group(limit, groups))


def rank(values: jax.Array, votes: jax.Array, groups: jax.Array, number: int) -> Ranked:
    """Sort every coordinate within its group and add up the votes."""
    wide = jnp.broadcast_to(votes[:, None], values.shape)
    far = jnp.where(wide > 0, values, jnp.inf)
    if number == 1:
        values, votes = sort_columns(far, wide)
        passed = jnp.cumsum(votes, axis=0)
        return Ranked(values, votes, passed, passed[-1:], groups, jnp.zeros(1, jnp.int32))

    heads = jnp.broadcast_to(groups[:, None], values.shape)
    heads, values, votes = jax.lax.sort((heads, far, wide), dimension=0, num_keys=2)

    def add(left, right):
        same = left[0] == right[0]
        return right[0], jnp.where(same, left[1], 0) + right[1]

    # Sums that begin anew in every group: a difference of sums over all would lose digits.
    passed = jax.lax.associative_scan(add, (heads, votes))[1]
    sizes = group_sums(jnp.ones_like(groups), groups, number)
    ends = jnp.cumsum(sizes, dtype=sizes.dtype)
    last = jnp.take(passed, jnp.maximum(ends - 1, 0), axis=0)
    total = jnp.where((sizes > 0)[:, None], last, 0)
    return Ranked(values, votes, passed, total, heads[:, 0], ends - sizes)


def rounding(ranked: Ranked) -> float:
    """Return a bound on the relative error of `passed` against a share of `total`.

    A sum of m numbers by pairs goes wrong by log2(m) units of rounding.
    """
    steps = math.ceil(math.log2(max(ranked.values.shape[0], 2)))
    return 2 * float(jnp.finfo(ranked.votes.dtype).eps) * (1 + steps)


def middle(ranked: Ranked) -> jax.Array:
    """Return the median of every coordinate of every group, shape (groups, dim).

    The middle of the first value that is passed by at least, and the first that is passed by more
    than half of the votes. What differs from half by no more than rounding is half: an even number
    of equal votes, whatever their size, has the mean of the two in the middle. A group without
    votes has no finite median.
    """
    slack = rounding(ranked) * ranked.total
    half = ranked.total / 2

    def value_after(skipped: jax.Array) -> jax.Array:
        number = group_sums(skipped.astype(jnp.int32), ranked.groups, half.shape[0])
        place = ranked.begins[:, None] + number
        return jnp.take_along_axis(ranked.values, place, axis=0, mode="clip")

    low = value_after(ranked.passed < of_group(half - slack, ranked.groups))
    high = value_after(ranked.passed <= of_group(half + slack, ranked.groups))
    # Halved first: the sum of two numbers near the largest one is not finite.
    return low / 2 + high / 2
