"""One chunk of trials as a program: traced, told from others, and compiled to fit the memory."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedjax_admm._checks import InputError, batchable_key
from fedjax_admm._host._digest import digest_of_text
from fedjax_admm._host._files import digest_of
from fedjax_admm._host._jaxprs import constants, equations
from fedjax_admm._host._memory import host_bytes, shown
from fedjax_admm._host._programs import NO_LIBRARY_REDUCTIONS, known_options
from fedjax_admm.lanes import lanes
from fedjax_admm.trials.engine import hosts, memory
from fedjax_admm.trials.engine._layout import Layout, bounded, plan, runs_in_lanes
from fedjax_admm.trials.engine._trial import Traced, Trial, traced

_IN_LANES = {"xla_cpu_prefer_vector_width": 512, "xla_backend_optimization_level": 1}
"""For CPUs: XLA takes half of the widest vectors, a tenth slower in lanes. Its second and third
level of optimisation bring nothing there, and take a quarter of the time of compiling."""

_COMPACT = {"xla_cpu_use_fusion_emitters": False}
"""For CPUs: XLA's older code generator, which holds no compiler context for each fused loop."""

_MICRO_BATCH = "micro_batch_of_trials"  # what its function is called in the traced program


class Begun(NamedTuple):
    """Trials that the devices are computing."""

    results: dict[str, jax.Array]  # of every device, room for the largest chunk
    length: int  # trials
    clock: float  # when they were begun


class Chunk(NamedTuple):
    """What one call computed."""

    arrays: dict[str, np.ndarray]  # leading axis = trials
    run_seconds: float  # computing
    transfer_seconds: float  # to the host, and from the other processes
    slowest_seconds: float  # computing, in the slowest process
    stop: bool  # whether any process has to stop


@dataclass(frozen=True)
class Lowered:
    """A chunk that has been traced, not compiled."""

    layout: Layout
    mesh: Mesh
    key: jax.Array
    names: tuple[str, ...]  # in the trial's own order: as a pytree a dict is sorted
    digest: str  # of the trial at its width, and of what it returns, whatever the chunk is
    in_lanes: bool  # whether trials are batched along the fastest axis
    calls: str  # by what the trial calls code that no digest tells from other; "" if not
    lowering: Any  # None once it has been compiled: it holds every constant
    seconds: float  # what tracing took


@dataclass(frozen=True)
class Program:
    """A compiled chunk: call it with the number of its first trial."""

    lowered: Lowered
    compiled: Any
    bytes: int  # of memory that every device needs for it
    compile_seconds: float  # tracing and compiling (or loading from the persistent cache)

    @property
    def layout(self) -> Layout:
        """Return how the trials are cut up."""
        return self.lowered.layout

    def __call__(self, start: int, length: int) -> Chunk:
        """Compute so many trials, at most a chunk, from `start` on."""
        return self.collect(self.begin(start, length))

    def begin(self, start: int, length: int) -> Begun:
        """Have the devices compute so many trials, at most a chunk, from `start` on."""
        clock, lowered = time.perf_counter(), self.lowered
        inputs = _inputs(lowered.key, start, length, lowered.layout, lowered.mesh)
        return Begun(self.compiled(*inputs), length, clock)

    def collect(self, begun: Begun, stopping: Callable[[], bool] = lambda: False) -> Chunk:
        """Wait for trials, and bring them home from the devices of all processes.

        Args:
          begun: what `begin` has returned.
          stopping: returns, once they are computed, whether this process has to stop.
        """
        lowered = self.lowered
        with hosts.together():
            jax.block_until_ready(begun.results)
        done = time.perf_counter()
        spent, used = done - begun.clock, _share(begun.length, lowered.layout.width, lowered.mesh)
        results = {name: begun.results[name] for name in lowered.names}
        word, arrays = hosts.gathered(results, used, lowered.mesh, stopping(), spent)
        arrays = {name: array[: begun.length] for name, array in arrays.items()}
        return Chunk(arrays, spent, time.perf_counter() - done, word.largest, word.anybody)


