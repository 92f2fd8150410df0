"""A study over Flower: through a grid of plain calls, and through its processes with TLS."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import deploy, participation, solvers
from tests.deploy.study import CLIENTS, STUDY

pytestmark = pytest.mark.deploy
pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict  # noqa: E402
from flwr.common import (  # noqa: E402
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server.strategy import FedAdagrad, FedAdam, FedYogi  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedjax_admm.deploy import flower  # noqa: E402
from fedjax_admm.deploy._asking import Answer  # noqa: E402

APP = """
from study import STUDY

from fedjax_admm import deploy
from fedjax_admm.deploy import flower


def rounds(config):
    return deploy.Rounds(
        study=STUDY, rounds=config["rounds"], folder="states", deadline=180.0, report=print
    )


server = flower.server_app(rounds)
client = flower.client_app(STUDY, "states")
"""
PROJECT = """
[project]
name = "study"
version = "1.0.0"
description = "A study over Flower."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "here"

[tool.flwr.app.components]
serverapp = "app:server"
clientapp = "app:client"

[tool.flwr.app.config]
rounds = 5
"""
CONNECTION = """
[superlink]
default = "here"

[superlink.here]
address = "localhost:{port}"
root-certificates = "{folder}/server.crt"
"""


class Grid:
    """Flower's grid, whose nodes answer by plain calls of the ClientApp."""

    def __init__(self, app, nodes):
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.app, self.nodes = app, nodes  # the configuration of every node by its identifier
        self.replies, self.sent = {}, []

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            known = str(len(self.sent))
            message.metadata.__dict__["_message_id"] = known
            self.sent.append((message.metadata.dst_node_id, message.metadata.message_type))
            self.replies[known] = self.reply(message)
        return list(self.replies)[-len(messages) :]

    def pull_messages(self, message_ids):
        return [self.replies[each] for each in message_ids if each in self.replies]

    def reply(self, message):
        node = message.metadata.dst_node_id
        context = Context(1, node, self.nodes[node], RecordDict(), {})
        try:
            return self.app(message, context)
        except Exception as error:
            return Message(Error(2, str(error)), reply_to=message)


def run(grid, folder, rounds, before=lambda index: None):
    """Run a study over a grid; `before` is called before every round."""
    nodes = flower.Nodes(grid)
    job = deploy.Rounds(study=STUDY, rounds=rounds, folder=folder, patience=5, deadline=5)

    def ask(name, messages, seconds):
        if name == "work":
            before(job.server.round)
        yield from nodes.ask(name, messages, seconds)

    return job.run(ask), nodes


def assert_replays(estimate, heard):
    result = fa.run(
        STUDY.solver,
        STUDY.everybody(),
        STUDY.key,
        rounds=len(heard),
        participation=participation.replay(heard),
    )
    np.testing.assert_allclose(estimate, result.estimate, rtol=0, atol=1e-6)


def test_a_restarted_node_goes_on_and_the_simulation_replays_it(tmp_path):
    """Every message is answered by a new `Site`, as by a process of its own."""
    grid = Grid(flower.client_app(STUDY, tmp_path), {10 + i: {"client": i} for i in range(CLIENTS)})

    def before(index):
        if index == 2:
            del grid.nodes[11]
        if index == 4:
            grid.nodes[21] = {"client": 1}

    server, nodes = run(grid, tmp_path, 6, before)
    heard = server.record.heard
    assert heard[:, 1].tolist() == [True, True, False, False, True, True]
    assert heard[:, [0, 2]].all()
    assert nodes.clients == {10: 0, 11: None, 12: 2, 21: 1}
    assert_replays(server.estimate, heard)
    again, _ = run(grid, tmp_path / "again", 1)
    assert again.record.heard.all()


