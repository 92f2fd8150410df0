"""Statistics over trials: non-finite trials are counted, never averaged, never hidden."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from fedjax_admm.trials.results._frames import summary_dataset, summary_frame


class Summary(NamedTuple):
    """Statistics of the finite trials; NaN where there are too few of them."""

    trials: np.ndarray  # int: all trials, the non-finite ones included
    mean: np.ndarray
    standard_error: np.ndarray  # of the mean: standard deviation (n - 1) / sqrt(n)
    median: np.ndarray
    q10: np.ndarray
    q90: np.ndarray
    nonfinite: np.ndarray  # int: trials left out of the other columns

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame: a row per entry, with its place on the axes."""
        return summary_frame(self._asdict())

    def to_xarray(self) -> Any:
        """Return an xarray Dataset with a variable per statistic."""
        return summary_dataset(self._asdict())


def summarize(values: np.ndarray, axis: int) -> Summary:
    """Summarise trials along an axis, in float64.

    Args:
      values: any shape; NaN and infinity mark trials that failed numerically.
      axis: the axis of trials.

    Returns:
      A `Summary` of arrays with that axis removed.
    """
    values = np.moveaxis(np.asarray(values, np.float64), axis, 0)
    finite = np.isfinite(values)
    number = np.sum(finite, axis=0)
    # By a power of two, so that neither sums nor squares overflow or vanish: no bit is lost.
    largest = np.max(np.where(finite, np.abs(values), 0), axis=0, initial=0)
    exponent = np.frexp(largest)[1]
    scaled = np.where(finite, np.ldexp(np.where(finite, values, 0), -exponent), np.nan)
    with warnings.catch_warnings():
        # All-NaN slices and single trials give NaN, which is what is meant.
        warnings.simplefilter("ignore", RuntimeWarning)
        mean = np.nanmean(scaled, axis=0)
        error = np.nanstd(scaled, axis=0, ddof=1) / np.sqrt(number)
        # nanquantile goes through the columns one by one in Python.
        quantile = np.quantile if number.size and finite.all() else np.nanquantile
        quantiles = quantile(scaled, [0.1, 0.5, 0.9], axis=0)
    mean, error, q10, median, q90 = (np.ldexp(x, exponent) for x in (mean, error, *quantiles))
    trials = np.full(number.shape, values.shape[0])
    return Summary(trials, mean, error, median, q10, q90, trials - number)


class Difference(NamedTuple):
    """Differences between two methods, on the same trials or on independent ones."""

    trials: np.ndarray  # int: pairs in which both are finite; of independent trials the fewer
    mean: np.ndarray
    standard_error: np.ndarray
    median: np.ndarray
    smaller: np.ndarray  # share of pairs in which the first is smaller


def paired_difference(first: np.ndarray, second: np.ndarray, axis: int) -> Difference:
    """Summarise `first - second`, trial by trial.

    Args:
      first: any shape.
      second: the same shape, on the same trials.
      axis: the axis of trials.

    Returns:
      A `Difference` of arrays with that axis removed; pairs with a non-finite member are left
      out.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    difference = np.full(first.shape, np.nan)
    paired = np.isfinite(first) & np.isfinite(second)
    with np.errstate(over="ignore"):  # beyond the range of numbers: a pair without a difference
        np.subtract(first, second, out=difference, where=paired)
    table = summarize(difference, axis)
    number = table.trials - table.nonfinite
    smaller = np.sum(difference < 0, axis=axis) / np.maximum(number, 1)
    return Difference(number, table.mean, table.standard_error, table.median, smaller)


def unpaired_difference(first: np.ndarray, second: np.ndarray, axis: int) -> Difference:
    """Summarise `first - second` of trials that are independent, as those of two seeds are.

    The standard error is Welch's, the root of the sum of both means' squared ones; the median is
    the difference of the medians; and `smaller` is the share, among all pairs of a trial of each,
    in which the first is smaller, equal ones counted half (Mann and Whitney).

    Args:
      first: any shape.
      second: the same shape, but for the number of trials.
      axis: the axis of trials.

    Returns:
      A `Difference` of arrays with that axis removed; non-finite trials are left out.
    """
    one, other = summarize(first, axis), summarize(second, axis)
    with np.errstate(over="ignore"):
        mean, median = one.mean - other.mean, one.median - other.median
        error = np.hypot(one.standard_error, other.standard_error)
    rows = (np.moveaxis(np.asarray(each, np.float64), axis, -1) for each in (first, second))
    mine, theirs = (each.reshape(-1, each.shape[-1]) for each in rows)
    shares = [_share_smaller(*each) for each in zip(mine, theirs, strict=True)]
    smaller = np.reshape(shares, np.shape(mean))
    number = np.minimum(one.trials - one.nonfinite, other.trials - other.nonfinite)
    return Difference(number, mean, error, median, smaller)


def _share_smaller(first: np.ndarray, second: np.ndarray) -> float:
    first, second = first[np.isfinite(first)], np.sort(second[np.isfinite(second)])
    if not (first.size and second.size):
        return 0.0
    above = second.size - np.searchsorted(second, first, "right")
    level = second.size - np.searchsorted(second, first, "left") - above
    return float(np.mean(above + level / 2) / second.size)
