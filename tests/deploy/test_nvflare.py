"""Processes that NVFlare's cells join, as the command line starts them: .ci/run runs this tier."""

import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedjax_admm import deploy
from tests.deploy.study import CLIENTS

pytestmark = pytest.mark.deploy
pytest.importorskip("nvflare", reason="the extra `nvflare` is not installed")

STUDY = str(Path(__file__).with_name("study.py"))
TREE_STUDY = str(Path(__file__).with_name("tree_study.py"))
PROGRAM = [sys.executable, "-c", "from fedjax_admm.trials.cli import main; main()"]
PROJECT = """
api_version: 3
name: study
participants:
  - {name: localhost, type: server, org: here, fed_learn_port: 8002}
  - {name: client-0, type: client, org: here}
  - {name: client-1, type: client, org: here}
  - {name: client-2, type: client, org: here}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  - path: nvflare.lighter.impl.cert.CertBuilder
"""


@pytest.fixture
def start(tmp_path):
    """Start a command of `deploy`; its output goes to a file."""
    started = []
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)

    def call(name, *words):
        with (tmp_path / f"{name}.log").open("a") as log:
            command = [*PROGRAM, "deploy", *map(str, words)]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
        started.append(process)
        return process

    yield call
    signal.signal(signal.SIGINT, usual)
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    """Certificates of a server and three clients, by NVFlare's provisioning."""
    folder = tmp_path_factory.mktemp("kits")
    (folder / "project.yml").write_text(PROJECT)
    nvflare = Path(sys.executable).with_name("nvflare")
    command = [str(nvflare), "provision", "-p", "project.yml", "-w", "kits"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / "kits" / "study" / "prod_00"


def port():
    """Return a port that is free."""
    with socket.socket() as each:
        each.bind(("localhost", 0))
        return each.getsockname()[1]


def rounds_done(folder):
    log = folder / "server.log"
    return len(re.findall(r"^round", log.read_text(), re.M)) if log.exists() else 0


def wait_for_round(folder, index, server):
    limit = time.monotonic() + 120
    while rounds_done(folder) < index:
        assert server.poll() is None, (folder / "server.log").read_text()
        assert time.monotonic() < limit, (folder / "server.log").read_text()
        time.sleep(0.01)


def test_a_client_is_killed_and_comes_back(start, tmp_path, kits):
    """100 rounds with TLS; the simulation of those who were heard has the same trajectory."""
    at = f"localhost:{port()}"

    def client(number):
        words = ("--number", number, "--server", at, "--kit", kits / f"client-{number}/startup")
        return start(f"client-{number}", "client", STUDY, *words)

    clients = [client(i) for i in range(CLIENTS)]
    server = start(
        *("server", "server", STUDY, "--listen", at, "--kit", kits / "localhost/startup"),
        *("--rounds", 100, "--quorum", CLIENTS, "--deadline", 1, "--compare"),
    )
    wait_for_round(tmp_path, 30, server)
    clients[1].kill()
    wait_for_round(tmp_path, 60, server)
    clients[1] = client(1)
    assert server.wait(200) == 0, (tmp_path / "server.log").read_text()
    for each in clients:
        assert each.wait(30) == 0
    heard = deploy.Record.load(tmp_path / "deployed" / "record.json").heard
    assert len(heard) == 100
    assert heard[0].all()
    assert heard[:30, 1].any()
    assert not heard[35:60, 1].any()
    assert heard[60:, 1].any()
    report = (tmp_path / "server.log").read_text()
    found = re.search(r"simulation of these rounds: ([\d.e+-]+)\.$", report, re.M)
    assert found, report
    assert float(found[1]) < 1e-6
    rounds = json.loads((tmp_path / "deployed" / "rounds.json").read_text())
    parts = ("clients", "transport", "encoding", "solver")
    each = {part: statistics.median(x[part] for x in rounds[2:]) for part in parts}
    print("median seconds of a round:", each)


def test_another_client_s_certificate_is_refused(start, tmp_path, kits):
    at = f"localhost:{port()}"
    for number, owner in enumerate((1, 1, 2)):
        kit = kits / f"client-{owner}/startup"
        start(f"c{number}", "client", STUDY, "--number", number, "--server", at, "--kit", kit)
    server = start(
        *("server", "server", STUDY, "--listen", at, "--kit", kits / "localhost/startup"),
        *("--patience", 25),
    )
    assert server.wait(100) == 2
    assert "clients [0] have not joined within 25 seconds" in (tmp_path / "server.log").read_text()


def test_a_middle_node_between_a_server_and_clients(start, tmp_path):
    """Clients 0 and 1 join node 3, which joins the root, as client 2 does."""
    root, middle = f"localhost:{port()}", f"localhost:{port()}"
    words = ("--number", 3, "--server", root, "--listen", middle)
    nodes = [start("middle", "middle", TREE_STUDY, *words, "--deadline", 1)]
    for number, at in ((0, middle), (1, middle), (2, root)):
        words = ("--number", number, "--server", at)
        nodes.append(start(f"client-{number}", "client", TREE_STUDY, *words))
    server = start(
        *("server", "server", TREE_STUDY, "--listen", root, "--rounds", 20),
        *("--quorum", 2, "--patience", 150, "--compare"),
    )
    log = tmp_path / "server.log"
    assert server.wait(200) == 0, log.read_text()
    assert all(each.wait(30) == 0 for each in nodes)
    heard = deploy.Record.load(tmp_path / "deployed" / "record.json").heard
    assert heard.shape == (20, 2, 4)
    assert heard[1:, :, 3].all()
    found = re.search(r"simulation of these rounds: ([\d.e+-]+)\.$", log.read_text(), re.M)
    assert found, log.read_text()
    assert float(found[1]) < 1e-5
