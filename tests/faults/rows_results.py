"""Folders of results that were damaged or edited, before `plot`, `compare` and `run --resume`."""

import numpy as np

from tests.faults.prepared import finished, unfinished
from tests.faults.row import DONE, Row
from tests.faults.tampering import (
    SHAPES,
    both,
    edited,
    exchanged,
    lacking,
    recomputed,
    replaced,
    truncated,
)

PLOT, COMPARE = ("plot", "out"), ("compare", "out")
RESUME = ("run", "consensus", "--resume", "--out", "out", "--batch", "2", "--devices", "2")
DRAWN = ("out/figure.*", "out/config.json")
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
TWICE, NEITHER = {"share": [0.0, 0.4], "rate": 0.25, "clients": 5}, {"rate": 0.25, "clients": 5}
SOURCE = {"asked": "a.py", "again": "/gone/a.py", "file": "/gone/a.py", "distribution": None}


def plots(name, prepare, says, **more):
    return Row(f"plot-{name}", PLOT, says, prepare=prepare, **more)


def resumes(name, prepare, says, **more):
    return Row(f"resume-{name}", RESUME, says, prepare=prepare, **more)


# What stands in config.json: key -> (what is wrong with it, a value, what is told)
WRONG = {
    "experiment-number": ("experiment", 7, "experiment must be a text"),
    "experiment-controls": ("experiment", "a\x1b[2J", "experiment must be a text of one line"),
    "source-list": ("source", ["a.py"], "source must be null or an object"),
    "source-number": ("source", SOURCE | {"file": 3}, "source must be null or an object"),
    "source-nothing": ("source", SOURCE | {"again": None}, "source must say"),
    "source-zero-byte": ("source", SOURCE | {"file": "/a\0.py"}, "source must be null or an obj"),
    "digest-text": ("digest", "abc", "digest must be null or a SHA-256"),
    "digest-alone": ("digest", "0" * 64, "without a source must have no digest"),
    "title-none": ("title", None, "title must be a text"),
    "statement-object": ("statement", {}, "statement must be null or a text"),
    "parameter-empty": ("parameter", " ", "parameter must be a text of one line"),
    "parameter-other": ("parameter", "rate", "settings must hold the list"),
    "label-list": ("parameter_label", [], "parameter_label must be a text"),
    "metrics-none": ("metrics", {}, "metrics must be an object"),
    "metrics-list": ("metrics", ["error"], "metrics must be an object"),
    "metrics-number": ("metrics", {"error": 1}, "metrics must be an object"),
    "methods-text": ("methods", "steady", "methods must be a list"),
    "methods-empty": ("methods", [], "methods must be a list"),
    "methods-nested": ("methods", [["steady"]], "methods must be a list"),
    "methods-twice": ("methods", ["steady", "steady"], "methods must be a list of different"),
    "methods-fewer": ("methods", ["steady"], "methods must be those of its traffic"),
    "trials-text": ("trials", "12", "trials must be a whole number"),
    "trials-zero": ("trials", 0, "trials must be a whole number from 1"),
    "trials-true": ("trials", True, "trials must be a whole number"),
    "trials-huge": ("trials", 10**400, "trials must be a whole number"),
    "rounds-half": ("rounds", 20.5, "rounds must be a whole number"),
    "rounds-negative": ("rounds", -20, "rounds must be a whole number"),
    "seed-large": ("seed", 2**32, "seed must be a whole number from 0"),
    "settings-list": ("settings", [1], "settings must be an object"),
    "settings-nested": ("settings", TWICE | {"rate": {"a": 1}}, "settings must be an object"),
    "settings-texts": ("settings", TWICE | {"share": ["0"]}, "settings must be an object"),
    "settings-none": ("settings", TWICE | {"rate": None}, "settings must be an object"),
    "settings-huge": ("settings", TWICE | {"share": [10**400]}, "settings must be an object"),
    "settings-without-sweep": ("settings", NEITHER, "settings must hold the list"),
    "settings-nothing-swept": ("settings", TWICE | {"share": []}, "settings must be an object"),
    "data-none": ("data", None, "data must be a text"),
    "devices-zero": ("devices_per_trial", 0, "devices_per_trial must be"),
    "x64-text": ("x64", "no", "x64 must be true or false"),
    "quick-number": ("quick", 0, "quick must be true or false"),
    "traffic-list": ("traffic", [], "traffic must be an object"),
    "traffic-negative": ("traffic", {"steady": {"up": -1}}, "traffic must be an object"),
    "versions-none": ("versions", None, "versions must be an object"),
    "versions-empty": ("versions", {}, "versions must be an object"),
    "versions-number": (
        "versions",
        dict.fromkeys(("fedjax-admm", "code", "jax", "jaxlib"), 1),
        "versions must be an object",
    ),
    "device-text": ("device", "cpu", "device must be an object"),
    "device-empty": ("device", {}, "device must be an object"),
    "partitioned-none": ("partitioned", None, "partitioned must be true or false"),
    "width-zero": ("width", 0, "width must be a whole number"),
    "chunk-text": ("chunk", "4", "chunk must be a whole number"),
    "status-nonsense": ("status", "done", "status must be 'finished' or 'running'"),
    "status-list": ("status", ["finished"], "status must be 'finished' or 'running'"),
    "program-short": ("program", "abc", "program must be a SHA-256"),
    "long": ("title", "a" * 20_000, "title must be a text"),
}
CONFIGURED = [
    (resumes if i % 2 else plots)(
        name,
        edited(start=unfinished if i % 2 else finished, sign=not i % 2, **{key: value}),
        says,
    )
    for i, (name, (key, value, says)) in enumerate(WRONG.items())
]
KEYS = ("experiment", "methods", "settings", "versions", "device", "status", "width", "x64")

