"""What the nodes of a tree remember, and their roles, each for one row of its level."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm import trees
from fedjax_admm._run._keys import round_keys
from fedjax_admm.messages import ChannelState
from fedjax_admm.participation import where_active
from fedjax_admm.solvers._messages import stacked
from fedjax_admm.solvers._tree import HierarchyState, TreeExchange, TreeUpload


class Below(NamedTuple):
    """What a server remembers of its children, stacked over them."""

    sent: jax.Array  # shape=(children, dim): the last uploads; times the weights where messages
    # are left as they are
    weights: jax.Array  # shape=(children,)
    up: Any  # of the channel up at the receiver
    down: Any  # of the channel down at the sender
    last: jax.Array  # shape=(1, dim): what the aggregator returned last
    heard: jax.Array  # shape=(children,), int32: one more than the pass; 0 for never


class NodeState(NamedTuple):
    """What a node remembers."""

    nodes: Any  # of the solver, with one row; of the root its model, shape (1, dim)
    up: Any  # of the channel up at the sender
    down: Any  # of the channel down at the receiver
    below: Any  # Below; () of a client


class _Uploads:
    """The roles of children, played by what they have sent: their state is their upload."""

    def upload(self, level, nodes):
        return nodes


def _gather(solver, model, below, active, keys):
    """Return what a server makes of its children's last uploads, and what it remembers then.

    The harness computes it, for a star whose clients are the children.
    """
    number, exchange = below.weights.shape[0], solver.exchange
    _, down = jax.vmap(exchange.down.encode)(stacked(model, number), below.down, keys)
    below = below._replace(down=where_active(active, down, below.down))
    receiver = object.__new__(type("Receiver", (_Uploads, type(solver)), {}))
    receiver.__dict__.update(vars(solver))
    state = HierarchyState(model, (), TreeUpload(below.sent, below.weights, below.sent))
    if not exchange.plain:
        up = ChannelState((), (), (), below.sent, below.weights, jnp.zeros(number, bool), ())
        state = state._replace(exchange=TreeExchange((up,), (), (below.last,)))
    received, state = receiver._receive(trees.star(number), state, 0)
    if exchange.plain:
        return received, below
    return received, below._replace(last=state.exchange.last[0])


def _spread(tree, size):
    """Return rows in all places of a level, whose parameters may differ from place to place."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape[1:])), tree)


def _own(tree, row):
    """Return one row of a level, stacked."""
    return jax.tree.map(lambda x: x[row][None], tree)


@partial(jax.jit, static_argnames=("way", "depth", "size"))
def code_key(solver, key, index, level, row, *, way, depth, size):
    """Return the key of a code, as the harness has it."""
    turn, place = jnp.divmod(index, solver.passes)
    key = jax.random.split(round_keys(key, turn)[1], solver.passes)[place]
    key = jax.random.split(key, (2, depth))[way, level]
    if way == 0:
        return solver.exchange.keys_up(key, 0, size)[2][row]
    return jax.random.split(key, size)[row]


@jax.jit
def open_links(solver, model, sent, weights):
    """Return what a server remembers of its children before the first round."""
    number, exchange = weights.shape[0], solver.exchange
    return Below(
        sent,
        weights,
        jax.vmap(exchange.up.listen)(sent),
        jax.vmap(exchange.down.init)(stacked(model, number)),
        sent[:1],
        jnp.zeros(number, jnp.int32),
    )


@jax.jit
def codes_down(solver, model, links, keys):
    """Return the codes of a server's model, stacked over its children."""
    copies = stacked(model, keys.shape[0])
    return jax.vmap(solver.exchange.down.send)(copies, links, keys)[0]


@jax.jit
def root_work(solver, model, below, active, keys):
    """Return the root's model after a round, and what it remembers of its children."""
    received, below = _gather(solver, model, below, active, keys)
    return solver.root(received), below


@partial(jax.jit, static_argnames=("level", "size"))
def server_work(solver, state, active, keys, above, row, *, level, size):
    """Return the state of a middle node after a pass."""
    model = solver.model(state.nodes)[0]
    received, below = _gather(solver, model, state.below, active, keys)
    rows = _spread((state.nodes, received, above), size)
    return state._replace(nodes=_own(solver.server(level, *rows), row), below=below)


@partial(jax.jit, static_argnames="passes")
def client_work(solver, problem, state, above, key, *, passes):
    """Return a client after the passes of a work, and what it sends."""

    def work(nodes, _):
        return solver.client(problem, nodes, above), None

    nodes, _ = jax.lax.scan(work, state.nodes, length=passes)
    return send(solver, nodes, state.up, key, 0, level=0, size=1)


@partial(jax.jit, static_argnames=("level", "size"))
def send(solver, nodes, up, key, row, *, level, size):
    """Return a node that has sent its upload, its link, the code, and the weight."""
    exchange, upload = solver.exchange, _own(solver.upload(level, _spread(nodes, size)), row)
    value = (upload.weighted if exchange.plain else upload.values)[0]
    arrives, _ = exchange.up.encode(value, up, key)
    code, up = exchange.up.send(value, up, jax.random.clone(key))
    if not exchange.plain:
        values = stacked(arrives, size)
        nodes = _own(solver.apply_decoded(level, _spread(nodes, size), values), row)
    return nodes, up, code, upload.weights[0]


@jax.jit
def start_client(solver, problem, model):
    """Return the state before the first round, and the first upload."""
    nodes = solver.start_clients(problem, stacked(model, 1))
    return _first(solver, nodes, model, (), solver.upload(0, nodes))


@partial(jax.jit, static_argnames=("level", "size"))
def start_server(solver, model, below, row, *, level, size):
    """Return the state before the first round, and the first upload."""
    rows = solver.start_servers(level, stacked(model, size))
    nodes, upload = _own((rows, solver.upload(level, rows)), row)
    return _first(solver, nodes, model, below, upload)


def _first(solver, nodes, model, below, upload):
    up = solver.exchange.up.init(upload.values[0])
    return NodeState(nodes, up, solver.exchange.down.listen(model), below), upload
