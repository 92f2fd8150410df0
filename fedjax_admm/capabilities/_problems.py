"""Capabilities of the clients of a problem, and known data about them.

Points are stacked, `(clients, dim)`: row l is the point of client l, and row l of a result is its
answer.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

# --- topologies -----------------------------------------------------------------------------------


class Clients(Protocol):
    """Some number of clients."""

    num_clients: int


class OnStar(Clients, Protocol):
    """Clients that can share one server, with the first models."""

    start: jax.Array  # shape=(dim,): the first model of all; or (clients, dim): of each


class OnTree(OnStar, Protocol):
    """Clients that are the leaves of a tree; all nodes start at one model, (dim,)."""

    tree: Any  # of `fedjax_admm.trees`


class OnGraph(OnStar, Protocol):
    """Clients that are the nodes of a graph; each starts at a model of its own, (clients, dim)."""

    graph: Any  # of `fedjax_admm.graphs`


class Access(Protocol):
    """Clients some of which may hold their data back; their loss is zero."""

    accessible: jax.Array  # shape=(clients,), bool: whether its data can be used


class Subset(Clients, Protocol):
    """Clients some of which make a problem without the others."""

    def take(self, clients: jax.Array) -> Any:
        """Return the problem of some clients only.

        Args:
          clients: shape (count,), int32: their numbers, in the order of the new problem. They draw
            the same from a key as among all.

        Returns:
          A problem with the same methods and `count` clients.
        """
        ...


class PublicStart(Clients, Protocol):
    """First models that hold no data, at which private solvers may begin."""

    public_start: jax.Array  # of the shape of `start`


class PrivateParts(Clients, Protocol):
    """Models of which a part stays with every client."""

    private: jax.Array  # shape=(clients, private_dim): these parts at the start

    def with_private(self, private: jax.Array) -> Any:
        """Return the problem with other parts (clients, private_dim)."""
        ...

    def private_gradients(self, points: jax.Array, key: Any = None) -> jax.Array:
        """Return the gradients in these parts at models (clients, dim), (clients, private_dim)."""
        ...


class Scores(Clients, Protocol):
    """Models with a score of each sample, such as whether its class is right."""

    def scores(self, points: jax.Array) -> jax.Array:
        """Return the mean score of every client's model: (clients, dim) or (dim,) to (clients,)."""
        ...


class Parameters(Protocol):
    """Models that a user reads as a pytree, such as the weights of a neural network."""

    def parameters(self, points: jax.Array) -> Any:
        """Return the parameters of models: (..., dim) to a pytree of arrays (..., *shape)."""
        ...


# --- losses ---------------------------------------------------------------------------------------


class Values(Protocol):
    """Losses."""

    def values(self, points: jax.Array) -> jax.Array:
        """Return every client's loss at its own point: (clients, dim) to (clients,)."""
        ...


class Gradients(Protocol):
    """Gradients, or subgradients."""

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return every client's gradient at its own point; a subgradient at a kink.

        Args:
          points: shape (clients, dim).
          key: a typed key; with it, the gradient is that of a minibatch. A problem without
            minibatches ignores it.

        Returns:
          Shape (clients, dim).
        """
        ...


class Minibatches(Gradients, Protocol):
    """Gradients of minibatches, of which several steps share a key."""

    def batches(self, key: jax.Array, steps: int) -> Any:
        """Return the keys of `gradients` in a number of steps, stacked: (steps,).

        Steps of one key can use every sample once before any is used again.
        """
        ...


class ClientStates(Gradients, Protocol):
    """Losses that read a state of each client, such as running statistics, and change it."""

    states: Any  # a pytree (clients, ...): the states at which the losses are

    def with_states(self, states: Any) -> Any:
        """Return the problem at other states, a pytree (clients, ...)."""
        ...

    def gradients_and_states(
        self, points: jax.Array, key: jax.Array | None = None
    ) -> tuple[jax.Array, Any]:
        """Return the gradients, as `Gradients` has them, and the states after they are computed."""
        ...


class ClippedGradients(Protocol):
    """Gradients with a bounded contribution of each sample, for private solvers."""

    sizes: jax.Array  # shape=(clients,), int32: samples of each client

    def clipped_gradients(
        self, points: jax.Array, clip: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Return every client's gradient with that of each sample clipped to a norm.

        A mean over a client's samples, each of which contributes a vector no longer than the norm,
        also if it holds NaN or infinity; `losses.clipped_mean` is that mean, and noise covers its
        rounding.

        Args:
          points: shape (clients, dim).
          clip: shape (): the largest norm of a sample's gradient. Terms that hold no data, such as
            a regulariser, are not clipped.
          key: as in `Gradients`.

        Returns:
          Shape (clients, dim).
        """
        ...


