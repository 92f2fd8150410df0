"""Incidence of a graph: differences along edges, divergence at nodes, degrees.

An undirected graph with n nodes and E edges is two index lists, heads and tails. Its incidence
operator maps node values to edge values, `(D w)_e = w_head - w_tail`, and is never stored.
"""

import jax.numpy as jnp
from jax import Array
from jax.ops import segment_sum


def edge_difference(w: Array, heads: Array, tails: Array) -> Array:
    """Differences of node values along edges, `(D w)_e = w_{h_e} - w_{t_e}`.

    Args:
      w: node values, shape (nodes, ...).
      heads: node at which each edge begins, shape (edges,), int32.
      tails: node at which it ends, shape (edges,), int32.

    Returns:
      Edge values, shape (edges, ...), dtype of `w`; 0 along a loop.

    Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
    Generalized Total Variation Minimization", 2023 (the incidence operator D).
    """
    return w[heads] - w[tails]


def node_divergence(u: Array, heads: Array, tails: Array, num_nodes: int) -> Array:
    """Net flow out of every node, `(D^T u)_i = sum_{h_e = i} u_e - sum_{t_e = i} u_e`.

    The adjoint of `edge_difference`. Sums run in the order of the edges; those at heads are two, of
    even and of odd edges, which are added.

    Args:
      u: edge values, shape (edges, ...).
      heads: node at which each edge begins, shape (edges,), int32, in increasing order.
      tails: node at which it ends, shape (edges,), int32.
      num_nodes: number of nodes.

    Returns:
      Node values, shape (num_nodes, ...), dtype of `u`; 0 where no edge ends.

    Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
    Generalized Total Variation Minimization", 2023 (the adjoint of D).
    """
    # Sorted heads name a node many times in a row, and each addition to a sum waits for the one
    # before. With two sums there is half as much to wait for.
    odd = jnp.arange(len(heads), dtype=heads.dtype) % 2
    halves = segment_sum(u, 2 * heads + odd, num_segments=2 * num_nodes)
    halves = halves.reshape(num_nodes, 2, *u.shape[1:])
    out = halves[:, 0] + halves[:, 1]
    return out - segment_sum(u, tails, num_segments=num_nodes)


def degrees(heads: Array, tails: Array, num_nodes: int, present: Array | None = None) -> Array:
    """Number of edges at every node.

    Args:
      heads: node at which each edge begins, shape (edges,), int32, in increasing order.
      tails: node at which it ends, shape (edges,), int32.
      num_nodes: number of nodes.
      present: which edges count, shape (edges,), bool; all if None.

    Returns:
      Degrees, shape (num_nodes,), int32.

    Reference: R. Diestel, "Graph Theory", 5th edition, Springer 2017, section 1.2.
    """
    ones = jnp.ones(heads.shape, jnp.int32) if present is None else present.astype(jnp.int32)
    at_heads = segment_sum(ones, heads, num_segments=num_nodes, indices_are_sorted=True)
    return at_heads + segment_sum(ones, tails, num_segments=num_nodes)
