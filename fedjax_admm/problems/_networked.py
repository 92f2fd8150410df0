r"""Networked learning: nodes with data of their own, and a graph of nodes that may be alike.

    minimise   sum_i L_i(w_i) + lam sum_e A_e phi(w_{h_e} - w_{t_e})

Node i holds a model w_i and a local loss L_i (of `fedjax_admm.losses`). Where its data are not
accessible the loss is zero, and the node learns from its neighbours alone.

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023, the problem of GTV minimisation.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    bool_array,
    count,
    every_client,
    finite_array,
    flag,
    function_of,
    instance,
    is_concrete,
    number,
    of_shape,
    one_of,
    per_client,
    real_array,
    refuse,
    scalar,
    squarable,
    typed_key,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop
from fedjax_admm.graphs import Graph
from fedjax_admm.losses import (
    LassoLoss,
    LocalLoss,
    LogisticLoss,
    SquaredLoss,
    TrainedLoss,
    least_squares,
)
from fedjax_admm.problems._client_arrays import check_labels, client_rows

SCALES = ("mean", "sum")
_ANEW = "build the problem anew with accessible=..."
_INACCESSIBLE = "mark it as not accessible"


@pytree_dataclass
class Networked:
    """Nodes with their local losses, and their graph."""

    graph: Graph
    local: LocalLoss
    accessible: jax.Array  # shape=(nodes,), bool: nodes whose data can be used
    start: jax.Array  # shape=(nodes, dim): first models
    truth: jax.Array | None = None  # shape=(nodes, dim): each node's true model, where known

    spread: ClassVar[tuple[str, ...]] = ("accessible", "start", "truth")

    @property
    def num_clients(self) -> int:
        """Return the number of nodes: every one is a client."""
        return self.graph.num_nodes

    @property
    def dim(self) -> int:
        """Return the number of parameters of a model."""
        return self.start.shape[-1]

    def values(self, points: jax.Array) -> jax.Array:
        """Return every node's loss at its own model, shape (nodes,); zero if not accessible."""
        return self.local.values(points)

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return every node's gradient at its own model, shape (nodes, dim)."""
        return self.local.gradients(points, key)

    def minimizers(self) -> jax.Array:
        """Return every node's own minimiser, shape (nodes, dim); 0 if not accessible."""
        return jnp.where(self.accessible[:, None], self.local.minimizers(), 0)

    def typical_norm(self) -> jax.Array:
        """Return the median length of a model that a node learns on its own, shape ()."""
        return self.local.typical_norm()

    def prox_memory(self, start: jax.Array) -> Any:
        """Return the memory of the prox of the local losses before the first round."""
        return self.local.prox_memory(start)

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        """Return `argmin L_i(w) + ||w - v_i||^2 / (2 step_i)` for every node, and the memory.

        Args:
          points: shape (nodes, dim).
          step: shape (nodes,).
          memory: of an inexact prox.

        Returns:
          The models, shape (nodes, dim) (the points where the data are not accessible), and the
          memory.
        """
        models, memory = self.local.prox(points, step, memory)
        return jnp.where(self.accessible[:, None], models, points), memory


