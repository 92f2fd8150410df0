"""A client's end of any transport: a client, or a middle node, that keeps its state in a file."""

import threading
import time
from pathlib import Path
from typing import Any

from fedjax_admm.deploy._asking import Answer
from fedjax_admm.deploy._graph import Node
from fedjax_admm.deploy._messages import MessageError
from fedjax_admm.deploy._study import Study


class Site:
    """One client of a study; it answers the server's messages and writes its state after each.

    On a tree it may be a middle node, which is a client of its parent.

    A site that is started again goes on from its file, unless the server opens a new deployment.
    The privacy ledger of a node has a file of its own beside it, and outlives the deployment.

    Args:
      study: what is deployed.
      number: which client it is, from 0.
      folder: where the file of its state is kept.
      below: `Children` of a middle node of a tree.
      lazy: whether its state is written by `save` alone, as where nothing will be resumed.
    """

    def __init__(
        self,
        study: Study,
        number: int,
        folder: str | Path,
        below: Any = None,
        *,
        lazy: bool = False,
    ) -> None:
        self.study, self.number, self.below, self.lazy = study, number, below, lazy
        kind = "client" if number < study.num_clients else "middle"
        self.file = Path(folder, f"{kind}-{number}.npz")
        self.seconds = 0.0  # that the last answer took
        self._client: Any = None
        self._next: Any = None  # of a deployment that opens, until its first model has come
        self._lock = threading.Lock()  # a late answer and the next message may overlap

    @property
    def estimate(self) -> Any:
        """Return the model of a node of a graph, as `Node.estimate`."""
        return self._client.estimate

    def answer(self, name: str, data: bytes) -> bytes:
        """Return the answer to a message of the server.

        Args:
          name: hello, begin, work or finish: the method of `Client`.
          data: the message; empty for hello.

        Raises:
          MessageError: the message does not fit the client's state.
        """
        with self._lock:
            begun = time.monotonic()
            reply = self._answer(name, data)
            self.seconds = time.monotonic() - begun
        return reply

    def reply(self, name: str, data: bytes) -> Answer:
        """Return what a transport carries back: `answer`, or why the message does not fit."""
        try:
            return Answer(self.number, self.answer(name, data), self.seconds)
        except MessageError as refusal:
            return Answer(self.number, b"", refusal=str(refusal))

    def _answer(self, name: str, data: bytes) -> bytes:
        if name == "hello":
            self._next = self._new()
            return self._next.hello()
        client = self._client
        if name == "begin" and (self._next or client is None):
            client = self._next or self._new()
        elif client is None:
            client = self._new()
            client.resume(self.file)
        reply = {"begin": client.begin, "work": client.work}.get(name, client.finish)(data)
        self._client, self._next = client, None
        if not self.lazy:
            self.save()
        return reply or b""

    def save(self) -> None:
        """Write the client's state to its file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self._client.save(self.file)

    def _new(self) -> Any:
        client = self.study.client(self.number, self.below)
        if isinstance(client, Node):
            client.keep_ledger(self.file.with_name(f"ledger-{self.number}.npz"))
        return client
