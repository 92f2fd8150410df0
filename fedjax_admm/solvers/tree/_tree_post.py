r"""What happens to the messages of a tree, level by level.

Node n sends its copy q_n of the parent's model and the multiplier Gamma_n in one upload:

    u_n = q_n - Gamma_n / sigma_n, with the weight sigma_n;   sigma_n u_n = sigma_n q_n - Gamma_n

A server keeps what it heard last of its children, clients and servers alike, and in the place of
the sum over them stands

    sum_c (sigma_c q_c - Gamma_c)  ->  (sum_c sigma_c) Agg_sigma(u^_c : c in C)

u^ is what is left of u on its way. An honest node takes half of the loss into its copy and half
into its multiplier,

    q <- q - (u - u^) / 2,    Gamma <- Gamma + sigma (u - u^) / 2,    and Lambda = -Gamma,

so that its upload is u^ and both ends hold the same.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._shown import short_repr
from fedjax_admm.messages import ChannelState, Exchange, Identity
from fedjax_admm.participation import where_active
from fedjax_admm.solvers.tree._links import TreeLink, TreeNodes
from fedjax_admm.trees import Tree


@short_repr
class Reading(NamedTuple):
    """What the nodes of a level read of their parents."""

    link: Any  # what the channel remembers, of every node
    model: jax.Array  # shape=(nodes, dim): what was read last


@short_repr
class TreePost(NamedTuple):
    """What a tree remembers of its messages: of the clients, then of the servers level by level."""

    up: tuple[
        ChannelState, ...
    ]  # `last` of a level of servers is that of their parents, `last` of the
    # clients that of the deepest servers
    down: tuple[Reading | tuple[()], ...]  # nothing where models arrive as they are


def open_tree_post(
    exchange: Exchange, key: jax.Array, tree: Tree, start: jax.Array, weights: list[jax.Array]
) -> TreePost | tuple[()]:
    """Return the post before the first round; nothing where nothing happens to messages.

    Args:
      exchange: of the solver.
      key: of `init`; liars are drawn from it.
      tree: the tree.
      start: what every upload and every model is at the start, shape (dim,).
      weights: of the uploads, shape (nodes,), as levels stand in the post.
    """
    if exchange.plain:
        return ()
    receivers = [tree.level_sizes[-1], *tree.level_sizes[:-1]]
    boxes, readings = [], []
    for bad, weight, number in zip(_liars(exchange, key, tree), weights, receivers, strict=True):
        values = _copies(start, weight.shape[0])
        box = exchange.init_up(key, values, weight, 0, bad)
        boxes.append(box._replace(last=_copies(start, number)))
        if isinstance(exchange.down, Identity):
            readings.append(())
        else:
            readings.append(Reading(jax.vmap(exchange.down.init)(values), values))
    return TreePost(tuple(boxes), tuple(readings))


def send_up(
    exchange: Exchange,
    key: jax.Array,
    index: jax.Array,
    box: ChannelState,
    link: TreeLink,
    nodes: TreeNodes,
    speaks: jax.Array,
) -> tuple[TreeNodes, ChannelState]:
    """Let nodes of a level send, and return what they hold then, and the box.

    Args:
      exchange: of the solver.
      key: for this level in this pass alone.
      index: of the pass, shape (), int32.
      box: of the level.
      link: of the level.
      nodes: of the level.
      speaks: who sends, bool, shape (nodes,).
    """
    uploads, sigma = link.upload(nodes)
    delivery, box = exchange.send_up(key, index, box, uploads, speaks, sigma[:, 0])
    taken = link.absorb(nodes, delivery.coded)
    return where_active(speaks & ~delivery.bad, taken, nodes), box


def hear(
    exchange: Exchange, tree: Tree, boxes: list[ChannelState], level: int
) -> tuple[jax.Array, jax.Array, list[ChannelState]]:
    """Return what the servers of a level make of what they heard last of their children.

    Args:
      exchange: of the solver.
      tree: the tree.
      boxes: of all levels.
      level: of the servers, from 0.

    Returns:
      Instead of sums over children, shape (servers, dim), the weights of the children, (servers,
      1), and the boxes.
    """
    number, first = tree.level_sizes[level], sum(tree.level_sizes[:level])
    # Clients of other levels stand in some group without a weight.
    own = tree.client_parents - first
    here = (own >= 0) & (own < number)
    values, weights = [boxes[0].known], [jnp.where(here, boxes[0].weights, 0)]
    groups = [jnp.where(here, own, 0)]
    if level + 1 < tree.depth:
        below = boxes[level + 1]
        values, weights = [*values, below.known], [*weights, below.weights]
        groups.append(tree.server_parents[level])
    heavy, group = jnp.concatenate(weights), jnp.concatenate(groups)
    place = (level + 1) % tree.depth
    last = exchange.aggregate(jnp.concatenate(values), heavy, boxes[place].last, group)
    boxes = list(boxes)
    boxes[place] = boxes[place]._replace(last=last)
    weight = jax.ops.segment_sum(heavy, group, num_segments=number)[:, None]
    return weight * last, weight, boxes


def read_down(
    exchange: Exchange,
    key: jax.Array,
    reading: Reading | tuple[()],
    models: jax.Array,
    reads: jax.Array,
) -> tuple[jax.Array, Reading | tuple[()]]:
    """Return the models of their parents as the nodes of a level know them, and the reading.

    Args:
      exchange: of the solver.
      key: for this level in this pass alone.
      reading: of the level.
      models: of every node's parent, shape (nodes, dim).
      reads: who reads in this pass, bool, shape (nodes,); others know what they read last.
    """
    if not isinstance(reading, Reading):
        return models, reading
    keys = jax.random.split(key, models.shape[0])
    model, link = jax.vmap(exchange.down.encode)(models, reading.link, keys)
    reading = where_active(reads, Reading(link, model), reading)
    return reading.model, reading


def _liars(exchange: Exchange, key: jax.Array, tree: Tree) -> list[jax.Array]:
    """Return who lies, level by level: a share of the clients, or whom a mask over links names."""
    links = tree.num_links
    named = getattr(getattr(exchange.attack, "byzantine", None), "who", None)
    if named is not None and named.shape == (links,):
        return jnp.split(exchange.byzantine(key, links), tree.link_offsets)
    honest = [jnp.zeros(size, bool) for size in tree.level_sizes[1:]]
    return [exchange.byzantine(key, tree.num_clients), *honest]


def _copies(start: jax.Array, number: int) -> jax.Array:
    return jnp.broadcast_to(start, (number, *start.shape))
