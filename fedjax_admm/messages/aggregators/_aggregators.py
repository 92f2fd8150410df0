"""Aggregators: one vector from many, of which some may be false.

An aggregator is a pytree with

    __call__(values, weights, groups, number, previous) -> (number, dim)

Weighted vectors form groups, one per receiver: all clients at a star's server, the children of
every node of a tree, the neighbours of every node of a graph. A vector of weight zero is absent; a
group in which all are absent keeps its previous vector.

    mean                  sum_l s_l x_l / sum_l s_l
    coordinate_median     per coordinate: where the cumulative weight passes one half
    trimmed_mean          per coordinate, without a share of the weight at either end
    geometric_median      argmin_z sum_l s_l ||z - x_l||, by smoothed Weiszfeld steps
    krum, multi_krum      the vectors with the least squared distances to their nearest ones
    centred_clipping      v + mean of (x_l - v) min(1, tau / ||x_l - v||), v the previous vector
    norm_bounding         mean of x_l min(1, tau / ||x_l||)

Weights are votes: half of the weight, not half of the clients, moves a median anywhere. As a
Byzantine sender may claim any weight (its number of samples, say), all but the mean cap weights at
`cap` times the median weight of those present in the group. Byzantine senders that claim all they
can then have half of the votes from a share 1 / (1 + cap) of the clients on: one quarter at the
default cap of 3, one half at 1. Smaller differences of weights among the honest stay.

All but the mean take a vector with an entry that is not finite for absent.

This file has the weighted means, some of shortened vectors; `_robust.py` has the rules that hold
against any false vectors of a minority.
"""

import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, declared, positive, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import project_l2_ball
from fedjax_admm.messages.aggregators._votes import AnyNumber, attending, of_group, weighted_mean

# See above: a quarter of the clients, if they claim all they can, and harmless factors in between.
CAP = 3.0


def capped() -> Any:
    """Declare a cap on votes, at least 1; infinity becomes None, which is no cap."""

    def check(name: str, cap: Any) -> jax.Array | None:
        return None if isinstance(cap, float) and cap == math.inf else scalar(name, cap, at_least=1)

    return declared(check)


class Aggregator(Protocol):
    """A rule that makes one vector of many."""

    def __call__(
        self,
        values: jax.Array,
        weights: jax.Array,
        groups: jax.Array,
        number: int,
        previous: jax.Array,
    ) -> jax.Array:
        """Return one vector per group, shape (number, dim), dtype of the vectors.

        Args:
          values: shape (vectors, dim), floating dtype.
          weights: shape (vectors,), of the same dtype; 0 for those who are absent.
          groups: the group of every vector, shape (vectors,), int32; not looked at where there is
            one group.
          number: of groups.
          previous: the last result, shape (number, dim).
        """
        ...

    def check(self, number: int) -> None:
        """Raise `InputError` if a group of so many vectors is too small."""
        ...


@pytree_dataclass
class Mean(AnyNumber):
    """The weighted mean; build it with `mean`."""

    def __call__(self, values, weights, groups, number, previous):
        """Return sum_l s_l x_l / sum_l s_l."""
        return weighted_mean(values, weights, groups, number, previous)


@pytree_dataclass
class CentredClipping(AnyNumber):
    """The previous vector, moved by shortened differences; build it with `centred_clipping`."""

    radius: jax.Array = positive()  # shape=(): tau, in the unit of the vectors
    cap: jax.Array | None = capped()  # shape=(); None for none
    steps: int = counted()

    def __call__(self, values, weights, groups, number, previous):
        """Return v after steps v <- v + mean of (x_l - v) min(1, tau / ||x_l - v||)."""
        values, votes = attending(values, weights, groups, number, self.cap)
        none = jnp.zeros_like(previous)

        def step(v, _):
            moves = shortened(values - of_group(v, groups), self.radius)
            return v + weighted_mean(moves, votes, groups, number, none), None

        return jax.lax.scan(step, previous, length=self.steps)[0]


@pytree_dataclass
class NormBounding(AnyNumber):
    """The mean of shortened vectors; build it with `norm_bounding`."""

    radius: jax.Array = positive()  # shape=(): tau, in the unit of the vectors
    cap: jax.Array | None = capped()  # shape=(); None for none

    def __call__(self, values, weights, groups, number, previous):
        """Return the mean of x_l min(1, tau / ||x_l||)."""
        values, votes = attending(values, weights, groups, number, self.cap)
        return weighted_mean(shortened(values, self.radius), votes, groups, number, previous)


def mean() -> Mean:
    """Build the weighted mean of all that was said: one Byzantine sender moves it anywhere.

        sum_l s_l x_l / sum_l s_l

    Weights count as they are, without a cap, and what is not finite is passed on. Servers average
    so where nothing else is said.
    """
    return Mean()


def centred_clipping(radius: ArrayLike, steps: int = 1, *, cap: ArrayLike = CAP) -> CentredClipping:
    """Build centred clipping: the previous vector, moved by differences of bounded length.

        v <- v + sum_l s_l (x_l - v) min(1, tau / ||x_l - v||) / sum_l s_l

    from the previous vector on, `steps` times. Byzantine senders with a share p of the votes move
    v by at most p tau per step. There is no share that it withstands for ever: what they tell adds
    up over rounds, until the honest pull as hard. The honest all count in full once they are
    within the radius. The fixed point is a Huber location of the vectors.

    Args:
      radius: tau, in the unit of the vectors, positive; a leaf.
      steps: at least 1.
      cap: votes are at most this times the median weight of the group, at least 1; `inf` for none.

    Reference: S. P. Karimireddy, L. He, M. Jaggi, "Learning from History for Byzantine Robust
    Optimization", ICML 2021, arXiv:2012.10333, equation (CCLIP).
    """
    return build(CentredClipping, **locals())


def norm_bounding(radius: ArrayLike, *, cap: ArrayLike = CAP) -> NormBounding:
    """Build the mean of vectors that are shortened to a radius.

        sum_l s_l x_l min(1, tau / ||x_l||) / sum_l s_l

    Byzantine senders with a share p of the votes add at most p tau to what the others say, and the
    result never leaves the ball. Meant for differences and gradients: vectors are shortened
    towards 0, and so the rule does not follow a shift of all of them.

    Args:
      radius: tau, in the unit of the vectors, positive; a leaf.
      cap: votes are at most this times the median weight of the group, at least 1; `inf` for none.

    Reference: Z. Sun, P. Kairouz, A. T. Suresh, H. B. McMahan, "Can You Really Backdoor Federated
    Learning?", arXiv:1911.07963, section 3.
    """
    return build(NormBounding, **locals())


def shortened(vectors: jax.Array, radius: jax.Array) -> jax.Array:
    """Return vectors (..., dim) that are no longer than a radius."""
    return project_l2_ball(vectors, radius.astype(vectors.dtype))
