"""The commands of `fedjax-admm`, put together.

They import what they need themselves, so that help and most mistakes come at once.
"""

import typer

from fedjax_admm.trials.cli._deploy import client, middle, server, simulate
from fedjax_admm.trials.cli._doctor import doctor
from fedjax_admm.trials.cli._experiments import list_experiments, show
from fedjax_admm.trials.cli._new import new_experiment, new_kernel, new_solver
from fedjax_admm.trials.cli._options import Command
from fedjax_admm.trials.cli._results import compare_runs, plot, report, summary
from fedjax_admm.trials.cli._run import run
from fedjax_admm.trials.cli._solve import add_family
from fedjax_admm.trials.solve import FAMILIES

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
    help="Run on real clients what `run` simulates: one process per client, and its servers.",
)
app.add_typer(_deploy, name="deploy")
for _name, _command in {
    "server": server,
    "client": client,
    "middle": middle,
    "simulate": simulate,
}.items():
    _deploy.command(_name, cls=Command)(_command)

_solve = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Solve one problem of your own, from a file."
)
app.add_typer(_solve, name="solve")
for _family in FAMILIES:
    add_family(_solve, _family)
