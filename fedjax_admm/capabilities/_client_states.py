"""States of clients' losses, such as running statistics, in what solvers keep of the clients.

A problem has the states before the first round. Whoever computes gradients of it keeps the present
ones in a `KeptStates` among what it keeps of every client, where the harness selects the rows of
those who take part, and where measures find them.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import refuse
from fedjax_admm.capabilities._needs import has
from fedjax_admm.capabilities._problems import ClientStates


class KeptStates(NamedTuple):
    """The present states of the clients' losses."""

    states: Any  # a pytree (clients, ...)


def kept_states(problem: Any) -> KeptStates | tuple[()]:
    """Return the states before the first round, for a memory; () where the losses have none."""
    return KeptStates(problem.states) if has(problem, ClientStates) else ()


def slopes_and_states(
    problem: Any, points: jax.Array, key: Any, kept: KeptStates | tuple[()]
) -> tuple[jax.Array, Any]:
    """Return the gradients (clients, dim), and the states after they were computed."""
    if not kept:
        return problem.gradients(points, key), kept
    slopes, states = problem.with_states(kept.states).gradients_and_states(points, key)
    return slopes, KeptStates(states)


def at_state(problem: Any, state: Any) -> Any:
    """Return the problem with the clients' states as a solver's state has them.

    Of several that a state has, as for a shared model and for personal ones, it is the first.
    """
    found = _kept_in(state)
    return problem.with_states(found[0].states) if found else problem


def averaged_states(problem: Any, clients: Any, rows: Any, speaks: jax.Array) -> Any:
    """Return what clients keep, with averaged states where the problem asks for that.

    Args:
      problem: of all clients.
      clients: what they keep after a round.
      rows: shape (drawn,), int32: which of them were computed; all if None.
      speaks: bool, of those that were computed: who sends.
    """
    if not getattr(problem, "average_state", False):
        return clients

    def mean(node: Any) -> Any:
        if not isinstance(node, KeptStates):
            return node
        return KeptStates(problem.averaged(node.states, rows, speaks))

    return jax.tree.map(mean, clients, is_leaf=lambda node: isinstance(node, KeptStates))


def numbers_in_states(problem: Any) -> int:
    """Return how many numbers of a client's state travel each way in a round."""
    if not getattr(problem, "average_state", False):
        return 0
    floats = [x for x in jax.tree.leaves(problem.states) if jnp.issubdtype(x.dtype, jnp.floating)]
    return sum(math.prod(leaf.shape[1:]) for leaf in floats)


def first_state(solver: Any, problem: Any, key: jax.Array) -> Any:
    """Return the solver's state before the first round.

    Raises:
      InputError: the losses have states, and the solver keeps none.
    """
    state = solver.init(problem, key)
    check_kept(solver, problem, state)
    return state


def check_kept(solver: Any, problem: Any, state: Any) -> None:
    """Check that a solver's state, or that of its clients, has the states of the losses."""
    lacks = has(problem, ClientStates) and not _kept_in(state)
    told = f"must keep the states of the clients' losses, but {type(solver).__name__} keeps none"
    remedy = "take one with local steps, such as fed_avg, scaffold, fed_dyn or fed_admm"
    refuse(lacks, "solver", told, remedy=remedy)


def _kept_in(state: Any) -> list[KeptStates]:
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, KeptStates))
    return [node for node in nodes if isinstance(node, KeptStates)]
