r"""Aggregators that hold against any false vectors of a minority: medians, trimmed means, Krum.

    coordinate_median     below half of the votes, per coordinate
    trimmed_mean(share)   up to that share of the votes, per coordinate
    geometric_median      below half of the votes
    krum, multi_krum      f of n vectors, n >= 2 f + 3

What they are given and return stands in `_aggregators.py`. Any but Krum follow a shift and a
stretch of all vectors, and a vote of weight 2 is two votes; Krum counts vectors, and uses weights
where it averages. Derivatives are those of the values that are chosen: at ties, of the mean of the
two in the middle, or of the first.
"""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    build,
    count,
    counted,
    declared,
    optional,
    ranged,
    refuse,
    scalar,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm
from fedjax_admm.messages.aggregators._aggregators import CAP, capped
from fedjax_admm.messages.aggregators._votes import (
    AnyNumber,
    attending,
    group_sums,
    middle,
    of_group,
    rank,
    rounding,
    weighted_mean,
)

# How many vectors are held against all others at a time.
_BLOCK = 64


@pytree_dataclass
class CoordinateMedian(AnyNumber):
    """The median of every coordinate; build it with `coordinate_median`."""

    cap: jax.Array | None = capped()  # shape=(); None for none

    def __call__(self, values, weights, groups, number, previous):
        """Return the middle of the first value with at least, and with more than, half."""
        values, votes = attending(values, weights, groups, number, self.cap)
        ranked = rank(values, votes, groups, number)
        return jnp.where(ranked.total > 0, middle(ranked), previous)


@pytree_dataclass
class TrimmedMean(AnyNumber):
    """The mean of the middle of every coordinate; build it with `trimmed_mean`."""

    share: jax.Array = ranged(at_least=0, below=0.5)  # shape=(): beta, below 1/2
    cap: jax.Array | None = capped()  # shape=(); None for none

    def __call__(self, values, weights, groups, number, previous):
        """Return the mean of the votes between beta W and (1 - beta) W, fractionally."""
        values, votes = attending(values, weights, groups, number, self.cap)
        ranked = rank(values, votes, groups, number)
        # By rounding, a vote that is to be cut could keep 1e-7 of a value of 1e30: a share that is
        # not 0 is a little larger.
        slack = rounding(ranked)
        share = self.share.astype(values.dtype)
        share = jnp.minimum(share + jnp.where(share > 0, slack, 0), 0.5 - slack)
        total = of_group(ranked.total, ranked.groups)
        low = share * total
        from_below = jnp.clip(low - (ranked.passed - ranked.votes), 0, ranked.votes)
        from_above = jnp.clip(ranked.passed - (total - low), 0, ranked.votes)
        kept = jnp.maximum(ranked.votes - from_below - from_above, 0)
        return weighted_mean(ranked.values, kept, ranked.groups, number, previous)


@pytree_dataclass
class GeometricMedian(AnyNumber):
    """The point with the least sum of distances; build it with `geometric_median`."""

    # shape=(): nu, in the unit of the vectors; None for relative
    smoothing: jax.Array | None = declared(optional(scalar, above=0))
    cap: jax.Array | None = capped()  # shape=(); None for none
    steps: int = counted()

    def __call__(self, values, weights, groups, number, previous):
        """Return z after Weiszfeld steps from the coordinate median.

        z <- sum_l b_l x_l / sum_l b_l,  b_l = s_l / max(nu, ||z - x_l||).
        """
        values, votes = attending(values, weights, groups, number, self.cap)
        ranked = rank(values, votes, groups, number)
        start = jnp.where(ranked.total > 0, middle(ranked), previous)
        unit = 1 / of_group(self._smoothing(values, votes, groups, start), groups)

        def step(z, _):
            # In units of nu: a small one has no finite inverse square, for derivatives.
            apart = safe_norm(values - of_group(z, groups)) * unit
            closeness = votes / jnp.maximum(apart, 1)
            return weighted_mean(values, closeness, groups, number, previous), None

        return jax.lax.scan(step, start, length=self.steps)[0]

    def _smoothing(self, values, votes, groups, start):
        """Return nu for every group, shape (groups,)."""
        number, tiny = start.shape[0], jnp.finfo(values.dtype).tiny
        if self.smoothing is not None:
            smoothing = jnp.maximum(self.smoothing.astype(values.dtype), tiny)
            return jnp.broadcast_to(smoothing, (number,))
        values, votes, start = jax.lax.stop_gradient((values, votes, start))
        apart = safe_norm(values - of_group(start, groups))
        ranked = rank(apart[:, None], votes, groups, number)
        typical = jnp.where(ranked.total > 0, middle(ranked), 1)[:, 0]
        share = 1e-6 if values.dtype == jnp.float64 else 1e-4
        return jnp.maximum(share * typical, tiny)


