"""How a server asks those below it, over any transport: until all have joined, and in a round."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, as_completed
from typing import Any, NamedTuple

from fedjax_admm._checks import refuse
from fedjax_admm.deploy._messages import MessageError, check

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


class Round(NamedTuple):
    """One round of a deployment, with seconds of its parts."""

    number: int  # from 0
    heard: tuple[int, ...]
    refused: tuple[str, ...]  # a sentence for every message that did not fit
    clients: float  # of the slowest client
    transport: float  # of the messages on their way
    encoding: float  # of writing and reading messages at the server
    solver: float  # of the server's step


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


class Children(NamedTuple):
    """How a server reaches those below it, and how long it waits for them."""

    ask: Ask
    deadline: float = 30.0  # seconds after which a round is closed without those who are missing
    patience: float = 300.0  # seconds for messages before the first round and in it, in which
    # clients compile
    quorum: int | None = None  # how many are enough in a round; all that are connected if None,
    # and at least one before the deadline; with 0 all are asked once, without waiting
    report: Callable[[Round], None] = lambda each: None  # called after every round

    def hello(self, server: Any) -> None:
        """Ask for what opens a deployment, until everybody has answered; as `begin`."""
        self._ask_all(server, "hello", dict.fromkeys(server.numbers, b""))

    def begin(self, server: Any) -> None:
        """Send the first messages, until everybody has answered.

        Raises:
          InputError: somebody has not answered in time.
          MessageError: a message does not fit; this ends a deployment that has not begun.
        """
        self._ask_all(server, "begin", server.start())

    def round(self, server: Any, *, first: bool) -> Round:
        """Ask everybody for the work of a round, and close it.

        Args:
          server: writes and receives the messages.
          first: whether it is the first round of this process.
        """
        index, begun = server.round, time.monotonic()
        messages = {i: server.broadcast(i) for i in server.numbers}
        encoding, clients = time.monotonic() - begun, 0.0
        refused: dict[str, None] = {}  # in the order in which they came
        left = self.patience if first else self.deadline
        limit, enough = time.monotonic() + left, 1 if self.quorum is None else self.quorum
        while True:
            heard = set(server.heard)
            due = {i: data for i, data in messages.items() if i not in heard}
            for answer in self.ask("work", due, left):
                came = time.monotonic()
                try:
                    check(not answer.refusal, answer.refusal)
                    server.receive(answer.data, answer.client)
                    clients = max(clients, answer.seconds)
                except MessageError as refusal:
                    refused[f"client {answer.client}: {refusal}"] = None
                encoding += time.monotonic() - came
                if self.quorum and len(server.heard) >= self.quorum:
                    break
            left = limit - time.monotonic()
            if len(server.heard) >= enough or left <= 0:
                break
            time.sleep(0.05)
        ended = time.monotonic()
        closed = server.close_round()
        transport = max(ended - begun - encoding - clients, 0.0)
        step = time.monotonic() - ended
        return Round(index, closed, tuple(refused), clients, transport, encoding, step)

    def finish(self, server: Any) -> None:
        """Send the messages after the last round to those who are there."""
        last = {i: server.broadcast(i) for i in server.numbers}
        for _ in self.ask("finish", last, self.deadline):
            pass

    def _ask_all(self, server: Any, name: str, messages: Mapping[int, bytes]) -> None:
        left, limit = dict(messages), time.monotonic() + self.patience
        while left:
            seconds = limit - time.monotonic()
            told = f"clients {sorted(left)[:10]} have not joined within {self.patience:g} seconds"
            refuse(seconds <= 0, "patience", told, remedy="start them, or give more time")
            for answer in self.ask(name, dict(left), min(seconds, _AGAIN)):
                check(not answer.refusal, f"client {answer.client} refuses: {answer.refusal}")
                server.receive(answer.data, answer.client)
                left.pop(answer.client)
            time.sleep(0.05 if left else 0)
