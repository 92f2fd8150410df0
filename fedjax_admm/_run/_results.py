"""What runs return, and go on from."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from fedjax_admm._frames import trace_dataset, trace_frame
from fedjax_admm._plots import plot_trace
from fedjax_admm._run._words import words_of
from fedjax_admm._shown import short_repr

Measure = Callable[[Any, Any, Any], Mapping[str, jax.Array]]
"""`measure(solver, problem, state) -> dict of arrays`; a module-level function (a new lambda
compiles again at every call)."""


class RoundState(NamedTuple):
    """All that a run needs to go on: give it back as `start`, with the same key."""

    # shape=(), int32: how many rounds are done
    index: jax.Array  # pyright: ignore[reportIncompatibleMethodOverride]
    participation: Any
    solver: Any
    # shape=(), uint32: by which a resumed run knows its key, which does not follow from it; None is
    # taken for that of any key
    fingerprint: jax.Array | None = None


class Status(NamedTuple):
    """What became of a call; rounds are counted from 1, and 0 means never."""

    converged: jax.Array  # shape=(), int32: the round after which the residual was small enough
    nonfinite: jax.Array  # shape=(), int32: the first round whose estimate was not finite
    unsolved: jax.Array  # shape=(), int32: since the first round, how many inexact proximal steps
    # of clients fell short of their accuracy


class Run(NamedTuple):
    """What `run` and `run_until` return."""

    state: RoundState
    trace: dict[str, jax.Array]  # leading axis = records; always "round" and "messages"
    status: Status
    estimate: Any  # the solver's estimate after the last round: an array; or the user's pytree of
    # parameters, where the problem has one (with an axis of clients for personal models)

    def __repr__(self) -> str:
        return short_repr(self)

    def __str__(self) -> str:
        """Return a few lines: rounds, status, the last measures, and how many messages went up."""
        return words_of(self)

    def plot(self, metric: str | None = None, *, label: str | None = None, axes: Any = None) -> Any:
        """Draw what was measured against rounds with matplotlib, logarithmic where it is positive.

        Of a batch of runs (`jax.vmap`) the median is drawn, with a band from 10 to 90 % of them;
        numbers that are not finite are left out, and the legend tells of how many runs. Several
        runs can be drawn into the same axes: every curve has a colour and a line of its own.

        Args:
          metric: a name of the trace; the first that was measured if None.
          label: what the legend calls this run; without it a single run has no legend.
          axes: what to draw into; new ones if None.

        Returns:
          The matplotlib Axes.

        Raises:
          InputError: the run measured nothing of that name, or an array per round, or the runs of
            a batch have recorded different rounds.
        """
        return plot_trace(self.trace, metric, label, axes)

    def to_dataframe(self) -> Any:
        """Return the trace as a pandas DataFrame: a row per record, and per run of a batch.

        Raises:
          InputError: pandas is not installed, or a metric is an array per round.
        """
        return trace_frame(self.trace)

    def to_xarray(self) -> Any:
        """Return the trace as an xarray Dataset over "round", and "run" for a batch.

        Runs of a batch that have recorded different rounds, as those of `run_until`, have "record"
        in the place of "round", which is a variable then.

        Raises:
          InputError: xarray is not installed.
        """
        return trace_dataset(self.trace)
