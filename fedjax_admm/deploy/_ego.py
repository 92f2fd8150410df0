"""A graph as one of its nodes sees it, and a round of a solver there.

A node keeps its own row, and a row of what it has received from every neighbour: its *ego graph*
has the node, its neighbours and the edges between it and them. The harness of `solvers._graph` runs
there unchanged. Neighbours are played by what they have sent; degrees are those of the whole graph.
All nodes of a graph have arrays of the same shapes, so that one program serves all: absent members
and edges fill up those of nodes with fewer neighbours than the largest degree D.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._keys import round_keys
from fedjax_admm.graphs import Graph
from fedjax_admm.participation import where_active
from fedjax_admm.solvers import Heard, LetterSolver


@pytree_dataclass
class View(Graph):
    """A graph as one of its nodes sees it: of an ego graph, the node and its neighbours.

    Its nodes, the members, know their degrees in the whole graph. Those of an ego graph are in
    places 0 to D in the order of their numbers, and then come fillers, as at the end of its edges.
    """

    whole_degrees: jax.Array  # shape=(members,), int32
    whole_mean: jax.Array  # shape=()
    # Of an ego graph alone:
    number: Any = ()  # shape=(), int32: of the node
    place: Any = ()  # shape=(), int32: of the node among the members
    members: Any = ()  # shape=(D + 1,), int32: their numbers
    edges: Any = ()  # shape=(D,), int32: places in the edge list of the whole graph
    ends: Any = ()  # shape=(D,), int32: 0 where the node is the head of an edge, 1 for the tail

    @property
    def degrees(self) -> jax.Array:
        """Return the number of neighbours of every member, shape (members,), int32."""
        return self.whole_degrees

    @property
    def mean_degree(self) -> jax.Array:
        """Return the mean degree in the whole graph, shape ()."""
        return self.whole_mean


class NodeState(NamedTuple):
    """What a node remembers between rounds."""

    nodes: Any  # of the solver, with one row
    edges: Any  # of the solver, stacked over the edges of the ego graph
    known: jax.Array  # shape=(D + 1, dim): what was received last of every member
    last: jax.Array  # shape=(D + 1, dim): what the aggregator made last; the node's row counts
    up: Any  # of the channel at the sender, stacked over its messages: one, or all letters
    held: Any  # of the channel at the receiver, stacked over members, or over letters
    curvature: jax.Array  # shape=(): the largest of all nodes

    exchange = property(lambda self: self)  # what is known, where the harness looks for it


class Sent(NamedTuple):
    """A node's own part of a round, which counts if its message is received in time."""

    nodes: Any  # after the work; before it where nodes send first
    last: jax.Array  # of the aggregator
    up: Any  # of the channel
    arrives: jax.Array  # shape=(1, dim), or (D, dim) of letters: what the neighbours will read


def neighbours_of(graph: Graph) -> list[np.ndarray]:
    """Return the numbers of the neighbours of every node, in increasing order."""
    there = np.asarray(graph.present)
    heads, tails = np.asarray(graph.heads)[there], np.asarray(graph.tails)[there]
    return [np.union1d(tails[heads == i], heads[tails == i]) for i in range(graph.num_nodes)]


def ego_of(graph: Graph, number: int) -> View:
    """Return the ego graph of a node, whose fillers have the weight 0."""
    heads, tails, weights = (np.asarray(x) for x in (graph.heads, graph.tails, graph.weights))
    own = np.flatnonzero(((heads == number) | (tails == number)) & (weights != 0))
    degrees = np.asarray(graph.degrees)
    most = max(int(np.max(degrees)), 1)
    members = np.union1d(np.concatenate([heads[own], tails[own]]), [number]).astype(np.int32)

    # NumPy arrays in the place of those of JAX: nothing is compiled for them.
    def filled_up(values: Any, filler: int) -> Any:
        return np.pad(np.int32(values), (0, most - len(own)), constant_values=filler)

    numbers = filled_up(members, number)
    padded: Any = np.pad(weights[own], (0, most - len(own)))
    mean: Any = np.asarray(graph.mean_degree)
    whole: Any = degrees[numbers]
    return View(
        filled_up(np.searchsorted(members, heads[own]), most),
        filled_up(np.searchsorted(members, tails[own]), most),
        padded,
        most + 1,
        whole,
        mean,
        np.int32(number),
        np.int32(np.searchsorted(members, number)),
        numbers,
        filled_up(own, 0),
        filled_up(tails[own] == number, 0),
    )


def view_of_node(graph: Graph, number: int) -> View:
    """Return what stands for the graph in the problem of one node: its degree, and how many are."""
    none, degrees = graph.heads[:0], graph.degrees
    own, weights = degrees[number : number + 1], graph.weights[:0]
    return View(none, none, weights, graph.num_nodes, own, graph.mean_degree)


@jax.jit
def first_message(solver, problem, curvature):
    """Return what a node sends before the first round, shape (dim,)."""
    solver = solver.at(curvature)
    return solver.message(_first(solver, problem))[0]


@jax.jit
def opened(solver, problem, graph, ego, curvature, models):
    """Return the state before the first round.

    Args:
      solver: the solver.
      problem: of the node.
      graph: the whole one.
      ego: of the node.
      curvature: shape ().
      models: the first messages of all members, shape (D + 1, dim).
    """
    solver = solver.at(curvature)
    everyone, channel = jnp.ones(graph.num_nodes, bool), solver.exchange.up
    edges = solver.start_edges(_view(solver, graph, ego, everyone), models)
    sent, _, _ = _outgoing(solver, graph, ego, models[ego.place][None], edges)
    received = models
    if isinstance(solver, LetterSolver):
        letters = solver.letter(models[jnp.stack([ego.heads, ego.tails], 1)], edges)
        received = _own(letters, 1 - ego.ends)
    up, held = jax.vmap(channel.init)(sent), jax.vmap(channel.listen)(received)
    return NodeState(_first(solver, problem), edges, models, models, up, held, curvature)


