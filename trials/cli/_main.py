"""The entry of the command `fedjax-admm`: a sentence and a documented exit code, whatever happens.

Broken variables of the environment and broken outputs show while JAX is imported or when a command
ends, so that little is imported here before they are caught.
"""

import atexit
import gc
import io
import os
import sys
import traceback
from typing import Any, NoReturn

from fedjax_admm.trials import waiting

DONE, FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130
_NEW_OBJECTS = 200_000  # after which Python looks for garbage


def main() -> NoReturn:
    """Run the command line; `run` shows a clock until its first trials are computed.

    A user's mistake ends with one sentence on standard error and code 2, any other error with its
    traceback and code 1.
    """
    # Modules and traced programs stay: to look through them for garbage, and once more at the end,
    # took a quarter of a short command.
    gc.set_threshold(_NEW_OBJECTS)
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what an encoding cannot write
    if sys.argv[1:2] == ["run"] and "--help" not in sys.argv:
        waiting.start()
    _leave(_code())


def _code() -> int:
    """Run the command and return its exit code."""
    try:
        return _called()
    except KeyboardInterrupt:
        _tell("interrupted")
        return INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else DONE if stop.code is None else FAILED
    except BaseException as error:
        traceback.print_exception(error)
        return FAILED


def _called() -> int:
    """Run the command; what a user can mend is told."""
    from fedjax_admm.trials.cli import _environment as environment

    mistake = environment.mistake()
    if mistake:
        return _tell(mistake)
    import typer

    from fedjax_admm._checks import InputError
    from fedjax_admm.trials.cli import _app

    # click's UsageError, wherever this version of typer keeps it.
    usage_error: Any = typer.BadParameter.__base__
    try:
        with environment.until_the_end:
            code = _app.app(standalone_mode=False)
    except InputError as error:
        return _tell(str(error))
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            return MISTAKE
        return _tell(error.format_message())
    code = code if isinstance(code, int) else DONE
    if code == INTERRUPTED:  # typer turns KeyboardInterrupt into this
        raise KeyboardInterrupt
    return code


def _tell(sentence: str) -> int:
    """Tell a sentence on standard error, and return the code of a mistake."""
    waiting.stop()
    sentence = " ".join(sentence.split())
    end = "" if sentence.endswith((".", "?")) else "."
    print(f"fedjax-admm: {sentence}{end}", file=sys.stderr, flush=True)
    return MISTAKE


def _leave(code: int) -> NoReturn:
    """End the process; at once where others wait for it that do not know of its end."""
    waiting.stop()
    hosts = sys.modules.get("fedjax_admm.trials.engine.hosts")
    if hosts is not None and code and hosts.waited_for():
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
    sys.exit(code)
