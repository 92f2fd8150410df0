"""Checks of a problem: all that it says its clients can do, against each other."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, finite_array, typed_key
from fedjax_admm._run import check_arrays
from fedjax_admm.testing._problem_bench import Bench
from fedjax_admm.testing._problem_losses import (
    check_clipped,
    check_difference,
    check_gradients,
    check_memory,
    check_minibatches,
    check_minimizers,
    check_proximal,
    check_smoothed,
)
from fedjax_admm.testing._problem_rows import (
    check_apart,
    check_clients,
    check_dtypes,
    check_parameters,
    check_projection,
    check_take,
    check_transforms,
)
from fedjax_admm.testing._shared import (
    make,
    unfit,
)

_STEPS = (0.01, 1.0, 100.0)


def check_problem(
    problem: Any,
    *,
    points: ArrayLike | None = None,
    key: jax.Array | None = None,
    steps: Sequence[float] = _STEPS,
    exact: bool | None = None,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check every capability that a problem has; what it has not is not looked at.

    Numbers are compared in float64, to which the floating leaves of the problem are cast.

    - `clients`: it is a pytree of arrays, `start`, tree and graph fit the number of clients, and
      there is a capability at all.
    - `dtype`: results have the shapes of `fedjax_admm.capabilities`, and the dtype of the data,
      float32 and float64; they are finite.
    - `apart`: what a client returns does not depend on the points of the others.
    - `gradients`: along random directions they lie between the one-sided difference quotients of
      the values, which are one number where the loss is smooth.
    - `minibatches`: with a key, the mean of many draws is near the full gradient, and the same key
      draws the same.
    - `clipped`: the data's part of a clipped gradient is no longer than the clip.
    - `smoothed`: with little smoothing they are nearly the gradients.
    - `prox`: `f(w) + |w - v|^2 / (2 step)` is nowhere lower among many points, nor after steps
      along its gradient; of an inexact prox, which has a memory, it is not above that of v.
    - `memory`: the prox keeps the structure, shapes and dtypes of its memory.
    - `difference`: the proximal map of the convex part is monotone, as every exact one is.
    - `minimizers`: no point nearby is better.
    - `projection`: projecting twice is projecting once.
    - `take`: the problem of some clients returns their rows, draws from a key included.
    - `parameters`: every number of a model is in its parameters, stacked models in stacked ones.
    - `transforms`: the same numbers under `jax.jit` and `jax.vmap`.

    Args:
      problem: any.
      points: shape (clients, dim): where it is looked at; `start` and standard normal numbers if
        None.
      key: a typed key, for minibatches; `jax.random.key(3)` if None.
      steps: of the prox, positive.
      exact: whether the prox is exact; whether it has no memory if None.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the problem has no clients or no models, or another argument does not fit.
    """
    clients = getattr(problem, "num_clients", None)
    if isinstance(problem, type) or not isinstance(clients, int | np.integer) or clients < 1:
        raise unfit("problem", problem, "an object with a whole number of clients, num_clients")
    check_arrays("problem", problem)
    key = jax.random.key(3) if key is None else key
    typed_key(key)
    if not all(np.isfinite(step) and step > 0 for step in steps):
        raise unfit("steps", steps, "positive")
    start = getattr(problem, "start", None)
    if points is None:
        if start is None:
            raise InputError(
                f"must be given, because {type(problem).__name__} has no start",
                argument="points",
                remedy="give models, shape (clients, dim)",
            )
        here = np.asarray(start, float)
        first = np.broadcast_to(here, (int(clients), here.shape[-1]))
        points = first + np.random.default_rng(0).standard_normal(first.shape)
    seen = np.asarray(finite_array("points", points, (int(clients), None)), float)
    make(Bench(problem, seen, key, exact, tuple(map(float, steps))), _CHECKS, only)


_CHECKS = {
    "clients": check_clients,
    "dtype": check_dtypes,
    "apart": check_apart,
    "gradients": check_gradients,
    "minibatches": check_minibatches,
    "clipped": check_clipped,
    "smoothed": check_smoothed,
    "prox": check_proximal,
    "memory": check_memory,
    "difference": check_difference,
    "minimizers": check_minimizers,
    "projection": check_projection,
    "take": check_take,
    "parameters": check_parameters,
    "transforms": check_transforms,
}
PROBLEM_CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the checks that `check_problem` makes."""
