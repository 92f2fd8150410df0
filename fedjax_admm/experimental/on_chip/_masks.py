"""Who takes part, drawn by the keys of `run` before the launch: one bit per client and round."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._run import RoundState, run
from fedjax_admm.capabilities import Clients
from fedjax_admm.traffic import Traffic

WORD = 32
"""Rounds whose masks share one integer."""


@register_dataclass
@dataclass(frozen=True, eq=False)
class _Attendance:
    """A solver that only notes who is present: with it `run` draws the masks by its own keys."""

    requires: ClassVar[tuple[type, ...]] = (Clients,)

    def participants(self, problem):
        return (problem.num_clients,)

    def init(self, problem, key):
        return jnp.zeros(problem.num_clients, bool)

    def step(self, problem, state, turn):
        return turn.active

    def estimate(self, state):
        return state

    def messages(self, problem, active):
        return jnp.sum(active, dtype=jnp.int32)

    def traffic(self, problem):
        return Traffic(up=0, down=0)


def _present(solver, problem, state):
    return {"present": state}


def draw_masks(problem, key, participation, start: RoundState, rounds: int):
    """Return the state of the process after `rounds` rounds, and the masks (rounds, clients)."""
    attendance = _Attendance()
    first = start._replace(solver=attendance.init(problem, key))

    def draw(state, rounds):
        return run(
            attendance,
            problem,
            key,
            rounds=rounds,
            participation=participation,
            measure=_present,
            start=state,
        )

    if jax.tree.leaves(first.participation):
        drawn = draw(first, rounds)
        return drawn.state.participation, drawn.trace["present"]
    # Without a memory the rounds do not depend on each other: all at once, no scan.
    indices = first.index + jnp.arange(rounds, dtype=jnp.int32)
    drawn = jax.vmap(lambda index: draw(first._replace(index=index), 1).trace["present"][0])
    return first.participation, drawn(indices)


def pack_rounds(masks: jax.Array) -> jax.Array:
    """Pack masks (rounds, clients) into int32 words (words, clients), 32 rounds in each."""
    rounds, clients = masks.shape
    whole = jnp.pad(masks, ((0, -rounds % WORD), (0, 0))).reshape(-1, WORD, clients)
    places = jnp.arange(WORD, dtype=jnp.uint32)[None, :, None]
    words = jnp.sum(whole.astype(jnp.uint32) << places, 1, dtype=jnp.uint32)
    return jax.lax.bitcast_convert_type(words, jnp.int32)
