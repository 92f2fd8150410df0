"""Run commands by the hundred: in the process of the tests, in a fork of a server, or afresh.

Commands share the process of the tests, and with it imports and compiled programs. What sets
variables of the environment has a process of its own, forked from one that has imported. What an
interpreter reads while it starts, or does when it ends, is seen in a fresh one only.
"""

import contextlib
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedjax_admm.trials.cli import _environment as environment_of_jax
from fedjax_admm.trials.experiments import _finding
from tests.cli.outcomes import called
from tests.cli.processes import PROGRAM, SMALL
from tests.faults.forking import forked
from tests.faults.row import DONE, Row
from tests.trials.small import EXPERIMENT

ENDLESS = "endless"


@dataclass(frozen=True)
class Told:
    """What a command left: its exit code (`ENDLESS` past the limit) and what it printed."""

    code: int | str | None
    out: str
    err: str


class Endless(BaseException):
    """A command has not ended in time."""


def run_row(row: Row, folder: Path) -> Told:
    """Run the command of a row in its folder, in this process if a row allows it."""
    if row.fresh or row.environment:
        return run_process(row, folder)
    assert row.output == "kept", "broken outputs show in a fresh interpreter"

    def late(number, frame):
        raise Endless

    usual = signal.signal(signal.SIGALRM, late)
    signal.alarm(int(row.limit))
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            if row.wanted == DONE:  # of what is refused nobody may see a warning
                warnings.simplefilter("ignore")
            patch.setattr(environment_of_jax, "prepare", _precision)
            if row.small:
                patch.setattr(_finding, "built_in", lambda: {EXPERIMENT.name: EXPERIMENT})
            outcome = called(folder, *row.words)
        return Told(outcome.code, outcome.out, outcome.err)
    except Endless:
        return Told(ENDLESS, "", "")
    finally:
        environment_of_jax.use_x64(False)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)


def _precision(*, x64: bool = False, **options: object) -> None:
    """Set the precision of a command, and leave the rest of JAX as the tests have set it."""
    environment_of_jax.use_x64(x64)


def run_process(row: Row, folder: Path) -> Told:
    """Run the command of a row in its folder, as a process of its own."""
    kept = folder.with_name(f"{folder.name}-told")
    kept.mkdir()
    told = (kept / "out", kept / "err")
    code = _fresh(row, folder, *told) if row.fresh else _forked(row, folder, *told)
    return Told(code, *(path.read_text(errors="replace") for path in told))


def _environment(row: Row) -> dict[str, str]:
    usual = {**os.environ, **{name: text for name, text in row.environment.items() if text}}
    return {name: text for name, text in usual.items() if row.environment.get(name, text)}


@contextlib.contextmanager
def _output(row: Row, out: Path):
    """Give the file descriptor that a command gets as its standard output."""
    if row.output == "broken":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(out, os.O_WRONLY | os.O_CREAT)
    out.touch()
    yield writer
    os.close(writer)


def _fresh(row: Row, folder: Path, out: Path, err: Path) -> int | str:
    program = SMALL if row.small else PROGRAM
    words = [*program, *row.words]
    with _output(row, out) as writer, open(err, "wb") as errors:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=errors,
            cwd=folder,
            env=_environment(row),
        )
        try:
            return process.wait(row.limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return ENDLESS


def _forked(row: Row, folder: Path, out: Path, err: Path) -> int | str | None:
    environment = dict(row.environment)
    process = forked(_command, row.words, row.small, str(folder), environment, str(out), str(err))
    process.join(row.limit)
    if process.is_alive():
        process.kill()
        process.join()
        return ENDLESS
    return process.exitcode


def _command(words, small, folder, environment, out, err):
    """Be the command: the target of a forked process."""
    for path, descriptor in ((out, 1), (err, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    for name, text in environment.items():
        os.environ.pop(name, None)
        if text is not None:
            os.environ[name] = text
    os.chdir(folder)
    sys.argv = ["fedjax-admm", *words]
    from fedjax_admm.trials.cli import main

    if small:
        _finding.built_in = lambda: {EXPERIMENT.name: EXPERIMENT}
    main()
