"""Tables of runs: every method at every swept value, after some rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedjax_admm._checks import InputError, listed
from fedjax_admm.trials.results._contract import Results
from fedjax_admm.trials.results._summaries import Summary, summarize
from fedjax_admm.trials.results._text_table import number_text, text_lines, text_table

_SOME = 12  # recorded rounds that a mistake names


@dataclass(frozen=True)
class OverviewRow:
    """One method at one swept value; every entry of `numbers` is a scalar."""

    method: str
    value: float  # swept
    numbers: Summary


@dataclass(frozen=True)
class Overview:
    """A metric of every method that has it, at every swept value, after some rounds."""

    metric: str
    round: int
    title: str
    parameter: str
    rows: Sequence[OverviewRow]

    def __str__(self) -> str:
        """Return the text in 80 columns."""
        return self.text()

    def text(self, width: int = 80) -> str:
        """Return the title and the table as text that fits so many columns."""
        rows = [
            (
                row.method,
                f"{row.value:g}",
                number_text(row.numbers.mean),
                number_text(row.numbers.standard_error),
                number_text(row.numbers.median),
                f"{row.numbers.nonfinite}",
            )
            for row in self.rows
        ]
        headings = ("method", self.parameter, "mean", "standard error", "median", "non-finite")
        lines = text_lines([self.title], width)
        return "\n".join([*lines, "", text_table(headings, rows, width, names=0)])


def overview(results: Results, *, metric: str | None = None, round: int | None = None) -> Overview:
    """Return a metric of every method at every swept value: mean, standard error, median.

    Args:
      results: of a run, or of the trials that it has so far.
      metric: its name; if None, the error, or the first that the experiment names.
      round: after how many rounds, one that was recorded; if None, after the last.

    Raises:
      InputError: the metric was not measured, or nothing was recorded after that round.
    """
    metric, config = metric_of(results, metric), results.config
    rounds = results.rounds.tolist()
    round = int(rounds[-1] if round is None else round)
    if round not in rounds:
        some = rounds if len(rounds) <= _SOME else [*rounds[: _SOME - 2], "...", rounds[-1]]
        raise InputError(
            f"must be one that was recorded ({listed(map(str, some))}), but it is {round}",
            argument="round",
            value=round,
        )
    rows = []
    for method in results.methods:
        if results.has(method, metric):
            values = results.values(method, metric)[:, :, rounds.index(round)]
            table = summarize(values, axis=1)
            for i, value in enumerate(results.sweep):
                rows.append(OverviewRow(method, value, Summary(*(column[i] for column in table))))
    title = (
        f"{config['experiment']}: {metric} ({config['metrics'].get(metric, metric)}) after {round} "
        f"rounds, {results.extent}; {config['parameter']}: {config['parameter_label']}"
    )
    return Overview(metric, round, title, config["parameter"], tuple(rows))


def metric_of(results: Results, metric: str | None, place: str = "this run") -> str:
    """Return the metric of a name; if None, the error, or the first that the experiment names."""
    measured = {name.rpartition("/")[2]: None for name in results.arrays}
    if metric is None:
        named = [name for name in results.config["metrics"] if name in measured]
        return "error" if "error" in named else named[0]
    if metric not in measured:
        told = f"{place} has no metric {metric!r}; it has {listed(measured)}"
        raise InputError(told, value=metric)
    return metric
