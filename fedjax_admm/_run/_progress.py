"""Runs in blocks of rounds: the host shows progress between blocks, and can be interrupted there.

Each block starts from the state of the one before, so that all blocks give the bits of one run. A
run of given rounds has about twenty blocks, all of one length but the first: two programs are
compiled instead of one. A run until a residual is small has blocks of about a second, whose end is
an input of the program.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import is_concrete, refuse

Advance = Callable[[Any, int], Any]
"""`advance(state, length)` returns the Run of so many rounds after a state, or from None."""
Trace = Mapping[str, jax.Array]

_BLOCKS = 20
# XLA removes a loop that turns once, and rounds what was in it otherwise: no block has one record.
SHORTEST = 2
_SHORT, _LONG = 0.5, 2.0  # seconds of a block whose length follows the time
_LINES = 4  # of a log


def check_untraced(*arguments: Any, argument: str = "progress", value: Any = True) -> None:
    """Refuse `progress` and `checkpoint` inside `jax.jit`, `jax.vmap` or `jax.grad`."""
    traced = not is_concrete((arguments, jnp.zeros(())))
    told = "needs rounds that are computed, but this run is traced (inside jax.jit or jax.vmap)"
    refuse(traced, argument, told, remedy=f"leave {argument} out there")


def scan_in_blocks(
    advance: Advance,
    start: Any,
    rounds: int,
    every: int,
    *,
    shows: bool = True,
    length: int | None = None,
    done: Any = None,
    write: Callable[[Any], None] | None = None,
) -> Any:
    """Return the Run of given rounds; see `run`.

    Args:
      advance: runs a block.
      start: the state to start from, or None.
      rounds: a multiple of `every`.
      every: rounds per record.
      shows: show the rounds that are done.
      length: rounds of a block, a multiple of `every`; a twentieth of all if None.
      done: the Run of the rounds before, to which these are added.
      write: takes the Run so far, after every block.
    """
    records = None if length is None else length // every
    lengths = (records * every for records in _even(rounds // every, records))
    return _in_blocks(
        advance,
        start,
        lengths,
        rounds,
        finished=lambda run: False,
        join=_one_after_another,
        go_on="start=run.state, rounds={left}",
        shows=shows,
        run=done,
        write=write,
    )


def loop_in_blocks(
    advance: Callable[[Any, int, bool], Any], start: Any, max_rounds: int, every: int
) -> Any:
    """Return the Run until a residual is small; see `run_until`.

    Args:
      advance: `advance(state, end, fresh)` runs a block until a residual is small, at most to the
        round `end`; with `fresh` it does not look at the residual of the state.
      start: the state to start from, or None.
      max_rounds: where the run ends, rounds before the start included; a multiple of `every`.
      every: rounds per look at the residual.
    """
    total = max(max_rounds - _index(start), 0)

    def block(state: Any, length: int) -> Any:
        return advance(state, _index(state) + length, start is None or state is not start)

    return _in_blocks(
        block,
        start,
        (looks * every for looks in _timed(-(-total // every))),
        total,
        finished=lambda run: bool(run.status.converged) or bool(run.status.nonfinite),
        join=_the_last,
        go_on="start=run.state",
    )


def _in_blocks(
    advance: Advance,
    start: Any,
    lengths: Iterable[int],
    total: int,
    *,
    finished: Callable[[Any], bool],
    join: Callable[[Sequence[Trace]], dict[str, jax.Array]],
    go_on: str,
    shows: bool = True,
    run: Any = None,
    write: Callable[[Any], None] | None = None,
) -> Any:
    """Return the Run of all blocks, or of those before an interruption."""
    traces = () if run is None else (run.trace,)
    begun = _index(start if run is None else run.state)
    try:
        with _display(total) if shows else nullcontext(lambda done: None) as show:
            for length in lengths:
                new = jax.block_until_ready(advance(start if run is None else run.state, length))
                if run is not None and bool(run.status.nonfinite):
                    new = new._replace(status=new.status._replace(nonfinite=run.status.nonfinite))
                run, traces = new, (*traces, new.trace)
                if write is not None:
                    traces = (join(traces),)
                    write(run._replace(trace=traces[0]))
                show(_index(run.state) - begun)
                if finished(run):
                    break
    except KeyboardInterrupt:
        if run is None:
            raise
        done = _index(run.state) - begun
        print(
            f"Interrupted after {done} of {total} rounds; these are returned, and "
            f"{go_on.format(left=total - done)} goes on from there.",
            file=sys.stderr,
        )
    assert run is not None  # there is a block, be it of no rounds
    return run._replace(trace=join(traces))


def _index(state: Any) -> int:
    """Return how many rounds are done."""
    return 0 if state is None else int(state.index)


def _even(records: int, length: int | None) -> Iterator[int]:
    """Yield lengths of blocks, equal but for the first one, which has another program anyway."""
    length = max(-(-records // _BLOCKS), SHORTEST) if length is None else length
    others = max(records - SHORTEST, 0) // length
    yield records - others * length
    yield from [length] * others


def _timed(looks: int) -> Iterator[int]:
    """Yield lengths of blocks of about a second, by the time that the last one took."""
    length = 1
    while True:
        began = time.perf_counter()
        yield min(length, looks)
        looks -= length
        if looks <= 0:
            return
        seconds = time.perf_counter() - began
        if seconds < _SHORT:
            length *= 2
        elif seconds > _LONG:
            length = max(length // 2, 1)


def _one_after_another(traces: Sequence[Trace]) -> dict[str, jax.Array]:
    if len(traces) == 1:
        return dict(traces[0])
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *map(dict, traces))


def _the_last(traces: Sequence[Trace]) -> dict[str, jax.Array]:
    messages = jnp.stack([trace["messages"] for trace in traces])
    return {**traces[-1], "messages": jnp.sum(messages, 0, dtype=jnp.int32)}


@contextmanager
def _display(total: int) -> Iterator[Callable[[int], None]]:
    """Yield `show(done)`: a bar with the time left in a terminal, four lines elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, force_jupyter=False)
    if jax.process_index() > 0:
        yield lambda done: None
    elif console.is_terminal:
        columns = (
            TextColumn("rounds"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f},"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("rounds", total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        quarters = {0}

        def show(done: int) -> None:
            quarter = _LINES * done // max(total, 1)
            if quarter > max(quarters):
                console.out(f"{done} of {total} rounds", highlight=False)
                quarters.add(quarter)

        yield show