def networked_regression(
    graph: Graph,
    features: Sequence[ArrayLike],
    targets: Sequence[ArrayLike],
    *,
    accessible: ArrayLike | None = None,
    scale: str = "mean",
    node_weights: ArrayLike | None = None,
    ridge: ArrayLike = 0.0,
    l1: ArrayLike | None = None,
    inner_steps: int = 200,
    truth: ArrayLike | None = None,
) -> Networked:
    """Build linear regression on a network: least squares, ridge or Lasso.

    `L_i(w) = a_i / m_i ||X_i w - y_i||^2 + ridge ||w||^2 + l1 ||w||_1`, with a_i = 1 (mean) or m_i
    (sum), times the node's weight.

    Args:
      graph: the network.
      features: one array (samples of that node, dim) per node; their lengths may differ.
      targets: one array (samples of that node,) per node.
      accessible: bool, shape (nodes,): the nodes whose data are read; all if None.
      scale: "mean" or "sum" over a node's samples.
      node_weights: shape (nodes,), positive; all 1 if None.
      ridge: weight of ||w||^2, a number or one per node.
      l1: weight of ||w||_1, a number or one per node; no such term if None.
      inner_steps: proximal gradient steps per round, with `l1`.
      truth: every node's true model, shape (nodes, dim), if it is known.

    Returns:
      The problem; shorter nodes are padded with samples of weight zero.
    """
    x, y, weights, reached = _stacked(graph, features, targets, accessible, scale, node_weights)
    local = least_squares(x, y, weights, ridge)
    inner_steps = count("inner_steps", inner_steps)
    if l1 is not None:
        l1 = jnp.where(reached, per_client("l1", l1, graph.num_nodes, "node"), 0).astype(x.dtype)
        local = LassoLoss(local, l1, inner_steps)
    return _assembled(graph, local, reached, x, truth)


def networked_logistic(
    graph: Graph,
    features: Sequence[ArrayLike],
    targets: Sequence[ArrayLike],
    *,
    accessible: ArrayLike | None = None,
    scale: str = "mean",
    node_weights: ArrayLike | None = None,
    newton_steps: int | None = None,
    truth: ArrayLike | None = None,
) -> Networked:
    """Build logistic regression on a network: `L_i(w) = mean_j log(1 + exp(-y_ij x_ij^T w))`.

    Args:
      graph: as in `networked_regression`.
      features: as in `networked_regression`.
      targets: one array (samples of that node,) of -1 and 1 per node.
      accessible: as in `networked_regression`.
      scale: as in `networked_regression`.
      node_weights: as in `networked_regression`.
      newton_steps: damped Newton steps per round; 8 if None for a mean, 24 for a sum over
        samples, which needs up to 19 to reach 1e-10.
      truth: as in `networked_regression`.
    """
    x, y, weights, reached = _stacked(graph, features, targets, accessible, scale, node_weights)
    if is_concrete(y):
        check_labels(np.asarray(y), np.asarray(weights) > 0)
    steps = {"mean": 8, "sum": 24}[scale] if newton_steps is None else newton_steps
    local = LogisticLoss(x, y, weights, count("newton_steps", steps))
    return _assembled(graph, local, reached, x, truth)


