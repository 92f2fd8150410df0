r"""Penalty parameters that adapt themselves: balance of relative residuals, and spectral.

An object in a solver's field `rho`. After a round it sees of every client the model w_i, the dual
y_i (minus the gradient of the loss at w_i, where the client's problem is solved exactly), the
server's model z and the penalty parameters rho_i, and may choose other ones; duals are not scaled.
With m = sum rho_i w_i / sum rho_i the duals that the server agrees with are

    zeta_i = -y_i + rho_i (z - m),    -sum_i zeta_i lies in N dg(z),

so that w_i = m and rho_i (z - m) = 0 for all i say that z is stationary. Without a regulariser, and
with one rho for all, m and zeta are the server's model and the duals of the textbook's consensus
ADMM, in which the server's step stands between the clients' step and the duals'. It takes the same
course: the rules below then choose what they choose there.

An adaptive ADMM is proven to converge only if the penalty settles; `until` ends the adaptation.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, count, counted, declared, flagged, optional, positive, ranged
from fedjax_admm.solvers import _roles as roles


class Agreement(NamedTuple):
    """What an adaptive penalty sees after a round."""

    models: jax.Array  # shape=(clients, dim): w_i
    duals: jax.Array  # shape=(clients, dim): y_i
    server: jax.Array  # shape=(dim,): z, with the penalty parameters below
    rho: jax.Array  # shape=(clients,)
    active: jax.Array  # shape=(clients,), bool: who took part
    regularized: bool  # whether the server has a regulariser


class AdaptivePenalty(Protocol):
    """What chooses penalty parameters from what has been seen."""

    initial: jax.Array | None  # shape () or (clients,); from the losses' curvature if None

    def memory(self, seen: Agreement) -> Any:
        """Return what it remembers before the first round."""
        ...

    def update(self, seen: Agreement, memory: Any) -> tuple[jax.Array, Any]:
        """Return the next penalty parameters, shape (clients,), and the memory."""
        ...


class SpectralMemory(NamedTuple):
    """What was seen at the last attempt, stacked over clients."""

    counts: jax.Array  # shape=(clients,), int32: rounds, or rounds in which the client took part
    models: jax.Array  # shape=(clients, dim): w_i
    slopes: jax.Array  # shape=(clients, dim): -y_i
    servers: jax.Array  # shape=(clients, dim): -z
    agreed: jax.Array  # shape=(clients, dim): zeta_i


@roles.pytree_dataclass
class BalancedPenalty:
    """Balance of relative residuals; build it with `balanced_penalty`."""

    initial: jax.Array = positive(  # shape=() or (clients,)
        stacked=True, curvature=lambda largest: largest
    )
    ratio: jax.Array = ranged(at_least=1)  # shape=(): how unequal residuals may be, mu
    factor: jax.Array = ranged(above=1)  # shape=(): by which rho is multiplied or divided, tau
    target: jax.Array = positive()  # shape=(): of the primal residual over the dual one, xi
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
        up = turn & (primal > self.target * self.ratio * dual)
        down = turn & (dual > self.ratio / self.target * primal)
        rho = seen.rho
        return jnp.where(up, rho * self.factor, jnp.where(down, rho / self.factor, rho)), rounds


@roles.pytree_dataclass
class SpectralPenalty:
    """Spectral penalty parameters; build it with `spectral_penalty`."""

    initial: jax.Array = positive(  # shape=() or (clients,)
        stacked=True, curvature=lambda largest: largest
    )
    # shape=(): estimates from less correlated differences do not count
    correlation: jax.Array = ranged(at_least=0, at_most=1)
    # shape=(): rho changes by a factor of at most 1 + bound / count^2
    bound: jax.Array = ranged(at_least=0)
    period: int = counted()
    node_wise: bool = flagged()
    until: int | None = declared(optional(count, at_least=0), static=True)

    def memory(self, seen: Agreement) -> SpectralMemory:
        """Return an empty store."""
        nothing = jnp.zeros_like(seen.models)
        counts = jnp.zeros(seen.rho.shape, jnp.int32)
        return SpectralMemory(counts, nothing, nothing, nothing, nothing)

    def update(self, seen: Agreement, memory: SpectralMemory) -> tuple[jax.Array, SpectralMemory]:
        """Return the penalty parameters after an attempt, and the store."""
        moved = seen.active
        if not self.node_wise:
            moved = jnp.broadcast_to(jnp.any(moved), moved.shape)
        counts = memory.counts + moved.astype(jnp.int32)
        turn = moved & ((counts == 1) | (counts % self.period == 0))
        _, agreed = _agreed(seen)
        servers = jnp.broadcast_to(-seen.server, seen.models.shape)
        new = SpectralMemory(counts, seen.models, -seen.duals, servers, agreed)

        rho = seen.rho
        clients, sure = self._estimate(new.models, new.slopes, memory.models, memory.slopes)
        estimate = jnp.where(sure, clients, rho)
        if seen.regularized:
            server, known = self._estimate(new.servers, new.agreed, memory.servers, memory.agreed)
            both = sure & known
            middle = jnp.sqrt(jnp.where(both, clients * server, 1))
            estimate = jnp.where(both, middle, jnp.where(known & ~sure, server, estimate))
        change = 1 + self.bound / jnp.maximum(counts, 1).astype(rho.dtype) ** 2
        estimate = jnp.clip(estimate, rho / change, rho * change)
        adapting = turn & (counts > 1) & _adapting(counts, self.until)
        stored = jax.tree.map(
            lambda now, old: jnp.where(turn[:, None], now, old), new[1:], memory[1:]
        )
        return jnp.where(adapting, estimate, rho), SpectralMemory(counts, *stored)

    def _estimate(self, u, slope, old_u, old_slope) -> tuple[jax.Array, jax.Array]:
        """Return curvatures along the way since the store, (clients,), and which ones count."""

        def inner(x, y):
            products = jnp.sum(x * y, -1)
            return products if self.node_wise else jnp.broadcast_to(jnp.sum(products), here)

        def length(x):  # of decisions only: its derivative at 0 is infinite
            return jnp.sqrt(jax.lax.stop_gradient(inner(x, x)))

        here = u.shape[:1]
        du, dslope = u - old_u, slope - old_slope
        across, along, bend = inner(du, dslope), inner(du, du), inner(dslope, dslope)
        noise = 1e-8 if u.dtype == jnp.float64 else 1e-4
        sure = (
            (across > self.correlation * length(du) * length(dslope))
            & (length(du) > noise * length(u))
            & (length(dslope) > noise * length(slope))
        )
        steepest = bend / jnp.where(sure, across, 1)
        least = across / jnp.where(sure, along, 1)
        return jnp.where(2 * least > steepest, least, steepest - least / 2), sure


def balanced_penalty(
    initial: ArrayLike | None = None,
    *,
    period: int = 2,
    ratio: ArrayLike = 10.0,
    factor: ArrayLike = 2.0,
    target: ArrayLike = 1.0,
    until: int | None = None,
) -> BalancedPenalty:
    r"""Build `BalancedPenalty`: every so many rounds rho is made larger or smaller for all.

    With the residuals, stacked over clients and relative to what they compare,

        r = ||(w_i - m)|| / max(||(w_i)||, sqrt(N) ||m||),   d = ||(rho_i (z - m))|| / ||(zeta_i)||

    rho is multiplied by `factor` if r > target ratio d, and divided by it if d > (ratio / target)
    r. Losses, regulariser and initial rho multiplied by one number leave all decisions as they are,
    which those from residuals that are not relative would not survive.

    Args:
      initial: the first rho, a number or one per client (clients,); about the largest curvature of
        the losses if None.
      period: rounds between attempts; rounds in which nobody takes part do not count.
      ratio: mu; how unequal the residuals may be, at least 1.
      factor: tau, above 1.
      target: xi; of r / d.
      until: the last of such rounds in which rho may change; every round if None.

    Reference: B. Wohlberg, "ADMM Penalty Parameter Selection by Residual Balancing",
    arXiv:1704.06209 (2017).
    """
    return build(BalancedPenalty, **locals())


def spectral_penalty(
    initial: ArrayLike | None = None,
    *,
    period: int = 2,
    correlation: ArrayLike = 0.2,
    node_wise: bool = False,
    bound: ArrayLike = 1e10,
    until: int | None = None,
) -> SpectralPenalty:
    r"""Build `SpectralPenalty`: rho follows the curvature along the way, as Barzilai and Borwein's.

    At the first round and then at multiples of `period` the pairs (w, -y) of the clients and
    (-z, zeta) of the server are compared with those of the attempt before. For differences du and
    dv of a pair, with steepest descent's ||dv||^2 / du.dv and minimum gradient's du.dv / ||du||^2,

        alpha = MG if 2 MG > SD, else SD - MG / 2,    trusted if du.dv > correlation ||du|| ||dv||.

    The next rho is sqrt(alpha beta) of clients and server where both are trusted, the trusted one
    of the two, or the old rho. What changed by less than 1e-8 (1e-4 in single precision) of its
    size is noise of rounding and not trusted. Without a regulariser the server has no curvature,
    and its pair is left out: from one client's part of it chance would be learnt.

    With one rho for all, products are summed over all clients; absent ones count with what they
    hold. With `node_wise` every client has its own, changed only in rounds in which it takes part,
    by its own count of these.

    Args:
      initial: the first rho, a number or one per client (clients,); about the largest curvature of
        the losses if None.
      period: rounds between attempts.
      correlation: between 0 and 1.
      node_wise: whether every client has its own rho.
      bound: rho changes by a factor of at most 1 + bound / count^2, so that it settles.
      until: the last round in which rho may change; every round if None.

    Reference: Z. Xu, M. Figueiredo, T. Goldstein, "Adaptive ADMM with Spectral Penalty Parameter
    Selection", arXiv:1605.07246 (2017); node-wise: Z. Xu, G. Taylor, H. Li, M. Figueiredo, X. Yuan,
    T. Goldstein, "Adaptive Consensus ADMM for Distributed Optimization", arXiv:1706.02869 (2017).
    """
    return build(SpectralPenalty, **locals())


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
