"""Components of a graph: which nodes can be reached from which."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, is_concrete, refuse
from fedjax_admm.graphs._graph import Graph


@jax.jit
def components(graph: Graph) -> jax.Array:
    """Find which nodes can be reached from which.

    Labels travel along edges and jump to the labels of their labels, so that even a long chain
    takes few rounds.

    Returns:
      The smallest node of every node's component, shape (nodes,), int32.

    Reference: Y. Shiloach, U. Vishkin, "An O(log n) parallel connectivity algorithm", Journal of
    Algorithms 3, 1982.
    """
    told = f"must be one graph, but it is a stack of shape {graph.heads.shape[:-1]}"
    refuse(graph.heads.ndim != 1, "graph", told, remedy="use jax.vmap over the graphs")
    heads, tails = graph.heads, jnp.where(graph.present, graph.tails, graph.heads)
    nodes = jnp.arange(graph.num_nodes, dtype=jnp.int32)

    def spread(carry):
        labels, _ = carry
        at_heads, at_tails = labels[heads], labels[tails]
        least = jnp.minimum(at_heads, at_tails)
        new = labels.at[heads].min(least).at[tails].min(least)
        new = new.at[at_heads].min(least).at[at_tails].min(least)
        new = new[new]
        return new, jnp.any(new != labels)

    labels, _ = jax.lax.while_loop(lambda carry: carry[1], spread, (nodes, jnp.array(True)))
    return labels


def is_connected(graph: Graph) -> jax.Array:
    """Return whether every node can be reached from every other, shape (), bool."""
    return jnp.all(components(graph) == 0)


def check_connected(graph: Graph) -> None:
    """Check that every node of a graph that is not traced can be reached from every other.

    Raises:
      InputError: a node cannot be reached; the sentence names it.
    """
    labels = components(graph)
    if is_concrete(labels) and np.any(labels):
        labels = np.asarray(labels)
        number, node = np.unique(labels).size, np.flatnonzero(labels)[0]
        told = f"must be connected, but it has {number} components: node {node} cannot be reached"
        remedy = "add edges, or solve every component for itself"
        raise InputError(f"{told} from node 0", "graph", remedy)
