"""Commands that are started into one folder at the same moment: one of them runs."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.processes import same_results
from tests.faults import prepared
from tests.faults.machine import run_process
from tests.faults.row import Row

pytestmark = pytest.mark.thorough
STARTED = 3
REFUSED = r"fedjax-admm: .*out (is in use by|holds a finished run|is not empty).*\n"


@pytest.fixture
def together(tmp_path):
    """Start commands at the same moment, each in a folder of its own, and return what they told."""

    def call(*words, turn=0):
        def one(number):
            folder = tmp_path / f"{turn}-{number}"
            folder.mkdir()
            return run_process(Row("row", words), folder)

        with ThreadPoolExecutor(STARTED) as pool:
            told = list(pool.map(one, range(STARTED)))
        assert sorted(each.code for each in told) == [0] + [2] * (STARTED - 1), told
        for each in told:
            if each.code == 2:
                assert re.fullmatch(REFUSED, each.err), told
        return told

    return call


def test_of_starts_at_the_same_moment_one_runs(together, tmp_path):
    prepared.finished(tmp_path / "whole")
    for turn in range(2):
        out = tmp_path / f"new-{turn}" / "out"
        together(*prepared.RUN, "--out", str(out), turn=turn)
        assert same_results(out, tmp_path / "whole" / "out")
