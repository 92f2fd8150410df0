r"""Regression on a network whose clients agree on one model.

    minimise   sum_k f_k(w_k)   subject to   w_k = w_l on every edge of a connected graph,
    f_k(w) = 1/M_k sum_j loss(x_kj^T w, y_kj) + R(w) / K,   R(w) = l1 ||w||_1 + l2 ||w||^2

over the models of K clients; client k has M_k samples of its own. The loss is one of
`fedjax_admm.losses`: least squares with both weights is the elastic net, the absolute value without
any is least absolute deviation; or one of the user's own, which `losses.check_sample_loss` checks.
`optimum` is the common minimiser, with all data in one place.

Reference: F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated
Learning for Nonsmooth Objectives", problem (1).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    default_float,
    finite_array,
    instance,
    is_concrete,
    refuse,
    scalar,
    typed_key,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop
from fedjax_admm.graphs import Graph, check_connected
from fedjax_admm.losses import (
    Absolute,
    Quantile,
    SampleLoss,
    bounded_rows,
    check_sample_loss,
    clipped_mean,
    clipped_slopes,
    minimize_regression,
)
from fedjax_admm.problems._client_arrays import check_labels, client_rows

_HIGHEST = jax.lax.Precision.HIGHEST
# A relative residual; minimisers have 1e-5 and less, separable classes 5e-2 and more.
_PROVEN = 1e-2
# Bound of the curvature along a row of length 1, which stays finite in sums over samples.
_STEEPEST = 1e18


@pytree_dataclass
class ConsensusRegression:
    """Clients with their samples, and the graph on which they agree."""

    graph: Graph
    features: jax.Array  # shape=(clients, samples, dim): x_kj, zero for padding
    targets: jax.Array  # shape=(clients, samples): y_kj, zero for padding
    sizes: jax.Array  # shape=(clients,), int32: M_k; the samples after them are padding
    loss: SampleLoss
    l1: jax.Array  # shape=(): weight of ||w||_1
    l2: jax.Array  # shape=(): weight of ||w||^2
    optimum: jax.Array  # shape=(dim,): w_c, the common minimiser; NaN if none is known
    truth: jax.Array | None = None  # shape=(clients, dim): each client's true model, where known

    spread: ClassVar[tuple[str, ...]] = ("features", "targets", "sizes", "truth")

    @property
    def num_clients(self) -> int:
        """Return the number of clients."""
        return self.graph.num_nodes

    @property
    def dim(self) -> int:
        """Return the number of parameters of a model."""
        return self.features.shape[-1]

    @property
    def shares(self) -> jax.Array:
        """Return the weight 1 / M_k of every sample, 0 for padding, shape (clients, samples)."""
        return _shares(self.sizes, self.targets.shape[-1], self.features.dtype)

    @property
    def start(self) -> jax.Array:
        """Return zero for every client, which is public, shape (clients, dim)."""
        return jnp.zeros((self.num_clients, self.dim), self.features.dtype)

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return a subgradient of every f_k at its own model, shape (clients, dim).

        `1/M_k sum_j s_j x_kj + (l1 sign(w) + 2 l2 w) / K`, s_j the slope of the loss; signs are 0
        at 0. All samples count, whatever the key.
        """
        slopes = self.slopes(self.predictions(points))
        sizes = self.sizes.astype(points.dtype)[:, None]
        data = jnp.einsum("kmp,km->kp", self.features, slopes, precision=_HIGHEST) / sizes
        return data + self.regulariser_gradients(points)

    def clipped_gradients(
        self, points: jax.Array, clip: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Return the gradients with s_j shortened to `min(1, clip / (|s_j| ||x_kj||)) s_j`.

        The regulariser holds no data and is not clipped. A sample contributes `clip / M_k` at most,
        whatever numbers it holds, infinity and NaN included: see `losses.clipped_mean`. It
        contributes zero where a feature, the target or the prediction is not finite.
        """
        slopes = self._bounded_slopes(self.predictions(points))
        mean = clipped_mean(self.features, slopes, clip, self.sizes)
        return mean + self.regulariser_gradients(points)

    def regulariser_gradients(self, points: jax.Array) -> jax.Array:
        """Return the part of the gradients that holds no data, shape (clients, dim)."""
        return (self.l1 * jnp.sign(points) + 2 * self.l2 * points) / self.num_clients

    def _bounded_slopes(self, predictions: jax.Array) -> jax.Array:
        """Return the slopes, zero where the target is not finite."""
        slopes = self.loss.slope(predictions, self.targets)
        return jnp.where(jnp.isfinite(self.targets), slopes, 0)

    def rows(self, clip: jax.Array | None = None) -> jax.Array:
        """Return the rows of which `slopes` are the coefficients, shape (clients, samples, dim).

        They are the features; with a norm to clip to, those of each sample divided by the largest
        of them, and zero where one is not finite.
        """
        return self.features if clip is None else bounded_rows(self.features)[0]

    def predictions(self, points: jax.Array) -> jax.Array:
        """Return every x_kj^T w_k for models (clients, dim), shape (clients, samples)."""
        return jnp.einsum("kmp,kp->km", self.features, points, precision=_HIGHEST)

    def slopes(self, predictions: jax.Array, clip: jax.Array | None = None) -> jax.Array:
        """Return the slopes of the losses at predictions, shape (clients, samples).

        With a norm to clip to they are the coefficients of `rows(clip)`, which no sample makes
        longer than the norm.
        """
        if clip is None:
            return self.loss.slope(predictions, self.targets)
        return clipped_slopes(self.features, self._bounded_slopes(predictions), clip)[1]

    def curvatures(self, points: jax.Array, clip: jax.Array | None = None) -> jax.Array:
        """Return the second derivative of every sample's loss along its row.

        Args:
          points: shape (clients, dim).
          clip: as in `clipped_gradients`; where the slope is clipped the curvature is 0, and it
            is finite for every sample.

        Returns:
          Shape (clients, samples).
        """
        predictions = self.predictions(points)
        curvature = self.loss.curvature(predictions, self.targets)
        if clip is None:
            return curvature
        _, norms, scales = bounded_rows(self.features)
        slopes = self._bounded_slopes(predictions)
        _, coefficients = clipped_slopes(self.features, slopes, clip)
        # What is not clipped is as long as it was; a margin is left for rounding.
        margin = 1 - 2 * (self.dim + 8) * jnp.finfo(points.dtype).eps
        straight = ~(jnp.abs(slopes * scales) * margin <= jnp.abs(coefficients))  # NaN too
        nothing = (norms == 0) | ~jnp.isfinite(self.targets)
        bent = jnp.where(straight | nothing, 0, curvature * scales * scales)
        return jnp.where(jnp.isnan(bent), 0, jnp.minimum(bent, _STEEPEST))

    def values(self, points: jax.Array) -> jax.Array:
        """Return every f_k at its own model (clients, dim), shape (clients,)."""
        losses = self.loss.value(self.predictions(points), self.targets)
        data = jnp.sum(self.shares * losses, -1)
        penalty = self.l1 * jnp.sum(jnp.abs(points), -1) + self.l2 * jnp.sum(points * points, -1)
        return data + penalty / self.num_clients


def consensus_regression(
    graph: Graph,
    features: Sequence[ArrayLike],
    targets: Sequence[ArrayLike],
    loss: SampleLoss,
    *,
    l1: ArrayLike = 0.0,
    l2: ArrayLike = 0.0,
    truth: ArrayLike | None = None,
) -> ConsensusRegression:
    """Build regression on a network from the clients' data.

    Args:
      graph: a connected network; weights of its edges are not used.
      features: one array (samples of that client, dim) per client; their lengths may differ.
      targets: one array (samples of that client,) per client; -1 and 1 for the logistic loss.
      loss: of `fedjax_admm.losses`, or a `losses.SampleLoss` of one's own.
      l1: weight of ||w||_1, not negative.
      l2: weight of ||w||^2, not negative.
      truth: every client's true model, shape (clients, dim), if it is known.

    Returns:
      The problem with its optimum; shorter clients are padded.
    """
    check_connected(graph)
    check_sample_loss(loss)
    x, (y,), sizes = client_rows(features, {"targets": targets}, graph.num_nodes)
    if loss.labels:
        check_labels(y, np.arange(y.shape[1]) < sizes[:, None])
    if truth is not None:
        truth = finite_array("truth", truth, (len(x), x.shape[-1])).astype(x.dtype)
    data = (jnp.asarray(x), jnp.asarray(y), jnp.asarray(sizes))
    return _assembled(graph, *data, loss, *_weights(l1, l2), truth)


def draw_consensus_regression(
    key: jax.Array,
    graph: Graph,
    loss: SampleLoss,
    *,
    samples: int = 50,
    dim: int = 8,
    noise: ArrayLike = 0.1,
    shift: ArrayLike = 0.0,
    l1: ArrayLike = 0.0,
    l2: ArrayLike = 0.0,
) -> ConsensusRegression:
    """Draw regression on a graph: x, w standard normal, `y = x^T (w + shift u_k) + N(0, noise)`.

    For the logistic loss the targets are the signs of these. It can be traced.

    Args:
      key: a typed key.
      graph: a connected network.
      loss: of `fedjax_admm.losses`, or a `losses.SampleLoss` of one's own.
      samples: per client.
      dim: number of parameters.
      noise: variance, not negative.
      shift: how much clients differ: u_k is standard normal, one per client.
      l1: weight of ||w||_1.
      l2: weight of ||w||^2.

    Returns:
      The problem. The optimum is NaN, and the targets are, if the graph could not be drawn.

    Reference: the simulations of the paper; the variance 0.1 of the noise is not stated there.
    """
    typed_key(key)
    key = one_loop(key)
    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    check_sample_loss(loss)
    if is_concrete(graph) and np.all(np.isfinite(np.asarray(graph.weights))):
        check_connected(graph)
    dtype = default_float()
    shape = (graph.num_nodes, count("samples", samples), count("dim", dim))
    variance = scalar("noise", noise, at_least=0).astype(dtype)
    spread = scalar("shift", shift, at_least=0).astype(dtype)
    weights = _weights(l1, l2)
    keys = jax.random.split(key, 4)
    x = jax.random.normal(keys[0], shape, dtype)
    common = jax.random.normal(keys[1], shape[-1:], dtype)
    own = jax.random.normal(keys[2], (shape[0], shape[2]), dtype)
    truth = common[None] + spread * own
    error = jnp.sqrt(variance) * jax.random.normal(keys[3], shape[:2], dtype)
    y = jnp.einsum("kmp,kp->km", x, truth, precision=_HIGHEST) + error
    if loss.labels:
        y = jnp.where(y < 0, -1.0, 1.0).astype(dtype)
    y = jnp.where(jnp.all(jnp.isfinite(graph.weights)), y, jnp.nan)
    sizes = jnp.full(shape[0], shape[1], jnp.int32)
    return _assembled(graph, x, y, sizes, loss, *weights, truth)


def with_loss(
    problem: ConsensusRegression, loss: SampleLoss, *, l1: ArrayLike = 0.0, l2: ArrayLike = 0.0
) -> ConsensusRegression:
    """Return a problem with the same data and another loss and regulariser, and its optimum.

    Args:
      problem: whose data.
      loss: of `fedjax_admm.losses`; it must suit the targets.
      l1: weight of ||w||_1.
      l2: weight of ||w||^2.
    """
    instance("problem", problem, ConsensusRegression, "a ConsensusRegression")
    check_sample_loss(loss)
    told = f"must suit the targets, which those of {type(loss).__name__} do not"
    refuse(loss.labels != problem.loss.labels, "loss", told, remedy="build the problem anew")
    data = (problem.features, problem.targets, problem.sizes)
    return _assembled(problem.graph, *data, loss, *_weights(l1, l2), problem.truth)


def pooled_correlation(problem: ConsensusRegression) -> jax.Array:
    """Return `||X^T y||_inf` over the data of all clients together, shape ().

    The paper takes l1 = 0.001 of it for the elastic net. It depends on the data of all clients:
    using it publishes it, and no accountant here covers that.
    """
    instance("problem", problem, ConsensusRegression, "a ConsensusRegression")
    products = jnp.einsum("kmp,km->p", problem.features, problem.targets, precision=_HIGHEST)
    return jnp.max(jnp.abs(products))


def _assembled(graph, x, y, sizes, loss, l1, l2, truth) -> ConsensusRegression:
    dtype = x.dtype
    graph = replace(graph, weights=graph.weights.astype(dtype))
    loss = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), loss)
    l1, l2 = l1.astype(dtype), l2.astype(dtype)
    optimum = pooled_optimum(x, y, _shares(sizes, y.shape[-1], dtype), loss, l1, l2)
    return ConsensusRegression(graph, x, y, sizes, loss, l1, l2, optimum, truth)


@jax.jit
def pooled_optimum(x, y, shares, loss, l1, l2) -> jax.Array:
    """Pool the data and minimise; every sample weighs 1 / M_k of its own client.

    Where there is no minimiser, as for separable classes without l2, it is NaN; and where there is
    no method for it, which is so for a loss of one's own that is not smooth.
    """
    if not (loss.smooth or isinstance(loss, Absolute | Quantile)):
        return jnp.full(x.shape[-1], jnp.nan, x.dtype)
    dim = x.shape[-1]
    flat = (x.reshape(-1, dim), y.reshape(-1), shares.reshape(-1))
    minimum = minimize_regression(*flat, loss, l1, l2)
    return jnp.where(minimum.residual < _PROVEN, minimum.w, jnp.nan)


def _shares(sizes, samples, dtype) -> jax.Array:
    here = jnp.arange(samples, dtype=jnp.int32)[None] < sizes[:, None]
    return here.astype(dtype) / sizes.astype(dtype)[:, None]


def _weights(l1: ArrayLike, l2: ArrayLike) -> tuple[jax.Array, jax.Array]:
    return scalar("l1", l1, at_least=0), scalar("l2", l2, at_least=0)
