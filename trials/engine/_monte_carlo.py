"""Monte Carlo trials: a pure `trial(key) -> dict of arrays`, run a thousand times.

Three nested widths, each with one job:

1. the micro-batch, so many trials under one `vmap`, sets the speed (on a CPU a width whose state
   fits the cache does well) **and the last bits**;
2. the shard: `shard_map` over the mesh axis "trials", each device a multiple of the width;
3. the chunk: one host call, one atomic file, one tick of the progress bar. How many micro-batches
   a chunk has is an input of the program, so that one executable serves all; it is chosen by how
   long the chunk before took. While a chunk is stored, the devices compute the next one.

Trial `t` gets the key `fold_in(key, t)`. What is stored is bound to what made it, so that trials of
two programs are never mixed and more trials can be added to a run.

At equal width the bits of a trial depend neither on its chunk, nor on how many devices or processes
there are from two on, nor on whether the run was interrupted. They may differ by rounding at
another width; on one device, whose programs XLA simplifies in another order than those for several;
and where the mesh axis "clients" spreads every trial over other numbers of devices.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from jax.sharding import Mesh

from fedjax_admm._checks import InputError, batchable_key, count, is_concrete
from fedjax_admm._frames import dataset, tidy_frame
from fedjax_admm._host._files import digest_of
from fedjax_admm._host._store import Chunks
from fedjax_admm.devices import device_mesh
from fedjax_admm.trials import waiting
from fedjax_admm.trials.engine import hosts
from fedjax_admm.trials.engine._compilation import compilation
from fedjax_admm.trials.engine._interruptions import Interruption, held_back
from fedjax_admm.trials.engine._layout import Layout, Pace, gaps_between, plan
from fedjax_admm.trials.engine._program import Lowered, Program, compile_trials, lower_trials
from fedjax_admm.trials.engine._trial import Trial, traced
from fedjax_admm.trials.engine._work import announcement, check_time


class Seconds(NamedTuple):
    """Where the time of a run went; chunks that were there already cost nothing."""

    compile: float  # tracing and compiling (or loading from the persistent cache)
    run: float  # computing, and storing meanwhile what is there
    transfer: float  # to the host, between processes and to the disk, while nothing is computed


class MonteCarlo(NamedTuple):
    """What `monte_carlo` returns."""

    arrays: dict[str, np.ndarray]  # leading axis = trials
    layout: Layout
    seconds: Seconds
    computed: int  # trials that were not there already
    program: str  # digest of what makes the trials: program, key, width, versions, kind of device

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame: a row per trial, a column per array of one number per trial.

        Further axes of an array make columns of their own, called after the array and the place.
        """
        columns = {}
        for name, array in self.arrays.items():
            flat = np.reshape(array, (len(array), -1))
            places = np.ndindex(array.shape[1:])
            names = [
                name if not place else f"{name}_{'_'.join(map(str, place))}" for place in places
            ]
            columns |= dict(zip(names, flat.T, strict=True))
        return tidy_frame({"trial": range(self._trials)}, columns, "to_dataframe()")

    def to_xarray(self) -> Any:
        """Return an xarray Dataset with a variable per array over "trial" and the array's axes."""
        return dataset({"trial": range(self._trials)}, self.arrays, {}, "to_xarray()")

    @property
    def _trials(self) -> int:
        return len(next(iter(self.arrays.values()), ()))


