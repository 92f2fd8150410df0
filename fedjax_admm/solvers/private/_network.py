"""What the private solvers share: clients that send noisy models along the edges of a graph."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, one_line
from fedjax_admm.capabilities import PublicStart, has
from fedjax_admm.participation import where_active
from fedjax_admm.privacy import Release
from fedjax_admm.schedules import Schedule, ScheduleLike, as_schedule, power_decay
from fedjax_admm.solvers.graph._neighbours import NeighbourSolver


class PrivateClients(NamedTuple):
    """What every client keeps."""

    w: jax.Array  # shape=(clients, dim): models without noise, private
    v: jax.Array  # shape=(clients, dim): what was sent last, known to all neighbours
    releases: jax.Array  # shape=(clients,), int32: how often the client has sent


class PrivateState(NamedTuple):
    """The state of private networked ADMM."""

    clients: PrivateClients
    u: jax.Array  # shape=(edges, dim): flows, the dual variables are their divergence

    @property
    def releases(self) -> jax.Array:
        """Return how often every client has sent, shape (clients,), int32."""
        return self.clients.releases


def first_clients(problem: Any) -> PrivateClients:
    """Return clients that have sent nothing, at a public start; zero where none is known."""
    public = has(problem, PublicStart)
    w = problem.public_start if public else jnp.zeros_like(problem.start)
    return PrivateClients(w, w, jnp.zeros(problem.num_clients, jnp.int32))


class DualFlows(NeighbourSolver):
    """Networked ADMM whose dual variables are the divergence of flows on the edges."""

    release: Release
    rho: jax.Array

    def init(self, problem, key) -> PrivateState:
        """Start where everybody knows it: nothing is sent."""
        clients = first_clients(problem)
        u = jnp.zeros((problem.graph.num_edges, clients.w.shape[-1]), clients.w.dtype)
        return PrivateState(clients, u)

    def pull(self, problem, state: PrivateState) -> jax.Array:
        """Return `gamma + rho L v`, shape (clients, dim), in one pass over the edges."""
        graph = problem.graph
        return graph.divergence(state.u + self.rho * graph.difference(state.clients.v))

    def send(self, problem, state: PrivateState, turn, w: jax.Array, gain: jax.Array):
        """Return the state after the clients that take part have sent new models.

        A flow changes only where both ends are present.

        Args:
          problem: the clients and their graph.
          state: before the round.
          turn: of the round.
          w: the new models, shape (clients, dim).
          gain: by how much they move per unit of the gradient, shape (clients,).
        """
        graph, n = problem.graph, state.releases + 1
        v = self.release(turn.key, w, gain, problem.sizes, n)
        clients = where_active(turn.active, PrivateClients(w, v, n), state.clients)
        working = turn.active[graph.heads] & turn.active[graph.tails]
        u = state.u + self.rho * graph.difference(clients.v)
        return PrivateState(clients, jnp.where(working[:, None], u, state.u))

    def duals(self, problem, state: PrivateState) -> jax.Array:
        """Return gamma, shape (clients, dim); it adds up to zero."""
        return problem.graph.divergence(state.u)

    def estimate(self, state: PrivateState) -> jax.Array:
        """Return the models without noise, shape (clients, dim): private, for their owners."""
        return state.clients.w

    def released(self, state: PrivateState) -> jax.Array:
        """Return what everybody may know, shape (clients, dim)."""
        return state.clients.v


def released_gradients(problem: Any, release: Release, points: jax.Array) -> jax.Array:
    """Return the gradients as a release wants them: clipped, or not where it adds no noise."""
    if release.clip is None:
        return problem.gradients(points)
    return problem.clipped_gradients(points, release.clip)


def check_release(release: Any) -> Release:
    """Return the release.

    Raises:
      InputError: it is no release.
    """
    if isinstance(release, type) or not (callable(release) and hasattr(release, "clip")):
        raise InputError(
            "must be gaussian_release(plan, clip) or exact_release(), but it is "
            f"{one_line(release)}",
            argument="release",
            value=release,
        )
    return cast(Release, release)


def step_schedule(step_size: ScheduleLike) -> Schedule:
    """Return a schedule of step sizes; a number stands for `power_decay(number, 1/2)`.

    Raises:
      InputError: `step_size` is not a schedule, or a number that is not positive.
    """
    return as_schedule("step_size", step_size, lambda scale: power_decay(scale, 0.5), above=0)


def check_releases(release: Release, rounds: int) -> None:
    """Check that a release may happen in each of so many rounds.

    Raises:
      InputError: it may not.
    """
    if release.rounds is not None and rounds > release.rounds:
        raise InputError(
            f"must be at most {release.rounds}, for which the noise is planned, but it is {rounds}",
            argument="rounds",
            value=rounds,
            remedy=f"make a plan for {rounds} rounds",
        )
