"""The parts of a page: a run, the settings of all of them, their paired differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._shown import short_repr
from fedjax_admm.trials.report._drawing import inline_svg
from fedjax_admm.trials.report._elements import Markup, element, markup
from fedjax_admm.trials.results import (
    Results,
    compare_results,
    number_text,
    overview,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STATISTICS = ("mean", "standard_error", "median", "q10", "q90")
_HEADINGS = ("mean", "standard error", "median", "10 % quantile", "90 % quantile")
_TIME = "durations in seconds"  # two runs always differ in them
MOST_ROWS = 5000  # in the tables of the other metrics of a run
_DEVICE = ("kind", "platform", "count", "processes", "cores")


@short_repr
@dataclass(frozen=True)
class ShownRun:
    """A run, and the figure that shows it."""

    folder: Path
    results: Results
    figure: "Figure"
    remark: str = ""  # why the figure is not the experiment's own


def run_section(run: ShownRun, number: int, metric: str | None) -> Markup:
    """Return what one run shows: figure, statement, findings, tables, command."""
    results, config = run.results, run.results.config
    told = [text for text in (config["statement"], run.remark) if text]
    description = f"Figure of {config['experiment']}: {config['title']}, {results.extent}."
    drawn = inline_svg(run.figure, f"run-{number}-", description)
    figure = element(
        "figure",
        _scrolling(drawn, "figure"),
        element("figcaption", "Point at a marker, or touch it, for its numbers."),
        element("output"),
    )
    chosen = overview(results, metric=metric).metric
    measured = dict.fromkeys(name.rpartition("/")[2] for name in results.arrays)
    others = [name for name in measured if name != chosen]
    rows = len(others) * len(results.methods) * len(results.sweep)
    if rows > MOST_ROWS:
        told.append(f"{len(others)} other metrics are in summary.csv: {rows} rows are too many.")
        others = []
    return element(
        "section",
        element("h2", str(run.folder)),
        element("p", f"{results.extent}{'' if results.finished else '; the run has not finished'}"),
        figure,
        [element("p", text) for text in told],
        element("h3", f"Summary: {chosen}"),
        summary_table(results, chosen),
        [
            element("details", element("summary", f"Summary: {name}"), summary_table(results, name))
            for name in others
        ],
        element("h3", "Repeat it"),
        element("pre", element("code", config.get("command", "The configuration does not tell."))),
    )


def findings_section(runs: Sequence[ShownRun]) -> Markup:
    """Return what the experiments say of their papers' claims, each once."""
    keys = ("experiment", "paper", "findings")
    configs = [run.results.config for run in runs]
    told = dict.fromkeys(tuple(config.get(key, "") for key in keys) for config in configs)
    parts = [
        [
            element("h3", name),
            [element("p", findings)] if findings else [],
            [element("p", paper, class_="faint")] if paper else [],
        ]
        for name, paper, findings in told
        if paper or findings
    ]
    title = element("h2", "Findings of the experiment, at its usual settings")
    return element("section", title, parts) if parts else markup("")


def summary_table(results: Results, metric: str) -> Markup:
    """Return a metric of every method at every swept value after the last round, as a table."""
    shown = overview(results, metric=metric)
    columns = ("method", shown.parameter, "trials", *_HEADINGS, "non-finite")
    headings = [
        element("th", name, scope="col", class_="number" if i else "text")
        for i, name in enumerate(columns)
    ]
    rows = []
    for row in shown.rows:
        statistics = [float(getattr(row.numbers, name)) for name in _STATISTICS]
        cells = [
            element("td", row.method, class_="text"),
            _number(row.value, f"{row.value:g}"),
            _number(row.numbers.trials, f"{row.numbers.trials}"),
            *(_number(value, number_text(value)) for value in statistics),
            _number(row.numbers.nonfinite, f"{row.numbers.nonfinite}"),
        ]
        rows.append(element("tr", cells))
    table = element(
        "table",
        element("thead", element("tr", headings)),
        element("tbody", rows),
        class_="sortable",
    )
    frame = _scrolling(table, f"summary of {metric}")
    return markup([element("p", shown.title, class_="faint"), frame])


