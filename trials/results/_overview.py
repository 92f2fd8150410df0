"""What a run shows in a table: every method at every swept value, after some rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedjax_admm._checks import InputError, listed
from fedjax_admm._shown import short_repr
from fedjax_admm.trials.results._contract import Results
from fedjax_admm.trials.results._summaries import Summary, summarize
from fedjax_admm.trials.results._text_table import number_text, text_lines, text_table

_HEADINGS = ("method", "mean", "standard error", "median", "non-finite")
_SOME = 12  # recorded rounds that a mistake names


@short_repr
@dataclass(frozen=True)
class OverviewRow:
    """One method at one swept value; every entry of `numbers` is a scalar."""

    method: str
    value: float  # swept
    numbers: Summary


@short_repr
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
        headings = (_HEADINGS[0], self.parameter, *_HEADINGS[1:])
        lines = text_lines([self.title], width)
        return "\n".join([*lines, "", text_table(headings, rows, width, names=0)])


def overview(results: Results, *, metric: str | None = None, round: int | None = None) -> Overview:
    """Return a metric of every method at every swept value: mean, standard error, median.

    Args:
      results: of a run, or of the trials that it has so far.
      metric: which one; if None, the error, or what the experiment names first.
      round: after how many rounds, one that was recorded; if None, after the last.

    Raises:
      InputError: the metric was not measured, or nothing was recorded after that round.
    """
    metric = chosen_metric(results, metric)
    rounds = results.rounds.tolist()
    asked = int(rounds[-1] if round is None else round)
    if asked not in rounds:
        some = rounds if len(rounds) <= _SOME else [*rounds[: _SOME - 2], "...", rounds[-1]]
        raise InputError(
            f"must be one that was recorded ({listed(map(str, some))}), but it is {asked}",
            argument="round",
            value=asked,
        )
    rows = []
    for method in results.methods:
        if not results.has(method, metric):
            continue
        table = summarize(results.values(method, metric)[:, :, rounds.index(asked)], axis=1)
        for i, value in enumerate(results.sweep):
            rows.append(OverviewRow(method, value, Summary(*(column[i] for column in table))))
    config = results.config
    label = config["metrics"].get(metric, metric)
    title = (
        f"{config['experiment']}: {metric} ({label}) after {asked} rounds, {results.extent}; "
        f"{config['parameter']}: {config['parameter_label']}"
    )
    return Overview(metric, asked, title, config["parameter"], tuple(rows))


def chosen_metric(results: Results, metric: str | None, place: str = "this run") -> str:
    """Return the metric that is meant: one that was measured for some method.

    Args:
      results: of a run.
      metric: as a person named it; if None, the error, or what the experiment names first.
      place: what the results are called in a mistake.

    Raises:
      InputError: no method has it.
    """
    measured = {name.rpartition("/")[2]: None for name in results.arrays}
    named = [name for name in results.config["metrics"] if name in measured]
    if metric is None:
        return "error" if "error" in named else named[0]
    if metric not in measured:
        raise InputError(
            f"{place} has no metric {metric!r}; it has {listed(measured)}", value=metric
        )
    return metric
