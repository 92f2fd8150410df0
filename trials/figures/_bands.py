"""What is drawn around means and medians over trials, and what titles call it."""

import numpy as np

from fedjax_admm.trials.figures._looks._choices import BANDS, figure_files
from fedjax_admm.trials.results import Results, Summary

Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The line in the middle, and the lower and the upper end of its band."""


def mean_band(results: Results, table: Summary, usual: str = "errors") -> Band:
    """Return the mean and the band around it that is asked for of the results' figure.

    Args:
      results: they say which band it is, one of `BANDS`.
      table: over trials.
      usual: the band where none is asked for, which may be "none".
    """
    asked = _band(results, usual)
    if asked == "none":
        return table.mean, table.mean, table.mean
    if asked == "errors":
        return with_error(table)
    if asked == "quantiles":
        return table.mean, table.q10, table.q90
    with np.errstate(over="ignore"):
        spread = table.standard_error * np.sqrt(table.trials - table.nonfinite)
        low, high = table.mean - spread, table.mean + spread
        # On a logarithmic axis a band down to zero would fill the panel.
        return table.mean, np.where(table.mean > 0, np.maximum(low, table.mean / 10), low), high


def mean_words(results: Results, usual: str = "errors") -> str:
    """Return what the title of a panel calls what `mean_band` gives."""
    return BANDS.get(_band(results, usual), "mean")


def with_error(table: Summary) -> Band:
    """Return the mean, and one standard error below and above it."""
    with np.errstate(over="ignore"):
        return table.mean, table.mean - table.standard_error, table.mean + table.standard_error


def with_quantiles(table: Summary) -> Band:
    """Return the median, and the 10 and 90 % quantiles."""
    return table.median, table.q10, table.q90


def _band(results: Results, usual: str) -> str:
    return figure_files(results.config).bands or usual
