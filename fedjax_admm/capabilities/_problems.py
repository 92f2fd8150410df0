"""What the clients of a problem can do, and what is known of them.

Points are stacked, `(clients, dim)`: row l is the point of client l, and so is row l of what comes
back.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

# --- where clients stand --------------------------------------------------------------------------


class Clients(Protocol):
    """Some number of clients."""

    num_clients: int


class OnStar(Clients, Protocol):
    """Clients that can hang at one server, with the models that a search starts from."""

    start: jax.Array  # shape=(dim,): the first model of all; or (clients, dim): of each


class OnTree(OnStar, Protocol):
    """Clients that are the leaves of a tree; all nodes start at one model, (dim,)."""

    tree: Any  # of `fedjax_admm.trees`


class OnGraph(OnStar, Protocol):
    """Clients that are the nodes of a graph; each starts at a model of its own, (clients, dim)."""

    graph: Any  # of `fedjax_admm.graphs`


class Access(Protocol):
    """Clients of whom some may hold their data back; the loss of these is zero."""

    accessible: jax.Array  # shape=(clients,), bool: whose data can be used


class Subset(Clients, Protocol):
    """Clients of whom some can be looked at without the others."""

    def take(self, clients: jax.Array) -> Any:
        """Return the problem of some clients only.

        Args:
          clients: shape (count,), int32: their numbers; they are the clients of the new problem in
            this order. What they draw from a key is what they would draw among all.

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
    """Models that are judged by a score of each sample, such as whether its class is right."""

    def scores(self, points: jax.Array) -> jax.Array:
        """Return the mean score of every client's model: (clients, dim) to (clients,)."""
        ...


class Parameters(Protocol):
    """Models that a user reads as a pytree, such as the weights of a neural network."""

    def parameters(self, points: jax.Array) -> Any:
        """Return the parameters of models: (..., dim) to a pytree of arrays (..., *shape)."""
        ...


# --- what clients know of their losses ------------------------------------------------------------


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
          key: a typed key; with it, the gradient is that of a minibatch where the problem has them.
            A problem without minibatches does not look at it.

        Returns:
          Shape (clients, dim).
        """
        ...


class Minibatches(Gradients, Protocol):
    """Gradients of minibatches, of which several steps share a key."""

    def batches(self, key: jax.Array, steps: int) -> Any:
        """Return what `gradients` takes for a key in each of some steps, stacked: (steps,).

        Steps of one key can take every sample once before any comes again.
        """
        ...


class ClippedGradients(Protocol):
    """Gradients to which no sample contributes much, for private solvers."""

    sizes: jax.Array  # shape=(clients,), int32: samples of each client

    def clipped_gradients(
        self, points: jax.Array, clip: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Return every client's gradient with that of each sample clipped to a norm.

        A mean over a client's samples to which each contributes a vector no longer than the norm,
        whatever it holds, NaN and infinity included; `losses.clipped_mean` is that mean, and noise
        covers its rounding.

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
        """Return what the prox remembers before the first round, for models (clients, dim).

        The empty tuple of an exact prox; of an inexact one its warm start (the models that it
        returned last) and the state of its optimiser, stacked over clients.
        """
        ...

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        """Return `argmin_w f_l(w) + ||w - x_l||^2 / (2 step_l)` for every client, and the memory.

        Args:
          points: shape (clients, dim): x.
          step: shape (clients,), positive.
          memory: what the last call returned, or `prox_memory`.

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
    """What every client would learn on its own."""

    def minimizers(self) -> jax.Array:
        """Return a minimiser of each loss, shape (clients, dim); 0 where there are no data."""
        ...


class TypicalNorm(Protocol):
    """The size of a client's model."""

    def typical_norm(self) -> jax.Array:
        """Return about how long a model is that a client learns on its own, shape ()."""
        ...


class Projection(Protocol):
    """A constraint that all clients share."""

    def project(self, points: jax.Array) -> jax.Array:
        """Return the nearest points that obey the constraint, row by row, shape (..., dim)."""
        ...


class LinearModels(Protocol):
    """Losses that are means over samples of a loss of one prediction, `x^T w`."""

    features: jax.Array  # shape=(clients, samples, dim): zero for padding
    shares: jax.Array  # shape=(clients, samples): 1 / samples of the client, 0 for padding
    loss: Any  # of `fedjax_admm.losses`
    l1: jax.Array  # shape=(): weight of ||w||_1, of which each client has its share
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
    """Sensors that know where they are, and how far a target is."""

    anchors: jax.Array  # shape=(clients, dim), metres
    distances: jax.Array  # shape=(clients,), metres


class FactorData(Clients, Protocol):
    """Clients that hold the ratings of some users."""

    num_items: int
    users_per_client: int  # of the largest client
    by_user: Any  # `ratings.ClientRatings`: what is learnt from, sorted by user
    by_item: Any  # the same, sorted by item
    here: jax.Array  # shape=(clients, users_per_client), bool: which users there are
    mean: jax.Array  # shape=(): of the ratings that are learnt from
    places: jax.Array  # shape=(users,), int32: client * users_per_client + number within it


class HeldOut(Protocol):
    """Ratings by which predictions are judged."""

    held_out: Any  # `ratings.ClientRatings`
    deviation: jax.Array  # shape=(): of the ratings that are learnt from, in their own units


# --- what is known of the answer ------------------------------------------------------------------


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
