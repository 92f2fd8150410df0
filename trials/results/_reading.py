"""Folders of runs, read: finished ones, and the trials that others have so far.

What is read is data from outside: it is checked, and whoever gets `Results` may rely on it. Of a
finished run `config.json` and `trials.npz` are read; `summary.csv` and the figures are for people,
and follow from them. Of an unfinished one its chunks are read, which are stored as they finish:
every file is whole or not there, so that nobody has to be locked out. A folder may change hands
while it is read; then it is read again.
"""

import contextlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files, folders
from fedjax_admm.trials.engine import CHUNKS, ChunkStore
from fedjax_admm.trials.results._arrays import DETAILS, NONFINITE_ROUND, ROUND, SWEEP, defects
from fedjax_admm.trials.results._collection import collected, rounds_of_records
from fedjax_admm.trials.results._configuration import (
    FINISHED,
    RESTORE,
    check_configuration,
    damaged,
)
from fedjax_admm.trials.results._contract import ARRAYS, CONFIG, Results, stored_arrays

_LOOKS = 5  # at a folder whose configuration changes while it is read


def load(folder: str | Path, *, unfinished: bool = False) -> Results:
    """Read the results of a run, and check them; nothing is locked, and nothing changed.

    Args:
      folder: of the run.
      unfinished: take the trials so far where the run has not finished, if it is being computed
        now or was stopped. They are the first of those that were asked for, without a gap, and as
        they will be in the end; `Results.extent` tells how many. What a figure shows besides
        metrics (`details`) comes with the end.

    Raises:
      InputError: the folder holds no run, or no finished one, or a file is not what the run wrote;
        or no trial has been stored yet.
    """
    folder = Path(folder)
    for look in range(_LOOKS):
        config = files.read_json(folder / CONFIG)
        try:
            return _read(folder, config, unfinished)
        except InputError:
            if look == _LOOKS - 1 or files.read_json(folder / CONFIG) == config:
                raise
    raise AssertionError("the last look returns or raises")


def _read(folder: Path, config: Mapping[str, Any], unfinished: bool) -> Results:
    check_configuration(folder / CONFIG, config)
    _check_unchanged(folder, CONFIG, config, folders.own_digest(config))
    if config["status"] == FINISHED:
        return _finished(folder, config)
    if not unfinished:
        raise _unfinished(folder, config)
    return _so_far(folder, config)


def _finished(folder: Path, config: Mapping[str, Any]) -> Results:
    path = folder / ARRAYS
    if path.is_file():  # what is no file is refused where it is read
        with contextlib.suppress(OSError):
            _check_unchanged(folder, ARRAYS, config, folders.digest(path))
    arrays = files.read_arrays(path)
    for defect in defects(config, arrays):
        raise damaged(path, defect)
    sweep, rounds = arrays.pop(SWEEP), arrays.pop(ROUND)
    nonfinite, details = _taken(arrays, NONFINITE_ROUND), _taken(arrays, DETAILS)
    return Results(config, sweep, rounds, arrays, nonfinite, details)


def _so_far(folder: Path, config: Mapping[str, Any]) -> Results:
    """Return the results of the trials whose chunks are there, up to the first gap."""
    path = folder / CHUNKS
    arrays = _joined(path, ChunkStore(path), config.get("program", ""))
    if not arrays:
        raise InputError(
            f"{folder} holds none of the {config['trials']} trials of its run yet",
            value=folder,
            remedy="wait for the first of them",
        )
    trials = len(next(iter(arrays.values())))
    try:
        records = max(values.shape[2] for values in arrays.values() if values.ndim == 3)
        found = collected(config, arrays, rounds_of_records(config["rounds"], records))
    except (ValueError, ZeroDivisionError, TypeError):  # whatever the arrays are
        raise damaged(path, "its arrays are no metrics of trials") from None
    for defect in defects({**config, "trials": trials}, stored_arrays(found)):
        raise damaged(path, defect)
    return found


def _joined(path: Path, store: ChunkStore, program: str) -> dict[str, np.ndarray]:
    """Return the arrays of all chunks, (trial, ...), up to the first trial that is missing."""
    parts: list[Mapping[str, np.ndarray]] = []
    reached = 0
    for first, arrays in store.stored(program):
        stop = first + min((len(values) for values in arrays.values()), default=0)
        if first > reached:
            break
        if stop > reached:
            parts.append({name: values[reached - first :] for name, values in arrays.items()})
            reached = stop
    try:
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    except IndexError:
        return {}
    except (KeyError, ValueError):
        raise damaged(path, "its chunks do not fit together") from None


def _unfinished(folder: Path, config: Mapping[str, Any]) -> InputError:
    source = config["source"]
    name = config["experiment"] if source is None else source["again"]
    command = shlex.join(["fedjax-admm", "run", name, "--out", str(folder), "--resume"])
    return InputError(
        f"{folder} holds an unfinished run of {config['experiment']}",
        value=folder,
        remedy=f"go on with `{command}`, or load its trials so far with unfinished=True",
    )


def _check_unchanged(folder: Path, name: str, config: Mapping[str, Any], digest: str) -> None:
    """Check that a file is the one that the run wrote, where its configuration tells its digest.

    What was edited since is not the run's any more, however well it may fit.
    """
    if config.get(folders.FILES, {}).get(name, digest) != digest:
        path = folder / name
        raise InputError(f"{path} has changed since the run wrote it", value=path, remedy=RESTORE)


def _taken(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    """Take the arrays of a group out of a dictionary."""
    prefix = f"{group}/"
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}
