"""Sums of two penalties whose proximal map is known."""

from typing import Any

import jax.numpy as jnp

from fedjax_admm._checks import InputError, of_shape
from fedjax_admm.penalties._entries import (
    L1,
    Box,
    ElasticNet,
    HuberNorm,
    NonNegative,
    NonNegativeL1,
    SquaredL2,
)
from fedjax_admm.penalties._groups import GroupL2, SparseGroup
from fedjax_admm.penalties._protocols import Penalty, penalty
from fedjax_admm.penalties._structures import FusedLasso, Nuclear, TotalVariation
from fedjax_admm.penalties._vectors import Linf, Slope


@penalty
class Sum:
    """The sum of two penalties whose prox is the one after the other, built by `add`."""

    inner: Any
    outer: Any

    def value(self, x):
        """Return the sum of the two values."""
        return self.inner.value(x) + self.outer.value(x)

    def prox(self, v, step):
        """Return `outer.prox(inner.prox(v))`."""
        return self.outer.prox(self.inner.prox(v, step), step)

    def optimality(self, x, gradient):
        """Return `|x - prox(x - gradient; 1)|`: zero exactly where the sum is stationary.

        The sum's subdifferential has no closed form for every pair; the length of the
        proximal-gradient step at step 1 is a certificate for all of them (all are convex).
        """
        return jnp.abs(x - self.prox(x - gradient, 1.0))


# Pairs for which prox of the sum = prox of the second after prox of the first, at the same step:
# a convex function of one variable then an interval; a norm then a square, because a positively
# homogeneous prox commutes with scaling; L1 or the cone, which the row norm does not disturb.
_OF_ENTRIES = (L1, NonNegativeL1)
_OF_ROWS = (GroupL2, SparseGroup, Linf, Slope, TotalVariation, FusedLasso, Nuclear)
_COMPOSABLE = {
    *(
        (inner, outer)
        for inner in (L1, ElasticNet, SquaredL2, HuberNorm)
        for outer in (Box, NonNegative)
    ),
    *((inner, SquaredL2) for inner in (*_OF_ENTRIES, *_OF_ROWS)),
    *((inner, GroupL2) for inner in (*_OF_ENTRIES, NonNegative)),
}


def add(first: Penalty, second: Penalty) -> Sum:
    """Add two penalties whose sum has a known prox, in either order.

    Known: a convex penalty of one variable (`l1`, `elastic_net`, `squared_l2`, `huber_norm`) with
    `box` or `non_negative`; a norm (`l1`, `non_negative_l1`, or one of rows, such as `group_l2`,
    `linf`, `slope`, `total_variation`, `nuclear`) with `squared_l2`, whose weight then is one
    number; `l1`, `non_negative_l1` or `non_negative` with `group_l2` (Yu, "On decomposing the
    proximal map", NeurIPS 2013).
    """
    for inner, outer in ((first, second), (second, first)):
        if (type(inner), type(outer)) in _COMPOSABLE:
            if isinstance(outer, SquaredL2) and isinstance(inner, _OF_ROWS):
                of_shape(f"the weight of SquaredL2 beside {type(inner).__name__}", outer.weight, ())
            return Sum(inner, outer)
    known = ", ".join(sorted(f"{a.__name__}+{b.__name__}" for a, b in _COMPOSABLE))
    told = f"the prox of {type(first).__name__} + {type(second).__name__} is not known"
    raise InputError(told, remedy=f"sums with a known prox are {known}")
