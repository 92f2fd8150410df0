"""What `fedjax-admm deploy` runs: the study of a file, or a trial of an experiment."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, default_float, listed
from fedjax_admm.deploy import Study
from fedjax_admm.trials.experiments._experiment import ROUNDS, Experiment, trial_keys
from fedjax_admm.trials.experiments._finding import find
from fedjax_admm.trials.experiments._own import file_module


def find_study(
    name: str, method: str | None, seed: int, settings: Mapping[str, str], rounds: int | None
) -> Study:
    """Return what a deployment of a name runs.

    Args:
      name: as `find` takes it; a file with a `STUDY` is deployed as it says.
      method: of an experiment; may be None where it has one.
      seed: of an experiment; the first trial of `run` with this seed is deployed.
      settings: of an experiment, as texts.
      rounds: how many, for experiments whose settings depend on it.

    Raises:
      InputError: there is no such file, experiment, setting or method, or it cannot be deployed.
    """
    if name.endswith(".py"):
        module = file_module(name)
        if hasattr(module, "STUDY"):
            if method is not None or settings:
                raise InputError(
                    f"is of experiments, but {name} names a STUDY, which has one solver",
                    argument="set" if method is None else "method",
                    remedy="leave it out",
                )
            return Study.of_module(module, name)
    experiment = find(name)
    return study(experiment, method, seed, experiment.resolve(settings), rounds)


def study(
    experiment: Experiment,
    method: str | None = None,
    seed: int = 2025,
    settings: Mapping[str, Any] | None = None,
    rounds: int | None = None,
) -> Study:
    """Return the study of a method in the first trial of an experiment, at its first swept value.

    Every client draws the problem of all and keeps its own row: a study of data that each client
    has alone is written as a `deploy.Study`.

    Args:
      experiment: what `run` takes.
      method: the name of a method whose solver is deployed; may be None where there is one.
      seed: as of `run`.
      settings: by name; the defaults if None.
      rounds: as of `run`; the experiment's if None.

    Raises:
      InputError: there is no such method, or it cannot be deployed.
    """
    settings = {**(settings or experiment.defaults()), ROUNDS: rounds or experiment.rounds}
    value = jnp.asarray(settings[experiment.sweep.name], default_float())[0]
    problem_key, key = trial_keys(jax.random.fold_in(jax.random.key(seed), 0))
    methods: Mapping[Any, Any] = experiment.methods(settings, value)
    if method is None and len(methods) == 1:
        (method,) = methods
    if method not in methods:
        wrong = "has several methods" if method is None else f"has no method {method!r}"
        raise InputError(
            f"{experiment.name} {wrong}",
            argument="method",
            value=method,
            remedy=f"name one of {listed(methods)}",
        )
    problem: Any = experiment.problem(settings, value, problem_key)
    solver, posed = None, getattr(methods[method], "posed", None)
    if posed is not None:
        problem, solver, key = posed(problem, key, settings[ROUNDS])
    if solver is None:
        raise InputError(
            f"{method} of {experiment.name} cannot be deployed, because it is not the run of a "
            "solver on one problem",
            argument="method",
            value=method,
        )
    return Study.of(solver, problem, key)
