"""Options of the command line: how their texts are read, and how mistakes name them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fedjax_admm._checks import InputError, one_line
from fedjax_admm.trials.solve import (
    Columns as Columns,
    Format as Format,
    Style as Style,
    real_number as real_number,
    whole as whole,
    whole_number,
)

_MOST_MEMORY = 2**20  # GiB: more than any machine has


class Command(TyperCommand):
    """A command that tells mistakes in its arguments by the names of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words; an option that holds one value is given once, or one would be lost."""
        given: list[Any] = self.make_parser(ctx).parse_args(list(args))[2]
        for each in given:
            one = each.opts[0].startswith("--") and not (each.multiple or each.is_flag)
            if one and given.count(each) > 1:
                raise typer.BadParameter(f"{each.opts[0]} is given twice; leave one out.")
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """Return the help; typer 0.20 escapes brackets in it for a renderer that is not used."""
        return super().get_help(ctx).replace("\\[", "[")

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help, whole: lists of commands break it into lines."""
        return " ".join((self.help or "").partition("\n\n")[0].split())

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            options = [each.opts[0] for each in self.params if each.opts[0].startswith("--")]
            names = {option.removeprefix("--").replace("-", "_"): option for option in options}
            raise error.renamed(names) from error.__cause__


def folder_name(text: str | Path) -> Path:
    """Read the name of a folder; the current one is `.`, and nothing is no name."""
    name = str(text)
    if not name or "\0" in name or not name.isprintable():
        raise typer.BadParameter(f"{name!r} is no name of a folder.")
    return Path(text)


def device_count(text: str) -> int | None:
    """Read a number of devices; None stands for all."""
    return None if text == "all" else whole_number(text)


def as_bytes(gibibytes: float | None) -> int | None:
    """Return an amount of memory in bytes."""
    if gibibytes is None:
        return None
    if not 0 < gibibytes < math.inf:
        told = f"must be a number above 0 GiB, but it is {gibibytes:g}"
        raise InputError(told, argument="memory", value=gibibytes)
    return int(min(gibibytes, _MOST_MEMORY) * 2**30)


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """Read every NAME=VALUE; spaces around either do not count."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            told = f"must be NAME=VALUE, but it is {one_line(text)}"
            raise InputError(told, argument="set", value=text)
        if name in found:
            told = f"gives {name} twice, as {one_line(found[name])} and as {one_line(value)}"
            raise InputError(told, argument="set", value=text, remedy="leave one out")
        found[name] = value
    return found


Name = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="As `list` shows it; or PATH.py, PATH.py:NAME or package.module:NAME.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, as `show` lists them."),
]
Bands = Annotated[
    str | None,
    typer.Option(
        metavar="KIND", help="Of the figure, around means: errors, deviations or quantiles."
    ),
]
Everything = Annotated[
    bool,
    typer.Option("--all", help="Draw all methods and panels, not the finding's alone."),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Do not keep compiled programs between commands.")
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace files of the same names that are in that folder."),
]
