"""Smoothings of the losses of a user's own problem, for solvers that need smooth gradients.

An object in the field `smoothing` of a problem: `gradients(problem, points, mu)` returns the
gradients of the smoothed losses, (clients, dim), for mu of shape (clients,).
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp

from fedjax_admm._checks import build, counted, refuse
from fedjax_admm._pytrees import pytree_dataclass


class Smoothing(Protocol):
    """A way to smooth losses."""

    def gradients(self, problem: Any, points: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the gradients of the losses smoothed with mu (clients,), shape (clients, dim)."""
        ...


@pytree_dataclass
class NoSmoothing:
    """The losses as they are: for smooth ones."""

    def gradients(self, problem, points, mu):
        """Return the gradients."""
        return problem.gradients(points)


@pytree_dataclass
class OwnSmoothing:
    """A smoothed loss of one sample that the user knows."""

    loss: Callable[[Any, Any, jax.Array], jax.Array] = field(metadata={"static": True})

    def gradients(self, problem, points, mu):
        """Return the gradients of the user's function at mu."""
        return problem.gradients_of(self.loss, points, mu)


@pytree_dataclass
class RandomizedSmoothing:
    """`f_mu(w) = mean_j f(w + mu u_j)` over standard normal u_j, the same in all rounds."""

    draws: int = counted()  # pairs u, -u
    seed: int = counted(at_least=0)

    def gradients(self, problem, points, mu):
        """Return the mean of the gradients around the points."""
        keys = jax.random.split(jax.random.key(self.seed), self.draws)

        def add(total, key):
            normal = jax.random.normal(key, points.shape[-1:], points.dtype)
            aside = mu[:, None] * normal[None]
            both = problem.gradients(points + aside) + problem.gradients(points - aside)
            return total + both, None

        total = jax.lax.scan(add, jnp.zeros_like(points), keys)[0]
        return total / (2 * self.draws)


@pytree_dataclass
class MoreauSmoothing:
    """The Moreau envelope: its gradient is `(w - Prox_f(w; mu)) / mu`."""

    def gradients(self, problem, points, mu):
        """Return the gradients of the envelopes, by the problem's prox begun at the points."""
        return (points - problem.lone_prox(points, mu)) / mu[:, None]


def randomized_smoothing(draws: int = 16, *, seed: int = 0) -> RandomizedSmoothing:
    """Build the smoothing that averages the gradient over random points nearby.

    Args:
      draws: pairs of points w + mu u, w - mu u; the u are standard normal.
      seed: of the draws, which are the same in all rounds and for all clients.

    Reference: J. C. Duchi, P. L. Bartlett, M. J. Wainwright, "Randomized smoothing for stochastic
    optimization", SIAM Journal on Optimization 22(2), 2012.
    """
    return build(RandomizedSmoothing, **locals())


def moreau_smoothing() -> MoreauSmoothing:
    """Build the smoothing by Moreau envelopes, which asks the problem for its prox."""
    return MoreauSmoothing()


def as_smoothing(smoothing: Any) -> Smoothing:
    """Return a smoothing: none for None, the user's for a function (params, sample, mu)."""
    if smoothing is None:
        return NoSmoothing()
    if hasattr(smoothing, "gradients") and not isinstance(smoothing, type):
        return smoothing
    refuse(
        not callable(smoothing),
        "smoothing",
        "must be a function (params, sample, mu), randomized_smoothing() or moreau_smoothing()",
        smoothing,
    )
    return OwnSmoothing(cast(Callable[[Any, Any, jax.Array], jax.Array], smoothing))
