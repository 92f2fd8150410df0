"""Capabilities that measures need of a solver and of its state, beyond those of every solver."""

from typing import Any, Protocol

import jax


class Releasing(Protocol):
    """A solver whose clients make noisy models public, which are its estimate (clients, dim)."""

    def unprotected(self, state: Any) -> jax.Array:
        """Return the models without noise, shape (clients, dim): each for its client alone."""
        ...


class ReleaseCounts(Protocol):
    """A state that counts releases, and the privacy that they have spent."""

    releases: jax.Array  # shape=(clients,), int32
    spent: jax.Array  # shape=(clients,): sum of 1 / z_n^2
    nominal: jax.Array  # shape=(clients,), bool: whether gradients were not clipped
    tails: jax.Array  # shape=(clients,): what the ends of noise may have added to delta


class RoundCount(Protocol):
    """A solver that counts its rounds."""

    def rounds(self, state: Any) -> jax.Array:
        """Return the rounds in which somebody took part, shape (), int32."""
        ...


class TreeState(Protocol):
    """A state with the models of all nodes of a tree."""

    root: jax.Array  # shape=(dim,): the cloud's model
    servers: tuple[Any, ...]  # one per level from 1
    clients: Any  # with models `w` (clients, dim) and `updates` (clients,)


class FactorState(Protocol):
    """A state with factors that predict ratings."""

    factors: Any  # `ratings.Factors`


class CopiesState(Protocol):
    """A state of clients with copies of the items' factors, and dual variables."""

    clients: Any  # with `users`, `copies` and `duals`
    items: jax.Array  # shape=(items, rank)


class FlowState(Protocol):
    """A state with models of nodes, and flows on edges."""

    nodes: Any  # with models `w` (nodes, dim)
    u: jax.Array  # shape=(edges, dim)


class FactorPenalties(Protocol):
    """A solver with penalties of users' and of items' factors."""

    user_penalty: Any
    item_penalty: Any


class FreshUsers(Protocol):
    """A solver whose users can take their steps once more before they predict."""

    def fresh(self, problem: Any, state: Any) -> Any:
        """Return `ratings.Factors`."""
        ...


class LinearizedCopies(FactorPenalties, Protocol):
    """A solver with copies of the items' factors that are held together by beta."""

    beta: jax.Array
    inner_steps: int


class FlowSteps(Protocol):
    """A primal-dual solver: a penalty of differences along edges, and steps."""

    penalty: Any

    def radius(self, problem: Any) -> jax.Array:
        """Return the weight of each edge's penalty, shape (edges,)."""
        ...

    def steps(self, problem: Any) -> tuple[jax.Array, jax.Array]:
        """Return the nodes' steps, shape (nodes,), and the edges', shape ()."""
        ...
