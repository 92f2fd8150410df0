"""`run`: an experiment, from its name to a folder of results."""

import shlex
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedjax_admm.trials.cli import _environment as environment
from fedjax_admm.trials.cli._options import (
    Name,
    NoCache,
    as_bytes,
    assignments,
    device_count,
    real_number,
    whole,
)


def run(
    name: Name,
    trials: Annotated[int | None, whole("Monte Carlo trials.")] = None,
    rounds: Annotated[int | None, whole("Global rounds.")] = None,
    seed: Annotated[int | None, whole("Seed of all draws (2025).")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, as `show` lists them."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the result (results/EXPERIMENT).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in that folder.")
    ] = False,
    x64: Annotated[bool, typer.Option("--x64", help="Compute in float64.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few trials and rounds: under a minute.")
    ] = False,
    batch: Annotated[int | None, whole("Trials per micro-batch; decides the last bits.")] = None,
    devices: Annotated[
        int | None,
        typer.Option(
            parser=device_count, metavar="INTEGER|all", help="Devices of each process (all)."
        ),
    ] = None,
    devices_per_trial: Annotated[
        int | None, whole("Devices that share the clients of one trial (1).")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(parser=real_number, metavar="GIB", help="Memory of each device (all free)."),
    ] = None,
    fail_on_nan: Annotated[
        bool, typer.Option("--fail-on-nan", help="Stop at the first non-finite trial.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Write a profiler trace and a table of rates.")
    ] = False,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT|auto", help="Where process 0 of several waits."),
    ] = None,
    num_processes: Annotated[int | None, whole("How many processes there are.")] = None,
    process_id: Annotated[int | None, whole("Which one this is, from 0.")] = None,
    no_cache: NoCache = False,
) -> None:
    """Run an experiment: writes config.json, trials.npz, summary.csv and the figure."""
    settings = assignments(set_ or [])
    from jax.errors import JaxRuntimeError

    from fedjax_admm.trials import profiling, running
    from fedjax_admm.trials.engine import hosts
    from fedjax_admm.trials.experiments import find

    request = running.Request(
        trials=trials,
        rounds=rounds,
        seed=seed,
        settings=settings,
        batch=batch,
        quick=quick or None,
        devices=devices,
        devices_per_trial=devices_per_trial,
        memory=as_bytes(memory),
        fail_on_nan=fail_on_nan,
        profile=profile,
    )
    environment.prepare(x64=x64, cache=not no_cache, devices=devices)
    hosts.join(coordinator, num_processes, process_id)
    # JAX is ready now: a user's file may compute while it is imported.
    experiment = find(name)

    def folder_and_precision() -> tuple[str, bool]:
        called = experiment.name
        chosen = out or (
            running.unfinished_folder(called) if resume else running.free_folder(called)
        )
        return str(chosen), resume and running.resumed_x64(chosen)

    folder = str(out or f"results/{experiment.name}")
    try:
        folder, wide = hosts.from_first(folder_and_precision)
        environment.use_x64(x64 or experiment.x64 or wide)
        experiment = find(name)  # with arrays of that width, if its file makes some
        results = running.run_experiment(experiment, request, Path(folder), resume=resume)
    except (
        *(KeyboardInterrupt, hosts.StoppedElsewhereError, hosts.LostProcessError),
        *(running.NonFiniteError, JaxRuntimeError),
    ) as end:
        again = shlex.join(["fedjax-admm", "run", name, "--out", folder, "--resume"])
        _stopped(end, f"go on with: {again}")
    if results is not None:
        typer.echo(running.summary(results, folder))
        if profile:
            typer.echo(profiling.written_profile(Path(folder)))


def _stopped(end: BaseException, go_on: str) -> NoReturn:
    """Say why a run ended before it was finished, and how to go on."""
    from fedjax_admm.trials.engine import hosts

    if isinstance(end, KeyboardInterrupt):
        typer.echo(f"Interrupted; {go_on}", err=True)
        raise SystemExit(130) from None
    if not isinstance(end, hosts.StoppedElsewhereError):
        typer.echo(f"fedjax-admm: {' '.join(str(end).split())}", err=True)
        typer.echo(go_on[0].upper() + go_on[1:], err=True)
    elif hosts.first():
        typer.echo(f"Stopped, because another process was; {go_on}", err=True)
    raise SystemExit(1) from None
