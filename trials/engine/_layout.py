"""How trials are cut up: the micro-batch decides the last bits, the chunk does not."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from fedjax_admm._checks import InputError, count
from fedjax_admm.trials.engine._jaxprs import equations
from fedjax_admm.trials.engine._trial import Trial, named_arrays

CACHE_BYTES = 96 * 1024
"""Loop state per CPU device that a micro-batch should not exceed (measured: `benchmarks/`)."""

GPU_MEMORY_FRACTION = 0.25
"""Share of a GPU's memory that the loop state of one micro-batch may take."""

_TICKS = 20  # chunks that a run is cut into, where that leaves whole micro-batches


class Layout(NamedTuple):
    """How trials are cut up. The width decides the last bits; the chunk does not."""

    width: int  # trials that are vmapped together
    chunk: int  # trials per host call


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

    Arguments are those of `monte_carlo`, but for `devices`, the size of the mesh axis "trials".

    Raises:
      InputError: `batch` is neither "auto" nor a positive whole number, or `chunk` is not one.
    """
    share = math.ceil(trials / devices)
    if batch == "auto":
        budget = _loop_budget()
        width = max(1, min(share, budget // max(1, loop_bytes(named_arrays(trial), key))))
    elif isinstance(batch, str):
        raise InputError(
            f"must be 'auto' or a whole number, but it is {batch!r}", argument="batch", value=batch
        )
    else:
        width = count("batch", batch)
    if chunk is None:
        step = width * devices
        chunk = step * max(1, round(trials / _TICKS / step))
    return Layout(width, count("chunk", chunk))


def loop_bytes(function: Callable, *args: Any) -> int:
    """Return the bytes that the largest loop of a function reads and writes in each turn.

    Args:
      function: as for `jax.make_jaxpr`, such as a trial.
      *args: its arguments, or their shapes (`jax.ShapeDtypeStruct`).
    """
    return _largest_loop(jax.make_jaxpr(function)(*args))


def _largest_loop(program: Any) -> int:
    largest = 0
    for equation in equations(program):
        if equation.primitive.name in ("scan", "while"):
            scanned = equation.params.get("num_consts", 0) + equation.params.get("num_carry", 0)
            operands = equation.invars[:scanned] if scanned else equation.invars
            largest = max(largest, sum(_bytes(operand.aval) for operand in operands))
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
