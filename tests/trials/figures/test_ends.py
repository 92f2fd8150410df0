"""Names at the ends of lines: spread as little as possible, and never over each other."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedjax_admm.trials import figures
from fedjax_admm.trials.figures._looks._ends import label_ends, names_at_ends, spread, spread_ends
from tests.trials.results.made import made

CLOSE = [1.0, 1.001, 1.002, 0.5, 1e-4, 1.5e-4]


def drawn(ends):
    """Return axes whose lines end at given heights, named and spread."""
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    axes.set_yscale("log")
    for i, end in enumerate(ends):
        axes.plot([0, 1], [end, end], label=f"method {i}")
    label_ends(axes)
    spread_ends(figure)
    return axes


def test_names_do_not_overlap_and_keep_the_order_of_their_lines():
    axes = drawn([*CLOSE, np.nan])
    pen = FigureCanvasAgg(axes.figure).get_renderer()
    axes.figure.draw(pen)
    names = names_at_ends(axes)
    assert names[-1].get_text() == "method 6: none"
    boxes = [name.get_tightbbox(pen) for name in names]
    page = axes.figure.bbox
    assert all(box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
    heights = [name.get_position()[1] for name in names]
    letters = [type(name).__mro__[1].get_window_extent(name, pen) for name in names]
    for lower, upper in pairwise(sorted(letters, key=lambda box: box.y0)):
        assert lower.y1 <= upper.y0 + 0.5
    order = np.argsort(heights[:-1])
    assert (np.diff(np.array(CLOSE)[order]) > 0).all()


def test_places_are_the_nearest_that_keep_their_distance():
    """Three equal targets are spread about their mean; one that is far away stays."""
    assert spread(np.array([0.5, 0.9, 0.5, 0.5]), 0.1) == pytest.approx([0.4, 0.9, 0.5, 0.6])
    assert spread(np.array([-1.0, 2.0, 2.0]), 0.1) == pytest.approx([0.0, 0.9, 1.0])
    assert spread(np.zeros(3), 0.6) == pytest.approx([0.0, 0.6, 1.2])  # they do not all fit


def test_a_narrow_style_has_a_legend_in_their_place(tmp_path):
    results = made(np.arange(1.0, 5).reshape(2, 1, 2))
    figure = figures.peers_figure(results, metric="error")
    said = figures.figure_caption(figure, results)
    assert "Lines: first, 1; second, 2." in said
    assert not figure.legends
    style = figures.figure_style("paper", 1)
    figures.save_figure(figure, tmp_path, formats=["svg"], style=style)
    assert not any(map(names_at_ends, figure.axes))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first, 1", "second, 2"]
