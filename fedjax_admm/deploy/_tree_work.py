"""What the nodes of a tree remember, and their roles, each for one row of its level."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._run._keys import round_keys
from fedjax_admm.participation import where_active


class Below(NamedTuple):
    """What a server remembers of its children, stacked over them."""

    sent: jax.Array  # shape=(children, dim): the last uploads; times the weights where messages
    # are left as they are
    weights: jax.Array  # shape=(children,)
    up: Any  # of the channel up at the receiver
    down: Any  # of the channel down at the sender
    last: jax.Array  # shape=(1, dim): what the aggregator returned last


class NodeState(NamedTuple):
    """What a node with a parent remembers."""

    clients: Any  # of the solver, with one row, also of a middle node
    up: Any  # of the channel up at the sender
    down: Any  # of the channel down at the receiver
    below: Any = ()  # of a middle node: Below, and in which pass its children were heard


stack = jax.jit(jnp.stack)  # one program; outside of `jit` it is several per key


@partial(jax.jit, static_argnames=("up", "depth", "size"))
def code_key(solver, key, index, level, row, *, up, depth, size):
    """Return the key of a code, as the harness has it."""
    turn, place = jnp.divmod(index, solver.passes)
    key = jax.random.split(round_keys(key, turn)[1], solver.passes)[place]
    key = jax.random.split(key, (2, depth))[0 if up else 1, level]
    keys = solver.exchange.keys_up(key, 0, size)[2] if up else jax.random.split(key, size)
    return keys[row]


@jax.jit
def open_links(solver, model, sent, weights):
    """Return what a server remembers of its children before the first round."""
    listen, init = jax.vmap(solver.exchange.up.listen), jax.vmap(solver.exchange.down.init)
    return Below(sent, weights, listen(sent), init(_copies(model, weights.shape[0])), sent[:1])


@jax.jit
def codes_down(solver, model, links, keys):
    """Return the codes of a server's model, stacked over its children."""
    return jax.vmap(solver.exchange.down.send)(_copies(model, keys.shape[0]), links, keys)[0]


def _received(solver, model, below, active, keys):
    """Return what a server makes of its children's last uploads, and what it remembers then."""
    copies = _copies(model, active.shape[0])
    _, down = jax.vmap(solver.exchange.down.encode)(copies, below.down, keys)
    received, last = solver.receive_with(below.sent, below.weights, below.last)
    return received, below._replace(down=where_active(active, down, below.down), last=last)


@jax.jit
def root_work(solver, model, below, active, keys):
    """Return the root's model after a round, and what it remembers of its children."""
    received, below = _received(solver, model, below, active, keys)
    return solver.root(received), below


@partial(jax.jit, static_argnames=("level", "size"))
def server_work(solver, nodes, below, active, keys, above, row, *, level, size):
    """Return a middle node after a pass, its model, and what it remembers of its children."""
    received, below = _received(solver, solver.model(nodes)[0], below, active, keys)
    nodes = _own(solver.server(level, *_spread((nodes, received, above), size)), row)
    return nodes, solver.model(nodes)[0], below


@partial(jax.jit, static_argnames="passes")
def client_work(solver, problem, nodes, above, *, passes):
    """Return a client after the passes of a work."""
    work = lambda nodes, _: (solver.client(problem, nodes, above), None)  # noqa: E731
    return jax.lax.scan(work, nodes, length=passes)[0]


@partial(jax.jit, static_argnames=("level", "size"))
def send(solver, nodes, up, key, row, *, level, size):
    """Return a node that has sent its upload, its link, the code, and the weight."""
    exchange, upload = solver.exchange, _own(solver.upload(level, _spread(nodes, size)), row)
    value = (upload.weighted if exchange.plain else upload.values)[0]
    arrives, _ = exchange.up.encode(value, up, key)
    code, up = exchange.up.send(value, up, jax.random.clone(key))
    if not exchange.plain:
        values = _copies(arrives, size)
        nodes = _own(solver.apply_decoded(level, _spread(nodes, size), values), row)
    return nodes, up, code, upload.weights[0]


@partial(jax.jit, static_argnames=("level", "size"))
def start(solver, problem, model, row, *, level, size):
    """Return the state before the first round, and the first upload."""
    models, exchange = _copies(model, size), solver.exchange
    rows = solver.start_servers(level, models) if level else solver.start_clients(problem, models)
    nodes, upload = _own((rows, solver.upload(level, rows)), row)
    up, down = exchange.up.init(upload.values[0]), exchange.down.listen(model)
    return NodeState(nodes, up, down), upload


def _copies(array, number):
    return jnp.broadcast_to(array, (number, *array.shape))


def _spread(tree, size):
    """Return rows in all places of a level, whose parameters may differ from place to place."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape[1:])), tree)


def _own(tree, row):
    """Return one row of a level, stacked."""
    return jax.tree.map(lambda x: x[row][None], tree)
