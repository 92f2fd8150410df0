"""NVFlare carries the messages of a deployment: between its cells, or as calls of Collab.

    pip install 'fedjax-admm[nvflare]'

One process per client and one for the server, which NVFlare's cells join (the command
`fedjax-admm deploy` calls these two functions):

    serve(Rounds(study=study, rounds=100, folder="states"), "server.example:8002", kit="startup")
    join(Site(study, 0, "states"), "server.example:8002", kit="startup")

The cells encrypt with the certificates that `nvflare provision` writes into the folder `startup`
of every participant, and tell by them who speaks: client 0 is the participant `client-0`, and the
server is the participant of the name that clients connect to.

Where NVFlare itself runs on all machines, the same study is a job of its Collab interface:

    recipe("study.py", rounds=100, folder="/var/lib/study").execute(SimEnv(num_clients=3))
"""

# pyright: reportMissingImports=false

import threading
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.collab import CollabCallError, CollabRecipe, collab
from nvflare.fuel.f3.cellnet.core_cell import CoreCell, Message
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode

from fedjax_admm._checks import refuse
from fedjax_admm.deploy._asking import Answer, Ask, answers
from fedjax_admm.deploy._rounds import Rounds
from fedjax_admm.deploy._site import Site
from fedjax_admm.deploy._study import Study

_CHANNEL, _PING = "fedjax-admm", "ping"
_PING_SECONDS = 5.0
_SECONDS, _REFUSAL = "fedjax_admm_seconds", "fedjax_admm_refusal"  # headers of an answer
_LOOPBACK = ("localhost", "127.0.0.1")


def serve(rounds: Rounds, address: str, *, kit: str | Path | None = None) -> Any:
    """Run a study's server; return it after the last round.

    Args:
      rounds: what is run.
      address: HOST:PORT where clients reach this server.
      kit: the folder with this server's certificates (rootCA.pem, server.crt, server.key); None
        for messages in the clear, on this machine alone.

    Raises:
      InputError: the address or a certificate is missing, or clients do not join.
      MessageError: a message before the first round does not fit.
    """
    with reaching(address, 2 * len(rounds.server.numbers), kit=kit) as ask:
        return rounds.run(ask)


@contextmanager
def reaching(
    address: str, threads: int, *, kit: str | Path | None = None
) -> Generator[Ask, None, None]:
    """Yield how a server reaches those who join it.

    A middle node of a tree has such a cell for its children, beside the one that joins its parent:

        with reaching("edge.example:8003", 8, kit="as-server") as ask:
            join(Site(study, 4, "states", Children(ask)), "server.example:8002", kit="startup")

    Args:
      address: HOST:PORT where they reach this server.
      threads: how many messages may be on their way, twice as many as who joins.
      kit: as of `serve`.

    Raises:
      InputError: the address or a certificate is missing.
    """
    cell = _cell("server", address, kit, "server")
    cell.start()
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield partial(_ask, cell, pool)
    finally:
        cell.stop()


def join(
    site: Site, address: str, *, kit: str | Path | None = None, patience: float = 300.0
) -> None:
    """Answer a study's server until it has closed the last round.

    Args:
      site: the client.
      address: HOST:PORT of the server.
      kit: the folder with this client's certificates (rootCA.pem, client.crt, client.key); None
        for messages in the clear, on this machine alone.
      patience: seconds for which the server may be out of reach.

    Raises:
      InputError: the address or a certificate is missing, or the server is out of reach.
    """
    failures: list[BaseException] = []
    over = threading.Event()

    def answer(request: Any, name: str) -> Any:
        try:
            reply = site.reply(name, bytes(request.payload or b""))
            if name == "finish" and not reply.refusal:
                over.set()
            return Message({_SECONDS: reply.seconds, _REFUSAL: reply.refusal}, reply.data)
        except BaseException as error:
            # What the user's file or this machine does wrong ends this client.
            failures.append(error)
            over.set()
            return Message({_REFUSAL: type(error).__name__}, b"")

    cell = _cell(f"client-{site.number}", address, kit, "client")
    cell.register_request_cb(_CHANNEL, _PING, lambda request: Message(None, b""))
    for name in ("hello", "begin", "work", "finish"):
        cell.register_request_cb(_CHANNEL, name, answer, name)
    cell.start()
    try:
        reached = time.monotonic()
        while not over.wait(0.2):
            if cell.is_cell_connected("server"):
                reached = time.monotonic()
            refuse(
                time.monotonic() - reached > patience,
                "server",
                f"the server at {address} has been out of reach for {patience:g} seconds",
                remedy="start it, or see whether its address and its certificates are right",
            )
        time.sleep(0.2)  # for the last answer to leave
    finally:
        cell.stop()
    if failures:
        raise failures[0]