def compile_trials(
    trial: Trial | Traced,
    key: jax.Array,
    trials: int,
    *,
    batch: int | str = "auto",
    chunk: int | None = None,
    mesh: Mesh,
    limit: int | None = None,
    lowered: Lowered | None = None,
    compact: bool = False,
) -> Program:
    """Compile one chunk of trials, and see to it that it fits into memory.

    What the compiled program says that it needs bounds the chunk; where even one micro-batch per
    device is too much, its width is cut too. A width or a chunk that is given stays as it is.
    Arguments are those of `monte_carlo`, but for `limit`, which is called `memory` there, and for
    `lowered`: what `lower_trials` returned for the same arguments, where that has been called.
    """
    batchable_key(key)
    clock = time.perf_counter()
    spent = 0.0 if lowered is None else lowered.seconds
    devices = mesh.shape["trials"]
    one = trial if isinstance(trial, Traced) else traced(trial, key)
    if lowered is None:
        layout = plan(one.program, trials, batch=batch, chunk=chunk, devices=devices)
    else:
        layout = lowered.layout
    # Hosts may differ, but all must decide alike.
    on_host = hosts.smallest(host_bytes())
    free = hosts.smallest(memory.free_bytes(mesh.local_devices[0]))
    room = free if limit is None else min(free, limit)
    while True:
        if lowered is None or lowered.layout != layout:
            lowered = lower_trials(one, key, layout, mesh)
        size = _result_bytes(lowered.lowering, layout, mesh)
        _check_results(size, trials, on_host)
        if chunk is None and bounded(layout, devices, size) != layout:
            layout = bounded(layout, devices, size)
            continue
        compiled = _compile(lowered, compact)
        needed = memory.program_bytes(compiled)
        if needed <= room:
            seconds = spent + time.perf_counter() - clock
            return Program(replace(lowered, lowering=None), compiled, needed, seconds)
        smaller = _smaller(
            layout,
            devices,
            needed,
            room,
            results=2 * compiled.memory_analysis().output_size_in_bytes,
            keep_width=batch != "auto",
            keep_chunk=chunk is not None,
        )
        if smaller is None:
            raise _too_large(layout, mesh, needed, room, allowed=room != free)
        layout = smaller


def _compile(lowered: Lowered, compact: bool) -> Any:
    if lowered.mesh.devices.flat[0].platform != "cpu":
        return lowered.lowering.compile()
    options = known_options(**NO_LIBRARY_REDUCTIONS | (_IN_LANES if lowered.in_lanes else {}))
    options |= known_options(**_COMPACT) if compact else {}
    return lowered.lowering.compile(compiler_options=options)


def _smaller(
    layout: Layout,
    devices: int,
    needed: int,
    room: float,
    *,
    results: int,
    keep_width: bool,
    keep_chunk: bool,
) -> Layout | None:
    """Return a layout that needs less memory, if there may be one: results grow with the chunk."""
    step = layout.width * devices
    if layout.chunk > step and not keep_chunk:
        share = min((room - (needed - results)) / max(1, results), 0.9)
        return layout._replace(chunk=step * max(1, math.floor(layout.chunk / step * share)))
    if layout.width > 1 and not (keep_width or keep_chunk):
        width = max(1, math.floor(layout.width * room / needed))
        return Layout(width, width * devices)
    return None


def _too_large(
    layout: Layout, mesh: Mesh, needed: int, room: float, *, allowed: bool
) -> InputError:
    at_once, remedy = f"a micro-batch of {layout.width} trials", "a smaller batch, "
    if layout.chunk > layout.width * mesh.shape["trials"]:
        at_once, remedy = f"a chunk of {layout.chunk} trials", "a smaller chunk or batch, "
    elif layout.width == 1:
        at_once, remedy = "one trial", ""
    have = "are allowed" if allowed else "are free"
    return InputError(
        f"{at_once} needs {shown(needed)} of every device, but {shown(room)} {have} "
        f"on {mesh.local_devices[0].device_kind}",
        remedy=f"give {remedy}a smaller problem, fewer records, or more devices per trial",
    )


def _result_bytes(lowered: Any, layout: Layout, mesh: Mesh) -> float:
    """Return what the results of one trial take."""
    chunk = sum(_size(shape) for shape in jax.tree.leaves(lowered.out_info))
    return chunk / (_share(layout.chunk, layout.width, mesh) * mesh.shape["trials"])


def _check_results(size: float, trials: int, free: float) -> None:
    """Check that the host can hold what all trials return."""
    needed = size * trials
    if needed > free:
        raise InputError(
            f"the results of {trials} trials need {shown(needed)}, but "
            f"{shown(free)} are free on this machine",
            remedy="run fewer trials or record less often",
        )


def _size(shape: Any) -> int:
    return math.prod(shape.shape) * getattr(shape.dtype, "itemsize", 8)


def _share(length: int, width: int, mesh: Mesh) -> int:
    """Return how many of so many trials a device computes: whole micro-batches, all alike."""
    return width * math.ceil(length / (width * mesh.shape["trials"]))


