"""A star: the server and its clients, which play the two sides of a solver's round.

A message up holds the arrays that a client says, the arrays of its upload, and the numbers beside
them; a message down the arrays of the broadcast, and then the client's own rows of its parts. Codes
of the exchange's channels are in the place of arrays. Before the first round a client sends which
arrays these are, and the first ones exactly.
"""

import json
import operator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count, finite_array, refuse
from fedjax_admm._run._keys import init_key, round_keys
from fedjax_admm.capabilities import check_kept
from fedjax_admm.deploy import _messages as wire
from fedjax_admm.deploy._endpoint import Child, Parent, check_problem, restored
from fedjax_admm.deploy._messages import Message, MessageError
from fedjax_admm.messages import Identity, Whole
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers import PerClient, RoundMessage, StarSolver, Upload

STAR = (StarSolver, "a solver with one server, such as solvers.fed_admm()")


class Shapes(NamedTuple):
    """The arrays that one client sends, and what travels beside them."""

    said: list[tuple[int, ...]]
    upload: list[tuple[int, ...]]
    groups: bool  # whether a message is for one of several models
    beside: bool  # whether a number travels beside what is said
    weights: bool  # whether an upload has a weight

    @classmethod
    def of(cls, said: RoundMessage, upload: Upload) -> "Shapes":
        """Return the shapes of stacked messages."""
        first, second = ([value.shape[1:] for value in each.values] for each in (said, upload))
        groups, beside = said.groups is not None, said.beside is not None
        return cls(first, second, groups, beside, upload.weights is not None)

    @classmethod
    def read(cls, text: str | bytes) -> "Shapes":
        """Return the shapes that `text` says as a JSON object.

        Raises:
          MessageError: it holds none.
        """
        try:
            said, upload, *beside = (json.loads(text)[name] for name in cls._fields)
            first, second = (
                [tuple(map(operator.index, x)) for x in each] for each in (said, upload)
            )
            groups, other, weights = map(bool, beside)
            shapes = cls(first, second, groups, other, weights)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise MessageError("the first message does not say which arrays it holds") from error
        full = shapes.arrays and all(size > 0 for shape in shapes.arrays for size in shape)
        wire.check(full, f"the first message holds arrays {shapes}, of which some are empty")
        return shapes

    @property
    def arrays(self) -> list[tuple[int, ...]]:
        """Return the shapes of all arrays, in the order of travelling."""
        return [*self.said, *self.upload]

    def fields(self, channel: Any, dtype: Any) -> list[Any]:
        """Return what a client's message is on the wire."""
        beside = [Whole((), 32)] * self.groups + [wire.number((), dtype)] * (
            self.beside + self.weights
        )
        return [*wire.fields_of(channel, self.arrays, dtype), *beside]

    def values(self, said: RoundMessage, upload: Upload) -> list[Any]:
        """Return messages as the list of what travels."""
        beside = [said.groups, said.beside, upload.weights if self.weights else None]
        return [*said.values, *upload.values, *(each for each in beside if each is not None)]

    def messages(self, values: list[Any]) -> tuple[RoundMessage, Upload]:
        """Return the messages in a list of what travels."""
        first, last = len(self.said), len(self.arrays)
        beside = iter(values[last:])
        groups, number, weights = (next(beside) if here else None for here in self[2:])
        said = RoundMessage(tuple(values[:first]), groups, number)
        return said, Upload(tuple(values[first:last]), weights)

    def in_rounds(self, solver: Any) -> "Shapes":
        """Return what travels in rounds, where weights that never change do not."""
        return self._replace(weights=self.weights and not solver.fixed_weights)


class ClientState(NamedTuple):
    """What a client remembers between rounds."""

    clients: Any  # of the solver, with one row
    up: tuple[Any, ...]  # of the channel up at the sender, for every array that it sends
    down: tuple[Any, ...]  # of the channel down at the receiver, for every array that it reads
    curvature: jax.Array  # shape=()


