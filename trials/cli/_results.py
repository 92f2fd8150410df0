"""`plot` and `compare`: what is done with finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from fedjax_admm.trials.cli._options import Overwrite


def plot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A finished run.")],
    experiment: Annotated[
        str | None,
        typer.Option(
            metavar="PATH.py",
            help="What draws it, if its experiment is a file of your own (or MODULE:NAME).",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Redraw the figure from the stored results."""
    from fedjax_admm.trials import folders
    from fedjax_admm.trials.experiments import find_again
    from fedjax_admm.trials.figures import save_figure
    from fedjax_admm.trials.results import load

    results = load(folder)
    found = find_again(results.config, experiment)
    figure = found.draw(results)
    folders.rewrite(folder, lambda stage: save_figure(figure, stage), overwrite=overwrite)
    changed = ""
    if found.origin and found.origin.digest != results.config.get("digest"):
        changed = f"; {found.origin.file} has changed since the run"
    typer.echo(f"Wrote {folder}/figure.png and figure.pdf{changed}")


def compare_runs(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR ...", help="Finished runs.")],
    against: Annotated[
        str | None, typer.Option(help="The method that is subtracted (the first).")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What is compared (error, or the first metric).")
    ] = None,
) -> None:
    """Print paired differences between methods, with standard errors."""
    from fedjax_admm.trials.results import compare

    typer.echo(compare(folders, against=against, metric=metric))