# What stands in trials.npz


def metric(change):
    """Return what changes the errors of `steady`."""

    def apply(arrays):
        arrays["steady/error"] = change(arrays["steady/error"])

    return apply


def put(name, array):
    return lambda arrays: arrays.update({name: array})


def renamed(name, new):
    return lambda arrays: arrays.update({new: arrays.pop(name)})


def flags(number, dtype=np.int32):
    return put("first_nonfinite_round/steady", np.full((2, 12), number, dtype))


WRONG_ARRAYS = {
    "no-sweep": (renamed("sweep", "sweeps"), "lacks sweep"),
    "no-round": (renamed("round", "rounds"), "lacks round"),
    "nothing-at-all": (lambda arrays: {}, "lacks sweep and round"),
    "no-metric": (
        lambda arrays: {name: arrays[name] for name in ("sweep", "round")},
        "holds none of the metrics",
    ),
    "sweep-other": (put("sweep", np.array([0.0, 0.5])), "'sweep' must be the share"),
    "sweep-swapped": (put("sweep", np.array([0.4, 0.0])), "'sweep' must be the share"),
    "sweep-NaN": (put("sweep", np.array([0.0, np.nan])), "'sweep' must be the share"),
    "sweep-longer": (put("sweep", np.array([0.0, 0.4, 1])), r"'sweep' must have shape \(2,\)"),
    "sweep-scalar": (put("sweep", np.array(0.0)), r"'sweep' must have shape \(2,\)"),
    "sweep-text": (put("sweep", np.array(["a", "b"])), "'sweep' must hold real numbers"),
    "round-empty": (put("round", np.zeros(0, int)), r"'round' must have shape \(1,\)"),
    "round-falling": (put("round", np.arange(20, 0, -2)), "'round' must be increasing"),
    "round-equal": (put("round", np.full(10, 20)), "'round' must be increasing"),
    "round-zero": (put("round", np.array([0, *range(4, 21, 2)])), "'round' must be increasing"),
    "round-late": (put("round", np.arange(2, 21, 2) * 2), "'round' must be increasing"),
    "round-unsigned": (
        put("round", np.array([4, 2, *range(6, 21, 2)], np.uint64)),
        "'round' must be increasing",
    ),
    "round-half": (put("round", np.arange(2.0, 21, 2)), "'round' must hold whole numbers"),
    "round-table": (put("round", np.ones((5, 2), int)), r"'round' must have shape \(10,\)"),
    "round-more": (put("round", np.arange(10, 21)), r"must have shape \(2, 12, 11\)"),
    "metric-fewer-trials": (metric(lambda error: error[:, :5]), r"shape \(2, 12, 10\), but it has"),
    "metric-fewer-values": (metric(lambda error: error[:1]), r"shape \(2, 12, 10\), but it has"),
    "metric-fewer-records": (metric(lambda error: error[..., :1]), r"shape \(2, 12, 10\)"),
    "metric-turned": (metric(lambda error: error.T), r"shape \(2, 12, 10\), but it has"),
    "metric-flat": (metric(lambda error: error.reshape(-1)), r"shape \(2, 12, 10\)"),
    "metric-empty": (metric(lambda error: error[:0]), r"shape \(2, 12, 10\), but it has"),
    "metric-scalar": (metric(lambda error: np.float32(1)), r"shape \(2, 12, 10\)"),
    "metric-complex": (metric(lambda error: error * 1j), "must hold real numbers"),
    "metric-text": (metric(lambda error: error.astype("U9")), "must hold real numbers"),
    "metric-dates": (metric(lambda error: error.astype("M8[s]")), "must hold real numbers"),
    "metric-records": (
        metric(lambda error: np.zeros(error.shape, [("a", "f4")])),
        "must hold real numbers",
    ),
    "metric-objects": (metric(lambda error: error.astype(object)), "trials.npz"),
    "metric-of-nobody": (renamed("steady/error", "unknown/error"), "is no metric of steady"),
    "metric-of-none": (put("error", np.ones((2, 12, 10))), "'error' is no metric of"),
    "metric-unnamed": (put("steady/", np.ones((2, 12, 10))), "'steady/' is no metric of"),
    "flags-negative": (flags(-1), "must be rounds from 0 to 20"),
    "flags-late": (flags(21), "must be rounds from 0 to 20"),
    "flags-huge": (flags(2**63, np.uint64), "must be rounds from 0 to 20"),
    "flags-half": (flags(0.5, float), "must hold whole numbers"),
    "flags-NaN": (flags(np.nan, float), "must hold whole numbers"),
    "flags-shape": (put("first_nonfinite_round/steady", np.zeros(12, int)), "must have shape"),
    "flags-of-nobody": (
        renamed("first_nonfinite_round/steady", "first_nonfinite_round/x"),
        "'first_nonfinite_round/x' is no metric",
    ),
    "detail-text": (put("details/a", np.array("a")), "'details/a' must hold real numbers"),
    "detail-unnamed": (put("details/", np.ones(1)), "'details/' is no metric"),
}
COMPUTED = [
    Row(
        f"{'compare' if i % 2 else 'plot'}-{name}",
        COMPARE if i % 2 else PLOT,
        says,
        prepare=recomputed(change),
    )
    for i, (name, (change, says)) in enumerate(WRONG_ARRAYS.items())
]


