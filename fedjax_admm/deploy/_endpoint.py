"""An end of a deployment: it reads and writes messages, and keeps what it remembers in a file.

    Child     hello, begin, work, finish                 it has a server above it
    Parent    start, receive, broadcast, close_round     it has others below it

A role is an end with the mathematics of its solver: the server of a star, the root of a tree and
the relay of a graph are parents; a client and a node of a graph are children; a middle node of a
tree is a child that has a parent for its own children. Nothing that an end remembers changes unless
a whole message has been read and found to fit.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import instance, refuse
from fedjax_admm._run._estimates import in_dtype_of
from fedjax_admm.capabilities import check_capabilities
from fedjax_admm.deploy import _messages as wire
from fedjax_admm.deploy._files import Record, load, save
from fedjax_admm.deploy._messages import Kind, Message
from fedjax_admm.messages import Prompt, no_attack
from fedjax_admm.solvers import StarSolver

_CURVATURE = [wire.number((), np.float64)]


class Endpoint:
    """What all ends have: the solver, the run's key, and the digest that seals messages.

    Args:
      kind: what the solver must derive from, and such a solver in an error.
      solver: any.
      like: arrays whose dtype the solver's numbers take.
      key: of the run.
      num_clients: how many there are in all.
      topology: what else is the same at all ends.

    Raises:
      InputError: the solver is of another kind, or simulates what happens in earnest here (an
        attack, a delay).
    """

    def __init__(
        self, kind: Any, solver: Any, like: Any, key: Any, num_clients: int, topology: Any = None
    ) -> None:
        instance("solver", solver, *kind)
        whole = isinstance(solver, StarSolver) and type(solver).step is not StarSolver.step
        told = f"must be {kind[1]}, but a round of {type(solver).__name__} reads the problem of"
        refuse(whole, "solver", f"{told} all clients at the server, where there are no data")
        attack, delay = solver.exchange.attack, solver.exchange.delay
        refuse(
            not (isinstance(attack, type(no_attack())) and isinstance(delay, Prompt)),
            "solver",
            "must have neither an attack nor a delay in its exchange: here clients are late, or "
            "Byzantine, by themselves",
            remedy="leave both out; messages that come after a round is closed do not count",
        )
        self.solver: Any = in_dtype_of(solver, like)
        self.key, self.num_clients = key, num_clients
        shared = self.solver if topology is None else (self.solver, topology)
        self._digest = wire.digest_of(shared, num_clients, key)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what this end remembers to a file, in the place of an older one.

        A server leaves out what has come in the round that is open: these clients take their work
        back.

        Raises:
          InputError: this is a server that has opened no round yet.
        """
        save(path, self._digest, *self._kept())

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file of `save`.

        Raises:
          InputError: the file is of another solver, run or end, or damaged.
        """
        self._restore(*load(path, self._digest))

    def _kept(self) -> tuple[Any, list[Any]]:
        """Return the arrays and the numbers that are to be saved."""
        raise NotImplementedError

    def _restore(self, leaves: list[np.ndarray], numbers: list[Any]) -> None:
        """Take over arrays and numbers that were saved."""

    def _write(self, kind: Kind, client: int, index: int, body: bytes, heard: int = 0) -> bytes:
        return wire.write(Message(kind, client, index, heard, body), self._digest)


class Child(Endpoint):
    """An end with a server above it.

    It keeps the state of the last work that the server has heard, that of the beginning of the
    round, and that of its last work, which it takes back unless the server says that it was heard.
    The same message again gets the same answer.

    A role has `_curvature`, an estimate of that of its loss, `_begin`, which reads the largest one
    of all and what else the server sends first, `_play`, which does the work of a round, and
    `_replied`, which reads what the server answers to work that it has heard.
    """

    number: int
    passes = 1  # of a round
    passes_of_work = 1  # in one work of this end
    _like: Any  # a state, of which the structure is used

    def __init__(self, number: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.number = number
        self._states: dict[int, Any] = {}  # by one more than the pass of the last work
        self._base = 0  # that of the beginning of the round
        self._answered = (b"", b"")  # the digest of the server's message, and what was answered

    def hello(self) -> bytes:
        """Return the message that opens a deployment: an estimate of the curvature of the loss."""
        body = wire.to_body(_CURVATURE, [self._curvature()])
        return self._write(Kind.HELLO, self.number, 0, body)

    def begin(self, data: bytes) -> bytes:
        """Read the server's first message; return what the server remembers first.

        Raises:
          MessageError: the message is not the server's first one, or this end has worked since.
        """
        message = self._read(data, Kind.START)
        wire.check(not self._worked, "the first message has come before, and the rounds have begun")
        (largest,) = wire.from_body(_CURVATURE, message.body[:8])
        return self._write(Kind.READY, self.number, 0, self._begin(largest, message.body[8:]))

    def work(self, data: bytes) -> bytes:
        """Read the message of a round, do this end's part of it, and return the upload.

        The work counts once a later message says that the server has heard it in time. Until then
        this end can take it back.

        Raises:
          MessageError: the message is not for this end, or of a round that is over.
        """
        digest = hashlib.sha256(data).digest()
        if digest != self._answered[0]:
            message = self._read(data, Kind.DOWN)
            body = self._work(message)
            answer = self._write(Kind.UP, self.number, message.round, body, message.heard)
            self._answered = digest, answer
        return self._answered[1]

    def finish(self, data: bytes) -> None:
        """Read the message after the last round: the last work counts if it was heard.

        Raises:
          MessageError: as `work`.
        """
        message = self._read(data, Kind.DOWN)
        self._states = {message.heard: self._settled(message, self._worked)}
        self._base = message.heard

    @property
    def clients(self) -> Any:
        """Return what the solver keeps for this end, with one row; None before the first round."""
        return self._states[self._worked].clients if self._states else None

    @property
    def _worked(self) -> int:
        """Return one more than the pass of the last work; 0 before the first one."""
        return max(self._states, default=0)

    def _read(self, data: bytes, kind: Kind) -> Message:
        message = wire.read(data, kind, self._digest)
        told = f"the message is for client {message.client}, but this is client {self.number}"
        wire.check(message.client == self.number, told)
        return message

    def _work(self, message: Message) -> bytes:
        """Do the work of a message, and keep the state; return what is sent."""
        # Within a round a middle node that has stopped may begin its passes again.
        settled = self._settled(message, (self._worked - 1) // self.passes * self.passes)
        state, body = self._play(message, settled)
        self._keep(message, settled, state)
        return body

    def _keep(self, message: Message, settled: Any, state: Any) -> None:
        """Keep the state after a work, and that from which it went on."""
        index, heard = message.round, message.heard
        if heard <= index - index % self.passes:
            self._base = heard  # no server above takes back what was heard before the round
        states = self._states | {heard: settled}
        kept = {i: x for i, x in states.items() if i in (self._base, heard) or i > index}
        self._states = kept | {index + self.passes_of_work: state}

    def _settled(self, message: Message, first: int) -> Any:
        """Return the state from which a work goes on.

        Raises:
          MessageError: the message is of a round before the first that may be open, or the state is
            not where the server thinks it is.
        """
        wire.check(self._states, "a round has begun before this client had its first model")
        wire.check(message.round >= first, f"round {message.round} is over: this is an old message")
        return self._caught_up(message)

    def _caught_up(self, message: Message) -> Any:
        """Return the state from which a work goes on, where the message is due."""
        self._check_known(message.heard in self._states, message.heard - 1)
        state = self._states[message.heard]
        return state if message.heard == self._base else self._replied(message, state)

    def _check_known(self, known: bool, index: int) -> None:
        told = f"the server has heard this client in round {index}, which its state does not know:"
        wire.check(known, f"{told} resume it from its latest file")

    def _curvature(self) -> Any:
        return 0.0  # nothing follows from it

    def _begin(self, largest: np.ndarray, body: bytes) -> bytes: ...

    def _play(self, message: Message, state: Any) -> tuple[Any, bytes]: ...

    def _replied(self, message: Message, state: Any) -> Any:
        return state

    def _kept(self) -> tuple[Any, list[Any]]:
        answered = [np.frombuffer(part, np.uint8) for part in self._answered]
        return (answered, [*self._states.values()]), [self.number, self._base, [*self._states]]

    def _restore(self, leaves: list[np.ndarray], numbers: list[Any]) -> None:
        saved, base, labels = numbers
        told = f"is of client {saved}, but this is {self.number}"
        refuse(saved != self.number, "path", told)
        (digest, answer, *rest), like = leaves, jax.tree.structure(self._like)
        states = [restored(like, rest[i:]) for i in range(0, len(rest), like.num_leaves)]
        self._base, self._states = base, dict(zip(labels, states, strict=True))
        self._answered = digest.tobytes(), answer.tobytes()


class Parent(Endpoint):
    """An end with others below it, which it asks in rounds.

    A role has `_greet`, which returns what all are to read first, `_ready`, which reads what is
    remembered first of one below, `_open`, which keeps these of all, `_encoded`, which writes the
    messages of a round, `_receive`, which reads an answer, and `_close`, which ends a round and
    returns who was heard; `_pack` and `_unpack` are for the file.
    """

    passes = 1  # of a round, of which messages count each
    first = 0  # the round at which it has begun
    largest: Any = 0.0  # of the curvatures that have been said

    def __init__(self, numbers: Sequence[int], mask: tuple[int, ...], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.numbers = numbers
        self.masks: list[np.ndarray] = []  # who was heard in the rounds that are closed
        self.mask = mask  # the shape of each
        self.bytes_up = self.bytes_down = 0  # of bodies; a header has `HEADER_BYTES` more
        self._heard = dict.fromkeys(numbers, 0)  # one more than the round, or pass; 0 for never
        self._bodies: dict[int, bytes] = {}  # what each is to read in this round
        self.expect(Kind.HELLO, {})

    def expect(self, kind: Kind, came: dict[int, Any]) -> None:
        """Wait for messages of a kind, of which some have come."""
        self._due, self._came = kind, came

    @property
    def round(self) -> int:
        """Return the round that is open, from 0; of a middle node the pass."""
        return self.first + len(self.masks)

    @property
    def heard(self) -> tuple[int, ...]:
        """Return who has been heard in the round that is open, or before the first one."""
        return tuple(sorted(self._came))

    @property
    def record(self) -> Record:
        """Return who has been heard, by which a simulation can replay it."""
        heard = np.array(self.masks, bool).reshape(len(self.masks), *self.mask)
        return Record(heard, self._digest[: wire.SHOWN_BYTES].hex())

    def start(self) -> dict[int, bytes]:
        """Return by number the first message, once all have said hello.

        Raises:
          InputError: somebody has not.
        """
        self._check_all_heard(Kind.HELLO)
        self.largest = max(self._came.values())
        body = wire.to_body(_CURVATURE, [self.largest]) + self._greet()
        self.expect(Kind.READY, {})
        return {i: self._write(Kind.START, i, self._pass, body) for i in self.numbers}

    def receive(self, data: bytes, sender: int | None = None) -> int:
        """Take the message of one below; return whose it is.

        Args:
          data: the bytes.
          sender: who has sent it, where the transport knows: another's message is refused.

        Raises:
          MessageError: it does not fit; nothing has changed then, and this end can go on.
        """
        message = wire.read(data, self._due, self._digest)
        client = message.client
        told = f"client {client} is none of the {len(self.numbers)} of this server"
        wire.check(client in self.numbers, told)
        wire.check(
            sender in (None, client), f"client {sender} has sent a message as client {client}"
        )
        told = f"the message of client {client} is of round {message.round}, but round"
        wire.check(message.round == self._pass, f"{told} {self._pass} is open")
        told = f"client {client} has been heard in this round already"
        wire.check(client not in self._came, told)
        if self._due == Kind.HELLO:
            (self._came[client],) = wire.from_body(_CURVATURE, message.body)
        elif self._due == Kind.UP:
            self._came[client] = self._receive(message)
            self.bytes_up += len(message.body)
        else:
            self._came[client] = self._ready(message)
            if len(self._came) == len(self.numbers):
                self._open(self._came)
                self.expect(Kind.UP, {})
        return client

    def broadcast(self, client: int) -> bytes:
        """Return what one below is to read in the round that is open.

        After the last round it is what `Client.finish` reads.

        Raises:
          InputError: there is none of this number, or not all are ready.
        """
        refuse(client not in self.numbers, "client", f"must be one of {self.numbers}", client)
        self._check_all_heard(Kind.UP)
        return self._write(Kind.DOWN, client, self._pass, self._body(client), self._heard[client])

    def close_round(self) -> tuple[int, ...]:
        """End the round with those who have been heard, and open the next; return who they are."""
        self._check_all_heard(Kind.UP)
        heard = self.heard
        self.masks.append(self._close(self._came))
        self._heard |= dict.fromkeys(heard, self._pass)
        self.expect(Kind.UP, {})
        return heard

    @property
    def _pass(self) -> int:
        """Return the round that is open as messages count it."""
        return self.round * self.passes

    def _check_all_heard(self, kind: Kind) -> None:
        """Check that all have been heard before a message of a kind is due.

        Raises:
          InputError: somebody has not.
        """
        if kind != self._due or kind == Kind.HELLO:
            missing = sorted(set(self.numbers) - set(self._came))
            told = f"has not heard clients {missing[:10]} yet, and needs all before the first round"
            refuse(kind != self._due or missing, "server", told)

    def _greet(self) -> bytes:
        return b""

    def _ready(self, message: Message) -> Any: ...

    def _open(self, came: dict[int, Any]) -> None: ...

    def _body(self, client: int) -> bytes:
        if not self._bodies:
            self._bodies = self._encoded()
        body = self._bodies.get(client, b"")
        self.bytes_down += len(body)
        return body

    def _encoded(self) -> dict[int, bytes]: ...

    def _receive(self, message: Message) -> Any: ...

    def _close(self, came: dict[int, Any]) -> np.ndarray: ...

    def _pack(self) -> tuple[Any, list[Any]]: ...

    def _unpack(self, leaves: list[np.ndarray], numbers: list[Any]) -> None: ...

    def _kept(self) -> tuple[Any, list[Any]]:
        self._check_all_heard(Kind.UP)
        arrays, numbers = self._pack()
        heard = np.array([self._heard[i] for i in self.numbers], np.int64)
        return (heard, self.record.heard, arrays), [self.bytes_up, self.bytes_down, *numbers]

    def _restore(self, leaves: list[np.ndarray], numbers: list[Any]) -> None:
        heard, masks, *rest = leaves
        self.bytes_up, self.bytes_down, *more = numbers
        self._heard = dict(zip(self.numbers, heard.tolist(), strict=True))
        self.masks = list(masks)
        self._unpack(rest, more)
        self.expect(Kind.UP, {})


def check_problem(solver: Any, problem: Any, there: Any = None) -> None:
    """Check that a problem has what a solver needs, and is of one client.

    Args:
      solver: of an end.
      problem: of the end.
      there: the same one on the graph that the end sees, if it sees one.

    Raises:
      InputError: it has not, or is of several.
    """
    check_capabilities(solver, problem if there is None else there)
    told = f"must be the problem of one client, but it has {problem.num_clients}"
    remedy = "take one of several with problem.take(jnp.array([number]))"
    refuse(problem.num_clients != 1, "problem", told, remedy=remedy)


def restored(like: Any, leaves: list[np.ndarray]) -> Any:
    """Return the first leaves as a pytree of a structure."""
    return jax.tree.unflatten(like, [jnp.asarray(leaf) for leaf in leaves[: like.num_leaves]])
