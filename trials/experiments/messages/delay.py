"""Error against the mean delay of messages: asynchronous ADMM against averaging."""

from functools import partial
from typing import Any

import jax.numpy as jnp

from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import tuned_rows
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._tuning import Setting, chosen_setting
from fedjax_admm.trials.experiments.messages._late import (
    LAWS,
    SOLVERS,
    Delayed,
    draw_problems,
)

CHOSEN = {
    name: {
        float(row["mean"]): int(row["place"])
        for row in tuned_rows("delay")
        if row["solver"] == name
    }
    for name in SOLVERS
}
"""Solver -> mean delay -> place of the best of 12 settings in its grid, by the mean error after the
last round under the geometric law on 8 tuning problems (60 of localisation); printed by `python
benchmarks/tune.py messages-delay`."""
IN_ORDER = ("LAD: FedADMM", "LAD: FedAvg", "localisation: FSMDM")
"""Who is also looked at with messages that keep their order."""


def methods_of(settings: Settings, mean: Any) -> dict[str, Delayed]:
    """Return the methods: every solver under every law, with settings tuned under the first.

    "NAME" is tuned at every mean delay, "NAME, not retuned" keeps the settings of no delay.
    """
    mean = jnp.asarray(mean, float)
    methods = {}
    for name, solver in SOLVERS.items():
        places = CHOSEN[name]
        tuned = chosen_setting(solver.grid(), places, mean)
        prompt = solver.grid()[places[0.0]]
        prompt = Setting(*(jnp.asarray(each, float) for each in prompt))

        def late(law: int, setting: Setting, *, in_order: bool = False, name=name) -> Delayed:
            return Delayed(jnp.asarray(law, jnp.int32), mean, setting, name, in_order)

        methods[name] = late(0, tuned)
        methods[f"{name}, not retuned"] = late(0, prompt)
        for law, called in enumerate(LAWS[1:], 1):
            methods[f"{name}, {called}"] = late(law, tuned)
        if name in IN_ORDER:
            methods[f"{name}, in order"] = late(0, tuned, in_order=True)
    return methods


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["messages-delay"],
        sweep=Sweep("mean", "mean delay (rounds)", (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)),
        problem=draw_problems,
        methods=methods_of,
        figure=partial(figures.delays_figure, metric="error", shown=10.0, beside=("not retuned",)),
        shown=(
            *("FedADMM", "FedADMM, not retuned", "SCAFFOLD", "SCAFFOLD, not retuned"),
            *("FedAvg", "subgradient", "FSMDM", "FSMDM, not retuned"),
        ),
        metrics={"error": "error (localisation: in metres; else relative)"},
        settings={
            "sensors": 21,
            "noise": 1.0,
            "clients": 20,
            "samples": 10,
            "dim": 5,
            "shift": 1.0,
        },
        rounds=300,
        records=30,
        quick={"trials": 4, "rounds": 20},
    ),
)
