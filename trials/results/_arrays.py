"""Names and shapes of the arrays that `trials.npz` must hold beside a configuration.

Every array is the sweep, the rounds, a method's flags, a detail of the figure or a metric of one of
the methods.
"""

from collections.abc import Iterator, Mapping
from typing import Any

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
    swept = len(config["settings"][config["parameter"]])
    shape = (swept, config["trials"], arrays[ROUND].size)
    for name, array in arrays.items():
        group = name.partition("/")[0]
        wanted = {SWEEP: shape[:1], ROUND: shape[2:], NONFINITE_ROUND: shape[:2]}.get(group, shape)
        if group != DETAILS and array.shape != wanted:
            yield f"{name!r} must have shape {shape_text(wanted)}, but it has {array.shape}"
