r"""A penalty parameter that follows the curvature that clients meet along their way.

The largest curvature L at the start is a poor guide: it is that of the client with the most
curvature, at a point that is soon left. A penalty parameter as large as L ties the clients' models
to the server's, and the server, which averages the last uploads of all, moves by |S| / N of what
those present move. So clients measure l_i along their K local steps (`_probing`). In its round
m = 1, 2, ... a client sends l_i growth(m) beside its upload, with

    growth(m) = min(max((m / 50)^2 / share, 1), K / share).

Description. The server keeps a mean of what is sent, over rounds k = 1, 2, ... in which it hears
somebody, sends it with the model, and all clients that read it use rho:

    l <- l + (mean of l_i growth(m) - l) / sqrt(k),        l = L before the first round,
    rho = share l / K,

so that rho times the length of all steps of a round is at first about the share: the quadratic term
bends the local path by that much. In the end it is about K, and rho is the curvature itself: long
runs converge where losses are not convex, and errors of compressed messages shrink. Where rho
falls, y_i / rho, by which a client's dual variable moves the server's model, grows by at most
max(1, m / 10). Else the duals of a steep start would throw the model out of a flat valley (FedADMM
and FedDR; y_i falls instead). At a steep start L may be thousands of times as large as l a few
rounds later. So a client's first upload has the rho of its own l_i where this is less (FedDyn and
FedDR), and y_i is as much smaller. In FedADMM's mean c_0, of weights of the sum W, the n clients
that have never taken part stand for the first model z^0 with the rho_0 of the start, and would hold
z until the last of them comes. They count with the rho of now:

    c = z^0 + (c_0 - z^0) W / (W - n max(rho_0 - rho, 0)).

Guarantee. rho is a mean of curvatures that were met along accepted steps, each of which was at most
ten times the assumed one, where steps are measured on all samples and K > 1. That the objective at
the server's model falls is not guaranteed: with few clients it may stand above its start in the
first rounds.

A message down holds l besides, and one up l_i, and rho where it is the upload's weight.

Why steps are long: where N / |S| rounds are one unit of time t, and T is the length of a round's
local steps, FedADMM's model follows z'' + rho T z' + T grad f(z) = 0 to first order, since the
duals add up what clients move. A run of few such units is won by a large T and a small rho T.

Reference: Y. Malitsky, K. Mishchenko, "Adaptive Gradient Descent without Descent", arXiv:1910.09529
(2020), for a limit of growth.
"""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import build, declared, positive, refuse, scalar
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._local import FallingGradient
from fedjax_admm.solvers.splitting._penalty_rules import PenaltyRule
from fedjax_admm.solvers.splitting._probing import Probes, ProbingGradient


def _share(name: str, value: Any) -> float:
    scalar(name, value, above=0)
    return float(value)


class Curvature(NamedTuple):
    """What the server remembers."""

    curvature: jax.Array  # shape=(clients,): l, the same for all
    rounds: jax.Array  # shape=(), int32: k
    start: jax.Array  # shape=(dim,): the first model
    silent: jax.Array  # shape=(clients,), bool: who has never taken part


