"""Penalties: what a link, a node or a regulariser costs, with its proximal maps.

Every penalty is a pytree whose numbers are leaves, with

    value(x)                       the penalty, summed over all entries
    prox(v, step)                  argmin_x g(x) + |x - v|^2 / (2 step), a global minimiser
    smoothed_prox(v, step, mu)     the same for g with |t| replaced by its smoothing h_mu(t)
    optimality(x, gradient)        distance of -gradient from the subdifferential of g at x, entry
                                   by entry (row by row for `GroupL2`): zero where 0 lies in
                                   gradient + dg(x), a certificate for nonconvex penalties too

`h_mu(t)` is |t| for |t| >= mu and t^2 / (2 mu) + mu / 2 below. A penalty without a kink at zero
(a square, an indicator) has nothing to smooth: its `smoothed_prox` is its `prox`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import InputError, is_concrete, number, scalar
from fedjax_admm._pytrees import register_dataclass


class Penalty(Protocol):
    """A function with a known proximal map."""

    def value(self, x: jax.Array) -> jax.Array:
        """Return g(x), a scalar."""
        ...

    def prox(self, v: jax.Array, step: ArrayLike) -> jax.Array:
        """Return a minimiser of g(x) + |x - v|^2 / (2 step), in the shape of `v`."""
        ...

    def optimality(self, x: jax.Array, gradient: jax.Array) -> jax.Array:
        """Return the distance of -gradient from the subdifferential of g at x."""
        ...


class SmoothablePenalty(Penalty, Protocol):
    """A penalty whose modulus can be smoothed, as the smoothing ADMM needs for its links."""

    def smoothed_prox(self, v: jax.Array, step: ArrayLike, mu: ArrayLike) -> jax.Array:
        """Return a minimiser of the smoothed g plus |x - v|^2 / (2 step)."""
        ...


@register_dataclass
@dataclass(frozen=True, eq=False)
class Zero:
    """No penalty at all."""

    def value(self, x):
        """Return 0."""
        return jnp.zeros((), x.dtype)

    def prox(self, v, step):
        """Return `v`."""
        return v

    def smoothed_prox(self, v, step, mu):
        """Return `v`."""
        return v

    def optimality(self, x, gradient):
        """Return |gradient|."""
        return jnp.abs(gradient)


@register_dataclass
@dataclass(frozen=True, eq=False)
class L1:
    """`weight * sum |x_i|`."""

    weight: jax.Array  # broadcasts against x

    def value(self, x):
        """Return `weight * sum |x_i|`."""
        return jnp.sum(self.weight * jnp.abs(x))

    def prox(self, v, step):
        """Return the soft threshold of `v` at `step * weight`."""
        return kernels.prox_l1(v, step * self.weight)

    def smoothed_prox(self, v, step, mu):
        """Return the prox of `weight * h_mu`."""
        return kernels.prox_smoothed_abs(v, step * self.weight, mu)

    def optimality(self, x, gradient):
        """Return |gradient + weight sign(x)|, or the excess of |gradient| over weight at 0."""
        return _interval_distance(x, gradient, self.weight * jnp.sign(x), self.weight)


@register_dataclass
@dataclass(frozen=True, eq=False)
class GroupL2:
    """`weight * sum of the Euclidean norms along the last axis`."""

    weight: jax.Array  # shape=()

    def value(self, x):
        """Return `weight * sum_rows ||x_row||`."""
        return jnp.sum(self.weight * kernels.safe_norm(x))

    def prox(self, v, step):
        """Return each row shortened by `step * weight`, or zero."""
        return kernels.prox_group_l2(v, step * self.weight)

    def smoothed_prox(self, v, step, mu):
        """Return each row shortened by the prox of `weight * h_mu` of its length."""
        length = kernels.safe_norm(v, keepdims=True)
        shorter = kernels.prox_smoothed_abs(length, step * self.weight, mu)
        return v * kernels.safe_ratio(shorter, length)

    def optimality(self, x, gradient):
        """Return, row by row, the distance of -gradient from the subdifferential."""
        length = kernels.safe_norm(x, keepdims=True)
        away = kernels.safe_norm(gradient + self.weight * kernels.safe_ratio(x, length))
        at_zero = jnp.maximum(kernels.safe_norm(gradient) - self.weight, 0)
        return jnp.where(length[..., 0] > 0, away, at_zero)


@register_dataclass
@dataclass(frozen=True, eq=False)
class MCP:
    """`weight * sum P(x_i)` with the minimax concave penalty P (Zhang, 2010).

    `P(t) = lam |t| - t^2 / (2 gamma)` for `|t| <= gamma lam`, and `gamma lam^2 / 2` above.
    """

    lam: jax.Array
    gamma: jax.Array
    weight: jax.Array

    def value(self, x):
        """Return `weight * sum P(x_i)`."""
        return jnp.sum(self.weight * kernels.mcp_value(x, self.lam, self.gamma))

    def prox(self, v, step):
        """Return a global minimiser, hard threshold included (`step * weight >= gamma`)."""
        return kernels.prox_mcp(v, step * self.weight, self.lam, self.gamma)

    def smoothed_prox(self, v, step, mu):
        """Return a global minimiser for `weight * P(h_mu(.))`."""
        return kernels.prox_smoothed_mcp(v, step * self.weight, self.lam, self.gamma, mu)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the (Clarke) subdifferential."""
        slope = jnp.maximum(self.lam - jnp.abs(x) / self.gamma, 0)
        return _interval_distance(
            x, gradient, self.weight * slope * jnp.sign(x), self.weight * self.lam
        )


