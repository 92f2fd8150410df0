"""`plot`, `summary`, `compare` and `report`: what is done with runs, finished or not.

None of them locks a run's folder to read it, nor changes what is there, so that a run may go on
meanwhile: of an unfinished one the trials are read that it has so far.
"""

import dataclasses
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjax_admm._checks import listed
from fedjax_admm.trials.cli._options import (
    Bands,
    Columns,
    Everything,
    Format,
    Overwrite,
    Style,
    folder_name,
    whole,
)

UNFINISHED = "unfinished"
"""Where in its folder the figure of an unfinished run lies: the run itself writes nothing there."""

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A run.")]
Folders = Annotated[list[Path], typer.Argument(metavar="DIR ...", help="Runs.")]
Metric = Annotated[
    str | None, typer.Option(help="Which one is meant (error, or the first metric).")
]
Drawn = Annotated[
    str | None,
    typer.Option(
        metavar="PATH.py",
        help="What draws it, if its experiment is a file of your own (or MODULE:NAME).",
    ),
]
Replace = Annotated[bool, typer.Option("--overwrite", help="Replace that file.")]
AsPublished = Annotated[
    bool,
    typer.Option("--as-published", help="The figures and tables as the paper prints them."),
]


def plot(
    folder: Folder,
    experiment: Drawn = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=folder_name,
            metavar="DIR",
            help=f"Of the figure (that of the run; DIR/{UNFINISHED} while it has not finished).",
        ),
    ] = None,
    style: Style = None,
    format: Format = None,
    columns: Columns = None,
    bands: Bands = None,
    everything: Everything = False,
    as_published: AsPublished = False,
    overwrite: Overwrite = False,
) -> None:
    """Redraw the figure from the stored results, or draw it from the trials so far."""
    from fedjax_admm._host import _store as store
    from fedjax_admm.trials.experiments import find_again
    from fedjax_admm.trials.figures import figure_files, write_figure
    from fedjax_admm.trials.results import load

    results = load(folder, unfinished=True)
    asked: dict[str, Any] = {"style": style, "format": format, "columns": columns, "bands": bands}
    owner = find_again(results.config, experiment)
    asked["published"] = tuple(owner.printed().figures) if as_published else None
    look = figure_files(results.config, everything=everything, **asked)
    results = dataclasses.replace(results, config={**results.config, "figure": look.stored()})
    drawn = owner.drawings(results)
    target = out or (folder if results.finished else folder / UNFINISHED)
    if out is not None:
        _check_no_run(out)
    argument = "folder" if out is None else "out"
    with store.locked(target, argument), store.staged(target) as stage:
        for name, (figure, shown) in drawn.items():
            write_figure(figure, shown, stage, look, name=name)
        store.publish(stage, target, overwrite=overwrite)
    changed = ""
    if owner.origin and owner.origin.digest != results.config.get("digest"):
        changed = f"; {owner.origin.file} has changed since the run"
    so_far = "" if results.finished else f", from {results.extent}"
    typer.echo(f"Wrote {target}/{listed(look.names)}{so_far}{changed}")


def summary(
    folders: Folders,
    metric: Metric = None,
    round: Annotated[
        int | None, whole("After how many rounds, as they were recorded (the last).")
    ] = None,
) -> None:
    """Print every method's mean, standard error, median and non-finite trials."""
    from fedjax_admm.trials.results import load, overview

    # All are read before any is printed: a mistake comes alone.
    shown = [
        (folder, overview(load(folder, unfinished=True), metric=metric, round=round))
        for folder in folders
    ]
    width = _width()
    for i, (folder, table) in enumerate(shown):
        place = f"{folder}\n" if len(shown) > 1 else ""
        typer.echo(("\n" if i else "") + place + table.text(width))


def compare_runs(
    folders: Folders,
    against: Annotated[
        str | None, typer.Option(help="The method that is subtracted (the first).")
    ] = None,
    metric: Metric = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="PATH.png|pdf|svg", help="Draw the differences, with intervals."),
    ] = None,
    overwrite: Replace = False,
) -> None:
    """Print differences between methods, paired where seeds are equal, with standard errors."""
    from fedjax_admm._host._store import check_new
    from fedjax_admm.trials.results import compare

    if picture is not None:
        from fedjax_admm.trials.figures import picture_format

        picture_format(picture)
        check_new(picture, overwrite=overwrite, argument="picture")
    comparison = compare(folders, against=against, metric=metric)
    if picture is not None:
        from fedjax_admm.trials.figures import differences_figure, save_picture

        save_picture(differences_figure(comparison), picture)
    typer.echo(comparison.text(_width()))
    if picture is not None:
        typer.echo(f"\nWrote {picture}")


def report(
    folders: Folders,
    out: Annotated[
        Path, typer.Option(metavar="PATH.html", help="The page that is written.")
    ] = Path("report.html"),
    metric: Metric = None,
    experiment: Drawn = None,
    overwrite: Replace = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print a table of each run for a paper instead.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The same in Markdown.")] = False,
) -> None:
    """Write one page that shows runs side by side: figures, settings, findings and tables."""
    from fedjax_admm.trials.report import write_report
    from fedjax_admm.trials.results import load, paper_table

    if latex or markdown:
        form = "latex" if latex else "markdown"
        runs = [load(folder, unfinished=True) for folder in folders]
        typer.echo("\n\n".join(paper_table(run, form, metric=metric) for run in runs))
        return

    runs = write_report(folders, out, metric=metric, experiment=experiment, overwrite=overwrite)
    extents = ", ".join(
        f"{folder}: {run.extent}" for folder, run in zip(folders, runs, strict=True)
    )
    typer.echo(f"Wrote {out} ({extents})")


def _width() -> int:
    """Return how many columns the terminal has; 80 where the output is no terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def _check_no_run(folder: Path) -> None:
    """Check that a figure is not put among the files of a run, whose own it would replace."""
    from fedjax_admm._checks import InputError
    from fedjax_admm._host import _store as store

    if "experiment" in store.read_config(folder):
        raise InputError(
            f"{folder} holds a run of its own",
            value=folder,
            remedy="choose another {out}",
            others=["out"],
        )
