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
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jax.interpreters.partial_eval import dce_jaxpr

from fedjax_admm.capabilities import (
    OnStar,
    Subset,
    averaged_states,
    first_model,
    has,
    numbers_in_states,
    shaped,
)
from fedjax_admm.messages import Exchange, at_rows, put_rows
from fedjax_admm.participation import where_active
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers._declared import at_round, filled, open_fields
from fedjax_admm.solvers._gradients import (
    as_curvature,
    check_curvature_known,
    copies,
    curvature_alone,
    largest_curvature,
    row_alone,
)
from fedjax_admm.solvers._messages import (
    ExchangeState,
    Memory,
    Received,
    RoundMessage,
    StarState,
    Upload,
    add_up,
    parts,
)
from fedjax_admm.solvers._seeing import check_sights, watching
from fedjax_admm.solvers._star_messages import Round, StarMessages
from fedjax_admm.traffic import Traffic

Clients = TypeVar("Clients")


class StarSolver(StarMessages):
    """A solver as the roles of its clients and its server; see the module's docstring."""

    requires: ClassVar[tuple[type, ...]] = (OnStar,)  # and what parts of the solver require
    replies: ClassVar[bool] = False  # the clients read after the server's step, not before theirs
    uploads_first: ClassVar[bool] = False  # the server takes a step before the first round

    @property
    def fixed_weights(self) -> bool:
        """Return whether the weights of uploads never change; a part of the structure."""
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

    def first_model(self, problem: Any, key: jax.Array, /) -> jax.Array:
        """Return the model before the first round, shape (dim,); the key is that of `init`."""
        return first_model(problem)

    def computed(self, problem: Any, info: RoundInfo, /) -> tuple[jax.Array | None, Any]:
        """Return the clients whose rows are computed, all if None, and the problem of these."""
        if info.sampled is None or not has(problem, Subset):
            return None, problem
        return info.sampled, problem.take(info.sampled)

    def present(self, problem: Any, active: jax.Array, /) -> jax.Array:
        """Return which of those who take part can work, bool, shape (clients,)."""
        return active

    def serves(self, number: jax.Array, /) -> jax.Array | bool:
        """Return whether the server takes a step where so many clients, or none, were heard."""
        return jnp.any(number > 0)

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
        model = self.first_model(problem, key)
        curvature = jnp.ones((), model.dtype)
        if open_fields(self):
            curvature = largest_curvature(problem, model)
        solver = self.at(curvature)
        clients, said = started(solver, problem, model, key)
        upload = solver.upload(clients)
        if self.uploads_first:
            clients = averaged_states(problem, clients, None, jnp.ones(problem.num_clients, bool))
        state = self.init_with(model, curvature, said, upload, problem.num_clients, key)
        return state._replace(clients=clients)

    def step(self, problem: Any, state: StarState, info: RoundInfo) -> StarState:
        """Return the state after one round."""
        solver = self.at(state.curvature, info.index)
        rows, present = self.computed(problem, info)
        active = self.present(problem, info.active)
        own, active = at_rows(rows, (state.clients, active))
        now = self._now(info, rows, active, problem.num_clients)

        received, memory = (), state.exchange
        if not self.replies:
            received, memory = self._down(memory, solver.broadcast(state.server), active, now)
        new, said = solver.client(present, own, received, now.info.key)
        if self.exchange.plain:
            clients = put_rows(rows, active, new, state.clients)
            uploads = (solver.upload(own), solver.upload(new), solver.upload(clients))
            heard, memory = solver._up(memory, *uploads, said, now)
        else:
            sent = solver._send(memory, solver.upload(new), said, now)
            decoded = solver.apply_decoded(new, tuple(delivery.coded for delivery, _ in sent))
            # Byzantine clients skip this correction.
            new = where_active(now.sending & ~sent[0][0].byzantine, decoded, new)
            clients = put_rows(rows, active, new, state.clients)
            heard, memory = solver._exchanged_up(memory, sent, said, now)
        clients = averaged_states(problem, clients, rows, now.sending)
        server, answer, memory = solver._serve(state.server, heard, memory, now)
        if self.replies:
            replied = solver.reply(at_rows(rows, clients), answer)
            clients = put_rows(rows, now.sending, replied, clients)
        return state._replace(server=server, clients=clients, exchange=memory)

    # The parts of it, for clients that are elsewhere.

    def row(self, problem: Any, number: int) -> Any:
        """Return the problem of one client, from 0, of a problem of all."""
        return row_alone(problem, number)

    def at(self, curvature: jax.Array, index: jax.Array | None = None) -> Any:
        """Return the solver whose roles clients play in a round, or before the first one.

        Args:
          curvature: of the losses, shape (), from which open numbers follow.
          index: of the round, shape (), int32.
        """
        solver = filled(self, curvature)
        return watching(solver if index is None else at_round(solver, index), index)

    as_curvature = staticmethod(as_curvature)

    def own_curvature(
        self, problem: Any, key: jax.Array, number: int, num_clients: int
    ) -> jax.Array:
        """Return the estimate of one client for `as_curvature`, shape ().

        Args:
          problem: of this client alone.
          key: of `init`.
          number: which client it is, from 0.
          num_clients: how many there are in all.
        """
        return curvature_alone(self, problem, self.first_model(problem, key), number, num_clients)

    def init_with(
        self,
        model: jax.Array,
        curvature: jax.Array,
        said: RoundMessage,
        upload: Upload,
        num_clients: int,
        key: jax.Array,
    ) -> StarState:
        """Return the state before the first round of clients that have sent these messages.

        Args:
          model: the first one, shape (dim,).
          curvature: shape ().
          said: stacked over the clients.
          upload: stacked over the clients; it takes their place in the state.
          num_clients: how many there are.
          key: of `init`.
        """
        solver, exchange = filled(self, curvature), self.exchange
        server = solver.start_server(model, num_clients)
        shared, _ = parts(solver.broadcast(server))  # what clients know before the first round
        sums, weight = add_up(upload, num_clients, model.dtype)
        if self.uploads_first:
            number = jnp.asarray(num_clients, jnp.int32)
            means = tuple(total / weight for total in sums)
            first = Received(means, (), number, weight, num_clients)
            server = solver.server(server, first, None)
        if exchange.plain:
            known = upload if self.has_coin() else ()
            lost = tuple(map(jnp.zeros_like, sums)) if self.compensates else ()
            return StarState(server, upload, curvature, Memory(sums, weight, known, lost))
        start = init_exchange(exchange, key, said, upload, shared, self.groups() or 1)
        return StarState(server, upload, curvature, start)

    def step_with(
        self, state: StarState, said: RoundMessage, upload: Upload, info: RoundInfo
    ) -> StarState:
        """Return the state after a round in which clients have sent these messages.

        Args:
          state: of `init_with`, with the last upload of every client.
          said: stacked over all clients; of those who are absent it does not count.
          upload: likewise.
          info: of the round.
        """
        solver = at_round(filled(self, state.curvature), info.index)
        now, memory = self._now(info, None, info.active, info.active.shape[0]), state.exchange
        if not self.replies:
            _, memory = self._down(memory, solver.broadcast(state.server), info.active, now)
        known = where_active(now.sending, upload, state.clients)
        if self.exchange.plain:
            heard, memory = solver._up(memory, state.clients, upload, known, said, now)
        else:
            sent = solver._send(memory, upload, said, now)
            heard, memory = solver._exchanged_up(memory, sent, said, now)
        server, _, memory = solver._serve(state.server, heard, memory, now)
        return state._replace(server=server, clients=known, exchange=memory)

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
        return jnp.sum(self.present(problem, active), dtype=jnp.int32)

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
            now = Round(info, rows, active, active, problem.num_clients)
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

    def _serve(self, server: Any, heard: Received, memory: Any, now: Round) -> tuple[Any, ...]:
        """Return the server after a round, its answer where it replies, and the memory."""
        after, answer = self.server(server, heard, now.info), ()
        served = self.serves(heard.number)
        after = jax.tree.map(lambda a, b: jnp.where(served, a, b), after, server)
        if self.replies:
            answer, memory = self._down(memory, self.broadcast(after), now.sending, now)
        return after, answer, memory


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