def networked_training(
    graph: Graph,
    features: ArrayLike,
    targets: ArrayLike,
    sample_loss: Callable[[jax.Array, Any, Any], jax.Array],
    start: ArrayLike,
    *,
    optimizer: Callable[[Any], optax.GradientTransformation] = optax.sgd,
    rate: ArrayLike = 0.1,
    steps: int = 5,
    solo_steps: int = 1000,
    warm: bool = True,
    anchored: bool = True,
    present: ArrayLike | None = None,
    accessible: ArrayLike | None = None,
) -> Networked:
    """Build training of any differentiable model on a network, with inexact updates by optax.

    `L_i(w) = mean_j loss(w, x_ij, y_ij)`. In a round, every node takes `steps` optimiser steps on
    `L_i(z) + ||z - v_i||^2 / (2 tau_i)`.

    Args:
      graph: as in `networked_regression`.
      features: shape (nodes, samples, ...).
      targets: shape (nodes, samples, ...); floats or class numbers.
      sample_loss: `loss(w, x, y) -> scalar` for a flat model w (dim,) and one sample; a
        module-level function. `jax.flatten_util.ravel_pytree` makes any model flat.
      start: first models, shape (nodes, dim) or (dim,) for all. Networks need random ones.
      optimizer: `rate -> optax transformation`, such as `optax.sgd`, `optax.adam`, `optax.rmsprop`;
        for derivatives `partial(optax.adam, eps_root=1e-16)`, as those of Adam are NaN without it
        where a slope is zero.
      rate: the learning rate; a leaf. With plain gradient steps at most `1 / (L + 1 / tau)`.
      steps: optimiser steps per round.
      solo_steps: optimiser steps of a node on its own (isolated nodes, local training).
      warm: start from the previous model; else from v_i.
      anchored: keep the proximal term; without it a node takes plain training steps.
      present: bool, shape (nodes, samples): which samples are there; all if None.
      accessible: as in `networked_regression`.
    """
    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    function_of("sample_loss", sample_loss, "w", "x", "y")
    function_of("optimizer", optimizer, "rate")
    real_array("features", features)
    real_array("targets", targets)
    x, y = jnp.asarray(features), jnp.asarray(targets)
    for name, array in (("features", x), ("targets", y)):
        told = f"must have shape ({graph.num_nodes}, samples, ...), but it has {array.shape}"
        refuse(array.shape[:2] != (graph.num_nodes, *x.shape[1:2]), name, told)
    reached = _reached(accessible, graph.num_nodes)

    def readable(name: str, data: jax.Array) -> jax.Array:
        data = jnp.where(jnp.expand_dims(reached, range(1, data.ndim)), data, 0)
        return finite_array(name, data, (None,) * data.ndim)

    x = readable("features", x)
    if jnp.issubdtype(y.dtype, jnp.floating):
        y = readable("targets", y)
    here = jnp.ones(x.shape[:2], bool) if present is None else jnp.asarray(present, bool)
    of_shape("present", here, x.shape[:2])
    samples = jnp.sum(here, 1)
    every_client("present", (samples > 0) | ~reached, "sample", _INACCESSIBLE, "node")
    shares = here.astype(x.dtype) / jnp.maximum(samples, 1).astype(x.dtype)[:, None]
    real_array("start", start)
    first = jnp.asarray(start, x.dtype)
    if first.ndim == 1:
        first = jnp.broadcast_to(first, (graph.num_nodes, first.shape[0]))
    first = finite_array("start", first, (graph.num_nodes, None))
    local = TrainedLoss(
        x,
        y,
        jnp.where(reached[:, None], shares, 0),
        first,
        number("rate", rate, above=0).astype(x.dtype),
        jnp.asarray(1.0 if flag("anchored", anchored) else 0.0, x.dtype),
        sample_loss,
        optimizer,
        count("steps", steps),
        count("solo_steps", solo_steps),
        flag("warm", warm),
    )
    graph = replace(graph, weights=graph.weights.astype(x.dtype))
    return Networked(graph, local, reached, first)


def draw_networked_regression(
    key: jax.Array,
    graph: Graph,
    truth: ArrayLike,
    *,
    samples: int = 5,
    noise: ArrayLike = 0.0,
    share: ArrayLike = 1.0,
    scale: str = "mean",
) -> Networked:
    """Draw linear regression on a graph: `y = x^T w_i + noise eps`, x and eps standard normal.

    Args:
      key: a typed key. With the same key, a larger share only adds accessible nodes.
      graph: the network.
      truth: every node's true model, shape (nodes, dim).
      samples: per node.
      noise: standard deviation; one draw per sample.
      share: of nodes with accessible data, rounded to whole nodes; a leaf.
      scale: "mean" or "sum" over a node's samples.
    """
    typed_key(key)
    key = one_loop(key)
    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    truth = finite_array("truth", truth, (graph.num_nodes, None))
    noise = scalar("noise", noise, at_least=0).astype(truth.dtype)
    share = scalar("share", share, at_least=0, at_most=1)
    shape = (graph.num_nodes, count("samples", samples))
    feature_key, noise_key, share_key = jax.random.split(key, 3)
    x = jax.random.normal(feature_key, (*shape, truth.shape[1]), truth.dtype)
    exact = jnp.einsum("nmd,nd->nm", x, truth, precision=jax.lax.Precision.HIGHEST)
    y = exact + noise * jax.random.normal(noise_key, shape, truth.dtype)
    rank = jnp.argsort(jax.random.permutation(share_key, graph.num_nodes))
    reached = rank < jnp.round(share * graph.num_nodes).astype(rank.dtype)
    problem = _assembled(
        graph, least_squares(x, y, _shares(shape, scale, x.dtype), 0.0), reached, x, truth
    )
    return with_access(problem, reached)


