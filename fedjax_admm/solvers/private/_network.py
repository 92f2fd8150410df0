"""Common parts of the private solvers: clients send noisy models along the edges of a graph.

A client releases its model, which adds the noise, and sends only the release v. The exchange comes
after the release: the attack, the channel and the delay make the known model v^ from v without any
data, so the ledger does not depend on the exchange. v^ replaces v everywhere, also at the client
itself, whose next step begins at this public point. A compressor before the release is not allowed:
the compressed message can move by more than the clipping norm bounds.
"""

from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, declared, is_concrete, one_line, refuse
from fedjax_admm.capabilities import PublicStart, has
from fedjax_admm.privacy import ExactRelease, Release
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import FlowSolver, GraphSolver, GraphState, to_neighbours


class PrivateClients(NamedTuple):
    """What every client holds."""

    w: jax.Array  # shape=(clients, dim): models without noise, private
    v: jax.Array  # shape=(clients, dim): what was released last
    releases: jax.Array  # shape=(clients,), int32: how often the client has sent
    spent: jax.Array  # shape=(clients,): sum of 1 / z_n^2 over its releases, rounded up; infinite
    # after one without noise
    nominal: jax.Array  # shape=(clients,), bool: whether it has sent with gradients not clipped
    tails: jax.Array  # shape=(clients,): how much the ends of its noise may have added to delta
    deviation: jax.Array  # shape=(clients,), public: of the noise in what was sent last; 0 where
    # the release does not say it


class PrivateState(GraphState):
    """The state of a private solver: its nodes are `PrivateClients`."""

    # Arrays (clients,) of the nodes, as `PrivateClients` describes them.
    releases = property(lambda self: self.nodes.releases)
    spent = property(lambda self: self.nodes.spent)
    nominal = property(lambda self: self.nodes.nominal)
    tails = property(lambda self: self.nodes.tails)
    deviation = property(lambda self: self.nodes.deviation)


def released() -> Any:
    """Declare how messages are made public."""
    return declared(_check_release)


def stepped() -> Any:
    """Declare eta, by a client's own count of releases; a number falls like 1 / sqrt(n)."""
    return roles.scheduled(lambda scale: power_decay(scale, 0.5))


class PrivateSolver(GraphSolver):
    """A solver whose clients keep a model to themselves and send it with noise.

    The noise follows from the key of the run: whoever gets the messages of two runs with one key
    takes their difference. Every run on real data needs a key of its own, and only one continuation
    of a state may use it.

    The work of all clients is computed, even where some are drawn: the noise of a release is drawn
    for all of them at once.
    """

    release: Release

    works_whole: ClassVar[bool] = True

    @property
    def noisy(self) -> bool:
        """Return whether a key hides anything: a run refuses to use it twice then."""
        return not isinstance(self.release, ExactRelease)

    def check(self, problem, rounds: int) -> None:
        """Check that the noise is planned for so many rounds, and what the aggregator needs."""
        check_releases(self.release, rounds, problem)
        super().check(problem, rounds)

    def first_models(self, problem) -> jax.Array:
        """Return a public start, shape (clients, dim); zero where none is known."""
        public = has(problem, PublicStart)
        return problem.public_start if public else jnp.zeros_like(problem.start)

    def init(self, problem, key) -> PrivateState:
        """Start where everybody knows it: nothing is sent."""
        return PrivateState(*super().init(problem, key))

    def start_nodes(self, problem, models) -> PrivateClients:
        """Return clients that have sent nothing."""
        none = jnp.zeros(len(models), models.dtype)
        counts, never = jnp.zeros(len(models), jnp.int32), jnp.zeros(len(models), bool)
        return PrivateClients(models, models, counts, none, never, none, none)

    def message(self, nodes: PrivateClients) -> jax.Array:
        """Send v, which was released."""
        return nodes.v

    def published(
        self,
        problem: Any,
        clients: PrivateClients,
        w: jax.Array,
        gain: jax.Array,
        size: jax.Array,
        key: jax.Array,
    ) -> PrivateClients:
        """Return clients with new models that they have released, and paid for.

        Args:
          problem: the clients and their graph.
          clients: before the round.
          w: the new models, shape (clients, dim).
          gain: by how much they move per unit of the gradient, shape (clients,).
          size: the lengths of the public vectors of which they are made, added up, (clients,).
          key: of the round.
        """
        n = clients.releases + 1
        room = rounding_room(self.release.clip, gain, size, problem.sizes, w.shape[-1])
        gain = gain + room
        v = self.release(key, w, gain, problem.sizes, n)
        # A release that does not say what it costs has no bound.
        costs = (
            self.release.costs(n).astype(clients.spent.dtype)
            if hasattr(self.release, "costs")
            else jnp.full_like(clients.spent, jnp.inf)
        )
        # The sum is off by half a step to the next number at most.
        spent = jnp.nextafter(clients.spent + costs, jnp.full_like(costs, jnp.inf))
        nominal = clients.nominal | (self.release.clip is None)
        tails = clients.tails
        if hasattr(self.release, "tails"):
            more = self.release.tails(n)  # pyright: ignore[reportAttributeAccessIssue]
            tails = tails + (w.shape[-1] * more).astype(tails.dtype)
        deviation = jnp.zeros_like(clients.deviation)
        if hasattr(self.release, "deviation"):
            stated = self.release.deviation(gain, problem.sizes, n)  # pyright: ignore[reportAttributeAccessIssue]
            deviation = stated.astype(deviation.dtype)
        records = jax.lax.stop_gradient((spent, nominal, tails, deviation))
        return PrivateClients(w, v, n, *records)

    def check_start(self, state: Any) -> None:
        """Check that a run may go on from a state: all noise must be in one unit.

        Where gradients are clipped, noise is in units of what a sample can move; where they are
        not, of a number that bounds nothing: the two do not add up. Another norm, plan or step is
        another unit of length, not of privacy, as every release is in units of its own sensitivity.
        """
        if not isinstance(state, PrivateState) or not self.noisy:
            return
        if not is_concrete(state):
            return
        counts = (np.asarray(state.releases) > 0) & np.isfinite(np.asarray(state.spent))
        other = np.flatnonzero(counts & (np.asarray(state.nominal) != (self.release.clip is None)))
        if other.size:
            was, now = "clipped", "not clipped"
            if self.release.clip is not None:
                was, now = now, was
            raise InputError(
                f"must be the state of a run whose gradients were {now}, as those of this solver "
                f"are, but those of client {other[0]} were {was}: what they have spent does not "
                "add up",
                argument="start",
                value=state,
                remedy="begin anew, with start=None",
            )

    def estimate(self, state: PrivateState) -> jax.Array:
        """Return what everybody may know, shape (clients, dim): the models as they were heard."""
        return self.known(state)

    def unprotected(self, state: PrivateState) -> jax.Array:
        """Return the models without noise, shape (clients, dim): each for its client alone."""
        return state.nodes.w


