"""Run an experiment from its settings to its files, and go on where one was killed.

The folder is locked; the run there is looked at; the new one is configured, computed chunk by
chunk, and written.
"""

import time
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

from fedjax_admm._checks import InputError
from fedjax_admm.trials import folders
from fedjax_admm.trials.engine import (
    CHUNKS,
    ChunkStore,
    Layout,
    MonteCarlo,
    default_mesh,
    hosts,
    monte_carlo,
    partitioned,
)
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import PICTURES, figure_files, write_figure
from fedjax_admm.trials.results import Results, collected, load
from fedjax_admm.trials.running._configuration import (
    Request,
    configuration,
    repeating_command,
    settings_of,
)
from fedjax_admm.trials.running._folders import (
    begin_run,
    inputs_of,
    locked_for_all,
    run_to_resume,
)
from fedjax_admm.trials.running._resumption import IDENTITY, check_program, check_same, continued


@dataclass(frozen=True)
class _Run:
    """A run that has been configured."""

    experiment: Experiment
    request: Request
    out: Path
    earlier: Mapping[str, Any] | None  # the configuration of the run that goes on
    overwrite: bool
    config: Mapping[str, Any]
    mesh: Mesh
    started: float  # seconds of the performance counter


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
      experiment: the experiment.
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
      StoppedElsewhereError: another process has ended the run.
      LostProcessError: another process does not answer any more.
    """
    started = time.perf_counter()
    with locked_for_all(out):
        earlier = hosts.from_first(
            partial(run_to_resume, experiment, request, out, resume=resume, overwrite=overwrite)
        )
        run = _configured(experiment, request, out, earlier, overwrite, started)
        try:
            outcome = _computed(run, progress)
            return _written(run, outcome)
        except InputError as error:
            raise _with_advice(error, out) from error.__cause__


def _configured(
    experiment: Experiment,
    request: Request,
    out: Path,
    earlier: Mapping[str, Any] | None,
    overwrite: bool,
    started: float,
) -> _Run:
    """Return a run whose configuration is that of the earlier one, if it goes on."""
    if earlier is not None:
        request = continued(experiment, request, earlier)
    config = configuration(experiment, request)
    common = {name: config.get(name) for name in (*IDENTITY, "versions", "figure")}
    hosts.agreed(vars(request) | common)
    try:
        mesh = default_mesh(request.devices, config["devices_per_trial"])
    except InputError as error:
        raise error.renamed({"clients": "devices_per_trial"}) from None
    config["partitioned"] = partitioned(mesh)
    if earlier is not None:
        check_same(earlier, config | {"width": request.batch}, out)
    return _Run(experiment, request, out, earlier, overwrite, config, mesh, started)


def _trial(run: _Run) -> tuple[Any, jax.Array]:
    """Return the function of a trial, and the key of all trials."""
    trial = run.experiment.trial(settings_of(run.config), run.config["rounds"])
    return trial, jax.random.key(run.config["seed"])


def _computed(run: _Run, progress: bool) -> MonteCarlo:
    """Compute the trials that are not in the folder yet."""
    store = ChunkStore(run.out / CHUNKS, locked=True, replace=run.overwrite)
    settings, sweep = settings_of(run.config), run.experiment.sweep
    # Of its own size, a program with a part for each value takes longer to compile than to run.
    compact = sweep.static and settings == run.experiment.defaults()
    try:
        return monte_carlo(
            *_trial(run),
            run.config["trials"],
            batch="auto" if run.request.batch is None else run.request.batch,
            mesh=run.mesh,
            memory=run.request.memory,
            store=store,
            begin=partial(_begin, run, store),
            progress=progress,
            compact=compact,
        )
    except InputError as error:
        raise error.renamed({"store": "--out"}) from error.__cause__


def _begin(run: _Run, store: ChunkStore, layout: Layout, program: str) -> None:
    """Write that the run is running, before its first trial is computed."""
    if run.earlier is not None:
        check_program(run.earlier, program, run.out)
        same = run.earlier["trials"] == run.config["trials"]
        if run.earlier["status"] == "running" and same:
            return
    begin_run(run.out, _whole(run, layout, program), store, run.overwrite)


def _whole(run: _Run, layout: Layout, program: str) -> dict[str, Any]:
    """Return the configuration of a run whose layout and program are known."""
    config = {**run.config, **layout._asdict(), "program": program}
    return config | {"command": repeating_command(run.experiment, config), "status": "running"}


def _written(run: _Run, outcome: MonteCarlo) -> Results | None:
    """Have the first process write the results while the others wait; return them there."""
    if hosts.alone():
        return _write(run, outcome)

    def write() -> None:
        _write(run, outcome)

    hosts.from_first(write)
    return load(run.out) if hosts.first() else None


def _write(run: _Run, outcome: MonteCarlo) -> Results:
    """Write the results and their figure; if that cannot be drawn, the results stay."""
    experiment = run.experiment
    config = _whole(run, outcome.layout, outcome.program)
    results = collected(config, outcome.arrays, experiment.recorded(config["rounds"]))
    if experiment.details is not None:
        first = jax.random.fold_in(jax.random.key(config["seed"]), 0)
        details = experiment.details(settings_of(config), config["rounds"], first)
        results = replace(results, details=jax.device_get(details))
    failure = None
    with folders.staged(run.out) as stage:
        results.save(stage)
        try:
            figure = experiment.draw(results)
        except InputError as error:
            failure = error
        else:
            write_figure(figure, results, stage, figure_files(config))
        seconds = outcome.seconds._asdict() | {"total": time.perf_counter() - run.started}
        config["seconds"] = {name: round(value, 3) for name, value in seconds.items()}
        config = folders.publish(
            stage,
            run.out,
            config | {"status": "finished"},
            stale=[name for name in PICTURES if not (stage / name).exists()],
            inputs=inputs_of(experiment, run.request),
        )
    if failure is not None:
        raise failure
    return replace(results, config=config)


def _with_advice(error: InputError, out: Path) -> InputError:
    """Return a mistake that tells, where the disk is full, how to go on with what is stored."""
    running = folders.read_config(out).get("status") == "running"
    if not (running and (error.remedy or "").endswith("make room")):
        return error
    advised = copy(error)
    advised.remedy = f"{error.remedy} and go on with --resume"
    return advised
