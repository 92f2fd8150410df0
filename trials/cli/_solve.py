"""`solve FAMILY`: a command for the settings of every family."""

import dataclasses
import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjax_admm._host import printable
from fedjax_admm.trials import solve
from fedjax_admm.trials.cli import _environment as environment
from fedjax_admm.trials.cli._options import (
    Command,
    NoCache,
    Overwrite,
    folder_name,
    real_number,
    whole_number,
)

_PARSERS = {int: whole_number, float: real_number}


def add_family(app: typer.Typer, family: type[solve.Settings]) -> None:
    """Add the command of a family, whose options are the fields of its settings."""

    def command(
        input: Path, out: Path | None, overwrite: bool, no_cache: bool, **options: Any
    ) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        _solve(family(**given), input, out, overwrite, no_cache)

    out = typer.Option(
        parser=folder_name, metavar="DIR", help=f"Folder of the result ({family.family}-INPUT)."
    )
    fields = {field.name: field for field in dataclasses.fields(family)}
    parameters = {
        "input": (Annotated[Path, typer.Option(help=family.reads)], dataclasses.MISSING),
        **{name: _declared(fields[name]) for name in solve.options(family)},
        "out": (Annotated[Path | None, out], None),
        "overwrite": (Overwrite, False),
        "no_cache": (NoCache, False),
    }
    command.__signature__ = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
            )
            for name, (annotation, default) in parameters.items()
        ]
    )
    about = inspect.cleandoc(family.__doc__ or "").partition("\n\n")[0]
    app.command(family.family, cls=Command, help=about)(command)


def _declared(field: dataclasses.Field) -> tuple[Any, Any]:
    """Return how typer declares the option of a field, and its default."""
    option: solve.Option = field.metadata["option"]
    if option.kind is bool:
        declared = typer.Option(solve.option_name(field.name), help=option.help)
        return Annotated[bool, declared], False
    parser = _PARSERS.get(option.kind)
    declared = typer.Option(help=option.help, metavar=option.metavar, parser=parser)
    if option.repeated:
        return Annotated[list[option.kind] | None, declared], None
    kind = option.kind if field.default is dataclasses.MISSING else option.kind | None
    return Annotated[kind, declared], field.default


def _solve(
    settings: solve.Settings, path: Path, out: Path | None, overwrite: bool, no_cache: bool
) -> None:
    """Solve and write; what is being done is shown on a terminal's standard error."""
    from rich.console import Console

    def prepare() -> None:
        environment.prepare(x64=settings.wide(), cache=not no_cache)

    status = Console(stderr=True).status("reading")
    stages = solve.Stages(status.update)
    with solve.claimed_folder(settings, path, out, overwrite=overwrite) as place:
        with status:
            solution = solve.solve_file(settings, path, stages, prepare)
        typer.echo(solution.text)
        with status:
            written = solve.put_solution(solution, path, place, stages, overwrite=overwrite)
    took = f" after {sum(stages.seconds.values()):.1f} s." if settings.timed else ""
    typer.echo(f"Wrote {', '.join(written)} in {printable(str(place))}{took}")
