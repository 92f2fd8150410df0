"""A client of a deployment: its own data, its own state, and the roles `client` and `upload`."""

import json
import os
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, count
from fedjax_admm._run._estimates import in_dtype_of
from fedjax_admm._run._keys import init_key
from fedjax_admm.capabilities import check_capabilities, check_kept
from fedjax_admm.deploy._files import load, save
from fedjax_admm.deploy._links import (
    STAR,
    Fields,
    Shapes,
    check_deployable,
    decoded,
    exact,
    fields_down,
    fields_first,
    fields_up,
    keys_of,
    number,
    round_key,
    shapes_of,
)
from fedjax_admm.deploy._messages import (
    Kind,
    Message,
    MessageError,
    check_not_begun,
    check_open,
    digest_of,
    from_body,
    read_own,
    to_body,
    write,
)
from fedjax_admm.solvers._declared import at_round, filled, open_fields
from fedjax_admm.solvers._gradients import copies, looked_at, own_curvature
from fedjax_admm.solvers._messages import PerClient, is_per_client, parts
from fedjax_admm.solvers._seeing import watching
from fedjax_admm.solvers._star import StarSolver


class ClientState(NamedTuple):
    """What a client remembers between rounds."""

    clients: Any  # of the solver, with one row
    up: tuple[Any, ...]  # of the channel up at the sender, for every array that it sends
    down: tuple[Any, ...]  # of the channel down at the receiver, for every array that it reads
    curvature: jax.Array  # shape=()


