"""`list` and `show`: what experiments there are."""

import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedjax_admm._checks import InputError
from fedjax_admm.trials.cli._options import Name

if TYPE_CHECKING:
    from fedjax_admm.trials.experiments import Experiment, Headline, Origin


def list_experiments(
    search: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Only those with it in name, title, paper or findings."),
    ] = None,
) -> None:
    """List the experiments by paper, plug-ins too, with their usual trials and time.

    The time is that of the whole command on two quiet cores of an Intel Xeon (Sapphire Rapids) with
    nothing compiled before; other machines took up to twice as long.
    """
    from fedjax_admm.trials.experiments import headlines, refused_plugins

    experiments = [each for each in headlines() if search is None or _tells(each, search)]
    if not experiments:
        raise InputError(
            "must be a word in the name, title, paper or findings of an experiment, but it is "
            f"{search!r}",
            argument="search",
            value=search,
            remedy="`fedjax-admm list` shows all of them",
        )
    papers: dict[str, list[Headline | Experiment]] = {}
    for each in experiments:
        papers.setdefault(each.paper, []).append(each)
    typer.echo(f"  {'name':<21} trials   time  what it shows")
    for paper, own in papers.items():
        typer.echo("\n" + _filled(paper or "Without a paper"))
        for each in own:
            typer.echo(_line(each))
    for sentence in refused_plugins().values():
        typer.echo(f"fedjax-admm: {sentence.removesuffix('.')}.", err=True)


def _tells(experiment: "Headline | Experiment", word: str) -> bool:
    """Say whether a word is in what is told of an experiment, in letters of either case."""
    texts = (experiment.name, experiment.title, experiment.paper, experiment.findings)
    return any(word.lower() in text.lower() for text in texts)


def _line(experiment: "Headline | Experiment") -> str:
    """Return an experiment's name, trials, time and title."""
    taken = experiment.usual_seconds
    seconds = "" if taken is None else f"{taken:g} s"
    head = f"  {experiment.name:<21} {experiment.trials:>5} {seconds:>6}  "
    place = f" (from {_place(experiment.origin)})" if experiment.origin else ""
    return textwrap.fill(
        experiment.title + place,
        _width(),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def _width() -> int:
    """Return how many letters a line has: those of the terminal, 80 where there is none."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 110)


def show(name: Name) -> None:
    """Show an experiment's settings, methods, metrics, findings, and where its figure is."""
    from fedjax_admm.trials.experiments import find

    experiment = find(name)
    taken = experiment.usual_seconds
    usual = "" if taken is None else f", about {taken:g} s on two cores"
    lines = [
        _filled(f"{experiment.name}: {experiment.title}"),
        *([_filled(experiment.paper)] if experiment.paper else []),
        *([f"from {_place(experiment.origin)}"] if experiment.origin else []),
        "",
        f"trials   {experiment.trials}   (--trials){usual}",
        f"rounds   {experiment.rounds}   (--rounds)",
        f"quick    {experiment.quick['trials']} trials, {experiment.quick['rounds']} rounds",
        "",
        "settings (--set name=value)",
        *_rows({key: _shown(value) for key, value in experiment.defaults().items()}),
        "",
        "methods",
        *(_filled(method, "  ") for method in experiment.method_names()),
        "",
        "metrics",
        *_rows(experiment.labels()),
    ]
    if experiment.findings:
        lines += ["", "findings", _filled(experiment.findings, "  ")]
    figures = _figures(experiment.name)
    if figures:
        lines += ["", "figure", *(f"  {path}" for path in figures)]
    typer.echo("\n".join(lines))


def _figures(name: str) -> list[Path]:
    """Return where an experiment's figure is: of a run here, and of the gallery in a checkout."""
    gallery = Path(__file__).parents[2] / "docs" / "gallery" / f"{name}.png"
    return [path for path in (Path("results", name, "figure.png"), gallery) if path.is_file()]


def _rows(texts: Mapping[str, str]) -> list[str]:
    """Return names and what is said of each, the texts below each other."""
    indent = " " * 22
    return [
        textwrap.fill(text, _width(), initial_indent=f"  {name:<19} ", subsequent_indent=indent)
        or f"  {name}"
        for name, text in texts.items()
    ]


def _filled(text: str, indent: str = "") -> str:
    """Return text in lines that fit."""
    return textwrap.fill(text, _width(), initial_indent=indent, subsequent_indent=indent)


def _place(origin: "Origin") -> str:
    """Say where an experiment that is not one of this package's own was found."""
    return origin.distribution or origin.file or origin.asked


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{part:g}" for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
