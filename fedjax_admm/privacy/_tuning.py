"""Choosing the numbers of a private solver: many settings on a few drawn problems, in one call.

The search sees the errors of models without noise on the problems that it is given. **What it costs
in privacy is not accounted for**: choose on public or synthetic data, as the experiments here do,
or account for every run of the search.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, count, number as checked_number, several, typed_key
from fedjax_admm._host import compiled
from fedjax_admm._run import Measure
from fedjax_admm.measures import consensus_error
from fedjax_admm.search import grid_search

UNACCOUNTED = (
    "The search has looked at the errors of models without noise on the tuning problems; its cost "
    "in privacy is not accounted for."
)
"""What is to be said wherever a tuned setting is used."""


class PrivateSetting(NamedTuple):
    """The numbers of a private solver; fields that a method does not have are not used."""

    step: float  # eta_0
    power: float  # q, of eta_n = eta_0 / n^q
    rho: float  # weight of the constraints
    clip: float  # c, norm to which gradients are clipped
    tau: float  # each release has 1 / tau of the budget of the one before it


class Tuned(NamedTuple):
    """What `tune_private` returns."""

    setting: Any  # the best one
    solver: Any  # built from it
    score: float  # mean over the tuning problems
    scores: (
        np.ndarray
    )  # shape=(trials, settings): after the last round; infinite where a run failed
    statement: str  # `UNACCOUNTED`


def random_settings(
    seed: int,
    number: int,
    *,
    step: tuple[float, float] = (0.3, 1000.0),
    power: Sequence[float] = (0.0, 0.5, 1.0),
    rho: tuple[float, float] = (0.3, 20.0),
    clip: tuple[float, float] = (0.3, 8.0),
    tau: Sequence[float] = (0.97, 0.975, 0.98, 0.985, 0.99),
) -> list[PrivateSetting]:
    """Draw settings: step, rho and clip uniform in their logarithms, power and tau from a list.

    Args:
      seed: of the draws, at least 0.
      number: how many.
      step: smallest and largest.
      power: choices.
      rho: smallest and largest.
      clip: smallest and largest.
      tau: choices.
    """
    rng = np.random.default_rng(count("seed", seed, at_least=0))
    number = count("number", number)
    ranges = [_logarithms(*pair) for pair in (("step", step), ("rho", rho), ("clip", clip))]
    steps, rhos, clips = (np.exp(rng.uniform(low, high, number)) for low, high in ranges)
    powers, taus = rng.choice(power, number), rng.choice(tau, number)
    return [
        PrivateSetting(*(float(part) for part in parts))
        for parts in zip(steps, powers, rhos, clips, taus, strict=True)
    ]


def nearby_settings(
    seed: int,
    setting: PrivateSetting,
    number: int,
    *,
    spread: float = 0.4,
    tau: Sequence[float] = (0.97, 0.975, 0.98, 0.985, 0.99),
) -> list[PrivateSetting]:
    """Draw settings near one: step, rho and clip times `exp(spread N(0, 1))`, tau from a list.

    Args:
      seed: of the draws, at least 0.
      setting: the one in the middle, which comes first; its power stays.
      number: how many.
      spread: standard deviation of the logarithms, positive.
      tau: choices; half of the settings keep theirs.
    """
    rng = np.random.default_rng(count("seed", seed, at_least=0))
    number = count("number", number)
    if not 0 < spread < np.inf:
        raise InputError(
            f"must be positive and finite, but it is {spread!r}",
            argument="spread",
            value=spread,
        )
    factors = np.exp(spread * rng.standard_normal((number, 3)))
    taus = np.where(rng.random(number) < 0.5, setting.tau, rng.choice(tau, number))
    near = [
        setting._replace(
            step=float(setting.step * step),
            rho=float(setting.rho * rho),
            clip=float(setting.clip * clip),
            tau=float(new),
        )
        for (step, rho, clip), new in zip(factors, taus, strict=True)
    ]
    return [setting, *near][:number]


def grid_settings(
    *,
    step: Sequence[float],
    clip: Sequence[float],
    power: Sequence[float] = (0.5,),
    rho: Sequence[float] = (1.0,),
    tau: Sequence[float] = (0.985,),
) -> list[PrivateSetting]:
    """Return all combinations of the given numbers."""
    choices: dict[str, Any] = {"step": step, "power": power, "rho": rho, "clip": clip, "tau": tau}
    for name, values in choices.items():
        several(name, values, "numbers")
        if len(values):
            checked_number(name, values)
    return [PrivateSetting(*map(float, parts)) for parts in product(*choices.values())]


def tune_private(
    build: Callable[[Any], Any],
    settings: Sequence[Any],
    draw: Callable[[jax.Array], Any],
    key: jax.Array,
    *,
    trials: int = 4,
    rounds: int = 200,
    measure: Measure = consensus_error,
    metric: str = "unprotected_error",
    width: int = 25,
) -> Tuned:
    """Run every setting on the same drawn problems, in one compiled call, and choose the best.

    Args:
      build: setting -> solver; the solvers differ in leaves only. It runs on the host, so that it
        may plan noise.
      settings: what to try, such as `random_settings(seed, 200)`.
      draw: key -> problem; it can be traced, and is a module-level function or a fixed one.
      key: a typed key, of which no later evaluation makes use.
      trials: number of problems.
      rounds: of every run.
      measure: as in `run`.
      metric: the entry of `measure` to make small, on average over the problems.
      width: settings that run side by side.

    Returns:
      The best setting, its solver, all scores, and what to say about privacy.
    """
    typed_key(key)
    if not settings:
        raise InputError(
            "must hold at least one setting, but it is empty",
            argument="settings",
            value=settings,
        )
    solvers = [build(setting) for setting in settings]
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *solvers)
    keys = jax.random.split(key, count("trials", trials))
    rounds = count("rounds", rounds)
    options = {"draw": draw, "rounds": rounds, "measure": measure, "metric": metric, "width": width}
    scores = np.asarray(_scores(stacked, keys, **options))
    means = scores.mean(0)
    place = int(np.argmin(means))
    if not np.isfinite(means[place]):
        raise InputError(
            f"must hold one that stays finite on all {trials} problems, but none of "
            f"{len(settings)} does",
            argument="settings",
            value=settings,
            remedy="take smaller steps",
        )
    best = settings[place]
    return Tuned(best, solvers[place], float(means[place]), scores, UNACCOUNTED)


@compiled
def _scores(solvers, keys, *, draw, rounds, measure, metric, width) -> jax.Array:
    """Return the metric of every setting on every problem, shape (trials, settings)."""

    def on_one(key):
        problem_key, run_key = jax.random.split(key)
        search = grid_search(
            lambda solver: solver,
            solvers,
            draw(problem_key),
            run_key,
            rounds=rounds,
            measure=measure,
            metric=metric,
            width=width,
        )
        return search.scores

    return jax.lax.map(on_one, keys)


def _logarithms(name: str, pair: tuple[float, float]) -> tuple[float, float]:
    low, high = pair
    if not 0 < low <= high < np.inf:
        raise InputError(
            f"must be the smallest and the largest value, positive, but it is {pair}",
            argument=name,
            value=pair,
        )
    return float(np.log(low)), float(np.log(high))
