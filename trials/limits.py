"""What a run needs, before anything is compiled; more memory or time than there is is refused."""

import math
import os
import time
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxprs_in_params

from fedjax_admm._checks import InputError
from fedjax_admm._host import shown
from fedjax_admm.trials.engine import memory

_LONGEST = 86_400.0  # seconds: a day
# Numbers computed in a second: the peak of a core's vector unit, an accelerator a thousand times.
_PER_CORE, _PER_ACCELERATOR = 1e11, 1e14


def check_memory(what: str, size: int, remedy: str) -> None:
    """Check that so many bytes, such as of "the problem of a trial", fit into the free memory."""
    devices = jax.local_devices()
    free = memory.free_bytes(devices[0])
    if free is not None and size > free * len(devices):
        needs = f"{what} needs {shown(size)}"
        raise InputError(
            f"{needs}, but {shown(free * len(devices))} is free", value=size, remedy=remedy
        )


def check_time(what: str, numbers: float, remedy: str) -> None:
    """Check that computing so many numbers, a lower bound, takes no longer than a day."""
    devices = jax.devices()
    speed = _PER_ACCELERATOR * len(devices)
    if devices[0].platform == "cpu":
        speed = _PER_CORE * (os.cpu_count() or 1) * jax.process_count()
    if numbers / speed > _LONGEST:
        days = numbers / speed / _LONGEST
        time = f"{days:.1f} days" if days < 1000 else f"{days / 365.25:,.0f} years"
        raise InputError(
            f"{what} would take {time} at least on this machine", value=numbers, remedy=remedy
        )


def tree_bytes(tree: Any) -> int:
    """Return the size of all arrays of a pytree, which may be shapes alone."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def operations(program: ClosedJaxpr | Jaxpr) -> float:
    """Return how many additions and multiplications a program computes, by the shapes in it.

    A product of matrices (m, k) and (k, n) has `2 m k n`, anything else one per number of its
    result. A scan counts as often as it is long, a while loop once, as its length is not known, and
    a switch as the mean of its branches.
    """
    total = 0.0
    for each in getattr(program, "jaxpr", program).eqns:
        name, given = each.primitive.name, each.params
        inner = [operations(part) for part in jaxprs_in_params(given)]
        if name == "dot_general":
            (contracted, _), _ = given["dimension_numbers"]
            depth = math.prod(_shape(each.invars[0])[axis] for axis in contracted)
            total += 2.0 * depth * math.prod(_shape(each.outvars[0]))
        elif name == "cond":
            total += sum(inner) / len(inner)
        elif inner:
            total += sum(inner) * given.get("length", 1)
        else:
            total += max((math.prod(_shape(v)) for v in each.outvars), default=0)
    return total


def _shape(variable: Any) -> tuple[int, ...]:
    """Return the shape of a program's variable, () of what has none."""
    return getattr(variable.aval, "shape", ())


def product_speed() -> float:
    """Return how many operations this machine computes in a second, in products of matrices."""
    matrix = jnp.ones((1024, 1024), jnp.float32)
    product = jax.jit(jnp.matmul).lower(matrix, matrix).compile()
    taken = []
    for _ in range(5):
        clock = time.perf_counter()
        jax.block_until_ready(product(matrix, matrix))
        taken.append(time.perf_counter() - clock)
    return 2 * matrix.size * matrix.shape[0] / min(taken)
