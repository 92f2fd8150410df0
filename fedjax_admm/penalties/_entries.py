"""Convex penalties of every entry by itself."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import InputError, is_concrete, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.penalties._protocols import interval_distance


@pytree_dataclass
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


@pytree_dataclass
class L1:
    """`weight * sum |x_i|`."""

    weight: jax.Array  # broadcasts against x

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


@pytree_dataclass
class NonNegativeL1:
    """`weight * sum x_i` where `x_i >= 0`, infinite elsewhere: sparse and not negative."""

    weight: jax.Array  # broadcasts against x

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


@pytree_dataclass
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
        return kernels.prox_smoothed_abs(v / shrink, step * self.l1 / shrink, 1.0, mu)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the subdifferential."""
        return interval_distance(x, gradient + self.l2 * x, self.l1 * jnp.sign(x), self.l1)


@pytree_dataclass
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


@pytree_dataclass
class HuberNorm:
    """`weight * sum x_i^2 / 2`, linear from `|x_i| = delta` on."""

    weight: jax.Array  # broadcasts against x
    delta: jax.Array

    def value(self, x):
        """Return `weight` times the sum of Huber's function."""
        return jnp.sum(self.weight * kernels.huber_value(x, self.delta))

    def prox(self, v, step):
        """Return `v / (1 + step weight)`, or `v - step weight delta sign(v)` far out."""
        return kernels.prox_huber(v, step * self.weight, self.delta)

    def smoothed_prox(self, v, step, mu):
        """Return the prox: there is no kink to smooth."""
        return self.prox(v, step)

    def optimality(self, x, gradient):
        """Return |gradient + weight clip(x, -delta, delta)|."""
        return jnp.abs(gradient + self.weight * jnp.clip(x, -self.delta, self.delta))


@pytree_dataclass
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


@pytree_dataclass
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


def zero() -> Zero:
    """No penalty."""
    return Zero()


def l1(weight: ArrayLike) -> L1:
    """Build `L1`; the weight (a number, or one per entry) must not be negative."""
    return L1(number("weight", weight, at_least=0))


def non_negative_l1(weight: ArrayLike) -> NonNegativeL1:
    """Build `NonNegativeL1`; the weight (a number, or one per entry) must not be negative."""
    return NonNegativeL1(number("weight", weight, at_least=0))


def elastic_net(l1: ArrayLike, l2: ArrayLike) -> ElasticNet:
    """Build `ElasticNet`; neither number may be negative."""
    return ElasticNet(number("l1", l1, at_least=0), number("l2", l2, at_least=0))


def squared_l2(weight: ArrayLike) -> SquaredL2:
    """Build `SquaredL2`; the weight must not be negative."""
    return SquaredL2(number("weight", weight, at_least=0))


def huber_norm(weight: ArrayLike, delta: ArrayLike) -> HuberNorm:
    """Build `HuberNorm`; delta must be positive, the weight not negative."""
    return HuberNorm(number("weight", weight, at_least=0), number("delta", delta, above=0))


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
