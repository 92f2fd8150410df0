"""Solvers of experiments before their one or two numbers are tuned, and the grids that are tried.

Each builder takes the tuned numbers of its solver, and what else its constructor is given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import jax.numpy as jnp

from fedjax_admm import solvers
from fedjax_admm.schedules import power_decay

STEPS = 5
"""Local gradient steps per round, for all methods that take several."""
ONLY = (1.0,)
"""The values of a second number where there is none."""


class Setting(NamedTuple):
    """The numbers of a method that are tuned; where there is one, nobody looks at `second`."""

    first: Any
    second: Any


@dataclass(frozen=True)
class Tuned:
    """A solver before its numbers are known."""

    build: Callable[..., Any]  # of a `Setting`, and of what else there is
    firsts: Sequence[float]  # values of the first number
    seconds: Sequence[float] = ONLY  # values of the second number

    def grid(self) -> list[Setting]:
        """Return every setting that is tried."""
        return [Setting(*pair) for pair in product(self.firsts, self.seconds)]


def between(low: float, high: float, number: int) -> tuple[float, ...]:
    """Return so many numbers from `low` to `high`, in equal ratios, with three digits."""
    ratio = (high / low) ** (1 / max(number - 1, 1))
    return tuple(float(f"{low * ratio**i:.3g}") for i in range(number))


def chosen_setting(grid: Sequence[Setting], places: Mapping[float, int], value: Any) -> Setting:
    """Return the setting of the nearest tuned value, which may be traced.

    Values above zero are compared by their ratio; zero is near to zero only.
    """
    known = jnp.asarray(list(places), float)
    value = jnp.asarray(value, known.dtype)
    tiny = jnp.finfo(known.dtype).tiny
    away = jnp.abs(jnp.log(jnp.maximum(known, tiny)) - jnp.log(jnp.maximum(value, tiny)))
    nearest = jnp.argmin(away)
    best = [grid[place] for place in places.values()]
    return Setting(*(jnp.asarray(c, float)[nearest] for c in zip(*best, strict=True)))


def with_steps(builder: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builder whose clients take local gradient steps of a tuned rate."""

    def build(setting: Setting, **more: Any) -> Any:
        local = solvers.local_gradient(setting.second, steps=STEPS)
        return builder(setting.first, local=local, **more)

    return build


def with_prox(builder: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builder whose clients have a prox."""
    return lambda setting, **more: builder(setting.first, local=solvers.local_prox(), **more)


def relaxed(builder: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builder whose clients have a prox and whose rounds have a tuned relaxation."""

    def build(setting: Setting, **more: Any) -> Any:
        return with_prox(builder)(setting, relaxation=setting.second, **more)

    return build


def averaging(setting: Setting, **more: Any) -> Any:
    """Build FedAvg."""
    return solvers.fed_avg(setting.first, local_steps=STEPS, **more)


def with_variates(setting: Setting, **more: Any) -> Any:
    """Build SCAFFOLD."""
    return solvers.scaffold(setting.second, local_steps=STEPS, server_step=setting.first, **more)


def skipping(setting: Setting, **more: Any) -> Any:
    """Build ProxSkip."""
    return solvers.prox_skip(setting.second, probability=setting.first, **more)


def subgradient(setting: Setting, **more: Any) -> Any:
    """Build federated subgradient descent."""
    return solvers.fed_subgradient(power_decay(setting.first, setting.second), **more)


def smoothing(setting: Setting, beta: float | None = None, **more: Any) -> Any:
    """Build FSMDM, from whose losses nothing is subtracted: the copy z only holds x back a little.

    The smoothing beta is omega / d if None.
    """
    d, omega = setting.first, setting.second
    c, beta = 0.1 * d, omega / d if beta is None else beta
    return solvers.fsmdm(c=c, d=d, alpha=2 / c, beta=beta, omega=omega, **more)


def scaled(preset: str, setting: Setting, **more: Any) -> Any:
    """Build FSMDM for localisation, with penalties that are some times those of a preset."""
    usual = solvers.FSMDM_PRESETS[preset]
    return solvers.fsmdm(
        preset,
        d=usual["d"] * setting.first,
        beta=usual["beta"] / setting.first,
        c=usual["c"] * setting.second,
        alpha=usual["alpha"] / setting.second,
        **more,
    )
