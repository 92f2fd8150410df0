"""What findings say beside what they rest on: the claims and the differences in benchmarks/."""

import re
from collections import defaultdict

import numpy as np
import pytest

from benchmarks import findings
from fedjax_admm.trials.experiments import find, headlines
from fedjax_admm.trials.running import Request, run_experiment
from tests.memory import drop_programs

NAMES = [headline.name for headline in headlines()]
COMPARING = re.compile(
    r"\b(better|best|worse|worst|lower|lowest|higher|highest|below|above|beats?|beaten|ahead|behind"
    r"|level|ties|faster|fastest|slower|than|smaller|larger|fewer|fewest|helps?|hurts?|hardly)\b"
)


def one_line(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_what_compares_is_claimed(name):
    claimed = [one_line(claim["words"]) for claim in findings.claims(name)]
    text = find(name).findings
    for words in claimed:
        assert words in one_line(text)
    assert any(words in text.partition("\n")[0] for words in claimed)
    compare = filter(COMPARING.search, re.split(r"(?<=\.) (?=[A-Z0-9])", one_line(text)))
    assert not [each for each in compare if not any(words in each for words in claimed)]


def test_claims_hold_on_both_seeds():
    table = defaultdict(list)
    for row in findings.stored():
        table[tuple(row[name] for name in findings.IDENTITY)].append(row)
    for name in NAMES:
        for claim in findings.measured_claims(name):
            for each in findings.comparisons(name, claim):
                rows = table.pop((name, *each.texts()))
                assert sorted(row["seed"] for row in rows) == ["2025", "77"]
                numbers = [(float(row["difference"]), float(row["standard_error"])) for row in rows]
                below = all(apart < -2 * error for apart, error in numbers)
                above = all(apart > 2 * error for apart, error in numbers)
                assert below if each.shown else not (below or above), (name, each)
    assert not table


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "settings"),
    [("fsmdm-omega", {"omega": "10,1000"}), ("fsmdm-asynchrony", {"active": "1,0.2"})],
)
def test_a_short_run_agrees_with_the_table(tmp_path, name, settings):
    request = Request(trials=100, seed=7, settings=settings)
    run = run_experiment(find(name), request, tmp_path / "run", progress=False)
    stored = [row for row in findings.stored() if row["experiment"] == name]
    seen = 0
    for row in findings.rows(run):
        same = [it for it in stored if all(it[key] == row[key] for key in findings.IDENTITY)]
        for it in same:
            apart = float(row["difference"]) - float(it["difference"])
            # Standard errors of a hundred trials of heavy tails are too small more often than not.
            error = float(it["standard_error"]) * np.sqrt(1 + float(it["trials"]) / 100)
            assert abs(apart) <= 4 * error, row
            seen += 1
    assert seen >= 6
    drop_programs()
