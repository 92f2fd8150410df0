"""Nodes of a graph with quadratic losses, whose every answer is known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import graphs, kernels
from fedjax_admm._pytrees import pytree_dataclass
from tests.reference import graph_peers as reference


@pytree_dataclass
class NodeQuadratics:
    """`f_i(x) = sum_p h_ip (x_p - b_ip)^2 / 2 + lasso ||x||_1`; the gradient is of the square."""

    h: jax.Array  # shape=(nodes, dim)
    b: jax.Array  # shape=(nodes, dim)
    lasso: jax.Array  # shape=(): of the prox and the values only
    graph: graphs.Graph
    start: jax.Array  # shape=(nodes, dim)

    @property
    def num_clients(self) -> int:
        return len(self.b)

    def values(self, points: jax.Array) -> jax.Array:
        squares = self.h * (points - self.b) ** 2 / 2
        return jnp.sum(squares + self.lasso * jnp.abs(points), -1)

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        return self.h * (points - self.b)

    def minimizers(self) -> jax.Array:
        return kernels.soft_threshold(self.h * self.b, self.lasso) / self.h

    def prox_memory(self, start: jax.Array) -> Any:
        return ()

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        weight = 1 / step[:, None]
        pulled = self.h * self.b + weight * points
        return kernels.soft_threshold(pulled, self.lasso) / (self.h + weight), memory

    def take(self, clients: jax.Array) -> "NodeQuadratics":
        return NodeQuadratics(
            self.h[clients], self.b[clients], self.lasso, self.graph, self.start[clients]
        )


def nodes(
    *, lasso: float = 0.0, scale: float = 1.0, start: Any = None, edges: Any = reference.EDGES
) -> NodeQuadratics:
    """Return the problem of the reference, with an absent edge in its list."""
    h, b = map(jnp.asarray, reference.curvatures_and_centres(scale))
    first = jnp.zeros_like(b) if start is None else jnp.asarray(start, b.dtype)
    graph = graphs.from_edges(len(b), edges, max_edges=len(edges) + 1)
    return NodeQuadratics(h, b, jnp.asarray(lasso, b.dtype), graph, first)


def first_models() -> np.ndarray:
    """Return models to start from that agree in nothing."""
    return np.random.default_rng(4).standard_normal((reference.NODES, reference.DIM))


def models(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure the models of all nodes."""
    return {"x": solver.estimate(state)}
