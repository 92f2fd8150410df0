"""`solve FAMILY`: a command for the settings of every family."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjax_admm.trials import solve
from fedjax_admm.trials.cli import _environment as environment
from fedjax_admm.trials.cli._options import Command, NoCache, Overwrite, folder_name


def families() -> typer.Typer:
    """Return an app with the command of every family."""
    app = typer.Typer(rich_markup_mode=None)
    for family in solve.FAMILIES:
        add_family(app, family)
    return app


def add_family(app: typer.Typer, family: type[solve.Settings]) -> None:
    """Add the command of a family, whose options are the fields of its settings."""

    def command(
        *,
        input: Annotated[Path, typer.Option(help=family.reads)],
        out: Annotated[
            Path | None,
            typer.Option(
                parser=folder_name,
                metavar="DIR",
                help=f"Folder of the result (results/{family.family}-INPUT).",
            ),
        ] = None,
        overwrite: Overwrite = False,
        no_cache: NoCache = False,
        **options: Any,
    ) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        _solve(family(**given), input, out, overwrite, no_cache)

    first, *shared, _ = inspect.signature(command).parameters.values()
    fields = inspect.signature(family).parameters
    own = [fields[name] for name in solve.options(family)]
    command.__signature__ = inspect.Signature([first, *own, *shared])  # pyright: ignore
    about = inspect.cleandoc(family.__doc__ or "").partition("\n\n")[0]
    app.command(family.family, cls=Command, help=about)(command)


def _solve(
    settings: solve.Settings, path: Path, out: Path | None, overwrite: bool, no_cache: bool
) -> None:
    """Solve and write; a terminal's standard error shows the stage of the work."""
    from rich.console import Console

    def prepare() -> None:
        environment.prepare(x64=settings.wide, cache=not no_cache)

    status = Console(stderr=True).status("reading")
    stages = solve.Stages(status.update)
    with solve.claimed_folder(settings, path, out, overwrite=overwrite) as place:
        with status:
            solution = solve.solve_file(settings, path, stages, prepare)
        typer.echo(solution.text)
        with status:
            written = solve.write_solution(solution, path, place, stages, overwrite=overwrite)
    took = f" after {sum(stages.seconds.values()):.1f} s." if settings.timed else ""
    typer.echo(f"Wrote {', '.join(written)} in {place!s}{took}")
