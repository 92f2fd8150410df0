"""What the machine reaches, measured: to copy memory, and to multiply matrices."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError
from fedjax_admm._shown import short_repr


@short_repr
class Rates(NamedTuple):
    """What devices reach together, measured."""

    copy: float  # bytes read and written per second
    matrix: float  # floating-point operations per second


@short_repr
class Sizes(NamedTuple):
    """Arrays that are far beyond the caches, and keep every unit busy."""

    copy: int  # bytes
    matrix: int  # rows and columns


CPU, ACCELERATOR = Sizes(64 * 2**20, 1024), Sizes(2**30, 8192)
_REPEATS, _CALLS = 5, 4  # medians over repeats; calls between two waits, to hide the launch


def machine_rates(*devices: Any) -> Rates:
    """Measure how fast devices copy memory and multiply matrices, all at the same time.

    The copy adds a number to every entry of a float32 array, in place: into a new array it would
    time the pages that the system has to find. The product is of square float32 matrices at the
    highest precision, as solvers ask for. CPU devices share 64 MiB (caches that hold more flatter
    the copy) and all cores, so that several reach no more than one; an accelerator takes 1 GiB.

    Args:
      *devices: of one platform, such as `mesh.devices.flat`.

    Returns:
      The rates of all devices together: medians, compile time left out.

    Raises:
      InputError: no device is given.
    """
    if not devices:
        raise InputError("must hold at least one device, but it is empty", argument="devices")
    on_cpu = devices[0].platform == "cpu"
    sizes = CPU if on_cpu else ACCELERATOR
    entries = sizes.copy // 4 // (len(devices) if on_cpu else 1)
    side = sizes.matrix
    copying = _seconds(_add_one, (entries,), 0.0, devices)
    multiplying = _seconds(_square, (side, side), 1 / side, devices)
    return Rates(len(devices) * 2 * 4 * entries / copying, len(devices) * 2 * side**3 / multiplying)


@partial(jax.jit, donate_argnums=0)
def _add_one(x: jax.Array) -> jax.Array:
    return x + 1.0


@jax.jit
def _square(x: jax.Array) -> jax.Array:
    """Square a matrix; where all entries are 1 / side it stays the same."""
    return jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST)


def _seconds(
    function: Callable, shape: tuple[int, ...], entry: float, devices: Sequence[Any]
) -> float:
    """Return the median time of one call on all devices, each on an array of its own."""
    arrays = []
    for device in devices:
        with jax.default_device(device):
            arrays.append(function(jnp.full(shape, entry, jnp.float32)))
    jax.block_until_ready(arrays)
    taken = []
    for _ in range(_REPEATS):
        clock = time.perf_counter()
        for _ in range(_CALLS):
            arrays = [function(array) for array in arrays]
        jax.block_until_ready(arrays)
        taken.append((time.perf_counter() - clock) / _CALLS)
    return statistics.median(taken)
