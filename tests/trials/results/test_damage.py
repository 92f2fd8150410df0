"""What is read of a folder is checked once: it is refused in a sentence, or all can use it."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fedjax_admm._checks import InputError
from fedjax_admm.trials import figures, results
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


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["running", "finished", "share", "error", "$x", "a: b, 1", "\\ud800"]),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3)
    ),
    max_leaves=5,
)
DTYPES = ("f2", "f4", "f8", "i4", "u8", "?", "c8", "U3", "M8[s]", "f4,f4", "S2")
NUMBERS = st.sampled_from([0, 1, -1, 5, 10, 11, 1e300, -1e300, np.nan, np.inf, 1e-320])


@st.composite
def damages(draw):
    """Draw changes of config.json at some keys, and of some arrays."""
    keys, arrays = st.sampled_from(sorted(made(1).config)), st.sampled_from(sorted(NAMES))
    config = draw(st.dictionaries(keys, JSON, max_size=2))
    shapes = st.sampled_from([(2, 3, 2), (2, 3), (2,), (), (0,), (2, 3, 0), (1, 3, 2)])
    kinds = st.tuples(shapes, st.sampled_from(DTYPES), NUMBERS)
    return config, draw(st.dictionaries(arrays, st.none() | kinds, max_size=2))


NAMES = {"sweep", "round", "x", "details/x", "a: first, 1/error", "b: first, 1/passes"}
NAMES |= {"first_nonfinite_round/a: first, 1", "first_nonfinite_round/x"}


def assert_one_line(error):
    assert "\n" not in str(error)


@pytest.mark.thorough
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(damages())
def test_whatever_is_read_can_be_used(folder, tmp_path, damage):
    changes, others = damage
    sound = made([[1, 2], [3, 4], [5, 7]])
    with np.load(folder / "trials.npz") as file:
        arrays = dict(file)
    for name, change in others.items():
        arrays.pop(name, None)
        if change is not None:
            shape, dtype, number = change
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of parts that a kind of numbers has not
                arrays[name] = np.full(shape, number).astype(dtype)
    np.savez(tmp_path / "trials.npz", **arrays)
    (tmp_path / "config.json").write_text(json.dumps({**sound.config, **changes}))
    try:
        loaded = results.load(tmp_path)
    except InputError as error:
        assert_one_line(error)
        return
    for draw in (figures.usual_figure, lambda found: figures.cost_figure(found, metric="error")):
        try:
            figure = draw(loaded)
        except InputError:
            continue
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
            figure.draw_without_rendering()
    try:
        figures.differences_figure(results.compare([tmp_path])).draw_without_rendering()
        results.compare([tmp_path]).text().encode()
    except InputError as error:
        assert_one_line(error)
