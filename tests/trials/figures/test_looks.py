"""Styles, widths, formats and captions: nothing overlaps, is cut, or differs between two times."""

import re
from dataclasses import replace
from itertools import combinations, pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedjax_admm._checks import InputError
from fedjax_admm.trials import figures
from tests.trials.results.made import made

RISING = np.linspace(0.03, 40, 2 * 3 * 6).reshape(2, 3, 6)
ROUNDS = (1, 3, 10, 30, 100, 3000)
METHODS = [
    *("ADMM with a long name", "ADMM, tuned", "averaging", "averaging, tuned by hand"),
    *("subgradient 16 k^-0.5", "centralised", "the seventh"),
]

LONG = "error (localisation: in metres; else relative)"


def results(methods=METHODS, **more):
    return made(RISING, methods=methods, rounds=ROUNDS, data="a table of many ratings", **more)


FIGURES = {
    "three panels": lambda: figures.curve_figure(
        results(metrics=dict.fromkeys(made(0).config["metrics"], LONG)), metric="error"
    ),
    "rows of three": lambda: figures.cost_figure(results(), metric="error"),
    "rows of seven": lambda: figures.curves_by_method_figure(results(), metric="error"),
    "names of rows": lambda: figures.methods_figure(results(), metrics=("error", "passes")),
    "tasks": lambda: figures.task_curves_figure(
        results(
            [f"{task}: {name}" for task in ("ridge", "lasso", "LAD") for name in METHODS[:3]],
            figure={"style": "default", "columns": None, "formats": ["png"], "everything": True},
        ),
        metric="error",
        title=lambda value: f"epsilon {value:g}",
    ),
    "long labels": lambda: figures.peers_figure(
        results(
            [f"{task}: {name}" for task in ("ridge", "least squares") for name in METHODS],
            metrics=dict.fromkeys(made(0).config["metrics"], LONG),
        ),
        metric="error",
    ),
    "one's own": lambda: own_figure(),
    "a map": lambda: map_figure(),
}
CASES = [
    ("three panels", "paper", 1),
    ("names of rows", "slides", 2),
    *(
        pytest.param(name, style, columns, marks=pytest.mark.thorough)
        for name, style, columns in [
            ("rows of three", "paper", 1),
            ("rows of seven", "paper", 2),
            ("tasks", "slides", 1),
            ("long labels", "paper", 1),
            ("a map", "default", 2),
        ]
    ),
]


def own_figure():
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3], [4, 5, 6], label="mine")
    axes.set_xlabel("a label that is rather long for so small a width of a figure in a column")
    axes.legend()
    return figure


def map_figure():
    """Return a map that is twice as tall as it is wide, and a panel beside it."""
    figure = Figure()
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    left.scatter([20, 30, 25], [60, 70, 65], label="a node")
    left.set_aspect(2.0, adjustable="datalim")
    left.set(xlabel="longitude", ylabel="latitude")
    right.plot([1, 2, 3], [4, 5, 6])
    right.set_title("errors")
    figure.legend(loc="outside lower center")
    figure.suptitle("stations.csv: three stations\nof \\$ 5 each")
    return figure


def inside(box, outer, by=0.0):
    return (
        box.x0 >= outer.x0 - by
        and box.x1 <= outer.x1 + by
        and box.y0 >= outer.y0 - by
        and box.y1 <= outer.y1 + by
    )


@pytest.mark.parametrize(("name", "style", "columns"), CASES)
def test_nothing_is_cut_or_overlaps(name, style, columns, tmp_path):
    figure, look = FIGURES[name](), figures.figure_style(style, columns)
    figures.save_figure(figure, tmp_path, formats=["png"], style=replace(look, dots=50))
    assert figure.get_figwidth() == look.width
    pen = FigureCanvasAgg(figure).get_renderer()
    figure.draw(pen)
    page = figure.bbox
    panels = [axes.get_window_extent(pen) for axes in figure.axes]
    whole = [axes.get_tightbbox(pen) for axes in figure.axes]
    legends = [legend.get_window_extent(pen) for legend in figure.legends]
    assert all(inside(box, page, by=1) for box in (*whole, *legends))
    for one, other in combinations([*whole, *legends], 2):
        assert not (
            min(one.x1, other.x1) - max(one.x0, other.x0) > 1
            and min(one.y1, other.y1) - max(one.y0, other.y0) > 1
        )
    # A panel keeps its room, and tick labels do not touch each other.
    least = figure.dpi / 72 * look.letters
    assert all(box.width > 5 * least and box.height > 5 * least for box in panels)
    for axes in figure.axes:
        for axis, ends in ((axes.xaxis, ("x0", "x1")), (axes.yaxis, ("y0", "y1"))):
            low, high = sorted(axis.get_view_interval())
            places = [*axis.get_ticklocs(), *axis.get_ticklocs(minor=True)]
            labels = [*axis.get_ticklabels(), *axis.get_ticklabels(minor=True)]
            if len(places) != len(labels):  # another panel shows them
                continue
            shown = [
                label.get_window_extent(pen)
                for place, label in zip(places, labels, strict=True)
                if label.get_text() and low <= place <= high
            ]
            spans = sorted((getattr(box, ends[0]), getattr(box, ends[1])) for box in shown)
            assert all(end <= start + 0.5 for (_, end), (start, _) in pairwise(spans))
    sizes = {text.get_fontsize() for text in figure.findobj(matplotlib.text.Text)}
    assert min(sizes) >= 6


