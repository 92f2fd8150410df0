"""The server of a deployment: the simulation's round, with uploads in the place of clients."""

import json
import operator
import os
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count, finite_array
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._estimates import in_dtype_of
from fedjax_admm._run._keys import init_key, round_keys
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._links import (
    STAR,
    Fields,
    Shapes,
    check_deployable,
    decoded,
    fields_down,
    fields_first,
    fields_up,
    keys_of,
    number,
    round_key,
)
from fedjax_admm.deploy._messages import (
    Kind,
    Message,
    MessageError,
    check_sender,
    digest_of,
    from_body,
    read,
    to_body,
    write,
)
from fedjax_admm.deploy._record import Recorded, check_all_heard
from fedjax_admm.messages import Link
from fedjax_admm.participation import where_active
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers._declared import filled
from fedjax_admm.solvers._gradients import as_curvature
from fedjax_admm.solvers._messages import RoundMessage, StarState, Upload, parts
from fedjax_admm.solvers._star import StarSolver


class _Clients(NamedTuple):
    """What stands for a problem and its clients at the server."""

    num_clients: int
    start: jax.Array


@pytree_dataclass
class _Decoded(Link):
    """A channel of messages that have been decoded before."""

    in_order: bool = field(default=False, metadata={"static": True})

    def init(self, message):
        return ()

    def encode(self, message, state, key):
        return message, state


class _Uploads:
    """The roles of clients, played by what they have sent: their state is their upload."""

    sent: tuple[Upload, RoundMessage]
    watches: ClassVar[bool] = False

    def computed(self, problem, info):
        return None, problem

    def start_clients(self, problem, models, key):
        return self.sent

    def client(self, problem, clients, received, key):
        return self.sent

    def upload(self, clients):
        return clients

    def apply_decoded(self, clients, values):
        return clients

    def reply(self, clients, answer):
        return clients

    def first_model(self, problem, key):
        return problem.start

    def respects_access(self, problem):
        return False


def _receiver(solver: Any, curvature: jax.Array, upload: Upload, said: RoundMessage) -> Any:
    """Return the solver as its harness runs it at a real server: with uploads for clients."""
    solver = filled(solver, curvature)
    if not solver.exchange.plain:
        solver = replace(solver, exchange=replace(solver.exchange, up=_Decoded()))
    receiver = object.__new__(type("Receiver", (_Uploads, type(solver)), {}))
    receiver.__dict__.update(vars(solver), sent=(upload, said))
    return receiver


