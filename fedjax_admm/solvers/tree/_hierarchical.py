r"""Smoothing ADMM over a tree of nodes: clients, edge servers, cloud; any depth.

Node 0 is the root, p(n) the parent and C(n) the children of node n. Every node has a model w_n:

    minimise   sum_{clients} f_n(w_n) + sum_{servers} R_n(w_n) + sum_{n != 0} r_n(w_p(n) - w_n)

A link penalty r_n = omega ||.||_1 with a large omega gives consensus; MCP or SCAD give personal
models (large differences are not shrunk). Each link is split with the copies z_n = w_n and
q_n = w_p(n), whose multipliers are Lambda_n and Gamma_n, and r_n is smoothed with mu_n. One update
of a node, k = its own count of updates, this one included, sigma = sigma_n(k), mu = mu_n(k):

    client:  w <- Prox_f(z - Lambda / sigma; 1 / sigma)
         or  w <- project(z - (Lambda + grad f(z; mu)) / sigma)          linearised, f smoothed
    server:  w <- Prox_R(v [sigma z - Lambda + sum_{c in C} (sigma_c q_c - Gamma_c)]; v),
                                   v = 1 / (sigma + sum_c sigma_c),   sigma_c = sigma_c(k_c + 1)
    a = w + Lambda / sigma,  b = w_p + Gamma / sigma,  e = Prox_{r(.; mu)}(b - a; 2 / sigma)
    z, q <- (a + b - e) / 2, (a + b + e) / 2
    Lambda <- Lambda + sigma (w - z),   Gamma <- Gamma + sigma (w_p - q)

After every update Gamma = grad r(e; mu) and Lambda = -Gamma, so only Gamma is kept. One round is a
number of passes, each updating the levels from the deepest to the first, and then the root once:

    w_0 <- Prox_{R_0}(xi sum_c (sigma_c q_c - Gamma_c); xi),   xi = 1 / sum_c sigma_c

An inactive node keeps everything, its count included; its parent uses what it sent last. Since
clients have no children, all of them go first in a pass, wherever they hang.

Where something happens to messages, every parent averages what it heard last of its children with
the exchange's aggregator (see `_tree_post`), and

    sum_c (sigma_c q_c - Gamma_c)  is  (sum_c sigma_c) Agg_sigma(u^_c),    u = q - Gamma / sigma

The root's children send it one message per round, in the last pass, and read its model once, in the
first; all others send and read in every pass in which they are active. Delays count passes.

The root update is printed with a plus sign before Gamma; the Lagrangian gives the minus sign, and
with a plus the iterates blow up.

Reference: R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical
Federated Learning", Algorithm 1, here for trees of any depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, count, flag, instance, is_concrete, one_of, several
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import OnTree, first_model
from fedjax_admm.messages import Exchange, check_exchange
from fedjax_admm.participation import where_active
from fedjax_admm.penalties import Penalty, zero
from fedjax_admm.solvers._declared import check_regularizer
from fedjax_admm.solvers.tree._client_updates import (
    CLIENT_UPDATES,
    LinearizedClients,
    ProxClients,
)
from fedjax_admm.solvers.tree._links import TreeLink, TreeNodes
from fedjax_admm.solvers.tree._tree_post import (
    TreePost,
    hear,
    open_tree_post,
    read_down,
    send_up,
)
from fedjax_admm.traffic import Traffic
from fedjax_admm.trees import Tree


@short_repr
class HierarchyState(NamedTuple):
    """The models of all nodes, and what their links hold."""

    root: jax.Array  # shape=(dim,): w_0, the cloud's model
    servers: tuple[TreeNodes, ...]  # one per level from 1; empty for a star
    clients: TreeNodes
    memory: Any  # of the clients' inexact prox, stacked over clients; () of an exact one
    post: Any = ()  # TreePost: what the exchange remembers; () where nothing happens to messages


@short_repr
class RootRegularizer(NamedTuple):
    """What regularises the servers of the first level, which is the root alone, for one model."""

    level: Penalty  # of models (servers, dim)

    def value(self, x: jax.Array) -> jax.Array:
        """Return the value at a model (dim,), shape ()."""
        return self.level.value(x[None])

    def prox(self, v: jax.Array, step: jax.Array) -> jax.Array:
        """Return the proximal map of a model, shape (dim,)."""
        return self.level.prox(v[None], step)[0]


@register_dataclass
@dataclass(frozen=True, eq=False)
class HierarchicalADMM:
    """Smoothing ADMM over a tree; `hierarchical_admm`, `consensus_admm` and `hfsad` build it."""

    clients: TreeLink  # of the clients, at whatever level they hang
    servers: tuple[TreeLink, ...]  # of the servers, one per level from 1
    regularizers: tuple[Penalty, ...]  # of the servers, one per level, the root first
    client_update: ProxClients | LinearizedClients
    passes: int = field(default=1, metadata={"static": True})
    personal: bool = field(default=False, metadata={"static": True})
    exchange: Exchange = field(default_factory=Exchange)  # of q - Gamma / sigma, weights sigma

    requires: ClassVar[tuple[type, ...]] = (OnTree,)  # and what the client update requires
    sums_losses: ClassVar[bool] = True  # beside the regularisers

    @property
    def regularizer(self) -> "RootRegularizer":
        """Return the regulariser of the root, for one model."""
        return RootRegularizer(self.regularizers[0])

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(passes, nodes)`: clients, then the servers level by level, without the root.

        Raises:
          InputError: the tree has another number of levels than the solver.
        """
        tree = problem.tree
        if tree.depth != len(self.regularizers):
            raise InputError(
                f"the tree's depth is {tree.depth}, but the solver is built for "
                f"{len(self.regularizers)}; give it one link per level below the root "
                f"({tree.depth - 1}) and one regulariser per level ({tree.depth})."
            )
        return (self.passes, tree.num_links)

    def check(self, problem, rounds: int) -> None:
        """Check that every server has enough children for the exchange's aggregator.

        Raises:
          InputError: it has not.
        """
        if self.exchange.plain or not hasattr(self.exchange.aggregator, "check"):
            return
        for number in problem.tree.children():
            if is_concrete(number):
                self.exchange.aggregator.check(int(jnp.min(number)))

    def init(self, problem, key) -> HierarchyState:
        """Start every model and every copy at the problem's start, every dual at zero."""
        start = first_model(problem)

        def nodes(number: int) -> TreeNodes:
            copies = jnp.broadcast_to(start, (number, *start.shape))
            counts = jnp.zeros(number, jnp.int32)
            return TreeNodes(copies, copies, copies, jnp.zeros_like(copies), counts)

        tree = problem.tree
        servers = tuple(nodes(size) for size in tree.level_sizes[1:])
        clients = nodes(tree.num_clients)
        memory = self.client_update.memory(problem, clients.w)
        links = zip((self.clients, *self.servers), (clients, *servers), strict=True)
        weights = [link.upload(nodes)[1][:, 0] for link, nodes in links]
        post = open_tree_post(self.exchange, key, tree, start, weights)
        return HierarchyState(start, servers, clients, memory, post)

    def step(self, problem, state: HierarchyState, info) -> HierarchyState:
        """Return the state after one round: all passes, then the root."""
        if not self.exchange.plain:
            return self._step_with_post(problem, state, info)

        def one_pass(state, active):
            return self._pass(problem, state, active), None

        state, _ = jax.lax.scan(one_pass, state, info.active)
        total, weight = self._from_clients(problem.tree, state.clients)[0]
        if state.servers:
            more = self._from_servers(problem.tree, state.servers[0], 1)
            total, weight = total + more[0], weight + more[1]
        root = self.regularizers[0].prox(total / weight, 1 / weight)
        return state._replace(root=root[0])

    def estimate(self, state: HierarchyState) -> jax.Array:
        """Return the root's model (dim,), or the clients' (clients, dim) if `personal`."""
        return state.clients.w if self.personal else state.root

    def client_models(self, state: HierarchyState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.w

    def traffic(self, problem) -> Traffic:
        """Return dim + 1 numbers up (sigma q - Gamma, and sigma) and dim down (the model)."""
        dim = problem.start.shape[-1]
        return self.exchange.traffic(up=[(dim,)], down=[(dim,)], more_up=1)

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the messages of a round: one per update, but one per round at the root.

        The root reads and sends once per round, after all passes: its children send it their last
        update only, and fetch its model once.
        """
        at_root = _at_root(problem.tree)
        deeper = jnp.sum(active & ~at_root[None], dtype=jnp.int32)
        return deeper + jnp.sum(jnp.any(active, 0) & at_root, dtype=jnp.int32)

    def _pass(self, problem, state: HierarchyState, active: jax.Array) -> HierarchyState:
        """Update all clients, then the servers level by level, from the deepest to the first."""
        tree = problem.tree
        present, *server_present = jnp.split(active, tree.link_offsets)
        above = jnp.concatenate([state.root[None], *(nodes.w for nodes in state.servers)])
        clients, memory = self._clients(problem, state, present, above[tree.client_parents])

        # From the stored state, so that absent children count with what they sent last.
        received = self._from_clients(tree, clients)
        servers = list(state.servers)
        parents = [state.root[None], *(nodes.w for nodes in servers)]
        for level in range(tree.depth - 1, 0, -1):
            above = parents[level - 1][tree.server_parents[level - 1]]
            present = server_present[level - 1]
            nodes = self._level(level, servers[level - 1], received[level], present, above)
            more = self._from_servers(tree, nodes, level)
            received[level - 1] = tuple(map(jnp.add, received[level - 1], more))
            servers[level - 1] = nodes
        return HierarchyState(state.root, tuple(servers), clients, memory)

    def _step_with_post(self, problem, state: HierarchyState, info) -> HierarchyState:
        """Return the state after one round in which something happens to messages."""

        def one_pass(state, given):
            return self._pass_with_post(problem, state, *given), None

        anybody, at_root = jnp.any(info.active, 0)[None], _at_root(problem.tree)[None]
        number = jnp.arange(self.passes, dtype=jnp.int32)
        # With the root all its children exchange one message per round.
        reads = jnp.where(at_root, (number == 0)[:, None] & anybody, info.active)
        speaks = jnp.where(at_root, (number == self.passes - 1)[:, None] & anybody, info.active)
        index, keys = info.index * self.passes + number, jax.random.split(info.key, self.passes)
        state, _ = jax.lax.scan(one_pass, state, (info.active, reads, speaks, index, keys))
        total, weight, boxes = hear(self.exchange, problem.tree, list(state.post.up), 0)
        root = self.regularizers[0].prox(total / weight, 1 / weight)
        return state._replace(root=root[0], post=state.post._replace(up=tuple(boxes)))

    def _pass_with_post(self, problem, state: HierarchyState, active, reads, speaks, index, key):
        """Return the state after a pass in which something happens to messages."""
        tree, exchange = problem.tree, self.exchange
        offsets = tree.link_offsets
        active, reads, speaks = (jnp.split(mask, offsets) for mask in (active, reads, speaks))
        # JAX takes the keys of a scan under vmap for used, unless they are cloned.
        ups, downs = jax.random.split(jax.random.clone(key), (2, tree.depth))
        boxes, readings = list(state.post.up), list(state.post.down)
        parents = [state.root[None], *(nodes.w for nodes in state.servers)]

        above = jnp.concatenate(parents)[tree.client_parents]
        above, readings[0] = read_down(exchange, downs[0], readings[0], above, reads[0])
        clients, memory = self._clients(problem, state, active[0], above)
        clients, boxes[0] = send_up(
            exchange, ups[0], index, boxes[0], self.clients, clients, speaks[0]
        )
        servers = list(state.servers)
        for level in range(tree.depth - 1, 0, -1):
            total, weight, boxes = hear(exchange, tree, boxes, level)
            above = parents[level - 1][tree.server_parents[level - 1]]
            above, readings[level] = read_down(
                exchange, downs[level], readings[level], above, reads[level]
            )
            nodes = self._level(level, servers[level - 1], (total, weight), active[level], above)
            servers[level - 1], boxes[level] = send_up(
                exchange,
                ups[level],
                index,
                boxes[level],
                self.servers[level - 1],
                nodes,
                speaks[level],
            )
        post = TreePost(tuple(boxes), tuple(readings))
        return HierarchyState(state.root, tuple(servers), clients, memory, post)

    def _clients(self, problem, state: HierarchyState, present: jax.Array, above: jax.Array):
        """Return the clients after an update, given their parents' models, and their memory."""
        clients, link = state.clients, self.clients
        counts = clients.updates + 1
        models, memory = self.client_update(
            problem, clients.z, clients.gamma, link.sigma(counts), link.mu(counts), state.memory
        )
        updated = link.update(clients, models, above)
        return where_active(present, (updated, memory), (clients, state.memory))

    def _level(self, level: int, nodes: TreeNodes, received, present, above) -> TreeNodes:
        """Return the servers of a level after an update, given what they heard and read."""
        link = self.servers[level - 1]
        total, weight = received
        sigma = link.sigma(nodes.updates + 1)[:, None]
        step = 1 / (sigma + weight)
        centre = step * (sigma * nodes.z + nodes.gamma + total)
        models = self.regularizers[level].prox(centre, step)
        return where_active(present, link.update(nodes, models, above), nodes)

    def _from_clients(self, tree: Tree, clients: TreeNodes) -> list[Any]:
        """Return what the servers hear of their clients: (sum, weight), one pair per level."""
        total, weight = self.clients.message(clients)
        return list(zip(tree.sum_of_clients(total), tree.sum_of_clients(weight), strict=True))

    def _from_servers(self, tree: Tree, nodes: TreeNodes, level: int) -> tuple[jax.Array, ...]:
        """Return what the level above hears of the servers of a level: (sum, weight)."""
        total, weight = self.servers[level - 1].message(nodes)
        return tree.sum_of_servers(total, level), tree.sum_of_servers(weight, level)


def _at_root(tree: Tree) -> jax.Array:
    """Return which nodes are children of the root, bool, shape (links,)."""
    first_level = tree.level_sizes[1] if tree.depth > 1 else 0
    return jnp.concatenate(
        [tree.client_parents == 0, jnp.arange(tree.num_servers - 1) < first_level]
    )


def hierarchical_admm(
    clients: TreeLink,
    servers: Sequence[TreeLink] = (),
    regularizers: Sequence[Penalty] | None = None,
    *,
    passes: int = 1,
    client_update: str = "prox",
    personal: bool = False,
    exchange: Exchange | None = None,
) -> HierarchicalADMM:
    """Build `HierarchicalADMM`.

    Args:
      clients: the clients' links.
      servers: the links of the servers, one per level from 1 (nearest the cloud first); none for
        a star.
      regularizers: of the servers, one per level, the root first; none at all if None.
      passes: passes over all levels per round.
      client_update: "prox" (the problem has a `prox`) or "linearized" (it has
        `smoothed_gradients`).
      personal: whether the estimate is the clients' models instead of the cloud's.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None. A share of
        liars is drawn among the clients; a mask with an entry per link, the clients first and then
        the servers from level 1 on, may name servers, too. They lie upwards, and tell their
        children the truth. Delays count passes, and are the same for all links.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: the numbers of links and regularisers do not fit together, or an argument is
        none of those listed.
    """
    instance("clients", clients, TreeLink, "a link as tree_link makes it")
    several("servers", servers, "links, one per level")
    for level, server in enumerate(servers):
        instance(f"servers[{level}]", server, TreeLink, "a link as tree_link makes it")
    if regularizers is not None:
        several("regularizers", regularizers, "penalties, one per level of servers")
        for regularizer in regularizers:
            check_regularizer(regularizer)
    servers = tuple(servers)
    levels = len(servers) + 1
    regularizers = (zero(),) * levels if regularizers is None else tuple(regularizers)
    if len(regularizers) != levels:
        raise InputError(
            f"must hold one per level of servers, the root included ({levels} with "
            f"{len(servers)} server links), but it holds {len(regularizers)}",
            argument="regularizers",
            value=regularizers,
        )
    one_of("client_update", client_update, CLIENT_UPDATES)
    return HierarchicalADMM(
        clients,
        servers,
        regularizers,
        CLIENT_UPDATES[client_update](),
        count("passes", passes),
        flag("personal", personal),
        check_exchange(exchange),
    )


def consensus_admm(
    clients: TreeLink, regularizer: Penalty | None = None, **options: Any
) -> HierarchicalADMM:
    """Build the solver for a star: flat consensus, clients and one server.

    Args:
      clients: the clients' links.
      regularizer: of the server; none if None.
      **options: as in `hierarchical_admm`.

    Returns:
      The solver, for a tree of depth 1.

    Raises:
      InputError: as `hierarchical_admm`.
    """
    return hierarchical_admm(clients, (), (check_regularizer(regularizer),), **options)
