"""How precise a run is: the standard errors of the first metric that was measured."""

from collections.abc import Iterable, Mapping

import numpy as np

from fedjax_admm.trials.results import summarize


def largest_error(
    arrays: Mapping[str, np.ndarray], metrics: Iterable[str], axis: int
) -> tuple[str, float]:
    """Return the first metric that was measured, and its largest standard error.

    It is that of all methods and swept values in the last round. A method of which fewer than two
    trials are finite has none; where no method has one, it is infinite.

    Args:
      arrays: by "method/metric", rounds along the last axis.
      metrics: their names.
      axis: the axis of trials.
    """
    measured = {name.rpartition("/")[2] for name in arrays}
    metric = next(metric for metric in metrics if metric in measured)
    ends = [array for name, array in arrays.items() if name.rpartition("/")[2] == metric]
    errors = [summarize(end[..., -1], axis).standard_error.ravel() for end in ends]
    finite = [error for error in np.concatenate(errors).tolist() if np.isfinite(error)]
    return metric, max(finite, default=np.inf)
