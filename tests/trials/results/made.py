"""Results made up for tests of readers, and the folder that a run with them would leave."""

import json
import shutil

import numpy as np

from fedjax_admm.trials.results import Results
from fedjax_admm.trials.running import Request, run_experiment
from tests.trials.small import EXPERIMENT

RESULT = ("trials.npz", "summary.csv", "figure.png", "figure.pdf", "figure.txt")
METRICS = ("error", "fresh_error", "training_error", "objective", "passes", "gradients")
METRICS += ("numbers_up", "numbers_down")
METHODS = ("a: first, 1", "a: second, 2", "b: first, 1")


def made(values, *, sweep=(0.1, 0.2), rounds=(5, 10), trials=3, methods=METHODS, **config):
    """Return results whose every metric holds the same values, over (sweep, trial, round)."""
    shape = (len(sweep), trials, len(rounds))
    values = np.broadcast_to(np.asarray(values, np.float64), shape)
    full = {
        "experiment": "consensus",
        "source": None,
        "digest": None,
        "title": "distance from the mean",
        "statement": None,
        "parameter": "share",
        "parameter_label": "share of faulty trials",
        "metrics": {name: f"{name} in m" for name in METRICS},
        "methods": list(methods),
        "trials": trials,
        "rounds": int(rounds[-1]),
        "seed": 2025,
        "settings": {"share": list(sweep), "rate": 0.25, "data": "drawn"},
        "data": "drawn",
        "devices_per_trial": 1,
        "x64": False,
        "quick": False,
        "traffic": dict.fromkeys(methods),
        "versions": {"fedjax-admm": "0.1", "code": "0", "jax": "0.10", "jaxlib": "0.10"},
        "device": {"kind": "cpu"},
        "partitioned": False,
        "width": 1,
        "chunk": 1,
        "status": "finished",
    } | config
    arrays = {f"{method}/{metric}": values for method in methods for metric in METRICS}
    flags = {method: np.zeros(shape[:2], np.int32) for method in methods}
    details = {method: np.float64(0.1) for method in methods}
    return Results(full, np.asarray(sweep, float), np.asarray(rounds), arrays, flags, details)


def write(results, folder):
    """Write `config.json` and `trials.npz`."""
    folder.mkdir(parents=True, exist_ok=True)
    results.save(folder)
    (folder / "config.json").write_text(json.dumps(results.config))


def edit(folder, **changes):
    """Change `config.json` of a folder."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def finished_run(out):
    """Run the small experiment in chunks of four trials; return its folder."""
    run_experiment(EXPERIMENT, Request(batch=4), out, progress=False)
    return out


def begun_like(whole, out, chunks):
    """Copy a finished run as a killed one leaves its folder: its first chunks, and no results."""
    shutil.copytree(whole, out)
    for path in [*(out / name for name in RESULT), *sorted(out.glob("chunks/0*.npz"))[chunks:]]:
        path.unlink()
    edit(out, status="running")
    return out
