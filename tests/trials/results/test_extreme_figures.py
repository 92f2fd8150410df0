"""Figures of extreme but valid results: drawn without an error, without a warning, and honestly."""

import warnings

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import figures
from tests.trials.results.made import METHODS, made

FIGURES = {
    "usual": figures.usual_figure,
    "curve": lambda results: figures.curve_figure(results, metric="error"),
    "cost": lambda results: figures.cost_figure(results, metric="error"),
    "by method": lambda results: figures.curves_by_method_figure(results, metric="error"),
    "progress": figures.progress_figure,
    "peers": lambda results: figures.peers_figure(results, metric="error"),
    "sweep": lambda results: figures.sweep_figure(
        results, metric="error", share="passes", floor=1e-2
    ),
    "logarithmic panels": lambda results: figures.panels_figure(
        results, metrics=("error", "passes"), logarithmic=("error",)
    ),
    "families": lambda results: figures.families_figure(results, metric="error"),
    "scatter": lambda results: figures.sweep_and_scatter_figure(
        results,
        metric="error",
        clouds={"a cloud": results.values(results.methods[0], "error")[0].repeat(2, axis=1)},
        names=("one", "two"),
    ),
    "methods": lambda results: figures.methods_figure(results, metrics=("error", "passes")),
    "ladder": lambda results: figures.ladder_figure(results, metrics=("error",), label="number"),
    "panels": lambda results: figures.panels_figure(results, metrics=("error", "passes")),
    "tasks": lambda results: figures.task_curves_figure(
        results, metric="error", title=lambda value: f"{value:g}", logarithmic=True
    ),
    "task sweep": lambda results: figures.task_sweep_figure(results, metric="error", floor=-80),
    "coverage": lambda results: figures.coverage_figure(
        results, levels={"error": 0.5, "passes": 0.9}
    ),
}
HUGE = np.array([[1e-300, 1e300], [1e300, 1e-300], [1e300, 1e300]])
RESULTS = {
    "equal": made(2.5),
    "zeros": made(0),
    "negative": made(-1),
    "NaN": made(np.nan),
    "infinite": made(np.inf),
    "huge": made(HUGE),
    "the least": made([[5e-324], [1e-310], [0]]),
    "one of all": made(3, sweep=(0.1,), rounds=(1,), trials=1),
    "negative swept": made([[1, 2], [3, 4], [5, 6]], sweep=(-0.4, 0.4)),
    "huge swept": made([[1, 2], [3, 4], [5, 6]], sweep=(1e-300, 1e300)),
    "the largest swept": made([[1, 2], [3, 4], [5, 6]], sweep=(-1.7e308, 1.7e308)),
    "many rounds": made([[1, 2], [3, 4], [5, 6]], rounds=(1, 2**31)),
    "long names": made(
        [[1, 2], [3, 4], [5, 6]],
        methods=[f"{'t' * 300}: {'m' * 300}, {i}" for i in range(3)],
        title="title " * 200,
        parameter_label="label " * 100,
        data="/a/path" * 100,
    ),
    "letters": made(
        [[1, 2], [3, 4], [5, 6]],
        methods=["_$x$: a_b, 1", "$\\frac{$: {b}^2, 1", "😀$: k^2$ $k^-1\\$, 2"],
        title="$\\frac{1}$ of $100 and $200, {x}_y^ \U0001f600 \u4e2d",
        parameter_label="$\\nosuch$",
        metrics=dict.fromkeys(made(0).config["metrics"], "cost in $"),
        data="/tmp/\udcff$x_$",
    ),
}


@pytest.mark.parametrize("number", range(len(FIGURES)))
@pytest.mark.thorough
def test_every_figure_is_drawn(number):
    # A third of the results in turn: what figures share stands in one module.
    for results in list(RESULTS.values())[number % 3 :: 3]:
        laid_out(list(FIGURES.values())[number](results))


def laid_out(figure):
    """Have every tick and letter of a figure placed; whatever it warns of fails."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure.draw_without_rendering()


def test_what_is_not_drawn_is_said():
    zeros = made(0)
    zeros.arrays[f"{METHODS[0]}/error"] = zeros.arrays[f"{METHODS[0]}/error"] + 1
    notes = [text.get_text() for axes in FIGURES["usual"](zeros).axes for text in axes.texts]
    assert "zeros and what is below are not drawn" in notes
    notes = [text.get_text() for axes in FIGURES["usual"](made(1e300)).axes for text in axes.texts]
    assert "numbers beyond 1e+200 are not drawn" in notes


def test_names_are_drawn_as_they_stand():
    methods = ["_a", "$x$", "b k^-0.5"]
    legend = figures.sweep_figure(made(1, methods=methods), metric="error").legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [" _a", r"\$x\$", "b $k^{-0.5}$"]


def test_names_that_a_figure_cannot_read_are_refused():
    with pytest.raises(InputError, match="TASK: NAME, but one is 'x'"):
        figures.peers_figure(made(1, methods=["x"]), metric="error")
    with pytest.raises(InputError, match="FAMILY, NUMBER, but one is 'x'"):
        figures.ladder_figure(made(1, methods=["x"]), metrics=("error",), label="number")
