"""What is read of a folder is checked once: it is refused in a sentence, or all can use it."""

import warnings

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import results
from tests.trials.results.made import made, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    write(made([[1, 2], [3, 4], [5, 7]]), out)
    return out


def test_what_is_sound_is_read(folder):
    loaded = results.load(folder)
    assert loaded.label("error") == "error in m"
    assert loaded.detail(loaded.methods[0]) == 0.1
    with pytest.raises(InputError, match="do not say what the metric 'x' is called"):
        loaded.label("x")
    with pytest.raises(InputError, match="the figure needs 'x' among the details"):
        loaded.detail("x")
    with pytest.raises(InputError, match="with 2 dimensions, but it has 0"):
        loaded.detail(loaded.methods[0], 2)


def test_an_unfinished_run_says_how_to_go_on(tmp_path):
    write(made(1, status="running"), tmp_path)
    with pytest.raises(
        InputError, match=r"go on with `fedjax-admm run consensus --out .*--resume`"
    ):
        results.load(tmp_path)


def test_numbers_of_any_size_are_summarised_as_they_are():
    values = np.array([[1.0, 3.0, 5.0]])
    usual = results.summarize(values, axis=1)
    for power in (1000, -1000):
        found = results.summarize(np.ldexp(values, power), axis=1)
        for name in ("mean", "standard_error", "median", "q10", "q90"):
            assert np.ldexp(getattr(found, name), -power) == getattr(usual, name)
    largest = np.finfo(float).max
    assert results.summarize(np.full((1, 8), largest), axis=1).mean == largest
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = results.paired_difference(np.array([largest, 1]), np.array([-largest, 0]), 0)
    assert (table.trials, table.mean) == (1, 1)