def _ask(
    cell: Any, threads: ThreadPoolExecutor, name: str, messages: Mapping[int, bytes], seconds: float
) -> Iterator[Answer]:
    def send(number: int, name: str, data: bytes, seconds: float) -> Any:
        return cell.send_request(
            _CHANNEL, name, f"client-{number}", Message(None, data), timeout=seconds, optional=True
        )

    def call(number: int, data: bytes) -> Answer | None:
        # A cell that has just connected may not be able to answer yet, and its answer is lost.
        if not cell.is_cell_connected(f"client-{number}") or not _ok(
            send(number, _PING, b"", min(_PING_SECONDS, seconds))
        ):
            return None
        reply = send(number, name, data, seconds)
        if not _ok(reply):
            return None
        took, refusal = reply.get_header(_SECONDS, 0.0), reply.get_header(_REFUSAL, "")
        took = took if isinstance(took, float) else 0.0
        return Answer(number, bytes(reply.payload or b""), took, str(refusal)[:300])

    return answers(threads, call, messages, seconds)


def _ok(reply: Any) -> bool:
    return reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK


def _cell(name: str, address: str, kit: str | Path | None, role: str) -> Any:
    """Return a cell of NVFlare; with certificates it speaks TLS and checks who the others are."""
    host, _, port = address.rpartition(":")
    wrong = not host or not port.isdecimal() or not 0 < int(port) < 2**16
    refuse(wrong, "server", "must be HOST:PORT", address)
    # NVFlare takes all cells of a process for those of one network. A middle node has cells in two,
    # whose servers have one name: each cell has a table of cells of its own.
    own = type("Cell", (CoreCell,), {"ALL_CELLS": {}})
    if kit is None:
        told = f"needs certificates for messages between machines, and {host} may be another one"
        remedy = "name the folder `startup` that `nvflare provision` has written"
        refuse(host not in _LOOPBACK, "kit", told, remedy=remedy)
        return own(name, f"tcp://{address}", False, {})
    files = {"ca_cert": "rootCA.pem", f"{role}_cert": f"{role}.crt", f"{role}_key": f"{role}.key"}
    credentials = {key: str(Path(kit, file)) for key, file in files.items()}
    for path in credentials.values():
        told, remedy = f"has no file {Path(path).name}", f"name the folder `startup` of this {role}"
        refuse(not Path(path).is_file(), "kit", told, remedy=remedy)
    return own(name, f"tcp://{address}", True, credentials, auth_identity_map={"server": host})


class ClientSite:
    """A client of the study at a site where NVFlare runs.

    Args:
      study: the path of the study's file.
      folder: where states are kept, one file per client.
    """

    def __init__(self, study: str, folder: str) -> None:  # noqa: D107
        self.study, self.folder = study, folder
        self._site: Site | None = None

    @collab.publish
    def answer(self, number: int, name: str, data: bytes) -> tuple[bytes, float, str]:
        """Return the answer to the server's message, its seconds, and a refusal."""
        if self._site is None:
            self._site = Site(Study.load(self.study), number, self.folder)
        _, answer, seconds, refusal = self._site.reply(name, data)
        return answer, seconds, refusal


class ServerSite:
    """The server of the study where NVFlare runs; the arguments are those of `recipe`."""

    def __init__(  # noqa: D107
        self, study: str, folder: str, rounds: int, deadline: float, patience: float
    ) -> None:
        self.study, self.folder, self.rounds = study, folder, rounds
        self.deadline, self.patience = deadline, patience

    @collab.main
    def run(self) -> str:
        """Run all rounds; return the path of the record."""
        rounds = Rounds(
            study=Study.load(self.study),
            rounds=self.rounds,
            folder=self.folder,
            deadline=self.deadline,
            patience=self.patience,
        )
        sites = sorted(collab.clients, key=lambda site: site.name)
        due = len(rounds.server.numbers)
        refuse(len(sites) != due, None, f"{len(sites)} sites are connected, but {due} are due")

        def ask(name: str, messages: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
            def call(number: int, data: bytes) -> Answer | None:
                try:
                    back = sites[number](timeout=seconds).answer(number, name, data)
                except CollabCallError:
                    return None
                return None if isinstance(back, Exception) else Answer(number, *back)

            return answers(threads, call, messages, seconds + 1)

        with ThreadPoolExecutor(2 * len(sites)) as threads:
            rounds.run(ask)
        return str(Path(self.folder, "record.json"))


def recipe(
    study: str,
    *,
    rounds: int,
    folder: str,
    deadline: float = 30.0,
    patience: float = 300.0,
    name: str = "fedjax-admm",
) -> CollabRecipe:
    """Build the NVFlare job of a study; NVFlare's environments execute it.

    Args:
      study: the path of the study's file, the same on every machine.
      rounds: how many.
      folder: where states, the record and the times are written, on every machine.
      deadline: seconds after which a round is closed without those who have not answered.
      patience: seconds for messages before the first round and in it, in which clients compile.
      name: of the job.
    """
    return CollabRecipe(
        job_name=name,
        server=ServerSite(study, folder, rounds, deadline, patience),
        client=ClientSite(study, folder),
        sync_task_timeout=int(patience),
    )
