"""Runs are looked at while they run and afterwards, and never disturbed."""

import re
import shutil
import signal

import numpy as np
import pytest

from fedjax_admm.trials import results
from fedjax_admm.trials.experiments import _finding
from tests.cli.processes import same_results, signalling, wait_until
from tests.trials.results.made import begun_like, finished_run
from tests.trials.small import EXPERIMENT

SOME = "16 of 30 trials"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def consensus(monkeypatch):
    """The experiment is one of the package's own."""
    monkeypatch.setattr(_finding, "built_in", lambda: {"consensus": EXPERIMENT})


@pytest.fixture
def folders(whole, consensus, tmp_path):
    """A finished run, and one as it is left by a process that was killed after two chunks."""
    shutil.copytree(whole, tmp_path / "whole")
    begun_like(whole, tmp_path / "begun", chunks=2)
    return tmp_path


def everything(folder):
    return {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def test_summary_fits_and_says_how_many_trials_there_are(command, folders):
    before = everything(folders)
    outcome = command("summary", "begun", "whole", "--round", "8")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    told = " ".join(outcome.out.split())
    assert f"consensus: error (distance) after 8 rounds, {SOME}; share: share of" in told
    assert lines[0] == "begun"
    assert "after 8 rounds, 30 trials;" in told
    row = r"fragile +0\.4 +(\S+) +(\S+) +(\S+) +(\d+)"
    first, second = re.findall(row, outcome.out)
    run = results.load(folders / "begun", unfinished=True)
    values = run.values("fragile", "error")[1, :, list(run.rounds).index(8)]
    kept = values[np.isfinite(values)]
    assert first[0] == results.number_text(kept.mean())
    assert int(first[3]) == 16 - len(kept)
    assert first != second
    assert everything(folders) == before


def test_a_figure_goes_where_it_is_asked_to(command, folders):
    before = everything(folders / "whole")
    assert command("plot", "whole", "--out", "figures").code == 0
    assert (folders / "figures/figure.png").exists()
    assert everything(folders / "whole") == before
    sentence = command("plot", "begun", "--out", "whole").mistake()
    assert sentence == "whole holds a run of its own; choose another --out."
    assert everything(folders / "whole") == before


def test_compare_draws_a_picture_and_keeps_what_is_there(command, folders):
    before = everything(folders / "begun")
    outcome = command("compare", "whole", "begun", "--picture", "p.svg")
    assert outcome.code == 0, outcome.err
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "Not finished: begun (16 of 30 trials)." in " ".join(outcome.out.split())
    assert outcome.out.endswith("\nWrote p.svg\n")
    assert everything(folders / "begun") == before
    first = (folders / "p.svg").read_bytes()
    again = ("compare", "whole", "--picture", "p.svg")
    assert command(*again).mistake() == (
        "p.svg is there already; choose another --picture, or have it replaced with --overwrite."
    )
    assert (folders / "p.svg").read_bytes() == first
    assert command(*again, "--overwrite").code == 0
    assert (folders / "p.svg").read_bytes() != first
    sentence = command("compare", "whole", "--picture", "p.jpg").mistake()
    assert sentence.startswith("--picture must end in .png, .pdf or .svg, but it is")


def test_report_writes_one_page(command, folders):
    before = everything(folders / "begun")
    outcome = command("report", "whole", "begun")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"Wrote report.html (whole: 30 trials, begun: {SOME})\n"
    text = (folders / "report.html").read_text()
    assert f"{SOME}; the run has not finished" in text
    assert "fedjax-admm run consensus --trials 30" in text
    assert "This is the usual figure" not in text
    assert everything(folders / "begun") == before
    assert "report.html is there already" in command("report", "whole").mistake()
    assert command("report", "whole", "--overwrite").code == 0
    assert command("report", "whole", "--out", "new/page.html").code == 0
    sentence = command("report", "whole", "--out", "new/page.html/x.html").mistake()
    assert sentence.startswith("cannot write new/page.html/x.html: ")


@pytest.mark.parametrize("form", ["latex", "markdown"])
def test_report_prints_a_table_for_a_paper(command, folders, form):
    outcome = command("report", "whole", "begun", f"--{form}")
    assert (outcome.code, outcome.err) == (0, "")
    whole, begun = outcome.out.split("\n\n\\begin" if form == "latex" else "\n\n| method")
    assert "share = 0.4" in whole
    assert "distance, 30 trials, 20 rounds" in whole
    assert f"distance, {SOME}" in begun
    assert not (folders / "report.html").exists()


@pytest.mark.parametrize("name", ["plot", "summary", "compare", "report"])
def test_a_run_without_a_trial_says_so(command, folders, name):
    for path in (folders / "begun/chunks").iterdir():
        path.unlink()
    assert command(name, "begun").mistake() == (
        "begun holds none of the 30 trials of its run yet; wait for the first of them."
    )
    assert not (folders / "report.html").exists()


# The real thing: another process runs

RUN = ("run", "consensus", "--trials", 20, "--batch", 2, "--devices", 2, "--set", "share=0,0.4")


@pytest.mark.thorough
def test_a_run_is_watched_while_it_runs(command, start, consensus, tmp_path):
    """It holds still while it writes its third chunk."""
    out = tmp_path / "run"
    program = signalling("000008-000012.npz", signal.SIGSTOP)
    process = start(*RUN, "--out", "run", program=program)
    wait_until(lambda: [*out.rglob(".000008-*")], process)
    for words in (("summary", "run"), ("compare", "run"), ("plot", "run")):
        outcome = command(*words)
        assert (outcome.code, outcome.err) == (0, ""), outcome.err
    assert results.load(out, unfinished=True).trials == 8
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    shutil.rmtree(out / "unfinished")
    assert command(*RUN, "--out", "whole").code == 0
    assert same_results(out, tmp_path / "whole")
