"""Checks of a schedule: elementwise, of its own dtype, positive, and learnable."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, is_real
from fedjax_admm._shown import short_repr
from fedjax_admm.testing._shared import (
    cast,
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    dtype_of,
    is_float,
    make,
    name_of,
    unfit,
    with_floats,
)

COUNTS = np.array([[1, 2, 3], [4, 100, 7]], np.int32)


@short_repr
class _Bench(NamedTuple):
    schedule: Any
    counts: np.ndarray
    positive: bool

    @property
    def name(self) -> str:
        return name_of(self.schedule)

    @property
    def asked(self) -> jax.Array:
        return jnp.asarray(self.counts, jnp.int32)


def check_schedule(
    schedule: Any,
    *,
    counts: ArrayLike = COUNTS,
    positive: bool = True,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check a schedule, `schedule(count) -> value`.

    - `elementwise`: arrays of counts give arrays of that shape, whose entries are what the counts
      give alone; values are finite, and positive.
    - `dtype`: values have the dtype of the schedule's numbers, float32 and float64.
    - `jit`: the same numbers under `jax.jit`, and one trace for all values of its numbers.
    - `vmap`: schedules can be stacked, and mapped over.
    - `gradient`: derivatives by its numbers are finite, and those of finite differences.

    Args:
      schedule: a callable pytree; `schedules.schedule` makes one of a function.
      counts: whole numbers from 1, an array.
      positive: whether values must be positive, as steps and penalty parameters are.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the schedule cannot be called, or counts are no whole numbers from 1.
    """
    if not callable(schedule) or isinstance(schedule, type):
        raise unfit("schedule", schedule, "a schedule, as schedules.constant(0.1) builds it")
    asked = np.asarray(counts) if is_real(counts) else np.zeros(1)
    if not np.issubdtype(asked.dtype, np.integer) or asked.ndim == 0 or np.any(asked < 1):
        raise InputError(
            f"must be an array of whole numbers from 1, but they are {counts}",
            argument="counts",
            value=counts,
        )
    if jax.tree_util.all_leaves([schedule]):
        raise InputError(
            f"must be a pytree, but {name_of(schedule)} is a plain function",
            argument="schedule",
            value=schedule,
            remedy="make a schedule of it with schedules.schedule or schedules.from_optax",
        )
    make(_Bench(schedule, asked, positive), _CHECKS, only)


@jax.jit
def _values(schedule: Any, counts: jax.Array) -> jax.Array:
    return schedule(counts)


def _elementwise(b: _Bench) -> None:
    with doing(f"{b.name} of an array of counts"):
        found = b.schedule(b.asked)
    dtype = dtype_of(b.schedule)
    demand_kind(f"{b.name} of counts of shape {b.counts.shape}", found, b.counts.shape, dtype)
    demand_finite(f"The values of {b.name}", found, "Counts begin at 1.")
    if b.positive:
        place = np.unravel_index(np.argmin(found), found.shape)
        demand(
            np.min(found) > 0,
            f"{b.name} must be positive, but at count {b.counts[place]} it is "
            f"{np.asarray(found)[place]:g}; pass positive=False if it may be.",
        )
    for place in np.ndindex(b.counts.shape):
        alone = b.schedule(jnp.int32(b.counts[place]))
        where = f"{b.name} of the count {b.counts[place]} alone"
        demand_kind(where, alone, (), dtype)
        demand_close(f"{where} and among others", alone, found[place], *_close(dtype))


def _dtype(b: _Bench) -> None:
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(True):
            numbers = cast(b.schedule, dtype)
            if not any(is_float(leaf) for leaf in jax.tree.leaves(numbers)):
                continue
            with doing(f"{b.name} with numbers of dtype {np.dtype(dtype).name}"):
                found = numbers(b.asked)
            where = f"{b.name} with numbers of dtype {np.dtype(dtype).name}"
            demand_kind(where, found, b.counts.shape, dtype)


def _jit(b: _Bench) -> None:
    traces = 0

    @jax.jit
    def go(schedule, counts):
        nonlocal traces
        traces += 1
        return schedule(counts)

    dtype = dtype_of(b.schedule)
    for factor in (1.0, 1.5):
        changed = with_floats(b.schedule, lambda leaf, f=factor: leaf * f)
        with doing(f"{b.name} under jax.jit", "Take jnp.where in place of an if on values."):
            found = go(changed, b.asked)
        demand_close(
            f"{b.name} with and without jax.jit", found, changed(b.asked), *_close(dtype, 10)
        )
    demand(
        traces == 1,
        f"{b.name} was traced {traces} times for two values of its numbers; make its numbers "
        "leaves that are arrays, not static fields.",
    )


def _vmap(b: _Bench) -> None:
    other = with_floats(b.schedule, lambda leaf: 0.9 * leaf)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), b.schedule, other)
    with doing(f"{b.name} under jax.vmap over its numbers"):
        mapped = jax.vmap(lambda schedule: schedule(b.asked), axis_size=2)
        both = jax.jit(mapped)(stacked)
    for found, alone in zip(both, (b.schedule, other), strict=True):
        wanted = _values(alone, b.asked)
        where = f"{b.name} mapped over two schedules and alone"
        demand_close(where, found, wanted, *_close(dtype_of(b.schedule), 10))


def _gradient(b: _Bench) -> None:
    with jax.enable_x64(True):
        schedule = cast(b.schedule, np.float64)

        def total(schedule):
            return jnp.sum(schedule(b.asked))

        with doing(f"The derivative of {b.name} by its numbers"):
            slopes = jax.grad(total, allow_int=True)(schedule)
        for (path, slope), leaf in zip(
            jax.tree.leaves_with_path(slopes), jax.tree.leaves(schedule), strict=True
        ):
            if not is_float(leaf):
                continue
            name = jax.tree_util.keystr(path)
            where = f"The derivative of {b.name} by {name}"
            demand_finite(where, slope, "Both branches of a jnp.where are differentiated.")
            ends = [total(_moved(schedule, path, step)) for step in (1e-6, -1e-6)]
            quotient = float(ends[0] - ends[1]) / 2e-6
            scale = 1e-6 * max(1.0, abs(float(ends[0])), abs(quotient))
            where = f"{where} and its finite difference"
            demand_close(where, jnp.sum(slope), jnp.asarray(quotient), 1e-6, scale)


def _moved(schedule: Any, path: Any, step: float) -> Any:
    return jax.tree_util.tree_map_with_path(
        lambda place, leaf: leaf + step if place == path else leaf, schedule
    )


def _close(dtype: Any, factor: float = 1.0) -> tuple[float, float]:
    return 80 * factor * float(jnp.finfo(dtype).eps), 0.0


_CHECKS = {
    "elementwise": _elementwise,
    "dtype": _dtype,
    "jit": _jit,
    "vmap": _vmap,
    "gradient": _gradient,
}
SCHEDULE_CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the checks that `check_schedule` makes."""
