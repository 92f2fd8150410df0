"""What solvers share whose nodes send their models to all neighbours."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.graphs import Graph
from fedjax_admm.solvers._present import copies
from fedjax_admm.traffic import Traffic


class NeighbourSolver:
    """A solver whose nodes, where they take part, send dim numbers to each of their neighbours."""

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return `(nodes,)`."""
        return (problem.num_clients,)

    def traffic(self, problem: Any) -> Traffic:
        """Return dim numbers for every message that is sent along an edge, and received."""
        dim = problem.start.shape[-1]
        return Traffic(up=dim, down=dim)

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Count the neighbours of the nodes that take part, shape (), int32."""
        return jnp.sum(jnp.where(active, problem.graph.degrees, 0), dtype=jnp.int32)


def first_models(problem: Any) -> jax.Array:
    """Return the model that each node starts from, shape (nodes, dim)."""
    return copies(problem.start, problem) if problem.start.ndim == 1 else problem.start


def among_present(graph: Graph, active: jax.Array) -> Graph:
    """Return a graph with the edges alone whose ends are both present; `active` is (nodes,)."""
    working = active[graph.heads] & active[graph.tails]
    return replace(graph, weights=jnp.where(working, graph.weights, 0))