STRATEGIES = {
    "adagrad": (FedAdagrad, solvers.server_adagrad, {}),
    "adam": (FedAdam, solvers.server_adam, {"b1": 0.8, "b2": 0.95}),
    "yogi": (FedYogi, solvers.server_yogi, {"b1": 0.8, "b2": 0.95}),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", STRATEGIES)
def test_adaptive_servers_take_the_steps_of_flower_s_own(kind):
    """From v = tau^2 on, where Flower begins at 0, and without the bias correction of its Adam."""
    theirs, ours, decays = STRATEGIES[kind]
    rate, tau, clients = 0.2, 0.01, 3
    rng = np.random.default_rng(0)
    model = rng.normal(size=4)
    given = {f"beta_{name[1:]}": decay for name, decay in decays.items()}
    first = ndarrays_to_parameters([model])
    strategy = theirs(initial_parameters=first, eta=rate, tau=tau, **given)
    strategy.m_t, strategy.v_t = [np.zeros(4)], [np.full(4, tau**2)]
    optimizer = ours(rate, tau=tau, **decays)
    moments = optimizer.init(jnp.asarray(model))
    for index in range(1, 31):
        sent = model + rng.normal(size=(clients, 4)) / index
        step, moments = optimizer.update(model - sent.mean(0), moments, model)
        if kind == "adam":
            b1, b2 = (decay ** (index + 1) for decay in decays.values())
            strategy.eta = rate * (1 - b1) / np.sqrt(1 - b2)
        results = [
            (None, FitRes(Status(Code.OK, ""), ndarrays_to_parameters([one]), 5, {}))
            for one in sent
        ]
        wanted, _ = strategy.aggregate_fit(index, results, [])
        model = model + np.asarray(step)
        np.testing.assert_allclose(model, parameters_to_ndarrays(wanted)[0], rtol=0, atol=1e-12)


def test_nodes_that_are_no_clients_are_left_out(tmp_path, caplog):
    nodes = {i: {"client": i} for i in range(CLIENTS)} | {7: {}, 8: {"client": 3}}
    grid = Grid(flower.client_app(STUDY, tmp_path), nodes)
    server, known = run(grid, tmp_path, 2)
    assert server.record.heard.all()
    assert known.clients[7] is known.clients[8] is None
    assert "does not say which client this is" in caplog.text
    assert "client must be" in caplog.text
    assert [kind for node, kind in grid.sent if node in (7, 8)] == ["train.hello"] * 2


def test_a_message_out_of_reach_is_sent_again_and_old_ones_are_forgotten():
    grid = Grid(None, {5: {}})
    grid.reply = lambda message: (
        Message(Error(5, "unavailable"), reply_to=message)
        if len(grid.sent) == 1
        else Message(RecordDict({"fedjax-admm": ConfigRecord(good._asdict())}), reply_to=message)
    )
    good = Answer(0, b"data", 0.5, "")
    nodes = flower.Nodes(grid)
    assert list(nodes.ask("hello", {0: b""}, 5.0)) == [good]
    assert grid.sent == [(5, "train.hello")] * 2
    grid.nodes.clear()
    assert list(nodes.ask("work", {0: b"x"}, 5.0)) == []


@pytest.fixture
def start(tmp_path):
    """Start a command of Flower; its output goes to a file."""
    started, programs = [], str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(tmp_path / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def call(name, *words):
        with (tmp_path / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                list(map(str, words)), stdout=log, stderr=log, cwd=tmp_path, env=environment
            )
        started.append(process)
        return process

    yield call
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ports(number):
    """Return ports that are free."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("localhost", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def wait_for(path, text, process):
    limit = time.monotonic() + 120
    while text not in path.read_text():
        assert process.poll() is None, path.read_text()
        assert time.monotonic() < limit, path.read_text()
        time.sleep(0.2)


def test_five_rounds_of_processes_with_tls(start, tmp_path):
    """One SuperLink and three SuperNodes on this machine; each message starts a process."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "app.py").write_text(APP)
    (tmp_path / "app" / "pyproject.toml").write_text(PROJECT)
    shutil.copy(Path(__file__).with_name("study.py"), tmp_path / "app")
    link, *own = ports(1 + CLIENTS)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(CONNECTION.format(port=link, folder=tmp_path))
    certificate = start(
        *("openssl", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        *("-keyout", "server.key", "-out", "server.crt"),
    )
    assert certificate.wait(60) == 0, (tmp_path / "openssl.log").read_text()
    server = start(
        *("link", "flower-superlink", "--port", link, "--disable-runtime-dependency-installation"),
        *("--ssl-ca-certfile", "server.crt"),
        *("--ssl-certfile", "server.crt", "--ssl-keyfile", "server.key"),
    )
    wait_for(tmp_path / "link.log", "startup complete", server)
    for i in range(CLIENTS):
        start(
            *(f"node-{i}", "flower-supernode", "--superlink", f"localhost:{link}"),
            *("--root-certificates", "server.crt", "--port", own[i]),
            *("--node-config", f"client={i}"),
        )
    run = start("run", "flwr", "run", "app", "here", "--stream")
    try:
        assert run.wait(600) == 0
        record = deploy.Record.load(tmp_path / "states" / "record.json")
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        logs = {each.name: each.read_text()[-2000:] for each in tmp_path.glob("*.log")}
        raise AssertionError("\n".join(f"{name}: {log}" for name, log in logs.items())) from error
    assert record.heard.shape == (5, CLIENTS)
    assert record.heard.any()
    server = deploy.Server(STUDY.solver, STUDY.model, CLIENTS, STUDY.key)
    server.resume(tmp_path / "states" / "server.npz")
    assert_replays(server.estimate, record.heard)
