"""Penalties: what a link, a node or a regulariser costs, with its proximal maps.

Every penalty is a pytree whose numbers are leaves, with

    value(x)                       the penalty, summed over all entries
    prox(v, step)                  argmin_x g(x) + |x - v|^2 / (2 step), a global minimiser
    smoothed_prox(v, step, mu)     the same for g with |t| replaced by its smoothing h_mu(t)
    optimality(x, gradient)        distance of -gradient from the subdifferential of g at x, entry
                                   by entry (row by row where g takes rows together): zero where 0
                                   lies in gradient + dg(x), a certificate for nonconvex penalties
                                   too; another number that vanishes there alone, where the
                                   distance has no closed form

`h_mu(t)` is |t| for |t| >= mu and t^2 / (2 mu) + mu / 2 below. A penalty without a kink at zero
(a square, an indicator) has nothing to smooth: its `smoothed_prox` is its `prox`. Where the prox of
the smoothed penalty has no closed form, or g jumps at zero, there is no `smoothed_prox`: such a
penalty regularises, and is no link of the smoothing ADMM.
"""

from dataclasses import field
from functools import partial
from inspect import signature
from typing import Any, Protocol, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import declared, number, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm
from fedjax_admm.kernels.compiling import OwnSize, kernel

Class = TypeVar("Class", bound=type)


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def penalty(cls: Class) -> Class:
    """Make a class a pytree whose values, maps and certificates are compiled once."""
    return pytree_dataclass(compiled(cls))


def compiled(cls: Class) -> Class:
    """Compile the methods of a class that are a penalty's; their step and mu are at least 0."""
    for name in {"value", "prox", "smoothed_prox", "optimality"} & vars(cls).keys():
        method = vars(cls)[name]
        method.__annotations__ |= dict.fromkeys(
            {"step", "mu"} & signature(method).parameters.keys(), OwnSize
        )
        setattr(cls, name, kernel(method))
    return cls


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


def interval_distance(
    x: jax.Array, gradient: jax.Array, slope: jax.Array, slope_at_zero: jax.Array
) -> jax.Array:
    """Return the distance of -gradient from a subdifferential, entry by entry.

    It is {slope} where x is not 0, and [-slope_at_zero, slope_at_zero] where it is.
    """
    at_zero = jnp.maximum(jnp.abs(gradient) - slope_at_zero, 0)
    return jnp.where(x == 0, at_zero, jnp.abs(gradient + slope))


@compiled
class WithoutKink:
    """A penalty without a modulus to smooth, such as a square or an indicator."""

    def smoothed_prox(self: Any, v: jax.Array, step: ArrayLike, mu: ArrayLike) -> jax.Array:
        """Return the prox."""
        return self.prox(v, step)


@compiled
class CertifiedByStep:
    """A convex penalty of rows whose certificate is the length of the proximal-gradient step."""

    def optimality(self: Any, x: jax.Array, gradient: jax.Array) -> jax.Array:
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return safe_norm(x - self.prox(x - gradient, 1.0))


def above(least: float, *, one: bool = False) -> Any:
    """Declare a number above another; a single one, or one that broadcasts against the model."""
    return declared(partial(scalar if one else number, above=least))


def not_negative(*, one: bool = False) -> Any:
    """Declare a number of at least 0; a single one, or one that broadcasts against the model."""
    return declared(partial(scalar if one else number, at_least=0))
