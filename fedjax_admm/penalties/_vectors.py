"""Penalties of whole rows: norms that sort, and sets that bind all entries of a row together.

The rows are those along the last axis. All are convex; their subdifferentials have no short closed
form for every point.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import build, declared, finite_array, is_concrete, refuse
from fedjax_admm.penalties._protocols import (
    CertifiedByStep,
    WithoutKink,
    above,
    not_negative,
    penalty,
)

# A projection may leave its set by rounding: so many units in the last place are forgiven.
_FORGIVEN = 64


def _falling(name: str, value: Any) -> jax.Array:
    """Check the weights of sorted moduli, shape (dim,)."""
    weights = finite_array(name, value, (None,))
    if is_concrete(value):
        numbers = np.asarray(weights)
        wrong = np.any(numbers < 0) or np.any(np.diff(numbers) > 0)
        told = "must be at least 0 and must not increase, but one of them does"
        refuse(wrong, name, told, remedy="sort them, the largest first")
    return weights


@penalty
class Slope(CertifiedByStep):
    """The sorted l1 norm; see `slope`."""

    weights: jax.Array = declared(_falling)  # shape=(dim,)

    def value(self, x):
        """Return the sorted l1 norm of all rows together."""
        return jnp.sum(kernels.slope_value(x, self._weights(x)))

    def prox(self, v, step):
        """Return each row's minimiser; entries that come close become equal."""
        return kernels.prox_slope(v, step, self._weights(v))

    def _weights(self, x):
        return jnp.broadcast_to(self.weights, x.shape)


@penalty
class Linf(CertifiedByStep):
    """The largest moduli of rows; see `linf`."""

    weight: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return `weight * sum_rows max_i |x_i|`."""
        return jnp.sum(kernels.linf_value(x, self.weight))

    def prox(self, v, step):
        """Return each row with its largest entries cut down to one level."""
        return kernels.prox_linf(v, step, self.weight)


@penalty
class Simplex(CertifiedByStep):
    """The indicator of a simplex; see `simplex`."""

    mass: jax.Array = above(0, one=True)

    def value(self, x):
        """Return 0 on the simplex (to rounding), infinity elsewhere."""
        off = jnp.abs(jnp.sum(x, -1) - self.mass)
        return _indicator(jnp.all(x >= 0) & jnp.all(off <= _rounding(x) * self.mass), x)

    def prox(self, v, step):
        """Return the projection of every row."""
        return kernels.project_simplex(v, self.mass)


@penalty
class L1Ball(CertifiedByStep, WithoutKink):
    """The indicator of an l1 ball; see `l1_ball`."""

    radius: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return 0 in the ball (to rounding), infinity outside."""
        return _indicator(jnp.all(jnp.sum(jnp.abs(x), -1) <= _reach(self.radius, x)), x)

    def prox(self, v, step):
        """Return the projection of every row."""
        return kernels.project_l1_ball(v, self.radius)


@penalty
class L2Ball(CertifiedByStep, WithoutKink):
    """The indicator of a Euclidean ball; see `l2_ball`."""

    radius: jax.Array = not_negative(one=True)

    def value(self, x):
        """Return 0 in the ball (to rounding), infinity outside."""
        return _indicator(jnp.all(kernels.safe_norm(x) <= _reach(self.radius, x)), x)

    def prox(self, v, step):
        """Return the projection of every row."""
        return kernels.project_l2_ball(v, self.radius)


def slope(weights: ArrayLike) -> Slope:
    """Sorted l1 norm, `sum_rows sum_k weights_k |x|_(k)` with sorted moduli `|x|_(1) >= ...`.

    Args:
      weights: of the sorted moduli, the largest modulus first, shape (dim,); they do not increase.

    Returns:
      The penalty; its weights are leaves.
    """
    return build(Slope, **locals())


def linf(weight: ArrayLike) -> Linf:
    """Largest moduli of rows, `weight * sum_rows max_i |x_i|`."""
    return build(Linf, **locals())


def simplex(mass: ArrayLike = 1.0) -> Simplex:
    """Indicator of a simplex: zero where every row is nonnegative and sums to the mass."""
    return build(Simplex, **locals())


def l1_ball(radius: ArrayLike) -> L1Ball:
    """Indicator of an l1 ball: zero where `sum_i |x_i| <= radius` in every row."""
    return build(L1Ball, **locals())


def l2_ball(radius: ArrayLike) -> L2Ball:
    """Indicator of a Euclidean ball: zero where `||x|| <= radius` in every row."""
    return build(L2Ball, **locals())


def _indicator(inside: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.where(inside, jnp.zeros((), x.dtype), jnp.inf)


def _reach(radius: jax.Array, x: jax.Array) -> jax.Array:
    return radius * (1 + _rounding(x))


def _rounding(x: jax.Array) -> float:
    return _FORGIVEN * float(jnp.finfo(x.dtype).eps)
