"""The command line, called in this process or as a process of its own."""

import os
import signal
import subprocess

import pytest

from fedjax_admm.trials.cli import _environment as of_jax
from tests.cached import programs_are_kept  # noqa: F401
from tests.cli.outcomes import Outcome, called, stand_aside
from tests.cli.processes import PROGRAM


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    stand_aside(monkeypatch)
    return lambda *words: called(tmp_path, *words)


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """The environment of processes: their compiled programs are shared by this session only."""
    kept = {name: value for name, value in os.environ.items() if name != of_jax.NO_CACHE}
    return {**kept, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture
def start(environment, tmp_path):
    """Start the command line as a process of its own."""
    started = []
    # Processes inherit that Ctrl-C is ignored, which it is where the tests run in the background.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)

    def call(*words, program=PROGRAM, folder=tmp_path):
        process = subprocess.Popen(
            [*program, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )
        started.append(process)
        return process

    yield call
    signal.signal(signal.SIGINT, usual)
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def shell(start):
    """Run the command line as a process of its own, to its end."""

    def call(*words):
        process = start(*words)
        out, err = process.communicate(timeout=120)
        return Outcome(process.returncode, out, err)

    return call
