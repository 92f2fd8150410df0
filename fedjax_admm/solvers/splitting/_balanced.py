"""A penalty parameter that adapts itself by the balance of relative residuals.

An object in FedADMM's field `rho`. After a round it sees of every client the model w_i, the dual
y_i (minus the gradient of the loss at w_i, where the client's problem is solved exactly), the
server's model z and the penalty parameters rho_i, and may choose other ones; duals are not scaled.
w_i and y_i go up apart, z and rho_i go down.
With m = sum rho_i w_i / sum rho_i the duals that the server agrees with are

    zeta_i = -y_i + rho_i (z - m),    -sum_i zeta_i lies in N dg(z),

so that w_i = m and rho_i (z - m) = 0 for all i say that z is stationary. Without a regulariser, and
with one rho for all, m and zeta are the server's model and the duals of the textbook's consensus
ADMM, in which the server's step stands between the clients' step and the duals'. It takes the same
course: the rule below then chooses what it chooses there.

An adaptive ADMM is proven to converge only if the penalty settles; `until` ends the adaptation.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, count, counted, declared, optional, positive, ranged
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers.splitting._penalty_rules import PenaltyRule


class Balance(NamedTuple):
    """What the server remembers."""

    rho: jax.Array  # shape=(clients,)
    rounds: jax.Array  # shape=(), int32: in which somebody took part


@roles.pytree_dataclass
class BalancedPenalty(PenaltyRule):
    """Balance of relative residuals; build it with `balanced_penalty`."""

    initial: jax.Array = positive(  # shape=() or (clients,)
        stacked=True, curvature=lambda largest: largest
    )
    ratio: jax.Array = ranged(at_least=1)  # shape=(): how unequal residuals may be, mu
    factor: jax.Array = ranged(above=1)  # shape=(): by which rho is multiplied or divided, tau
    period: int = counted()
    until: int | None = declared(optional(count, at_least=0), static=True)

    fixed: ClassVar[bool] = True
    looks_at_each: ClassVar[bool] = True

    def first(self):
        """Return rho before the first round."""
        return self.initial

    def start(self, model, num_clients):
        """Start at the initial rho."""
        rho = jnp.broadcast_to(self.initial, (num_clients,)).astype(model.dtype)
        return Balance(rho, jnp.zeros((), jnp.int32))

    def send(self, memory: Balance):
        """Send every client its rho_i."""
        return roles.PerClient(memory.rho)

    def read(self, sent, rho, local):
        """Return the rho_i that was read; dual variables stay."""
        return sent, local, None

    def update(self, memory: Balance, received, active, regularizer) -> Balance:
        """Return rho multiplied or divided by the factor, or as it is."""
        centre, step = self.mean(memory, received)
        models, duals, _ = received.known
        primal, dual = _residuals(models, duals, regularizer.prox(centre, step), memory.rho)
        rounds = memory.rounds + jnp.any(active).astype(jnp.int32)
        turn = (rounds > memory.rounds) & (rounds % self.period == 0)
        if self.until is not None:
            turn &= rounds <= self.until
        primal, dual = jax.lax.stop_gradient((primal, dual))
        up = turn & (primal > self.ratio * dual)
        down = turn & (dual > self.ratio * primal)
        rho = memory.rho
        rho = jnp.where(up, rho * self.factor, jnp.where(down, rho / self.factor, rho))
        return Balance(rho, rounds)

    def mean(self, memory: Balance, received):
        """Return the mean with these rho_i."""
        (models, duals, _), rho = received.known, memory.rho
        return jnp.sum(rho[:, None] * models + duals, 0) / jnp.sum(rho), 1 / jnp.mean(rho)


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


def _residuals(models, duals, server, rho) -> tuple[jax.Array, jax.Array]:
    """Return the relative residuals, primal and dual, shapes ()."""
    mean = jnp.sum(rho[:, None] * models, 0) / jnp.sum(rho)
    agreed = rho[:, None] * (server - mean)[None, :] - duals  # zeta_i
    tiny = jnp.finfo(mean.dtype).tiny

    def length(x: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(x * x))

    apart = length(models - mean[None, :])
    late = length(rho) * length(server - mean)
    means = jnp.sqrt(jnp.asarray(models.shape[0], mean.dtype)) * length(mean)
    size = jnp.maximum(length(models), means)
    return apart / jnp.maximum(size, tiny), late / jnp.maximum(length(agreed), tiny)