class Server(Recorded):
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
        self.num_clients = count("num_clients", num_clients)
        check_deployable(solver, *STAR)
        model = finite_array("model", model, (None,))
        self.solver, self.model, self.key = in_dtype_of(solver, [model]), model, key
        self._digest = digest_of(self.solver, num_clients, key)
        self._shapes: Shapes | None = None
        self._first: dict[int, Any] = {}  # before the first round: what has come, by client
        self._curvature: jax.Array | None = None
        self._state: StarState | None = None
        self._held: Any = ()  # of the channel up at the receiver, stacked over clients
        self._came: dict[int, Any] = {}  # in this round: what each client sends, None for nothing
        self._down: dict[int, bytes] = {}  # what each client is to read in this round
        self._answers: dict[int, bytes] = {}
        self._heard = np.zeros(num_clients, np.int64)  # one more than the round; 0 for never
        self.masks, self.mask = [], (num_clients,)
        self.bytes_up = self.bytes_down = 0  # of bodies; a header has `HEADER_BYTES` more

    # Before the first round.

    def start(self) -> dict[int, bytes]:
        """Return by client the message with the first model, once all have said hello.

        Raises:
          InputError: somebody has not.
        """
        self._complete()
        largest = jnp.max(jnp.stack([jnp.asarray(value) for value in self._first.values()]))
        self._curvature, self._first = as_curvature(largest), {}
        dtype = self.model.dtype
        fields = [number(self.model.shape, dtype), number((), dtype)]
        body = to_body(fields, [self.model, self._curvature])
        return {i: self._write(Kind.START, i, body) for i in self.numbers}

    def _complete(self) -> None:
        if self._state is None:
            check_all_heard(self.numbers, self._first)

    # Rounds.

    @property
    def numbers(self) -> range:
        """Return the numbers of the clients."""
        return range(self.num_clients)

    @property
    def heard(self) -> tuple[int, ...]:
        """Return who has been heard in the round that is open, or before the first one."""
        return tuple(sorted(self._came if self._state is not None else self._first))

    def receive(self, data: bytes, sender: int | None = None) -> int:
        """Take a client's message; return whose it is.

        Args:
          data: the bytes.
          sender: who has sent it, where the transport knows: another's message is refused.

        Raises:
          MessageError: it does not fit; nothing has changed then, and the server can go on.
        """
        kind = Kind.UP
        if self._state is None:
            kind = Kind.HELLO if self._curvature is None else Kind.READY
        message = read(data, kind, self._digest)
        check_sender(message, sender, self.numbers, self.round, self.heard)
        client = message.client
        if kind == Kind.HELLO:
            (self._first[client],) = from_body([number((), self.model.dtype)], message.body, [None])
        elif kind == Kind.READY:
            self._first[client] = self._read_first(message.body)
            if len(self._first) == self.num_clients:
                self._open()
        else:
            self._came[client] = self._read_up(message)
            self.bytes_up += len(message.body)
        return client

    def broadcast(self, client: int) -> bytes:
        """Return what a client is to read in the round that is open.

        After the last round it is what `Client.finish` reads.

        Raises:
          InputError: there is no such client, or not all are ready.
        """
        count("client", client, at_least=0, at_most=self.num_clients - 1)
        self._complete()
        body = self._answers.get(client, b"") if self.solver.replies else self._body(client)
        self.bytes_down += len(body)
        return self._write(Kind.DOWN, client, body)

    def close_round(self) -> tuple[int, ...]:
        """End the round with those who have been heard, and open the next; return who they are."""
        self._complete()
        came, index, before = self._came, self.round, self._state
        assert before is not None
        active = np.isin(np.arange(self.num_clients), list(came))
        sent = {i: value for i, value in came.items() if value is not None}
        said, upload = self._stacked({i: x for i, (x, _) in sent.items()}, before.clients)
        self._state = _step(
            *(self.solver, before, said, upload, jnp.asarray(active)),
            *(jnp.asarray(index, jnp.int32), self.key),
        )
        for i, (_, held) in sent.items():
            self._held = jax.tree.map(lambda x, new, i=i: x.at[i].set(new), self._held, held)
        self._answers.update(dict.fromkeys(came, b""))
        if self.solver.replies and sent:
            self._answers.update(self._encoded(before.exchange, index, sent))
        self._heard[active] = index + 1
        self.masks.append(active)
        self._came, self._down = {}, {}
        return tuple(sorted(came))

    @property
    def estimate(self) -> jax.Array:
        """Return the server's model, shape (dim,): `model` before the first round.

        A solver with a model per client keeps those at the clients, as `Client.clients`.
        """
        return self.model if self._state is None else self.solver.model(self._state.server)

    def estimate_of(self, state: StarState) -> jax.Array:
        """Return the server's model in the state of a simulation, to compare it with `estimate`."""
        return self.solver.model(state.server)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all rounds that are closed to a file, in the place of an older one.

        What has come in the round that is open is left out: these clients take their work back.

        Raises:
          InputError: no round has been opened yet.
        """
        self._complete()
        answers = [self._answers.get(i, b"") for i in self.numbers]
        arrays = (
            self._state,
            self._held,
            self._curvature,
            self._heard,
            self.record.heard,
            [np.frombuffer(body, np.uint8) for body in answers],
        )
        save(path, self._digest, arrays, [self._shapes, self.bytes_up, self.bytes_down])

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file of `save`.

        Raises:
          InputError: the file is of another solver or run, or damaged.
        """
        leaves, (shapes, self.bytes_up, self.bytes_down) = load(path, self._digest)
        self._shapes = Shapes(*shapes)
        self._shapes = self._shapes._replace(
            said=[tuple(x) for x in shapes[0]], upload=[tuple(x) for x in shapes[1]]
        )
        first = {i: self._zeros() for i in self.numbers}
        said, upload = self._stacked(first, None)
        state, held = _open(
            self.solver, jnp.ones((), self.model.dtype), self.model, said, upload, self.key
        )
        sizes = len(jax.tree.leaves((state, held)))
        self._state, self._held = jax.tree.unflatten(
            jax.tree.structure((state, held)), [jnp.asarray(x) for x in leaves[:sizes]]
        )
        curvature, self._heard, heard, *answers = leaves[sizes:]
        self._curvature, self.masks = jnp.asarray(curvature), list(heard)
        self._answers = {i: body.tobytes() for i, body in enumerate(answers)}

    # What travels.

    def _write(self, kind: Kind, client: int, body: bytes) -> bytes:
        message = Message(kind, client, self.round, int(self._heard[client]), body)
        return write(message, self._digest)

    def _read_first(self, body: bytes) -> Fields:
        """Return what a client sends before the first round, exactly.

        Raises:
          MessageError: it is of other shapes than the clients' before it, or not finite.
        """
        end = 4 + int.from_bytes(body[:4])
        try:
            content = json.loads(body[4:end])
            said, upload = (
                [tuple(map(operator.index, x)) for x in content.pop(k)] for k in Shapes._fields[:2]
            )
            shapes = Shapes(said, upload, **{k: bool(v) for k, v in content.items()})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise MessageError("the first message does not say which arrays it holds") from error
        if not (said or upload) or any(size < 1 for x in (*said, *upload) for size in x):
            raise MessageError(f"the first message holds arrays {shapes}, of which some are empty")
        if self._first and shapes != self._shapes:
            raise MessageError(
                f"the first message holds arrays {shapes}, but those of others {self._shapes}"
            )
        fields = fields_first(shapes, self.model.dtype)
        values = from_body(fields, body[end:], [None] * len(jax.tree.leaves(fields)))
        self._check_groups(shapes, values)
        self._shapes = shapes
        return values

    def _read_up(self, message: Message) -> Any:
        """Return what a client sends in a round, decoded, and what its link remembers then."""
        assert self._shapes is not None
        talks, own = _keys_up(
            *(self.solver, self.key, np.int32(message.round), np.int32(message.client)),
            parts=len(self._shapes.said) + len(self._shapes.upload),
            num_clients=self.num_clients,
        )
        if not talks:
            if message.body:
                raise MessageError(f"nothing is sent in round {message.round}")
            return None
        fields = fields_up(self.solver, self._shapes, self.model.dtype)
        codes, rest = from_body(fields, message.body, keys_of(fields, own))
        self._check_groups(self._shapes, Fields(codes, rest))
        values, held = [], []
        mine = jax.tree.map(lambda leaf: leaf[message.client], self._held)
        shapes = [*self._shapes.said, *self._shapes.upload]
        for code, link, shape in zip(codes, mine, shapes, strict=True):
            value, link = decoded(
                *(self.solver.exchange.up, code, link), shape=shape, dtype=self.model.dtype
            )
            values.append(value)
            held.append(link)
        if not all(np.all(np.isfinite(value)) for value in values):
            raise MessageError("the message decodes to a number that is not finite")
        return Fields(values, rest), tuple(held)

    def _check_groups(self, shapes: Shapes, values: Fields) -> None:
        groups = self.solver.groups()
        if shapes.groups and groups is not None and not 0 <= int(values.exact[0]) < groups:
            raise MessageError(f"there is no model {values.exact[0]}, but {groups} from 0 on")

    def _body(self, client: int) -> bytes:
        if not self._down:
            assert self._state is not None
            everybody = range(self.num_clients)
            self._down = self._encoded(self._state.exchange, self.round, everybody)
        return self._down[client]

    def _encoded(self, memory: Any, index: int, clients: Any) -> dict[int, bytes]:
        """Return the broadcast as the bytes of some clients."""
        assert self._state is not None
        sends, codes, rest = _codes_down(
            *(self.solver, self._state, memory, jnp.asarray(index, jnp.int32), self.key),
            num_clients=self.num_clients,
        )
        fields = fields_down(self.solver, sends, self.model.dtype)
        codes, rest = jax.tree.map(np.asarray, (codes, rest))
        if self.solver.reads_exactly and not rest:
            body = to_body(fields, Fields(codes, rest))
            return dict.fromkeys(clients, body)

        def own(i: int) -> Fields:
            rows = codes if self.solver.reads_exactly else jax.tree.map(lambda x: x[i], codes)
            return Fields(rows, [x[i] for x in rest])

        return {i: to_body(fields, own(i)) for i in clients}

    # From messages to what the harness takes.

    def _zeros(self) -> Fields:
        """Return a message of zeros: that of those who are absent."""
        assert self._shapes is not None
        dtype = self.model.dtype
        arrays = [np.zeros(x, dtype) for x in (*self._shapes.said, *self._shapes.upload)]
        rest = [np.zeros((), np.int32)] * self._shapes.groups
        return Fields(
            arrays, rest + [np.zeros((), dtype)] * (self._shapes.beside + self._shapes.weights)
        )

    def _stacked(
        self, came: dict[int, Fields], known: Upload | None
    ) -> tuple[RoundMessage, Upload]:
        """Return what clients send, stacked; zeros said, and their last upload, for the others."""
        assert self._shapes is not None
        none, shapes = self._zeros(), self._shapes
        rows = [came.get(i, none) for i in self.numbers]
        arrays = [jnp.stack([row.codes[k] for row in rows]) for k in range(len(none.codes))]
        rest = [
            jnp.stack([jnp.asarray((*row.exact, 0.0)[k]) for row in rows])
            for k in range(len(none.exact))
        ]
        count = len(shapes.said)
        groups = rest.pop(0) if shapes.groups else None
        beside = rest.pop(0) if shapes.beside else None
        values, weights = tuple(arrays[count:]), rest[0] if shapes.weights else None
        if known is not None:
            here = jnp.asarray(np.isin(np.arange(self.num_clients), list(came)))
            values = where_active(here, values, known.values)
            if shapes.weights:
                fixed = self.solver.fixed_weights
                weights = known.weights if fixed else where_active(here, weights, known.weights)
        return RoundMessage(tuple(arrays[:count]), groups, beside), Upload(values, weights)

    def _open(self) -> None:
        said, upload = self._stacked(self._first, None)
        self._first = {}
        self._state, self._held = _open(
            *(self.solver, self._curvature, self.model, said, upload, self.key)
        )


