"""Seconds of a deployed round: within one process, over NVFlare and over Flower.

    python benchmarks/deploy.py                        what is installed
    python benchmarks/deploy.py flower --rounds 5      one transport

FedADMM with 3 clients and 3 numbers, on this machine. NVFlare's processes speak in the clear,
Flower's with TLS. Medians over the rounds after the first two, in which programs are compiled, with
the parts that `rounds.json` holds: the slowest client, the messages on their way with the start of
processes, encoding at the server, and the server's step.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from fedjax_admm import deploy

CLIENTS, PARTS = 3, ("clients", "transport", "encoding", "solver")
STUDY = """
import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa


def loss(model, sample):
    return 0.5 * (sample[0] @ model - sample[1]) ** 2


def problem(number):
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(6, 3)).astype("f4"), rng.normal(size=6).astype("f4")
    return fa.problems.federated(loss, [rows], jnp.zeros(3))


STUDY = fa.deploy.Study(
    solver=fa.solvers.fed_admm(),
    model=jnp.zeros(3),
    num_clients=3,
    key=jax.random.key(0),
    problem=problem,
)
"""
APP = """
from study import STUDY

from fedjax_admm import deploy
from fedjax_admm.deploy import flower


def rounds(config):
    return deploy.Rounds(study=STUDY, rounds=config["rounds"], folder="deployed", deadline=300.0)


server = flower.server_app(rounds)
client = flower.client_app(STUDY, "deployed")
"""
PROJECT = """
project = {name = "study", version = "1.0.0", description = "A study.", license = "Apache-2.0"}

[tool.flwr.app]
publisher = "here"
components = {serverapp = "app:server", clientapp = "app:client"}
config = {rounds = 5}
"""


def in_process(folder: Path, rounds: int) -> None:
    """Run server and clients by plain calls."""
    study = deploy.Study.load(folder / "study.py")
    sites = [deploy.Site(study, i, folder / "deployed") for i in range(CLIENTS)]
    deploy.Rounds(study=study, rounds=rounds, folder=folder / "deployed").run(deploy.called(sites))


def nvflare(folder: Path, rounds: int) -> None:
    """Run a process per client, and a server, that NVFlare's cells join."""
    command, at = (sys.executable, "-m", "fedjax_admm.trials.cli", "deploy"), f"localhost:{port()}"
    with ExitStack() as stack:
        for i in range(CLIENTS):
            started(
                *(stack, folder, f"client-{i}", *command, "client", "study.py"),
                *("--number", i, "--server", at),
            )
        words = (*command, "server", "study.py", "--listen", at, "--rounds", rounds)
        finished(started(stack, folder, "server", *words), folder)


def flower(folder: Path, rounds: int) -> None:
    """Run a SuperLink, a SuperNode per client, and an app whose every message starts a process."""
    programs, link, app = Path(sys.executable).parent, port(), folder / "app"
    (folder / "home").mkdir()
    app.mkdir()
    (app / "study.py").write_text(STUDY)
    (app / "app.py").write_text(APP)
    (app / "pyproject.toml").write_text(PROJECT)
    (folder / "home" / "config.toml").write_text(
        f'[superlink.here]\naddress = "localhost:{link}"\n'
        f'root-certificates = "{folder}/server.crt"\n'
    )
    os.environ |= {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    with ExitStack() as stack:
        openssl = started(
            *(stack, folder, "openssl", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", "server.key", "-out", "server.crt"),
        )
        finished(openssl, folder)
        started(
            *(stack, folder, "link", "flower-superlink", "--port", link),
            *("--ssl-ca-certfile", "server.crt", "--ssl-certfile", "server.crt"),
            *("--ssl-keyfile", "server.key", "--disable-runtime-dependency-installation"),
        )
        for i in range(CLIENTS):
            started(
                *(stack, folder, f"node-{i}", "flower-supernode", "--port", port()),
                *("--superlink", f"localhost:{link}", "--root-certificates", "server.crt"),
                *("--node-config", f"client={i}"),
            )
        time.sleep(20)  # for the SuperLink to start, which `flwr run` does not wait for
        words = ("flwr", "run", "app", "here", "--stream", "--run-config", f"rounds={rounds}")
        finished(started(stack, folder, "run", *words), folder)


TRANSPORTS: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "in-process": ("jax", in_process),
    "nvflare": ("nvflare", nvflare),
    "flower": ("flwr", flower),
}


def started(stack: ExitStack, folder: Path, name: str, *words: object) -> subprocess.Popen:
    """Start a command that ends with the stack; its output goes to a file."""
    log = stack.enter_context((folder / f"{name}.log").open("w"))
    process = subprocess.Popen(list(map(str, words)), cwd=folder, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def finished(process: subprocess.Popen, folder: Path) -> None:
    """Wait for a command, and show what all have written if it fails."""
    if process.wait():
        sys.exit("\n".join(log.read_text() for log in folder.glob("*.log")))


def port() -> int:
    """Return a port that is free."""
    with socket.socket() as each:
        each.bind(("localhost", 0))
        return each.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("transports", nargs="*", help=", ".join(TRANSPORTS))
    parser.add_argument("--rounds", type=int, help="100; 5 over Flower")
    given = parser.parse_args()
    for name in given.transports or TRANSPORTS:
        needs, measure = TRANSPORTS[name]
        if find_spec(needs) is None:
            print(f"{name:<12} left out: {needs} is not installed")
            continue
        with tempfile.TemporaryDirectory() as kept:
            folder = Path(kept)
            (folder / "study.py").write_text(STUDY)
            measure(folder, given.rounds or (5 if name == "flower" else 100))
            rounds = json.loads((folder / "deployed" / "rounds.json").read_text())[2:]
        parts = {part: statistics.median(each[part] for each in rounds) for part in PARTS}
        whole = statistics.median(sum(each[part] for part in PARTS) for each in rounds)
        shown = "  ".join(f"{part} {value:.4f}" for part, value in parts.items())
        print(f"{name:<12} round {whole:.4f} s:  {shown}")


if __name__ == "__main__":
    main()
