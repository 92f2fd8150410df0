"""The command line: the help of every command."""

from collections.abc import Iterator
from typing import Any

import typer

from fedjax_admm.trials.cli import app

WIDTH = 88
HEAD = """# The command line

`fedjax-admm` is installed with the package; `python -m fedjax_admm.trials.cli` is the same. What a
run writes is described in [](/results).
"""


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield the page of the command line."""
    sections = [
        f"## `{path}`\n\n```text\n{text.strip()}\n```\n"
        for path, text in _helps("fedjax-admm", typer.main.get_command(app))
    ]
    yield "commands.md", "\n".join([HEAD, *sections])


def _helps(path: str, command: Any) -> Iterator[tuple[str, str]]:
    """Yield the help of a command and of those within it."""
    context = command.context_class(
        command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH
    )
    yield path, command.get_help(context)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _helps(f"{path} {name}", inner)
