"""Random graphs, also inside jit and vmap over keys.

    stochastic_block_model(key, [100, 100], 0.5, 0.01)     two blocks of nodes
    erdos_renyi(key, 50, 0.1)                              every pair alike, and connected
    connected_graph(key, 50, 75)                           75 edges, every such graph alike

A probability may be traced, if the length of the edge list is given.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    default_float,
    is_concrete,
    refuse,
    scalar,
    several,
    typed_key,
)
from fedjax_admm._threefry import one_loop
from fedjax_admm.graphs._components import is_connected
from fedjax_admm.graphs._graph import Graph, check_room, join_pairs

# Attempts to draw a connected graph.
_DRAWS = 1000
_EDGE_DRAWS = 10_000


def block_labels(sizes: Sequence[int]) -> jax.Array:
    """Return the block of every node of a stochastic block model, shape (sum(sizes),), int32."""
    checked = _sizes(sizes)
    return jnp.asarray(np.repeat(np.arange(len(checked)), checked), jnp.int32)


def stochastic_block_model(
    key: jax.Array,
    sizes: Sequence[int],
    p_in: ArrayLike,
    p_out: ArrayLike,
    *,
    max_edges: int | None = None,
) -> Graph:
    """Draw a graph whose nodes are joined more often inside blocks than between them.

    Args:
      key: typed key.
      sizes: number of nodes of each block; the nodes of a block are consecutive, as `block_labels`
        tells.
      p_in: probability of an edge of two nodes of one block; may be traced.
      p_out: probability of an edge of two nodes of different blocks; may be traced.
      max_edges: length of the edge list. If None, the expected number of edges and 8 standard
        deviations and 22 more, which one draw in 10^13 exceeds; all pairs where a probability is
        traced.

    Returns:
      The graph, all weights 1.

    Raises:
      InputError: a size is not a positive whole number, a probability is not between 0 and 1, or
        `max_edges` is too small for the draw (under a transformation, all weights are NaN then).

    Reference: P. W. Holland, K. B. Laskey, S. Leinhardt, "Stochastic blockmodels: first steps",
    Social Networks 5, 1983.
    """
    typed_key(key)
    key = one_loop(key)
    checked = _sizes(sizes)
    inside = sum(size * (size - 1) // 2 for size in checked)
    pairs = sum(checked) * (sum(checked) - 1) // 2
    near, far = _probability("p_in", p_in), _probability("p_out", p_out)
    room = _room(max_edges, [(inside, p_in), (pairs - inside, p_out)])
    graph, edges = _draw_blocks(key, near, far, checked, room)
    check_room(edges, room)
    return graph


def erdos_renyi(key: jax.Array, n: int, p: ArrayLike, *, max_edges: int | None = None) -> Graph:
    """Draw a connected graph in which every pair of nodes is joined with the same probability.

    Graphs G(n, p) are drawn until one is connected, 1000 times at most.

    Args:
      key: typed key.
      n: number of nodes.
      p: probability of an edge; may be traced. Well above log(n) / n, most draws are connected.
      max_edges: length of the edge list. If None, the expected number of edges of one draw and 8
        standard deviations and 22 more; all pairs where `p` is traced.

    Returns:
      The graph, all weights 1.

    Raises:
      InputError: `n` is not a positive whole number, `p` is not between 0 and 1 or too small, or
        `max_edges` is too small for the draw (under a transformation, all weights are NaN where one
        of the last two holds).

    Reference: E. N. Gilbert, "Random graphs", Annals of Mathematical Statistics 30, 1959.
    """
    typed_key(key)
    key = one_loop(key)
    n = count("n", n)
    probability = _probability("p", p)
    room = _room(max_edges, [(n * (n - 1) // 2, p)])
    graph, edges, connected = _draw_connected(key, probability, n, room)
    check_room(edges, room)
    if is_concrete(connected):
        told = f"must be larger: none of {_DRAWS} draws was connected"
        remedy = f"for {n} nodes take p above log(n)/n = {math.log(n) / n:.3g}"
        refuse(not connected, "p", told, remedy=remedy)
    return graph


def connected_graph(key: jax.Array, n: int, num_edges: int) -> Graph:
    """Draw a graph uniformly among all connected graphs with so many nodes and edges.

    Sets of edges are drawn until one connects all nodes, 10000 times at most: quick where the mean
    degree is well above log(n), a few dozen draws for 50 nodes with mean degree 3.

    Args:
      key: typed key.
      n: number of nodes.
      num_edges: number of edges, at least n - 1.

    Returns:
      The graph, all weights 1.

    Raises:
      InputError: a number is out of range, or no draw was connected (under a transformation, all
        weights are NaN then).

    Reference: P. Erdos, A. Renyi, "On random graphs I", Publicationes Mathematicae 6, 1959.
    """
    typed_key(key)
    key = one_loop(key)
    n = count("n", n)
    num_edges = count("num_edges", num_edges, at_least=n - 1, at_most=n * (n - 1) // 2)
    graph, _, connected = _draw_edges(key, n, num_edges)
    if is_concrete(connected):
        told = f"must be larger: none of {_EDGE_DRAWS} draws joined all {n} nodes"
        remedy = f"take about n log(n) / 2 = {math.ceil(n * math.log(n) / 2)}"
        refuse(not connected, "num_edges", told, remedy=remedy)
    return graph


def _until_connected(
    key: jax.Array, draw: Callable[[jax.Array], tuple[Graph, jax.Array]], room: int, attempts: int
) -> tuple[Graph, jax.Array, jax.Array]:
    """Draw graphs, and their numbers of edges, until one is connected or has no room for its edges.

    Returns:
      The last graph, its weights NaN if it is not connected; its number of edges; and whether it is
      connected.
    """

    def attempt(number):
        graph, edges = draw(jax.random.fold_in(key, number))
        return number + 1, graph, edges, is_connected(graph)

    def unfinished(carry):
        number, _, edges, connected = carry
        return (number < attempts) & ~connected & (edges <= room)

    # Only the shapes of the first graph count: the loop draws at least once.
    shapes = jax.eval_shape(attempt, jnp.array(0, jnp.int32))
    first = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), shapes)
    _, graph, edges, connected = jax.lax.while_loop(
        unfinished, lambda carry: attempt(carry[0]), first
    )
    weights = jnp.where(connected, graph.weights, jnp.nan)
    return Graph(graph.heads, graph.tails, weights, graph.num_nodes), edges, connected


@partial(jax.jit, static_argnames=("n", "num_edges"))
def _draw_edges(key: jax.Array, n: int, num_edges: int) -> tuple[Graph, jax.Array, jax.Array]:
    """Draw so many edges until they connect all nodes."""
    pairs = np.triu_indices(n, 1)
    heads, tails = (jnp.asarray(ends, jnp.int32) for ends in pairs)
    weights, number = jnp.ones(num_edges, default_float()), jnp.array(num_edges, jnp.int32)

    def draw(key):
        order = jax.random.permutation(key, pairs[0].size)
        places = jnp.sort(order[:num_edges])
        return Graph(heads[places], tails[places], weights, n), number

    return _until_connected(key, draw, num_edges, _EDGE_DRAWS)


def _draw(key: jax.Array, probabilities: jax.Array, max_edges: int) -> tuple[Graph, jax.Array]:
    draws = jax.random.uniform(key, probabilities.shape, probabilities.dtype)
    return join_pairs(draws < probabilities, jnp.ones_like(draws), max_edges)


@partial(jax.jit, static_argnames=("sizes", "max_edges"))
def _draw_blocks(
    key: jax.Array, p_in: jax.Array, p_out: jax.Array, sizes: tuple[int, ...], max_edges: int
) -> tuple[Graph, jax.Array]:
    labels = block_labels(sizes)
    same = labels[:, None] == labels[None, :]
    return _draw(key, jnp.where(same, p_in, p_out), max_edges)


@partial(jax.jit, static_argnames=("n", "max_edges"))
def _draw_connected(
    key: jax.Array, p: jax.Array, n: int, max_edges: int
) -> tuple[Graph, jax.Array, jax.Array]:
    """Draw pairs with a probability until they connect all nodes."""
    return _until_connected(
        key, lambda key: _draw(key, jnp.full((n, n), p), max_edges), max_edges, _DRAWS
    )


def _room(max_edges: int | None, numbers: Sequence[tuple[int, ArrayLike]]) -> int:
    """Return the length of the edge list for pairs that are joined with some probability.

    A sum of independent draws exceeds its mean by t with probability at most
    exp(-t^2 / (2 variance + 2 t / 3)) (Bernstein), below exp(-32) for the t used here.

    Args:
      max_edges: what the user asked for.
      numbers: how many pairs, and their probability.
    """
    if max_edges is not None:
        return count("max_edges", max_edges, at_least=0)
    pairs = sum(number for number, _ in numbers)
    if not all(is_concrete(p) for _, p in numbers):
        return pairs
    known = [(number, np.asarray(p).item()) for number, p in numbers]
    mean = sum(number * p for number, p in known)
    variance = sum(number * p * (1 - p) for number, p in known)
    return min(pairs, math.ceil(mean + 8 * math.sqrt(variance) + 22))


def _probability(name: str, value: ArrayLike) -> jax.Array:
    return scalar(name, value, at_least=0, at_most=1).astype(default_float())


def _sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    several("sizes", sizes, "numbers of nodes")
    return tuple(count(f"sizes[{i}]", size) for i, size in enumerate(sizes))