def _inputs(
    key: jax.Array, start: int, length: int, layout: Layout, mesh: Mesh
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Tell every device the data of the key, its first trial, and how many micro-batches it has."""
    share = _share(length, layout.width, mesh)
    offsets = share * np.arange(mesh.shape["trials"])
    batches = np.clip(-(-(length - offsets) // layout.width), 0, share // layout.width)
    by_trials = NamedSharding(mesh, PartitionSpec("trials"))
    return (
        hosts.placed(np.asarray(jax.random.key_data(key)), NamedSharding(mesh, PartitionSpec())),
        hosts.placed((start + offsets).astype(np.uint32), by_trials),
        hosts.placed(batches.astype(np.int32), by_trials),
    )


def lower_trials(one: Traced, key: jax.Array, layout: Layout, mesh: Mesh) -> Lowered:
    """Lower one chunk: what `_inputs` returns -> arrays; trials that are not asked for are zero."""
    clock = time.perf_counter()
    names, program, function = one
    implementation = jax.random.key_impl(key)
    width = layout.width
    share = _share(layout.chunk, width, mesh)
    whole = mesh.shape.get("clients", 1) == 1  # every device has whole trials
    in_lanes = whole and runs_in_lanes(program, width, mesh.devices.flat[0])
    # Solvers spread clients over devices where they are traced under that mesh.
    compute = jaxpr_as_fun(program) if whole else function
    compute = lanes(compute) if in_lanes else compute

    def shard(key_data: jax.Array, first: jax.Array, batches: jax.Array) -> dict[str, jax.Array]:
        # Everything that it needs is an argument or a constant of its own: it is digested alone.
        def micro_batch(key_data: jax.Array, number: jax.Array) -> dict[str, jax.Array]:
            one_key = jax.random.wrap_key_data(key_data, impl=implementation)

            def numbered(number: jax.Array) -> dict[str, jax.Array]:
                values = compute(jax.random.fold_in(one_key, number))
                kinds = [aval.dtype for aval in program.out_avals]
                # What no key decides comes back as a plain number.
                return dict(zip(names, map(jnp.asarray, values, kinds), strict=True))

            # A batch of one can cost 2.5 times as much as no batch at all.
            if width == 1:
                return jax.tree.map(lambda array: array[None], numbered(number))
            return jax.vmap(numbered)(number + jnp.arange(width, dtype=number.dtype))

        micro_batch.__name__ = _MICRO_BATCH
        batch = jax.jit(micro_batch)

        def fill(number: jax.Array, results: dict[str, jax.Array]) -> dict[str, jax.Array]:
            row = number * width
            new = batch(key_data, first[0] + row.astype(first.dtype))
            return jax.tree.map(
                lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, row, 0),
                results,
                new,
            )

        blank = jax.tree.map(
            lambda shape: jnp.zeros((share, *shape.shape[1:]), shape.dtype),
            jax.eval_shape(batch, key_data, first[0]),
        )
        # The number of turns is an input: XLA would compile a loop of one turn into other
        # arithmetic than a loop of many, and the last bits would depend on the chunk.
        return jax.lax.fori_loop(0, batches[0], fill, blank)

    # Over trials by hand; over clients by JAX, as the solvers' constraints tell it.
    by_hand = {"trials"} if mesh.shape.get("clients", 1) > 1 else set(mesh.axis_names)
    # check_vma=False: the carries inside a trial start as constants, the same on every device.
    sharded = jax.shard_map(
        shard,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec("trials"), PartitionSpec("trials")),
        out_specs=PartitionSpec("trials"),
        axis_names=by_hand,
        check_vma=False,
    )
    # A process sees its own devices only: where there are several, each has whole trials.
    own = NamedSharding(mesh, PartitionSpec("trials")) if mesh.is_multi_process else None
    chunk = jax.jit(sharded, out_shardings=own)
    whole_chunk = chunk.trace(*_inputs(key, 0, layout.chunk, layout, mesh))
    lowering = whole_chunk.lower()
    digest, calls = _digest(whole_chunk, lowering, names), _calls(whole_chunk.jaxpr)
    seconds = time.perf_counter() - clock
    return Lowered(layout, mesh, key, names, digest, in_lanes, calls, lowering, seconds)


def _calls(program: Any) -> str:
    """Return by what a program calls code that its text does not show.

    Callbacks that only print change no trial.
    """
    names = {equation.primitive.name for equation in equations(program)} - {"debug_callback"}
    return next((name for name in sorted(names) if name == "ffi_call" or "callback" in name), "")


def _digest(chunk: Any, lowering: Any, names: Sequence[str]) -> str:
    """Digest what computes one micro-batch, and what it returns.

    The loop around it, which depends on the chunk and on the devices, is left out.
    """
    inner = next(
        equation.params["jaxpr"]
        for equation in equations(chunk.jaxpr)
        if equation.params.get("name") == _MICRO_BATCH
    )
    outputs = lowering.out_info
    returned = [[name, str(outputs[name].dtype), list(outputs[name].shape[1:])] for name in names]
    return digest_of([digest_of_text(lowering, _MICRO_BATCH, constants(inner)), returned])