class SmoothedGradients(Protocol):
    """Gradients of smoothed losses."""

    def smoothed_gradients(self, points: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the gradients of the losses smoothed with mu (clients,), shape (clients, dim)."""
        ...


class Prox(Protocol):
    """Proximal maps of the losses."""

    def prox_memory(self, start: jax.Array) -> Any:
        """Return the memory of the prox before the first round, for models (clients, dim).

        The memory of an exact prox is the empty tuple; that of an inexact one is its warm start
        (its last models) and the state of its optimiser, stacked over clients.
        """
        ...

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        """Return `argmin_w f_l(w) + ||w - x_l||^2 / (2 step_l)` for every client, and the memory.

        Args:
          points: shape (clients, dim): x.
          step: shape (clients,), positive.
          memory: that of the last call, or `prox_memory`.

        Returns:
          The models, shape (clients, dim), and the memory for the next call.
        """
        ...


class DifferenceOfConvex(Protocol):
    """Losses `f_l = Gamma_l - phi_l`, differences of convex functions with known proximal maps."""

    def prox_convex_part(self, points: jax.Array, step: jax.Array) -> jax.Array:
        """Return the prox of each Gamma_l; points (clients, dim), step (clients,)."""
        ...

    def prox_concave_part(self, points: jax.Array, step: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the prox of minus the Moreau envelope of each phi_l with mu (clients,) > step."""
        ...


class Minimizers(Protocol):
    """Models that clients learn on their own."""

    def minimizers(self) -> jax.Array:
        """Return a minimiser of each loss, shape (clients, dim); 0 where there are no data."""
        ...


class TypicalNorm(Protocol):
    """The size of a client's model."""

    def typical_norm(self) -> jax.Array:
        """Return the approximate norm of a model that a client learns on its own, shape ()."""
        ...


class Projection(Protocol):
    """A constraint that all clients share."""

    def project(self, points: jax.Array) -> jax.Array:
        """Return the nearest points that satisfy the constraint, row by row, shape (..., dim)."""
        ...


class LinearModels(Protocol):
    """Losses that are means over samples of a loss of one prediction, `x^T w`."""

    features: jax.Array  # shape=(clients, samples, dim): zero for padding
    shares: jax.Array  # shape=(clients, samples): 1 / samples of the client, 0 for padding
    loss: Any  # of `fedjax_admm.losses`
    l1: jax.Array  # shape=(): weight of ||w||_1, divided among the clients
    l2: jax.Array  # shape=(): weight of ||w||^2, likewise

    def predictions(self, points: jax.Array) -> jax.Array:
        """Return the predictions of all samples: (clients, dim) to (clients, samples)."""
        ...

    def rows(self, clip: jax.Array | None = None) -> jax.Array:
        """Return the features, divided by about their lengths if `clip` is given."""
        ...

    def slopes(self, predictions: jax.Array, clip: jax.Array | None = None) -> jax.Array:
        """Return the derivatives of the losses along the rows, clipped if `clip` is given."""
        ...

    def curvatures(self, points: jax.Array, clip: jax.Array | None = None) -> jax.Array:
        """Return the second derivatives along the rows at points (clients, dim)."""
        ...


class NodeLosses(Protocol):
    """Losses as an object of their own, such as `losses.SquaredLoss`."""

    local: Any


# --- data of particular families ------------------------------------------------------------------


class Ranges(Protocol):
    """Sensors that know where they are, and what their ranges differ by from those of a model."""

    anchors: jax.Array  # shape=(clients, dim), metres

    def residuals(self, model: jax.Array) -> jax.Array:
        """Return the length minus the range, metres, of every range."""
        ...


class FactorData(Clients, Protocol):
    """Clients that hold the ratings of some users."""

    num_items: int
    users_per_client: int  # of the largest client
    by_user: Any  # `ratings.ClientRatings`: training data, sorted by user
    by_item: Any  # the same, sorted by item
    here: jax.Array  # shape=(clients, users_per_client), bool: whether a user is there
    mean: jax.Array  # shape=(): of the training data
    places: jax.Array  # shape=(users,), int32: client * users_per_client + number within it


class HeldOut(Protocol):
    """Ratings for the evaluation of predictions."""

    held_out: Any  # `ratings.ClientRatings`
    deviation: jax.Array  # shape=(): of the training data, in their own units


# --- known answers --------------------------------------------------------------------------------


class KnownTarget(Protocol):
    """A target whose position is known."""

    target: jax.Array  # shape=(dim,), metres


class KnownTruth(Protocol):
    """True models that are known."""

    truth: jax.Array  # shape=(dim,): one for all clients; or (clients, dim): of each


class KnownOptimum(Protocol):
    """A common minimiser that is known."""

    optimum: jax.Array  # shape=(dim,)


def first_model(problem: Any) -> jax.Array:
    """Return the first model of one server, shape (dim,): the mean where clients have their own."""
    return problem.start if problem.start.ndim == 1 else jnp.mean(problem.start, 0)


def shaped(problem: Any) -> Any:
    """Return a problem for `jax.eval_shape`: one whose samples are on the host has their shapes."""
    return problem.shaped() if hasattr(problem, "shaped") else problem
