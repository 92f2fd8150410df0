"""Run an experiment from its settings to its files, and go on where one was killed.

The folder is locked; the run there is looked at; the new one is configured, planned, computed chunk
by chunk, and written.
"""

import time
from collections.abc import Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from fedjax_admm._checks import InputError
from fedjax_admm._host import _store as store
from fedjax_admm._host._store import CHUNKS, Chunks
from fedjax_admm.trials.engine import (
    MonteCarlo,
    computed,
    default_mesh,
    hosts,
    partitioned,
    planned,
)
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import PICTURES, FigureFiles, figure_files, write_figure
from fedjax_admm.trials.results import ARRAYS, SUMMARY, Results, collected, load
from fedjax_admm.trials.running._configuration import (
    Request,
    configuration,
    repeating_command,
    settings_of,
)
from fedjax_admm.trials.running._earlier import (
    IDENTITY,
    check_same,
    continued,
    earlier_run,
    inputs_of,
)


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
    how = {"resume": resume, "overwrite": overwrite, "progress": progress}
    with hosts.locked(out):
        return run_locked(experiment, request, out, **how)


def run_locked(
    experiment: Experiment,
    request: Request,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Results | None:
    """Do what `run_experiment` does in a folder that `hosts.locked` gave."""
    started = time.perf_counter()
    find = partial(earlier_run, experiment, request, out, resume=resume, overwrite=overwrite)
    earlier = hosts.from_first(find)
    if earlier is not None:
        request = continued(experiment, request, earlier)
    if request.as_published:
        printed = experiment.printed()
        look = replace(request.figure or FigureFiles(), published=tuple(printed.figures))
        experiment, request = printed.run(experiment), replace(request, figure=look)
    config = configuration(experiment, request)
    with _renamed({"clients": "devices_per_trial"}):
        mesh = default_mesh(request.devices, config["devices_per_trial"])
    config["partitioned"] = partitioned(mesh)
    common = {name: config.get(name) for name in (*IDENTITY, "digest", "settings", "versions")}
    hosts.agreed(vars(request) | common | {"figure": config["figure"]})
    if earlier is not None:
        check_same(earlier, config | {"width": request.batch}, out)
    settings, rounds = settings_of(config), config["rounds"]
    chunks = Chunks(out / CHUNKS, replace=overwrite)
    with _renamed({}, out):
        plan = planned(
            experiment.trial(settings, rounds),
            jax.random.key(config["seed"]),
            config["trials"],
            batch="auto" if request.batch is None else request.batch,
            mesh=mesh,
            memory=request.memory,
            chunks=chunks,
            # Of its own size, a program with a part for each value compiles longer than it runs.
            compact=experiment.sweep.static and settings == experiment.defaults(),
        )
        config |= {**plan.layout._asdict(), "program": plan.program}
        config |= {"command": repeating_command(experiment, config), "status": "running"}
        hosts.from_first(lambda: _begin(config, earlier, out, chunks, overwrite))
        outcome = computed(plan, progress=progress)
        write = partial(_write, experiment, request, config, outcome, out, started)
        if hosts.alone():
            return write()
        hosts.from_first(lambda: write() and None)
    return load(out) if hosts.first() else None


def _begin(
    config: Mapping[str, Any],
    earlier: Mapping[str, Any] | None,
    out: Path,
    chunks: Chunks,
    overwrite: bool,
) -> None:
    """Write that the run is running, before its first trial; remove the run that it replaces."""
    if earlier is not None:
        if earlier.get("program") != config["program"]:
            raise InputError(
                f"{out / store.CONFIG} or the data that it names has been changed since the run "
                "was begun: its trials would be others",
                value=out,
                remedy="restore what was changed or choose another --out",
            )
        if (earlier["status"], earlier["trials"]) == ("running", config["trials"]):
            return
    if overwrite:
        chunks.clear()
        store.remove(out, (ARRAYS, SUMMARY, *figure_files(config).names))
    store.write_config(out, config)


def _write(
    experiment: Experiment,
    request: Request,
    config: dict[str, Any],
    outcome: MonteCarlo,
    out: Path,
    started: float,
) -> Results:
    """Write the results and their figure; if that cannot be drawn, the results stay."""
    settings, rounds = settings_of(config), config["rounds"]
    results = collected(config, outcome.arrays, experiment.recorded(rounds))
    if experiment.details is not None:
        first = jax.random.fold_in(jax.random.key(config["seed"]), 0)
        details = experiment.details(settings, rounds, first)
        results = replace(results, details=jax.device_get(details))
    failure = None
    with store.staged(out) as stage:
        results.save(stage)
        try:
            drawn = experiment.drawings(results)
        except InputError as error:
            failure = error
        else:
            for name, (figure, shown) in drawn.items():
                write_figure(figure, shown, stage, figure_files(config), name=name)
        seconds = outcome.seconds._asdict() | {"total": time.perf_counter() - started}
        seconds = {name: round(value, 3) for name, value in seconds.items()}
        config = store.publish(
            stage,
            out,
            {**config, "seconds": seconds, "status": "finished"},
            stale=[name for name in _pictures(out) if not (stage / name).exists()],
            inputs=inputs_of(experiment, request),
        )
    if failure is not None:
        raise failure
    return replace(results, config=config)


def _pictures(out: Path) -> list[str]:
    """Return the pictures and captions of figures that the run in a folder has listed."""
    kinds = {Path(each).suffix for each in PICTURES}
    return [name for name in store.read_config(out).get("files", ()) if Path(name).suffix in kinds]


def summary(results: Results, folder: str) -> str:
    """Return a run's time, what turned non-finite, whether its data are usual, and its files."""
    seconds = results.config["seconds"]
    lines = [
        f"{results.config['trials']} trials in {seconds['total']:.1f} s "
        f"(compile {seconds['compile']:.1f} s, run {seconds['run']:.1f} s)."
    ]
    for method, rounds in results.nonfinite.items():
        if (rounds > 0).any():
            lines.append(
                f"{method}: {int((rounds > 0).sum())} of {rounds.size} runs turned non-finite, "
                f"the first in round {int(rounds[rounds > 0].min())}; they are left out of the "
                "means and counted in summary.csv."
            )
    data, measured_on = results.config["data"], results.config["measured_on"]
    if results.config["findings"] and data != measured_on:
        lines.append(
            f"The findings of {results.config['experiment']} are not about the data of this run "
            f"({data}): they were measured on {measured_on}."
        )
    if results.config["statement"]:
        lines.append(results.config["statement"])
    names = ", ".join(figure_files(results.config).names)
    lines.append(f"Wrote {folder}/{names}, summary.csv, trials.npz, config.json")
    return "\n".join(lines)


@contextmanager
def _renamed(names: Mapping[str, str], out: Path | None = None):
    """Name arguments as the caller does; where the disk is full, tell how to go on."""
    try:
        yield
    except InputError as error:
        error = error.renamed(names)
        full = (error.remedy or "").endswith("make room")
        if out is not None and full and store.read_config(out).get("status") == "running":
            error = copy(error)
            error.remedy = f"{error.remedy} and go on with --resume"
        raise error from error.__cause__
