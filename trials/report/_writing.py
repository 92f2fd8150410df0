"""From folders of runs to the file of a page."""

from collections.abc import Sequence
from pathlib import Path

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files, folders
from fedjax_admm.trials.experiments import find_again
from fedjax_admm.trials.figures import usual_figure
from fedjax_admm.trials.report._page import page_text
from fedjax_admm.trials.report._sections import ShownRun
from fedjax_admm.trials.results import Results, load


def write_report(
    places: Sequence[Path],
    out: Path,
    *,
    metric: str | None = None,
    experiment: str | None = None,
    overwrite: bool = False,
) -> list[Results]:
    """Write one page that shows runs side by side, and return their results.

    Args:
      places: folders of runs; of unfinished ones the trials that they have so far.
      out: the file, whole or not there.
      metric: as for `page_text`.
      experiment: what draws runs of an experiment that stands in a user's own file, as `find` takes
        it; without it they get the usual figure, for nobody's program is run unasked.
      overwrite: replace the file if it is there.

    Raises:
      InputError: a folder holds no run, the metric was not measured, the file is there already, or
        the file system refuses.
    """
    folders.check_new(out, overwrite=overwrite)
    if not places:
        raise InputError("there is nothing to show", remedy="give the folder of a run")
    runs = [_shown(place, load(place, unfinished=True), experiment) for place in places]
    files.write_text(out, page_text(runs, metric))
    return [run.results for run in runs]


def _shown(folder: Path, results: Results, experiment: str | None) -> ShownRun:
    """Return a run with the figure of its experiment, or with the usual one and why."""
    own = experiment if results.config["source"] else None
    try:
        return ShownRun(folder, results, find_again(results.config, own).draw(results))
    except InputError as error:
        if own is not None:
            raise
        remark = f"This is the usual figure, not that of the experiment: {_told(error)}"
        return ShownRun(folder, results, usual_figure(results), remark)


def _told(error: InputError) -> str:
    return str(error.renamed({"experiment": "--experiment"}))
