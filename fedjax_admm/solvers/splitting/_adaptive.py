"""A penalty parameter that adapts itself by the balance of relative residuals.

An object in a solver's field `rho`. After a round it sees of every client the model w_i, the dual
y_i (minus the gradient of the loss at w_i, where the client's problem is solved exactly), the
server's model z and the penalty parameters rho_i, and may choose other ones; duals are not scaled.
With m = sum rho_i w_i / sum rho_i the duals that the server agrees with are

    zeta_i = -y_i + rho_i (z - m),    -sum_i zeta_i lies in N dg(z),

so that w_i = m and rho_i (z - m) = 0 for all i say that z is stationary. Without a regulariser, and
with one rho for all, m and zeta are the server's model and the duals of the textbook's consensus
ADMM, in which the server's step stands between the clients' step and the duals'. It takes the same
course: the rule below then chooses what it chooses there.

An adaptive ADMM is proven to converge only if the penalty settles; `until` ends the adaptation.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, count, counted, declared, optional, positive, ranged
from fedjax_admm.solvers import _roles as roles


class Agreement(NamedTuple):
    """What an adaptive penalty sees after a round."""

    models: jax.Array  # shape=(clients, dim): w_i
    duals: jax.Array  # shape=(clients, dim): y_i
    server: jax.Array  # shape=(dim,): z, with the penalty parameters below
    rho: jax.Array  # shape=(clients,)
    active: jax.Array  # shape=(clients,), bool: who took part


class AdaptivePenalty(Protocol):
    """What chooses penalty parameters from what has been seen."""

    initial: jax.Array | None  # shape () or (clients,); from the losses' curvature if None

    def memory(self, seen: Agreement) -> Any:
        """Return what it remembers before the first round."""
        ...

    def update(self, seen: Agreement, memory: Any) -> tuple[jax.Array, Any]:
        """Return the next penalty parameters, shape (clients,), and the memory."""
        ...


@roles.pytree_dataclass
class BalancedPenalty:
    """Balance of relative residuals; build it with `balanced_penalty`."""

    initial: jax.Array = positive(  # shape=() or (clients,)
        stacked=True, curvature=lambda largest: largest
    )
    ratio: jax.Array = ranged(at_least=1)  # shape=(): how unequal residuals may be, mu
    factor: jax.Array = ranged(above=1)  # shape=(): by which rho is multiplied or divided, tau
    period: int = counted()
    until: int | None = declared(optional(count, at_least=0), static=True)

    def memory(self, seen: Agreement) -> jax.Array:
        """Return the count of rounds in which somebody took part, shape (), int32."""
        return jnp.zeros((), jnp.int32)

    def update(self, seen: Agreement, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return rho multiplied or divided by the factor, or as it is, and the count."""
        rounds = memory + jnp.any(seen.active).astype(jnp.int32)
        turn = (rounds > memory) & (rounds % self.period == 0) & _adapting(rounds, self.until)
        primal, dual = (jax.lax.stop_gradient(residual) for residual in _residuals(seen))
        up = turn & (primal > self.ratio * dual)
        down = turn & (dual > self.ratio * primal)
        rho = seen.rho
        return jnp.where(up, rho * self.factor, jnp.where(down, rho / self.factor, rho)), rounds


def balanced_penalty(
    initial: ArrayLike | None = None,
    *,
    period: int = 2,
    ratio: ArrayLike = 10.0,
    factor: ArrayLike = 2.0,
    until: int | None = None,
) -> BalancedPenalty:
    r"""Build `BalancedPenalty`: every so many rounds rho is made larger or smaller for all.

    With the residuals, stacked over clients and relative to what they compare,

        r = ||(w_i - m)|| / max(||(w_i)||, sqrt(N) ||m||),   d = ||(rho_i (z - m))|| / ||(zeta_i)||

    rho is multiplied by `factor` if r > ratio d, and divided by it if d > ratio r. Losses,
    regulariser and initial rho multiplied by one number leave all decisions as they are, which
    those from residuals that are not relative would not survive.

    Args:
      initial: the first rho, a number or one per client (clients,); about the largest curvature of
        the losses if None.
      period: rounds between attempts; rounds in which nobody takes part do not count.
      ratio: mu; how unequal the residuals may be, at least 1.
      factor: tau, above 1.
      until: the last of such rounds in which rho may change; every round if None.

    Reference: B. Wohlberg, "ADMM Penalty Parameter Selection by Residual Balancing",
    arXiv:1704.06209 (2017).
    """
    return build(BalancedPenalty, **locals())


def _adapting(counts: jax.Array, until: int | None) -> jax.Array:
    """Return whether counts are not beyond the last round of adaptation."""
    return jnp.ones(counts.shape, bool) if until is None else counts <= until


def _agreed(seen: Agreement) -> tuple[jax.Array, jax.Array]:
    """Return m, shape (dim,), and the duals that the server agrees with, shape (clients, dim)."""
    rho = seen.rho[:, None]
    mean = jnp.sum(rho * seen.models, 0) / jnp.sum(seen.rho)
    return mean, rho * (seen.server - mean)[None, :] - seen.duals


def _residuals(seen: Agreement) -> tuple[jax.Array, jax.Array]:
    """Return the relative residuals, primal and dual, shapes ()."""
    mean, agreed = _agreed(seen)
    tiny = jnp.finfo(mean.dtype).tiny

    def length(x: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(x * x))

    apart = length(seen.models - mean[None, :])
    late = length(seen.rho) * length(seen.server - mean)
    means = jnp.sqrt(jnp.asarray(seen.models.shape[0], mean.dtype)) * length(mean)
    size = jnp.maximum(length(seen.models), means)
    return apart / jnp.maximum(size, tiny), late / jnp.maximum(length(agreed), tiny)
