"""`list` and `show`: what experiments there are."""

import textwrap
from typing import Any

import typer

from fedjax_admm.trials.cli._options import Name


def list_experiments() -> None:
    """List every experiment: a line each, with its paper and its usual trials."""
    from fedjax_admm.trials.experiments import all_experiments

    for experiment in all_experiments().values():
        typer.echo(f"{experiment.name:<22} {experiment.title} ({experiment.trials} trials)")
        typer.echo(f"{'':<22} {experiment.paper}")


def show(name: Name) -> None:
    """Show an experiment's settings, methods, metrics and findings."""
    from fedjax_admm.trials.experiments import find

    experiment = find(name)
    lines = [
        f"{experiment.name}: {experiment.title}",
        textwrap.fill(experiment.paper, 100),
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
        *(f"  {metric:<19} {label}" for metric, label in experiment.metrics.items()),
        "",
        "findings",
        textwrap.fill(experiment.findings, 88, initial_indent="  ", subsequent_indent="  "),
    ]
    typer.echo("\n".join(lines))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{part:g}" for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
