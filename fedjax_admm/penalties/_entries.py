"""Convex penalties of every entry by itself."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import build, declared, is_concrete, number, refuse
from fedjax_admm.penalties._protocols import (
    WithoutKink,
    above,
    interval_distance,
    not_negative,
    penalty,
)


@penalty
class Zero(WithoutKink):
    """No penalty at all."""

    def value(self, x):
        """Return 0."""
        return jnp.zeros((), x.dtype)

    def prox(self, v, step):
        """Return `v`."""
        return v

    def optimality(self, x, gradient):
        """Return |gradient|."""
        return jnp.abs(gradient)


@penalty
class L1:
    """The l1 norm; see `l1`."""

    weight: jax.Array = not_negative()  # broadcasts against x

    def value(self, x):
        """Return `weight * sum |x_i|`."""
        return jnp.sum(self.weight * jnp.abs(x))

    def prox(self, v, step):
        """Return the soft threshold of `v` at `step * weight`."""
        return kernels.prox_l1(v, step, self.weight)

    def smoothed_prox(self, v, step, mu):
        """Return the prox of `weight * h_mu`."""
        return kernels.prox_smoothed_abs(v, step, self.weight, mu)

    def optimality(self, x, gradient):
        """Return |gradient + weight sign(x)|, or the excess of |gradient| over weight at 0."""
        return interval_distance(x, gradient, self.weight * jnp.sign(x), self.weight)


@penalty
class NonNegativeL1:
    """The l1 norm of what is not negative; see `non_negative_l1`."""

    weight: jax.Array = not_negative()  # broadcasts against x

    def value(self, x):
        """Return `weight * sum x_i`, infinity where an entry is negative."""
        return jnp.sum(jnp.where(x >= 0, self.weight * x, jnp.inf))

    def prox(self, v, step):
        """Return `max(v - step * weight, 0)`."""
        return kernels.prox_non_negative_l1(v, step, self.weight)

    def smoothed_prox(self, v, step, mu):
        """Return the prox of `weight * h_mu`, cut off at zero."""
        return jnp.maximum(kernels.prox_smoothed_abs(v, step, self.weight, mu), 0)

    def optimality(self, x, gradient):
        """Return |gradient + weight|, or what it lacks to zero at 0 (infinite below)."""
        pull = gradient + self.weight
        distance = jnp.where(x > 0, jnp.abs(pull), jnp.maximum(-pull, 0))
        return jnp.where(x >= 0, distance, jnp.inf)


@penalty
class ElasticNet:
    """The elastic net; see `elastic_net`."""

    l1: jax.Array = not_negative()
    l2: jax.Array = not_negative()

    def value(self, x):
        """Return `sum l1 |x_i| + l2 x_i^2 / 2`."""
        return jnp.sum(self.l1 * jnp.abs(x) + self.l2 * x * x / 2)

    def prox(self, v, step):
        """Return the soft threshold at `step * l1`, divided by `1 + step * l2`."""
        return kernels.prox_elastic_net(v, step, self.l1, self.l2)

    def smoothed_prox(self, v, step, mu):
        """Return the prox of `l1 h_mu + l2 / 2 (.)^2`, by completing the square."""
        shrink = 1 + step * self.l2
        return kernels.prox_smoothed_abs(v / shrink, step * self.l1 / shrink, 1.0, mu)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the subdifferential."""
        return interval_distance(x, gradient + self.l2 * x, self.l1 * jnp.sign(x), self.l1)


@penalty
class SquaredL2(WithoutKink):
    """Half the weighted square; see `squared_l2`."""

    weight: jax.Array = not_negative()

    def value(self, x):
        """Return `weight / 2 * sum x_i^2`."""
        return jnp.sum(self.weight * x * x) / 2

    def prox(self, v, step):
        """Return `v / (1 + step * weight)`."""
        return kernels.prox_squared_l2(v, step, self.weight)

    def optimality(self, x, gradient):
        """Return |gradient + weight x|."""
        return jnp.abs(gradient + self.weight * x)


