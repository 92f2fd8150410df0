"""States of clients' losses, such as running statistics, in what solvers keep of the clients.

A problem has the states before the first round. Whoever computes gradients of it keeps the present
ones in a `KeptStates` among what it keeps of every client, where the harness selects the rows of
those who take part, and where measures find them.
"""

from typing import Any, NamedTuple

import jax

from fedjax_admm._checks import InputError
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities._needs import has
from fedjax_admm.capabilities._problems import ClientStates


@short_repr
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


def first_state(solver: Any, problem: Any, key: jax.Array) -> Any:
    """Return the solver's state before the first round.

    Raises:
      InputError: the losses have states, and the solver keeps none.
    """
    state = solver.init(problem, key)
    if has(problem, ClientStates) and not _kept_in(state):
        raise InputError(
            "must keep the states of the clients' losses, or private parts that move with its steps, "
            f"but {type(solver).__name__} keeps none",
            argument="solver",
            value=solver,
            remedy="take one with local steps, such as fed_avg, scaffold, fed_dyn, fed_dr, fed_admm",
        )
    return state


def _kept_in(state: Any) -> list[KeptStates]:
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, KeptStates))
    return [node for node in nodes if isinstance(node, KeptStates)]
