"""How trials are cut up: the micro-batch decides the last bits, the chunk does not.

What a chunk costs beside its trials (fetching, gathering from other processes, a file that is
synchronised to disk) hardly depends on how many they are, and what a killed run loses is a chunk.
So it is measured how long a chunk takes: the first one has a micro-batch per device, later ones so
many trials as take `CHUNK_SECONDS`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr

from fedjax_admm._checks import InputError, count
from fedjax_admm._host._jaxprs import equations
from fedjax_admm.lanes import suits_lanes

CACHE_BYTES = 96 * 1024
"""Loop state per CPU device that a micro-batch should not exceed (measured)."""

LANE_BYTES = 2 * 1024 * 1024
"""Loop state per CPU device that a micro-batch in lanes should not exceed (measured likewise)."""

LANE = 16
"""Trials that fill the widest vectors, of float32; whole lanes keep all rows aligned."""

_WIDEST = 8 * LANE  # more bring nothing (measured likewise)

GPU_MEMORY_FRACTION = 0.25
"""Share of a GPU's memory that the loop state of one micro-batch may take."""

CHUNK_SECONDS = 2.0
"""How long a chunk takes, about, where its size is not given."""

CHUNK_BYTES = 2**24
"""What the results of a chunk take at most, where its size is not given."""

_LEAST_CHUNKS = 4  # that a run is cut into, where that leaves whole micro-batches
_GROWTH = 32  # times as many trials as in the chunk before, at most: a short one tells little


class Layout(NamedTuple):
    """How trials are cut up. The width decides the last bits; the chunk does not."""

    width: int  # trials that are vmapped together
    chunk: int  # trials per host call, at most


def plan(
    program: ClosedJaxpr,
    trials: int,
    *,
    batch: int | str = "auto",
    chunk: int | None = None,
    devices: int = 1,
) -> Layout:
    """Choose the micro-batch width and the chunk, without compiling.

    On a CPU, `batch="auto"` takes as many trials as keep the state of the largest loop within
    `CACHE_BYTES`, or within `LANE_BYTES` where trials run in lanes (`runs_in_lanes`); on an
    accelerator, where a loop of small steps is bound by launches, as many as `GPU_MEMORY_FRACTION`
    of its memory holds (not measured yet).

    Arguments are those of `monte_carlo`, but for `program`, the trial as it is traced, and
    `devices`, the size of the mesh axis "trials".
    """
    share = math.ceil(trials / devices)
    if batch == "auto":
        width = _width(program, share)
    elif isinstance(batch, str):
        raise InputError(
            f"must be 'auto' or a whole number, but it is {batch!r}", argument="batch", value=batch
        )
    else:
        width = count("batch", batch)
    if chunk is None:
        step = width * devices
        chunk = step * max(1, round(trials / _LEAST_CHUNKS / step))
    return Layout(width, count("chunk", chunk))


def bounded(layout: Layout, devices: int, size: float) -> Layout:
    """Return a layout whose chunks take no more than `CHUNK_BYTES`, if a micro-batch allows it.

    Args:
      layout: a layout whose chunk has been chosen, not given.
      devices: the size of the mesh axis "trials".
      size: bytes that the results of one trial take.
    """
    step = layout.width * devices
    most = step * max(1, math.floor(CHUNK_BYTES / max(1, size) / step))
    return layout._replace(chunk=min(layout.chunk, most))


class Pace:
    """How many trials the next chunk has, by how long the one before took."""

    def __init__(self, layout: Layout, devices: int, *, given: bool):
        """Begin with a micro-batch per device; with whole chunks where their size was given.

        Args:
          layout: its chunk is the most that there may be.
          devices: the size of the mesh axis "trials".
          given: whether all chunks shall have that size.
        """
        self._step, self._most = layout.width * devices, layout.chunk
        self._wanted = self._most if given else min(self._step, self._most)
        self._given = given

    def took(self, trials: int, seconds: float) -> None:
        """Learn how long the last chunk took; the same in all processes."""
        if not self._given:
            had = math.ceil(trials / self._step)
            now = had * CHUNK_SECONDS / max(seconds, 1e-9)
            self._wanted = min(self._step * max(1, int(min(now, _GROWTH * had))), self._most)

    def length(self, left: int) -> int:
        """Return how many of the trials that are left come next: no small rest remains."""
        if not self._given and left <= min(self._most, 1.5 * self._wanted):
            return left
        return min(left, self._wanted)

    def spans(self, gaps: Iterable[range]) -> Iterator[range]:
        """Yield what is computed together; how much it is, is asked when it is wanted."""
        for gap in gaps:
            first = gap.start
            while first < gap.stop:
                length = self.length(gap.stop - first)
                yield range(first, first + length)
                first += length


def gaps_between(spans: Iterable[Sequence[int]], trials: int) -> list[range]:
    """Return the trials that are not there.

    Args:
      spans: the first of some trials that are there, and the one after their last; in their order.
      trials: how many are wanted.
    """
    gaps, reached = [], 0
    for first, stop in [*spans, (trials, trials)]:
        if reached < first:
            gaps.append(range(reached, first))
        reached = max(reached, stop)
    return gaps


def runs_in_lanes(program: ClosedJaxpr, width: int, device: Any) -> bool:
    """Return whether so many trials are batched along the fastest axis (`fedjax_admm.lanes`).

    It follows from the trial and the width, so that a run that is resumed goes on as it began.
    """
    return width >= LANE and device.platform == "cpu" and suits_lanes(program)


def _width(program: ClosedJaxpr, share: int) -> int:
    """Return how many of the trials of a device are computed together."""
    size = max(1, _largest_loop(program))
    widest = min(_WIDEST, LANE_BYTES // size, share)
    if runs_in_lanes(program, widest, jax.local_devices()[0]):
        # The last micro-batch is filled up with trials that nobody asked for; every turn of a loop
        # costs some four trials beside its own.
        widths = range(LANE, widest + 1, LANE)
        return min(widths, key=lambda width: math.ceil(share / width) * (width + 4))
    return max(1, min(share, _loop_budget() // size))


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