@penalty
class HuberNorm(WithoutKink):
    """Huber's function; see `huber_norm`."""

    weight: jax.Array = not_negative()  # broadcasts against x
    delta: jax.Array = above(0)

    def value(self, x):
        """Return `weight` times the sum of Huber's function."""
        return jnp.sum(self.weight * kernels.huber_value(x, self.delta))

    def prox(self, v, step):
        """Return `v / (1 + step weight)`, or `v - step weight delta sign(v)` far out."""
        return kernels.prox_huber(v, step * self.weight, self.delta)

    def optimality(self, x, gradient):
        """Return |gradient + weight clip(x, -delta, delta)|."""
        return jnp.abs(gradient + self.weight * jnp.clip(x, -self.delta, self.delta))


@penalty
class Box(WithoutKink):
    """The indicator of a box; see `box`."""

    lower: jax.Array = declared(number)
    upper: jax.Array = declared(number)

    def value(self, x):
        """Return 0 inside the box, infinity outside."""
        inside = jnp.all((x >= self.lower) & (x <= self.upper))
        return jnp.where(inside, jnp.zeros((), x.dtype), jnp.inf)

    def prox(self, v, step):
        """Return the projection onto the box."""
        return kernels.project_box(v, self.lower, self.upper)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the normal cone (infinite outside the box)."""
        at_lower, at_upper = x <= self.lower, x >= self.upper
        blocked = jnp.where(at_lower, jnp.minimum(gradient, 0), jnp.maximum(gradient, 0))
        distance = jnp.where(
            at_lower & at_upper, 0, jnp.abs(jnp.where(at_lower | at_upper, blocked, gradient))
        )
        feasible = (x >= self.lower) & (x <= self.upper)
        return jnp.where(feasible, distance, jnp.inf)


@penalty
class NonNegative(WithoutKink):
    """The indicator of what is not negative; see `non_negative`."""

    def value(self, x):
        """Return 0 where all entries are nonnegative, infinity elsewhere."""
        return jnp.where(jnp.all(x >= 0), jnp.zeros((), x.dtype), jnp.inf)

    def prox(self, v, step):
        """Return the positive part."""
        return jnp.maximum(v, 0)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the normal cone (infinite outside)."""
        distance = jnp.where(x > 0, jnp.abs(gradient), jnp.maximum(-gradient, 0))
        return jnp.where(x >= 0, distance, jnp.inf)


def zero() -> Zero:
    """No penalty."""
    return Zero()


def l1(weight: ArrayLike) -> L1:
    """Weighted l1 norm, `weight * sum |x_i|`; the weight is a number, or one per entry."""
    return build(L1, **locals())


def non_negative_l1(weight: ArrayLike) -> NonNegativeL1:
    """Weighted sum of entries, `weight * sum x_i`, infinite where one is negative.

    Models become sparse and not negative; the weight is a number, or one per entry.
    """
    return build(NonNegativeL1, **locals())


def elastic_net(l1: ArrayLike, l2: ArrayLike) -> ElasticNet:
    """Elastic net, `sum l1 |x_i| + l2 x_i^2 / 2`."""
    return build(ElasticNet, **locals())


def squared_l2(weight: ArrayLike) -> SquaredL2:
    """Half the weighted square, `weight / 2 * sum x_i^2`."""
    return build(SquaredL2, **locals())


def huber_norm(weight: ArrayLike, delta: ArrayLike) -> HuberNorm:
    """Huber's function of every entry, `weight * sum x_i^2 / 2`, linear from `|x_i| = delta` on."""
    return build(HuberNorm, **locals())


def box(lower: ArrayLike, upper: ArrayLike) -> Box:
    """Indicator of a box: zero where `lower <= x_i <= upper`, infinite elsewhere."""
    penalty = build(Box, **locals())
    lower, upper = penalty.lower, penalty.upper
    if is_concrete(penalty):
        turned = np.any(np.asarray(lower) > np.asarray(upper))
        refuse(turned, "lower", f"must not exceed {{upper}}, but they are {lower} and {upper}")
    return penalty


def non_negative() -> NonNegative:
    """Indicator of what is not negative: zero where `x_i >= 0`, infinite elsewhere."""
    return NonNegative()
