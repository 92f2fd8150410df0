r"""Penalty parameters and local steps from the curvature that clients meet along their way.

The largest curvature L at the start is a poor guide: it is that of the client with the most
curvature, at a point that is soon left. A penalty parameter as large as L ties the clients' models
to the server's, and the server, which averages the last uploads of all, moves by |S| / N of what
those present move. So a client measures. With its first local step of a round, from w to w', of
length 1 / (L_i + rho) on a minibatch B (or on all of its samples), it meets the curvature

    l_i = ||grad f_B(w') - grad f_B(w)|| / ||w' - w||,

and goes on with steps of length 1 / (L_i + rho), now with L_i = max(l_i, l). It sends l_i beside
its upload. The server keeps a mean of what is sent, over rounds k = 1, 2, ... in which it hears
somebody,

    l <- l + (mean of l_i - l) / sqrt(k),        l = L before the first round,

and sends it with the model. All clients that read it use, with K local steps in a round,

    rho = share l / K,

so that rho times the length of all steps of a round is about the share: the quadratic term bends
the local path by that much. FedADMM's share grows from 0.2 to 1 with the rounds of a client. Steps
shorten as those of `FallingGradient` where they overshoot.

A message down holds l besides, and one up l_i, and rho where it is the upload's weight. The
estimate l_i counts if its differences are not noise of rounding; it is at least 1e-4 L, so that a
loss without curvature keeps a step.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import build, counted, positive
from fedjax_admm.capabilities import (
    Gradients,
    Minibatches,
    has,
    kept_states,
    slopes_and_states,
)
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._gradients import draws
from fedjax_admm.solvers._local import FallingGradient

_LEAST = 1e-4


@roles.short_repr
class Probes(NamedTuple):
    """What the clients remember of curvature, stacked."""

    met: jax.Array  # shape=(clients,): l_i
    shared: jax.Array  # shape=(clients,): l, as they read it last
    overshoots: jax.Array  # shape=(clients,), int32
    calls: jax.Array  # shape=(clients,), int32: n_i, how often they have worked
    kept: Any  # the states of the losses, `kept_states`


@roles.pytree_dataclass
class ProbingGradient:
    """Gradient steps whose length follows the curvature that the first of them meets."""

    curvature: jax.Array = positive(curvature=lambda largest: largest)  # shape=(): L
    steps: int = counted()

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def memory(self, problem, start):
        """Return the curvature of the start, and no overshoots."""
        first = jnp.broadcast_to(self.curvature, start.shape[:1]).astype(start.dtype)
        none = jnp.zeros(first.shape, jnp.int32)
        return Probes(first, first, none, none, kept_states(problem))

    def length(self, weight):
        """Return rate (1 + r + ... + r^(steps - 1)) with r = 1 - rate weight, at the start."""
        return FallingGradient(curvature=self.curvature, steps=self.steps).length(weight)

    def __call__(self, problem, centre, weight, start, memory, key):
        """Return the models after all steps, shape (clients, dim), and the probes."""

        def pull(w):
            return weight[:, None] * (w - centre)

        def moved(w, slope, curvature, overshoots):
            fall = jnp.sqrt(1 + overshoots.astype(w.dtype))
            return w - slope / ((curvature + weight) * fall)[:, None]

        drawn = draws(problem, key, self.steps)
        first = jax.tree.map(lambda x: x[0], drawn)
        rest = jax.tree.map(lambda x: x[1:], drawn)
        before, kept = slopes_and_states(problem, start, first, memory.kept)
        slope = before + pull(start)
        curvature = jnp.maximum(memory.met, memory.shared)
        w = moved(start, slope, curvature, memory.overshoots)
        after, _ = slopes_and_states(problem, w, first, memory.kept)  # of the same loss
        met = self._met(start, w, before, after, memory.met)
        curvature = jnp.maximum(met, memory.shared)

        def step(carry, draw, known=None):
            w, before, overshoots, kept = carry
            if known is None:
                known, kept = slopes_and_states(problem, w, draw, kept)
            slope = known + pull(w)
            overshoots += (jnp.sum(slope * before, -1) < 0).astype(jnp.int32)
            return (moved(w, slope, curvature, overshoots), slope, overshoots, kept), None

        carry = w, slope, memory.overshoots, kept
        if self.steps > 1 and not has(problem, Minibatches) and not kept:
            carry, _ = step(carry, None, after)
            rest = jax.tree.map(lambda x: x[1:], rest)
        (w, _, overshoots, kept), _ = jax.lax.scan(step, carry, rest)
        return w, Probes(met, memory.shared, overshoots, memory.calls + 1, kept)

    def _met(self, w, moved, before, after, old) -> jax.Array:
        """Return l_i, shape (clients,), or what it was where the differences are noise."""

        def length(x):  # of decisions only: its derivative at 0 is infinite
            return jnp.sqrt(jax.lax.stop_gradient(jnp.sum(x * x, -1)))

        least = _LEAST * jax.lax.stop_gradient(self.curvature)
        noise = 8 * jnp.finfo(w.dtype).eps
        along, bent = length(moved - w), length(after - before)
        sure = (along > noise * length(w)) & jnp.isfinite(bent)
        flat = bent <= noise * length(before)
        found = jnp.where(flat, 0, bent) / jnp.where(sure, along, 1)
        return jnp.where(sure, jnp.maximum(found, least), old)


@roles.short_repr
class ProbedServer(NamedTuple):
    """What the server holds where clients probe."""

    model: jax.Array  # shape=(dim,)
    curvature: jax.Array  # shape=(clients,): l, the same for all
    rounds: jax.Array  # shape=(), int32: k


class Probed:
    """The roles of a server, and of clients, that choose rho by probes; for a star solver."""

    local: Any  # a ProbingGradient
    share: ClassVar[float]  # rho times the length of all local steps of a round, about

    def start_server(self, model, num_clients) -> ProbedServer:
        """Start at the first model, with the curvature that was estimated there."""
        first = jnp.broadcast_to(self.local.curvature, (num_clients,)).astype(model.dtype)
        return ProbedServer(model, first, jnp.zeros((), jnp.int32))

    def broadcast(self, server: ProbedServer) -> tuple[jax.Array, roles.Each]:
        """Send the model, and l."""
        return server.model, roles.Each(server.curvature)

    def model(self, server: ProbedServer) -> jax.Array:
        """Return the model."""
        return server.model

    def penalty(self, curvature: jax.Array) -> jax.Array:
        """Return rho, of the shape of the curvature l."""
        return self.share * curvature / self.local.steps

    def with_model(self, server: ProbedServer, model, received: roles.Received) -> ProbedServer:
        """Return what the server holds with another model, and with the mean of what was met."""
        rounds = server.rounds + 1
        assert received.beside is not None
        change = (received.beside - server.curvature) / jnp.sqrt(rounds.astype(model.dtype))
        return ProbedServer(model, server.curvature + change, rounds)


def probing(local: Any) -> ProbingGradient | None:
    """Return the local solver that probes; None for one whose steps the user has chosen.

    Args:
      local: of a builder; None, or `local_gradient(steps=...)`, leaves the steps' length open.
    """
    if local is None:
        return build(ProbingGradient, curvature=None, steps=5)
    if isinstance(local, FallingGradient) and local.curvature is None:
        return build(ProbingGradient, curvature=None, steps=local.steps)
    return None
