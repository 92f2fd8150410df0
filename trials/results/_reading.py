"""A folder of results, read for whoever wants them as they are: `compare`, `plot`, a notebook.

Everything in a folder is data from outside: it is checked, and all code may rely on `Results`. Of a
finished run `config.json` and `trials.npz` are read; `summary.csv` and the figures follow from
them. Of an unfinished one its chunks are read, which are stored as they finish: every file is whole
or not there, so that nobody is locked out.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._files import read_archive, read_json
from fedjax_admm._host._store import CHUNKS, Chunks
from fedjax_admm.trials.results._arrays import DETAILS, NONFINITE_ROUND, ROUND, SWEEP, defects
from fedjax_admm.trials.results._collection import collected, rounds_of_records
from fedjax_admm.trials.results._configuration import FINISHED, check_configuration, damaged
from fedjax_admm.trials.results._contract import ARRAYS, CONFIG, Results, stored_arrays


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
    config = read_json(folder / CONFIG)
    while True:
        try:
            return _read(folder, config, unfinished)
        except InputError:
            # The run may have gone on since: then what it wrote last is read.
            earlier, config = config, read_json(folder / CONFIG)
            if config == earlier:
                raise


def _read(folder: Path, config: Mapping[str, Any], unfinished: bool) -> Results:
    check_configuration(folder / CONFIG, config)
    if config["status"] == FINISHED:
        return _finished(folder, config)
    if unfinished:
        return _so_far(folder, config)
    name = config["source"]["again"] if config["source"] else config["experiment"]
    command = shlex.join(["fedjax-admm", "run", name, "--out", str(folder), "--resume"])
    raise InputError(
        f"{folder} holds an unfinished run of {config['experiment']}",
        value=folder,
        remedy=f"go on with `{command}`, or load its trials so far with unfinished=True",
    )


def _finished(folder: Path, config: Mapping[str, Any]) -> Results:
    path = folder / ARRAYS
    arrays = read_archive(path).arrays
    for defect in defects(config, arrays):
        raise damaged(path, defect)
    sweep, rounds = arrays.pop(SWEEP), arrays.pop(ROUND)
    nonfinite, details = _group(arrays, NONFINITE_ROUND), _group(arrays, DETAILS)
    return Results(config, sweep, rounds, arrays, nonfinite, details)


def _group(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    """Remove the arrays of a group from a dictionary, and return them."""
    names = [name for name in arrays if name.startswith(f"{group}/")]
    return {name.removeprefix(f"{group}/"): arrays.pop(name) for name in names}


def _so_far(folder: Path, config: Mapping[str, Any]) -> Results:
    """Return the results of the trials whose chunks are there, up to the first gap."""
    path = folder / CHUNKS
    parts: list[Mapping[str, np.ndarray]] = []
    trials = 0
    for first, arrays in Chunks(path).read(config.get("program", "")):
        stop = first + min((len(values) for values in arrays.values()), default=0)
        if first > trials:
            break
        if stop > trials:
            parts.append({name: values[trials - first :] for name, values in arrays.items()})
            trials = stop
    if not parts:
        raise InputError(
            f"{folder} holds none of the {config['trials']} trials of its run yet",
            value=folder,
            remedy="wait for the first of them",
        )
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    records = max(values.shape[2] for values in joined.values() if values.ndim == 3)
    results = collected(config, joined, rounds_of_records(config["rounds"], records))
    for defect in defects({**config, "trials": trials}, stored_arrays(results)):
        raise damaged(path, defect)
    return results
