"""A folder of results, read for whoever wants them as they are: `compare`, `plot`, a notebook.

Everything in a folder is data from outside: it is checked, and all code may rely on `Results`. Of a
finished run `config.json` and `trials.npz` are read; `summary.csv` and the figures follow from
them. Of an unfinished one its chunks are read, which are stored as they finish: every file is whole
or not there, so that nobody is locked out.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError, listed, shape_text
from fedjax_admm._host._files import read_archive, read_json
from fedjax_admm._host._store import CHUNKS, Chunks
from fedjax_admm.traffic import Traffic, totals
from fedjax_admm.trials.results._contract import (
    ARRAYS,
    CONFIG,
    DETAILS,
    FINISHED,
    MESSAGES,
    NONFINITE_ROUND,
    ROUND,
    SWEEP,
    Results,
    stored_arrays,
)

RESTORE = "put back what the run wrote, or run it again into another folder"

_REQUIRED = (
    *("experiment", "source", "digest", "title", "statement", "parameter", "parameter_label"),
    *("metrics", "methods", "trials", "rounds", "seed", "settings", "data", "devices_per_trial"),
    *("x64", "quick", "traffic", "versions", "device", "partitioned", "width", "chunk", "status"),
)


def check_configuration(path: Path, config: Mapping[str, Any]) -> None:
    """Check that `config.json`, of a finished or an unfinished run, holds all that is read of it.

    Args:
      path: of the file, for the message.
      config: what was read from it.
    """
    missing = [name for name in _REQUIRED if name not in config]
    if missing:
        few = missing if len(missing) <= 4 else [*missing[:3], f"{len(missing) - 3} more"]
        raise damaged(path, f"it lacks {listed(few)}")


def damaged(path: Path, defect: str) -> InputError:
    """Return the mistake that a file is not what the run wrote."""
    return InputError(f"{path} is not what a run writes: {defect}", value=path, remedy=RESTORE)


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


def defects(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yield the defects of arrays, in words that go on after the name of their file.

    Args:
      config: a configuration that has been checked.
      arrays: all that the file holds.
    """
    missing = [name for name in (SWEEP, ROUND) if name not in arrays]
    if missing:
        yield f"it lacks {listed(missing)}"
        return
    swept = len(config["settings"][config["parameter"]])
    shape = (swept, config["trials"], arrays[ROUND].size)
    for name, array in arrays.items():
        group = name.partition("/")[0]
        wanted = {SWEEP: shape[:1], ROUND: shape[2:], NONFINITE_ROUND: shape[:2]}.get(group, shape)
        if group != DETAILS and array.shape != wanted:
            yield f"{name!r} must have shape {shape_text(wanted)}, but it has {array.shape}"


def collected(
    config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], rounds: np.ndarray
) -> Results:
    """Return the results of trials: their axes in the contract's order, messages as numbers sent.

    Args:
      config: the configuration of their run.
      arrays: by "method/metric", with axes (trial, sweep, round).
      rounds: how many rounds are done at each record, shape (round,), int.
    """
    found: dict[str, np.ndarray] = {}
    nonfinite: dict[str, np.ndarray] = {}
    compressed = any(sizes and sizes["up_bits"] is not None for sizes in config["traffic"].values())
    for method, sizes in config["traffic"].items():
        for name, values in arrays.items():
            owner, _, metric = name.rpartition("/")
            if owner != method:
                continue
            values = np.swapaxes(values, 0, 1)
            if metric == NONFINITE_ROUND:
                nonfinite[method] = values
            elif metric == MESSAGES:
                sent = totals(Traffic(**sizes), values, rounds)
                found |= {f"{method}/numbers_up": sent.up, f"{method}/numbers_down": sent.down}
                if compressed:
                    found |= {
                        f"{method}/bits_up": sent.up_bits,
                        f"{method}/bits_down": sent.down_bits,
                    }
            else:
                found[name] = values
    sweep = np.asarray(config["settings"][config["parameter"]], np.float64)
    return Results(config, sweep, rounds, found, nonfinite)


def rounds_of_records(rounds: int, records: int) -> np.ndarray:
    """Return how many rounds are done at each record, from their number alone, shape (records,).

    A run records every `k` rounds and at its end, ceil(rounds / k) times; where `k` divides the
    rounds or is itself ceil(rounds / n), it follows from that number as ceil(rounds / records).
    """
    every = -(-rounds // records)
    return np.minimum(every * np.arange(1, records + 1), rounds)
