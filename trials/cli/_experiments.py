"""`list` and `show`: what experiments there are."""

import inspect
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from fedjax_admm.trials.cli._options import Name, Set, assignments

if TYPE_CHECKING:
    from fedjax_admm.trials.experiments import Experiment, Headline, Origin


_TOPICS = ("Robust localisation", "Trees", "Graphs", "Ratings", "Private networks")  # come first


def list_experiments(
    solvers: Annotated[
        bool, typer.Option("--solvers", help="List the solvers instead, and what each asks for.")
    ] = False,
) -> None:
    """List the experiments by topic, plug-ins too, with their usual trials and time.

    The time is that of the whole command on two quiet cores of an Intel Xeon (Sapphire Rapids) with
    nothing compiled before; other machines took up to twice as long.
    """
    if solvers:
        typer.echo("\n".join(_solver_lines()))
        return
    from fedjax_admm.trials.experiments import headlines, refused_plugins

    topics: dict[str, list[Headline | Experiment]] = {topic: [] for topic in _TOPICS}
    for each in headlines():
        topics.setdefault(each.topic, []).append(each)
    typer.echo(f"  {'name':<21} trials   time  what it shows")
    for topic, experiments_of_topic in topics.items():
        if experiments_of_topic:
            typer.echo(topic or "Others")
        for each in experiments_of_topic:
            typer.echo(_line(each))
    for sentence in refused_plugins().values():
        typer.echo(f"fedjax-admm: {sentence.removesuffix('.')}.", err=True)


def _solver_lines() -> Iterator[str]:
    """Yield every solver below the place of its clients, as its class and its builder declare."""
    from fedjax_admm import capabilities, solvers

    places = {"OnStar": "With a server", "OnTree": "On a tree", "OnGraph": "On a graph"}
    places |= {"FactorData": "On ratings", "Clients": "With a server"}
    found: dict[str, list[str]] = {place: [] for place in places.values()}
    optional = {"local": "local=", "regularizer": "regularizer=", "exchange": "exchange="}
    for name in dir(solvers):
        kind: Any = get_type_hints(getattr(solvers, name)).get("return") if name.islower() else None
        if not hasattr(kind, "step"):
            continue
        asked = [each.__name__ for each in kind.requires]
        place = next(places[each] for each in asked if each in places)
        taken = inspect.signature(getattr(solvers, name)).parameters
        asks = [each for each in asked if each not in places]
        about = (inspect.getdoc(inspect.getmodule(kind)) or "").partition("\n")[0]
        takes = [told for option, told in optional.items() if option in taken]
        line = f"{about} Asks for {', '.join(asks)}." if asks else about
        line += f" Takes {', '.join(takes)}." if takes else ""
        found[place].append(_indented(f"  {name:<24}", line))
    for place, lines in found.items():
        yield from (place, *lines)
    yield f"What each is, {capabilities.__name__} tells; see the page on choosing a solver."


def _indented(head: str, text: str) -> str:
    """Return a text beside its head."""
    indents: dict[str, Any] = {"initial_indent": head, "subsequent_indent": " " * len(head)}
    return textwrap.fill(text, _width(), break_on_hyphens=False, **indents)


def _line(experiment: "Headline | Experiment") -> str:
    """Return an experiment's name, trials, time and title."""
    usual = experiment.usual_seconds
    seconds = "" if usual is None else f"{usual:g} s"
    head = f"  {experiment.name:<21} {experiment.trials:>5} {seconds:>6}  "
    place = f" (from {_place(experiment.origin)})" if experiment.origin else ""
    return _indented(head, experiment.title + place)


def _width() -> int:
    """Return how many letters a line has: those of the terminal, 80 where there is none."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 110)


def show(name: Name, set_: Set = None) -> None:
    """Show what an experiment found, its settings, methods, metrics, and where its figure is.

    With settings, such as a folder of data, it also says about how long a run with them takes: the
    usual time, and what more there is to compute at the speed of this machine's matrix products.
    """
    from fedjax_admm.trials.experiments import find, meanings

    experiment = find(name)
    settings = experiment.resolve(assignments(set_ or []))
    usual = experiment.usual_seconds
    seconds = "" if usual is None else f" about {usual:g} s on two cores;"
    quick = experiment.quick
    said = {**meanings(experiment.name), experiment.sweep.name: experiment.sweep.label}
    methods = experiment.method_names()
    more = len(methods) - _SHOWN_METHODS
    names = "; ".join(methods[:_SHOWN_METHODS]) + (f"; and {more} more" if more > 0 else "")
    lines = [
        _filled(f"{experiment.name}: {experiment.title}"),
        *([_filled(experiment.paper)] if experiment.paper else []),
        *([f"from {_place(experiment.origin)}"] if experiment.origin else []),
    ]
    if experiment.findings:
        data = f", measured on {experiment.measured_on}" if experiment.data else ""
        bullets = map(_bullet, experiment.findings.splitlines())
        lines += ["", _filled(f"findings{data}"), *bullets]
    lines += [
        "",
        "run",
        _filled(
            f"{experiment.trials} trials of {experiment.rounds} rounds (--trials, --rounds);"
            f"{seconds} --quick takes {quick['trials']} trials of {quick['rounds']}",
            "  ",
        ),
        "",
        "settings (--set name=value)",
        *(
            _setting(each, _shown(value), said.get(each, "") if experiment.origin is None else "")
            for each, value in settings.items()
        ),
        "",
        "methods",
        _filled(names, "  "),
        "",
        "metrics",
        *_rows(experiment.labels()),
    ]
    figures = _figures(experiment.name)
    if figures:
        lines += ["", "figure", *(f"  {path}" for path in figures)]
    typer.echo("\n".join(lines))


_SHOWN_METHODS = 12


def _bullet(text: str) -> str:
    return textwrap.fill(
        text, _width(), initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False
    )


def _setting(name: str, default: str, meaning: str) -> str:
    """Return a setting with its default and its meaning; a long default has lines of its own."""
    head = f"  {name:<19} {default or '(none)':<12} "
    if len(head) > 35:
        return textwrap.fill(
            f"{meaning}: {default}" if meaning else default,
            _width(),
            initial_indent=f"  {name:<19} ",
            subsequent_indent=" " * 22,
        )
    return textwrap.fill(meaning, _width(), initial_indent=head, subsequent_indent=" " * 35) or head


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
        return ", ".join(f"{part:g}" for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
