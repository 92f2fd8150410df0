r"""What is solved with late messages: three tasks, asynchronous ADMM against averaging.

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

from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import penalties
from fedjax_admm._checks import count, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm
from fedjax_admm.messages import (
    Delay,
    Exchange,
    exchange,
    geometric_delay,
    heavy_tailed_delay,
    lossy,
)
from fedjax_admm.problems import cauchy_noise, draw_localization, federated
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import (
    FSMDM_PRESETS,
    fed_admm,
    fed_avg,
    fed_subgradient,
    fsmdm,
    local_gradient,
    local_prox,
    scaffold,
)
from fedjax_admm.trials.experiments._experiment import Settings
from fedjax_admm.trials.experiments._methods import Method
from fedjax_admm.trials.experiments.messages._by_number import ADelay, run_measured
from fedjax_admm.trials.experiments.messages._tasks import draw_data, solved
from fedjax_admm.trials.experiments.peers._pinball import (
    PinballProx,
    minimize_together,
    pinball,
)
from fedjax_admm.trials.experiments.peers._roster import ONLY, Setting, between

LAWS = ("geometric", "heavy-tailed", "lossy")
DEPTH = 100
EXPONENT = 1.5
LOST = 0.3
PASSES = 3
STEPS = 5
_REFERENCE = 1000
_HIGHEST = jax.lax.Precision.HIGHEST


class Posed(NamedTuple):
    """A problem, and what is to be found."""

    problem: Any
    solution: jax.Array  # shape=(dim,)
    unit: jax.Array  # shape=(): of the error


class Late(NamedTuple):
    """A solver of a task; two numbers are tuned."""

    task: str
    build: Callable[[Setting, Exchange], Any]
    firsts: tuple[float, ...]
    seconds: tuple[float, ...] = ONLY

    def grid(self) -> list[Setting]:
        """Return every setting that is tried, 12 of them."""
        return [Setting(first, second) for first in self.firsts for second in self.seconds]


# --- problems ---


def _squares(w: jax.Array, sample: Any) -> jax.Array:
    return (sample["y"] - jnp.vdot(sample["x"], w, precision=_HIGHEST)) ** 2 / 2


def draw_problems(settings: Settings, mean: Any, key: jax.Array) -> dict[str, Posed]:
    """Draw the problems of all tasks; the two regressions have the same data."""
    number("mean", mean, at_least=0)
    data_key, cube_key = jax.random.split(key)
    data = draw_data(settings, data_key)
    dim = data.x.shape[-1]
    start = jnp.zeros(dim, data.x.dtype)
    x, y, halves = data.x.reshape(-1, dim), data.y.ravel(), jnp.full_like(data.y, 0.5)
    kinks = federated(
        pinball,
        {"x": data.x, "y": data.y, "tau": halves},
        start,
        optimizer=PinballProx(data.y.shape[1], PASSES),
    )
    all_of_them = jnp.ones(y.shape, bool)
    middle = minimize_together(x, y, halves.ravel(), all_of_them, penalties.zero(), _REFERENCE)
    gram = jnp.matmul(x.T, x, precision=_HIGHEST)
    best = solved(gram, jnp.matmul(x.T, y, precision=_HIGHEST))
    noise = cauchy_noise(number("noise", settings["noise"], at_least=0))
    sensors = count("sensors", settings["sensors"], at_least=4)
    cube = draw_localization(cube_key, noise, clients=sensors)
    target = jnp.asarray(cube.target)
    return {
        "LAD": Posed(kinks, middle, safe_norm(middle)),
        "least squares": Posed(
            federated(_squares, {"x": data.x, "y": data.y}, start), best, safe_norm(best)
        ),
        "localisation": Posed(cube, target, jnp.ones((), target.dtype)),
    }


# --- solvers ---


def _fed_admm(setting: Setting, exchange: Exchange) -> Any:
    return fed_admm(setting.first, local=local_prox(), exchange=exchange)


def _fed_admm_steps(setting: Setting, exchange: Exchange) -> Any:
    local = local_gradient(setting.second, steps=STEPS)
    return fed_admm(setting.first, local=local, exchange=exchange)


def _fed_avg(setting: Setting, exchange: Exchange) -> Any:
    return fed_avg(setting.first, local_steps=STEPS, exchange=exchange)


def _scaffold(setting: Setting, exchange: Exchange) -> Any:
    return scaffold(setting.second, local_steps=STEPS, server_step=setting.first, exchange=exchange)


def _subgradient(setting: Setting, exchange: Exchange) -> Any:
    return fed_subgradient(power_decay(setting.first, setting.second), exchange=exchange)


def _fsmdm(setting: Setting, exchange: Exchange) -> Any:
    usual = FSMDM_PRESETS["tuned"]
    return fsmdm(
        "tuned",
        d=usual["d"] * setting.first,
        beta=usual["beta"] / setting.first,
        c=usual["c"] * setting.second,
        alpha=usual["alpha"] / setting.second,
        exchange=exchange,
    )


_RATES = (0.01, 0.03, 0.1)
SOLVERS = {
    "LAD: FedADMM": Late("LAD", _fed_admm, between(0.3, 100.0, 12)),
    "LAD: FedAvg": Late("LAD", _fed_avg, between(0.0001, 0.1, 12)),
    "LAD: SCAFFOLD": Late("LAD", _scaffold, (0.1, 0.3, 1.0), (0.001, 0.003, 0.01, 0.03)),
    "LAD: subgradient": Late("LAD", _subgradient, between(0.3, 10.0, 6), (0.5, 1.0)),
    "least squares: FedADMM": Late("least squares", _fed_admm_steps, (0.3, 1.0, 3.0, 10.0), _RATES),
    "least squares: FedAvg": Late("least squares", _fed_avg, between(0.0001, 0.1, 12)),
    "least squares: SCAFFOLD": Late(
        "least squares", _scaffold, (0.1, 0.3, 1.0), (0.003, 0.01, 0.03, 0.1)
    ),
    "localisation: FSMDM": Late("localisation", _fsmdm, between(0.1, 10.0, 6), (0.3, 1.0)),
    "localisation: subgradient": Late(
        "localisation", _subgradient, between(3.0, 100.0, 6), (0.5, 1.0)
    ),
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


def delays(mean: jax.Array) -> tuple[Delay, ...]:
    """Return the delays in the order of `LAWS`."""
    geometric = geometric_delay(mean, DEPTH, late="last")
    # A scale above the first of the table would be one of a mean that is not 0.
    scale = jnp.where(mean > 0, _scale_of(mean), 1e-12)
    return (
        geometric,
        heavy_tailed_delay(EXPONENT, DEPTH, scale=scale, late="last"),
        lossy(LOST, geometric),
    )


@pytree_dataclass
class Delayed(Method):
    """A solver of a task whose messages up are late."""

    law: jax.Array  # shape=(), int32: its place in `LAWS`
    mean: jax.Array  # shape=(): of the waits
    setting: Setting  # of the solver, numbers of shape ()
    solver_name: str = field(metadata={"static": True})
    in_order: bool = field(metadata={"static": True})

    in_turn = True

    def __call__(self, problem, key, rounds, every):
        """Run the solver; "error" is that of the server's model."""
        asked = problem[SOLVERS[self.solver_name].task]
        problem, solver, key = self.posed(problem, key, rounds)
        return run_measured(solver, problem, key, rounds, every, asked.solution, asked.unit)

    def posed(self, problem, key, rounds):
        """Return the task's problem, and its solver with late messages."""
        key = jax.random.clone(key)  # methods that run in turn have the same draws
        return problem[SOLVERS[self.solver_name].task].problem, self.solver(), key

    def solver(self) -> Any:
        """Return the solver, with late messages."""
        if self.in_order:
            delay: Delay = geometric_delay(self.mean, DEPTH, late="last", in_order=True)
        else:
            delay = ADelay(delays(self.mean), self.law)
        return SOLVERS[self.solver_name].build(self.setting, exchange(delay=delay))
