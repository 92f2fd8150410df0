"""Penalties of whole rows: norms that sort, and sets that bind all entries of a row together.

The rows are those along the last axis. The subdifferentials have no short closed form for every
point; all are convex, so the length of the proximal-gradient step at step 1 is their certificate.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import InputError, finite_array, is_concrete, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.penalties._protocols import proximal_residual

# A projection may leave its set by rounding: so many units in the last place are forgiven.
_FORGIVEN = 64


@pytree_dataclass
class Slope:
    """`sum_rows sum_k weights_k |x|_(k)`, where `|x|_(1) >= |x|_(2) >= ...` are sorted moduli."""

    weights: jax.Array  # shape=(dim,), not increasing, at least 0

    def value(self, x):
        """Return the sorted l1 norm of all rows together."""
        return jnp.sum(kernels.slope_value(x, self._weights(x)))

    def prox(self, v, step):
        """Return each row's minimiser; entries that come close become equal."""
        return kernels.prox_slope(v, step, self._weights(v))

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)

    def _weights(self, x):
        return jnp.broadcast_to(self.weights, x.shape)


@pytree_dataclass
class Linf:
    """`weight * sum of the largest moduli along the last axis`."""

    weight: jax.Array  # shape=()

    def value(self, x):
        """Return `weight * sum_rows max_i |x_i|`."""
        return jnp.sum(kernels.linf_value(x, self.weight))

    def prox(self, v, step):
        """Return each row with its largest entries cut down to one level."""
        return kernels.prox_linf(v, step, self.weight)

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)


@pytree_dataclass
class Simplex:
    """Zero where every row is nonnegative and sums to the mass, infinite elsewhere."""

    mass: jax.Array  # shape=()

    def value(self, x):
        """Return 0 on the simplex (to rounding), infinity elsewhere."""
        off = jnp.abs(jnp.sum(x, -1) - self.mass)
        return _indicator(jnp.all(x >= 0) & jnp.all(off <= _rounding(x) * self.mass), x)

    def prox(self, v, step):
        """Return the projection of every row."""
        return kernels.project_simplex(v, self.mass)

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)


@pytree_dataclass
class L1Ball:
    """Zero where `sum_i |x_i| <= radius` in every row, infinite elsewhere."""

    radius: jax.Array  # shape=()

    def value(self, x):
        """Return 0 in the ball (to rounding), infinity outside."""
        return _indicator(jnp.all(jnp.sum(jnp.abs(x), -1) <= _reach(self.radius, x)), x)

    def prox(self, v, step):
        """Return the projection of every row."""
        return kernels.project_l1_ball(v, self.radius)

    def smoothed_prox(self, v, step, mu):
        """Return the projection: an indicator is kept exact."""
        return self.prox(v, step)

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)


@pytree_dataclass
class L2Ball:
    """Zero where `||x|| <= radius` in every row, infinite elsewhere."""

    radius: jax.Array  # shape=()

    def value(self, x):
        """Return 0 in the ball (to rounding), infinity outside."""
        return _indicator(jnp.all(kernels.safe_norm(x) <= _reach(self.radius, x)), x)

    def prox(self, v, step):
        """Return the projection of every row."""
        return kernels.project_l2_ball(v, self.radius)

    def smoothed_prox(self, v, step, mu):
        """Return the projection: an indicator is kept exact."""
        return self.prox(v, step)

    def optimality(self, x, gradient):
        """Return `||x - prox(x - gradient; 1)||` of every row: zero exactly where stationary."""
        return proximal_residual(self, x, gradient)


def slope(weights: ArrayLike) -> Slope:
    """Build `Slope`.

    Args:
      weights: of the sorted moduli, the largest modulus first, shape (dim,).

    Returns:
      The penalty; its weights are leaves.

    Raises:
      InputError: a weight is negative or not finite, or they increase.
    """
    array = finite_array("weights", weights, (None,))
    if is_concrete(weights):
        seen = np.asarray(array)
        if np.any(seen < 0) or np.any(np.diff(seen) > 0):
            raise InputError(
                "must be at least 0 and must not increase, but one of them does",
                argument="weights",
                value=weights,
                remedy="sort them, the largest first",
            )
    return Slope(array)


def linf(weight: ArrayLike) -> Linf:
    """Build `Linf`; the weight must not be negative."""
    return Linf(scalar("weight", weight, at_least=0))


def simplex(mass: ArrayLike = 1.0) -> Simplex:
    """Build `Simplex`; the mass must be positive."""
    return Simplex(scalar("mass", mass, above=0))


def l1_ball(radius: ArrayLike) -> L1Ball:
    """Build `L1Ball`; the radius must not be negative."""
    return L1Ball(scalar("radius", radius, at_least=0))


def l2_ball(radius: ArrayLike) -> L2Ball:
    """Build `L2Ball`; the radius must not be negative."""
    return L2Ball(scalar("radius", radius, at_least=0))


def _indicator(inside: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.where(inside, jnp.zeros((), x.dtype), jnp.inf)


def _reach(radius: jax.Array, x: jax.Array) -> jax.Array:
    return radius * (1 + _rounding(x))


def _rounding(x: jax.Array) -> float:
    return _FORGIVEN * float(jnp.finfo(x.dtype).eps)
