"""The harness of solvers whose clients send messages to one server.

A solver implements roles. Each role is a function of stacked rows: of all clients, of the drawn
clients, or of the single row of a real client.

    start_server(model, num_clients) -> server          before the first round
    start_clients(problem, models, key) -> clients, said
    broadcast(server) -> pytree                         goes down to those who take part
    client(problem, clients, received, key) -> clients, said
    upload(clients) -> Upload                           goes up, and the server remembers it
    server(server, received, info) -> server
    apply_decoded(clients, values) -> clients           where the channel has changed their messages
    reply(clients, answer) -> clients                   where the server answers within the round

Two kinds of values go up. A `RoundMessage` counts in its round only, such as a gradient; a client
returns it beside its state. An `Upload` is a function of the client's state. The server remembers
the last upload of every client, including absent ones, as methods with dual variables need.

The harness masks absent clients. It computes only the drawn rows, if the problem can leave the
others out (`Subset`). It averages uploads, by increments if rows are drawn. It sends messages
through the exchange, and counts messages and their numbers.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.interpreters.partial_eval import dce_jaxpr

from fedjax_admm._linear_algebra import compensated_sum
from fedjax_admm.capabilities import (
    Access,
    OnStar,
    Subset,
    averaged_states,
    first_model,
    has,
    numbers_in_states,
    shaped,
)
from fedjax_admm.messages import Exchange, Identity, at_rows, put_rows
from fedjax_admm.participation import where_active
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers._declared import at_round, filled, open_fields
from fedjax_admm.solvers._gradients import check_curvature_known, copies, largest_curvature
from fedjax_admm.solvers._messages import (
    ExchangeState,
    Memory,
    Received,
    RoundMessage,
    StarState,
    Upload,
    add_up,
    at_groups,
    beside,
    is_per_client,
    known_uploads,
    over,
    parts,
    stacked,
    times,
    weighted,
)
from fedjax_admm.solvers._seeing import check_sights, watching
from fedjax_admm.traffic import Traffic

Clients = TypeVar("Clients")


class _Round(NamedTuple):
    """Who takes part in a round."""

    info: RoundInfo
    rows: jax.Array | None  # shape=(drawn,), int32: which clients are computed; all if None
    active: jax.Array  # bool, of the clients that are computed: who takes part
    sending: jax.Array  # bool, likewise: who takes part and sends
    num_clients: int


class StarSolver:
    """A solver as the roles of its clients and its server; see the module's docstring."""

    exchange: Exchange = Exchange()

    requires: ClassVar[tuple[type, ...]] = (OnStar,)  # and what parts of the solver require
    replies: ClassVar[bool] = False  # the clients read after the server's step, not before theirs
    uploads_first: ClassVar[bool] = False  # the server takes a step before the first round
    obeys_access: ClassVar[bool] = False  # clients whose data are not accessible are silent
    hears_changes: ClassVar[bool] = False  # the server reads `Received.changes`
    steps_always: ClassVar[bool] = False  # the server takes a step in rounds of nobody, too
    watches: ClassVar[bool] = True  # clients keep what schedules see, if any does
    compensates: ClassVar[bool] = False  # sums of uploads keep what rounding cuts off

    @property
    def fixed_weights(self) -> bool:
        """Return whether the weights of uploads never change; a part of the structure."""
        return False

    @property
    def looks_at_each(self) -> bool:
        """Return whether the server reads `Received.known`; a part of the structure."""
        return False

    # The roles.

    def start_server(self, model: jax.Array, num_clients: int, /) -> Any:
        """Return what the server holds before the first round, for a first model (dim,)."""
        return model

    def start_clients(
        self, problem: Any, models: jax.Array, key: jax.Array, /
    ) -> tuple[Any, RoundMessage]:
        """Return the clients, for first models (clients, dim), and their first messages."""
        return (), RoundMessage()

    def broadcast(self, server: Any, /) -> Any:
        """Return the pytree of arrays that goes down."""
        return server

    def client(
        self, problem: Any, clients: Any, received: Any, key: jax.Array, /
    ) -> tuple[Any, RoundMessage]:
        """Return what clients hold after their work, and what they say.

        Args:
          problem: of these clients, which may be some of all.
          clients: what they hold, stacked.
          received: the broadcast as it arrives, stacked; () where the server replies.
          key: of the round, the same for all clients.
        """
        raise NotImplementedError

    def upload(self, clients: Any, /) -> Upload:
        """Return what these clients send for the server to remember."""
        return Upload()

    def apply_decoded(self, clients: Any, values: tuple[jax.Array, ...], /) -> Any:
        """Return the clients once the channel has made these values of their messages.

        The upload of the clients that are returned should be what arrives; else the two ends hold
        different things. Where u^ arrives in the place of u = w + y / s, half of the difference
        belongs to the model and half to the dual variable,

            w^ = w - (u - u^) / 2,    y^ = y - s (u - u^) / 2.

        If the dual variable took all of it, what is not sent would pull at w again in every round,
        and a compressor that leaves out most coordinates would make ADMM diverge.

        Args:
          clients: after their work.
          values: what they say, then their uploads, (clients, ...).
        """
        return clients

    def server(self, server: Any, received: Received, info: Any, /) -> Any:
        """Return what the server holds after a round in which it hears a client.

        Args:
          server: what it held before.
          received: what it makes of the messages.
          info: of the round; None before the first one.
        """
        raise NotImplementedError

    def reply(self, clients: Any, answer: Any, /) -> Any:
        """Return the clients after they have read the broadcast at the end of a round."""
        return clients

    def coin(self, key: jax.Array, /) -> tuple[jax.Array | None, jax.Array]:
        """Return whether messages are sent in a round, None for always, and the remaining key."""
        return None, key

    def groups(self) -> int | None:
        """Return the number of the server's models where messages are for one of several."""
        return None

    def first_model(self, problem: Any, key: jax.Array, /) -> jax.Array:
        """Return the model before the first round, shape (dim,); the key is that of `init`."""
        return first_model(problem)

    def computed(self, problem: Any, info: RoundInfo, /) -> tuple[jax.Array | None, Any]:
        """Return the clients whose rows are computed, all if None, and the problem of these."""
        if info.sampled is None or not has(problem, Subset):
            return None, problem
        return info.sampled, problem.take(info.sampled)

    def model(self, server: Any, /) -> jax.Array:
        """Return the model in what the server holds."""
        return server

    # The protocol of `run`.

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return `(clients,)`."""
        return (problem.num_clients,)

    def check(self, problem: Any, rounds: int) -> None:
        """Check that numbers that are not given can be found, and that schedules can see."""
        check_curvature_known(self, problem)
        check_sights(self, problem)

    def init(self, problem: Any, key: jax.Array) -> StarState:
        """Return the state before the first round."""
        model, exchange = self.first_model(problem, key), self.exchange
        curvature = jnp.ones((), model.dtype)
        if open_fields(self):
            curvature = largest_curvature(problem, model)
        solver = watching(filled(self, curvature))
        clients, said = started(solver, problem, model, key)
        server, upload = solver.start_server(model, problem.num_clients), solver.upload(clients)
        shared, _ = parts(solver.broadcast(server))  # what clients know before the first round
        sums, weight = add_up(upload, problem.num_clients, model.dtype)
        if self.uploads_first:
            clients = averaged_states(problem, clients, None, jnp.ones(problem.num_clients, bool))
            number = jnp.asarray(problem.num_clients, jnp.int32)
            means = tuple(total / weight for total in sums)
            first = Received(means, (), number, weight, problem.num_clients)
            server = solver.server(server, first, None)
        if exchange.plain:
            known = upload if self.has_coin() else ()
            lost = tuple(map(jnp.zeros_like, sums)) if self.compensates else ()
            return StarState(server, clients, curvature, Memory(sums, weight, known, lost))
        start = init_exchange(exchange, key, said, upload, shared, self.groups() or 1)
        return StarState(server, clients, curvature, start)

    def step(self, problem: Any, state: StarState, info: RoundInfo) -> StarState:
        """Return the state after one round."""
        solver, memory = at_round(filled(self, state.curvature), info.index), state.exchange
        solver = watching(solver, info.index)
        rows, present = self.computed(problem, info)
        talks, key = self.coin(info.key)
        active = info.active & problem.accessible if self.respects_access(problem) else info.active
        own, active = at_rows(rows, (state.clients, active))
        sending = active if talks is None else active & talks
        now = _Round(info._replace(key=key), rows, active, sending, problem.num_clients)

        received = ()
        if not self.replies:
            received, memory = self._down(memory, solver.broadcast(state.server), active, now)
        new, said = solver.client(present, own, received, key)
        up = solver._up if self.exchange.plain else solver._exchanged_up
        clients, heard, memory = up(memory, state.clients, own, new, said, now)
        clients = averaged_states(problem, clients, rows, sending)
        server = solver.server(state.server, heard, now.info)
        if not self.steps_always:
            somebody = jnp.any(heard.number > 0)
            server = jax.tree.map(lambda a, b: jnp.where(somebody, a, b), server, state.server)
        if self.replies:
            answer, memory = self._down(memory, solver.broadcast(server), sending, now)
            replied = solver.reply(at_rows(rows, clients), answer)
            clients = put_rows(rows, sending, replied, clients)
        return state._replace(server=server, clients=clients, exchange=memory)

    def estimate(self, state: StarState) -> jax.Array:
        """Return the server's model."""
        return self.model(state.server)

    def settled(self, state: StarState) -> Any:
        """Return the solver with the numbers that follow from the curvature of its state."""
        return filled(self, state.curvature)

    def transmitting(self, info: RoundInfo) -> jax.Array:
        """Return which clients take part and send in a round, bool, shape (clients,)."""
        talks, _ = self.coin(jax.random.clone(info.key))
        return info.active if talks is None else info.active & talks

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Return the number of those who send: one message each way."""
        active = active & problem.accessible if self.respects_access(problem) else active
        return jnp.sum(active, dtype=jnp.int32)

    def traffic(self, problem: Any) -> Traffic:
        """Return the numbers in a message each way, as the roles send them."""

        def messages(solver: Any, problem: Any, key: jax.Array) -> Any:
            model = solver.first_model(problem, key)
            solver = watching(filled(solver, jnp.ones((), model.dtype)))
            clients, said = solver.start_clients(problem, copies(model, problem), key)
            server = solver.start_server(model, problem.num_clients)
            return said, solver.upload(clients), solver.broadcast(server)

        key = jax.random.key(0)
        said, upload, sends = jax.eval_shape(messages, self, shaped(problem), key)
        shapes = [value.shape[1:] for value in (*said.values, *upload.values)]
        shared, each = parts(sends)
        weighs = upload.weights is not None and not self.fixed_weights
        states = numbers_in_states(problem)
        return self.exchange.traffic(
            up=shapes,
            down=[leaf.shape for leaf in shared],
            more_up=weighs + (said.groups is not None) + (said.beside is not None) + states,
            more_down=sum(math.prod(part.rows.shape[1:]) for part in each) + states,
            before=problem.num_clients * sum(map(math.prod, shapes)) if self.uploads_first else 0,
        )

    def down_to_clients(self, problem: Any, key: jax.Array) -> dict[str, tuple[int, bool]]:
        """Return the size of every array that `broadcast` sends, and whether clients read it."""

        def read(sends: Any, state: StarState) -> Any:
            solver = watching(at_round(filled(self, state.curvature), info.index), info.index)
            rows, present = solver.computed(problem, info)
            clients, active = at_rows(rows, (state.clients, info.active))
            now = _Round(info, rows, active, active, problem.num_clients)
            arrives, _ = solver._down(state.exchange, sends, active, now)
            new, said = solver.client(present, clients, () if self.replies else arrives, key)
            return solver.reply(new, arrives) if self.replies else (new, said)

        info = RoundInfo(jnp.int32(0), key, jnp.ones(self.participants(problem), bool))
        state = jax.eval_shape(self.init, problem, key)
        sends = jax.eval_shape(self.broadcast, state.server)
        program = jax.make_jaxpr(read)(sends, state).jaxpr
        _, used = dce_jaxpr(program, [True] * len(program.outvars))  # what the results depend on
        return {
            f"broadcast(server){jax.tree_util.keystr(path)}": (leaf.size, is_read)
            for (path, leaf), is_read in zip(jax.tree.leaves_with_path(sends), used, strict=False)
        }

    # The way of messages.

    @property
    def reads_exactly(self) -> bool:
        """Return whether clients read what the server sends; a part of the structure."""
        return isinstance(self.exchange.down, Identity)

    def has_coin(self) -> bool:
        return type(self).coin is not StarSolver.coin

    def respects_access(self, problem: Any) -> bool:
        return self.obeys_access and has(problem, Access)

    def _down(self, memory: Any, sends: Any, reads: jax.Array, now: _Round) -> tuple[Any, Any]:
        """Return the broadcast as clients read it, stacked over them, and the memory."""
        leaves, structure = jax.tree.flatten(sends, is_leaf=is_per_client)
        shared, _ = parts(sends)
        if self.exchange.plain:
            arrive = [stacked(leaf, len(reads)) for leaf in shared]
        else:
            arrive, down = self.exchange.send_down(
                now.info.key, memory.down, shared, reads, now.num_clients, now.rows
            )
            memory = memory._replace(down=down)
        arriving = iter(arrive)
        read = [at_rows(now.rows, x.rows) if is_per_client(x) else next(arriving) for x in leaves]
        return jax.tree.unflatten(structure, read), memory

    def _up(self, memory, clients, own, new, said: RoundMessage, now: _Round):
        """Return all clients, what the server receives as it was sent, and the memory."""
        rows, sending = now.rows, now.sending
        clients = put_rows(rows, now.active, new, clients)
        groups = said.groups, self.groups()
        number = at_groups(sending, *groups)
        sums = tuple(at_groups(value, *groups, sending) for value in said.values)
        after, known = self.upload(new), memory.known
        before = at_rows(rows, known) if self.has_coin() else self.upload(own)
        if self.has_coin():
            known = put_rows(rows, sending, after, known)
        every = known if self.has_coin() else self.upload(clients)
        lost = memory.lost
        if rows is None:
            totals, weight = add_up(every, now.num_clients, memory.weight.dtype)
            lost = tuple(map(jnp.zeros_like, lost))
        else:
            pairs = zip(weighted(before), weighted(after), strict=True)
            steps = [at_groups(b - a, None, None, sending) for a, b in pairs]
            if self.compensates:
                before_step = zip(memory.sums, lost, strict=True)
                totals, lost = zip(*map(compensated_sum, before_step, steps), strict=True)
            else:
                totals = tuple(map(jnp.add, memory.sums, steps))
            weight = memory.weight
            if after.weights is not None and before.weights is not None:
                weight += at_groups(after.weights - before.weights, None, None, sending)
        changes = ()
        if self.hears_changes:
            pairs = zip(before.values, after.values, strict=True)
            changes = tuple(over(at_groups(b - a, None, None, sending), number) for a, b in pairs)
        exact = tuple(map(jnp.add, totals, lost)) if lost else totals
        received = Received(
            (*(over(total, number) for total in sums), *(total / weight for total in exact)),
            sums,
            number,
            weight,
            now.num_clients,
            known_uploads(every.values, every.weights, now.num_clients)
            if self.looks_at_each
            else (),
            changes,
            beside(said, sending),
        )
        return clients, received, Memory(totals, weight, known, lost)

    def _exchanged_up(self, memory, clients, own, new, said: RoundMessage, now: _Round):
        """Return all clients, what the server receives through the exchange, and the memory."""
        exchange, info, rows, sending = self.exchange, now.info, now.rows, now.sending
        upload, count = self.upload(new), len(said.values)
        # The group of a message travels as its weight: a message said has no other.
        groups = None if said.groups is None else said.groups.astype(said.values[0].dtype)
        weights = [groups] * count + [upload.weights] * len(upload.values)
        messages = zip((*said.values, *upload.values), weights, memory.up, strict=True)
        sent = [
            exchange.send_up(info.key, info.index, channel, value, sending, weight, rows, part)
            for part, (value, weight, channel) in enumerate(messages)
        ]
        decoded = self.apply_decoded(new, tuple(delivery.coded for delivery, _ in sent))
        # Byzantine clients skip this correction.
        new = where_active(sending & ~sent[0][0].byzantine, decoded, new)
        clients = put_rows(rows, now.active, new, clients)

        arrived = sent[0][0].arrived
        groups = sent[0][0].weights.astype(jnp.int32) if said.groups is not None else None
        number = at_groups(arrived, groups, self.groups())
        means, changes, up = [], [], []
        for part, (delivery, channel) in enumerate(sent):
            if part < count:
                heard = arrived.astype(delivery.values.dtype)
                last = exchange.aggregate(delivery.values, heard, channel.last, groups)
            else:
                last = exchange.aggregate(channel.known, channel.weights, channel.last)
                if self.hears_changes:
                    moved = channel.known - memory.up[part].known
                    there = arrived
                    if rows is not None and not channel.transit:
                        there = jnp.zeros(now.num_clients, bool).at[rows].set(arrived)
                    none = jnp.zeros_like(last)
                    changes.append(exchange.aggregate(moved, there, none)[0])
            means.append(last if part < count and groups is not None else last[0])
            up.append(channel._replace(last=last))
        last = up[-1]
        received = Received(
            tuple(means),
            tuple(times(mean, number) for mean in means[:count]),
            number,
            jnp.sum(last.weights),
            now.num_clients,
            (*(channel.known for channel in up[count:]), last.weights),
            tuple(changes),
            beside(said, sending),
        )
        return clients, received, ExchangeState(tuple(up), memory.down)


def started(solver: StarSolver, problem: Any, model: jax.Array, key: jax.Array) -> Any:
    """Return the clients before the first round, and their messages."""

    def start(problem: Any) -> Any:
        return solver.start_clients(problem, copies(model, problem), key)

    return problem.in_groups(start) if hasattr(problem, "in_groups") else start(problem)


def init_exchange(
    exchange: Exchange,
    key: jax.Array,
    said: RoundMessage,
    upload: Upload,
    sends: Any,
    groups: int = 1,
) -> ExchangeState:
    """Return what both ends remember before the first round."""
    # Byzantine clients are drawn from one key: they are the same in all parts of a message.
    up = [exchange.init_up(key, value, None, groups) for value in said.values]
    up += [exchange.init_up(key, value, upload.weights) for value in upload.values]
    return ExchangeState(tuple(up), exchange.init_down(sends, up[0].known.shape[0]))


def work_present(
    problem: Any,
    info: RoundInfo,
    clients: Clients,
    work: Callable[[Any, Clients, jax.Array], Clients],
) -> Clients:
    """Return all clients after those that take part have worked, without messages.

    Args:
      problem: of all clients.
      info: of the round.
      clients: what every client keeps, a pytree of arrays (clients, ...).
      work: `(problem, clients, key) -> clients` for the clients of the problem that it is given,
        which may be some of all. It may close over nothing with an axis of clients.
    """
    rows = info.sampled if has(problem, Subset) else None
    own, active = at_rows(rows, (clients, info.active))
    present = problem if rows is None else problem.take(rows)
    return put_rows(rows, active, work(present, own, info.key), clients)
