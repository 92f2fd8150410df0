"""Run a solver: one scan over rounds, or a while loop until a residual is small.

    run(solver, problem, key, rounds=1000)                   one run
    jax.vmap(lambda k: run(solver, problem, k, rounds=1000))(keys)      a Monte Carlo batch
    jax.vmap(lambda w: run(fsmdm(omega=w), problem, key, rounds=1000))(grid)   a grid
    with jax.set_mesh(device_mesh(clients=4)):
        run(solver, problem, key, rounds=1000)               one problem, spread over devices

Round `t` gets the key `fold_in(key, t)` with its absolute index, so that 2 x 20 rounds are 40
rounds, bit for bit. Nothing raises inside jit: `Run.status` tells what happened.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    InputError,
    count,
    is_concrete,
    multiple,
    not_deleted,
    one_line,
    scalar,
    typed_key,
)
from fedjax_admm._frames import trace_dataset, trace_frame
from fedjax_admm._host import compiled
from fedjax_admm._plots import plot_trace
from fedjax_admm._run._checkpoints import opened_checkpoint
from fedjax_admm._run._checks import (
    check_kept,
    checked_call,
    difference,
    measured,
    traced_residual,
)
from fedjax_admm._run._estimates import in_dtype_of, read_estimate, with_static
from fedjax_admm._run._keys import (
    fingerprint_of,
    init_key,
    participation_key,
    round_keys,
    with_fingerprint,
)
from fedjax_admm._run._noise import key_use
from fedjax_admm._run._progress import check_untraced, loop_in_blocks, scan_in_blocks
from fedjax_admm._run._shortfalls import tell_unsolved, unsolved
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import first_state, shaped, streams
from fedjax_admm.devices import over_clients, replicate_uneven
from fedjax_admm.participation import Everyone, Participation
from fedjax_admm.protocol import RoundInfo, Solver

Measure = Callable[[Any, Any, Any], Mapping[str, jax.Array]]
"""`measure(solver, problem, state) -> dict of arrays`; a module-level function (a new lambda
compiles again at every call)."""


class RoundState(NamedTuple):
    """All that a run needs to go on: give it back as `start`, with the same key."""

    # shape=(), int32: how many rounds are done
    index: jax.Array  # pyright: ignore[reportIncompatibleMethodOverride]
    participation: Any
    solver: Any
    # shape=(), uint32: by which a resumed run knows its key, which does not follow from it; None is
    # taken for that of any key
    fingerprint: jax.Array | None = None


class Status(NamedTuple):
    """What became of a call; rounds are counted from 1, and 0 means never."""

    converged: jax.Array  # shape=(), int32: the round after which the residual was small enough
    nonfinite: jax.Array  # shape=(), int32: the first round whose estimate was not finite
    unsolved: jax.Array  # shape=(), int32: since the first round, how many inexact proximal steps
    # of clients fell short of their accuracy


class Run(NamedTuple):
    """What `run` and `run_until` return."""

    state: RoundState
    trace: dict[str, jax.Array]  # leading axis = records; always "round" and "messages"
    status: Status
    estimate: Any  # the solver's estimate after the last round: an array; or the user's pytree of
    # parameters, where the problem has one (with an axis of clients for personal models)

    __repr__ = short_repr

    def plot(self, metric: str | None = None, *, label: str | None = None, axes: Any = None) -> Any:
        """Draw what was measured against rounds with matplotlib, logarithmic where it is positive.

        Of a batch of runs (`jax.vmap`) the median is drawn, with a band from 10 to 90 % of them;
        numbers that are not finite are left out, and the legend tells of how many runs. Several
        runs can be drawn into the same axes: every curve has a colour and a line of its own.

        Args:
          metric: a name of the trace; the first that was measured if None.
          label: what the legend calls this run; without it a single run has no legend.
          axes: what to draw into; new ones if None.

        Returns:
          The matplotlib Axes.

        Raises:
          InputError: the run measured nothing of that name, or an array per round, or the runs of
            a batch have recorded different rounds.
        """
        return plot_trace(self.trace, metric, label, axes)

    def to_dataframe(self) -> Any:
        """Return the trace as a pandas DataFrame: a row per record, and per run of a batch.

        Raises:
          InputError: pandas is not installed, or a metric is an array per round.
        """
        return trace_frame(self.trace)

    def to_xarray(self) -> Any:
        """Return the trace as an xarray Dataset over "round", and "run" for a batch.

        Runs of a batch that have recorded different rounds, as those of `run_until`, have "record"
        in the place of "round", which is a variable then.

        Raises:
          InputError: xarray is not installed.
        """
        return trace_dataset(self.trace)


def run(
    solver: Solver,
    problem: Any,
    key: jax.Array,
    *,
    rounds: int,
    participation: Participation | None = None,
    measure: Measure | None = None,
    every: int = 1,
    start: RoundState | None = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
) -> Run:
    """Run a solver for a number of rounds: one `jax.lax.scan`, compiled once per structure.

    Inside `with jax.set_mesh(device_mesh(clients=4))` the clients are spread over four devices.

    Args:
      solver: hyper-parameters as leaves; its floating leaves are cast to the problem's dtype.
      problem: client-stacked data; or data on the host, `problems.streamed`, of which every round
        gets those of the clients drawn.
      key: a typed key (`jax.random.key`). A private solver's noise follows from it, so that **it
        must serve once**: the difference of two runs under one key shows what the noise hides. A
        second run of something else, or another continuation of the same state, is refused where
        it can be seen (`key_reuse_allowed` says where).
      rounds: how many rounds to run, a multiple of `every`.
      participation: who takes part; everyone if None.
      measure: what to record, `measure(solver, problem, state) -> dict of arrays`.
      every: record after each `every` rounds.
      start: the `state` of an earlier `Run` with the same solver, problem, participation and
        key, to go on from there. It knows its key by a fingerprint: another one is refused, unless
        one of them is traced. A private solver may go on with other numbers; its state holds what
        has been spent.
      progress: show the rounds done and the time left on standard error. The run goes in about
        twenty blocks of at least two records, with the same bits; two programs are compiled. Ctrl-C
        gives back the `Run` of the blocks that are done, whose `state` can be gone on from.
      checkpoint: a file into which the `Run` so far is written after each block of rounds, whole or
        not at all. Where the file is there already, the run goes on from it, says so on standard
        error, and gives the bits of a run that was never stopped. `load` reads the file.
      checkpoint_every: rounds in a block, a multiple of `every` that has two records at least;
        about a twentieth of the run if None.

    Returns:
      A `Run`. `trace` holds, besides what `measure` returns, "round" (int32: the number of
      rounds done at each record) and "messages" (int32: how many went each way since
      the record before, for `traffic.totals`).

    Raises:
      InputError: an argument does not fit, `measure` returns no dict or one with a reserved name,
        a step changes the shape or dtype of the state, `progress` or `checkpoint` is wanted of a
        traced run, or the checkpoint is of other arguments; nothing has been compiled then.
      KeyboardInterrupt: a run in blocks was interrupted before its first block was done.
    """
    participation = Everyone() if participation is None else participation
    rounds, every = count("rounds", rounds, at_least=0), count("every", every)
    multiple("rounds", rounds, "every", every)
    if progress:
        check_untraced(solver, problem, key, participation, start)
    arguments = (solver, problem, key, participation, start)
    call, total = checked_call(_check_begun, arguments, "measure", measure, rounds)

    scan = _compiled_scan
    if streams(problem):
        from fedjax_admm._run._streams import streamed_rounds as scan

    def advance(state: RoundState | None, length: int) -> Run:
        return scan(*arguments[:-1], state, rounds=length, measure=measure, every=every)

    blocks: dict[str, Any] = {}
    if checkpoint is not None:
        named = {"measure": measure, "every": every}
        blocks = opened_checkpoint(
            *(checkpoint, checkpoint_every, partial(shape_of, *arguments, **named)),
            *(arguments, named, rounds),
        )
    done = blocks.get("done")
    left = rounds if done is None else rounds - done.trace["round"].shape[0] * every
    begin = start if done is None else done.state
    use = key_use(*arguments[:-1], begin, left) if call.hides and left else None
    if done is not None and not left:
        result = done
    elif progress or blocks:
        result = scan_in_blocks(advance, start, left, every, shows=progress, **blocks)
    else:
        result = advance(start, rounds)
        call.remember_end(key, result.state, total)
    if use is not None:
        use.remember(result.state)
    if call.counts:
        call.counts = tell_unsolved(result.state.solver, result.status.unsolved)
    return with_static(problem, result)


def run_until(
    solver: Solver,
    problem: Any,
    key: jax.Array,
    *,
    residual: Callable[[Any, Any, Any], jax.Array],
    tolerance: ArrayLike,
    max_rounds: int,
    participation: Participation | None = None,
    every: int = 1,
    start: RoundState | None = None,
    progress: bool = False,
) -> Run:
    """Run a solver until a residual is small: a `jax.lax.while_loop` with the same step.

    Under `jax.vmap` every lane keeps the state of the round at which it stopped, but all lanes
    are paid for until the last one stops.

    Args:
      solver: as in `run`.
      problem: as in `run`.
      key: as in `run`.
      residual: `residual(solver, problem, state) -> scalar`, a module-level function; a measure
        that returns one number under a name is taken too.
      tolerance: stop as soon as the residual is at most this (a leaf: it may be vmapped); a new
        run does at least one round, a resumed one may do none.
      max_rounds: stop after this many rounds, counted from the start of the run proper (rounds
        done before `start` included); a multiple of `every`.
      participation: as in `run`.
      every: look at the residual after each `every` rounds.
      start: as in `run`.
      progress: as in `run`; blocks take about a second, and the time left is that to `max_rounds`.

    Returns:
      A `Run`. `status.converged` is the round at which the residual was small enough, or 0; a
      run whose estimate is not finite stops too. `trace` has one record, the last one: "round",
      "messages" (of this call) and "residual".

    Raises:
      InputError: an argument does not fit, `residual` returns no scalar, a step changes the shape
        or dtype of the state, or `progress` is wanted of a traced run; nothing has been compiled
        then.
      KeyboardInterrupt: a run with `progress` was interrupted before its first block was done.
    """
    participation = Everyone() if participation is None else participation
    max_rounds, every = count("max_rounds", max_rounds), count("every", every)
    multiple("max_rounds", max_rounds, "every", every)
    if progress:
        check_untraced(solver, problem, key, participation, start, tolerance)
    arguments = (solver, problem, key, participation, start)
    call, _ = checked_call(_check_begun, arguments, "residual", residual, max_rounds)
    tolerance = scalar("tolerance", tolerance, at_least=0)
    use = key_use(*arguments, max_rounds, total=True) if call.hides else None

    loop = _compiled_loop
    if streams(problem):
        from fedjax_admm._run._streams import streamed_until as loop

    def advance(state: RoundState | None, end: int, fresh: bool) -> Run:
        return loop(
            *(*arguments[:-1], state, tolerance, end),
            residual=residual,
            every=every,
            fresh=fresh,
        )

    result = (
        loop_in_blocks(advance, start, max_rounds, every)
        if progress
        else advance(start, max_rounds, start is None)
    )
    if use is not None:
        use.remember(result.state)
    if call.counts:
        call.counts = tell_unsolved(result.state.solver, result.status.unsolved)
    return with_static(problem, result)


def scan_rounds(solver, problem, key, participation, start, *, rounds, measure, every) -> Run:
    solver, problem, start = replicate_uneven((solver, problem, start))
    solver, problem = in_dtype_of(solver, problem), over_clients(problem)
    first = _beginning(solver, problem, key, participation, start)
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
    first = _beginning(solver, problem, key, participation, start)
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


_compiled_scan, _compiled_loop = compiled(scan_rounds), compiled(loop_until)


def _beginning(solver, problem, key, participation, start) -> RoundState:
    """Return the first state as rounds see it: like a `start`, whose making XLA does not know.

    What it knows of a state that is made in the same program it folds into the rounds, whose last
    bits then are not those of a run that goes on.
    """
    return jax.lax.optimization_barrier(first_round(solver, problem, key, participation, start))


def first_round(solver, problem, key, participation, start) -> RoundState:
    """Return the state before the first round of this call: `start`, if it is given."""

    def first() -> RoundState:
        shape = solver.participants(problem)
        return RoundState(
            jnp.zeros((), jnp.int32),
            participation.init(participation_key(key), shape),
            first_state(solver, problem, init_key(key)),
            fingerprint_of(key),
        )

    if start is None:
        return first()
    start = with_fingerprint(start, key)
    found = difference(jax.eval_shape(first), start)
    if found:
        raise InputError(
            f"must be the state of a run of this solver on this problem, but {found}",
            argument="start",
            value=start,
        )
    return start


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


def _check_begun(solver, key, start, done: int | None) -> int:
    """Check key and start; return the rounds that are done, 0 where they are traced.

    `done` is their number where start is known to be the state of a run under this key.
    """
    if done is None:
        typed_key(key)
        check_start(start, key)
    else:
        not_deleted("key", key)
        not_deleted("start", start)
    if start is None:
        return 0
    if hasattr(solver, "check_start"):
        solver.check_start(start.solver)
    if done is None:
        return int(start.index) if is_concrete(start.index) else 0
    return done


def shape_of(solver, problem, key, participation, start, *, measure, every) -> Run:
    """Return the shapes of a Run of one record; nothing is computed."""
    ran = partial(scan_rounds, rounds=every, measure=measure, every=every)
    return jax.eval_shape(ran, solver, shaped(problem), key, participation, start)


def check_start(start: Any, key: jax.Array) -> None:
    """Check that a start is the state of one run, with this key.

    Raises:
      InputError: it is not; a traced key or fingerprint is not looked at.
    """
    if start is None:
        return
    if not isinstance(start, RoundState):
        shown = "the Run itself" if isinstance(start, Run) else one_line(start)
        raise InputError(
            f"must be the state of a Run, but it is {shown}",
            argument="start",
            value=start,
            remedy="pass its .state" if isinstance(start, Run) else None,
        )
    if jnp.ndim(start.index):
        raise InputError(
            f"must be the state of one run, but it is a stack of shape {jnp.shape(start.index)}",
            argument="start",
            value=start,
            remedy="use jax.vmap over states",
        )
    not_deleted("start", start)
    if start.fingerprint is None or not is_concrete((key, start.fingerprint)):
        return
    if int(start.fingerprint) != int(fingerprint_of(key)):
        raise InputError(
            "must be the key of the run that is resumed, whose next rounds draw from it, but it is "
            "another",
            argument="key",
            value=key,
            remedy="give the same key, or begin anew with start=None",
        )
