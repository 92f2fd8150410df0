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
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.typing import ArrayLike

from fedjax_admm._checks import count, multiple, scalar
from fedjax_admm._host._programs import compiled
from fedjax_admm._run._checks import checked_call
from fedjax_admm._run._estimates import tell_unsolved, with_static
from fedjax_admm._run._key_uses import key_use
from fedjax_admm._run._progress import check_untraced, loop_in_blocks, scan_in_blocks
from fedjax_admm._run._results import Measure, RoundState, Run
from fedjax_admm._run._scan import loop_until, scan_rounds
from fedjax_admm.participation import Everyone, Participation
from fedjax_admm.protocol import Solver


class Driver(NamedTuple):
    """How the rounds of a problem are computed."""

    scan: Callable[..., Run]  # a number of rounds
    loop: Callable[..., Run]  # until a residual is small
    keeps: bool  # whether programs and checks are kept by the structure of the problem


_AT_ONCE = Driver(compiled(scan_rounds), compiled(loop_until), keeps=True)


def driver_of(problem: Any) -> Driver:
    """Return the driver that fetches clients from the host where the samples are there."""
    source = getattr(getattr(problem, "data", None), "source", None)
    if source is None:
        return _AT_ONCE
    from fedjax_admm._run._streams import streamed_rounds, streamed_until

    return Driver(streamed_rounds, streamed_until, keeps=False)  # data belong to the structure


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
    driver = driver_of(problem)
    call, total = checked_call(arguments, "measure", measure, rounds, keeps=driver.keeps)

    def advance(state: RoundState | None, length: int) -> Run:
        return driver.scan(*arguments[:-1], state, rounds=length, measure=measure, every=every)

    blocks: dict[str, Any] = {}
    if checkpoint is not None:
        from fedjax_admm._run._checkpoints import opened_checkpoint

        blocks = opened_checkpoint(checkpoint, checkpoint_every, arguments, measure, every, rounds)
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
    driver = driver_of(problem)
    call, _ = checked_call(arguments, "residual", residual, max_rounds, keeps=driver.keeps)
    tolerance = scalar("tolerance", tolerance, at_least=0)
    use = key_use(*arguments, max_rounds, total=True) if call.hides else None

    def advance(state: RoundState | None, end: int, fresh: bool) -> Run:
        return driver.loop(
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
