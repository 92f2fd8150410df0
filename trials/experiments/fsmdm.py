"""Experiments of the FSMDM paper: robust range localisation.

R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for Localization",
arXiv:2503.09497 (2025). 21 sensors and a target, uniform in a cube of 60 m, redrawn per trial.
"""

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
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._methods import DirectMethod, SolverMethod

METRICS = {
    "error": "localisation error (m)",
    "failure": "share of trials above 3 m",
    "numbers_up": "numbers sent by all clients",
    "numbers_down": "numbers sent to all clients",
}
_UNSWEPT = {"clients": 21, "half_width": 30.0, "omega": 10.0}
SHOWN = ("FSMDM", "FSMDM tuned", "DSRL 16 k^-0.5", "DSRL 100 k^-1", "centralised")
"""What figures show where numbers are swept: all but steps that nobody has tuned."""
LOCAL = ("", ", 3 local", ", 5 local")
"""How the names of methods end that make 1, 3 and 5 local updates."""
OMEGAS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
GEOMETRY = {**_UNSWEPT, "active": 1.0}


def _cauchy_problem(settings: Settings, scale: jax.Array, key: jax.Array) -> Any:
    return draw_localization(
        key,
        cauchy_noise(scale),
        clients=settings["clients"],
        half_width=settings["half_width"],
    )


def _outlier_problem(settings: Settings, probability: jax.Array, key: jax.Array) -> Any:
    number("half_width", settings["half_width"], above=0)
    diagonal = 2 * settings["half_width"] * 3**0.5
    return draw_localization(
        key,
        outlier_noise(probability, diagonal),
        clients=settings["clients"],
        half_width=settings["half_width"],
    )


def _fixed_cauchy_problem(settings: Settings, swept: jax.Array, key: jax.Array) -> Any:
    return _cauchy_problem(settings, settings["gamma"], key)


def _fixed_outlier_problem(settings: Settings, swept: jax.Array, key: jax.Array) -> Any:
    return _outlier_problem(settings, settings["probability"], key)


def _solver_method(solver: Any, active: float | jax.Array) -> SolverMethod:
    # No draws where nothing is random.
    if isinstance(active, float) and active == 1:
        return SolverMethod(solver, localization_error, everyone())
    probability = number("active", active, at_least=0, at_most=1)
    return SolverMethod(solver, localization_error, bernoulli(probability))


def _smoothing(settings: Settings, active: Any, local_updates: int) -> dict[str, Any]:
    suffix = f", {local_updates} local" if local_updates > 1 else ""
    published = fsmdm(omega=settings["omega"], local_updates=local_updates)
    tuned = fsmdm("tuned", local_updates=local_updates)
    return {
        f"FSMDM{suffix}": _solver_method(published, active),
        f"FSMDM tuned{suffix}": _solver_method(tuned, active),
    }


def _subgradient(active: Any) -> dict[str, Any]:
    return {
        f"DSRL {name}": _solver_method(fed_subgradient(step_size), active)
        for name, step_size in subgradient_steps().items()
    }


def _centralized(settings: Settings) -> dict[str, Any]:
    # The grid reaches a little beyond the cube, where the best point can lie.
    locate = partial(locate_centrally, half_width=1.1 * settings["half_width"])
    return {"centralised": DirectMethod(locate, position_error)}


def _all_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    active = settings["active"]
    return (
        _smoothing(settings, active, settings["local_updates"])
        | _subgradient(active)
        | _centralized(settings)
    )


def _omega_methods(settings: Settings, omega: jax.Array) -> dict[str, Any]:
    methods = _all_methods({**settings, "omega": omega}, omega)
    return {name: methods[name] for name in SHOWN}


def _curve_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    active = settings["active"]
    smoothing: dict[str, Any] = {}
    for local_updates in (1, 3, 5):
        smoothing |= _smoothing(settings, active, local_updates)
    return smoothing | _subgradient(active) | _centralized(settings)


def _asynchronous_methods(settings: Settings, active: jax.Array) -> dict[str, Any]:
    subgradient = _subgradient(active)
    subgradient.pop("DSRL 1 k^-0.5")  # untuned: far off with everybody already
    return _smoothing(settings, active, settings["local_updates"]) | subgradient


TEXTS = texts(__file__)
_experiment = partial(Experiment, metrics=METRICS)

EXPERIMENTS = (
    _experiment(
        **TEXTS["fsmdm-outliers"],
        sweep=Sweep(
            "probability",
            "probability of an outlier",
            tuple(round(0.025 * i, 3) for i in range(1, 13)),
        ),
        problem=_outlier_problem,
        methods=_all_methods,
        settings={**GEOMETRY, "local_updates": 1},
        shown=SHOWN,
        figure=partial(
            figures.sweep_figure, metric="error", share="failure", floor=1e-2, heavy=True
        ),
    ),
    _experiment(
        **TEXTS["fsmdm-cauchy"],
        sweep=Sweep(
            "scale", "scale of the Cauchy noise (m)", tuple(round(0.2 * i, 1) for i in range(1, 21))
        ),
        problem=_cauchy_problem,
        methods=_all_methods,
        settings={**GEOMETRY, "local_updates": 1},
        shown=SHOWN,
        figure=partial(
            figures.sweep_figure, metric="error", share="failure", floor=1e-1, heavy=True
        ),
    ),
    _experiment(
        **TEXTS["fsmdm-omega"],
        sweep=Sweep("omega", "omega of the published constants", OMEGAS),
        problem=_fixed_outlier_problem,
        methods=_omega_methods,
        settings={name: GEOMETRY[name] for name in ("clients", "half_width", "active")}
        | {"probability": 0.2, "local_updates": 1},
        figure=partial(figures.sweep_figure, metric="error", share="failure", heavy=True),
    ),
    _experiment(
        **TEXTS["fsmdm-convergence"],
        sweep=Sweep("gamma", "scale of the Cauchy noise (m)", (1.0,)),
        problem=_cauchy_problem,
        methods=_curve_methods,
        settings=GEOMETRY,
        records=100,
        shown=tuple(f"{name}{local}" for name in ("FSMDM", "FSMDM tuned") for local in LOCAL),
        figure=partial(figures.curve_figure, metric="error", heavy=True),
    ),
    _experiment(
        **TEXTS["fsmdm-asynchrony"],
        sweep=Sweep("active", "probability that a client is active", (1.0, 0.8, 0.5, 0.2)),
        problem=_fixed_cauchy_problem,
        methods=_asynchronous_methods,
        settings={**_UNSWEPT, "gamma": 1.0, "local_updates": 1},
        records=100,
        figure=partial(figures.curves_by_method_figure, metric="error"),
    ),
)
