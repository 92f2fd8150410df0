"""How commands end where nothing was foreseen, or somebody stops them."""

import re

import pytest

from fedjax_admm.trials import running

RUN = ("run", "fsmdm-outliers", "--quick", "--out", "run")


@pytest.fixture
def fails(monkeypatch):
    """Have a run raise something in code that is not a user's own file."""

    def call(error):
        names = {"error": error}
        exec(compile("def fail(*_, **__):\n    raise error", "<fault>", "exec"), names)
        monkeypatch.setattr(running, "run_locked", names["fail"])

    return call


def test_an_error_that_nobody_foresaw_is_shown_with_its_place(command, fails):
    fails(ZeroDivisionError("division by zero"))
    outcome = command(*RUN)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.rstrip().endswith("ZeroDivisionError: division by zero")
    assert "Traceback" in outcome.err


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
