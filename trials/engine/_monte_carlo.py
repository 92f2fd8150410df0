"""Monte Carlo trials: a pure `trial(key) -> dict of arrays`, run a thousand times.

Three nested widths, each with one job:

1. the micro-batch, so many trials under one `vmap`, sets the speed (on a CPU a width whose state
   fits the cache does well; `benchmarks/` has the numbers) **and the last bits**;
2. the shard: `shard_map` over the mesh axis "trials", each device a multiple of the width;
3. the chunk: one host call, one atomic file, one tick of the progress bar. How many micro-batches
   a chunk has is an input of the program, so that one executable serves all.

Trial `t` gets the key `fold_in(key, t)`. At equal width the bits of a trial depend neither on its
chunk, nor on how many devices or processes there are from two on, nor on whether the run was
interrupted. They may differ by rounding at another width; on one device, whose programs XLA
simplifies in another order than those for several; and where the mesh axis "clients" spreads every
trial over other numbers of devices.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from fedjax_admm._checks import InputError, count, typed_key
from fedjax_admm.devices import device_mesh
from fedjax_admm.trials.engine import hosts
from fedjax_admm.trials.engine._chunks import ChunkStore
from fedjax_admm.trials.engine._interruptions import Interruption, held_back
from fedjax_admm.trials.engine._layout import Layout, plan
from fedjax_admm.trials.engine._program import compile_trials
from fedjax_admm.trials.engine._trial import Trial

Begin = Callable[[Layout], None]
"""`begin(layout)` learns how the trials are cut up, before any of them is computed."""

Inspect = Callable[[int, Mapping[str, np.ndarray]], None]
"""`inspect(first, arrays)` sees a finished chunk, its first trial's number given."""


class Seconds(NamedTuple):
    """Where the time of a run went; chunks that were there already cost nothing."""

    compile: float  # tracing and compiling (or loading from the persistent cache)
    run: float  # computing
    transfer: float  # to the host and to the disk


class MonteCarlo(NamedTuple):
    """What `monte_carlo` returns."""

    arrays: dict[str, np.ndarray]  # leading axis = trials
    layout: Layout
    seconds: Seconds
    computed: int  # trials that were not there already


