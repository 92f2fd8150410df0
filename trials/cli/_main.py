"""The command `fedjax-admm`. A user's mistake gets one sentence and exit code 2.

The commands import what they need themselves, so that help and most mistakes come at once.
"""

import sys
from typing import Any, NoReturn

import typer

from fedjax_admm._checks import InputError
from fedjax_admm.trials.cli._doctor import doctor
from fedjax_admm.trials.cli._experiments import list_experiments, show
from fedjax_admm.trials.cli._new import new_experiment, new_kernel, new_solver
from fedjax_admm.trials.cli._options import Command
from fedjax_admm.trials.cli._results import compare_runs, plot
from fedjax_admm.trials.cli._run import run
from fedjax_admm.trials.cli._solve import add_family
from fedjax_admm.trials.solve import FAMILIES

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Batch solvers for federated optimisation: run an experiment, get its figure.",
)
for _name, _command in {
    "list": list_experiments,
    "show": show,
    "run": run,
    "plot": plot,
    "compare": compare_runs,
    "doctor": doctor,
}.items():
    app.command(_name, cls=Command)(_command)

_new = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Write a file of your own to begin with."
)
app.add_typer(_new, name="new")
for _name, _command in {
    "experiment": new_experiment,
    "solver": new_solver,
    "kernel": new_kernel,
}.items():
    _new.command(_name, cls=Command)(_command)

_solve = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Solve one problem of your own, from a file."
)
app.add_typer(_solve, name="solve")
for _family in FAMILIES:
    add_family(_solve, _family)


def main() -> None:
    """Run the command line: mistakes end with one sentence on standard error and code 2."""
    # click's UsageError, wherever this version of typer keeps it.
    usage_error: Any = typer.BadParameter.__base__
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except InputError as error:
        _give_up(str(error))
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        _give_up(error.format_message())
    except KeyboardInterrupt:
        sys.exit(130)


def _give_up(sentence: str) -> NoReturn:
    sentence = " ".join(sentence.split())
    end = "" if sentence.endswith((".", "?")) else "."
    typer.echo(f"fedjax-admm: {sentence}{end}", err=True)
    sys.exit(2)
