"""Weights by which nodes average with their neighbours."""

import jax
import jax.numpy as jnp

from fedjax_admm._checks import instance
from fedjax_admm.graphs._graph import Graph


def metropolis_weights(graph: Graph) -> jax.Array:
    """Return the Metropolis weights of the edges: `m_kl = 1 / (1 + max(d_k, d_l))`.

    With `m_kk = 1 - sum_l m_kl` they make a symmetric matrix whose rows add up to 1: averaging with
    it, `w - D^T (m D w)`, leaves the mean of all nodes where it is, on any graph.

    Returns:
      Shape (edges,), dtype of the graph's weights, which do not enter; 0 for an absent edge.

    Reference: L. Xiao, S. Boyd, S. Lall, "A Scheme for Robust Distributed Sensor Fusion Based on
    Average Consensus", 2005.
    """
    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    degrees = graph.degrees
    larger = jnp.maximum(degrees[graph.heads], degrees[graph.tails])
    weights = 1 / (1 + larger).astype(graph.weights.dtype)
    return jnp.where(graph.present, weights, 0)