# Files that are other bytes, or no files

PLACES = [
    Row(
        f"{command}-{name}-{kind}",
        {"plot": PLOT, "compare": COMPARE, "resume": RESUME}[command],
        name,
        prepare=exchanged(name, SHAPES[kind], unfinished if command == "resume" else finished),
        # A link to nowhere is a configuration that is gone.
        limit=20,
    )
    for command, name, kinds in (
        ("plot", "config.json", ("folder", "loop", "dangling", "endless", "fifo")),
        ("compare", "trials.npz", ("folder", "loop", "dangling", "endless", "fifo")),
        ("resume", "config.json", ("folder", "endless", "fifo")),
    )
    for kind in kinds
]
BYTES = [
    plots("config-empty", replaced("config.json", b""), "config.json cannot be read"),
    plots("config-binary", replaced("config.json", bytes(range(256))), "config.json cannot be"),
    plots("config-list", replaced("config.json", b"[1]"), "config.json cannot be read"),
    plots("config-other", replaced("config.json", b'{"a": 1}'), "lacks experiment, source"),
    plots("config-deep", replaced("config.json", DEEP), "config.json cannot be read"),
    plots("config-cut", truncated("config.json"), "config.json cannot be read"),
    plots("config-gone", replaced("config.json", None), "config.json does not exist"),
    plots("arrays-cut", truncated("trials.npz"), "trials.npz has changed since"),
    plots("arrays-empty", replaced("trials.npz", b""), "trials.npz has changed since"),
    plots("arrays-gone", replaced("trials.npz", None), "trials.npz does not exist"),
    plots(
        "arrays-edited",
        recomputed(metric(lambda error: error / 2), sign=False),
        "trials.npz has changed since the run wrote it; put back",
    ),
    plots("config-edited", edited(sign=False, seed=7), "config.json has changed since the run"),
    resumes("config-empty", replaced("config.json", b"", unfinished), "config.json cannot be"),
    resumes("config-binary", replaced("config.json", b"\xff\xfe", unfinished), "cannot be read"),
    resumes("config-other", replaced("config.json", b"{}", unfinished), "is not what a run writes"),
    resumes("config-deep", replaced("config.json", DEEP, unfinished), "config.json cannot be"),
    resumes("config-cut", truncated("config.json", start=unfinished), "config.json cannot be"),
    *(
        (resumes if i % 2 else plots)(
            f"without-{key}",
            lacking(key, start=unfinished if i % 2 else finished),
            f"it lacks {key}",
        )
        for i, key in enumerate(KEYS)
    ),
]

# Sound, but not what was asked for; or edited where nobody looks