@jax.jit
def said(solver, problem, graph, ego, state, index, key, work_key):
    """Return a node's own part of a round, and the codes that it sends.

    Args:
      solver: the solver.
      problem: of the node.
      graph: the whole one.
      ego: of the node.
      state: with all rounds before.
      index: of the round, shape (), int32.
      key: of the run.
      work_key: of the work, where it is not the key of the round.
    """
    solver = solver.at(state.curvature)
    _, key = round_keys(key, index)
    nodes, last = state.nodes, state.last
    if not solver.speaks_first:
        view = _view(solver, graph, ego, jnp.ones(graph.num_nodes, bool))
        here = jnp.ones(ego.members.shape, bool)
        heard, last = solver.hear(view, state.edges, state.known, last, here)
        nodes = _worked(solver, problem, ego, nodes, heard, key if work_key is None else work_key)
    channel, rows = solver.exchange.up, solver.message(nodes)
    rows, places, number = _outgoing(solver, graph, ego, rows, state.edges)
    keys = solver.exchange.keys_up(key, 0, number)[2][places]
    arrives, _ = jax.vmap(channel.encode)(rows, state.up, keys)
    codes, up = jax.vmap(channel.send)(rows, state.up, jax.random.clone(keys))
    return Sent(nodes, last, up, arrives), codes


@jax.jit
def ended(solver, problem, graph, ego, state, own, present, arrived, index, key):
    """Return the state after a round, once it is known who was there.

    Args:
      solver: the solver.
      problem: of the node.
      graph: the whole one.
      ego: of the node.
      state: before the round.
      own: the node's part, a `Sent`; it does not count where the node was absent.
      present: who was heard, bool, shape (all nodes,).
      arrived: what the neighbours sent, (D + 1, dim) by members, or (D, dim) of letters by edges.
      index: of the round, shape (), int32.
      key: of the run.
    """
    solver = solver.at(state.curvature)
    _, key = round_keys(key, index)
    view, active = _view(solver, graph, ego, present), present[ego.members]
    mine = active[ego.place]
    nodes, known, last = own.nodes, state.known, jnp.where(mine, own.last, state.last)
    if isinstance(solver, LetterSolver):
        at_head = (ego.ends == 0)[:, None]
        heads, tails = (jnp.where(x, own.arrives, arrived) for x in (at_head, ~at_head))
        there = active[jnp.stack([ego.heads, ego.tails], 1)]
        arrived = jnp.stack([heads, tails], 1), there
    else:
        arrived = known = where_active(active, arrived.at[ego.place].set(own.arrives[0]), known)
    heard = Heard(state.known, (), (), (), ())
    if solver.speaks_first:
        heard, last = solver.hear(view, state.edges, known, state.last, active)
        nodes = _worked(solver, problem, ego, state.nodes, heard, key)
    nodes, up = (
        jax.tree.map(lambda a, b: jnp.where(mine, a, b), new, old)
        for new, old in ((nodes, state.nodes), (own.up, state.up))
    )
    edges = solver.tell(view, state.edges, heard, arrived, active)
    return state._replace(nodes=nodes, edges=edges, known=known, last=last, up=up)


def estimate(solver: Any, ego: View, state: NodeState) -> jax.Array:
    """Return the node's row of the estimate of a run, shape (dim,)."""
    own = state._replace(known=state.known[ego.place][None])
    return solver.estimate(own)[0]


@jax.jit
def code_keys(solver, problem, graph, ego, index, key):
    """Return the keys of the codes of a round that arrive, by members, or of letters by edges."""
    places, number = ego.members, graph.num_nodes
    if isinstance(solver, LetterSolver):  # a letter has the key of the end from which it comes
        places, number = 2 * ego.edges + 1 - ego.ends, 2 * graph.num_edges
    return solver.exchange.keys_up(round_keys(key, index)[1], 0, number)[2][places]


def _first(solver: Any, problem: Any) -> Any:
    return solver.start_nodes(problem, solver.first_models(problem)[:1])


def _outgoing(solver, graph, ego, message, edges):
    """Return what a node sends, stacked, the places of its codes in a round, and how many it has.

    It is the message, shape (1, dim), or a letter for every neighbour, shape (D, dim).
    """
    if not isinstance(solver, LetterSolver):
        return message, ego.number[None], graph.num_nodes
    ends = jnp.broadcast_to(message, (*edges.shape[:2], *message.shape[1:]))
    letters = _own(solver.letter(ends, edges), ego.ends)
    return letters, 2 * ego.edges + ego.ends, 2 * graph.num_edges


def _worked(solver, problem, ego, nodes, heard, key):
    own = jax.tree.map(lambda row: row[ego.place][None], heard)
    return solver.node(problem, nodes, own, key)


def _view(solver: Any, graph: Graph, ego: View, active: jax.Array) -> View:
    """Return the ego graph; where nodes send first, degrees are those among the present."""
    return replace(ego, whole_degrees=solver.heard_along(graph, active).degrees[ego.members])


def _own(letters: jax.Array, ends: jax.Array) -> jax.Array:
    """Return the letters (D, 2, dim) at one end of every edge, shape (D, dim)."""
    return jnp.where((ends == 0)[:, None], letters[:, 0], letters[:, 1])
