"""A deployment within one process: clients are called one after the other."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_admm._checks import refuse
from fedjax_admm.deploy._asking import Answer, Ask, Round
from fedjax_admm.deploy._messages import MessageError, index_of
from fedjax_admm.deploy._rounds import Rounds
from fedjax_admm.deploy._study import Study
from fedjax_admm.deploy._tree import Children


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