@pytree_dataclass
class Krum:
    """The mean of the vectors nearest to their neighbours; build it with `krum`, `multi_krum`."""

    cap: jax.Array | None = capped()  # shape=(); None for none
    bad: int = counted(at_least=0)  # f
    kept: int = counted()  # m; 1 is Krum itself
    neighbours: int | None = declared(optional(count), static=True)  # None for n - f - 2

    def check(self, number: int) -> None:
        """Check that there are enough vectors."""
        few, most = number < 2 * self.bad + 3, (number - 3) // 2
        told = f"must have 2 bad + 3 vectors in every group, but it is {self.bad} and a group has"
        remedy = f"take at most {most}" if most >= 0 else "take coordinate_median()"
        refuse(few, "bad", f"{told} {number}", remedy=remedy)

    def __call__(self, values, weights, groups, number, previous):
        """Return the weighted mean of the m vectors of lowest score, ties to the lowest index."""
        if number == 1:
            groups = jnp.zeros_like(groups)
        values, votes = attending(values, weights, groups, number, self.cap)
        present = votes > 0
        scores = self._scores(jax.lax.stop_gradient(values), present, groups, number)
        places = jnp.arange(values.shape[0], dtype=jnp.int32)
        absent = (~present).astype(jnp.int32)
        heads, _, _, order = jax.lax.sort((groups, absent, scores, places), num_keys=4)
        sizes = group_sums(jnp.ones_like(groups), groups, number)
        begins = jnp.cumsum(sizes, dtype=sizes.dtype) - sizes
        first = places - of_group(begins, heads) < self.kept
        chosen = jnp.zeros_like(present).at[order].set(first)
        return weighted_mean(values, jnp.where(chosen, votes, 0), groups, number, previous)

    def _scores(self, values, present, groups, number):
        """Return the sum of squared distances from every vector to its nearest ones."""
        vectors = values.shape[0]
        sizes = of_group(group_sums(present.astype(jnp.int32), groups, number), groups)
        summed = sizes - self.bad - 2 if self.neighbours is None else self.neighbours
        # Never more than there are others; one at least decides.
        summed = jnp.minimum(jnp.maximum(summed, 1), sizes - 1)
        places = jnp.arange(vectors, dtype=jnp.int32)

        def score(place):
            gaps = values - values[place][None]
            others = present & (groups == groups[place]) & (places != place)
            apart = jnp.sum(gaps * gaps, axis=-1)
            if self.neighbours is None:
                left_out = sizes[place] - 1 - summed[place]
                return _sum_but_largest(apart, others, summed[place], left_out, self.bad + 1)
            return _sum_of_least(apart, others, summed[place], self.neighbours)

        # Blocks of one size, so that equal vectors have equal scores to the last bit.
        blocks = -(-vectors // _BLOCK)
        block = -(-vectors // blocks)
        asked = jnp.arange(blocks * block, dtype=jnp.int32) % vectors
        return jax.lax.map(score, asked, batch_size=block)[:vectors]


def _sum_but_largest(numbers, mask, wanted, left_out, most):
    """Return the sum of `wanted` of the masked numbers, without the largest, at most `most`.

    The few largest are found in a fraction of the time in which all would be sorted; they are not
    subtracted, since they may be infinite.
    """
    largest, _ = jax.lax.top_k(jnp.where(mask, numbers, -1), min(most, numbers.shape[0]))
    bound = jnp.where(left_out > 0, largest[jnp.maximum(left_out - 1, 0)], jnp.inf)
    below = mask & (numbers < bound)
    ties = wanted - jnp.sum(below, dtype=jnp.int32)
    rest = jnp.where(ties > 0, ties.astype(numbers.dtype) * bound, 0)
    return jnp.sum(jnp.where(below, numbers, 0)) + rest


def _sum_of_least(numbers, mask, wanted, most):
    """Return the sum of the `wanted`, at most `most`, smallest masked numbers."""
    most = min(most, numbers.shape[0])
    least = -jax.lax.top_k(-jnp.where(mask, numbers, jnp.inf), most)[0]
    return jnp.sum(jnp.where(jnp.arange(most, dtype=jnp.int32) < wanted, least, 0))


def coordinate_median(*, cap: ArrayLike = CAP) -> CoordinateMedian:
    """Build the weighted median of every coordinate: holds below half of the votes.

    With c_k the votes of the k least values, the middle of the first value with c_k >= W / 2 and
    the first with c_k > W / 2, W all votes: for an odd number of equal votes the value in the
    middle, for an even one the mean of the two there. A cumulative vote that differs from half by
    no more than rounding is half.

    Args:
      cap: votes are at most this times the median weight of the group, at least 1; `inf` for none.

    Reference: D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed
    Learning: Towards Optimal Statistical Rates", ICML 2018, definition 1.
    """
    return build(CoordinateMedian, cap=cap)


def trimmed_mean(share: ArrayLike, *, cap: ArrayLike = CAP) -> TrimmedMean:
    """Build the trimmed mean of every coordinate: holds up to the share that it cuts at each end.

    In every coordinate votes of the weight beta W are cut at either end, W all votes, a vote in
    part where the end falls into it, and the rest is averaged. A share of f / n cuts the f least
    and the f largest of n equal votes; a share of 0 is the mean.

    Args:
      share: beta, at least 0 and less than 1/2; a leaf.
      cap: votes are at most this times the median weight of the group, at least 1; `inf` for none.

    Reference: D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed
    Learning: Towards Optimal Statistical Rates", ICML 2018, definition 2.
    """
    return build(TrimmedMean, **locals())


def geometric_median(
    smoothing: ArrayLike | None = None, steps: int = 32, *, cap: ArrayLike = CAP
) -> GeometricMedian:
    """Build the geometric median: holds below half of the votes, and turns with the vectors.

        argmin_z sum_l s_l ||z - x_l||

    by a fixed number of smoothed Weiszfeld steps

        z <- sum_l b_l x_l / sum_l b_l,    b_l = s_l / max(nu, ||z - x_l||)

    None of these increases sum_l s_l phi(||z - x_l||), where phi(r) = r from nu on and
    r^2 / (2 nu) + nu / 2 below. They begin at the coordinate median: from the mean, vectors at
    infinity would keep a hold on any fixed number of steps.

    Args:
      smoothing: nu, in the unit of the vectors, positive; a leaf. None for 1e-4 in float32 and
        1e-6 in float64 times the median distance of the vectors from the coordinate median.
      steps: at least 1.
      cap: votes are at most this times the median weight of the group, at least 1; `inf` for none.

    Reference: K. Pillutla, S. M. Kakade, Z. Harchaoui, "Robust Aggregation for Federated
    Learning", arXiv:1912.13445, algorithm 2 and proposition 1.
    """
    return build(GeometricMedian, **locals())


def krum(bad: int, neighbours: int | None = None) -> Krum:
    """Build Krum: the vector with the least sum of squared distances to its nearest ones.

        score_l = sum of ||x_l - x_j||^2 over the n - f - 2 vectors x_j nearest to x_l

    and the lowest score wins, at ties the lowest index. n counts those who are present in the
    group; weights are not looked at but for that. With n >= 2 f + 3 the winner is honest, or has an
    honest one among its nearest. Smaller groups (after absences) take one neighbour at least: the
    result is finite, and without promise. Squared distances must stay within the range of the
    dtype among the honest, below 1e18 in float32.

    Args:
      bad: f, how many vectors of a group may be false.
      neighbours: how many others are summed over; n - f - 2 if None. (Some authors take n - f - 1.)

    Returns:
      The aggregator; `check(n)` says whether a group of n is large enough.

    Reference: P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer, "Machine Learning with
    Adversaries: Byzantine Tolerant Gradient Descent", NeurIPS 2017, section 3.
    """
    return build(Krum, bad=bad, kept=1, neighbours=neighbours, cap=math.inf)


def multi_krum(bad: int, kept: int, neighbours: int | None = None, *, cap: ArrayLike = CAP) -> Krum:
    """Build multi-Krum: the weighted mean of the m vectors with the lowest scores of `krum`.

    Args:
      bad: f, how many vectors of a group may be false.
      kept: m; n - f at most holds. A group with fewer vectors averages them all.
      neighbours: how many others are summed over; n - f - 2 if None.
      cap: votes are at most this times the median weight of the group, at least 1; `inf` for none.

    Returns:
      The aggregator; `cap` is a leaf; `check(n)` says whether a group of n is large enough.

    Reference: P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer, "Machine Learning with
    Adversaries: Byzantine Tolerant Gradient Descent", NeurIPS 2017, section 4.
    """
    return build(Krum, **locals())