class Client:
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
        self.num_clients = count("num_clients", num_clients)
        self.number = count("number", number, at_least=0, at_most=num_clients - 1)
        check_deployable(solver, *STAR)
        check_capabilities(solver, problem)
        check_own(problem)
        solver.check(problem, 0)
        self.solver, self.problem, self.key = in_dtype_of(solver, problem), problem, key
        self._digest = digest_of(self.solver, num_clients, key)
        first = jax.eval_shape(self.solver.first_model, problem, key)
        self._dim, self._dtype = first.shape, first.dtype
        like = partial(_start, num_clients=num_clients)
        curvature = jax.ShapeDtypeStruct((), first.dtype)
        self._like, said, upload = jax.eval_shape(like, self.solver, problem, first, curvature, key)
        check_kept(solver, problem, self._like)
        if getattr(problem, "average_state", False):
            raise InputError(
                "must be False in a deployment, whose messages hold models alone",
                argument="average_state",
                value=True,
                remedy="leave the states private",
            )
        self._shapes: Shapes = shapes_of(said, upload)
        sends = jax.eval_shape(partial(_sends, num_clients=num_clients), self.solver, first)
        self._sends: Any = sends
        self._down: Fields = fields_down(self.solver, sends, first.dtype)
        self._state: ClientState | None = None
        self._pending: ClientState | None = None
        # One more than the round that the server has heard last, and than that of the last work.
        self._heard = self._worked = 0

    def hello(self) -> bytes:
        """Return the message that opens a deployment: an estimate of the curvature of the loss."""
        curvature, clients = jnp.zeros((), self._dtype), looked_at(self.num_clients)
        if open_fields(self.solver) and self.number in clients:
            place = jnp.asarray(clients.index(self.number), jnp.int32)
            curvature = _curvature(self.solver, self.problem, self.key, place, number=len(clients))
        return self._write(Kind.HELLO, 0, to_body([number((), self._dtype)], [curvature]))

    def begin(self, data: bytes) -> bytes:
        """Read the first model and the largest curvature; return what the server remembers first.

        Raises:
          MessageError: the message is not the server's first one, or this client has worked since.
        """
        fields = [number(self._dim, self._dtype), number((), self._dtype)]
        message = self._read(data, Kind.START)
        check_not_begun(self._worked)
        model, curvature = from_body(fields, message.body, [None, None])
        self._state, said, upload = _start(
            *(self.solver, self.problem, jnp.asarray(model), jnp.asarray(curvature), self.key),
            num_clients=self.num_clients,
        )
        values = [value[0] for value in (*said.values, *upload.values)]
        rest = [value[0] for value in exact(said, upload, self._shapes.weights)]
        body = to_body(fields_first(self._shapes, self._dtype), Fields(values, rest))
        shapes = json.dumps(self._shapes._asdict()).encode()
        return self._write(Kind.READY, 0, len(shapes).to_bytes(4) + shapes + body)

    def work(self, data: bytes) -> bytes:
        """Read the message of a round, do the client's part of it, and return the upload.

        The work counts once a later message says that the server has heard it in time. Until then
        the client can take it back.

        Raises:
          MessageError: the message is not for this client, or of a round that is over.
        """
        message, settled = self._settled(data, self._worked - 1)
        state, received = settled, ()
        if not self.solver.replies:
            received, down = self._received(state, message.body, message.round)
            state = state._replace(down=down)
        self._pending, codes, rest, talks = _work(
            *(self.solver, self.problem, state, received, np.int32(message.round)),
            *(self.key, np.int32(self.number)),
            num_clients=self.num_clients,
        )
        self._state, self._heard, self._worked = settled, message.heard, message.round + 1
        fields = fields_up(self.solver, self._shapes, self._dtype)
        body = to_body(fields, Fields(codes, rest)) if talks else b""
        return self._write(Kind.UP, message.round, body)

    def finish(self, data: bytes) -> None:
        """Read the message after the last round: the last work counts if it was heard.

        Raises:
          MessageError: as `work`.
        """
        message, self._state = self._settled(data, self._worked)
        self._pending, self._heard = None, message.heard

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what the client remembers to a file, in the place of an older one."""
        numbers = (self._heard, self._worked)
        save(path, self._digest, (self._state, self._pending), (self.number, *numbers))

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file of `save`.

        Raises:
          InputError: the file is of another solver, run or client, or damaged.
        """
        leaves, (saved, *numbers) = load(path, self._digest)
        if saved != self.number:
            raise InputError(
                f"is of client {saved}, but this is {self.number}", argument="path", value=path
            )
        like = jax.tree.structure(self._like)
        states = [
            jax.tree.unflatten(like, [jnp.asarray(x) for x in leaves[i : i + like.num_leaves]])
            for i in range(0, len(leaves), like.num_leaves)
        ]
        self._state, self._pending = (*states, None, None)[:2]
        self._heard, self._worked = numbers

    @property
    def clients(self) -> Any:
        """Return what the solver keeps for this client, with one row; None before `begin`."""
        return None if self._state is None else self._state.clients

    def _write(self, kind: Kind, index: int, body: bytes) -> bytes:
        return write(Message(kind, self.number, index, self._heard, body), self._digest)

    def _read(self, data: bytes, kind: Kind) -> Message:
        return read_own(data, kind, self._digest, self.number)

    def _settled(self, data: bytes, open_round: int) -> tuple[Message, ClientState]:
        """Read the message of a round; return the state with the last work if that was heard.

        Raises:
          MessageError: the message is of a round before `open_round`, or the state is not where the
            server thinks it is.
        """
        message, state = self._read(data, Kind.DOWN), self._state
        if state is None:
            raise MessageError("a round has begun before this client had its first model")
        check_open(message, open_round)
        heard_now = self._pending is not None and message.heard == self._worked
        if not heard_now and message.heard != self._heard:
            raise MessageError(
                f"the server has heard this client last in round {message.heard - 1}, which its "
                f"state does not know: resume it from its latest file"
            )
        if heard_now:
            state = self._pending
            assert state is not None
            if self.solver.replies and message.body:
                answer, down = self._received(state, message.body, message.heard - 1)
                clients = _reply(self.solver, state.clients, state.curvature, answer)
                state = state._replace(clients=clients, down=down)
        return message, state

    def _received(self, state: Any, body: bytes, index: int) -> tuple[Any, tuple[Any, ...]]:
        """Return a broadcast as it arrives, stacked, and what the links down remember."""
        mine = _keys_down(
            *(self.solver, self.key, np.int32(index), np.int32(self.number)),
            parts=len(self._down.codes),
            num_clients=self.num_clients,
        )
        codes, rest = from_body(self._down, body, keys_of(self._down, mine))
        shared, _ = parts(self._sends)
        arrives, down = [], []
        for leaf, code, held in zip(shared, codes, state.down, strict=True):
            value, held = decoded(
                *(self.solver.exchange.down, code, held), shape=leaf.shape, dtype=leaf.dtype
            )
            arrives.append(np.asarray(value)[None])
            down.append(held)
        leaves, structure = jax.tree.flatten(self._sends, is_leaf=is_per_client)
        arriving, own = iter(arrives), iter(rest)
        read_parts = [
            np.asarray(next(own))[None] if isinstance(leaf, PerClient) else next(arriving)
            for leaf in leaves
        ]
        return jax.tree.unflatten(structure, read_parts), tuple(down)


