"""The commands of `fedjax-admm`, put together.

They import what they need themselves, so that help and most mistakes come at once.
"""

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from fedjax_admm.trials.cli._deploy import client, middle, server, simulate
from fedjax_admm.trials.cli._doctor import doctor
from fedjax_admm.trials.cli._experiments import list_experiments, show
from fedjax_admm.trials.cli._new import new_experiment, new_kernel, new_solver
from fedjax_admm.trials.cli._options import Command
from fedjax_admm.trials.cli._results import compare_runs, plot, report, summary
from fedjax_admm.trials.cli._run import run

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Batch solvers for federated optimisation: run an experiment, get its figure.",
    epilog="Exit codes: 0 done; 1 the run failed or a process was lost; 2 a mistake in what was "
    "given; 70 an error of fedjax-admm itself; 130 interrupted; 141 nobody reads the output.",
)
for _name, _command in {
    "list": list_experiments,
    "show": show,
    "run": run,
    "plot": plot,
    "summary": summary,
    "compare": compare_runs,
    "report": report,
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

_deploy = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run on real clients what `run` simulates, a process each.",
)
app.add_typer(_deploy, name="deploy")
for _name, _command in {
    "server": server,
    "client": client,
    "middle": middle,
    "simulate": simulate,
}.items():
    _deploy.command(_name, cls=Command)(_command)


class Families(TyperGroup):
    """The families of `solve`, which are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        self._add()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, if there is one."""
        self._add()
        return super().get_command(ctx, cmd_name)

    def _add(self) -> None:
        if not self.commands:
            from fedjax_admm.trials.cli._solve import families

            self.commands.update(get_group(families()).commands)


_solve = typer.Typer(
    cls=Families,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Solve one problem of your own, from a file.",
)
app.add_typer(_solve, name="solve")
