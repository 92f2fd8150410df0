"""`run`: an experiment, from its name to a folder of results."""

import shlex
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedjax_admm._checks import InputError
from fedjax_admm.trials.cli import _environment as environment
from fedjax_admm.trials.cli._options import (
    Bands,
    Columns,
    Everything,
    Format,
    Name,
    NoCache,
    Overwrite,
    Set,
    Style,
    as_bytes,
    assignments,
    device_count,
    folder_name,
    real_number,
    whole,
)
from fedjax_admm.trials.cli._results import AsPublished


def run(
    name: Name,
    quick: Annotated[
        bool, typer.Option("--quick", help="A preview: few trials and rounds, under a minute.")
    ] = False,
    trials: Annotated[int | None, whole("Monte Carlo trials.")] = None,
    rounds: Annotated[int | None, whole("Global rounds.")] = None,
    seed: Annotated[int | None, whole("Seed of all draws (2025).")] = None,
    set_: Set = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=folder_name, metavar="DIR", help="Folder of the result (results/EXPERIMENT)."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in that folder, if it holds one.")
    ] = False,
    overwrite: Overwrite = False,
    style: Style = None,
    format: Format = None,
    columns: Columns = None,
    bands: Bands = None,
    everything: Everything = False,
    as_published: AsPublished = False,
    x64: Annotated[bool, typer.Option("--x64", help="Compute in float64.")] = False,
    devices: Annotated[
        int | None,
        typer.Option(
            parser=device_count, metavar="INTEGER|all", help="Devices of each process (all)."
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(parser=real_number, metavar="GIB", help="Memory of each device (all free)."),
    ] = None,
    batch: Annotated[
        int | None, whole("Trials per micro-batch. Changing it changes results by rounding.")
    ] = None,
    no_cache: NoCache = False,
    devices_per_trial: Annotated[
        int | None, whole("Devices that share the clients of one trial (1).")
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT|auto", help="Several processes: address of process 0."),
    ] = None,
    num_processes: Annotated[int | None, whole("How many processes there are.")] = None,
    process_id: Annotated[int | None, whole("Number of this process, from 0.")] = None,
    join_timeout: Annotated[int | None, whole("Seconds to wait for the others (300).")] = None,
) -> None:
    """Run an experiment: writes config.json, trials.npz, summary.csv, and the figure."""
    settings = assignments(set_ or [])
    if overwrite and out is None:
        reason = "replaces what is in a folder that is named with {out}"
        raise InputError(reason, argument="overwrite", remedy="give both", others=["out"])
    from jax.errors import JaxRuntimeError

    from fedjax_admm._host import _store as store
    from fedjax_admm.trials import running
    from fedjax_admm.trials.engine import hosts
    from fedjax_admm.trials.experiments import find
    from fedjax_admm.trials.figures import figure_files

    drawn = {"style": style, "format": format, "columns": columns, "bands": bands}
    drawn["everything"] = everything or None
    asked = any(value is not None for value in drawn.values())
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
        figure=figure_files(**drawn) if asked else None,
        as_published=as_published or None,
    )
    environment.prepare(x64=x64, cache=not no_cache, devices=devices, start=False)
    with environment.starting():
        environment.until_the_end.enter_context(
            hosts.joined(coordinator, num_processes, process_id, seconds=join_timeout)
        )
    # JAX is ready now: a user's file may compute while it is imported.
    experiment = find(name)
    folder = "" if out is None else str(out)

    def begun() -> tuple[str, bool]:
        place = running.place_of(out, experiment.name, resume=resume)
        return str(place), resume and bool(store.read_config(place).get("x64"))

    try:
        place, wide = hosts.from_first(begun)
        environment.use_x64(x64 or experiment.x64 or wide)
        if not x64 and (experiment.x64 or wide):
            experiment = find(name)  # with arrays of that width, if its file makes some
        with hosts.locked(Path(place), new=out is None and not resume) as folder:
            results = running.run_locked(
                experiment, request, Path(folder), resume=resume, overwrite=overwrite
            )
    except (
        *(KeyboardInterrupt, hosts.StoppedElsewhereError, hosts.LostProcessError),
        JaxRuntimeError,
    ) as end:
        _stopped(end, _how_to_go_on(name, folder) if folder else "")
    if results is not None:
        typer.echo(running.summary(results, folder))


def _how_to_go_on(name: str, folder: str) -> str:
    """Return how to go on with the run in a folder; empty where there is nothing to go on with."""
    from fedjax_admm._host import _store as store
    from fedjax_admm.trials.engine import hosts

    if not hosts.first():
        return "what is finished lies with process 0, which says how to go on."
    status = store.read_config(Path(folder)).get("status")
    if status == "finished":
        return f"a finished run is in {folder}."
    again = shlex.join(["fedjax-admm", "run", name, "--out", folder, "--resume"])
    return f"go on with: {again}" if status == "running" else ""


def _stopped(end: BaseException, go_on: str) -> NoReturn:
    """Say why a run ended before it was finished, and how to go on."""
    from fedjax_admm.trials.engine import hosts

    if isinstance(end, KeyboardInterrupt):
        ending = f"Interrupted; {go_on}" if go_on else "Interrupted before anything was kept."
        typer.echo(ending, err=True)
        raise SystemExit(130) from None
    if not isinstance(end, hosts.StoppedElsewhereError):
        typer.echo(f"fedjax-admm: {' '.join(str(end).split())}", err=True)
        if go_on:
            typer.echo(go_on[0].upper() + go_on[1:], err=True)
    elif hosts.first():
        ending = go_on or "nothing was kept."
        typer.echo(f"Stopped, because another process was; {ending}", err=True)
    raise SystemExit(1) from None