class Client(Child):
    """One client of a solver with one server.

    Args:
      solver: as the server has it, with the same numbers.
      problem: of this client alone, `num_clients == 1`.
      number: which client it is, from 0; minibatches and codes are drawn by it.
      num_clients: how many there are in all.
      key: of the run, as the server has it. It is no secret.

    Raises:
      InputError: the problem has several clients, or not what the solver needs; or the solver has
        no single server, or simulates what happens in earnest here (an attack, a delay).
    """

    def __init__(
        self, solver: StarSolver, problem: Any, number: int, num_clients: int, key: jax.Array
    ) -> None:
        count("num_clients", num_clients)
        count("number", number, at_least=0, at_most=num_clients - 1)
        check_problem(solver, problem)
        super().__init__(number, STAR, solver, problem, key, num_clients)
        solver.check(problem, 0)
        self.problem = problem
        first = jax.eval_shape(self.solver.first_model, problem, key)
        self._first, self._dtype = first, first.dtype
        self._start = partial(_start, self.solver, problem, key, num_clients=num_clients)
        curvature = jax.ShapeDtypeStruct((), self._dtype)
        self._like, said, upload, self._sends = jax.eval_shape(self._start, first, curvature)
        check_kept(solver, problem, self._like)
        averages = getattr(problem, "average_state", False)
        told = "must be False in a deployment, whose messages hold models alone"
        refuse(averages, "average_state", told, remedy="leave the states private")
        self._shapes = Shapes.of(said, upload)

    def _curvature(self) -> jax.Array:
        key = init_key(self.key)
        return self.solver.own_curvature(self.problem, key, self.number, self.num_clients)

    def _begin(self, largest: np.ndarray, body: bytes) -> bytes:
        (model,) = wire.from_body([wire.number(self._first.shape, self._dtype)], body)
        curvature = self.solver.as_curvature(jnp.asarray(largest, self._dtype))
        state, said, upload, _ = self._start(jnp.asarray(model), curvature)
        self._states = {0: state}
        values = [value[0] for value in self._shapes.values(said, upload)]
        body = wire.to_body(self._shapes.fields(Identity(), self._dtype), values)
        text = json.dumps(self._shapes._asdict()).encode()
        return len(text).to_bytes(4) + text + body

    def _play(self, message: Message, state: ClientState) -> tuple[ClientState, bytes]:
        received = ()
        if not self.solver.replies:
            received, state = self._received(state, message.body, message.round)
        now = np.int32(message.round), self.key, np.int32(self.number)
        arguments = (self.solver, self.problem, state, received, *now)
        state, codes, talks = _work(*arguments, num_clients=self.num_clients)
        shapes = self._shapes.in_rounds(self.solver)
        fields = shapes.fields(self.solver.exchange.up, self._dtype)
        return state, wire.to_body(fields, codes) if talks else b""

    def _replied(self, message: Message, state: ClientState) -> ClientState:
        if not (self.solver.replies and message.body):
            return state
        answer, state = self._received(state, message.body, message.heard - 1)
        return state._replace(clients=_reply(self.solver, state.clients, state.curvature, answer))

    def _received(self, state: ClientState, body: bytes, index: int) -> tuple[Any, ClientState]:
        """Return a broadcast as it arrives, stacked, and the state with the links down."""
        (shared, own), channel = _parts(self._sends), self.solver.exchange.down
        _, keys = _keys(self, index, self.number, len(shared), up=False)
        values = wire.from_body(_fields_down(channel, shared, own, self._dtype), body, keys)
        codes, shapes = values[: len(shared)], [leaf.shape for leaf in shared]
        arrives, down = wire.decoded(channel, codes, state.down, shapes, self._dtype)
        arriving, rows = iter(arrives), iter(values[len(shared) :])
        leaves, structure = jax.tree.flatten(self._sends, is_leaf=_is_own)
        read = [np.asarray(next(rows if _is_own(leaf) else arriving))[None] for leaf in leaves]
        return jax.tree.unflatten(structure, read), state._replace(down=down)


