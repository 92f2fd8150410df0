"""Rounds of a problem whose samples are on the host: a loop that reads those of the clients drawn.

Each round is the one of `run`, on a problem that holds the samples of the clients that it computes.
Who takes part is drawn some rounds before, and another thread reads the samples meanwhile. What
needs the samples of all clients, such as some methods before their first round and most measures,
is computed operation by operation, and the problem reads all clients in groups.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import NotHereError, is_concrete, refuse
from fedjax_admm._host._ahead import ahead
from fedjax_admm._host._programs import compiled
from fedjax_admm._run._checks import measured, traced_residual
from fedjax_admm._run._estimates import in_dtype_of, read_estimate, unsolved
from fedjax_admm._run._keys import round_keys, with_fingerprint
from fedjax_admm._run._results import RoundState, Run, Status
from fedjax_admm._run._scan import first_round, one_round, shape_of
from fedjax_admm.devices import over_clients, replicate_uneven
from fedjax_admm.participation import Presence


class _Drawn(NamedTuple):
    """A participation process whose round has been drawn."""

    state: Any
    presence: Presence

    def draw(self, state, index, key, shape):
        """Return what has been drawn."""
        return self.state, self.presence


def streamed_rounds(solver, problem, key, participation, start, *, rounds, measure, every) -> Run:
    """Return what `scan_rounds` does, up to rounding."""
    solver, state = _begun(solver, problem, key, participation, start)
    nonfinite, records = jnp.zeros((), jnp.int32), []
    arguments = solver, problem, key, participation, state
    for state, nonfinite, messages in _stepped(*arguments, rounds, every):  # noqa: B007
        seen = _over_all(_measured, solver, problem, state.solver, measure=measure)
        # Copies: the next round takes the memory of the state, which a measure may return.
        seen = {**seen, "round": state.index, "messages": messages}
        records.append(jax.tree.map(jnp.copy, seen))
    if records:
        trace = jax.tree.map(lambda *leaves: jnp.stack(leaves), *records)
    else:
        shapes = shape_of(solver, problem, key, participation, start, measure=measure, every=every)
        trace = jax.tree.map(lambda leaf: jnp.zeros((0, *leaf.shape[1:]), leaf.dtype), shapes.trace)
    return _run(solver, problem, state, trace, jnp.zeros((), jnp.int32), nonfinite)


def streamed_until(
    solver, problem, key, participation, start, tolerance, end, *, residual, every, fresh
) -> Run:
    """Return what `loop_until` does, up to rounding."""
    solver, state = _begun(solver, problem, key, participation, start)
    nonfinite, sent = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)

    def seen(state: RoundState) -> Any:
        return _over_all(_residual, solver, problem, state.solver, residual=residual)

    distance = seen(state)
    if fresh:
        distance = jnp.full_like(distance, jnp.inf)
    left = max(int(end) - int(state.index), 0)
    if not distance <= tolerance:
        arguments = solver, problem, key, participation, state
        for state, nonfinite, messages in _stepped(*arguments, left, every):
            distance, sent = seen(state), sent + messages
            if distance <= tolerance or nonfinite:
                break
    converged = jnp.where(distance <= tolerance, state.index, 0)
    trace = {"round": state.index[None], "messages": sent[None], "residual": distance[None]}
    return _run(solver, problem, state, trace, converged, nonfinite)


def _begun(solver, problem, key, participation, start) -> tuple[Any, RoundState]:
    """Return the solver in the dtype of the problem, and its first state, for rounds to take."""
    traced = not is_concrete((solver, problem, key, participation, start, jnp.zeros(())))
    told = "is streamed from the host while rounds are computed, but this run is traced"
    refuse(traced, "data", told, remedy="call run outside of jax.jit, jax.vmap and jax.grad")
    solver = in_dtype_of(solver, problem)
    if start is None:
        return solver, _over_all(_first, solver, problem, key, participation, None)
    shape_of(solver, problem, key, participation, start, measure=None, every=1)
    return solver, jax.tree.map(jnp.copy, with_fingerprint(start, key))


def _stepped(
    solver, problem, key, participation, state, rounds, every
) -> Iterator[tuple[RoundState, jax.Array, jax.Array]]:
    """Yield state, first non-finite round and messages after each `every` rounds."""
    shape = solver.participants(problem)
    told = f"must draw a mask of all clients in a round, but it draws one of shape {shape}"
    refuse(shape != problem.data.sizes.shape, "solver", told, remedy="take one on a star")

    def jobs() -> Iterator[Callable[[], Any]]:
        drawn = state.participation
        for index in range(begun, begun + rounds):
            drawn, presence = _draw(participation, drawn, key, jnp.int32(index), shape=shape)
            yield partial(_read, problem.data.source, _Drawn(drawn, presence))

    begun, carry = int(state.index), (state, jnp.zeros((), jnp.int32))
    sent = jnp.zeros((), jnp.int32)
    read = ahead(jobs(), problem.data.source.prefetch)
    for done, (drawn, rows) in enumerate(read, 1):
        here = replace(problem, data=problem.data.holding(rows))
        jax.block_until_ready(carry)  # no more than one round waits with its samples
        carry, messages = _round(carry, solver, here, key, drawn)
        sent += messages
        if done % every == 0:
            yield (*carry, sent)
            sent = jnp.zeros((), jnp.int32)


def _read(source: Any, drawn: _Drawn) -> tuple[_Drawn, Any]:
    """Read the samples of the clients that a round computes, in another thread.

    Where a process draws no fixed number, those are the active ones and some absent ones besides,
    up to a power of two, so that few programs are compiled.
    """
    presence, active = drawn.presence, None
    if presence.sampled is None:
        there = np.asarray(presence.active)
        number = np.count_nonzero(there)
        count = min(there.size, 1 << max(int(number) - 1, 0).bit_length())
        clients = np.argsort(~there, stable=True)[:count].astype(np.int32)
        active = np.arange(count) < number
        drawn = _Drawn(drawn.state, presence._replace(sampled=clients))
    else:
        clients = np.asarray(presence.sampled)
    return drawn, source.rows(clients, active)


def _run(solver, problem, state, trace, converged, nonfinite) -> Run:
    status = Status(converged, nonfinite, unsolved(state.solver))
    estimate = _over_all(_estimate, solver, problem, state)
    return Run(state, trace, status, estimate)


def _over_all(program: Any, solver: Any, problem: Any, *arrays: Any, **static: Any) -> Any:
    """Apply a program to a problem without samples; to one with all clients if it needs them.

    Some clients that it asks for by their numbers, as for an estimate of curvature, it gets.
    """
    data = problem.data.holding()
    for _ in range(2):
        try:
            return program(solver, replace(problem, data=data), *arrays, **static)
        except NotHereError as missing:
            if missing.clients is None:
                break
            here = problem.data.source.rows(np.asarray(missing.clients))
            data = problem.data.holding(here, missing.clients)
    return program.__wrapped__(solver, problem, *arrays, **static)


_first = compiled(first_round)


@compiled
def _draw(participation, drawn, key, index, *, shape) -> tuple[Any, Presence]:
    return participation.draw(drawn, index, round_keys(key, index)[0], shape)


@partial(compiled, donate=(0,))
def _round(carry, solver, problem, key, drawn):
    problem = over_clients(problem)
    return replicate_uneven(one_round(solver, problem, key, drawn)(carry, None))


@compiled
def _measured(solver, problem, state, *, measure):
    return measured(measure, solver, problem, state)


@compiled
def _residual(solver, problem, state, *, residual):
    return traced_residual(residual, solver, problem, state)


@compiled
def _estimate(solver, problem, state):
    return read_estimate(solver, problem, state)
