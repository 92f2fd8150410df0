"""Graphs of nodes that are alike, and how far apart nodes are.

    distances = gaussian_wasserstein(samples)      how much the data of two nodes differ
    nearest_neighbours(distances, 5)               each node and the 5 that are most like it
    threshold(distances, 0.3)                      all pairs that are alike enough
    nearest_neighbours_of_points(points, 5)        sensors on a map

A matrix of distances, shape (nodes, nodes), is symmetric; its diagonal is not read. All functions
can be traced.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    finite_array,
    is_concrete,
    of_shape,
    real_array,
    refuse_entries,
    scalar,
    whole_numbers,
)
from fedjax_admm._host._programs import compiled
from fedjax_admm._linear_algebra import eigh_by_rotations
from fedjax_admm.graphs._graph import Graph, from_matrix, symmetric_matrix
from fedjax_admm.kernels import safe_norm

# Pairs of nodes whose matrices are decomposed at once.
_PAIRS = 4096
_HIGHEST = jax.lax.Precision.HIGHEST


# --- graphs ---


def nearest_neighbours(
    distances: ArrayLike,
    k: int,
    *,
    weight: Callable[[jax.Array], jax.Array] | None = None,
    max_edges: int | None = None,
) -> Graph:
    """Join every node to the nodes nearest to it; an edge is there if either end chose the other.

    Args:
      distances: shape (nodes, nodes), symmetric; of equally distant nodes the smaller one is
        chosen.
      k: how many nodes each one chooses.
      weight: weights of an array of distances, elementwise; exp(-distance) if None. Where it is 0
        there is no edge.
      max_edges: length of the edge list. If None, the number of edges, or n k (all pairs, if these
        are fewer) where the distances are traced.
    """
    matrix = symmetric_matrix("distances", distances)
    num_nodes = matrix.shape[0]
    k = count("k", k, at_most=num_nodes - 1)
    weights = _weights(matrix, _neighbours(matrix, k), weight or _decay)
    if max_edges is None and not is_concrete(weights):
        max_edges = min(num_nodes * k, num_nodes * (num_nodes - 1) // 2)
    return from_matrix(weights, max_edges=max_edges, name="weight(distances)")


def nearest_neighbours_of_points(
    points: ArrayLike,
    k: int,
    *,
    weight: Callable[[jax.Array], jax.Array] | None = None,
    max_edges: int | None = None,
) -> Graph:
    """Join every point to the points nearest to it, by their Euclidean distance.

    Args:
      points: shape (nodes, dim), one point per node.
      k: how many nodes each one chooses.
      weight: as `nearest_neighbours`.
      max_edges: as `nearest_neighbours`.
    """
    distances = _euclidean(finite_array("points", points, (None, None)))
    return nearest_neighbours(distances, k, weight=weight, max_edges=max_edges)


def threshold(distances: ArrayLike, limit: ArrayLike, *, max_edges: int | None = None) -> Graph:
    """Join all nodes whose distance is at most a limit, with the weight 1 / distance.

    Args:
      distances: shape (nodes, nodes), symmetric.
      limit: the largest distance that is joined, positive; may be traced.
      max_edges: length of the edge list. If None, the number of edges, or n (n - 1) / 2 where an
        argument is traced.

    Returns:
      The graph. Distances below the cube root of the smallest normal number (2e-13 in float32)
      count as that, so that traced nodes at distance 0 get a large finite weight.

    Raises:
      InputError: the distances are no symmetric matrix of finite, non-negative numbers, two nodes
        are at distance 0, `limit` is not a positive number, or `max_edges` is too small.
    """
    matrix = symmetric_matrix("distances", distances)
    if is_concrete(distances):
        same = np.triu(np.asarray(matrix) == 0, 1)
        told, remedy = "must be positive between different nodes", "make nodes at distance 0 one"
        refuse_entries(same, "distances", told, matrix, remedy)
    bound = scalar("limit", limit, above=0).astype(matrix.dtype)
    return from_matrix(_joined_within(matrix, bound), max_edges=max_edges)


# --- distances ---


def gaussian_wasserstein(samples: ArrayLike, counts: ArrayLike | None = None) -> jax.Array:
    """Return the squared 2-Wasserstein distances of Gaussians fitted to the nodes' samples.

    Args:
      samples: shape (nodes, samples, dim); a node's sample may hold inputs and labels.
      counts: how many of the samples each node has, shape (nodes,), at least 2; the rows after
        them are ignored. All if None.

    Returns:
      Shape (nodes, nodes), as `gaussian_wasserstein_from_moments`.
    """
    real_array("samples", samples)
    shape = np.shape(samples)
    of_shape("samples", samples, (None, None, None))
    num_nodes, longest, _ = shape
    numbers = _counts(counts, num_nodes, longest)
    there = jnp.arange(longest, dtype=jnp.int32)[None, :, None] < numbers[:, None, None]
    if counts is not None and is_concrete((samples, counts)):
        samples = np.where(np.asarray(there), np.asarray(samples), 0)
    x = finite_array("samples", samples, (None, None, None))
    divisor = numbers.astype(x.dtype)[:, None]
    means = jnp.sum(jnp.where(there, x, 0), axis=1) / divisor
    centred = jnp.where(there, x - means[:, None, :], 0)
    products = jnp.einsum("nma,nmb->nab", centred, centred, precision=_HIGHEST)
    return _wasserstein(means, products / (divisor - 1)[:, :, None])


def gaussian_wasserstein_from_moments(means: ArrayLike, covariances: ArrayLike) -> jax.Array:
    """Return the squared 2-Wasserstein distances of Gaussians.

    For means m and covariances S it is ``||m_i - m_j||^2 + tr(S_i + S_j) - 2 tr((S_i^(1/2) S_j
    S_i^(1/2))^(1/2))``. Eigenvalues below 0 by rounding count as 0.

    Args:
      means: shape (nodes, dim).
      covariances: shape (nodes, dim, dim), symmetric and positive semidefinite.

    Returns:
      Shape (nodes, nodes): exactly symmetric, not negative, with a diagonal of zeros.

    Reference: I. Olkin, F. Pukelsheim, "The distance between two random vectors with given
    dispersion matrices", Linear Algebra and its Applications 48, 1982.
    """
    centres = finite_array("means", means, (None, None))
    num_nodes, dim = centres.shape
    matrices = finite_array("covariances", covariances, (num_nodes, dim, dim))
    if is_concrete(covariances):
        host = np.asarray(matrices)
        largest = np.max(np.abs(host), axis=(1, 2), initial=0)
        difference = np.max(np.abs(host - host.swapaxes(1, 2)), axis=(1, 2), initial=0)
        wrong = difference > 64 * np.finfo(host.dtype).eps * largest
        remedy = "give (S + S.T) / 2"
        refuse_entries(wrong, "covariances", "must be symmetric", host, remedy)
    return _wasserstein(centres, matrices)


@jax.jit
def _wasserstein(means: jax.Array, covariances: jax.Array) -> jax.Array:
    values, vectors = eigh_by_rotations((covariances + covariances.swapaxes(1, 2)) / 2)
    scaled = vectors * _sqrt(values)[:, None, :]
    roots = jnp.matmul(scaled, vectors.swapaxes(1, 2), precision=_HIGHEST)
    traces = jnp.trace(covariances, axis1=1, axis2=2)

    def squared(pair):
        i, j = pair
        inner = jnp.matmul(roots[i], covariances[j], precision=_HIGHEST)
        inner = jnp.matmul(inner, roots[i], precision=_HIGHEST)
        common = jnp.sum(_sqrt(eigh_by_rotations((inner + inner.T) / 2)[0]))
        shift = means[i] - means[j]
        return jnp.sum(shift * shift) + traces[i] + traces[j] - 2 * common

    size = means.shape[0]
    first, second = np.triu_indices(size, 1)
    pairs = (jnp.asarray(first, jnp.int32), jnp.asarray(second, jnp.int32))
    upper = jax.lax.map(squared, pairs, batch_size=_PAIRS)
    half = jnp.zeros((size, size), means.dtype).at[pairs].set(jnp.maximum(upper, 0))
    return half + half.T


@jax.jit
def _euclidean(points: jax.Array) -> jax.Array:
    return safe_norm(points[:, None, :] - points[None, :, :])


def _sqrt(values: jax.Array) -> jax.Array:
    """Return the root of what is positive, else 0, with a derivative of 0 there."""
    positive = values > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, values, 1)), 0)


def _counts(counts: ArrayLike | None, num_nodes: int, longest: int) -> jax.Array:
    if counts is None:
        counts = np.full(num_nodes, longest, np.int32)
    limits = {"at_least": 2, "at_most": longest}
    return jnp.asarray(whole_numbers("counts", counts, (num_nodes,), **limits), jnp.int32)


# --- weights ---


@partial(jax.jit, static_argnames="k")
def _neighbours(distances: jax.Array, k: int) -> jax.Array:
    """Return which nodes are joined because one chose the other, shape (nodes, nodes)."""
    # Distances to the node itself come last, and ties keep the order of the nodes.
    nearest = jnp.argsort(_off_diagonal(distances, jnp.inf), axis=1, stable=True)[:, :k]
    rows = jnp.arange(distances.shape[0])[:, None]
    joined = jnp.zeros(distances.shape, bool).at[rows, nearest].set(True)
    return _off_diagonal(joined | joined.T, False)


def _decay(distances: jax.Array) -> jax.Array:
    """Return exp(-distance), never 0: a chosen neighbour stays one, however far it is."""
    return jnp.maximum(jnp.exp(-distances), jnp.finfo(distances.dtype).tiny)


def _inverse(distances: jax.Array) -> jax.Array:
    """Return 1 / distance, so bounded that squares and sums of weights are finite."""
    return 1 / jnp.maximum(distances, jnp.finfo(distances.dtype).tiny ** (1 / 3))


def _weights(
    distances: jax.Array, joined: jax.Array, weight: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """Return the weights of the nodes that are joined, else 0; NaN if a distance is not finite."""
    # Distances that are not used must not spoil derivatives: 1 / 0 on the diagonal.
    weights = jnp.asarray(weight(jnp.where(joined, distances, 1))).astype(distances.dtype)
    spoilt = jnp.any(~jnp.isfinite(_off_diagonal(distances, 0)))
    return jnp.where(joined, jnp.where(spoilt, jnp.nan, weights), 0)


@compiled
def _joined_within(distances: jax.Array, limit: jax.Array) -> jax.Array:
    joined = _off_diagonal(distances <= limit, False)
    return _weights(distances, joined, _inverse)


def _off_diagonal(matrix: jax.Array, value: float | bool) -> jax.Array:
    """Replace the diagonal."""
    return jnp.where(jnp.eye(matrix.shape[0], dtype=bool), value, matrix)