class Server(Parent):
    """The server of a solver with one server; it holds no client's data.

    Args:
      solver: as the clients have it.
      model: the first model, shape (dim,).
      num_clients: how many there are in all.
      key: of the run, as the clients have it.

    Raises:
      InputError: the solver has no single server, or simulates what happens in earnest here (an
        attack, a delay).
    """

    def __init__(
        self, solver: StarSolver, model: jax.Array, num_clients: int, key: jax.Array
    ) -> None:
        numbers = range(count("num_clients", num_clients))
        model = finite_array("model", model, (None,))
        super().__init__(numbers, (num_clients,), STAR, solver, [model], key, num_clients)
        self.model = model
        exchange = replace(self.solver.exchange, up=Identity())
        self._decoding = replace(self.solver, exchange=exchange)  # reads what has been decoded
        self._shapes: Any = None  # what clients send, once it is known
        self._state: Any = None  # of the harness, with the last uploads in the place of clients
        self._held: Any = ()  # of the channel up at the receiver, stacked over clients

    @property
    def estimate(self) -> jax.Array:
        """Return the server's model, shape (dim,): `model` before the first round.

        A solver with a model per client keeps those at the clients, as `Client.clients`.
        """
        return self.model if self._state is None else self.estimate_of(self._state)

    def estimate_of(self, state: Any) -> jax.Array:
        """Return the server's model in the state of a simulation, to compare it with `estimate`."""
        return self.solver.model(state.server)

    # Before the first round.

    def _greet(self) -> bytes:
        return wire.to_body([wire.number(self.model.shape, self.model.dtype)], [self.model])

    def _ready(self, message: Message) -> list[Any]:
        end = 4 + int.from_bytes(message.body[:4])
        shapes = Shapes.read(message.body[4:end])
        told = f"the first message holds arrays {shapes}, but those of others {self._shapes}"
        wire.check(not self._came or shapes == self._shapes, told)
        values = self._values(shapes, Identity(), message.body[end:])
        self._shapes = shapes
        return values

    def _open(self, came: dict[int, Any]) -> None:
        said, upload = self._stacked(came, self._shapes)
        curvature = self.solver.as_curvature(jnp.asarray(self.largest, self.model.dtype))
        arguments = (self._decoding, self.solver.exchange.up, curvature, self.model, said, upload)
        self._state, self._held = _open(*arguments, self.key)

    # Rounds.

    def _receive(self, message: Message) -> Any:
        """Return what a client sends in a round, decoded, and what its links remember then."""
        arrays, channel = self._shapes.arrays, self.solver.exchange.up
        talks, keys = _keys(self, message.round, message.client, len(arrays), up=True)
        if not talks:
            wire.check(not message.body, f"nothing is sent in round {message.round}")
            return None
        values = self._values(self._shapes.in_rounds(self.solver), channel, message.body, keys)
        links = jax.tree.map(lambda leaf: leaf[message.client], self._held)
        read, held = wire.decoded(channel, values[: len(arrays)], links, arrays, self.model.dtype)
        return [*read, *values[len(arrays) :]], held

    def _encoded(self) -> dict[int, bytes]:
        # Answers are written when a round is closed.
        return {} if self.solver.replies else self._coded(self._state)

    def _close(self, came: dict[int, Any]) -> np.ndarray:
        active = np.isin(np.arange(self.num_clients), list(came))
        sent = {i: value for i, value in came.items() if value is not None}
        values = {i: value for i, (value, _) in sent.items()}
        said, upload = self._stacked(values, self._shapes.in_rounds(self.solver))
        before, index = self._state, np.int32(self.round)
        self._state = _step(self._decoding, before, said, upload, active, index, self.key)
        self._held = wire.with_rows(self._held, {i: held for i, (_, held) in sent.items()})
        self._bodies = self._bodies | dict.fromkeys(came, b"") if self.solver.replies else {}
        if self.solver.replies and sent:
            state = self._state._replace(exchange=before.exchange)
            answers = self._coded(state)
            self._bodies |= {i: answers[i] for i in sent}
        return active

    def _coded(self, state: Any) -> dict[int, bytes]:
        """Return the broadcast of a state, in the round that is open, as every client's bytes."""
        arguments = (self.solver, state, np.int32(self.round), self.key)
        codes, own = _codes_down(*arguments, num_clients=self.num_clients)
        shared, parts = _parts(jax.eval_shape(self.solver.broadcast, state.server))
        fields = _fields_down(self.solver.exchange.down, shared, parts, self.model.dtype)
        if self.solver.reads_exactly and not own:
            body = wire.to_body(fields, jax.tree.map(lambda x: x[0], codes))
            return dict.fromkeys(self.numbers, body)
        return wire.rows_to_bodies(fields, [*codes, *own], self.numbers)

    def _values(self, shapes: Shapes, channel: Any, body: bytes, keys: Any = ()) -> list[Any]:
        """Return what travels in a message, of which arrays are coded."""
        values = wire.from_body(shapes.fields(channel, self.model.dtype), body, keys)
        groups, group = self.solver.groups(), values[len(shapes.arrays)] if shapes.groups else 0
        fits = groups is None or 0 <= group < groups
        wire.check(fits, f"there is no model {group}, but {groups} from 0 on")
        return values

    def _stacked(self, came: dict[int, Any], shapes: Any) -> tuple[RoundMessage, Upload]:
        """Return what clients send, stacked; zeros for those who are absent."""
        fields = shapes.fields(Identity(), self.model.dtype)
        zeros = wire.from_body(fields, bytes(wire.bytes_of(fields)))
        rows = [came.get(i, zeros) for i in self.numbers]
        return shapes.messages([np.stack(each) for each in zip(*rows, strict=True)])

    def _pack(self) -> tuple[Any, list[Any]]:
        bodies = [np.frombuffer(self._bodies.get(i, b""), np.uint8) for i in self.numbers]
        return (bodies, self._state, self._held), [json.dumps(self._shapes._asdict())]

    def _unpack(self, leaves: list[np.ndarray], numbers: list[Any]) -> None:
        self._shapes = Shapes.read(numbers[0])
        self._bodies = {i: leaves[i].tobytes() for i in self.numbers if len(leaves[i])}
        self._open({})  # of which the structure is used
        like = jax.tree.structure((self._state, self._held))
        self._state, self._held = restored(like, leaves[self.num_clients :])


