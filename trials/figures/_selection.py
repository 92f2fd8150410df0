"""What a figure shows by itself, and the rest of it, which is drawn where all is asked for."""

import dataclasses
from collections.abc import Sequence

from fedjax_admm.trials.figures._looks._choices import figure_files
from fedjax_admm.trials.results import Results

LEFT_OUT = "left_out"
"""The entry of a configuration that counts the methods which a figure leaves out."""


def everything(results: Results) -> bool:
    """Return whether the figure shall show all methods and panels."""
    return figure_files(results.config).everything


def with_methods(results: Results, names: Sequence[str]) -> Results:
    """Return results of the named methods alone.

    All methods stay where everything is asked for, or where none of the names is there.

    Args:
      results: of a run, finished or not.
      names: in full, or without the task before the colon.
    """
    kept = [name for name in results.methods if name in names or name.partition(": ")[2] in names]
    left_out = len(results.methods) - len(kept)
    if everything(results) or not kept or not left_out:
        return results
    config = {**results.config, "methods": kept, LEFT_OUT: left_out}
    return dataclasses.replace(results, config=config)
