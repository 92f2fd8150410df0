"""What goes into a program of rounds, and what a user reads and is told of its result."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import default_float, is_concrete
from fedjax_admm.capabilities import Parameters, has


def in_dtype_of(solver, problem):
    """Cast the floating leaves of the solver to the dtype of the problem's data."""
    floats = [leaf for leaf in jax.tree.leaves(problem) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    dtype = jnp.result_type(*floats) if floats else default_float()

    def cast(leaf):
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(cast, solver)


def read_estimate(solver: Any, problem: Any, state: Any) -> Any:
    """Return what the user reads: the estimate, as parameters where the problem has them."""
    estimate = solver.estimate(state.solver)
    if not has(problem, Parameters):
        return estimate
    # What is no array, as in modules, is no output of a program; `with_static` puts it back.
    return jax.tree.map(lambda x: x if hasattr(x, "dtype") else None, problem.parameters(estimate))


def with_static(problem: Any, result: Any) -> Any:
    """Return a Run whose estimate has the static leaves of the parameters, outside of tracing."""
    if not hasattr(problem, "with_static") or not is_concrete(result):
        return result
    return result._replace(estimate=problem.with_static(result.estimate))


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
