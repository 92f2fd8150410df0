"""Bands around means: standard errors, deviations or quantiles, as a run's configuration says."""

import numpy as np
import pytest

from fedjax_admm.trials import figures
from tests.trials.results.made import made

TRIALS = np.array([1.0, 2.0, 3.0, 4.0, 40.0])  # skewed: the mean, 10, and a deviation of 16.8
SPREAD = np.std(TRIALS, ddof=1)
ENDS = {
    "errors": (10 - SPREAD / np.sqrt(5), 10 + SPREAD / np.sqrt(5)),
    "deviations": (1.0, 10 + SPREAD),  # at a tenth of the mean: it would be negative
    "quantiles": (1.4, 25.6),
}


def results(bands, **more):
    asked = {"style": "default", "columns": None, "formats": ["svg"], "bands": bands}
    return made(TRIALS[:, None], trials=5, figure=asked, **more)


def band_of(axes):
    """Return the ends of the first band, which are the same everywhere."""
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    return pytest.approx((heights.min(), heights.max()))


@pytest.mark.parametrize("bands", ENDS)
def test_bands_are_those_that_are_asked_for_and_told(bands):
    shown = results(bands)
    for draw in (figures.sweep_figure, figures.families_figure):
        figure = draw(shown, metric="error")
        axes = figure.axes[0]
        assert axes.lines[0].get_ydata() == pytest.approx([10, 10])
        assert ENDS[bands] == band_of(axes)
        assert axes.get_title().endswith(words := figures.BANDS[bands])
        assert f"“{words}” stands for means over trials" in figures.figure_caption(figure, shown)
    rows = figures.methods_figure(shown, metrics=["error"]).axes[0]
    ends = rows.collections[0].get_segments()[0][:, 0]
    assert ENDS[bands] == pytest.approx(tuple(ends))


def test_a_figure_has_its_own_bands_where_none_are_asked_for():
    titles = [
        draw(results(None), metric="error").axes[0].get_title().splitlines()[-1]
        for draw in (figures.sweep_figure, figures.families_figure)
    ]
    assert titles[0] == "mean ± standard error"
    assert titles[1].endswith("mean ± standard deviation")


def test_bars_may_lie_beside_their_means():
    """Of trials of which one is huge the mean lies above the 90 % quantile."""
    shown = made(
        np.array([[1.0]] * 19 + [[1e6]]), trials=20, figure=results("quantiles").config["figure"]
    )
    axes = figures.methods_figure(shown, metrics=["error"]).axes[0]
    assert axes.collections[0].get_segments()[0][:, 0] == pytest.approx([1, 1])


@pytest.mark.parametrize("bands", ENDS)
def test_liars_have_bands_that_the_legend_tells(bands):
    methods = ["task: median, sign flip", "task: mean, sign flip"]
    shown = results(bands, methods=methods)
    figure = figures.attacks_figure(shown, metric="error", attacks=["sign flip"])
    assert ENDS[bands] == band_of(figure.axes[0])
    assert figures.BANDS[bands] in figures.figure_caption(figure, shown)
