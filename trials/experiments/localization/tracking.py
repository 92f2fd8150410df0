"""Following a moving target by a few warm-started rounds per sample.

A target walks with some speed and turns a little at every sample. A sample has one range of each
anchor that measures; an anchor is absent with a probability, independently in every sample, which
is what asynchronous anchors look like, or for `outage` samples on average. A round of an experiment
is a sample here; each gets 1, 4 or 16 rounds of a solver.
"""

from dataclasses import field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm import losses, regions
from fedjax_admm._checks import number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._tracking import track
from fedjax_admm.measures import position_error, target_regret
from fedjax_admm.problems import localization
from fedjax_admm.solvers import fed_admm, fed_subgradient, fsmdm, local_prox
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import (
    ROUNDS,
    Experiment,
    Settings,
    Sweep,
    setting_at,
)
from fedjax_admm.trials.experiments._methods import Method, at_every_record, recorded_rounds
from fedjax_admm.trials.results import MESSAGES, NONFINITE_ROUND

PER_SAMPLE = (1, 4, 16)


def _problem(settings: Settings, swept: jax.Array, key: jax.Array) -> Any:
    """Return the problems of all samples, with a leading axis."""
    speed, absent = (setting_at(settings, name, swept) for name in ("speed", "absent"))
    absent = number("absent", absent, at_least=0, at_most=1)
    outage = number("outage", settings["outage"], at_least=1)
    clients, half, samples = settings["clients"], settings["half_width"], settings[ROUNDS]
    anchor_key, walk_key, noise_key, mask_key = jax.random.split(key, 4)
    anchors = half * jax.random.uniform(anchor_key, (clients, 2), minval=-1, maxval=1)
    start_key, turn_key = jax.random.split(walk_key)
    turns = settings["turning"] * jax.random.normal(turn_key, (samples,))
    heading = jnp.cumsum(turns) + 2 * jnp.pi * jax.random.uniform(start_key)
    steps = speed * jnp.stack([jnp.cos(heading), jnp.sin(heading)], -1)
    walk = jnp.cumsum(steps, 0)
    # The walls of the square reflect.
    path = half - jnp.abs((walk + half) % (4 * half) - 2 * half)
    distances = jnp.linalg.norm(path[:, None] - anchors[None], axis=-1)
    ranges = distances + settings["sigma"] * jax.random.normal(noise_key, distances.shape)
    seen = ~_absences(mask_key, absent, outage, ranges.shape)
    # A client without a range counts for nothing in this sample.
    ranges = jnp.where(seen, jnp.maximum(ranges, 1e-3), jnp.nan)

    def build(measured: jax.Array, target: jax.Array) -> Any:
        return localization(anchors, measured, sigma=1.0, target=target)

    return jax.vmap(build)(ranges, path)


def _absences(
    key: jax.Array, absent: jax.Array, outage: jax.Array, shape: tuple[int, int]
) -> jax.Array:
    """Return which anchors are absent, bool, shape (samples, clients).

    Each is a Markov chain with the stationary probability `absent`: whether it is absent is drawn
    anew with the probability `1 / ((1 - absent) outage)`, at most 1, so that an absence lasts
    `outage` samples on average, or as long as independent draws make it.
    """
    anew_key, drawn_key = jax.random.split(key)
    chance = jnp.minimum(1 / (jnp.maximum(1 - absent, 1e-6) * outage), 1)
    anew = jax.random.bernoulli(anew_key, chance, shape).at[0].set(True)
    drawn = jax.random.bernoulli(drawn_key, absent, shape)

    def advance(before: jax.Array, sample: tuple[jax.Array, jax.Array]) -> Any:
        here = jnp.where(sample[0], sample[1], before)
        return here, here

    return jax.lax.scan(advance, drawn[0], (anew, drawn))[1]


