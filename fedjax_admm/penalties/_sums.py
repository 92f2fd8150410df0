"""Sums of two penalties whose proximal map is known."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from fedjax_admm._checks import InputError
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.penalties._entries import L1, Box, ElasticNet, NonNegative, SquaredL2
from fedjax_admm.penalties._groups import GroupL2
from fedjax_admm.penalties._protocols import Penalty


@register_dataclass
@dataclass(frozen=True, eq=False)
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
_COMPOSABLE = {
    (L1, Box),
    (ElasticNet, Box),
    (SquaredL2, Box),
    (L1, NonNegative),
    (ElasticNet, NonNegative),
    (SquaredL2, NonNegative),
    (L1, SquaredL2),
    (GroupL2, SquaredL2),
    (L1, GroupL2),
    (NonNegative, GroupL2),
}


def add(first: Penalty, second: Penalty) -> Sum:
    """Add two penalties whose sum has a known prox, in either order.

    Known: a convex penalty of one variable (`L1`, `ElasticNet`, `SquaredL2`) with `Box` or
    `NonNegative`; `L1` or `GroupL2` with `SquaredL2`; `L1` or `NonNegative` with `GroupL2` (Yu,
    "On decomposing the proximal map", NeurIPS 2013).

    Raises:
      InputError: the prox of the sum is not known.
    """
    for inner, outer in ((first, second), (second, first)):
        if (type(inner), type(outer)) in _COMPOSABLE:
            return Sum(inner, outer)
    known = ", ".join(sorted(f"{a.__name__}+{b.__name__}" for a, b in _COMPOSABLE))
    raise InputError(
        f"the prox of {type(first).__name__} + {type(second).__name__} is not known",
        value=(first, second),
        remedy=f"sums with a known prox are {known}",
    )
