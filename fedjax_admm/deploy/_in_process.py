"""A deployment within one process: clients are called one after the other."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_admm._checks import InputError, count
from fedjax_admm.deploy._asking import Answer, Ask, ask_all, ask_round
from fedjax_admm.deploy._messages import MessageError, index_of
from fedjax_admm.deploy._study import Study
from fedjax_admm.deploy._tree import Children


class Deployment(NamedTuple):
    """A server and its clients, after the last round."""

    server: Any
    clients: list[Any]  # in the order of their numbers, and then other nodes below a server


def in_process(
    solver: Any,
    problem: Any,
    key: jax.Array,
    *,
    rounds: int,
    present: Any = None,
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
    rounds, study = count("rounds", rounds, at_least=0), Study.of(solver, problem, key)
    passes = rounds * getattr(solver, "passes", 1)
    if present is not None:
        present = np.asarray(present, bool).reshape(-1, np.shape(present)[-1])
        if len(present) < passes or present.shape[1] != study.num_sites:
            raise InputError(
                f"must say of {passes} rounds or passes which of {study.num_sites} take part, but "
                f"its shape is {present.shape}",
                argument="present",
                value=present,
            )
    server, clients = study.server(), []

    def answer(number: int, name: str, data: bytes) -> Answer:
        method = getattr(clients[number], name)
        return Answer(number, method(data) if data else method())

    ask = calls(answer, present)
    below = Children(ask, math.inf, math.inf, quorum=0)
    clients += [study.client(i, below) for i in range(study.num_sites)]
    ask_all(server, ask, "hello", dict.fromkeys(server.numbers, b""), math.inf)
    ask_all(server, ask, "begin", server.start(), math.inf)
    for _ in range(rounds):
        refused = ask_round(server, ask, math.inf, quorum=0).refused
        if refused:
            raise MessageError(refused[0])
    for _ in ask("finish", {i: server.broadcast(i) for i in server.numbers}, math.inf):
        pass
    return Deployment(server, clients)


def called(sites: Any) -> Ask:
    """Return the transport within one process: plain calls, one after the other.

    Args:
      sites: the ends of those who have a server above them, by number: a `Site` each.
    """

    def answer(number: int, name: str, data: bytes) -> Answer:
        try:
            return Answer(number, sites[number].answer(name, data), sites[number].seconds)
        except MessageError as refusal:
            return Answer(number, b"", refusal=str(refusal))

    return calls(answer, None)


def calls(answer: Callable[[int, str, bytes], Answer], present: Any) -> Ask:
    """Return the transport that calls a function of a number, a name and a message in turn."""

    def ask(name: str, messages: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        for i, data in messages.items():
            if name != "work" or present is None or present[index_of(data)][i]:
                yield answer(i, name, data)

    return ask
