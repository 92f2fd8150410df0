"""A clock on the terminal until the first progress bar: compilation takes a while."""

import sys
from contextlib import ExitStack

_shown = ExitStack()


def start() -> None:
    """Show the seconds that have passed, on standard error, where that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("compiling..."), TimeElapsedColumn())
    console = Console(stderr=True, force_jupyter=False)
    clock = _shown.enter_context(Progress(*columns, console=console, transient=True))
    clock.add_task("compiling", total=None)


def stop() -> None:
    """Remove the clock, if one is shown."""
    _shown.close()