@register_dataclass
@dataclass(frozen=True, eq=False)
class SCAD:
    """`weight * sum P(x_i)` with the smoothly clipped absolute deviation P (Fan and Li, 2001).

    `P'(t) = lam` for `0 < t <= lam`, `(gamma lam - t)_+ / (gamma - 1)` above.
    """

    lam: jax.Array
    gamma: jax.Array
    weight: jax.Array

    def value(self, x):
        """Return `weight * sum P(x_i)`."""
        return jnp.sum(self.weight * kernels.scad_value(x, self.lam, self.gamma))

    def prox(self, v, step):
        """Return a global minimiser, hard threshold included (large `step * weight`)."""
        return kernels.prox_scad(v, step * self.weight, self.lam, self.gamma)

    def smoothed_prox(self, v, step, mu):
        """Return a global minimiser for `weight * P(h_mu(.))`."""
        return kernels.prox_smoothed_scad(v, step * self.weight, self.lam, self.gamma, mu)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the (Clarke) subdifferential."""
        falling = (self.gamma * self.lam - jnp.abs(x)) / (self.gamma - 1)
        slope = jnp.clip(falling, 0, self.lam)
        return _interval_distance(
            x, gradient, self.weight * slope * jnp.sign(x), self.weight * self.lam
        )


@register_dataclass
@dataclass(frozen=True, eq=False)
class ElasticNet:
    """`sum l1 |x_i| + l2 x_i^2 / 2`."""

    l1: jax.Array
    l2: jax.Array

    def value(self, x):
        """Return `sum l1 |x_i| + l2 x_i^2 / 2`."""
        return jnp.sum(self.l1 * jnp.abs(x) + self.l2 * x * x / 2)

    def prox(self, v, step):
        """Return the soft threshold at `step * l1`, divided by `1 + step * l2`."""
        return kernels.prox_elastic_net(v, step, self.l1, self.l2)

    def smoothed_prox(self, v, step, mu):
        """Return the prox of `l1 h_mu + l2 / 2 (.)^2`, by completing the square."""
        shrink = 1 + step * self.l2
        return kernels.prox_smoothed_abs(v / shrink, step * self.l1 / shrink, mu)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the subdifferential."""
        return _interval_distance(x, gradient + self.l2 * x, self.l1 * jnp.sign(x), self.l1)


@register_dataclass
@dataclass(frozen=True, eq=False)
class SquaredL2:
    """`weight / 2 * sum x_i^2`."""

    weight: jax.Array

    def value(self, x):
        """Return `weight / 2 * sum x_i^2`."""
        return jnp.sum(self.weight * x * x) / 2

    def prox(self, v, step):
        """Return `v / (1 + step * weight)`."""
        return kernels.prox_squared_l2(v, step, self.weight)

    def smoothed_prox(self, v, step, mu):
        """Return the prox: there is no kink to smooth."""
        return self.prox(v, step)

    def optimality(self, x, gradient):
        """Return |gradient + weight x|."""
        return jnp.abs(gradient + self.weight * x)