@pytest.mark.thorough
@pytest.mark.parametrize(("entries", "rows"), [(6, {6}), (7, {4, 3})])
def test_a_legend_leaves_no_entry_alone(entries, rows):
    """Seven entries that do not fit one row are four and three, not six and one."""
    names = [f"method number {i}" for i in range(entries)]
    figure = figures.curve_figure(made(RISING, rounds=ROUNDS, methods=names), metric="error")
    pen = FigureCanvasAgg(figure).get_renderer()
    figure.draw(pen)
    (legend,) = figure.legends
    heights = [round(text.get_window_extent(pen).y0) for text in legend.get_texts()]
    assert {heights.count(height) for height in heights} == rows
    assert inside(legend.get_window_extent(pen), figure.bbox)


def test_files_are_the_same_each_time_and_change_no_setting(tmp_path):
    before = dict(matplotlib.rcParams)
    for folder in ("one", "two"):
        figure = own_figure()
        figure.axes[0].set_yscale("log")  # whose labels are formulas
        figures.save_figure(
            figure,
            tmp_path / folder,
            formats=("png", "pdf", "svg"),
            style=replace(figures.figure_style("paper", 2), dots=100),
            caption="A caption.\n",
        )
    assert dict(matplotlib.rcParams) == before
    names = ["figure.pdf", "figure.png", "figure.svg", "figure.txt"]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    pdf, svg = ((tmp_path / "one" / f"figure.{kind}").read_bytes() for kind in ("pdf", "svg"))
    # Fonts are embedded as TrueType, none as Type 3, which publishers refuse.
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"<text" not in svg
    assert not re.search(rb"20\d\d-\d\d-\d\d", svg)


def test_a_caption_says_what_is_shown():
    sent = ["numbers_up in m", "error in m"]
    shown = results(METHODS[:2], paper="A. Author, a paper (2025)")
    told = figures.figure_caption(figures.curve_figure(shown, metric="error"), shown)
    assert told == (
        "Distance from the mean (experiment consensus). "
        f"(a) mean ± standard error: {sent[1]} against global round, both axes logarithmic. "
        f"(b) median: {sent[1]} against global round, both axes logarithmic. "
        f"(c) mean ± standard error: {sent[1]} against {sent[0]}, both axes logarithmic. "
        "“mean ± standard error” stands for means over trials, and bands or bars of one standard "
        "error of the mean. "
        "Legend: ADMM with a long name; ADMM, tuned. "
        "3 trials, 3000 rounds, seed 2025; data: a table of many ratings. "
        "After A. Author, a paper (2025).\n"
    )


def test_a_caption_is_made_from_the_title_of_a_figure_that_says_all():
    assert figures.titled_caption(map_figure()) == (
        "stations.csv: three stations. Of $ 5 each. (a) latitude against longitude. (b) errors. "
        "Legend: a node.\n"
    )


@pytest.mark.thorough
@pytest.mark.parametrize(("style", "columns"), [("paper", 1), ("slides", 2)])
def test_a_map_takes_the_room_that_its_shape_asks_for(style, columns, tmp_path):
    """Without it the map would be as flat as a panel of curves, its nodes in the middle third."""
    figure, look = map_figure(), figures.figure_style(style, columns)
    figures.save_figure(figure, tmp_path, formats=["svg"], style=look)
    drawn = figure.axes[0].get_position()
    tall, wide = drawn.height * figure.get_figheight(), drawn.width * figure.get_figwidth()
    assert tall > 0.55 * wide
    assert figure.get_figheight() <= look.height
    assert figure.axes[0].get_data_ratio() * 2.0 == pytest.approx(tall / wide, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"format": "png,gif"}, "format must be of png, pdf and svg, .* holds 'gif'"),
    ],
)
def test_what_does_not_exist_is_refused(asked, sentence):
    with pytest.raises(InputError, match=sentence):
        figures.figure_files(**asked)


def test_what_is_not_asked_for_is_as_it_was():
    earlier = {"figure": {"style": "paper", "columns": 1, "formats": ["svg"], "bands": "errors"}}
    chosen = figures.figure_files(earlier, format="pdf, png")
    assert chosen == figures.FigureFiles("paper", 1, ("pdf", "png"), "errors")
    words = "--style paper --columns 1 --format pdf,png --bands errors"
    assert chosen.words() == words.split()
    assert figures.figure_files({}).words() == []