def _is_own(part: Any) -> bool:
    return isinstance(part, PerClient)


def _parts(sends: Any) -> tuple[list[Any], list[Any]]:
    """Return the arrays of a broadcast that all read alike, and those with a row for each."""
    leaves = jax.tree.leaves(sends, is_leaf=_is_own)
    return [x for x in leaves if not _is_own(x)], [x.rows for x in leaves if _is_own(x)]


def _fields_down(channel: Any, shared: list[Any], own: list[Any], dtype: Any) -> list[Any]:
    """Return what the server's message to one client is on the wire."""
    codes = wire.fields_of(channel, [leaf.shape for leaf in shared], dtype)
    return [*codes, *(wire.number(rows.shape[1:], dtype) for rows in own)]


def _turn(solver, key, index):
    """Return whether clients send in a round, and the key of its messages."""
    talks, key = solver.coin(round_keys(key, index)[1])
    return jnp.ones((), bool) if talks is None else talks, key


@partial(jax.jit, static_argnames="num_clients")
def _start(solver, problem, key, model, curvature, *, num_clients):
    """Return the first state, what counts as said, the first upload, and the first broadcast."""
    solver, exchange = solver.at(curvature), solver.exchange
    clients, said = solver.start_clients(problem, model[None], init_key(key))
    upload = solver.upload(clients)
    up = tuple(exchange.up.init(value[0]) for value in (*said.values, *upload.values))
    sends = solver.broadcast(solver.start_server(model, num_clients))
    down = tuple(exchange.down.listen(leaf) for leaf in _parts(sends)[0])
    return ClientState(clients, up, down, curvature), said, upload, sends


