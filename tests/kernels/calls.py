"""One call of every proximal map and projection, as users write it outside of `jax.jit`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import fedjax_admm.kernels as kernels
from tests.kernels.table import FIRSTS

EVENTS: list[str] = []  # what JAX has traced and compiled in this process
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: EVENTS.append(name))

_ROWS = jnp.ones((4, 3))
# Of maps without a row in the table.
_OTHERS = {
    "prox_negative_moreau_norm": (_ROWS, 0 * _ROWS, 1.0, 0.5),
    "prox_phase_residual": (_ROWS, 0.3, _ROWS, 2.0),
    "prox_phase_residual_box": (_ROWS, 0.3, _ROWS, 2.0, 1.0),
    "prox_phase_residual_clipped": (_ROWS, 0.3, _ROWS, 2.0, 1.0),
    "prox_range_excess": (_ROWS, 0 * _ROWS, 1.0, 0.5),
    "prox_ranges": (_ROWS, jnp.zeros(3), jnp.ones((4, 1)), 0.5),
}
MAPS = sorted({*FIRSTS, *_OTHERS})


def call_of(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a kernel with its axes and counts, and what it is called with: the point is first."""
    if name in _OTHERS:
        return getattr(kernels, name), _OTHERS[name]
    row = FIRSTS[name]
    numbers = row.parameters if row.projection else (row.steps[0], *row.parameters)

    def single(part: Any) -> Any:
        if isinstance(part, float | int) or callable(part):
            return part
        floating = jnp.issubdtype(jnp.result_type(part), jnp.floating)
        return jnp.asarray(part, jnp.float32 if floating else None)

    kernel = partial(getattr(kernels, name), **row.static)
    return kernel, tuple(jax.tree.map(single, (row.points, *numbers)))