def default_mesh(devices: int | None = None, clients: int = 1) -> Mesh:
    """Return a mesh ("trials", "clients") with the devices of every process.

    Args:
      devices: how many to use in every process; all if None.
      clients: over how many of them each trial's clients are spread.

    Raises:
      InputError: there are not so many devices, or `clients` does not divide their number.
    """
    here = len(jax.local_devices())
    wanted = here if devices is None else count("devices", devices)
    if wanted > here:
        raise InputError(
            f"must be at most {here} here, but it is {wanted}", argument="devices", value=wanted
        )
    chosen = [
        device
        for process in range(jax.process_count())
        for device in [d for d in jax.devices() if d.process_index == process][:wanted]
    ]
    clients = count("clients", clients)
    if len(chosen) % clients:
        raise InputError(
            f"must divide the number of devices, {len(chosen)}, but it is {clients}",
            argument="clients",
            value=clients,
        )
    return device_mesh(len(chosen) // clients, clients, chosen)


def monte_carlo(
    trial: Trial,
    key: jax.Array,
    trials: int,
    *,
    batch: int | str = "auto",
    chunk: int | None = None,
    mesh: Mesh | None = None,
    memory: int | None = None,
    store: ChunkStore | Path | str | None = None,
    begin: Begin | None = None,
    inspect: Inspect | None = None,
    progress: bool = True,
) -> MonteCarlo:
    """Run `trial(fold_in(key, t))` for t = 0, 1, ..., trials - 1.

    With several processes, all call this alike; the first one alone reads and writes the store.
    With a store, a request to stop (Ctrl-C, SIGTERM) is met after the chunk that has begun.

    Args:
      trial: a pure function from a typed key to a dict of arrays. Numbers count as arrays, and the
        names in a dict of dicts (or of named tuples) join to "a/b".
      key: a typed key.
      trials: how many.
      batch: the micro-batch width, or "auto" to choose it by the size of the loop state. Runs
        are equal bit for bit only at equal width.
      chunk: trials per host call; chosen if None. It changes no bits.
      mesh: a mesh with an axis "trials" over which trials are sharded, and perhaps an axis
        "clients" over which each trial's clients are; `default_mesh()` if None.
      memory: bytes that a device may take; what is free if None.
      store: where finished chunks are kept, and looked for; a path is a folder for them.
      begin: told the layout once, in the first process, before anything is stored or computed.
        Unless the store has chunks of an earlier run, all is compiled then: what does not fit into
        memory has been refused.
      inspect: sees every chunk that is computed, after it has been stored; what it raises ends the
        run. It must judge by the arrays alone, so that all processes agree.
      progress: show a progress bar on standard error, where that is a terminal.

    Returns:
      A `MonteCarlo`: `arrays[name]` has shape (trials, ...). Processes but the first one hold zeros
      in place of the trials that the first one read from the store.

    Raises:
      InputError: an argument does not fit, the store holds something else, or the machine has
        not enough memory for a chunk.
      KeyboardInterrupt: the run was asked to stop; what is finished is in the store.
      StoppedElsewhereError: another process has ended the run.
      LostProcessError: another process does not answer any more.
    """
    typed_key(key)
    trials = count("trials", trials)
    mesh = default_mesh() if mesh is None else mesh
    _check_mesh(mesh)
    chunks = ChunkStore(store) if isinstance(store, str | Path) else store
    compiled = partial(compile_trials, trial, key, trials, mesh=mesh, limit=memory)
    program = None
    if hosts.from_first(lambda: chunks is not None and chunks.begun()):
        # Where all chunks are there, nothing has to be compiled.
        layout = plan(trial, key, trials, batch=batch, chunk=chunk, devices=mesh.shape["trials"])
    else:
        program = compiled(batch=batch, chunk=chunk)
        layout = program.layout
    parts = _Parts(trials, layout.chunk)

    def opened() -> list[int]:
        if begin is not None:
            begin(layout)
        return parts.found(chunks, _identity(key, trials, layout, mesh))

    finished = hosts.from_first(opened)
    missing = [number for number in range(len(parts.lengths)) if number not in finished]
    if not missing:
        return MonteCarlo(parts.joined, layout, Seconds(0.0, 0.0, 0.0), 0)
    program = program or compiled(batch=layout.width, chunk=layout.chunk)
    run = transfer = 0.0
    holding = nullcontext(Interruption()) if chunks is None else held_back()
    with holding as interruption, _ticker(len(parts.lengths), len(finished), progress) as tick:
        for number in missing:
            with hosts.together():
                outcome = program(parts.starts[number], parts.lengths[number])
            clock = time.perf_counter()
            parts.put(number, outcome.arrays)
            failure = _kept(outcome.arrays, number, parts.starts[number], chunks, inspect)
            run += outcome.run_seconds
            transfer += outcome.transfer_seconds + time.perf_counter() - clock
            tick()
            # A process must not leave alone: the others would wait for it in the next chunk.
            if hosts.anybody(failure is not None or interruption.asked):
                asked = KeyboardInterrupt() if interruption.asked else hosts.StoppedElsewhereError()
                raise failure or asked
    computed = sum(parts.lengths[number] for number in missing)
    return MonteCarlo(
        parts.joined, layout, Seconds(program.compile_seconds, run, transfer), computed
    )


def _kept(
    arrays: Mapping[str, np.ndarray],
    number: int,
    first: int,
    store: ChunkStore | None,
    inspect: Inspect | None,
) -> Exception | None:
    """Store a chunk and have it inspected; return what went wrong, to be raised by all."""
    try:
        if store is not None and hosts.first():
            store.save(number, arrays)
        if inspect is not None:
            inspect(first, arrays)
    except Exception as error:
        return error
    return None


class _Parts:
    """The arrays of all trials, filled chunk by chunk."""

    def __init__(self, trials: int, chunk: int):
        self.trials = trials
        self.starts = range(0, trials, chunk)
        self.lengths = [min(chunk, trials - start) for start in self.starts]
        self.joined: dict[str, np.ndarray] = {}

    def found(self, store: ChunkStore | None, identity: Mapping[str, Any]) -> list[int]:
        """Take over what a store holds, and return the numbers of its chunks."""
        chunks = {} if store is None else store.open(identity, self.lengths)
        for number, arrays in chunks.items():
            self.put(number, arrays)
        return sorted(chunks)

    def put(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Enter a chunk."""
        start, stop = self.starts[number], self.starts[number] + self.lengths[number]
        for name, array in arrays.items():
            if name not in self.joined:
                self.joined[name] = np.zeros((self.trials, *array.shape[1:]), array.dtype)
            self.joined[name][start:stop] = array


def _identity(key: jax.Array, trials: int, layout: Layout, mesh: Mesh) -> dict[str, Any]:
    """Return what must be equal for two runs of one trial function to have the same chunks."""
    return {
        "trials": trials,
        **layout._asdict(),
        "devices per trial": mesh.shape.get("clients", 1),
        "on several devices": partitioned(mesh),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
    }


def partitioned(mesh: Mesh) -> bool:
    """Return whether XLA compiles a program for several devices, not for one.

    It simplifies such a program in another order: its last bits are not those of one device.
    """
    return mesh.size > 1


def _check_mesh(mesh: Mesh) -> None:
    if "trials" not in mesh.shape:
        raise InputError(
            f"must have an axis 'trials', but its axes are {mesh.axis_names}",
            argument="mesh",
            value=mesh,
        )
    others = {name: n for name, n in mesh.shape.items() if name not in ("trials", "clients")}
    if any(size > 1 for size in others.values()):
        raise InputError(
            f"must have size 1 along every axis but 'trials' and 'clients', but it has {others}",
            argument="mesh",
            value=mesh,
        )


@contextmanager
def _ticker(chunks: int, done: int, progress: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar with the time left on a terminal; it disappears when the run ends."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, force_jupyter=False)
    if not (progress and hosts.first() and console.is_terminal):
        yield lambda: None
        return

    columns = (
        TextColumn("trials"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("trials", total=chunks, completed=done)
        yield lambda: bar.advance(task)
