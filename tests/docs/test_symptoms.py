"""The page of errors and symptoms: every sentence in it is one that a misuse raises."""

import re
from pathlib import Path

import pytest

from fedjax_admm._checks import InputError
from tests.faults.misuse_calls import ROWS

PAGE = Path(__file__).parents[2] / "docs/howto/symptoms.md"
RAISED_BY = {
    "key must be a typed key": "key-seed",
    "key must be one key, but it is a stack": "key-batch",
    "solver must be a solver, but it is the function": "solver-builder",
    "solver and problem are swapped": "swapped",
    "needs a problem with": "problem-wrong",
    "rounds must be a multiple of every": "every-no-divisor",
    "rounds must be known before anything is traced": "rounds-traced",
    "participation must be a participation process": "participation-share",
    "key must be the key of the run that is resumed": "start-with-another-key",
    "it is the Run itself; pass its .state": "start-run",
    "measure must be a function measure(solver, problem, state)": "measure-of-one",
    "counts as 0 in float32": "number-vanishes",
    "must be one number, but it has shape": "numbers",
    "loss raises": "own-loss-raises",
    "must span space, but a target and its mirror image fit": "sensors-on-a-line",
}


def test_every_sentence_of_the_page_is_known():
    table = PAGE.read_text("utf-8").partition("## Sentences of InputError")[2]
    assert re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE) == list(RAISED_BY)


@pytest.mark.thorough
@pytest.mark.parametrize("sentence", RAISED_BY)
def test_a_sentence_of_the_page_is_raised(sentence):
    (row,) = [row for row in ROWS if row.name == RAISED_BY[sentence]]
    with pytest.raises(InputError, match=re.escape(sentence)):
        row.call()
