"""A server's end of any transport: the rounds of a study, from the first message to the report."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedjax_admm._checks import count, scalar
from fedjax_admm._host._files import write_text
from fedjax_admm.deploy._asking import Ask, Round, ask_all, ask_round
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
        server = self.server
        if not self.resume:
            ask_all(server, ask, "hello", dict.fromkeys(server.numbers, b""), self.patience)
            ask_all(server, ask, "begin", server.start(), self.patience)
        first = server.round
        while server.round < self.rounds:
            limit = self.patience if server.round == first else self.deadline
            each = ask_round(server, ask, limit, self.quorum)
            if self.folder is not None:
                self._save(each, Path(self.folder))
            self.report(each)
        last = {i: server.broadcast(i) for i in server.numbers}
        for _ in ask("finish", last, self.deadline):
            pass
        return server

    def _save(self, each: Round, folder: Path) -> None:
        """Write what is kept of a round, and of those before it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.server.save(folder / "server.npz")
        self.server.record.save(folder / "record.json")
        seconds = folder / "rounds.json"
        lines = json.loads(seconds.read_text("utf-8"))[: each.number] if seconds.exists() else []
        write_text(seconds, json.dumps([*lines, each._asdict()]) + "\n")
