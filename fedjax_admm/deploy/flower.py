"""Flower carries the messages of a deployment: a ServerApp and a ClientApp of its Message API.

    pip install 'fedjax-admm[flower]'

The file that a Flower App names as its components holds both ends:

    # app.py
    def rounds(config):
        return deploy.Rounds(study=STUDY, rounds=config["rounds"], folder="states", deadline=120.0)

    server, client = server_app(rounds), client_app(STUDY, "states")

A SuperLink runs the server and a SuperNode runs each client, whose number its configuration says
(`flower-supernode --node-config 'client=0'`). Flower encrypts with the SuperLink's certificate.

A SuperNode starts a process for every message, so that a client keeps its state in a file, and JAX
its compiled programs where the variable `JAX_COMPILATION_CACHE_DIR` says.
"""

# pyright: reportMissingImports=false

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedjax_admm._checks import count, refuse
from fedjax_admm.deploy._asking import Answer
from fedjax_admm.deploy._rounds import Rounds
from fedjax_admm.deploy._site import Site
from fedjax_admm.deploy._study import Study

_POLL_SECONDS = 0.2
_KEY = "fedjax-admm"  # of the record in a message


def server_app(rounds: Callable[[Mapping[str, Any]], Rounds]) -> ServerApp:
    """Build the ServerApp that runs a study.

    Args:
      rounds: returns what is run from the run's configuration (`flwr run --run-config`); called
        at the server alone. A deadline includes the start of a process at every client.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        rounds(context.run_config).run(Nodes(grid).ask)

    return app


def client_app(study: Study, folder: str | Path) -> ClientApp:
    """Build the ClientApp of a study's clients.

    Args:
      study: the same everywhere.
      folder: where a client's state is kept, at its machine.
    """
    app = ClientApp()

    def register(name: str) -> None:
        @app.train(name)
        def answer(message: Message, context: Context) -> Message:
            client, data = _number(context, study), message.content[_KEY]["data"]
            reply = Site(study, client, folder).reply(name, data)
            return Message(_record(**reply._asdict()), reply_to=message)

    for name in ("hello", "begin", "work", "finish"):
        register(name)
    return app


class _Sent(NamedTuple):
    """A message to one node."""

    node: int
    name: str  # hello, begin, work or finish
    data: bytes


class Nodes:
    """The clients of a run as its grid reaches them: a transport.

    The answer to `hello` says which client a node is. A SuperNode that is started again is a new
    node, so that it is sent `hello` in any round, and takes the client's number from the old node.

    Args:
      grid: Flower's.
    """

    def __init__(self, grid: Grid) -> None:  # noqa: D107
        self.grid = grid
        self.clients: dict[int, int | None] = {}  # by node; None is a node that is no client
        self._open: dict[_Sent, str] = {}  # identifiers of messages without a reply

    def ask(self, name: str, messages: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        """Yield the answers of the clients; the arguments are those of `Ask`."""
        left, limit = dict(messages), time.monotonic() + seconds
        while left and time.monotonic() < limit:
            due = set(self._due(name, left))
            # A message of a round expires with it; earlier ones wait for a client that compiles.
            self._push(due, seconds if name == "work" else None)
            for sent, answer in self._replies():
                if sent.node not in self.clients:
                    self._take(sent.node, answer)
                client = self.clients.get(sent.node)
                if sent.name == name and client in left:
                    del left[client]
                    yield answer._replace(client=client)
            if not due:
                return
            time.sleep(_POLL_SECONDS if left else 0)

    def _due(self, name: str, left: Mapping[int, bytes]) -> Iterator[_Sent]:
        """Yield what nodes that are online must still answer."""
        for node in self.grid.get_node_ids():
            client = self.clients.get(node)
            if node not in self.clients:
                yield _Sent(node, "hello", b"")
            elif client is not None and client in left:
                yield _Sent(node, name, left[client])

    def _push(self, due: set[_Sent], seconds: float | None) -> None:
        """Send what has not been sent yet, and forget messages that are no longer due."""
        self._open = {sent: known for sent, known in self._open.items() if sent in due}
        new = sorted(due - self._open.keys())
        messages = [
            Message(_record(data=sent.data), sent.node, f"train.{sent.name}", ttl=seconds)
            for sent in new
        ]
        if new:
            known = zip(new, self.grid.push_messages(messages), strict=True)
            self._open.update((sent, message) for sent, message in known if message)

    def _replies(self) -> Iterator[tuple[_Sent, Answer]]:
        """Yield what has come; a message that did not reach its node is sent again."""
        sent_as = {message: sent for sent, message in self._open.items()}
        for reply in self.grid.pull_messages(list(sent_as)) if sent_as else ():
            sent = sent_as.get(reply.metadata.reply_to_message_id)
            if sent is not None:
                del self._open[sent]
                answer = _answer(reply)
                if answer is not None:
                    yield sent, answer

    def _take(self, node: int, answer: Answer) -> None:
        """Note which client a node is."""
        if answer.refusal:
            logging.getLogger("flwr").warning("Node %s is no client: %s", node, answer.refusal)
            self.clients[node] = None
            return
        for other, client in self.clients.items():
            if client == answer.client:
                self.clients[other] = None
        self.clients[node] = answer.client


def _record(**content: Any) -> RecordDict:
    return RecordDict({_KEY: ConfigRecord(content)})


def _answer(reply: Message) -> Answer | None:
    """Return what a reply holds; None where Flower says that none has come."""
    if reply.has_error():
        # Flower's codes of a ClientApp that does not load, or raises.
        failed = reply.error.code in (1, 2)
        return Answer(-1, b"", refusal=str(reply.error.reason)[:300]) if failed else None
    record = reply.content.config_records.get(_KEY, {})
    kinds = dict(zip(Answer._fields, (int, bytes, float, str), strict=True))
    if any(not isinstance(record.get(field), kind) for field, kind in kinds.items()):
        return Answer(-1, b"", refusal="the reply is not one of fedjax-admm")
    answer = Answer(*(record[field] for field in kinds))
    return answer._replace(refusal=answer.refusal[:300])


def _number(context: Context, study: Study) -> int:
    """Return which client a SuperNode is.

    Raises:
      InputError: its configuration does not say so.
    """
    number = context.node_config.get("client")
    remedy = "start it by flower-supernode --node-config 'client=0'"
    refuse(number is None, "node-config", "does not say which client this is", remedy=remedy)
    return count("client", number, at_least=0, at_most=study.num_clients - 1)
