"""How commands end where nothing was foreseen, or somebody stops them."""

import re
import tempfile
from pathlib import Path

import pytest

from fedjax_admm.trials import running

RUN = ("run", "fsmdm-outliers", "--quick", "--out", "run")


@pytest.fixture
def fails(monkeypatch):
    """Have a run raise something in code that is not a user's own file."""

    def call(error):
        names = {"error": error}
        exec(compile("def fail(*_, **__):\n    raise error", "<fault>", "exec"), names)
        monkeypatch.setattr(running, "run_experiment", names["fail"])

    return call


def test_an_error_of_ours_is_kept_in_a_file(command, fails, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fails(RecursionError("too deep\nto see"))
    outcome = command(*RUN)
    assert (outcome.code, outcome.out) == (70, "")
    told = re.fullmatch(
        r"fedjax-admm: this is an error of fedjax-admm itself \((\w+): [^\n]*\); please report it "
        r"with (\S+), which holds the command, the versions and where it happened\.\n",
        outcome.err,
    )
    assert told[1] == "RecursionError"
    kept = Path(told[2])
    assert kept.stat().st_mode & 0o077 == 0
    text = kept.read_text()
    for words in ("command: fedjax-admm run fsmdm-outliers", "jaxlib 0.", "Traceback"):
        assert words in text


@pytest.mark.thorough
def test_a_user_sees_the_line_of_his_own_file(command, tmp_path):
    assert command("new", "experiment", "mine").code == 0
    path = tmp_path / "mine.py"
    text = re.sub(r"(def loss\(.*\n)", r"\1    1 / 0\n", path.read_text())
    path.write_text(text)
    outcome = command("run", "mine.py", "--quick", "--trials", "2")
    line = path.read_text().splitlines().index("    1 / 0") + 1
    told = f"loss raises ZeroDivisionError in line {line} of mine.py for parameters of shape"
    assert outcome.mistake().startswith(told)


def test_ctrl_c_advises_to_go_on_only_where_something_was_kept(command, fails, tmp_path):
    fails(KeyboardInterrupt())
    outcome = command(*RUN)
    assert (outcome.code, outcome.err) == (130, "Interrupted before anything was kept.\n")
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "config.json").write_text('{"status": "running"}')
    fails(KeyboardInterrupt())
    told = "Interrupted; go on with: fedjax-admm run fsmdm-outliers --out run --resume\n"
    assert command(*RUN).err == told


def test_who_stops_a_command_after_a_run_has_finished_is_told_so(command, fails, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.json").write_text('{"status": "finished"}')
    fails(KeyboardInterrupt())
    outcome = command(*RUN)
    assert (outcome.code, outcome.err) == (130, "Interrupted; a finished run is in run.\n")
