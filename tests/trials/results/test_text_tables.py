"""Tables fit the terminal; no number is cut."""

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import results
from fedjax_admm.trials.figures import differences_figure, save_picture
from fedjax_admm.trials.figures._differences import half_width
from tests.trials.results.made import made, write

LONG = "a method with a name of many words, which goes on and on, k^-0.5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    rng = np.random.default_rng(0)
    found = made(1.0, trials=20, methods=(LONG, "x" * 70, "short"))
    for i, name in enumerate(found.arrays):
        found.arrays[name] = rng.lognormal(i % 3, size=(2, 20, 2))
    found.arrays["short/error"][1, 4, 1] = np.nan
    write(found, out)
    return out


def test_an_overview_has_the_numbers(folder):
    run = results.load(folder)
    found = results.overview(run)
    assert (found.metric, found.round, len(found.rows)) == ("error", 10, 6)
    row = found.rows[-1]
    values = run.arrays["short/error"][1, :, -1]
    kept = values[np.isfinite(values)]
    assert (row.method, row.value, row.numbers.nonfinite) == ("short", 0.2, 1)
    assert row.numbers.mean == pytest.approx(kept.mean())
    assert row.numbers.standard_error == pytest.approx(kept.std(ddof=1) / np.sqrt(19))
    assert row.numbers.median == pytest.approx(np.median(kept))
    first = results.overview(run, metric="passes", round=5)
    assert first.rows[0].numbers.mean == pytest.approx(run.arrays[f"{LONG}/passes"][0, :, 0].mean())
    with pytest.raises(InputError, match=r"round must be one that was recorded \(5 and 10\)"):
        results.overview(run, round=7)
    with pytest.raises(InputError, match="this run has no metric 'x'; it has error, "):
        results.overview(run, metric="x")


@pytest.mark.parametrize("width", [70, 200])
def test_tables_fit(folder, width):
    run = results.load(folder)
    for shown in (results.overview(run), results.compare([folder])):
        text = shown.text(width)
        assert str(shown) == shown.text(80)
        assert max(map(len, text.splitlines())) <= width
        assert not any(line.endswith(" ") for line in text.splitlines())
        for row in shown.rows:
            numbers = getattr(row, "numbers", None) or row.difference
            assert results.number_text(numbers.standard_error) in text
        # A long name goes on in the next line, whole.
        assert text.count("x") >= 2 * 70


def test_markup_and_control_characters_are_shown_as_they_are(tmp_path):
    write(made(1, methods=("[red]a[/red] :smile:", "b")), tmp_path)
    text = results.overview(results.load(tmp_path)).text(80)
    assert "[red]a[/red] :smile:" in text


def test_intervals_are_those_of_student():
    stats = pytest.importorskip("scipy.stats")
    pairs = np.array([1, 2, 3, 5, 11, 12, 15, 31, 1001])
    found = half_width(np.full(pairs.shape, 2.0), pairs)
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], 2 * stats.t.ppf(0.975, pairs[1:] - 1), rtol=1e-4)


def test_the_picture_shows_every_difference(folder, tmp_path):
    comparison = results.compare([folder])
    figure = differences_figure(comparison)
    (axes,) = figure.axes
    drawn = [x for line in axes.lines[1:] for x in line.get_xdata()]
    assert drawn == [row.difference.mean for row in comparison.rows]
    wide, narrow = axes.collections[0], axes.collections[1]
    for i, row in enumerate(comparison.rows[:2]):
        error = row.difference.standard_error
        mean = row.difference.mean
        (low, _), (high, _) = narrow.get_segments()[i]
        assert (low, high) == pytest.approx((mean - error, mean + error))
        (low, _), (high, _) = wide.get_segments()[i]
        pairs = np.array(row.difference.trials)
        assert (high - low) / 2 == pytest.approx(half_width(error, pairs))
    assert axes.get_xscale() == "linear"
    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        path = tmp_path / f"picture.{kind}"
        save_picture(differences_figure(comparison), path)
        first = path.read_bytes()
        assert first.startswith(start)
        save_picture(differences_figure(comparison), path)
        assert path.read_bytes() == first
    with pytest.raises(InputError, match=r"picture must end in \.png, \.pdf or \.svg, but it is"):
        save_picture(figure, tmp_path / "picture.jpg")


def test_one_large_difference_does_not_hide_the_others(tmp_path):
    found = made(0.0, trials=4, methods=("a", "b", "c", "d"))
    for name, size in (("b", 1.0), ("c", 2.0), ("d", 1e4)):
        found.arrays[f"{name}/error"] = size * np.random.default_rng(0).uniform(1, 2, (2, 4, 2))
    write(found, tmp_path)
    axes = differences_figure(results.compare([tmp_path])).axes[0]
    assert axes.get_xscale() == "symlog"
    assert "logarithmic beyond ±" in axes.get_xlabel()
