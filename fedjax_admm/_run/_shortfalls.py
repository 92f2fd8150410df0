"""The number of inexact proximal steps that fell short, which inner solvers count in a state."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import is_concrete


def unsolved(state: Any) -> jax.Array:
    """Return the number of steps that fell short since the first round, shape (), int32."""
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
    """Return the memories of inner solvers in a state."""
    nodes = jax.tree.leaves(state, is_leaf=lambda node: hasattr(node, "short"))
    return [node for node in nodes if hasattr(node, "short")]
