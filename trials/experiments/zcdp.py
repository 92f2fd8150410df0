"""Experiments on private networked learning.

F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated Learning for
Nonsmooth Objectives": zCDP-NFL against (epsilon, delta)-DP, a private subgradient method and P-ADMM
on the elastic net, least absolute deviation and ridge regression. All methods and tasks of a trial
share its graph and data. Settings were chosen on problems that no trial here draws.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from fedjax_admm import losses, privacy
from fedjax_admm.graphs import connected_graph
from fedjax_admm.measures import consensus_gap
from fedjax_admm.problems import (
    ConsensusRegression,
    draw_consensus_regression,
    pooled_correlation,
    with_loss,
)
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep, setting_at
from fedjax_admm.trials.experiments._published import Published
from fedjax_admm.trials.experiments._zcdp_methods import (
    RECIPES as RECIPES,
    TaskMethod,
    build_solver as build_solver,
    methods_at,
    noiseless,
    task_method_name,
)
from fedjax_admm.trials.experiments._zcdp_settings import (
    ADVANCED,
    BASIC,
    GRAD,
    HETEROGENEOUS,
    P_ADMM,
    PUBLISHED,
    TASKS,
    TUNED,
    UNACCOUNTED,
    ZCDP,
    PrivateSetting as PrivateSetting,
    Table,
    nearest,
)
from fedjax_admm.trials.figures import printed_figure, task_curves_figure, task_sweep_figure

METRICS = {
    "unprotected_error": "error of the models without noise, sum over clients",
    "released_error": "error of what was sent, sum over clients",
    "epsilon": "exact epsilon spent by every client",
    "numbers_up": "numbers sent",
    "numbers_down": "numbers received",
}
COMMON = {"clients": 50, "edges": 75, "samples": 50, "dim": 8, "noise": 0.1, "delta": 1e-5}


# --- problems ---


def draw_tasks(
    settings: Settings, key: jax.Array, shift: Any = 0.0
) -> dict[str, ConsensusRegression]:
    """Draw a graph and data, `y = x^T (w + shift u_k) + noise`, and the three tasks on them."""
    graph_key, data_key = jax.random.split(key)
    graph = connected_graph(graph_key, settings["clients"], settings["edges"])
    ridge = draw_consensus_regression(
        data_key,
        graph,
        losses.squared(),
        samples=settings["samples"],
        dim=settings["dim"],
        noise=settings["noise"],
        shift=shift,
        l2=1.0,
    )
    l1 = 0.001 * pooled_correlation(ridge)
    return {
        "elastic net": with_loss(ridge, losses.squared(), l1=l1, l2=1.0),
        "LAD": with_loss(ridge, losses.absolute()),
        "ridge": ridge,
    }


def _problem(settings: Settings, swept: Any, key: jax.Array) -> dict[str, ConsensusRegression]:
    return draw_tasks(settings, key, setting_at({"shift": 0.0, **settings}, "shift", swept))


# --- methods of every experiment ---


def _methods(
    settings: Settings, value: Any, *, swept: str, names: Sequence[str], found: Table | None = None
) -> dict[str, TaskMethod]:
    """Return private methods with the settings of a table, or tuned ones where it has none."""
    table = {**TUNED, **(found or {})}

    def choice(pair: tuple[str, str]) -> Callable[[float], tuple[PrivateSetting, float]]:
        def at(each: float) -> tuple[PrivateSetting, float]:
            epsilon = each if swept == "epsilon" else settings["epsilon"]
            setting = nearest(table[pair], each if swept == "shift" else epsilon)
            return (setting._replace(tau=each) if swept == "tau" else setting), epsilon

        return at

    pairs = [(task, method) for task in TASKS for method in names]
    pairs += [("ridge", P_ADMM)] * (swept == "epsilon")
    return methods_at(settings, swept, value, {pair: choice(pair) for pair in pairs})


EQUAL_SPEED = {
    ("elastic net", ZCDP): PrivateSetting(1.0, 0.5, 1.0, 6.0, 0.985),
    ("LAD", ZCDP): PrivateSetting(1.0, 0.5, 0.5, 3.0, 0.985),
    ("ridge", ZCDP): PrivateSetting(1.0, 0.5, 1.0, 4.0, 0.985),
    ("elastic net", GRAD): PrivateSetting(0.307, 0.0, 1.0, 6.0, 0.985),
    ("LAD", GRAD): PrivateSetting(0.478, 0.0, 1.0, 3.0, 0.985),
    ("ridge", GRAD): PrivateSetting(0.109, 0.0, 1.0, 4.0, 0.985),
}
"""zCDP-NFL set by hand to start fast, and the constant steps of the subgradient method whose
noiseless error after 20 rounds is near to its."""


def _at_every_epsilon(found: Mapping[tuple[str, str], PrivateSetting]) -> dict[Any, Callable]:
    """Return what chooses the same setting at every epsilon."""
    return {pair: lambda each, setting=setting: (setting, each) for pair, setting in found.items()}


def _speed_methods(settings: Settings, epsilon: Any) -> dict[str, TaskMethod]:
    chosen = _at_every_epsilon(EQUAL_SPEED)
    silent = {
        task_method_name(task, f"{method}, no noise"): noiseless(
            task, method, setting, setting.clip
        )
        for (task, method), setting in EQUAL_SPEED.items()
    }
    return {**methods_at(settings, "epsilon", epsilon, chosen), **silent}


PRINTED_SPEED = {
    **EQUAL_SPEED,
    **{(task, ADVANCED): EQUAL_SPEED[task, ZCDP] for task in TASKS},
    # The rho whose noiseless error after 20 rounds is near to that of zCDP-NFL on ridge.
    ("ridge", P_ADMM): PrivateSetting(0.0, 0.0, 1.5, 4.0, 0.985),
}
"""What the paper compares, with "identical initial convergence speeds when possible"."""


def _printed_methods(settings: Settings, epsilon: Any) -> dict[str, TaskMethod]:
    return methods_at(settings, "epsilon", epsilon, _at_every_epsilon(PRINTED_SPEED))


def _printed(task: str, *panels: dict[str, Any]) -> Callable[[Any], Any]:
    """Return what draws a figure of the paper: a task, with all methods that it has there."""
    methods = {name: task_method_name(task, name) for each, name in PRINTED_SPEED if each == task}
    look = {"metric": "unprotected_error", "bands": "medians", "floor": -math.inf}
    shown = [{**look, **each, "title": f"{task}, {each['title']}"} for each in panels]
    return partial(printed_figure, panels=[{**each, "methods": methods} for each in shown])


def _clipping_methods(settings: Settings, clip: Any) -> dict[str, TaskMethod]:
    setting = PrivateSetting(settings["step"], settings["power"], settings["rho"], 1.0, 1.0)
    limits = {"zCDP-NFL, clipped": clip, "zCDP-NFL, not clipped": None}
    return {
        task_method_name(task, name): noiseless(task, ZCDP, setting, limit)
        for task in TASKS
        for name, limit in limits.items()
    }


STEPS = {"eta 0.3": (0.3, 0.0), "eta 1 / sqrt(n)": (1.0, 0.5), "eta 3 / n": (3.0, 1.0)}


def _convergence_methods(settings: Settings, rho: Any) -> dict[str, TaskMethod]:
    return {
        task_method_name(task, f"zCDP-NFL, {name}"): noiseless(
            task, ZCDP, PrivateSetting(step, power, rho, 1.0, 1.0), measure=consensus_gap
        )
        for task in TASKS
        for name, (step, power) in STEPS.items()
    }


# --- what is said and shown ---


def _statement(settings: Settings, rounds: int) -> str:
    """Return what is private, for the largest epsilon of the run."""
    given = settings["epsilon"]
    epsilons = given if isinstance(given, tuple) else (given,)
    # What is said does not depend on tau; 1 leaves a share to any number of releases.
    plan = privacy.zcdp_plan(max(epsilons), settings["delta"], rounds, 1.0)
    _, _, _, *points = plan.statement().splitlines()
    delta = settings["delta"]
    found = [privacy.zcdp_plan(each, delta, rounds, 1.0).exact_epsilon for each in epsilons]
    exact = ", ".join(
        f"{privacy.rounded_up(each, 6)} ({privacy.rounded_up(spent, 3)})"
        for each, spent in zip(epsilons, found, strict=True)
    )
    first = (
        f"epsilon (exact epsilon) at delta {privacy.rounded_up(delta, 6)} of {rounds} releases by "
        f"zCDP: {exact}"
    )
    return "\n".join([first, *points, f"settings: {UNACCOUNTED}"])


def _partly_private(settings: Settings, rounds: int) -> str:
    return _statement(settings, rounds) + "\nmethods without noise are not private"


def _no_noise(settings: Settings, rounds: int) -> str:
    return "Nothing is private: there is no noise (epsilon is infinite)."


CURVES_FIGURE = partial(
    task_curves_figure, metric="unprotected_error", title=lambda value: f"epsilon {value:g}"
)
SWEEP_FIGURE = partial(task_sweep_figure, metric="unprotected_error")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_COURSE = {"against": "rounds", "at": 8.0, "title": "epsilon 8 (ours)"}
_LOSS = {"title": "after 200 rounds"}
TEXTS = texts(__file__)
_experiment = partial(
    Experiment,
    problem=_problem,
    metrics=METRICS,
    settings=COMMON,
    figure=SWEEP_FIGURE,
    statement=_statement,
    rounds=200,
    records=4,
    quick={"trials": 8, "rounds": 60},
)

EXPERIMENTS: Sequence[Experiment] = (
    _experiment(
        **TEXTS["zcdp-curves"],
        sweep=Sweep("epsilon", "epsilon", (1.0, 8.0)),
        methods=partial(_methods, swept="epsilon", names=(ZCDP, ADVANCED, GRAD), found=PUBLISHED),
        figure=CURVES_FIGURE,
        records=200,
    ),
    _experiment(
        **TEXTS["zcdp-tradeoff"],
        sweep=Sweep("epsilon", "epsilon", EPSILONS),
        methods=partial(_methods, swept="epsilon", names=(ZCDP, ADVANCED, BASIC, GRAD)),
    ),
    _experiment(
        **TEXTS["zcdp-tau"],
        sweep=Sweep("tau", "tau", (0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.995, 1.0)),
        methods=partial(_methods, swept="tau", names=(ZCDP, GRAD)),
        settings={**COMMON, "epsilon": 4.0},
    ),
    _experiment(
        **TEXTS["zcdp-equal-speed"],
        sweep=Sweep("epsilon", "epsilon", (8.0, 16.0, 64.0)),
        methods=_speed_methods,
        figure=CURVES_FIGURE,
        statement=_partly_private,
        records=200,
        published=Published(
            figures={
                "figure-1": _printed("elastic net", _COURSE, _LOSS),
                "figure-2": _printed("LAD", _COURSE),
                "figure-3": _printed("ridge", _COURSE, _LOSS),
            },
            changes={
                "sweep": Sweep("epsilon", "total privacy loss epsilon", EPSILONS),
                "methods": _printed_methods,
                "statement": _statement,
            },
        ),
    ),
    _experiment(
        **TEXTS["zcdp-clipping"],
        sweep=Sweep("clip", "clipping norm", (1.0, 2.0, 3.0, 5.0)),
        methods=_clipping_methods,
        figure=partial(SWEEP_FIGURE, floor=-80),  # convergence to rounding is cut off
        settings={**COMMON, "step": 1.0, "power": 0.5, "rho": 0.5},
        statement=_no_noise,
        x64=True,
        rounds=1000,
        records=10,
    ),
    _experiment(
        **TEXTS["zcdp-convergence"],
        sweep=Sweep("rho", "rho", (0.5,)),
        methods=_convergence_methods,
        metrics={**METRICS, "gap": "gap of the clients' mean"},
        figure=partial(
            task_curves_figure,
            metric="gap",
            title=lambda value: f"rho {value:g}",
            floor=-120,
            logarithmic=True,
        ),
        statement=_no_noise,
        x64=True,
        rounds=3200,
        records=160,
    ),
    _experiment(
        **TEXTS["zcdp-heterogeneous"],
        sweep=Sweep("shift", "deviation of the clients' true models", (0.0, 0.5, 1.0, 2.0)),
        methods=partial(_methods, swept="shift", names=(ZCDP, GRAD), found=HETEROGENEOUS),
        settings={**COMMON, "epsilon": 8.0},
    ),
)
