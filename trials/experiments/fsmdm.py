"""Experiments of the FSMDM paper: robust range localisation.

R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for Localization",
arXiv:2503.09497 (2025). 21 sensors and a target, uniform in a cube of 60 m, redrawn per trial.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from fedjax_admm._checks import number
from fedjax_admm.direct import locate_centrally
from fedjax_admm.measures import localization_error, position_error
from fedjax_admm.participation import bernoulli, everyone
from fedjax_admm.problems import cauchy_noise, draw_localization, outlier_noise
from fedjax_admm.solvers import fed_subgradient, fsmdm, subgradient_steps
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep, setting_at
from fedjax_admm.trials.experiments._methods import DirectMethod, SolverMethod
from fedjax_admm.trials.experiments._published import Published

SHOWN = ("FSMDM", "FSMDM tuned", "DSRL 16 k^-0.5", "DSRL 100 k^-1", "centralised")
"""What figures show where numbers are swept: all but steps that nobody has tuned."""
UNTUNED = "DSRL 1 k^-0.5"
LOCAL = {1: "", 3: ", 3 local", 5: ", 5 local"}
"""How the names of methods end that make so many local updates."""
OMEGAS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
GEOMETRY = {"clients": 21, "half_width": 30.0, "omega": 10.0, "active": 1.0}
_ONE_UPDATE = {**GEOMETRY, "local_updates": 1}


def _without(settings: Settings, name: str) -> dict[str, Any]:
    return {each: value for each, value in settings.items() if each != name}


def _cauchy_problem(settings: Settings, swept: jax.Array, key: jax.Array) -> Any:
    scale = setting_at(settings, "gamma", swept)
    clients, half_width = settings["clients"], settings["half_width"]
    return draw_localization(key, cauchy_noise(scale), clients=clients, half_width=half_width)


def _outlier_problem(settings: Settings, swept: jax.Array, key: jax.Array) -> Any:
    clients, half_width = settings["clients"], settings["half_width"]
    number("half_width", half_width, above=0)
    noise = outlier_noise(setting_at(settings, "probability", swept), 2 * half_width * 3**0.5)
    return draw_localization(key, noise, clients=clients, half_width=half_width)


def _methods(
    settings: Settings,
    swept: jax.Array,
    *,
    local_updates: Sequence[int] = (),
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    active = setting_at(settings, "active", swept)
    # No draws where nothing is random.
    everybody = isinstance(active, float) and active == 1
    who = everyone() if everybody else bernoulli(number("active", active, at_least=0, at_most=1))
    solvers: dict[str, Any] = {}
    for updates in local_updates or (settings["local_updates"],):
        ends = LOCAL.get(updates, f", {updates} local")
        omega = setting_at(settings, "omega", swept)
        solvers[f"FSMDM{ends}"] = fsmdm(omega=omega, local_updates=updates)
        solvers[f"FSMDM tuned{ends}"] = fsmdm("tuned", local_updates=updates)
    steps = subgradient_steps().items()
    solvers |= {f"DSRL {name}": fed_subgradient(step_size) for name, step_size in steps}
    methods: dict[str, Any] = {
        name: SolverMethod(solver, localization_error, who) for name, solver in solvers.items()
    }
    # The grid reaches a little beyond the cube, where the best point can lie.
    locate = partial(locate_centrally, half_width=1.1 * settings["half_width"])
    methods["centralised"] = DirectMethod(locate, position_error)
    return {name: method for name, method in methods.items() if name not in left_out}


TEXTS = texts(__file__)
_experiment = partial(
    Experiment,
    metrics={"error": "localisation error (m)", "failure": "share of trials above 3 m"},
    methods=_methods,
    settings=_ONE_UPDATE,
)
_sweep_figure = partial(figures.sweep_figure, metric="error", share="failure", heavy=True)
_SCALE = "scale of the Cauchy noise (m)"


def _printed(name: str, methods: dict[str, str], **look: Any) -> Published:
    """Return a figure of the paper: its error, with its two methods; the step of DSRL is ours."""
    methods = methods | {"DSRL, steps 16 k^-0.5 (ours)": "DSRL 16 k^-0.5"}
    panel = {"metric": "error", "methods": methods, **look}
    figure = partial(figures.printed_figure, panels=[panel], labels={"error": "RMSE (m)"})
    return Published(figures={name: figure})


EXPERIMENTS = (
    _experiment(
        **TEXTS["fsmdm-outliers"],
        sweep=Sweep(
            "probability",
            "probability of an outlier",
            tuple(round(0.025 * i, 3) for i in range(1, 13)),
        ),
        problem=_outlier_problem,
        shown=SHOWN,
        figure=partial(_sweep_figure, floor=1e-2),
        published=_printed("figure-1", {"FSMDM": "FSMDM"}),
    ),
    _experiment(
        **TEXTS["fsmdm-cauchy"],
        sweep=Sweep("scale", _SCALE, tuple(round(0.2 * i, 1) for i in range(1, 21))),
        problem=_cauchy_problem,
        shown=SHOWN,
        figure=partial(_sweep_figure, floor=1e-1),
        published=_printed("figure-2", {"FSMDM": "FSMDM"}),
    ),
    _experiment(
        **TEXTS["fsmdm-omega"],
        sweep=Sweep("omega", "omega of the published constants", OMEGAS),
        problem=_outlier_problem,
        methods=partial(_methods, left_out=(UNTUNED,)),
        settings={**_without(GEOMETRY, "omega"), "probability": 0.2, "local_updates": 1},
        figure=_sweep_figure,
    ),
    _experiment(
        **TEXTS["fsmdm-convergence"],
        sweep=Sweep("gamma", _SCALE, (1.0,)),
        problem=_cauchy_problem,
        methods=partial(_methods, local_updates=tuple(LOCAL)),
        settings=GEOMETRY,
        records=100,
        shown=tuple(
            f"{name}{ends}" for name in ("FSMDM", "FSMDM tuned") for ends in LOCAL.values()
        ),
        figure=partial(figures.curve_figure, metric="error", heavy=True),
        published=_printed(
            "figure-3",
            {f"FSMDM, local updates: {n}": f"FSMDM{ends}" for n, ends in LOCAL.items()},
            against="rounds",
            log="y",
        ),
    ),
    _experiment(
        **TEXTS["fsmdm-asynchrony"],
        sweep=Sweep("active", "probability that a client is active", (1.0, 0.8, 0.5, 0.2)),
        problem=_cauchy_problem,
        # Untuned steps are far off with everybody already.
        methods=partial(_methods, left_out=(UNTUNED, "centralised")),
        settings={**_without(GEOMETRY, "active"), "gamma": 1.0, "local_updates": 1},
        records=100,
        figure=partial(figures.curves_by_method_figure, metric="error"),
    ),
)