def check_own(problem: Any) -> None:
    """Check that a problem is of one client.

    Raises:
      InputError: it has several.
    """
    if problem.num_clients != 1:
        raise InputError(
            f"must be the problem of one client, but it has {problem.num_clients}",
            argument="problem",
            value=problem,
            remedy="take one of several with problem.take(jnp.array([number]))",
        )


@partial(jax.jit, static_argnames="number")
def _curvature(solver, problem, key, place, *, number):
    """Return an estimate of the curvature of the client's loss near the first model."""
    point = solver.first_model(problem, init_key(key))
    return own_curvature(problem, point, place, number)


@partial(jax.jit, static_argnames="num_clients")
def _start(solver, problem, model, curvature, key, *, num_clients):
    """Return the state before the first round, what counts as said, and the first upload."""
    solver = watching(filled(solver, curvature))
    key = init_key(key)
    clients, said = solver.start_clients(problem, copies(model, problem), key)
    upload, exchange = solver.upload(clients), solver.exchange
    up = tuple(jax.vmap(exchange.up.init)(value) for value in (*said.values, *upload.values))
    shared, _ = parts(solver.broadcast(solver.start_server(model, num_clients)))
    down = tuple(exchange.down.listen(leaf) for leaf in shared)
    return ClientState(clients, up, down, curvature), said, upload


def _sends(solver, model, *, num_clients):
    """Return the first broadcast, of which the shapes are used."""
    solver = filled(solver, jnp.ones((), model.dtype))
    return solver.broadcast(solver.start_server(model, num_clients))


@partial(jax.jit, static_argnames=("parts", "num_clients"))
def _keys_down(solver, key, index, number, *, parts, num_clients):
    """Return the keys of the codes down to a client, one for every array."""
    _, key = round_key(solver, key, index)
    return [solver.exchange.keys_down(key, part, num_clients)[number] for part in range(parts)]


@partial(jax.jit, static_argnames="num_clients")
def _work(solver, problem, state, received, index, key, number, *, num_clients):
    """Return the state after the work of a round, the codes, and what travels beside them."""
    solver, exchange = at_round(filled(solver, state.curvature), index), solver.exchange
    solver = watching(solver, index)
    talks, key = round_key(solver, key, index)
    clients, said = solver.client(problem, state.clients, received, key)
    upload = solver.upload(clients)
    codes, arrive, up = [], [], []
    for part, value in enumerate((*said.values, *upload.values)):
        _, _, keys = exchange.keys_up(key, part, num_clients)
        link = jax.tree.map(lambda leaf: leaf[0], state.up[part])
        arrives, _ = exchange.up.encode(value[0], link, keys[number])
        code, link = exchange.up.send(value[0], link, jax.random.clone(keys[number]))
        codes.append(code)
        arrive.append(arrives[None])
        up.append(jax.tree.map(lambda leaf: leaf[None], link))
    if not exchange.plain:
        decoded = solver.apply_decoded(clients, tuple(arrive))
        clients = jax.tree.map(lambda a, b: jnp.where(talks, a, b), decoded, clients)
    up = jax.tree.map(lambda a, b: jnp.where(talks, a, b), tuple(up), state.up)
    weights = upload.weights is not None and not solver.fixed_weights
    rest = [value[0] for value in exact(said, upload, weights)]
    return state._replace(clients=clients, up=up), codes, rest, talks


@jax.jit
def _reply(solver, clients, curvature, answer):
    """Return what the client keeps once it has read the server's answer."""
    return filled(solver, curvature).reply(clients, answer)
