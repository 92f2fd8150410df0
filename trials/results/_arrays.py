"""Names, shapes, kinds and ranges of the arrays that `trials.npz` must hold beside a configuration.

Every array is the sweep, the rounds, a method's flags, a detail of the figure or a metric of one of
the methods. Others are refused: a reader of all metrics would take them for one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import listed, shape_text

DETAILS = "details"
"""The group of arrays that a figure shows besides metrics."""
NONFINITE_ROUND = "first_nonfinite_round"
"""The group of arrays that say when a trial stopped being finite."""
SWEEP, ROUND = "sweep", "round"


def defects(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yield the defects of arrays, in words that go on after the name of their file.

    Args:
      config: a configuration that has been checked.
      arrays: all that the file holds.
    """
    missing = [name for name in (SWEEP, ROUND) if name not in arrays]
    if missing:
        yield f"it lacks {listed(missing)}"
        return
    swept = np.asarray(config["settings"][config["parameter"]], np.float64)
    records, last = max(arrays[ROUND].size, 1), config["rounds"]
    shape = (swept.size, config["trials"], records)
    for name in dict.fromkeys((SWEEP, ROUND, *arrays)):
        array = arrays[name]
        group, _, rest = name.partition("/")
        method, slash, metric = name.rpartition("/")
        if name == SWEEP:
            yield from _misfit(name, array, (swept.size,))
            if not np.array_equal(array, swept):
                yield f"'sweep' must be the {config['parameter']} of config.json"
        elif name == ROUND:
            yield from _misfit(name, array, (records,), jnp.integer)
            numbers = [0, *np.ravel(array).tolist()]  # differences of unsigned ones wrap around
            if numbers[-1] != last or any(map(int.__ge__, numbers, numbers[1:])):
                yield f"'round' must be increasing numbers from 1 or more to the {last} rounds"
        elif group == NONFINITE_ROUND and rest in config["methods"]:
            yield from _misfit(name, array, shape[:2], jnp.integer)
            if not (int(array.min()) >= 0 and int(array.max()) <= last):
                yield f"{name!r} must be rounds from 0 to {last}"
        elif group == DETAILS and rest:
            yield from _misfit(name, array, array.shape)
        elif slash and metric and method in config["methods"]:
            yield from _misfit(name, array, shape)
        else:
            yield f"{name!r} is no metric of {listed(config['methods'])}"
    measured = {name.rpartition("/")[2] for name in arrays}
    if not measured & set(config["metrics"]):
        yield f"it holds none of the metrics {listed(config['metrics'])}"


def _misfit(
    name: str, array: np.ndarray, shape: tuple[int, ...], kind: Any = None
) -> Iterator[str]:
    """Yield whether an array has another kind or shape."""
    kinds = (kind,) if kind else (jnp.integer, jnp.floating, jnp.bool_)
    if not any(jnp.issubdtype(array.dtype, each) for each in kinds):
        words = "whole" if kind else "real"
        yield f"{name!r} must hold {words} numbers, but its dtype is {array.dtype}"
    elif array.shape != shape:
        yield f"{name!r} must have shape {shape_text(shape)}, but it has {array.shape}"
