"""The folder of a run: the run that is there already, and how a new one begins in it."""

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files, folders
from fedjax_admm.trials.engine import CHUNKS, ChunkStore, hosts
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import PICTURES, figure_files
from fedjax_admm.trials.results import ARRAYS, CONFIG, SUMMARY, check_configuration
from fedjax_admm.trials.running._configuration import Request

_WRITTEN = (ARRAYS, SUMMARY, *PICTURES)  # besides the configuration and chunks


@contextmanager
def locked_for_all(out: Path) -> Iterator[None]:
    """Have the first process lock the folder of a run for all of them."""
    with ExitStack() as stack:

        def lock() -> None:
            stack.enter_context(folders.locked(out))

        hosts.from_first(lock)
        yield


def run_to_resume(
    experiment: Experiment, request: Request, out: Path, *, resume: bool, overwrite: bool
) -> dict[str, Any] | None:
    """Return the configuration of the run in `out` that goes on, or None where a new one begins.

    A finished run goes on if it has fewer trials than are asked for, or if its results are gone. A
    resumed run begins where there is none: a job that is queued again has one command line. If its
    configuration alone is gone, its chunks tell whether they belong to what is asked for.
    """
    if resume and overwrite:
        raise InputError(
            "goes on with a run, and {overwrite} replaces it",
            argument="resume",
            remedy="leave one of them out",
            others=["overwrite"],
        )
    inputs = inputs_of(experiment, request)
    folders.check_places(out, (*_WRITTEN, CONFIG), inputs=inputs)
    if overwrite:
        return None
    if not resume:
        _check_new(out)
        return None
    if not os.path.lexists(out / CONFIG):
        folders.check_own(out, _WRITTEN)
        return None
    config = files.read_json(out / CONFIG)
    check_configuration(out / CONFIG, config)
    folders.check_own(out, (ARRAYS, SUMMARY, *(request.figure or figure_files(config)).names))
    finished = config["status"] == "finished" and (out / ARRAYS).exists()
    if finished and request.trials in (None, config["trials"]):
        raise InputError(
            f"{out} holds a finished run of {config['experiment']}",
            value=out,
            remedy=f"ask for more than its {config['trials']} with --trials or choose another "
            "--out",
        )
    return config


def _check_new(out: Path) -> None:
    """Check that a folder is empty; the sentence tells how to go on with a run that is there."""
    config = folders.read_config(out)
    if config.get("status") == "running":
        kind, remedy = "an unfinished", "add --resume to go on, or --overwrite,"
    else:
        kind = "a finished"
        remedy = "add trials with --resume --trials N, replace it with --overwrite"
    if "experiment" in config:
        raise InputError(
            f"{out} holds {kind} run of {config['experiment']}",
            value=out,
            remedy=f"{remedy} or choose another --out",
        )
    folders.check_empty(out)


def begin_run(out: Path, config: Mapping[str, Any], store: ChunkStore, overwrite: bool) -> None:
    """Write the configuration of a run that begins, and remove the run that it replaces."""
    if overwrite:
        store.clear()
        folders.remove(out, (ARRAYS, SUMMARY, *figure_files(config).names))
    folders.write_config(out, config)


def inputs_of(experiment: Experiment, request: Request) -> list[Path]:
    """Return the files that a run may read: its experiment's, and those that its settings name."""
    origin = experiment.origin
    own = [Path(origin.file)] if origin is not None and origin.file is not None else []
    return own + [Path(text) for text in (request.settings or {}).values()]


def holds_no_run(out: Path) -> bool:
    """Return whether neither the configuration of a run is in a folder, nor trials of one."""
    return not os.path.lexists(out / CONFIG) and not ChunkStore(out / CHUNKS).begun()


def unfinished_folder(name: str) -> Path:
    """Return the latest folder of `results/` that holds an unfinished run of an experiment."""
    candidates = []
    for path in Path("results").glob(f"{glob.escape(name)}*/{CONFIG}"):
        config = folders.read_config(path.parent)
        if config.get("experiment") == name and config.get("status") == "running":
            candidates.append((path.stat().st_mtime, path.parent))
    if not candidates:
        raise InputError(
            f"results/ holds no unfinished run of {name}",
            value=name,
            remedy="name its folder with --out",
        )
    return max(candidates)[1]


def resumed_x64(out: Path) -> bool:
    """Return whether the run in `out` computes in float64; False without a run."""
    return bool(folders.read_config(out).get("x64"))
