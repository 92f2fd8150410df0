"""What a benchmark runs: a solver with the settings that are tried for it, and what it costs.

Every method has two numbers to tune, or one, and `GRID` settings in all: the same effort for
everybody.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._results import Measure
from fedjax_admm._run._rounds import run
from fedjax_admm.participation import without_replacement
from fedjax_admm.penalties import Penalty
from fedjax_admm.protocol import Solver
from fedjax_admm.trials.experiments._data import tuned_rows
from fedjax_admm.trials.experiments._methods import Method, SolverMethod, recorded_rounds
from fedjax_admm.trials.experiments._tuning import STEPS, Setting, Tuned, chosen_setting
from fedjax_admm.trials.figures import SEPARATOR

GRID = 12
"""How many settings of a method are tried."""


def tuned_places(experiment: str) -> dict[tuple[str, str], dict[float, int]]:
    """Return by task and method, and by swept value, the place of the best setting in its grid.

    `python benchmarks/tune.py EXPERIMENT` prints them: the best of 12 settings by the
    mean error after the last round on 3 tuning problems.
    """
    places: dict[tuple[str, str], dict[float, int]] = {}
    for row in tuned_rows("benchmarks"):
        if row["experiment"] == experiment:
            of_method = places.setdefault((row["task"], row["method"]), {})
            of_method[float(row["value"])] = int(row["place"])
    return places


@dataclass(frozen=True)
class Recipe(Tuned):
    """A method before its numbers are known."""

    passes: float = (
        STEPS  # over the minibatch, or all samples, of a client that takes part, a round
    )
    passes_before: float = 0.0  # over everybody's samples, before the first round
    sums: bool = False  # the sum of the losses is minimised, not their mean

    def solver(self, setting: Setting, regularizer: Callable[[Any], Penalty], clients: int) -> Any:
        """Return the solver of a setting."""
        return self.build(setting, regularizer=regularizer(float(clients) if self.sums else 1.0))


@pytree_dataclass
class PeerMethod(Method):
    """A solver on one of a trial's problems, with some clients drawn in every round."""

    solver: Solver
    passes: jax.Array  # shape=(): see `Recipe`
    passes_before: jax.Array  # shape=()
    task: jax.Array  # shape=(), int32: which problem of those that are stacked
    family: str = field(metadata={"static": True})  # under which name these stand
    drawn: int = field(metadata={"static": True})  # clients per round
    measure: Measure = field(metadata={"static": True})

    def __call__(self, problem, key, rounds, every):
        """Run the solver; "gradients" counts gradients of single samples.

        It is what is to be expected of clients drawn at random: passes times clients that take part
        times the samples of a minibatch, or their mean number of samples.
        """
        chosen = self.problem_of(problem)
        method = SolverMethod(self.solver, self.measure, without_replacement(self.drawn))
        sizes = chosen.sizes.astype(chosen.start.dtype)
        if chosen.batch_size is not None:
            sizes = jnp.full_like(sizes, chosen.batch_size)
        done = jnp.asarray(recorded_rounds(rounds, every), sizes.dtype)
        spent = done * self.passes * self.drawn * jnp.mean(sizes)
        spent = spent + self.passes_before * jnp.sum(sizes)
        return {**method(chosen, key, rounds, every), "gradients": spent}

    def posed(self, problem, key, rounds):
        """Return the task's problem."""
        return self.problem_of(problem), self.solver, key

    def problem_of(self, problem):
        """Return the problem that the method solves."""
        return jax.tree.map(lambda leaf: leaf[self.task], problem[self.family])


def tuning_score(
    recipe: Recipe,
    setting: Setting,
    problem: Any,
    key: jax.Array,
    regularizer: Callable[[Any], Penalty],
    *,
    rounds: int,
    drawn: int,
    measure: Measure,
) -> jax.Array:
    """Return the "error" of a setting after the last round, shape ().

    No test data are in the problem that it gets: its held-out samples are for validation.
    """
    solver = recipe.solver(setting, regularizer, problem.num_clients)
    taking_part = without_replacement(drawn)
    options: Any = {"participation": taking_part, "measure": measure, "every": rounds}
    return run(solver, problem, key, rounds=rounds, **options).trace["error"][-1]


def peer_methods(
    task: str,
    recipes: Mapping[str, Recipe],
    places: Mapping[tuple[str, str], Mapping[float, int]],
    settings: Mapping[str, Any],
    value: Any,
    regularizer: Callable[[Any], Penalty],
    family: str,
    place: int,
    measure: Measure,
) -> dict[str, PeerMethod]:
    """Return the methods of a task, with their settings tuned at the nearest swept value."""
    methods = {}
    for name, recipe in recipes.items():
        setting = chosen_setting(recipe.grid(), places[task, name], value)
        methods[f"{task}{SEPARATOR}{name}"] = PeerMethod(
            recipe.solver(setting, regularizer, settings["clients"]),
            jnp.asarray(recipe.passes, float),
            jnp.asarray(recipe.passes_before, float),
            jnp.asarray(place, jnp.int32),
            family,
            settings["drawn"],
            measure,
        )
    return methods