def default_mesh(devices: int | None = None, clients: int = 1) -> Mesh:
    """Return a mesh ("trials", "clients") with the devices of every process.

    Args:
      devices: how many to use in every process; all if None.
      clients: over how many of them each trial's clients are spread.
    """
    here = len(jax.local_devices())
    number = here if devices is None else count("devices", devices)
    if number > here:
        raise InputError(
            f"must be at most {here} here, but it is {number}", argument="devices", value=number
        )
    selected = [
        device
        for process in range(jax.process_count())
        for device in [d for d in jax.devices() if d.process_index == process][:number]
    ]
    clients = count("clients", clients)
    if len(selected) % clients:
        raise InputError(
            f"must divide the number of devices, {len(selected)}, but it is {clients}",
            argument="clients",
            value=clients,
        )
    return device_mesh(len(selected) // clients, clients, selected)


@dataclass(frozen=True)
class Plan:
    """What `monte_carlo` has to compute: everything is traced, looked up and compiled."""

    trials: int
    parts: "_Parts"  # what the store holds already
    missing: list[range]
    layout: Layout
    identity: dict[str, Any]  # what makes the trials: program, key, width, versions, devices
    ready: Program | None  # None where nothing is missing
    compile_seconds: float
    pace: Pace
    long: str | None  # a sentence on how long it takes, if that is long
    chunks: Chunks | None

    @property
    def program(self) -> str:
        """Return the digest of what makes the trials."""
        return digest_of(self.identity)


@contextmanager
def _usually() -> Iterator[None]:
    """Compile and transfer what has to be, whatever the caller has asked of JAX."""
    with jax.disable_jit(False), jax.transfer_guard("allow"):
        yield


def monte_carlo(
    trial: Trial,
    key: jax.Array,
    trials: int,
    *,
    batch: int | str = "auto",
    chunk: int | None = None,
    mesh: Mesh | None = None,
    memory: int | None = None,
    store: Path | str | None = None,
    progress: bool = True,
    compact: bool = False,
) -> MonteCarlo:
    """Run `trial(fold_in(key, t))` for t = 0, 1, ..., trials - 1.

    It compiles and transfers what it has to, also inside `jax.disable_jit()` and a transfer guard.
    With several processes, all call this alike; the first one alone reads and writes the store.
    With a store, a request to stop (Ctrl-C, SIGTERM) is met after the chunk that has begun; where
    one process of several cannot store a chunk, all learn of it when the next one is computed.

    Args:
      trial: a pure function from a typed key to a dict of arrays. Numbers count as arrays, and the
        names in a dict of dicts (or of named tuples) join to "a/b".
      key: a typed key of the kind threefry2x32, JAX's default: the numbers of other kinds depend
        on the batch.
      trials: how many.
      batch: the micro-batch width, or "auto" to choose it by the size of the loop state. Runs
        are equal bit for bit only at equal width.
      chunk: trials per host call; chosen if None, so that a chunk takes about two seconds. It
        changes no bits.
      mesh: a mesh with an axis "trials" over which trials are sharded, and perhaps an axis
        "clients" over which each trial's clients are; `default_mesh()` if None.
      memory: bytes that a device may take; what is free if None.
      store: a folder where finished chunks are kept, and looked for. They stay there, so that the
        same call with more trials computes the new ones only. "auto" takes the width of the chunks
        that there are.
      progress: show a progress bar on standard error, where that is a terminal.
      compact: have XLA compile for a CPU in about half of the memory. Loops of elementwise
        operations may take a third longer, and last bits may differ. It serves trials whose
        programs take longer to compile than to run.

    Returns:
      A `MonteCarlo`: `arrays[name]` has shape (trials, ...). Processes but the first one hold zeros
      in place of the trials that the first one read from the store.

    Raises:
      InputError: an argument does not fit, the call is traced, the store holds trials of another
        program, of another key or width, or more of them, a chunk there is damaged, or the machine
        has not enough memory for a chunk; or another process writes into the store.
      KeyboardInterrupt: the run was asked to stop; what is finished is in the store.
      StoppedElsewhereError: another process has ended the run.
      LostProcessError: another process does not answer any more.
    """
    if not isinstance(store, str | Path | None):
        told = f"must be a folder, but it is a {type(store).__name__}"
        raise InputError(told, argument="store", value=store)
    with hosts.locked(None if store is None else Path(store), "store"):
        chunks = None if store is None else Chunks(store)
        how = {"batch": batch, "chunk": chunk, "mesh": mesh, "memory": memory, "compact": compact}
        return computed(planned(trial, key, trials, chunks=chunks, **how), progress=progress)


@_usually()
def planned(
    trial: Trial,
    key: jax.Array,
    trials: int,
    *,
    batch: int | str = "auto",
    chunk: int | None = None,
    mesh: Mesh | None = None,
    memory: int | None = None,
    chunks: Chunks | None = None,
    compact: bool = False,
) -> Plan:
    """Trace, look up and compile what `monte_carlo` computes; nothing is written.

    Arguments are those of `monte_carlo`, but for `chunks`, the store, whose folder is locked.
    """
    batchable_key(key)
    trials = count("trials", trials)
    mesh = default_mesh() if mesh is None else mesh
    _check_mesh(mesh)
    if not is_concrete((key, jnp.zeros(()))):
        raise InputError(
            "monte_carlo computes at once, but this call is traced (inside a trial, jax.jit or "
            "jax.vmap)",
            value=key,
            remedy="call it outside, or write jax.vmap(trial)(keys) here",
        )
    one, devices = traced(trial, key), mesh.shape["trials"]

    def compile_for(missing: int, lowered: Lowered | None) -> Program:
        hosts.from_first(lambda: check_time(one.program, missing))
        how = {"batch": batch, "chunk": chunk, "mesh": mesh, "limit": memory, "compact": compact}
        return compile_trials(one, key, trials, lowered=lowered, **how)

    stored = hosts.from_first(lambda: {} if chunks is None else chunks.identity())
    if batch == "auto" and isinstance(stored.get("width"), int):
        batch = stored["width"]
    ready = None if stored else compile_for(trials, None)
    if ready is None:  # perhaps all trials are there, so that nothing has to be compiled
        layout = plan(one.program, trials, batch=batch, chunk=chunk, devices=devices)
        lowered = lower_trials(one, key, layout, mesh)
    else:
        lowered = ready.lowered
    if chunks is not None and lowered.calls:
        raise InputError(
            f"calls code outside of JAX ({lowered.calls}), which cannot be told from other code, "
            "so that its trials cannot be kept",
            argument="trial",
            remedy="compute that with jax.numpy",
        )
    identity = _identity(lowered) | {"compact program": compact}
    parts = _Parts(trials)
    spans = hosts.from_first(lambda: parts.take_over(chunks, identity))
    missing = gaps_between(spans, trials)
    left = sum(map(len, missing))
    if ready is None and missing:
        ready = compile_for(left, lowered)
    layout, seconds = lowered.layout, lowered.seconds
    if ready is not None:
        layout, seconds = ready.layout, ready.compile_seconds
    pace = Pace(layout, devices, given=chunk is not None)
    long = announcement(one.program, left, pace.length(left))
    return Plan(trials, parts, missing, layout, identity, ready, seconds, pace, long, chunks)


@_usually()
def computed(plan: Plan, *, progress: bool = True) -> MonteCarlo:
    """Compute what is missing, chunk by chunk, and return all trials."""
    left = sum(map(len, plan.missing))
    if plan.long and progress and hosts.first():
        waiting.stop()
        print(plan.long, file=sys.stderr)

    def keep(first: int, arrays: Mapping[str, np.ndarray]) -> Exception | None:
        plan.parts.put(first, arrays)
        try:
            if plan.chunks is not None and hosts.first():
                plan.chunks.write(first, arrays, plan.identity)
        except Exception as error:  # to be raised by all
            return error
        return None

    run = transfer = 0.0
    holding = nullcontext(Interruption()) if plan.chunks is None else held_back()
    with holding as interruption, _ticker(plan.trials, plan.trials - left, progress) as tick:
        if plan.ready is not None and plan.missing:
            run, transfer = _filled(plan.ready, plan.missing, plan.pace, keep, tick, interruption)
    seconds = Seconds(plan.compile_seconds, run, transfer)
    return MonteCarlo(plan.parts.joined, plan.layout, seconds, left, plan.program)


def _filled(
    program: Program,
    missing: Iterable[range],
    pace: Pace,
    keep: Callable[[int, Mapping[str, np.ndarray]], Exception | None],
    tick: Callable[[int], None],
    interruption: Interruption,
) -> tuple[float, float]:
    """Compute what is missing, chunk by chunk; return the seconds for computing and for the rest.

    A process must not leave alone, because the others would wait for it in the next chunk: that it
    has to stop is told with the results of the chunk that the devices compute then.
    """
    run = transfer = 0.0
    failure: Exception | None = None

    def stopping() -> bool:
        return failure is not None or interruption.asked

    spans = pace.spans(missing)
    following = next(spans, None)
    begun = None if following is None else program.begin(following.start, len(following))
    while following is not None and begun is not None:
        span, outcome = following, program.collect(begun, stopping)
        pace.took(len(span), outcome.slowest_seconds)
        following = None if outcome.stop else next(spans, None)
        begun = None if following is None else program.begin(following.start, len(following))
        clock = time.perf_counter()
        failure = failure or keep(span.start, outcome.arrays)
        tick(len(span))
        run += outcome.run_seconds
        transfer += outcome.transfer_seconds
        if begun is None:  # otherwise the devices compute meanwhile
            transfer += time.perf_counter() - clock
        if hosts.alone() and stopping():
            break
    if hosts.anybody(stopping()):
        asked = KeyboardInterrupt() if interruption.asked else hosts.StoppedElsewhereError()
        raise failure or asked
    return run, transfer


class _Parts:
    """The arrays of all trials, filled chunk by chunk."""

    def __init__(self, trials: int):
        self.trials = trials
        self.joined: dict[str, np.ndarray] = {}

    def take_over(self, chunks: Chunks | None, identity: Mapping[str, Any]) -> list[list[int]]:
        """Take over what a store holds, and return the first and last trials of its chunks."""
        if chunks is None:
            return []
        spans = chunks.spans()
        if spans and spans[-1][1] > self.trials:
            raise InputError(
                f"{chunks.folder} holds {spans[-1][1]} trials, more than the {self.trials} that "
                "are asked for",
                value=self.trials,
                remedy="ask for at least as many or choose another folder",
            )
        for first, arrays in chunks.read(identity):
            self.put(first, arrays)
        return [[first, stop] for first, stop, _ in spans]

    def put(self, first: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Enter a chunk."""
        for name, array in arrays.items():
            if name not in self.joined:
                self.joined[name] = np.zeros((self.trials, *array.shape[1:]), array.dtype)
            self.joined[name][first : first + len(array)] = array


def _identity(lowered: Lowered) -> dict[str, Any]:
    """Return what must be equal for two runs to share their trials, as JSON holds it."""
    mesh, key = lowered.mesh, lowered.key
    return {
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "kind of key": str(jax.random.key_impl(key)),
        "width": lowered.layout.width,
        "use of float64": jax.dtypes.canonicalize_dtype("float64") == "float64",
        "number of devices per trial": mesh.shape.get("clients", 1),
        "use of several devices": partitioned(mesh),
        "kind of device": mesh.devices.flat[0].device_kind,
        "version of jax": jax.__version__,
        "version of jaxlib": jaxlib.version.__version__,
        **compilation(mesh.devices.flat[0]),
        "program": lowered.digest,
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
def _ticker(trials: int, done: int, progress: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar with the time left on a terminal; it disappears when the run ends."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    waiting.stop()
    console = Console(stderr=True, force_jupyter=False)
    if not (progress and hosts.first() and console.is_terminal):
        yield lambda computed: None
        return

    columns = (
        TextColumn("trials"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("trials", total=trials, completed=done)
        yield lambda computed: bar.advance(task, computed)
