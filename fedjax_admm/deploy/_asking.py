"""How a server asks those below it, over any transport: until all have joined, and in a round."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, as_completed
from typing import Any, NamedTuple

from fedjax_admm._checks import refuse
from fedjax_admm.deploy._messages import MessageError

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


def ask_all(
    server: Any, ask: Ask, name: str, messages: Mapping[int, bytes], patience: float
) -> None:
    """Ask until everybody has answered, before the first round.

    Args:
      server: receives the answers.
      ask: the transport.
      name: hello or begin.
      messages: by number.
      patience: seconds for all of it.

    Raises:
      InputError: somebody has not answered in time.
      MessageError: a message does not fit; this ends a deployment that has not begun.
    """
    left, limit = dict(messages), time.monotonic() + patience
    while left:
        seconds = limit - time.monotonic()
        told = f"clients {sorted(left)[:10]} have not joined within {patience:g} seconds"
        refuse(seconds <= 0, "patience", told, remedy="start them, or give more time")
        for answer in ask(name, dict(left), min(seconds, _AGAIN)):
            if answer.refusal:
                raise MessageError(f"client {answer.client} refuses: {answer.refusal}")
            server.receive(answer.data, answer.client)
            left.pop(answer.client)
        time.sleep(0.05 if left else 0)


def ask_round(server: Any, ask: Ask, seconds: float, quorum: int | None) -> Round:
    """Ask everybody for the work of a round, and close it.

    Args:
      server: writes and receives the messages.
      ask: the transport.
      seconds: after which the round is closed without those who have not answered.
      quorum: how many are enough; all that are connected if None, and at least one before the
        seconds are over. With 0 all are asked once, without waiting.
    """
    index, begun = server.round, time.monotonic()
    messages = {i: server.broadcast(i) for i in server.numbers}
    encoding, clients = time.monotonic() - begun, 0.0
    refused: dict[str, None] = {}  # in the order in which they came
    left, limit = seconds, time.monotonic() + seconds
    enough = 1 if quorum is None else quorum
    while True:
        heard = set(server.heard)
        due = {i: data for i, data in messages.items() if i not in heard}
        for answer in ask("work", due, left):
            came = time.monotonic()
            try:
                if answer.refusal:
                    raise MessageError(answer.refusal)
                server.receive(answer.data, answer.client)
                clients = max(clients, answer.seconds)
            except MessageError as refusal:
                refused[f"client {answer.client}: {refusal}"] = None
            encoding += time.monotonic() - came
            if quorum and len(server.heard) >= quorum:
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