@partial(jax.jit, static_argnames="num_clients")
def _work(solver, problem, state, received, index, key, number, *, num_clients):
    """Return the state after the work of a round, what travels, and whether it does."""
    solver, exchange = solver.at(state.curvature, index), solver.exchange
    talks, key = _turn(solver, key, index)
    clients, said = solver.client(problem, state.clients, received, key)
    upload = solver.upload(clients)
    values = Shapes.of(said, upload).in_rounds(solver).values(said, upload)
    values, arrive, up = [value[0] for value in values], [], []
    for part, link in enumerate(state.up):
        own = exchange.keys_up(key, part, num_clients)[2][number]
        arrive.append(exchange.up.encode(values[part], link, own)[0][None])
        values[part], link = exchange.up.send(values[part], link, jax.random.clone(own))
        up.append(link)
    after = clients, tuple(up)
    if not exchange.plain:
        after = solver.apply_decoded(clients, tuple(arrive)), tuple(up)
    silent = clients, state.up
    clients, up = jax.tree.map(lambda a, b: jnp.where(talks, a, b), after, silent)
    return state._replace(clients=clients, up=up), values, talks


@jax.jit
def _reply(solver, clients, curvature, answer):
    """Return what the client keeps once it has read the server's answer."""
    return solver.at(curvature).reply(clients, answer)


def _keys(end: Any, index: int, number: int, parts: int, *, up: bool) -> tuple[Any, list[Any]]:
    """Return whether clients send in a round, and the keys of one client's codes, one per array."""
    arguments = (end.solver, end.key, np.int32(index), np.int32(number))
    return _own_keys(*arguments, up=up, parts=parts, num_clients=end.num_clients)


@partial(jax.jit, static_argnames=("up", "parts", "num_clients"))
def _own_keys(solver, key, index, number, *, up, parts, num_clients):
    (talks, key), link, n = _turn(solver, key, index), solver.exchange, num_clients
    keys = [link.keys_up(key, i, n)[2] if up else link.keys_down(key, i, n) for i in range(parts)]
    return talks, [each[number] for each in keys]


@jax.jit
def _open(solver, channel, curvature, model, said, upload, key):
    """Return the state before the first round, and what the links up remember."""
    values = (*said.values, *upload.values)
    number, held = values[0].shape[0], tuple(jax.vmap(channel.listen)(value) for value in values)
    return solver.init_with(model, curvature, said, upload, number, init_key(key)), held


@jax.jit
def _step(solver, state, said, upload, active, index, key):
    """Return the state after a round."""
    if solver.fixed_weights:
        upload = upload._replace(weights=state.clients.weights)
    info = RoundInfo(index, round_keys(key, index)[1], active)
    return solver.step_with(state, said, upload, info)


@partial(jax.jit, static_argnames="num_clients")
def _codes_down(solver, state, index, key, *, num_clients):
    """Return the codes of a broadcast, stacked over clients, and the parts with a row for each."""
    exchange, (_, key) = solver.exchange, _turn(solver, key, index)
    shared, own = _parts(solver.at(state.curvature).broadcast(state.server))
    links = [()] * len(shared) if solver.reads_exactly else state.exchange.down
    codes = []
    for part, (leaf, link) in enumerate(zip(shared, links, strict=True)):
        keys = exchange.keys_down(key, part, num_clients)
        copies = jnp.broadcast_to(leaf, (num_clients, *leaf.shape))
        codes.append(jax.vmap(exchange.down.send)(copies, link, keys)[0])
    return codes, own