def with_access(problem: Networked, accessible: ArrayLike, node_weights: Any = None) -> Networked:
    """Return least squares on a network with other accessible nodes, or other node weights.

    Args:
      problem: of `networked_regression` or `draw_networked_regression`, squared loss.
      accessible: bool, shape (nodes,): must not add to those that were accessible.
      node_weights: factors of the nodes' losses, shape (nodes,); all 1 if None.

    Returns:
      The problem; nothing is factored again.

    Raises:
      InputError: the loss is not squared, or the shape does not fit.
    """
    instance("problem", problem, Networked, "a Networked problem")
    local = problem.local
    told = f"must have a squared loss, but it has {type(local).__name__}"
    refuse(not isinstance(local, SquaredLoss), "problem", told, remedy=_ANEW)
    reached = _reached(accessible, problem.num_clients, least=0)
    if is_concrete((reached, problem.accessible)):
        added = np.any(np.asarray(reached) & ~np.asarray(problem.accessible))
        told = "must not add nodes, whose data were not kept"
        refuse(added, "accessible", told, remedy=_ANEW)
    factors = reached.astype(problem.start.dtype)
    if node_weights is not None:
        weights = per_client("node_weights", node_weights, problem.num_clients, "node")
        factors = factors * weights.astype(factors.dtype)
    assert isinstance(local, SquaredLoss)
    weighted = replace(local.weighted(factors), ridge=jnp.where(reached, local.ridge, 0))
    return replace(problem, local=weighted, accessible=reached)


def _assembled(graph, local, reached, x, truth) -> Networked:
    graph = replace(graph, weights=graph.weights.astype(x.dtype))
    nodes, dim = x.shape[0], x.shape[-1]
    if truth is not None:
        truth = finite_array("truth", truth, (nodes, dim)).astype(x.dtype)
    return Networked(graph, local, reached, jnp.zeros((nodes, dim), x.dtype), truth)


def _stacked(graph, features, targets, accessible, scale, node_weights):
    """Pad ragged data and turn scale, access and node weights into sample weights."""
    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    reached = _reached(accessible, graph.num_nodes)
    x, (y,), samples = client_rows(
        features,
        {"targets": targets},
        graph.num_nodes,
        called="node",
        read=np.asarray(reached),
        empty=_INACCESSIBLE,
    )
    squarable("features", jnp.asarray(x))
    squarable("targets", jnp.asarray(y), small=False)
    weights = _shares(y.shape, scale, x.dtype, np.arange(y.shape[1]) < samples[:, None])
    if node_weights is not None:
        factors = finite_array("node_weights", node_weights, (graph.num_nodes,))
        weights = weights * number("node_weights", factors, above=0).astype(x.dtype)[:, None]
    return jnp.asarray(x), jnp.asarray(y), weights, reached


def _shares(shape, scale, dtype, here=None) -> jax.Array:
    """Return the weight of every sample: 1 / m_i or 1, and 0 for padding."""
    one_of("scale", scale, SCALES)
    present = jnp.ones(shape, dtype) if here is None else jnp.asarray(here, dtype)
    return present if scale == "sum" else present / jnp.maximum(jnp.sum(present, -1), 1)[:, None]


def _reached(accessible: ArrayLike | None, nodes: int, least: int = 1) -> jax.Array:
    """Return which nodes are accessible, shape (nodes,), bool; at least so many."""
    if accessible is None:
        return jnp.ones(nodes, bool)
    reached = bool_array("accessible", accessible, (nodes,))
    none = is_concrete(reached) and np.asarray(reached).sum() < least
    refuse(none, "accessible", "must mark at least one node, but it marks none")
    return reached
