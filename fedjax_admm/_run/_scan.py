"""Rounds of a problem whose arrays are all on the device: one scan, or one while loop."""

from functools import partial

import jax
import jax.numpy as jnp

from fedjax_admm._checks import refuse
from fedjax_admm._run._checks import check_kept, difference, measured, traced_residual
from fedjax_admm._run._estimates import in_dtype_of, read_estimate, unsolved
from fedjax_admm._run._keys import (
    fingerprint_of,
    init_key,
    participation_key,
    round_keys,
    with_fingerprint,
)
from fedjax_admm._run._results import RoundState, Run, Status
from fedjax_admm.capabilities import first_state, shaped
from fedjax_admm.devices import over_clients, replicate_uneven
from fedjax_admm.protocol import RoundInfo


def scan_rounds(solver, problem, key, participation, start, *, rounds, measure, every) -> Run:
    solver, problem, start = replicate_uneven((solver, problem, start))
    solver, problem = in_dtype_of(solver, problem), over_clients(problem)
    first = first_round(solver, problem, key, participation, start)
    advance = one_round(solver, problem, key, participation)

    def record(carry, _):
        (state, nonfinite), messages = jax.lax.scan(advance, carry, length=every)
        return (state, nonfinite), {
            **measured(measure, solver, problem, state.solver),
            "round": state.index,
            "messages": jnp.sum(messages, dtype=jnp.int32),
        }

    (state, nonfinite), trace = jax.lax.scan(
        record, (first, jnp.zeros((), jnp.int32)), length=rounds // every
    )
    status = Status(jnp.zeros((), jnp.int32), nonfinite, unsolved(state.solver))
    return replicate_uneven(Run(state, trace, status, read_estimate(solver, problem, state)))


def loop_until(
    solver, problem, key, participation, start, tolerance, end, *, residual, every, fresh
) -> Run:
    solver, problem, start = replicate_uneven((solver, problem, start))
    solver, problem = in_dtype_of(solver, problem), over_clients(problem)
    first = first_round(solver, problem, key, participation, start)
    advance = one_round(solver, problem, key, participation)

    def unfinished(carry):
        state, nonfinite, distance, _ = carry
        return (state.index < end) & (nonfinite == 0) & ~(distance <= tolerance)

    def several(carry):
        state, nonfinite, _, total = carry
        (state, nonfinite), messages = jax.lax.scan(advance, (state, nonfinite), length=every)
        distance = traced_residual(residual, solver, problem, state.solver)
        return state, nonfinite, distance, total + jnp.sum(messages, dtype=jnp.int32)

    none = jnp.zeros((), jnp.int32)
    distance = traced_residual(residual, solver, problem, first.solver)
    if fresh:
        # Before the first round all copies agree: a residual of zero there means nothing. And a
        # block goes on from one that has looked.
        distance = jnp.full_like(distance, jnp.inf)
    state, nonfinite, distance, messages = jax.lax.while_loop(
        unfinished, several, (first, none, distance, none)
    )
    converged = jnp.where(distance <= tolerance, state.index, 0)
    status = Status(converged, nonfinite, unsolved(state.solver))
    trace = {"round": state.index[None], "messages": messages[None], "residual": distance[None]}
    return replicate_uneven(Run(state, trace, status, read_estimate(solver, problem, state)))


def shape_of(solver, problem, key, participation, start, *, measure, every) -> Run:
    """Return the shapes of a Run of one record; nothing is computed."""
    ran = partial(scan_rounds, rounds=every, measure=measure, every=every)
    return jax.eval_shape(ran, solver, shaped(problem), key, participation, start)


def first_round(solver, problem, key, participation, start) -> RoundState:
    """Return the state before the first round of this call: `start`, if it is given.

    XLA must not know how it is made: what it knows of a state that is made in the same program it
    folds into the rounds, whose last bits then are not those of a run that goes on. And no array of
    the state is one of the problem.
    """

    def first() -> RoundState:
        shape = solver.participants(problem)
        return RoundState(
            jnp.zeros((), jnp.int32),
            participation.init(participation_key(key), shape),
            first_state(solver, problem, init_key(key)),
            fingerprint_of(key),
        )

    if start is None:
        return jax.lax.optimization_barrier(first())
    start = with_fingerprint(start, key)
    found = difference(jax.eval_shape(first), start)
    told = "must be the state of a run of this solver on this problem"
    refuse(found, "start", f"{told}, but {found}")
    return jax.lax.optimization_barrier(start)


def one_round(solver, problem, key, participation):
    """Return the body of the scan: (state, first non-finite round) -> the same, messages."""
    shape = solver.participants(problem)

    def advance(carry, _):
        state, nonfinite = carry
        draw_key, round_key = round_keys(key, state.index)
        remembered, presence = participation.draw(state.participation, state.index, draw_key, shape)
        check_kept(participation, "draw", state.participation, remembered)
        info = RoundInfo(state.index, round_key, presence.active, presence.sampled)
        new = solver.step(problem, state.solver, info)
        check_kept(solver, "step", state.solver, new)
        index = state.index + 1
        bad = ~jnp.all(jnp.isfinite(solver.estimate(new)))
        nonfinite = jnp.where((nonfinite == 0) & bad, index, nonfinite)
        sends = solver.transmitting(info) if hasattr(solver, "transmitting") else info.active
        messages = solver.messages(problem, sends)
        return (RoundState(index, remembered, new, state.fingerprint), nonfinite), messages

    return advance
