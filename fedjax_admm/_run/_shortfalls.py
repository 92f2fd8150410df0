"""How many inexact proximal steps of clients fell short, as the inner solvers in a state count."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import is_concrete


def unsolved(state: Any) -> jax.Array:
    """Return how many steps fell short since the first round, shape (), int32."""
    counts = [jnp.sum(node.short, dtype=jnp.int32) for node in _counting(state)]
    return sum(counts, jnp.zeros((), jnp.int32))


def tell_unsolved(state: Any, number: jax.Array) -> bool:
    """Warn of steps that fell short where the number is known; return whether they are counted."""
    counted = bool(_counting(state))
    if counted and is_concrete(number) and int(number):
        warnings.warn(
            f"{int(number)} proximal steps of clients fell short of their accuracy, so that the "
            "result may be off the optimum: give the problem a prox, or an inner solver with more "
            "steps, or the solver a shorter proximal step (a larger rho).",
            stacklevel=3,
        )
    return counted


def _counting(state: Any) -> list[Any]:
    """Return what the inner solvers of clients remember in a state."""

    def counts(node: Any) -> bool:
        return hasattr(node, "short")

    return [node for node in jax.tree.leaves(state, is_leaf=counts) if counts(node)]
