"""One page that shows runs side by side: figures, tables, findings, configurations."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_admm._checks import InputError
from fedjax_admm._host import _files as files, _store as store
from fedjax_admm.trials.experiments import find_again
from fedjax_admm.trials.figures import differences_figure, svg_address, usual_figure
from fedjax_admm.trials.results import Results, compare_results, load, number_text, overview

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 5000  # in the tables of a run's other metrics
_SHOWN = (  # of config.json
    *("experiment", "rounds", "trials", "seed", "data", "quick", "settings", "x64", "width"),
    *("devices_per_trial", "partitioned", "device", "versions", "started", "seconds"),
)


def write_report(
    places: Sequence[Path],
    out: Path,
    *,
    metric: str | None = None,
    experiment: str | None = None,
    overwrite: bool = False,
) -> list[Results]:
    """Write one HTML page that shows runs side by side, and return their results.

    The page loads nothing and runs no script; texts from a run's folder are escaped.

    Args:
      places: folders of runs; of unfinished ones the trials that they have so far.
      out: the file that is written.
      metric: shown by the first table and by the paired differences; the error if None, or the
        experiment's first metric.
      experiment: draws runs whose experiment is in a user's own file, as `find` takes it. Without
        it they get the default figure, because no program of a user is run unasked.
      overwrite: replace the file if it exists.

    Raises:
      InputError: a folder holds no run, the metric was not measured, or the file exists.
    """
    import jinja2

    store.check_new(out, overwrite=overwrite)
    if not places:
        raise InputError("there is nothing to show", remedy="give the folder of a run")
    runs = [_run(place, load(place, unfinished=True), metric, experiment) for place in places]
    results = [run["results"] for run in runs]
    configs = [each.config for each in results]
    keys = ("experiment", "paper", "findings", "measured_on")
    findings = dict.fromkeys(tuple(config.get(key) for key in keys) for config in configs)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fedjax_admm.trials.report", ""), autoescape=True
    )
    environment.filters["text"] = number_text
    page = environment.get_template("page.html").render(
        runs=runs,
        experiments=dict.fromkeys(config["experiment"] for config in configs),
        titles=dict.fromkeys(config["title"] for config in configs),
        findings=[row for row in findings if row[1] or row[2]],
        configuration=list(_configuration(configs)),
        **_comparison(places, results, metric),
    )
    files.write_text(out, page)
    return results


def _run(
    folder: Path, results: Results, metric: str | None, experiment: str | None
) -> dict[str, Any]:
    """Return what the page shows of one run."""
    first = overview(results, metric=metric)
    names = dict.fromkeys(name.rpartition("/")[2] for name in results.arrays)
    others = [name for name in names if name != first.metric]
    figure, note = _figure(results, experiment)
    notes = [results.config["statement"], note]
    rows = len(others) * len(results.methods) * len(results.sweep)
    if rows > MOST_ROWS:
        notes.append(
            f"summary.csv has {len(others)} other metrics; their {rows} rows are left out."
        )
        others = []
    return {
        "folder": folder,
        "results": results,
        "picture": svg_address(figure),
        "notes": [note for note in notes if note],
        "overviews": [first, *(overview(results, metric=name) for name in others)],
    }


def _figure(results: Results, experiment: str | None) -> tuple["Figure", str]:
    """Return the experiment's own figure, or the default one and why."""
    own = experiment if results.config["source"] else None
    try:
        return find_again(results.config, own).draw(results), ""
    except InputError as error:
        if own is not None:
            raise
        reason = error.renamed({"experiment": "--experiment"})
        return usual_figure(results), f"This is not the experiment's own figure: {reason}"


def _comparison(
    places: Sequence[Path], results: Sequence[Results], metric: str | None
) -> dict[str, Any]:
    """Return the paired differences and their figure, or why there are none."""
    try:
        comparison = compare_results(places, results, metric=metric)
    except InputError as error:
        return {"comparison": None, "no_comparison": str(error)}
    return {"comparison": comparison, "differences": svg_address(differences_figure(comparison))}


def _configuration(configs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of every entry of the configurations, and its value in each."""
    for name in _SHOWN:
        values = [config.get(name) for config in configs]
        if not any(isinstance(value, Mapping) for value in values):
            yield name, [_text(value) for value in values]
            continue
        tables = [value or {} for value in values]
        for key in dict.fromkeys(key for table in tables for key in table):
            yield f"{name}: {key}", [_text(table.get(key)) for table in tables]


def _text(value: Any) -> str:
    """Return a value of config.json, with all digits of a number."""
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)