def _measure(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure the error and the regret after the rounds of a sample."""
    error = position_error(problem, solver.estimate(state))["error"]
    return {"error": error, **target_regret(solver, problem, state)}


@pytree_dataclass
class TrackingMethod(Method):
    """A solver with some rounds per sample; a record is the mean of the samples since the last."""

    solver: Any
    per_sample: int = field(metadata={"static": True})

    def __call__(self, problem, key, rounds, every):
        """Track, and average what was measured between records."""
        found = track(self.solver, problem, key, rounds=self.per_sample, measure=_measure)
        trace = {name: value for name, value in found.trace.items() if name != MESSAGES}
        bad = ~jnp.isfinite(found.trace["error"])
        first = jnp.where(jnp.any(bad), jnp.argmax(bad) + 1, 0).astype(jnp.int32)
        sent = _between(found.trace[MESSAGES], rounds, every, jnp.sum)
        means = {name: _between(value, rounds, every, jnp.mean) for name, value in trace.items()}
        return {**means, MESSAGES: sent, NONFINITE_ROUND: first}

    def posed(self, problem, key, rounds):
        """Return no solver: every sample is a problem of its own."""
        return problem, None, key

    def traffic(self, problem):
        """Return what the solver says of one sample."""
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), problem)
        return self.solver.traffic(one)


@pytree_dataclass
class EachSample(Method):
    """Least squares of every sample by itself, from the true place: no motion and no rounds."""

    loss: Any

    def __call__(self, problem, key, rounds, every):
        """Fit all samples, and average between records."""

        def fit(one: Any) -> jax.Array:
            return regions.refine(one, one.target, self.loss, steps=20).position

        places = jax.vmap(fit)(problem)
        error = jax.vmap(position_error)(problem, places)["error"]
        mean = _between(error, rounds, every, jnp.mean)
        return at_every_record({}, places, rounds, every) | {"error": mean}


def _between(values: jax.Array, rounds: int, every: int, gather: Any) -> jax.Array:
    """Return what `gather` makes of the samples between records."""
    ends = recorded_rounds(rounds, every).tolist()
    starts = [0, *ends[:-1]]
    return jnp.stack([gather(values[a:b]) for a, b in zip(starts, ends, strict=True)])


def _methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    solvers = {
        "FedADMM": fed_admm(rho=settings["rho"], local=local_prox()),
        "FSMDM tuned": fsmdm("tuned"),
        "subgradient": fed_subgradient(settings["step"]),
    }
    found: dict[str, Any] = {
        f"{name}, {rounds} per sample": TrackingMethod(solver, rounds)
        for name, solver in solvers.items()
        for rounds in PER_SAMPLE
    }
    return found | {"least squares of each sample": EachSample(losses.squared())}


_SHOWN = (
    "FedADMM, 1 per sample",
    *(f"{name}, {PER_SAMPLE[-1]} per sample" for name in ("FedADMM", "FSMDM tuned", "subgradient")),
    "least squares of each sample",
)
_SETTINGS = {
    "clients": 12,
    "half_width": 30.0,
    "outage": 1.0,
    "sigma": 0.3,
    "turning": 0.1,
    "rho": 0.3,
    "step": 3.0,
}
_SWEEPS = {
    "localization-tracking": (
        Sweep("speed", "speed of the target (m per sample)", (0.1, 0.3, 1.0, 3.0)),
        {"absent": 0.3},
    ),
    "localization-dropouts": (
        Sweep("absent", "share of anchors absent", (0.0, 0.3, 0.6, 0.8)),
        {"speed": 1.0},
    ),
}
EXPERIMENTS = tuple(
    Experiment(
        **texts(__file__)[name],
        metrics={
            "error": "localisation error (m)",
            "regret": "regret against the true path (m per sample)",
        },
        sweep=sweep,
        problem=_problem,
        methods=_methods,
        settings=_SETTINGS | settings,
        rounds=200,
        records=2,
        quick={"trials": 40, "rounds": 100},
        shown=_SHOWN,
        figure=partial(figures.sweep_figure, metric="error", floor=1e-1),
    )
    for name, (sweep, settings) in _SWEEPS.items()
)
