"""Shared by measures: a model for every client, the sum of all losses at one model, partitions."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import NotHereError
from fedjax_admm.capabilities import Clients, Values, needs
from fedjax_admm.kernels.compiling import Function, kernel


def measure(
    *problem: type, solver: Sequence[type] = (), state: Sequence[type] = ()
) -> Callable[[Function], Function]:
    """Declare a measure with its needs; of pytrees of arrays it is compiled once."""

    def declare(function: Function) -> Function:
        program = kernel(function)

        @wraps(function)
        def measured(*given: Any, **options: Any) -> Any:
            leaves = jax.tree.leaves((given, options))
            arrays = all(isinstance(leaf, jax.Array | np.ndarray | float) for leaf in leaves)
            try:
                return (program if arrays else function)(*given, **options)
            except NotHereError:  # data on the host are read outside of programs
                return function(*given, **options)

        found: Any = needs(*problem, solver=solver, state=state)(measured)
        return found

    return declare


@measure(Clients, Values)
def total_loss(problem: Any, model: jax.Array) -> jax.Array:
    """Return `sum_l f_l(w)` at one model (dim,), shape ()."""
    return jnp.sum(problem.values(jnp.broadcast_to(model, (problem.num_clients, *model.shape))))


def rows(models: jax.Array, problem: Any) -> jax.Array:
    """Return a model for every client, (clients, dim), of models (clients, dim) or one (dim,)."""
    return jnp.broadcast_to(models, (problem.num_clients, models.shape[-1]))


def transitive_closure(linked: jax.Array) -> jax.Array:
    """Return which nodes are connected by links.

    Args:
      linked: bool, shape (n, n), symmetric, True on the diagonal.

    Returns:
      Bool, shape (n, n): an equivalence relation.
    """
    reached = linked
    for _ in range(max(1, linked.shape[0] - 1).bit_length()):
        reached = reached.astype(jnp.float32) @ reached.astype(jnp.float32) > 0
    return reached


def adjusted_rand_index(first: jax.Array, second: jax.Array) -> jax.Array:
    """Compare two partitions, given as equivalence relations.

    With a, b the numbers of pairs together in each, m those in both, n all pairs:
    `(m - a b / n) / ((a + b) / 2 - a b / n)`; 1 where both partitions are the same trivial one.

    Args:
      first: bool, shape (clients, clients).
      second: the same.

    Returns:
      Shape (): 1 for equal partitions, 0 on average for independent ones.

    Reference: L. Hubert, P. Arabie, "Comparing partitions", Journal of Classification 2 (1985)
    193-218, equation (5).
    """
    clients = first.shape[0]

    def pairs(together: jax.Array) -> jax.Array:
        return (jnp.sum(together, dtype=float) - clients) / 2

    a, b, both = pairs(first), pairs(second), pairs(first & second)
    expected = a * b / max(1.0, clients * (clients - 1) / 2)
    spread = (a + b) / 2 - expected
    return jnp.where(spread > 0, (both - expected) / jnp.where(spread > 0, spread, 1.0), 1.0)
