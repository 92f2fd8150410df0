"""NVFlare: the messages of a deployment as calls of its Collab interface.

    pip install 'fedjax-admm[nvflare]'

    recipe = fedjax_admm.deploy.nvflare.recipe("study.py", rounds=100, folder="/var/lib/study")
    recipe.execute(SimEnv(num_clients=3))        # or a production environment of NVFlare, with TLS

`study.py` is on every machine, and says

    solver = solvers.fed_admm()
    model = jnp.zeros(3)            the first model
    num_clients = 3
    key = jax.random.key(0)
    def problem(number): ...        of one client; called at this client alone

A site keeps its client alive from round to round and writes the client's state to a file after
every round; a site that is started again goes on from there. NVFlare's certificates decide who may
speak as which site.
"""

import importlib.util
import json
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType
from typing import Any

from nvflare.collab import (  # pyright: ignore[reportMissingImports]
    CollabCallError,
    CollabRecipe,
    collab,
)

from fedjax_admm.deploy._client import Client
from fedjax_admm.deploy._messages import MessageError
from fedjax_admm.deploy._server import Server


class ClientSite:
    """A client of the study at an NVFlare site.

    Args:
      study: the path of `study.py`.
      folder: where states are kept, one file per client.
    """

    def __init__(self, study: str, folder: str) -> None:  # noqa: D107
        self.study, self.folder = study, folder
        self._client: Client | None = None

    @collab.publish
    def hello(self, number: int) -> bytes:
        """Return the client's first message; `number` is the server's for this site."""
        return self._of(number, fresh=True).hello()

    @collab.publish
    def begin(self, number: int, data: bytes) -> bytes:
        """Read the first model; return what the server remembers first."""
        return self._of(number).begin(data)

    @collab.publish
    def work(self, number: int, data: bytes) -> bytes:
        """Do the work of a round."""
        client = self._of(number)
        reply = client.work(data)
        client.save(self._file(number))
        return reply

    @collab.publish
    def finish(self, number: int, data: bytes) -> bool:
        """Read what the server says after the last round."""
        client = self._of(number)
        client.finish(data)
        client.save(self._file(number))
        return True

    def _of(self, number: int, fresh: bool = False) -> Client:
        """Return the client of this site, from its file where the site has been started again."""
        if self._client is None or fresh:
            study = _load(self.study)
            client = Client(
                study.solver, study.problem(number), number, study.num_clients, study.key
            )
            if not fresh and self._file(number).exists():
                client.resume(self._file(number))
            self._client = client
        return self._client

    def _file(self, number: int) -> Path:
        return Path(self.folder, f"client-{number}.npz")


class ServerSite:
    """The server of the study.

    Args:
      study: the path of `study.py`.
      folder: where the state, the record and the times are written.
      rounds: how many.
      deadline: seconds after which a round is closed.
      patience: seconds for the first messages, in which clients compile.
    """

    def __init__(  # noqa: D107
        self, study: str, folder: str, rounds: int, deadline: float, patience: float
    ) -> None:
        self.study, self.folder, self.rounds = study, folder, rounds
        self.deadline, self.patience = deadline, patience

    @collab.main
    def run(self) -> str:
        """Run all rounds; return the path of the record."""
        study, folder = _load(self.study), Path(self.folder)
        server = Server(study.solver, study.model, study.num_clients, study.key)
        sites = sorted(collab.clients, key=lambda site: site.name)
        if len(sites) != study.num_clients:
            raise ValueError(f"{len(sites)} sites are connected, but {study.num_clients} are due")
        seconds: list[float] = []
        with ThreadPoolExecutor(len(sites)) as threads:
            self._ask(threads, sites, server, "hello", dict.fromkeys(range(len(sites)), ()), None)
            first = {i: (data,) for i, data in server.start().items()}
            self._ask(threads, sites, server, "begin", first, None)
            for index in range(self.rounds):
                begun = time.monotonic()
                sends = {i: (server.broadcast(i),) for i in range(len(sites))}
                # Clients compile in the first round.
                self._ask(threads, sites, server, "work", sends, self.deadline if index else None)
                server.close_round()
                server.save(folder / "server.npz")
                seconds.append(time.monotonic() - begun)
            sends = {i: (server.broadcast(i),) for i in range(len(sites))}
            self._ask(threads, sites, None, "finish", sends, self.deadline)
        server.record.save(folder / "record.json")
        (folder / "seconds.json").write_text(json.dumps(seconds))
        return str(folder / "record.json")

    def _ask(
        self,
        threads: ThreadPoolExecutor,
        sites: list[Any],
        server: Server | None,
        name: str,
        arguments: dict[int, tuple[bytes, ...]],
        deadline: float | None,
    ) -> None:
        """Call a function of every site, and give the server what comes back in time."""
        seconds = self.patience if deadline is None else deadline

        def ask(number: int) -> bytes:
            call = getattr(sites[number](timeout=seconds), name)
            return call(number, *arguments[number])

        asked = {threads.submit(ask, number): number for number in arguments}
        for future in wait(asked, timeout=seconds + 1).done:
            failed = future.exception() or future.result()
            if server is None or isinstance(failed, CollabCallError | BaseException):
                continue
            try:
                server.receive(future.result(), asked[future])
            except MessageError as refusal:
                print(f"client {asked[future]}: {refusal}")


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
    Path(folder).mkdir(parents=True, exist_ok=True)
    return CollabRecipe(
        job_name=name,
        server=ServerSite(study, folder, rounds, deadline, patience),
        client=ClientSite(study, folder),
        sync_task_timeout=int(patience),
    )


def _load(path: str) -> ModuleType:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location("study", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
