"""The private methods of the zCDP-NFL experiments: their noise, their solvers, what they spend."""

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import privacy
from fedjax_admm._checks import count, default_float
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._results import Measure
from fedjax_admm.measures import consensus_error
from fedjax_admm.privacy import Plan, exact_release, gaussian_release
from fedjax_admm.protocol import Solver
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
from fedjax_admm.trials.experiments._experiment import ROUNDS, Settings
from fedjax_admm.trials.experiments._methods import Method, SolverMethod, recorded_rounds
from fedjax_admm.trials.experiments._zcdp_settings import (
    ADVANCED,
    BASIC,
    GRAD,
    P_ADMM,
    ZCDP,
    PrivateSetting,
)
from fedjax_admm.trials.figures import SEPARATOR

_MOST_RELEASES = 10**6  # what every one of them spends is found before the run


@lru_cache(maxsize=1024)
def _spent(plan: Plan) -> np.ndarray:
    """Return the exact epsilon after every release, from none to all of them."""
    return plan.spent(np.arange(plan.rounds + 1)).exact_epsilon


def _not_below(exact: np.ndarray) -> jax.Array:
    """Return numbers in the session's dtype, rounded up."""
    rounded = exact.astype(default_float())
    above = np.nextafter(rounded, rounded.dtype.type(np.inf))
    return jnp.asarray(np.where(rounded < exact, above, rounded))


# Plans are made once, so that what they spend is found once.
_zcdp_plan = lru_cache(maxsize=1024)(privacy.zcdp_plan)
_approximate_plan = lru_cache(maxsize=1024)(privacy.approximate_plan)


class Recipe(NamedTuple):
    """How a private method is built from its setting."""

    plan: Callable[..., Plan]  # (epsilon, delta, rounds, tau) -> plan
    solver: Callable[[Any, PrivateSetting], Solver]  # (release, setting) -> solver


def _admm(release: Any, setting: PrivateSetting) -> Solver:
    step_size = power_decay(setting.step, setting.power)
    return private_networked_admm(release, rho=setting.rho, step_size=step_size)


def _subgradient(release: Any, setting: PrivateSetting) -> Solver:
    return private_subgradient(release, step_size=power_decay(setting.step, setting.power))


def _p_admm(release: Any, setting: PrivateSetting) -> Solver:
    # Five steps are exact to rounding in all settings here.
    return p_admm(release, rho=setting.rho, newton_steps=5)


RECIPES = {
    ZCDP: Recipe(_zcdp_plan, _admm),
    ADVANCED: Recipe(partial(_approximate_plan, composition="advanced"), _admm),
    BASIC: Recipe(partial(_approximate_plan, composition="basic"), _admm),
    GRAD: Recipe(_zcdp_plan, _subgradient),
    P_ADMM: Recipe(_zcdp_plan, _p_admm),
}


@pytree_dataclass
class TaskMethod(Method):
    """A private solver on one of a trial's tasks, with what it spends."""

    solver: Solver
    spent: jax.Array | None  # shape=(rounds + 1,): exact epsilon after so many releases, from the
    # accountant; None where there is no noise
    task: str = field(metadata={"static": True})
    measure: Measure = field(metadata={"static": True})

    def __call__(self, problem, key, rounds, every):
        """Run the solver; everybody takes part, so that all spend the same."""
        outcome = SolverMethod(self.solver, self.measure)(problem[self.task], key, rounds, every)
        if self.spent is None:
            return outcome
        return {**outcome, "epsilon": self.spent[recorded_rounds(rounds, every)]}

    def posed(self, problem, key, rounds):
        """Return the task's problem."""
        return problem[self.task], self.solver, key


def build_solver(
    method: str, setting: PrivateSetting, epsilon: float, delta: float, rounds: int
) -> tuple[Solver, Plan]:
    """Build a private method's solver, and the plan of its noise."""
    recipe = RECIPES[method]
    plan = recipe.plan(epsilon, delta, rounds, setting.tau)
    return recipe.solver(gaussian_release(plan, setting.clip), setting), plan


def _private(
    task: str, method: str, setting: PrivateSetting, epsilon: float, settings: Settings
) -> TaskMethod:
    delta, rounds = settings["delta"], settings[ROUNDS]
    count("rounds", rounds, at_most=_MOST_RELEASES)
    solver, plan = build_solver(method, setting, epsilon, delta, rounds)
    return TaskMethod(solver, _not_below(_spent(plan)), task, consensus_error)


def noiseless(
    task: str,
    method: str,
    setting: PrivateSetting,
    clip: Any = None,
    measure: Measure = consensus_error,
) -> TaskMethod:
    """Return a method that adds no noise; it clips where `clip` is a norm."""
    return TaskMethod(RECIPES[method].solver(exact_release(clip), setting), None, task, measure)


def _at(values: tuple[float, ...], value: Any, build: Callable[[float], TaskMethod]) -> TaskMethod:
    """Return `build(value)` for a traced value out of a few: noise is planned on the host."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[build(each) for each in values])
    chosen = jnp.argmin(jnp.abs(jnp.asarray(values, float) - value))
    return jax.tree.map(lambda leaf: leaf[chosen], stacked)


def task_method_name(task: str, method: str) -> str:
    """Return what a method is called on a task, as the figures of several tasks read it."""
    return f"{task}{SEPARATOR}{method}"


def methods_at(
    settings: Settings,
    name: str,
    value: Any,
    chosen: dict[tuple[str, str], Callable[[float], tuple[PrivateSetting, float]]],
) -> dict[str, TaskMethod]:
    """Return methods whose setting and epsilon depend on the swept number."""

    def build(task, method, choose):
        def at(each):
            setting, epsilon = choose(each)
            return _private(task, method, setting, epsilon, settings)

        return _at(tuple(settings[name]), value, at)

    return {task_method_name(*pair): build(*pair, choose) for pair, choose in chosen.items()}
