"""`list` and `show`: what experiments there are."""

import textwrap
from typing import TYPE_CHECKING, Any

import typer

from fedjax_admm.trials.cli._options import Name

if TYPE_CHECKING:
    from fedjax_admm.trials.experiments import Origin


def list_experiments() -> None:
    """List every experiment, plug-ins too: a line each, with its paper and its usual trials."""
    from fedjax_admm.trials.experiments import headlines, refused_plugins

    for experiment in headlines():
        typer.echo(f"{experiment.name:<22} {experiment.title} ({experiment.trials} trials)")
        if experiment.paper:
            typer.echo(f"{'':<22} {experiment.paper}")
        if experiment.origin:
            typer.echo(f"{'':<22} from {_place(experiment.origin)}")
    for sentence in refused_plugins().values():
        typer.echo(f"fedjax-admm: {sentence.removesuffix('.')}.", err=True)


def show(name: Name) -> None:
    """Show an experiment's settings, methods, metrics and findings."""
    from fedjax_admm.trials.experiments import find

    experiment = find(name)
    lines = [
        f"{experiment.name}: {experiment.title}",
        *([textwrap.fill(experiment.paper, 100)] if experiment.paper else []),
        *([f"from {_place(experiment.origin)}"] if experiment.origin else []),
        "",
        f"trials   {experiment.trials}   (--trials)",
        f"rounds   {experiment.rounds}   (--rounds)",
        f"quick    {experiment.quick['trials']} trials, {experiment.quick['rounds']} rounds",
        "",
        "settings (--set name=value)",
        *(f"  {key:<19} {_shown(value)}" for key, value in experiment.defaults().items()),
        "",
        "methods",
        *(f"  {method}" for method in experiment.method_names()),
        "",
        "metrics",
        *(f"  {metric:<19} {label}" for metric, label in experiment.labels().items()),
    ]
    if experiment.findings:
        text = textwrap.fill(experiment.findings, 88, initial_indent="  ", subsequent_indent="  ")
        lines += ["", "findings", text]
    typer.echo("\n".join(lines))


def _place(origin: "Origin") -> str:
    """Say where an experiment that is not one of this package's own was found."""
    return origin.distribution or origin.file or origin.asked


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{part:g}" for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