class DualFlows(PrivateSolver, FlowSolver):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Networked ADMM whose dual variables are the divergence of flows on the edges."""

    rho: jax.Array

    def gather(self, graph, u, known) -> jax.Array:
        """Return `gamma + rho L v`, shape (clients, dim), in one pass over the edges."""
        return graph.divergence(u + self.rho * graph.difference(known))

    def edge(self, flows, difference, weights) -> jax.Array:
        """Return u + rho D v."""
        return flows + self.rho * difference

    def duals(self, problem, state: PrivateState) -> jax.Array:
        """Return gamma, shape (clients, dim); it adds up to zero."""
        return problem.graph.divergence(state.edges)


def without_mean() -> Any:
    """Declare the exchange of `DualFlows`."""
    return to_neighbours(
        mean_alone="here duals are sums of flows, and no client takes a mean of models"
    )


def released_gradients(problem: Any, release: Release, points: jax.Array) -> jax.Array:
    """Return the gradients as a release wants them: clipped, or not where it adds no noise."""
    if release.clip is None:
        return problem.gradients(points)
    return problem.clipped_gradients(points, release.clip)


def rounding_room(
    clip: jax.Array | None, gain: jax.Array, size: jax.Array, sizes: jax.Array, dim: int
) -> jax.Array:
    """Return what to add to gains for the rounding of a message `p - gain g`, shape (clients,).

    p is public, and g is a mean of gradients of norm c plus public numbers. Their sums and the
    product are rounded four times, by u = eps / 2 of what comes out at most, or by what is lost
    below the smallest normal number. Two messages whose data differ in one sample are so much
    farther apart than without rounding; where a model is 10^7 times its noise, that is all that
    there is of the noise. As `size` is public, noise may depend on it.

    Args:
      clip: c; without it nothing is promised, and nothing added.
      gain: shape (clients,).
      size: the lengths of p and of gain times what is public in g, added up, shape (clients,).
      sizes: numbers of samples, shape (clients,).
      dim: how long a message is.
    """
    if clip is None:
        return jnp.zeros_like(gain)
    limits = jnp.finfo(size.dtype)
    lost = dim * limits.tiny * (1 + gain)
    room = 8 * (limits.eps / 2 * (size + gain * clip) + lost)
    # Noise is in units of 2 clip gain / M.
    return jax.lax.stop_gradient(room * sizes.astype(room.dtype) / (2 * clip)).astype(gain.dtype)


def public_sizes(*vectors: jax.Array) -> jax.Array:
    """Return the sums of all absolute values, (clients, dim) each to (clients,).

    They are no smaller than the lengths, and do not overflow before them.
    """
    return sum(jnp.sum(jnp.abs(one), -1) for one in vectors)  # pyright: ignore[reportReturnType]


def regulariser_sizes(problem: Any, points: jax.Array) -> jax.Array:
    """Return the sizes of the public part of the gradients, shape (clients,); 0 without any."""
    if not hasattr(problem, "regulariser_gradients"):
        return jnp.zeros_like(points[:, 0])
    return public_sizes(problem.regulariser_gradients(points))


def _check_release(name: str, release: Any) -> Release:
    refuse(
        isinstance(release, roles.Exchange) or hasattr(release, "encode"),
        name,
        "must be gaussian_release(plan, clip) or exact_release(), and no compression, which "
        "cannot come before the noise: a sample may change a compressed message by more than "
        "the clipping norm allows for",
        remedy="compress what is released, with exchange=exchange(up=...)",
    )
    refuse(
        isinstance(release, type) or not (callable(release) and hasattr(release, "clip")),
        name,
        f"must be gaussian_release(plan, clip) or exact_release(), but it is {one_line(release)}",
    )
    return cast(Release, release)


def check_releases(release: Release, rounds: int, problem: Any) -> None:
    """Check that a release may happen in each of so many rounds, with messages of a problem."""
    refuse(
        release.rounds is not None and rounds > release.rounds,
        "rounds",
        f"must be at most {release.rounds}, for which the noise is planned, but it is {rounds}",
        remedy=f"make a plan for {rounds} rounds",
    )
    if hasattr(release, "check"):
        release.check(problem.start)  # pyright: ignore[reportAttributeAccessIssue]
