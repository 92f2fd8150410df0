r"""Error against the mean delay of messages: asynchronous ADMM against averaging, on three tasks.

    LAD             mean of |y - <x, w>| over all clients' samples; not smooth
    least squares   the same data, half of the squares; smooth
    localisation    FSMDM against subgradients; ranges with Cauchy noise

Errors are `||w - w*|| / ||w*||` with w* the minimiser over all samples (by ADMM on all of them
together, and by normal equations), and in localisation the distance from the target, in metres. All
clients take part in all rounds; what they say is late.

Laws of delays, all with the same mean wait of all messages:

    geometric       P(wait = k) = p (1 - p)^k, p = 1 / (1 + mean); messages overtake each other
    in order        the same draws, but what would overtake waits until the one before it arrives
    heavy-tailed    P(wait >= k) = (1 + k / scale)^-1.5
    lossy           geometric, and three of ten messages never arrive

Waits are cut at `DEPTH` rounds, where what is still on its way arrives. In order, messages wait
longer than they would: the mean is that of the draws.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import messages, solvers
from fedjax_admm._checks import count, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm
from fedjax_admm.problems import cauchy_noise, draw_localization
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments import _tuning
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import tuned_rows
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._tuning import Setting, Tuned, between, chosen_setting
from fedjax_admm.trials.experiments.messages._by_number import ADelay, SoughtMethod
from fedjax_admm.trials.experiments.messages._tasks import draw_data, solved, squares_problem
from fedjax_admm.trials.experiments.peers._pinball import pinball_problem

LAWS = ("geometric", "heavy-tailed", "lossy")
DEPTH = 100
EXPONENT = 1.5
LOST = 0.3
PASSES = 3
_HIGHEST = jax.lax.Precision.HIGHEST


class Posed(NamedTuple):
    """A problem, and what is to be found."""

    problem: Any
    solution: jax.Array  # shape=(dim,)
    unit: jax.Array  # shape=(): of the error


@dataclass(frozen=True)
class Late(Tuned):
    """A solver of a task; two numbers are tuned."""

    task: str = ""


# --- problems ---


def draw_problems(settings: Settings, mean: Any, key: jax.Array) -> dict[str, Posed]:
    """Draw the problems of all tasks; the two regressions have the same data."""
    number("mean", mean, at_least=0)
    data_key, cube_key = jax.random.split(key)
    data = draw_data(settings, data_key)
    x, y = data.x.reshape(-1, data.x.shape[-1]), data.y.ravel()
    gram, right = (jnp.matmul(x.T, each, precision=_HIGHEST) for each in (x, y))
    best = solved(gram, right)
    noise = cauchy_noise(number("noise", settings["noise"], at_least=0))
    sensors = count("sensors", settings["sensors"], at_least=4)
    cube = draw_localization(cube_key, noise, clients=sensors)
    target = jnp.asarray(cube.target)
    kinks = pinball_problem(data.x, data.y, 0.5, PASSES)
    return {
        "LAD": Posed(kinks, data.best, safe_norm(data.best)),
        "least squares": Posed(squares_problem(data), best, safe_norm(best)),
        "localisation": Posed(cube, target, jnp.ones((), target.dtype)),
    }


# --- solvers ---

_RATES = (0.01, 0.03, 0.1)
_FEW = (0.1, 0.3, 1.0)
_BY_TASK = {
    "LAD": {
        "FedADMM": (_tuning.with_prox(solvers.fed_admm), between(0.3, 100.0, 12)),
        "FedAvg": (_tuning.averaging, between(0.0001, 0.1, 12)),
        "SCAFFOLD": (_tuning.with_variates, _FEW, (0.001, 0.003, 0.01, 0.03)),
        "subgradient": (_tuning.subgradient, between(0.3, 10.0, 6), (0.5, 1.0)),
    },
    "least squares": {
        "FedADMM": (_tuning.with_steps(solvers.fed_admm), (0.3, 1.0, 3.0, 10.0), _RATES),
        "FedAvg": (_tuning.averaging, between(0.0001, 0.1, 12)),
        "SCAFFOLD": (_tuning.with_variates, _FEW, (0.003, 0.01, 0.03, 0.1)),
    },
    "localisation": {
        "FSMDM": (partial(_tuning.scaled, "tuned"), between(0.1, 10.0, 6), (0.3, 1.0)),
        "subgradient": (_tuning.subgradient, between(3.0, 100.0, 6), (0.5, 1.0)),
    },
}
SOLVERS = {
    f"{task}: {name}": Late(*how, task=task)
    for task, named in _BY_TASK.items()
    for name, how in named.items()
}
"""What a solver on a task is called -> what it is."""


# --- delays ---


def _scale_of(mean: jax.Array) -> jax.Array:
    """Return the scale at which heavy-tailed waits, cut at `DEPTH`, have a mean, shape ()."""
    scales = np.geomspace(1e-3, 1e4, 400)
    waits = np.arange(1, DEPTH + 1)
    means = np.sum((1 + waits[None] / scales[:, None]) ** -EXPONENT, 1)
    logs = jnp.interp(mean, jnp.asarray(means, mean.dtype), jnp.asarray(np.log(scales), mean.dtype))
    return jnp.exp(logs)


def delays(mean: jax.Array) -> tuple[messages.Delay, ...]:
    """Return the delays in the order of `LAWS`."""
    geometric = messages.geometric_delay(mean, DEPTH, late="last")
    # A scale above the first of the table would be one of a mean that is not 0.
    scale = jnp.where(mean > 0, _scale_of(mean), 1e-12)
    return (
        geometric,
        messages.heavy_tailed_delay(EXPONENT, DEPTH, scale=scale, late="last"),
        messages.lossy(LOST, geometric),
    )


@pytree_dataclass
class Delayed(SoughtMethod):
    """A solver of a task whose messages up are late."""

    law: jax.Array  # shape=(), int32: its place in `LAWS`
    mean: jax.Array  # shape=(): of the waits
    setting: Setting  # of the solver, numbers of shape ()
    solver_name: str = field(metadata={"static": True})
    in_order: bool = field(metadata={"static": True})

    def sought(self, problem):
        """Return the task's problem and its solution."""
        return problem[SOLVERS[self.solver_name].task]

    def posed(self, problem, key, rounds):
        """Return the task's problem, and its solver with late messages."""
        return self.sought(problem).problem, self.solver(), key

    def solver(self) -> Any:
        """Return the solver, with late messages."""
        if self.in_order:
            delay: Any = messages.geometric_delay(self.mean, DEPTH, late="last", in_order=True)
        else:
            delay = ADelay(delays(self.mean), self.law)
        late = messages.exchange(delay=delay)
        return SOLVERS[self.solver_name].build(self.setting, exchange=late)


# --- the experiment ---

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
