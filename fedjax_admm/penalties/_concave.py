"""Penalties of every entry by itself that large entries do not feel: none is convex."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import build
from fedjax_admm.penalties._protocols import above, interval_distance, not_negative, penalty


@penalty
class MCP:
    """The minimax concave penalty; see `mcp`."""

    lam: jax.Array = above(0)
    gamma: jax.Array = above(0)
    weight: jax.Array = not_negative()

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
        return interval_distance(
            x, gradient, self.weight * slope * jnp.sign(x), self.weight * self.lam
        )


@penalty
class SCAD:
    """The smoothly clipped absolute deviation; see `scad`."""

    lam: jax.Array = above(0)
    gamma: jax.Array = above(2)
    weight: jax.Array = not_negative()

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
        return interval_distance(
            x, gradient, self.weight * slope * jnp.sign(x), self.weight * self.lam
        )


@penalty
class L0:
    """The number of entries that are not zero; see `l0`."""

    weight: jax.Array = not_negative()  # broadcasts against x

    def value(self, x):
        """Return `weight * sum [x_i != 0]`."""
        return jnp.sum(kernels.l0_value(x, self.weight))

    def prox(self, v, step):
        """Return the hard threshold of `v` at `sqrt(2 step weight)`."""
        return kernels.prox_l0(v, step, self.weight)

    def optimality(self, x, gradient):
        """Return |gradient|, or 0 where x is 0: every number is a subgradient at the jump."""
        steep = jnp.where(self.weight > 0, jnp.inf, 0.0).astype(x.dtype)
        return interval_distance(x, gradient, jnp.zeros_like(x), steep)


@penalty
class LogSum:
    """The log-sum penalty; see `log_sum`."""

    weight: jax.Array = not_negative()
    epsilon: jax.Array = above(0)

    def value(self, x):
        """Return `weight * sum log(1 + |x_i| / epsilon)`."""
        return jnp.sum(kernels.log_sum_value(x, self.weight, self.epsilon))

    def prox(self, v, step):
        """Return a global minimiser, a jump included (`step * weight > epsilon^2`)."""
        return kernels.prox_log_sum(v, step, self.weight, self.epsilon)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the (Clarke) subdifferential."""
        slope = self.weight / (self.epsilon + jnp.abs(x))
        return interval_distance(x, gradient, slope * jnp.sign(x), slope)


@penalty
class CappedL1:
    """The capped l1 norm; see `capped_l1`."""

    weight: jax.Array = not_negative()
    theta: jax.Array = above(0)

    def value(self, x):
        """Return `weight * sum min(|x_i|, theta)`."""
        return jnp.sum(kernels.capped_l1_value(x, self.weight, self.theta))

    def prox(self, v, step):
        """Return a global minimiser: the soft threshold, or `v` if that is cheaper."""
        return kernels.prox_capped_l1(v, step, self.weight, self.theta)

    def smoothed_prox(self, v, step, mu):
        """Return a global minimiser for `weight * min(h_mu, theta)`.

        The smaller of two functions is least where one of them is: at the prox of `weight * h_mu`,
        or at `v` itself, whose objective is `weight * theta`.
        """
        small = kernels.prox_smoothed_abs(v, step, self.weight, mu)
        away = (v - small) / step
        cost = self.weight * kernels.smoothed_abs(small, mu) + away * (v - small) / 2
        return jnp.where(cost <= self.weight * self.theta, small, v)

    def optimality(self, x, gradient):
        """Return the distance of -gradient from the (Clarke) subdifferential."""
        # At the cap -gradient may lie anywhere between the slopes of both sides.
        inside = jnp.where(jnp.abs(x) < self.theta, self.weight, 0)
        outside = jnp.where(jnp.abs(x) <= self.theta, self.weight, 0)
        slope = jnp.clip(-gradient * jnp.sign(x), inside, outside)
        return interval_distance(x, gradient, slope * jnp.sign(x), inside)


def mcp(lam: ArrayLike, gamma: ArrayLike, weight: ArrayLike = 1.0) -> MCP:
    """Minimax concave penalty, `weight * sum P(x_i)` (Zhang, 2010).

    `P(t) = lam |t| - t^2 / (2 gamma)` for `|t| <= gamma lam`, and `gamma lam^2 / 2` above.
    """
    return build(MCP, **locals())


def scad(lam: ArrayLike, gamma: ArrayLike = 3.7, weight: ArrayLike = 1.0) -> SCAD:
    """Smoothly clipped absolute deviation, `weight * sum P(x_i)` (Fan and Li, 2001).

    `P'(t) = lam` for `0 < t <= lam`, `(gamma lam - t)_+ / (gamma - 1)` above; gamma is above 2.
    """
    return build(SCAD, **locals())


def l0(weight: ArrayLike) -> L0:
    """Number of entries that are not zero, times the weight (a number, or one per entry).

    It jumps at zero, so that it has no smoothing.
    """
    return build(L0, **locals())


def log_sum(weight: ArrayLike, epsilon: ArrayLike) -> LogSum:
    """Log-sum penalty, `weight * sum log(1 + |x_i| / epsilon)` (Candes, Wakin and Boyd, 2008)."""
    return build(LogSum, **locals())


def capped_l1(weight: ArrayLike, theta: ArrayLike) -> CappedL1:
    """Capped l1 norm, `weight * sum min(|x_i|, theta)` (Zhang, 2010)."""
    return build(CappedL1, **locals())
