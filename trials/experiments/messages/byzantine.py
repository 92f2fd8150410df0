"""Error against the share of Byzantine senders, by aggregator and attack."""

from functools import partial
from typing import Any

import jax.numpy as jnp

from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import tuned_rows
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments.messages._attacked import (
    AGGREGATORS,
    ATTACKS,
    SHOWN,
    TARGETS,
    Attacked,
    Radii,
    draw_problems,
)

CHOSEN = {
    row["task"]: tuple(float(row[name]) for name in ("number", "clipping", "bounding"))
    for row in tuned_rows("byzantine")
}
"""Task -> the number of its solver, and the radii of clipping and bounding, as `python
benchmarks/tune.py messages-byzantine` prints them from 8 tuning problems: the best number
without Byzantine senders, then the best radii by the mean over attacks at the share 0.2."""
EXPECTED = 0.4
"""The share of Byzantine senders that trimmed means, Krum and multi-Krum are told to expect."""
RULES = ("mean", "median", "trimmed mean", "geometric median", "multi-Krum", "centred clipping")
"""The aggregators that the figure shows."""
COLUMNS = ("sign flip", "mimic", "a little is enough")


def methods_of(settings: Settings, share: Any) -> dict[str, Attacked]:
    """Return a method for every attack and aggregator of every task."""
    methods = {}
    for task, target in TARGETS.items():
        number, clipping, bounding = (jnp.asarray(each, float) for each in CHOSEN[task])
        for which, attack in enumerate(SHOWN[task]):
            for place, aggregator in enumerate(AGGREGATORS):
                methods[f"{task}{figures.SEPARATOR}{aggregator}, {attack}"] = Attacked(
                    jnp.asarray(which, jnp.int32),
                    jnp.asarray(place, jnp.int32),
                    number,
                    Radii(clipping, bounding),
                    EXPECTED,
                    settings[target.senders],
                    task,
                )
    return methods


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["messages-byzantine"],
        sweep=Sweep("share", "share of Byzantine senders", (0.0, 0.1, 0.2, 0.4, 0.45)),
        problem=draw_problems,
        methods=methods_of,
        figure=partial(
            figures.attacks_figure,
            metric="error",
            attacks=COLUMNS,
            leading=("FedADMM", "FSMDM", "HFSAD"),
        ),
        shown=tuple(f"{rule}, {attack}" for rule in RULES for attack in ATTACKS),
        metrics={"error": "error (FSMDM: in metres; else relative)"},
        settings={
            "sensors": 21,
            "noise": 1.0,
            "clients": 21,
            "edges": 11,
            "below": 3,
            "samples": 10,
            "dim": 5,
            "shift": 1.0,
        },
        rounds=80,
        records=4,
        quick={"trials": 4, "rounds": 20},
    ),
)
