r"""Tables for a paper: mean and standard error of methods by settings, in LaTeX or Markdown.

The best method of a column has the smallest mean. It is bold where every other one is above it by
more than two standard errors of the difference, trial by trial, and no trial of it failed. A number
has two digits of its standard error.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedjax_admm._checks import one_of
from fedjax_admm.trials.results._contract import Results
from fedjax_admm.trials.results._overview import metric_of
from fedjax_admm.trials.results._summaries import paired_difference, summarize

FORMS = ("latex", "markdown")
_SURE = 2.0  # standard errors of a difference
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}


def paper_table(results: Results, form: str = "latex", *, metric: str | None = None) -> str:
    """Return the table of a run after its last round, with a caption.

    Args:
      results: of a run, or of the trials that it has so far.
      form: "latex", with booktabs, or "markdown".
      metric: its name; if None, the error, or the first that the experiment names.

    Raises:
      InputError: the metric was not measured.
    """
    metric, config = metric_of(results, metric), results.config
    rows = {
        method: results.values(method, metric)[..., -1]
        for method in results.methods
        if results.has(method, metric)
    }
    settings = [f"{config['parameter']} = {value:g}" for value in results.sweep]
    caption = f"{config['title']}: {results.label(metric)}, {results.run_in_words}"
    caption += f", {config['data']}" if config["data"] else ""
    return table_of(rows, settings, caption, form)


def trials_table(
    arrays: Mapping[str, np.ndarray], form: str = "markdown", *, caption: str = "trials"
) -> str:
    """Return the table of what `monte_carlo(...).arrays` holds: one number per trial of each.

    An array "FedADMM/error" stands in the row "FedADMM" and the column "error", another one in a
    row of its own. What is surely the smallest of a column, trial by trial, is bold.

    Args:
      arrays: name -> shape (trials,); those with more axes are left out.
      form: "markdown", or "latex" with booktabs.
      caption: what was measured.
    """
    numbers = {name: array for name, array in arrays.items() if array.ndim == 1}
    places = {name: name.rsplit("/", 1) if "/" in name else (name, "mean") for name in numbers}
    columns = list(dict.fromkeys(column for _, column in places.values()))
    trials = len(next(iter(numbers.values()), ()))
    rows = {row: np.full((len(columns), trials), np.nan) for row, _ in places.values()}
    for name, (row, column) in places.items():
        rows[row][columns.index(column)] = numbers[name]
    return table_of(rows, columns, f"{caption}, {trials} trials", form)


def table_of(
    rows: Mapping[str, np.ndarray], settings: Sequence[str], caption: str, form: str
) -> str:
    """Return a table of methods by settings.

    Args:
      rows: method -> its trials, shape (settings, trials); trial by trial they are paired.
      settings: names of the columns.
      caption: what is measured, and how often.
      form: one of `FORMS`.
    """
    one_of("form", form, FORMS)
    latex = form == "latex"
    values = np.stack([np.asarray(each, np.float64) for each in rows.values()])
    summary, best = summarize(values, axis=-1), _sure_best(values)
    cells = [
        [
            _number(summary.mean[k, i], summary.standard_error[k, i], best[i] == k, latex)
            for i in range(len(settings))
        ]
        for k in range(len(rows))
    ]
    lost = {name: int(n) for name, n in zip(rows, summary.nonfinite.sum(1), strict=True) if n}
    told = f"{caption}; mean and standard error"
    if (best >= 0).any():
        told += ". Bold: below every other method by more than two standard errors of the paired "
        told += "difference"
    if lost:
        told += ". Trials that are not finite are left out: "
        told += ", ".join(f"{number} of {name}" for name, number in lost.items())
    table = [["method", *settings], *([name, *own] for name, own in zip(rows, cells, strict=True))]
    return (_in_latex if latex else _in_markdown)(table, f"{told}.")


def _sure_best(values: np.ndarray) -> np.ndarray:
    """Return which method is surely the best in each setting, -1 where none is, (settings,)."""
    means = summarize(values, axis=-1).mean
    least = np.argmin(np.where(np.isfinite(means), means, np.inf), 0)
    found = np.full(least.shape, -1)
    for i, first in enumerate(least):
        others = np.delete(values[:, i], first, 0)
        own = np.broadcast_to(values[first, i], others.shape)
        apart = paired_difference(others, own, axis=-1)
        sure = np.all(apart.mean > _SURE * apart.standard_error)
        if len(others) and sure and np.isfinite(values[first, i]).all():
            found[i] = first
    return found


def _number(mean: float, error: float, bold: bool, latex: bool) -> str:
    """Return a mean and its standard error, with two digits of the error."""
    if not math.isfinite(mean):
        return "--" if latex else "-"
    size = error if math.isfinite(error) and error > 0 else abs(mean) / 100
    power = math.floor(math.log10(abs(mean))) if mean else 0
    power = power if not -3 <= power < 5 else 0
    digits = 0 if not size else max(0, 1 - math.floor(math.log10(size)) + power)
    mean, error = mean / 10.0**power, error / 10.0**power
    parts = [f"{mean:.{digits}f}", *([f"{error:.{digits}f}"] if math.isfinite(error) else [])]
    text = (r" \pm " if latex else " ± ").join(parts)
    if power:
        text = f"({text})" + (rf" \cdot 10^{{{power}}}" if latex else f"e{power}")
    if latex:
        return rf"$\boldsymbol{{{text}}}$" if bold else f"${text}$"
    return f"**{text}**" if bold else text


def _in_latex(table: list[list[str]], caption: str) -> str:
    def escaped(text: str) -> str:
        return "".join(_LATEX.get(letter, letter) for letter in text)

    head, *rows = table
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escaped(caption)}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(escaped, head))} \\\\",
        r"    \midrule",
        *(f"    {' & '.join([escaped(name), *cells])} \\\\" for name, *cells in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _in_markdown(table: list[list[str]], caption: str) -> str:
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in table]
    head, *rows = [f"| {' | '.join(row)} |" for row in escaped]
    rule = f"|---|{'---:|' * (len(table[0]) - 1)}"
    return "\n".join([head, rule, *rows, "", caption])
