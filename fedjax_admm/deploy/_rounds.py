"""A server's end of any transport: the rounds of a study, from the first message to the report."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_admm._checks import InputError, count, scalar
from fedjax_admm._host import write_atomically
from fedjax_admm._shown import short_repr
from fedjax_admm.deploy._messages import MessageError
from fedjax_admm.deploy._server import Server
from fedjax_admm.deploy._site import Site
from fedjax_admm.deploy._study import Study

_AGAIN = 20.0  # seconds after which those who have not joined are asked again


class Answer(NamedTuple):
    """What a client's end returns."""

    client: int
    data: bytes
    seconds: float = 0.0  # that the client took, as it says
    refusal: str = ""  # why it did not do what it was asked


Ask = Callable[[str, Mapping[int, bytes], float], Iterator[Answer]]
"""A transport: (name of a method of `Client`, messages by client, seconds) -> answers as they come.

It ends when all have answered whom it reaches, or when the seconds are over.
"""


def answers(
    threads: Executor,
    call: Callable[[int, bytes], Answer | None],
    messages: Mapping[int, bytes],
    seconds: float,
) -> Iterator[Answer]:
    """Yield what calls of all clients return, as they come; None is a client out of reach."""
    calls = [threads.submit(call, *each) for each in messages.items()]
    try:
        for each in as_completed(calls, timeout=seconds):
            answer = each.result()
            if answer is not None:
                yield answer
    except TimeoutError:
        return


@short_repr
class Round(NamedTuple):
    """One round of a deployment, with seconds of its parts."""

    number: int  # from 0
    heard: tuple[int, ...]
    refused: tuple[str, ...]  # a sentence for every message that did not fit
    clients: float  # of the slowest client
    transport: float  # of the messages on their way
    encoding: float  # of writing and reading messages at the server
    solver: float  # of the server's step


@short_repr
@dataclass(kw_only=True)
class Rounds:
    """The rounds of a study over a transport.

    Args:
      study: what is deployed.
      rounds: how many, those before a resumption included.
      folder: where the server's state, the record and the seconds of the rounds are written.
      deadline: seconds after which a round is closed without those who have not answered.
      patience: seconds for messages before the first round and in it, in which clients compile.
      quorum: a round is closed when so many clients have been heard; all that are connected if
        None, and at least one before the deadline.
      resume: go on from the state in the folder.
      report: called after every round.

    Raises:
      InputError: a number is out of range, there is no state to go on from, or it is another's.
    """

    study: Study
    rounds: int
    folder: str | Path
    deadline: float = 30.0
    patience: float = 300.0
    quorum: int | None = None
    resume: bool = False
    report: Callable[[Round], None] = lambda each: None
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        study, self.folder = self.study, Path(self.folder)
        self.rounds = count("rounds", self.rounds)
        scalar("deadline", self.deadline, above=0)
        scalar("patience", self.patience, above=0)
        if self.quorum is not None:
            count("quorum", self.quorum, at_most=study.num_clients)
        self.server = Server(study.solver, study.model, study.num_clients, study.key)
        if self.resume:
            self.server.resume(self.folder / "server.npz")

    def run(self, ask: Ask) -> Server:
        """Run the rounds that are left; return the server after the last one.

        Raises:
          InputError: somebody does not join in time.
          MessageError: a message before the first round does not fit.
        """
        server, folder = self.server, Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        if not self.resume:
            everybody = range(server.num_clients)
            self._joined(ask, "hello", dict.fromkeys(everybody, b""))
            self._joined(ask, "begin", server.start())
        seconds = folder / "rounds.json"
        lines = json.loads(seconds.read_text("utf-8")) if self.resume and seconds.exists() else []
        first = server.round
        while server.round < self.rounds:
            each = self._round(ask, self.patience if server.round == first else self.deadline)
            server.save(folder / "server.npz")
            server.record.save(folder / "record.json")
            lines.append(each._asdict())
            text = (json.dumps(lines) + "\n").encode()
            write_atomically(seconds, lambda file, text=text: file.write(text))
            self.report(each)
        last = {i: server.broadcast(i) for i in range(server.num_clients)}
        for _ in ask("finish", last, self.deadline):
            pass
        return server

    def _joined(self, ask: Ask, name: str, messages: Mapping[int, bytes]) -> None:
        """Ask until everybody has answered."""
        left, limit = dict(messages), time.monotonic() + self.patience
        while left:
            seconds = limit - time.monotonic()
            if seconds <= 0:
                raise InputError(
                    f"clients {sorted(left)[:10]} have not joined within {self.patience:g} seconds",
                    argument="patience",
                    value=self.patience,
                    remedy="start them, or give more time",
                )
            for answer in ask(name, dict(left), min(seconds, _AGAIN)):
                # A message that does not fit ends a deployment that has not begun.
                if answer.refusal:
                    raise MessageError(f"client {answer.client} refuses: {answer.refusal}")
                self.server.receive(answer.data, answer.client)
                left.pop(answer.client)
            time.sleep(0.05 if left else 0)

    def _round(self, ask: Ask, seconds: float) -> Round:
        server, index, begun = self.server, self.server.round, time.monotonic()
        messages = {i: server.broadcast(i) for i in range(server.num_clients)}
        encoding, clients = time.monotonic() - begun, 0.0
        refused: dict[str, None] = {}  # in the order in which they came
        limit, waited = time.monotonic() + seconds, 0.0
        enough = self.quorum or 1
        while len(server.heard) < enough and (left := limit - time.monotonic()) > 0:
            due = {i: data for i, data in messages.items() if i not in server.heard}
            asked = time.monotonic()
            for answer in ask("work", due, left):
                came = time.monotonic()
                waited += came - asked
                try:
                    if answer.refusal:
                        raise MessageError(answer.refusal)
                    server.receive(answer.data, answer.client)
                    clients = max(clients, answer.seconds)
                except MessageError as refusal:
                    refused[f"client {answer.client}: {refusal}"] = None
                asked = time.monotonic()
                encoding += asked - came
                if self.quorum and len(server.heard) >= self.quorum:
                    break
            waited += time.monotonic() - asked
            time.sleep(0 if len(server.heard) >= enough else 0.05)
        begun = time.monotonic()
        heard = server.close_round()
        transport = max(waited - clients, 0.0)
        step = time.monotonic() - begun
        return Round(index, heard, tuple(refused), clients, transport, encoding, step)


def called(sites: Sequence[Site], present: Any = None, at: Callable[[], int] = lambda: 0) -> Ask:
    """Return the transport within one process: plain calls, one after the other.

    Args:
      sites: the clients' ends.
      present: who takes part, bool, shape (rounds, num_clients); everybody if None.
      at: returns the round.
    """

    def ask(name: str, messages: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        for i, data in messages.items():
            if name != "work" or present is None or present[at()][i]:
                yield Answer(i, sites[i].answer(name, data), sites[i].seconds)

    return ask