def _number(value: float | np.ndarray, told: str) -> Markup:
    known = repr(float(value)) if np.isfinite(value) else ""
    return element("td", told, class_="number", data_value=known)


def settings_section(runs: Sequence[ShownRun]) -> Markup:
    """Return a table of what the runs were asked for, ran on and took; what differs is marked."""
    differing = False
    rows = []
    for group, entries in _groups(runs):
        rows.append(element("tr", element("th", group, scope="colgroup", colspan=_span(runs))))
        for name, cells in entries.items():
            differs = group != _TIME and len(set(cells)) > 1
            differing |= differs
            mark = [" ", element("abbr", "≠", title="The runs differ here.")] if differs else []
            row = [element("th", name, mark, scope="row"), *(element("td", c) for c in cells)]
            rows.append(element("tr", row, class_="differs" if differs else "same"))
    names = [element("th", str(run.folder), scope="col") for run in runs]
    table = element(
        "table",
        element("thead", element("tr", element("th", "", scope="col"), names)),
        element("tbody", rows),
        class_="settings",
    )
    told = ""
    if len(runs) > 1:
        marked = "Rows in which the runs differ are marked ≠."
        told = marked if differing else "The runs differ in nothing but their time."
    return element(
        "section",
        element("h2", "Settings, machine and durations"),
        [element("p", told)] if told else [],
        _scrolling(table, "settings"),
    )


def _span(runs: Sequence[ShownRun]) -> str:
    return str(1 + len(runs))


def _groups(runs: Sequence[ShownRun]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield groups of rows: their name, and by name what stands in every run's column."""
    results = [run.results for run in runs]
    configs = [each.config for each in results]
    plain = ("experiment", "rounds", "seed", "data", "quick")
    asked = {name: [_shown(config.get(name)) for config in configs] for name in plain}
    asked["trials"] = [each.extent for each in results]
    yield "run", asked
    yield "settings", _entries([config["settings"] for config in configs])
    machine = {
        "float64": [_shown(config["x64"]) for config in configs],
        "micro-batch width": [_shown(config["width"]) for config in configs],
        "devices per trial": [_shown(config["devices_per_trial"]) for config in configs],
        "several devices": [_shown(config["partitioned"]) for config in configs],
    }
    devices = [{name: config["device"].get(name) for name in _DEVICE} for config in configs]
    told = {f"device, {name}": cells for name, cells in _entries(devices).items()}
    yield "machine", machine | told
    yield "versions", _entries([config["versions"] for config in configs])
    seconds = [config.get("seconds") or {"total": "not finished"} for config in configs]
    started = [_shown(config.get("started")) for config in configs]
    yield _TIME, {"started": started} | _entries(seconds)


def _entries(tables: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: [_shown(table.get(name)) for table in tables] for name in names}


def _shown(value: Any) -> str:
    """Return a value of config.json as a cell has it."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    plain = {True: "yes", False: "no", None: "–"}
    if isinstance(value, bool) or value is None:
        return plain[value]
    return str(value)  # of a number all digits: two runs may differ in the last


def differences_section(runs: Sequence[ShownRun], metric: str | None) -> Markup:
    """Return the paired differences as a figure and their notes, or why there are none."""
    from fedjax_admm.trials.figures import differences_figure

    title = element("h2", "Paired differences")
    try:
        comparison = compare_results(
            [run.folder for run in runs], [run.results for run in runs], metric=metric
        )
    except InputError as error:
        return element("section", title, element("p", str(error)))
    drawn = inline_svg(differences_figure(comparison), "differences-", comparison.title)
    return element(
        "section",
        title,
        element("p", comparison.title),
        [element("p", note) for note in comparison.notes],
        element("figure", _scrolling(drawn, "paired differences"), element("output")),
    )


def _scrolling(content: Markup, name: str) -> Markup:
    """Return what may be wider than the screen in a frame that scrolls, by keys too."""
    return element(
        "div", markup(content), class_="scroll", tabindex="0", role="region", aria_label=name
    )
