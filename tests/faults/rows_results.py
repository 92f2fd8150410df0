"""Folders of results that were damaged or edited, before `plot`, `compare` and `run --resume`."""

import numpy as np

from tests.faults.prepared import finished, unfinished
from tests.faults.row import DONE, Row
from tests.faults.tampering import both, edited, lacking, recomputed, replaced

PLOT, COMPARE = ("plot", "out"), ("compare", "out")
RESUME = ("run", "consensus", "--resume", "--out", "out", "--batch", "2", "--devices", "2")
DRAWN = ("out/figure.*", "out/config.json")
TWICE = {"share": [0.0, 0.4], "rate": 0.25, "clients": 5}
SOURCE = {"asked": "a.py", "again": "/gone/a.py", "file": "/gone/a.py", "distribution": None}


def plots(name, prepare, says, **more):
    return Row(f"plot-{name}", PLOT, says, prepare=prepare, **more)


def resumes(name, prepare, says, **more):
    return Row(f"resume-{name}", RESUME, says, prepare=prepare, **more)


def compared(name, words, prepare, says, **more):
    return Row(f"compare-{name}", ("compare", *words), says, prepare=prepare, **more)


# Contents of trials.npz


def metric(change):
    """Return what changes the errors of `steady`."""

    def apply(arrays):
        arrays["steady/error"] = change(arrays["steady/error"])

    return apply


def put(name, array):
    return lambda arrays: arrays.update({name: array})


def renamed(name, new):
    return lambda arrays: arrays.update({new: arrays.pop(name)})


COMPUTED = [
    compared(name, ["out"], recomputed(change), says)
    for name, change, says in (
        ("no-sweep", renamed("sweep", "sweeps"), "lacks sweep"),
        ("sweep-longer", put("sweep", np.arange(3.0)), r"'sweep' must have shape \(2,\)"),
        ("metric-fewer-trials", metric(lambda error: error[:, :5]), r"shape \(2, 12, 10\), but"),
        ("metric-objects", metric(lambda error: error.astype(object)), "trials.npz is damaged"),
    )
]

# Files that are other bytes, or no files


BYTES = [
    plots("config-binary", replaced("config.json", bytes(range(256))), "config.json cannot be"),
    plots("config-other", replaced("config.json", b'{"a": 1}'), "lacks experiment, source"),
    plots("config-gone", replaced("config.json", None), "config.json does not exist"),
    plots("arrays-empty", replaced("trials.npz", b""), "trials.npz is damaged"),
    plots("without-methods", lacking("methods"), "it lacks methods"),
]

# Sound, but not what was asked for

TWO = ("out", "other")
ASKED = [
    plots("unfinished", unfinished, r"Wrote out/unfinished/.* of \d+ trials", wanted=DONE),
    plots("unknown-experiment", edited(experiment="nobody"), "there is no experiment 'nobody'"),
    plots("gone-file", edited(source=SOURCE, digest="0" * 64), "/gone/a.py', a program that is"),
    plots("extra-key", edited(mine="a note"), "Wrote", wanted=DONE, changes=DRAWN),
    plots("figure-gone", replaced("figure.png", None), "Wrote", wanted=DONE, changes=DRAWN),
    Row("plot-file", ("plot", "out/config.json"), "does not exist", prepare=finished),
    resumes("other-experiment", edited(start=unfinished, experiment="cauchy"), "cauchy"),
    resumes("extra-setting", edited("settings", start=unfinished, more=1), "no setting 'more'"),
    compared("unfinished", ["out"], unfinished, "Not finished: out", wanted=DONE),
    compared("twice", ("out", "./out/../out"), finished, "is given twice"),
    compared("against-nobody", ("out", "--against", "x"), finished, "no method 'x'; it has steady"),
    compared("unknown-metric", ("out", "--metric", "x"), finished, "no metric 'x'; it has error"),
    compared(
        "metric-of-some",
        ("out", "--metric", "numbers_up"),
        finished,
        "Left out, for there is no numbers_up to compare: exact",
        wanted=DONE,
    ),
    compared("other-seed", TWO, both(seed=1), "trials are independent", wanted=DONE),
    compared(
        "other-settings",
        TWO,
        both(settings=TWICE | {"rate": 0.5}),
        r"differ in their settings: rate\. They are paired, and the standard\s+errors hold, only",
        wanted=DONE,
    ),
    compared("the-same-numbers", TWO, both(), r"\+0\.0000", wanted=DONE),
    compared(
        "NaN",
        ("out",),
        recomputed(metric(lambda error: np.full_like(error, np.nan))),
        r"fragile +0 +- +- +- +-",
        wanted=DONE,
    ),
]

ROWS = [*COMPUTED, *BYTES, *ASKED]
