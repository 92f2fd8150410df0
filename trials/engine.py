"""Monte Carlo trials: a pure `trial(key) -> dict of arrays`, run a thousand times.

Three nested widths, each with one job:

1. the micro-batch, `lax.map(..., batch_size=width)`, sets the speed (on a CPU a width whose state
   fits the cache does well; `benchmarks/` has the numbers) **and the last bits**;
2. the shard: `shard_map` over the mesh axis "trials", each device a multiple of the width;
3. the chunk: one host call, one atomic file, one tick of the progress bar. The last chunk is
   padded, so that one executable serves all.

Trial `t` gets the key `fold_in(key, t)`. At equal width the bits of a trial depend neither on its
chunk, nor on the number of devices, nor on whether the run was interrupted; at another width they
differ by rounding.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from fedjax_admm.checks import InputError, count, typed_key
from fedjax_admm.trials.store import ChunkStore

Trial = Callable[[jax.Array], Mapping[str, jax.Array]]

CACHE_BYTES = 96 * 1024
"""Loop state per CPU device that a micro-batch should not exceed (measured: `benchmarks/`)."""

GPU_MEMORY_FRACTION = 0.25
"""Share of a GPU's memory that the loop state of one micro-batch may take."""

_TICKS = 20  # chunks that a run is cut into, where that leaves whole micro-batches


class Layout(NamedTuple):
    """How trials are cut up. The width decides the last bits; the chunk does not."""

    width: int  # trials that are vmapped together
    chunk: int  # trials per host call


class MonteCarlo(NamedTuple):
    """What `monte_carlo` returns."""

    arrays: dict[str, np.ndarray]  # leading axis = trials
    layout: Layout
    compile_seconds: float  # tracing and compiling (or loading from the persistent cache)
    run_seconds: float  # computing and storing, resumed chunks not included


def default_mesh(devices: int | None = None) -> Mesh:
    """Return a mesh ("trials", "clients") with the devices of this process along "trials".

    Args:
      devices: how many to use; all if None.

    Raises:
      InputError: there are not so many devices.
    """
    here = jax.local_devices()
    wanted = len(here) if devices is None else count("devices", devices)
    if wanted > len(here):
        raise InputError(f"devices must be at most {len(here)} here, but it is {wanted}.")
    return jax.make_mesh(
        (wanted, 1),
        ("trials", "clients"),
        axis_types=(AxisType.Auto,) * 2,
        devices=here[:wanted],
    )


def monte_carlo(
    trial: Trial,
    key: jax.Array,
    trials: int,
    *,
    batch: int | str = "auto",
    chunk: int | None = None,
    mesh: Mesh | None = None,
    store: ChunkStore | None = None,
    progress: bool = True,
) -> MonteCarlo:
    """Run `trial(fold_in(key, t))` for t = 0, 1, ..., trials - 1.

    Args:
      trial: a pure function from a typed key to a dict of arrays.
      key: a typed key.
      trials: how many.
      batch: the micro-batch width, or "auto" to choose it by the size of the loop state. Runs
        are equal bit for bit only at equal width.
      chunk: trials per host call; chosen if None. It changes no bits.
      mesh: a mesh with an axis "trials" over which trials are sharded; all devices of this
        process if None. Other axes must have size 1: clients over devices are not supported yet.
      store: where finished chunks are kept, and looked for.
      progress: show a progress bar on standard error, where that is a terminal.

    Returns:
      A `MonteCarlo`: `arrays[name]` has shape (trials, ...).

    Raises:
      InputError: an argument does not fit, the store holds something else, or the machine has
        not enough memory for a chunk.
    """
    typed_key(key)
    trials = count("trials", trials)
    mesh = default_mesh() if mesh is None else mesh
    _check_mesh(mesh)
    devices = mesh.shape["trials"]
    layout = plan(trial, key, trials, batch=batch, chunk=chunk, devices=devices)
    done = {} if store is None else store.open(_identity(key, trials, layout))
    starts = range(0, trials, layout.chunk)
    missing = [number for number in range(len(starts)) if number not in done]

    compile_seconds = run_seconds = 0.0
    if missing:
        clock = time.perf_counter()
        run_chunk = _compile(trial, key, layout, mesh)
        compile_seconds = time.perf_counter() - clock
        clock = time.perf_counter()
        with _ticker(len(starts), len(done), progress) as tick:
            for number in missing:
                here = min(layout.chunk, trials - starts[number])
                arrays = {name: value[:here] for name, value in run_chunk(starts[number]).items()}
                if store is not None:
                    store.save(number, arrays)
                done[number] = arrays
                tick()
        run_seconds = time.perf_counter() - clock

    names = done[0].keys()
    joined = {name: np.concatenate([done[i][name] for i in range(len(starts))]) for name in names}
    return MonteCarlo(joined, layout, compile_seconds, run_seconds)