@roles.pytree_dataclass
class EstimatedCurvature(PenaltyRule):
    """Penalty parameters that follow the curvature; build it with `estimated_curvature`."""

    curvature: jax.Array = positive(curvature=lambda largest: largest)  # shape=(): L
    share: float = declared(_share, static=True)
    steps: int = field(default=5, metadata={"static": True})  # K; the solver's builder sets it

    def first(self):
        """Return rho before the first round; None before the curvature is known."""
        return None if self.curvature is None else self.of(self.curvature)

    def start(self, model, num_clients) -> Curvature:
        """Start with the curvature that was estimated at the first model."""
        first = jnp.broadcast_to(self.curvature, (num_clients,)).astype(model.dtype)
        return Curvature(first, jnp.zeros((), jnp.int32), model, jnp.ones(num_clients, bool))

    def send(self, memory: Curvature):
        """Send l."""
        return roles.PerClient(memory.curvature)

    def read(self, sent, rho, local: Probes):
        """Return the rho of the l that was read, and by how much y_i / rho_i may grow."""
        stretch = jnp.maximum(1, local.calls.astype(local.met.dtype) / 10)
        return self.of(sent), local._replace(shared=sent / self._growth(local)), stretch

    def measure(self, local: Probes) -> roles.RoundMessage:
        """Return l_i growth(m)."""
        return roles.RoundMessage(beside=local.met * self._growth(local))

    def update(self, memory: Curvature, received, active, regularizer) -> Curvature:
        """Return l with the mean of what was met."""
        rounds = memory.rounds + 1
        assert received.beside is not None
        change = (received.beside - memory.curvature) / jnp.sqrt(
            rounds.astype(memory.curvature.dtype)
        )
        silent = memory.silent & ~active
        return Curvature(memory.curvature + change, rounds, memory.start, silent)

    def mean(self, memory: Curvature, received):
        """Return c, in which the clients that have never taken part have the rho of now."""
        before, now = self.of(self.curvature), self.of(memory.curvature[0])
        heavier = jnp.maximum(before - now, 0)
        weight = received.weight - jnp.sum(memory.silent, dtype=heavier.dtype) * heavier
        c = received.means[0]
        moved = memory.start + (c - memory.start) * (received.weight / weight)
        return jnp.where(weight < received.weight, moved, c), received.num_clients / weight

    def of(self, curvature: jax.Array) -> jax.Array:
        """Return rho, of the shape of the curvature l."""
        return self.share * curvature / self.steps

    def of_upload(self, rho: jax.Array, before: Probes, after: Probes) -> jax.Array:
        """Return rho_i of an upload: in a client's first one, its own l_i allows no more.

        Args:
          rho: of the visit, shape (clients,).
          before: the memory before the visit.
          after: the memory after it.
        """
        return jnp.where(before.calls == 0, jnp.minimum(rho, self.of(after.met)), rho)

    def of_round(self, before: Curvature, after: Curvature) -> jax.Array:
        """Return the rho that FedDyn's server uses, shape (); in the first round the new one."""
        return self.of(jnp.where(before.rounds == 0, after.curvature, before.curvature)[0])

    def _growth(self, local: Probes) -> jax.Array:
        """Return by how much what is said exceeds what was met, shape (clients,)."""
        share = (local.calls.astype(local.met.dtype) / 50) ** 2
        return jnp.clip(share, self.share, self.steps) / self.share


def estimated_curvature(share: float = 1.0) -> EstimatedCurvature:
    """Build `EstimatedCurvature`, the default of FedADMM, FedDR and FedDyn.

    It also sets the length of the local steps, which must be `local_gradient(steps=...)`.

    Args:
      share: rho times the length of all local steps of a round, about, at first; by default FedADMM
        takes 0.2, and FedDR and FedDyn 1.
    """
    return build(EstimatedCurvature, curvature=None, share=share)


def measured(
    name: str, rule: Any, local: Any, *, share: float, forgets: bool = False
) -> tuple[Any, Any]:
    """Return the rule and the local solver of a builder: by default those that measure.

    Args:
      name: of the builder's argument for the rule.
      rule: the argument; None for the default.
      local: how clients solve their problems; None, or `local_gradient(steps=...)`, leaves the
        steps' length open.
      share: of the default.
      forgets: of `ProbingGradient`.
    """
    steps = 5 if local is None else local.steps if isinstance(local, FallingGradient) else None
    if rule is None and steps is not None:
        rule = estimated_curvature(share)
    if not isinstance(rule, EstimatedCurvature):
        return rule, local
    refuse(
        steps is None,
        name,
        "measures the curvature along local steps, but {local} sets their length",
        remedy="leave {local} out, or give local_gradient(steps=...)",
    )
    probes = build(ProbingGradient, curvature=None, steps=steps, forgets=forgets)
    return replace(rule, steps=steps), probes
