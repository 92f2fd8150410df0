"""What `trials.npz` must hold beside a configuration: names, shapes, kinds and ranges of arrays.

Every array is the sweep, the rounds, a method's flags, a detail of the figure or a metric of one of
the methods. Others are refused: who goes through all metrics would take them for one.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import listed, shape_text
from fedjax_admm._shown import short_repr

DETAILS = "details"
"""The group of arrays that a figure shows besides metrics."""
NONFINITE_ROUND = "first_nonfinite_round"
"""The group of arrays that say when a trial stopped being finite."""
SWEEP, ROUND = "sweep", "round"


@short_repr
class _Wanted(NamedTuple):
    """What an array must be."""

    shape: tuple[int, ...] | None = None  # None: any
    whole: bool = False  # whether its numbers are integers
    values: str = ""  # what its numbers must be, in words
    holds: Callable[[np.ndarray], bool] = lambda array: True


def defects(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yield what is wrong with arrays, in words that go on after the name of their file.

    Args:
      config: a configuration that has been checked.
      arrays: all that the file holds.
    """
    missing = [name for name in (SWEEP, ROUND) if name not in arrays]
    if missing:
        yield f"it lacks {listed(missing)}"
        return
    for name in dict.fromkeys((SWEEP, ROUND, *arrays)):
        array = arrays[name]
        wanted = _wanted(name, config, arrays[ROUND].size)
        if wanted is None:
            yield f"{name!r} is no metric of {listed(config['methods'])}"
        elif not _is_real(array.dtype, wanted.whole):
            kind = "whole" if wanted.whole else "real"
            yield f"{name!r} must hold {kind} numbers, but its dtype is {array.dtype}"
        elif wanted.shape is not None and array.shape != wanted.shape:
            shapes = shape_text(wanted.shape), array.shape
            yield "{!r} must have shape {}, but it has {}".format(name, *shapes)
        elif not wanted.holds(array):
            yield f"{name!r} must be {wanted.values}"
    measured = {name.rpartition("/")[2] for name in arrays}
    if not measured & set(config["metrics"]):
        yield f"it holds none of the metrics {listed(config['metrics'])}"


def _wanted(name: str, config: Mapping[str, Any], records: int) -> _Wanted | None:
    """Return what the array of a name must be; None if there is no such array."""
    swept = np.asarray(config["settings"][config["parameter"]], np.float64)
    sizes, rounds = (swept.size, config["trials"], records), config["rounds"]
    group, _, rest = name.partition("/")
    if name == SWEEP:
        told = f"the {config['parameter']} of config.json"
        return _Wanted((swept.size,), False, told, lambda array: np.array_equal(array, swept))
    if name == ROUND:
        told = f"increasing numbers from 1 or more to the {rounds} rounds of config.json"
        return _Wanted((max(records, 1),), True, told, lambda array: _increases_to(rounds, array))
    if group == NONFINITE_ROUND and rest in config["methods"]:
        told = f"rounds from 0 to {rounds}"
        return _Wanted(sizes[:2], True, told, lambda array: _lies_within(array, rounds))
    if group == DETAILS and rest:
        return _Wanted()
    method, slash, metric = name.rpartition("/")
    return _Wanted(sizes) if slash and metric and method in config["methods"] else None


def _is_real(dtype: np.dtype, whole: bool) -> bool:
    kinds = (jnp.integer,) if whole else (jnp.integer, jnp.floating, jnp.bool_)
    return any(jnp.issubdtype(dtype, kind) for kind in kinds)


def _increases_to(last: int, array: np.ndarray) -> bool:
    exact = array.tolist()  # differences of unsigned numbers wrap around
    rising = all(one < other for one, other in itertools.pairwise(exact))
    return rising and exact[0] >= 1 and exact[-1] == last


def _lies_within(array: np.ndarray, most: int) -> bool:
    return int(array.min()) >= 0 and int(array.max()) <= most