ASKED = [
    plots("unfinished", unfinished, r"Wrote out/unfinished/.* of \d+ trials", wanted=DONE),
    Row("compare-unfinished", COMPARE, "Not finished: out", DONE, prepare=unfinished),
    plots("unknown-experiment", edited(experiment="nobody"), "there is no experiment 'nobody'"),
    plots("gone-file", edited(source=SOURCE, digest="0" * 64), "/gone/a.py', a program that is"),
    plots("as-it-was", finished, "Wrote", wanted=DONE, changes=DRAWN),
    plots("extra-key", edited(mine="a note"), "Wrote", wanted=DONE, changes=DRAWN),
    plots("no-summary", replaced("summary.csv", None), "Wrote", wanted=DONE, changes=DRAWN),
    plots("summary-edited", replaced("summary.csv", b"\0"), "Wrote", wanted=DONE, changes=DRAWN),
    plots(
        "NaN",
        recomputed(metric(lambda error: np.full_like(error, np.nan))),
        "Wrote",
        wanted=DONE,
        changes=DRAWN,
    ),
    plots(
        "huge",
        recomputed(metric(lambda error: np.full(error.shape, 1.7e308))),
        "Wrote",
        wanted=DONE,
        changes=DRAWN,
    ),
    plots("figure-edited", replaced("figure.png", b"mine"), "figure.png is not what was written"),
    plots("figure-gone", replaced("figure.png", None), "Wrote", wanted=DONE, changes=DRAWN),
    plots("figure-folder", exchanged("figure.pdf", SHAPES["folder"]), "figure.pdf"),
    plots("figure-link", exchanged("figure.pdf", SHAPES["dangling"]), "figure.pdf is a link"),
    Row("plot-nothing", ("plot", "nothing"), "nothing/config.json does not exist"),
    Row("plot-file", ("plot", "out/config.json"), "does not exist", prepare=finished),
    resumes("other-experiment", edited(start=unfinished, experiment="cauchy"), "cauchy"),
    resumes("other-seed", edited(start=unfinished, seed=1), "out"),
    resumes("other-x64", edited(start=unfinished, x64=True), "out"),
    resumes("other-rounds", edited(start=unfinished, rounds=30), "out"),
    resumes("other-version", edited("versions", start=unfinished, jax="0.1"), "begun with jax 0.1"),
    resumes("other-device", edited("device", start=unfinished, kind="tpu"), "begun on tpu"),
    resumes("other-setting", edited("settings", start=unfinished, rate=0.5), "out"),
    resumes("extra-setting", edited("settings", start=unfinished, more=1), "no setting 'more'"),
    resumes("source-invented", edited(start=unfinished, source=SOURCE, digest="0" * 64), "other"),
]


def compared(name, words, prepare, says, **more):
    return Row(f"compare-{name}", ("compare", *words), says, prepare=prepare, **more)


TWO = ("out", "other")
COMPARED = [
    compared("twice", ("out", "out"), finished, "out is given twice"),
    compared("twice-otherwise", ("out", "./out/../out"), finished, "is given twice"),
    compared("against-nobody", ("out", "--against", "x"), finished, "no method 'x'; it has steady"),
    compared("unknown-metric", ("out", "--metric", "x"), finished, "no metric 'x'; it has error"),
    compared(
        "metric-of-some",
        ("out", "--metric", "numbers_up"),
        finished,
        "Left out, for there is no numbers_up to compare: exact",
        wanted=DONE,
    ),
    compared(
        "against-without-metric",
        ("out", "--metric", "numbers_up", "--against", "exact"),
        finished,
        "was not measured for exact",
    ),
    compared("other-seed", TWO, both(seed=1), "trials are independent", wanted=DONE),
    compared("other-x64", TWO, both(x64=True), "cannot be compared: x64 is False"),
    compared("other-data", TWO, both(data="elsewhere"), "cannot be compared: data is"),
    compared("other-experiment", TWO, both(experiment="b"), "cannot be compared: experiment is"),
    compared("second-missing", TWO, finished, "other/config.json does not exist"),
    compared(
        "other-settings",
        TWO,
        both(settings=TWICE | {"rate": 0.5}),
        r"differ in their settings: rate\. They are paired, and the standard\s+errors hold, only",
        wanted=DONE,
    ),
    compared(
        "other-versions",
        TWO,
        both(versions=dict.fromkeys(("fedjax-admm", "code", "jax", "jaxlib"), "9")),
        "differ in their versions",
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
    compared(
        "tiny",
        ("out", "--against", "exact"),
        recomputed(metric(lambda error: np.full(error.shape, 1e-9))),
        r"steady +12 +[+-]\d\.\d{3}e-",
        wanted=DONE,
    ),
    compared(
        "overflowing",
        ("out", "--against", "exact"),
        recomputed(metric(lambda error: np.full(error.shape, -1.7e308))),
        r"steady +12 +-1\.700e\+308",
        wanted=DONE,
    ),
]

ROWS = [*CONFIGURED, *COMPUTED, *PLACES, *BYTES, *ASKED, *COMPARED]
