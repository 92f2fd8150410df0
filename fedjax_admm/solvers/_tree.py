"""The harness of solvers on a tree: every server with its children is a star.

A solver implements roles. Each role is a function of rows stacked over the clients, or over the
servers of one level. The clients are level 0, wherever in the tree they are:

    start_clients(problem, models) -> clients           before the first round
    start_servers(level, models) -> servers
    model(nodes) -> (nodes, dim)                        goes down to the children of servers
    client(problem, clients, above) -> clients
    server(level, servers, received, above) -> servers
    upload(level, nodes) -> TreeUpload                  goes up, and the parent remembers it
    apply_decoded(level, nodes, values) -> nodes        where the channel has changed the messages
    root(received) -> (dim,)                            the model of the root

A round has a number of passes and then one update of the root. A pass updates the clients, and then
the servers level by level, from the deepest to the first. Nodes read the models that their parents
had before the pass. Servers use the last uploads of their children, of this pass or of an earlier
one. The root's children communicate with the root once per round: they read its model in the first
pass, and send one message in the last.

The harness masks absent nodes and adds up the uploads of all children of a server. It sends
messages through the exchange, and counts messages and their numbers. With an exchange, a server
aggregates the last uploads u_c of its children, clients and servers alike, with weights s_c:

    sum_c s_c u_c  ->  (sum_c s_c) Agg_s(u^_c : c in C)

An absent node keeps the model that it read last. Delays are counted in passes. Byzantine nodes send
false uploads to their parents, and true models to their children.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.ops import segment_sum

from fedjax_admm._checks import is_concrete
from fedjax_admm._threefry import split
from fedjax_admm.capabilities import OnTree, first_model
from fedjax_admm.messages import ChannelState, Exchange, Identity
from fedjax_admm.participation import where_active
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers._gradients import row_alone
from fedjax_admm.solvers._messages import stacked
from fedjax_admm.traffic import Traffic
from fedjax_admm.trees import Tree


class TreeUpload(NamedTuple):
    """Uploads of the nodes of one level, which their parents remember, stacked over the nodes."""

    values: jax.Array  # shape=(nodes, dim); they pass the exchange
    weights: jax.Array  # shape=(nodes,): in the parents' means
    weighted: jax.Array  # shape=(nodes, dim): weights times values


class FromChildren(NamedTuple):
    """Sums of the last uploads of the children of the servers of a level, stacked over these."""

    total: jax.Array  # shape=(servers, dim): sum of weights times values
    weight: jax.Array  # shape=(servers, 1): sum of the weights


class Reading(NamedTuple):
    """Models that the nodes of one level have read of their parents, stacked over the nodes."""

    channel: Any  # what the channel down remembers
    model: jax.Array  # shape=(nodes, dim): what was read last


class TreeExchange(NamedTuple):
    """Memory of both ends, of messages that pass an exchange, by level."""

    up: tuple[ChannelState, ...]  # of the clients, then of the servers from level 1
    down: tuple[Any, ...]  # likewise, Reading; () where models arrive as they are
    last: tuple[Any, ...]  # shapes=(servers, dim), the root first: what aggregators returned


class HierarchyState(NamedTuple):
    """The state of a solver on a tree."""

    root: jax.Array  # shape=(dim,): the root's model
    servers: tuple[Any, ...]  # stacked, one per level from 1; empty for a star
    clients: Any  # stacked
    exchange: Any = ()  # TreeExchange; () where nothing happens to messages

    def nodes(self, level: int) -> Any:
        """Return the servers of a level, or the clients, which stand at level 0."""
        return self.servers[level - 1] if level else self.clients

    def with_nodes(self, level: int, nodes: Any) -> "HierarchyState":
        """Return the state with other servers of a level, or with other clients."""
        if level == 0:
            return self._replace(clients=nodes)
        return self._replace(servers=_put(self.servers, level - 1, nodes))


class _Pass(NamedTuple):
    """Who takes part in a pass."""

    number: jax.Array  # shape=(), int32: of the pass, counted over all rounds
    key: jax.Array
    active: jax.Array  # shape=(links,), bool: who works
    reads: jax.Array  # likewise: who reads its parent's model
    sending: jax.Array  # likewise: who sends


class TreeSolver:
    """A solver as the roles of the nodes of a tree; see the module's docstring."""

    passes: int = 1
    exchange: Exchange = Exchange()

    requires: ClassVar[tuple[type, ...]] = (OnTree,)

    # The roles.

    def start_clients(self, problem: Any, models: jax.Array) -> Any:
        """Return what clients hold before the first round, for first models (clients, dim)."""
        raise NotImplementedError

    def start_servers(self, level: int, models: jax.Array) -> Any:
        """Return what the servers of a level hold, for first models (servers, dim)."""
        raise NotImplementedError

    def model(self, nodes: Any) -> jax.Array:
        """Return the models of clients or servers, (nodes, dim); those of servers go down."""
        raise NotImplementedError

    def client(self, problem: Any, clients: Any, above: jax.Array) -> Any:
        """Return what clients hold after their work.

        Args:
          problem: of all clients.
          clients: what they hold, stacked.
          above: their parents' models as they arrive, shape (clients, dim).
        """
        raise NotImplementedError

    def server(self, level: int, servers: Any, received: FromChildren, above: jax.Array) -> Any:
        """Return what the servers of a level hold after their work.

        Args:
          level: of the servers, from 1.
          servers: what they hold, stacked.
          received: what they make of their children's last uploads.
          above: their parents' models as they arrive, shape (servers, dim).
        """
        raise NotImplementedError

    def upload(self, level: int, nodes: Any) -> TreeUpload:
        """Return what the servers of a level, or the clients at level 0, send to their parents."""
        raise NotImplementedError

    def apply_decoded(self, level: int, nodes: Any, values: jax.Array) -> Any:
        """Return the nodes once the channel has made these values of their uploads, (nodes, dim).

        The upload of the nodes that are returned should be what arrives, so that both ends of a
        link hold the same.
        """
        return nodes

    def root(self, received: FromChildren) -> jax.Array:
        """Return the root's model, shape (dim,), of what it receives as the only server."""
        raise NotImplementedError

    # The protocol of `run`.

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return `(passes, nodes)`: clients, then the servers level by level, without the root."""
        return (self.passes, problem.tree.num_links)

    def check(self, problem: Any, rounds: int) -> None:
        """Check that every server has enough children for the exchange's aggregator."""
        aggregator = self.exchange.aggregator
        if self.exchange.plain or not hasattr(aggregator, "check"):
            return
        for number in problem.tree.children():
            if is_concrete(number):
                aggregator.check(int(jnp.min(number)))  # pyright: ignore[reportAttributeAccessIssue]

    def init(self, problem: Any, key: jax.Array) -> HierarchyState:
        """Return the state before the first round: every model is the problem's start."""
        start, tree = first_model(problem), problem.tree
        clients = self.start_clients(problem, stacked(start, tree.num_clients))
        servers = tuple(
            self.start_servers(level, stacked(start, size))
            for level, size in enumerate(tree.level_sizes)
            if level > 0
        )
        state = HierarchyState(start, servers, clients)
        if self.exchange.plain:
            return state
        return state._replace(exchange=self._open(tree, state, key))

    def step(self, problem: Any, state: HierarchyState, info: RoundInfo) -> HierarchyState:
        """Return the state after one round: all passes, then the root."""
        turn = jnp.arange(self.passes, dtype=jnp.int32)
        at_root, once = _at_root(problem.tree)[None], jnp.any(info.active, 0)[None]

        def only(chosen: int) -> jax.Array:
            """Return the activity, but for the root's children in one pass of the round."""
            return jnp.where(at_root, (turn == chosen)[:, None] & once, info.active)

        passes = _Pass(
            info.index * self.passes + turn,
            split(info.key, self.passes),
            info.active,
            only(0),
            only(self.passes - 1),
        )
        state, _ = jax.lax.scan(lambda at, now: (self._pass(problem, at, now), None), state, passes)
        received, state = self._receive(problem.tree, state, 0)
        return state._replace(root=self.root(received))

    def estimate(self, state: HierarchyState) -> jax.Array:
        """Return the root's model, shape (dim,)."""
        return state.root

    def client_models(self, state: HierarchyState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return self.model(state.clients)

    def traffic(self, problem: Any) -> Traffic:
        """Return the numbers in a message: an upload and its weight up, a model down."""
        shape = problem.start.shape[-1:]
        return self.exchange.traffic(up=[shape], down=[shape], more_up=1)

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Count the messages of a round: one per update, but one per round at the root."""
        at_root = _at_root(problem.tree)
        deeper = jnp.sum(active & ~at_root[None], dtype=jnp.int32)
        return deeper + jnp.sum(jnp.any(active, 0) & at_root, dtype=jnp.int32)

    # The way of messages.

    def _pass(self, problem: Any, state: HierarchyState, now: _Pass) -> HierarchyState:
        """Return the state after one pass, which leaves the root alone."""
        tree = problem.tree
        active, reads, sending = (jnp.split(mask, tree.link_offsets) for mask in now[2:])
        # JAX takes the keys of a scan under vmap for used, unless they are cloned.
        up, down = split(jax.random.clone(now.key), (2, tree.depth))
        models = [state.root[None], *map(self.model, state.servers)]

        above, state = self._read(state, 0, tree.above_clients(models), reads[0], down[0])
        new = self.client(problem, state.clients, above)
        state = self._send(state, 0, new, active[0], sending[0], now.number, up[0])
        for level in range(tree.depth - 1, 0, -1):
            received, state = self._receive(tree, state, level)
            above = tree.above_servers(models[level - 1], level)
            above, state = self._read(state, level, above, reads[level], down[level])
            new = self.server(level, state.nodes(level), received, above)
            state = self._send(
                state, level, new, active[level], sending[level], now.number, up[level]
            )
        return state

    def _send(
        self,
        state: HierarchyState,
        level: int,
        new: Any,
        active: jax.Array,
        sending: jax.Array,
        index: jax.Array,
        key: jax.Array,
    ) -> HierarchyState:
        """Return the state after nodes of a level have worked, and have sent their uploads."""
        nodes = where_active(active, new, state.nodes(level))
        if self.exchange.plain:
            return state.with_nodes(level, nodes)
        memory, upload = state.exchange, self.upload(level, nodes)
        delivery, channel = self.exchange.send_up(
            key, index, memory.up[level], upload.values, sending, upload.weights
        )
        decoded = self.apply_decoded(level, nodes, delivery.coded)
        # Byzantine nodes skip this correction.
        nodes = where_active(sending & ~delivery.byzantine, decoded, nodes)
        memory = memory._replace(up=_put(memory.up, level, channel))
        return state.with_nodes(level, nodes)._replace(exchange=memory)

    def _receive(
        self, tree: Tree, state: HierarchyState, level: int
    ) -> tuple[FromChildren, HierarchyState]:
        """Return what the servers of a level, from 0, make of uploads, and the state."""
        below = level + 1 if level + 1 < tree.depth else None
        if self.exchange.plain:
            _, weights, weighted = self.upload(0, state.clients)
            sums = [tree.sum_of_clients(part)[level] for part in (weighted, weights)]
            if below is not None:
                _, weights, weighted = self.upload(below, state.nodes(below))
                more = [tree.sum_of_servers(part, below) for part in (weighted, weights)]
                sums = [a + b for a, b in zip(sums, more, strict=True)]
            return FromChildren(sums[0], sums[1][:, None]), state

        memory = state.exchange
        number, first = tree.level_sizes[level], sum(tree.level_sizes[:level])
        # Clients of other levels stand in some group without a weight.
        own = tree.client_parents - first
        here = (own >= 0) & (own < number)
        values, groups = [memory.up[0].known], [jnp.where(here, own, 0)]
        weights = [jnp.where(here, memory.up[0].weights, 0)]
        if below is not None:
            values.append(memory.up[below].known)
            weights.append(memory.up[below].weights)
            groups.append(tree.server_parents[level])
        heavy, group = jnp.concatenate(weights), jnp.concatenate(groups)
        last = self.exchange.aggregate(jnp.concatenate(values), heavy, memory.last[level], group)
        weight = segment_sum(heavy, group, num_segments=number)[:, None]
        memory = memory._replace(last=_put(memory.last, level, last))
        return FromChildren(weight * last, weight), state._replace(exchange=memory)

    def row(self, problem: Any, number: int) -> Any:
        """Return the problem of one client, from 0, of a problem of all."""
        return row_alone(problem, number)

    def receive_with(
        self, sent: jax.Array, weights: jax.Array, last: jax.Array
    ) -> tuple[FromChildren, jax.Array]:
        """Return what one server makes of its children's uploads, and what its aggregator returned.

        Args:
          sent: the last upload of every child, shape (children, dim): its values, or these times
            the weights if the exchange is plain.
          weights: shape (children,).
          last: what the aggregator returned before, shape (1, dim).
        """
        weight = jnp.sum(weights)[None, None]
        if self.exchange.plain:
            return FromChildren(jnp.sum(sent, 0)[None], weight), last
        last = self.exchange.aggregate(sent, weights, last)
        return FromChildren(weight * last, weight), last

    def _read(
        self, state: HierarchyState, level: int, models: jax.Array, reads: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, HierarchyState]:
        """Return the parents' models as the nodes of a level know them, and the state."""
        if isinstance(self.exchange.down, Identity):
            return models, state
        memory = state.exchange
        old, keys = memory.down[level], split(key, len(models))
        arrives, channel = jax.vmap(self.exchange.down.encode)(models, old.channel, keys)
        reading = where_active(reads, Reading(channel, arrives), old)
        memory = memory._replace(down=_put(memory.down, level, reading))
        return reading.model, state._replace(exchange=memory)

    def _open(self, tree: Tree, state: HierarchyState, key: jax.Array) -> TreeExchange:
        """Return what both ends know at the start, when all nodes hold the same."""
        up, down = [], []
        for level, byzantine in enumerate(_byzantine(self.exchange, key, tree)):
            nodes = state.nodes(level)
            upload, models = self.upload(level, nodes), self.model(nodes)
            channel = self.exchange.init_up(key, upload.values, upload.weights, 0, byzantine)
            up.append(channel._replace(last=()))
            identity = isinstance(self.exchange.down, Identity)
            down.append(
                () if identity else Reading(jax.vmap(self.exchange.down.init)(models), models)
            )
        last = tuple(stacked(up[0].known[0], size) for size in tree.level_sizes)
        return TreeExchange(tuple(up), tuple(down), last)


def _put(parts: tuple[Any, ...], place: int, part: Any) -> tuple[Any, ...]:
    return (*parts[:place], part, *parts[place + 1 :])


def _at_root(tree: Tree) -> jax.Array:
    """Return which nodes are children of the root, bool, shape (links,)."""
    first_level = tree.level_sizes[1] if tree.depth > 1 else 0
    return jnp.concatenate(
        [tree.client_parents == 0, jnp.arange(tree.num_servers - 1) < first_level]
    )


def _byzantine(exchange: Exchange, key: jax.Array, tree: Tree) -> list[jax.Array]:
    """Return which nodes of each level are Byzantine: drawn clients, or a mask over all links."""
    links = tree.num_links
    named = getattr(getattr(exchange.attack, "byzantine", None), "who", None)
    if named is not None and named.shape == (links,):
        return jnp.split(exchange.byzantine(key, links), tree.link_offsets)
    honest = [jnp.zeros(size, bool) for size in tree.level_sizes[1:]]
    return [exchange.byzantine(key, tree.num_clients), *honest]