@jax.jit
def _open(solver, curvature, model, said, upload, key):
    """Return the state before the first round, and what the links up remember."""
    receiver = _receiver(solver, curvature, upload, said)
    clients = _Clients(jax.tree.leaves((said, upload))[0].shape[0], model)
    state = receiver.init(clients, init_key(key))
    values = (*said.values, *upload.values)
    held = tuple(jax.vmap(solver.exchange.up.listen)(value) for value in values)
    return state._replace(curvature=curvature), held


@jax.jit
def _step(solver, state, said, upload, active, index, key):
    """Return the state after a round: the harness's step."""
    receiver = _receiver(solver, state.curvature, upload, said)
    _, key = round_keys(key, index)
    clients = _Clients(active.shape[0], receiver.model(state.server))
    return receiver.step(clients, state, RoundInfo(index, key, active))


@partial(jax.jit, static_argnames=("parts", "num_clients"))
def _keys_up(solver, key, index, number, *, parts, num_clients):
    """Return whether clients send in a round, and the keys of a client's codes, one per array."""
    talks, key = round_key(solver, key, index)
    keys = [solver.exchange.keys_up(key, part, num_clients)[2] for part in range(parts)]
    return talks, [each[number] for each in keys]


@partial(jax.jit, static_argnames="num_clients")
def _codes_down(solver, state, memory, index, key, *, num_clients):
    """Return the broadcast, its codes, and the rows of its parts of which each has one."""
    exchange = solver.exchange
    sends = filled(solver, state.curvature).broadcast(state.server)
    shared, each = parts(sends)
    rest = [part.rows for part in each]
    if solver.reads_exactly:
        return sends, shared, rest
    _, key = round_key(solver, key, index)
    codes = []
    for part, (leaf, link) in enumerate(zip(shared, memory.down, strict=True)):
        keys = exchange.keys_down(key, part, num_clients)
        copies = jnp.broadcast_to(leaf, (num_clients, *leaf.shape))
        codes.append(jax.vmap(exchange.down.send)(copies, link, keys)[0])
    return sends, codes, rest