def plan(
    trial: Trial,
    key: jax.Array,
    trials: int,
    *,
    batch: int | str = "auto",
    chunk: int | None = None,
    devices: int = 1,
) -> Layout:
    """Choose the micro-batch width and the chunk, without compiling.

    On a CPU, `batch="auto"` takes as many trials as keep the state of the largest loop within
    `CACHE_BYTES`; on an accelerator, where a loop of small steps is bound by launches, as many as
    `GPU_MEMORY_FRACTION` of its memory holds (not measured yet).

    Args:
      trial: as in `monte_carlo`.
      key: as in `monte_carlo`.
      trials: as in `monte_carlo`.
      batch: as in `monte_carlo`.
      chunk: as in `monte_carlo`.
      devices: size of the mesh axis "trials".

    Raises:
      InputError: `batch` is neither "auto" nor a positive whole number, or `chunk` is not one.
    """
    share = math.ceil(trials / devices)
    if batch == "auto":
        budget = _loop_budget()
        width = max(1, min(share, budget // max(1, loop_bytes(trial, key))))
    elif isinstance(batch, str):
        raise InputError(f"batch must be 'auto' or a whole number, but it is {batch!r}.")
    else:
        width = count("batch", batch)
    if chunk is None:
        step = width * devices
        chunk = step * max(1, round(trials / _TICKS / step))
    return Layout(width, count("chunk", chunk))


def _identity(key: jax.Array, trials: int, layout: Layout) -> dict[str, Any]:
    """Return what must be equal for two runs of one trial function to have the same chunks."""
    key_data = np.asarray(jax.random.key_data(key)).tolist()
    return {"trials": trials, **layout._asdict(), "key": key_data}


def loop_bytes(trial: Trial, key: jax.Array) -> int:
    """Return the bytes that the largest loop of one trial reads and writes in each iteration."""
    return _largest_loop(jax.make_jaxpr(trial)(key).jaxpr)


def _largest_loop(jaxpr: Any) -> int:
    largest = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("scan", "while"):
            scanned = equation.params.get("num_consts", 0) + equation.params.get("num_carry", 0)
            operands = equation.invars[:scanned] if scanned else equation.invars
            largest = max(largest, sum(_bytes(operand.aval) for operand in operands))
        for parameter in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")
        ):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                largest = max(largest, _largest_loop(inner))
    return largest


def _bytes(aval: Any) -> int:
    itemsize = getattr(aval.dtype, "itemsize", 8)
    return math.prod(aval.shape) * itemsize


def _loop_budget() -> int:
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return CACHE_BYTES
    limit = (device.memory_stats() or {}).get("bytes_limit", 8 * 2**30)
    return int(limit * GPU_MEMORY_FRACTION)


def _check_mesh(mesh: Mesh) -> None:
    if "trials" not in mesh.shape:
        raise InputError(f"mesh must have an axis 'trials', but its axes are {mesh.axis_names}.")
    others = {name: size for name, size in mesh.shape.items() if name != "trials" and size > 1}
    if others:
        raise InputError(
            f"mesh must have size 1 along every axis but 'trials', but it has {others}."
        )


def _compile(
    trial: Trial, key: jax.Array, layout: Layout, mesh: Mesh
) -> Callable[[int], dict[str, np.ndarray]]:
    """Compile one chunk: the number of its first trial -> its arrays, padding included."""
    step = layout.width * mesh.shape["trials"]
    padded = math.ceil(layout.chunk / step) * step
    sharded, replicated = PartitionSpec("trials"), PartitionSpec()
    names: list[str] = []

    def shard(one_key: jax.Array, numbers: jax.Array) -> dict[str, jax.Array]:
        def numbered(number: jax.Array) -> dict[str, jax.Array]:
            arrays = dict(trial(jax.random.fold_in(one_key, number)))
            names[:] = arrays  # the trial's own order: as a pytree a dict is sorted
            return arrays

        # A batch of one can cost 2.5 times as much as no batch at all (`benchmarks/`).
        width = layout.width if layout.width > 1 else None
        return jax.lax.map(numbered, numbers, batch_size=width)

    # check_vma=False: the carries inside a trial start as constants, the same on every device.
    program = jax.jit(
        jax.shard_map(
            shard, mesh=mesh, in_specs=(replicated, sharded), out_specs=sharded, check_vma=False
        )
    )

    def placed(start: int) -> tuple[jax.Array, jax.Array]:
        numbers = np.arange(start, start + padded, dtype=np.uint32)
        return (
            jax.device_put(key, NamedSharding(mesh, replicated)),
            jax.device_put(numbers, NamedSharding(mesh, sharded)),
        )

    compiled = program.lower(*placed(0)).compile()
    _check_memory(compiled, mesh)

    def run_chunk(start: int) -> dict[str, np.ndarray]:
        # jax.device_get waits for the result: a tick is a finished chunk.
        host = jax.device_get(compiled(*placed(start)))
        return {name: host[name] for name in names}

    return run_chunk


def _check_memory(compiled: Any, mesh: Mesh) -> None:
    """Compare what the compiled program says it needs with what is free."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return
    needed = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
    device = mesh.devices.flat[0]
    if device.platform == "cpu":
        needed *= mesh.size
    free = _free_bytes(device)
    if free is not None and needed > free:
        raise InputError(
            f"one chunk of trials needs {needed / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB are "
            "free; give a smaller chunk or batch, or record less often."
        )


def _free_bytes(device: Any) -> int | None:
    """Return the free memory of a device; None where the system does not tell."""
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not Linux
        return None


@contextmanager
def _ticker(chunks: int, done: int, progress: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar with the time left on a terminal; it disappears when the run ends."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, force_jupyter=False)
    if not (progress and console.is_terminal):
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
