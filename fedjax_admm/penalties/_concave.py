"""Penalties of every entry by itself that large entries do not feel: none is convex."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import number
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.penalties._protocols import interval_distance


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
        return interval_distance(
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
        return interval_distance(
            x, gradient, self.weight * slope * jnp.sign(x), self.weight * self.lam
        )


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
