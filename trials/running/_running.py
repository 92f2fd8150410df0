"""Run an experiment from its settings to its four files, and go on where one was killed."""

import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials import folders
from fedjax_admm.trials.engine import (
    CHUNKS,
    ChunkStore,
    Inspect,
    Layout,
    MonteCarlo,
    default_mesh,
    hosts,
    monte_carlo,
    partitioned,
)
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import PICTURES, figure_files, write_figure
from fedjax_admm.trials.profiling import PROFILE, write_trace
from fedjax_admm.trials.results import NONFINITE_ROUND, Results, collected
from fedjax_admm.trials.running._configuration import (
    Request,
    configuration,
    repeating_command,
    settings_of,
)
from fedjax_admm.trials.running._folders import (
    check_ours,
    check_places,
    check_replaceable,
    chunks_set_aside,
    clear_replaced,
    inputs_of,
    locked_for_all,
    put_chunks_back,
)
from fedjax_admm.trials.running._resumption import (
    IDENTITY,
    asks_for_more,
    check_program,
    check_same,
    continued,
    holds_no_run,
    unfinished_run,
)


class NonFiniteError(ArithmeticError):
    """A trial turned non-finite in a run that was told to stop then."""


def run_experiment(
    experiment: Experiment,
    request: Request,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Results | None:
    """Run an experiment and write its files into `out`.

    With several processes (`hosts.joined`), all call this alike, and the first one alone reads and
    writes files.

    Args:
      experiment: what to run.
      request: what differs from its defaults.
      out: the folder of the result.
      resume: go on with the run in `out`, whose configuration is read from there: to its end, or
        to more trials than it has. Its chunks stay there, which takes about as much of the disk
        as its results do.
      overwrite: replace the run in `out`, and files there that have the names of a run's; without
        it, `out` must be new or empty.
      progress: show a progress bar.

    Returns:
      The results, as `results.load(out)` reads them back; None in processes but the first.

    Raises:
      InputError: an argument does not fit, `out` cannot be written, holds something else or is in
        use, or the memory does not hold a trial.
      KeyboardInterrupt: the run was asked to stop; it can be resumed.
      NonFiniteError: a trial turned non-finite, and `request.fail_on_nan`; it can be resumed too.
      StoppedElsewhereError: another process has ended the run.
      LostProcessError: another process does not answer any more.
    """
    with locked_for_all(out):
        return _run(experiment, request, out, resume, overwrite, progress)


def _run(
    experiment: Experiment,
    request: Request,
    out: Path,
    resume: bool,
    overwrite: bool,
    progress: bool,
) -> Results | None:
    """Do what `run_experiment` does, in a folder where nobody else writes."""
    clock = time.perf_counter()
    if request.profile and jax.process_count() > 1:
        raise InputError(
            f"measures one process, but there are {jax.process_count()}",
            argument="profile",
            remedy="leave it out",
        )
    inputs = inputs_of(experiment, request)

    def found() -> dict[str, Any] | None:
        check_places(out, request, inputs, resume=resume, overwrite=overwrite)
        put_chunks_back(out)
        if overwrite:
            check_replaceable(out)
            return None
        earlier = unfinished_run(out, resume, request.trials)
        pictures = (request.figure or figure_files(earlier)).names
        check_ours(out, pictures, new=holds_no_run(out))
        return earlier

    earlier = hosts.from_first(found)
    if earlier is not None:
        request = continued(experiment, request, earlier)
    config = configuration(experiment, request)
    told = {name: config[name] for name in ("versions", "figure")}
    hosts.agreed({name: config.get(name) for name in IDENTITY} | vars(request) | told)
    settings, rounds = settings_of(config), config["rounds"]
    trial, key = experiment.trial(settings, rounds), jax.random.key(config["seed"])
    try:
        mesh = default_mesh(request.devices, config["devices_per_trial"])
    except InputError as error:
        raise error.renamed({"clients": "devices_per_trial"}) from None
    config["partitioned"] = partitioned(mesh)
    store = ChunkStore(out / CHUNKS)

    def known(layout: Layout, program: str) -> dict[str, Any]:
        whole = config | layout._asdict() | {"program": program}
        return whole | {"command": repeating_command(experiment, whole), "status": "running"}

    begun: list[str] = []

    def begin(layout: Layout, program: str) -> None:
        if earlier is not None:
            check_program(earlier, program, out)
        if overwrite:
            remove_replaced()
            clear_replaced(out, figure_files(config).names)
        if earlier is None or earlier["status"] != "running" or asks_for_more(earlier, config):
            folders.write_config(out, known(layout, program), keep=not overwrite)
        begun.append(program)

    if earlier is not None:
        check_same(earlier, config | {"width": request.batch}, out)
    guard = _refuse_nonfinite(settings[experiment.sweep.name]) if request.fail_on_nan else None
    with chunks_set_aside(out, overwrite) as remove_replaced:
        try:
            outcome = monte_carlo(
                trial,
                key,
                config["trials"],
                batch="auto" if request.batch is None else request.batch,
                mesh=mesh,
                memory=request.memory,
                store=store,
                begin=begin,
                inspect=guard,
                progress=progress,
            )
        except InputError as error:
            told = error.renamed({"store": "--out"})
            raise (_to_go_on(told) if begun else told) from error.__cause__
    finished: list[Results] = []

    def finish() -> None:
        config = known(outcome.layout, outcome.program)
        with folders.staged(out) as stage:
            results, failure = _staged(experiment, config, outcome, clock, stage)
            kind = {"experiment": config["experiment"]}
            stale = [name for name in PICTURES if not (stage / name).exists()]
            last = folders.publish(stage, out, results.config, kind, gone=stale, inputs=inputs)
        if failure is not None:
            raise failure
        finished.append(replace(results, config=last))

    try:
        hosts.from_first(finish)  # the others wait: JAX ends all processes soon after one of them
    except InputError as error:
        raise _to_go_on(error) from error.__cause__
    if not finished:
        return None
    if request.profile:
        write_trace(out / PROFILE, trial, key, mesh, outcome.layout.width)
    return finished[0]


def _to_go_on(error: InputError) -> InputError:
    """Return a mistake that tells, where the disk is full, how to go on with what is kept."""
    if not (error.remedy or "").endswith("make room"):
        return error
    found = copy(error)
    found.remedy = f"{error.remedy} and go on with --resume"
    return found


def _staged(
    experiment: Experiment,
    config: Mapping[str, Any],
    outcome: MonteCarlo,
    clock: float,
    stage: Path,
) -> tuple[Results, InputError | None]:
    """Write what a finished run leaves into a folder where it waits for its places.

    Returns:
      The results, whose configuration says that they are there; and why there is no figure.
    """
    results = collected(config, outcome.arrays, experiment.recorded(config["rounds"]))
    if experiment.details is not None:
        first = jax.random.fold_in(jax.random.key(config["seed"]), 0)
        details = experiment.details(settings_of(config), config["rounds"], first)
        results = replace(results, details=jax.device_get(details))
    results.save(stage)
    figure, failure = None, None
    try:
        figure = experiment.draw(results)
    except InputError as error:  # of a user's own figure: hours of computing are kept
        failure = error
    if figure is not None:  # where there is no room for it the run goes on later
        write_figure(figure, results, stage, figure_files(config))
    spent = outcome.seconds._asdict() | {"total": time.perf_counter() - clock}
    rounded = {name: round(value, 3) for name, value in spent.items()}
    config = {**config, "status": "finished", "seconds": rounded}
    return replace(results, config=config), failure


def _refuse_nonfinite(sweep: Sequence[float]) -> Inspect:
    """Return what raises `NonFiniteError` at the first trial that turned non-finite."""

    def inspect(first: int, arrays: Mapping[str, np.ndarray]) -> None:
        for name, rounds in arrays.items():
            method, _, metric = name.rpartition("/")
            if metric == NONFINITE_ROUND and rounds.any():
                trial, value = np.argwhere(rounds)[0]
                raise NonFiniteError(
                    f"{method} turned non-finite in trial {first + trial} at {sweep[value]:g}, "
                    f"round {rounds[trial, value]}; the chunk is kept: go on without "
                    "--fail-on-nan to have such trials counted and left out of the means."
                )

    return inspect