@register_dataclass
@dataclass(frozen=True, eq=False)
class Box:
    """Zero where `lower <= x_i <= upper`, infinite elsewhere."""

    lower: jax.Array
    upper: jax.Array

    def value(self, x):
        """Return 0 inside the box, infinity outside."""
        inside = jnp.all((x >= self.lower) & (x <= self.upper))
        return jnp.where(inside, jnp.zeros((), x.dtype), jnp.inf)

    def prox(self, v, step):
        """Return the projection onto the box."""
        return kernels.project_box(v, self.lower, self.upper)

    def smoothed_prox(self, v, step, mu):
        """Return the projection: an indicator is kept exact."""
        return self.prox(v, step)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the normal cone (infinite outside the box)."""
        at_lower, at_upper = x <= self.lower, x >= self.upper
        blocked = jnp.where(at_lower, jnp.minimum(gradient, 0), jnp.maximum(gradient, 0))
        distance = jnp.where(
            at_lower & at_upper, 0, jnp.abs(jnp.where(at_lower | at_upper, blocked, gradient))
        )
        feasible = (x >= self.lower) & (x <= self.upper)
        return jnp.where(feasible, distance, jnp.inf)


@register_dataclass
@dataclass(frozen=True, eq=False)
class NonNegative:
    """Zero where `x_i >= 0`, infinite elsewhere."""

    def value(self, x):
        """Return 0 where all entries are nonnegative, infinity elsewhere."""
        return jnp.where(jnp.all(x >= 0), jnp.zeros((), x.dtype), jnp.inf)

    def prox(self, v, step):
        """Return the positive part."""
        return jnp.maximum(v, 0)

    def smoothed_prox(self, v, step, mu):
        """Return the positive part: an indicator is kept exact."""
        return self.prox(v, step)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the normal cone (infinite outside)."""
        distance = jnp.where(x > 0, jnp.abs(gradient), jnp.maximum(-gradient, 0))
        return jnp.where(x >= 0, distance, jnp.inf)


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


def zero() -> Zero:
    """No penalty."""
    return Zero()


def l1(weight: ArrayLike) -> L1:
    """Build `L1`; the weight (a number, or one per entry) must not be negative."""
    return L1(number("weight", weight, at_least=0))


def group_l2(weight: ArrayLike) -> GroupL2:
    """Build `GroupL2`; the weight must not be negative."""
    return GroupL2(scalar("weight", weight, at_least=0))


def mcp(lam: ArrayLike, gamma: ArrayLike, weight: ArrayLike = 1.0) -> MCP:
    """Build `MCP`; lam and gamma must be positive, the weight not negative."""
    return MCP(
        number("lam", lam, above=0),
        number("gamma", gamma, above=0),
        number("weight", weight, at_least=0),
    )


def scad(lam: ArrayLike, gamma: ArrayLike = 3.7, weight: ArrayLike = 1.0) -> SCAD:
    """Build `SCAD`; lam must be positive, gamma above 2, the weight not negative."""
    return SCAD(
        number("lam", lam, above=0),
        number("gamma", gamma, above=2),
        number("weight", weight, at_least=0),
    )


def elastic_net(l1: ArrayLike, l2: ArrayLike) -> ElasticNet:
    """Build `ElasticNet`; neither number may be negative."""
    return ElasticNet(number("l1", l1, at_least=0), number("l2", l2, at_least=0))


def squared_l2(weight: ArrayLike) -> SquaredL2:
    """Build `SquaredL2`; the weight must not be negative."""
    return SquaredL2(number("weight", weight, at_least=0))


def box(lower: ArrayLike, upper: ArrayLike) -> Box:
    """Build `Box`.

    Raises:
      InputError: a lower bound is above its upper bound.
    """
    lower, upper = number("lower", lower), number("upper", upper)
    if is_concrete((lower, upper)) and np.any(np.asarray(lower) > np.asarray(upper)):
        raise InputError(
            f"must not exceed {{upper}}, but they are {lower} and {upper}",
            argument="lower",
            value=lower,
            others=["upper"],
        )
    return Box(lower, upper)


def non_negative() -> NonNegative:
    """Build `NonNegative`."""
    return NonNegative()


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


def _interval_distance(
    x: jax.Array, gradient: jax.Array, slope: jax.Array, slope_at_zero: jax.Array
) -> jax.Array:
    """Distance of -gradient from {slope} where x is not 0, from [-slope_at_zero, +] where it is."""
    at_zero = jnp.maximum(jnp.abs(gradient) - slope_at_zero, 0)
    return jnp.where(x == 0, at_zero, jnp.abs(gradient + slope))
