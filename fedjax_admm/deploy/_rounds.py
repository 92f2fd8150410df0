"""The rounds of a study, from the first message to the report, over any transport or in process."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_admm._checks import count, refuse, scalar
from fedjax_admm._host._files import write_text
from fedjax_admm.deploy._asking import Answer, Ask, Children, Round
from fedjax_admm.deploy._messages import MessageError, index_of
from fedjax_admm.deploy._study import Study


@dataclass(kw_only=True)
class Rounds:
    """The rounds of a study over a transport.

    Args:
      study: what is deployed.
      rounds: how many, those before a resumption included.
      folder: where the server's state, the record and the seconds of the rounds are written;
        nowhere if None.
      deadline: seconds after which a round is closed without those who have not answered.
      patience: seconds for messages before the first round and in it, in which clients compile.
      quorum: a round is closed when so many clients have been heard; all that are connected if
        None, and at least one before the deadline; with 0 all are asked once.
      resume: go on from the state in the folder.
      report: called after every round.

    Raises:
      InputError: a number is out of range, there is no state to go on from, or it is another's.
    """

    study: Study
    rounds: int
    folder: str | Path | None
    deadline: float = 30.0
    patience: float = 300.0
    quorum: int | None = None
    resume: bool = False
    report: Callable[[Round], None] = lambda each: None
    server: Any = field(init=False)

    def __post_init__(self) -> None:
        count("rounds", self.rounds, at_least=0)
        scalar("deadline", self.deadline, above=0)
        scalar("patience", self.patience, above=0)
        self.server = self.study.server()
        if self.quorum is not None:
            count("quorum", self.quorum, at_least=0, at_most=len(self.server.numbers))
        if self.resume:
            self.server.resume(Path(self.folder or ".", "server.npz"))

    def run(self, ask: Ask) -> Any:
        """Run the rounds that are left; return the server after the last one.

        Raises:
          InputError: somebody does not join in time.
          MessageError: a message before the first round does not fit.
        """
        server, first = self.server, self.server.round
        below = Children(ask, self.deadline, self.patience, self.quorum)
        if not self.resume:
            below.hello(server)
            below.begin(server)
        while server.round < self.rounds:
            each = below.round(server, first=server.round == first)
            if self.folder is not None:
                self._save(each, Path(self.folder))
            self.report(each)
        below.finish(server)
        return server

    def _save(self, each: Round, folder: Path) -> None:
        """Write what is kept of a round, and of those before it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.server.save(folder / "server.npz")
        self.server.record.save(folder / "record.json")
        seconds = folder / "rounds.json"
        lines = json.loads(seconds.read_text("utf-8"))[: each.number] if seconds.exists() else []
        write_text(seconds, json.dumps([*lines, each._asdict()]) + "\n")


class Deployment(NamedTuple):
    """A server and its clients, after the last round."""

    server: Any
    clients: list[Any]  # in the order of their numbers, and then other nodes below a server


def in_process(
    solver: Any, problem: Any, key: jax.Array, *, rounds: int, present: Any = None
) -> Deployment:
    """Deploy a solver on the clients of a problem within this process.

    Args:
      solver: of a kind that is deployed.
      problem: of all clients, with `take`.
      key: of the run.
      rounds: how many.
      present: who takes part, bool, shape (rounds, clients), or (rounds, passes, links) on a tree;
        everybody if None.

    Returns:
      The server and the clients. `fa.run(solver, problem, key, rounds=rounds)` gives the same
      states up to rounding.

    Raises:
      InputError: as `Study.of`, or `present` does not fit the rounds and the clients.
      MessageError: a message does not fit, such as one with a number that is not finite.
    """
    study = Study.of(solver, problem, key)
    passes = rounds * getattr(solver, "passes", 1)
    if present is not None:
        present = np.asarray(present, bool).reshape(-1, np.shape(present)[-1])
        told = f"must say of {passes} rounds or passes which of {study.num_sites} take part, but "
        wrong = len(present) < passes or present.shape[1] != study.num_sites
        refuse(wrong, "present", f"{told}its shape is {present.shape}")
    clients: list[Any] = []

    def answer(number: int, name: str, data: bytes) -> Answer:
        method = getattr(clients[number], name)
        return Answer(number, method(data) if data else method())

    def report(each: Round) -> None:
        if each.refused:
            raise MessageError(each.refused[0])

    ask = calls(answer, present)
    job = Rounds(study=study, rounds=rounds, folder=None, quorum=0, report=report)
    below = Children(ask, quorum=0, report=report)
    clients += [study.client(i, below) for i in range(study.num_sites)]
    return Deployment(job.run(ask), clients)


def called(sites: Any) -> Ask:
    """Return the transport within one process: plain calls, one after the other.

    Args:
      sites: the ends of those who have a server above them, by number: a `Site` each.
    """
    return calls(lambda number, name, data: sites[number].reply(name, data), None)


def calls(answer: Callable[[int, str, bytes], Answer], present: Any) -> Ask:
    """Return the transport that calls a function of a number, a name and a message in turn."""

    def ask(name: str, messages: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        for i, data in messages.items():
            if name != "work" or present is None or present[index_of(data)][i]:
                yield answer(i, name, data)

    return ask
