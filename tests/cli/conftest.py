"""The command line, called in this process or as a process of its own."""

import os
import re
import signal
import subprocess
import sys

import pytest

from fedjax_admm.trials.cli import _commands as command_line, _environment as session
from tests.cli.processes import PROGRAM


class Outcome:
    """What a command left: its exit code and what it printed."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def mistake(self):
        """Check that a mistake was told as promised, and return the sentence."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        assert re.fullmatch(r"fedjax-admm: [^\n]+[.?]\n", self.err), self.err
        assert not self.err.endswith("..\n")
        assert "Traceback" not in self.err
        return self.err.removeprefix("fedjax-admm: ").rstrip("\n")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run the command line in this process, in an empty folder.

    JAX has started with the tests' settings, so `session.prepare` stands aside.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "prepare", lambda **options: None)
    monkeypatch.setattr(session, "use_x64", lambda wide: None)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fedjax-admm", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            command_line.main()
        return Outcome(stopped.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """The environment of processes: their compiled programs are shared by this session only."""
    kept = {name: value for name, value in os.environ.items() if name != session.NO_CACHE}
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
