"""What a run says of itself: rounds, status, measures, messages, and where to look further."""

from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import is_concrete
from fedjax_admm._shown import short_repr

_HELP = "docs/howto/symptoms.md"


def words_of(run: Any) -> str:
    """Return a few lines on a run, or on a batch of runs, whose medians are told."""
    if not is_concrete((run.trace, run.status)):
        return short_repr(run)
    trace, status = jax.device_get((run.trace, run.status))
    runs, rounds = int(np.size(status.nonfinite)), np.atleast_1d(trace["round"][..., -1]).ravel()
    lines = [_count(int(rounds.max()), "round")]
    if runs > 1:
        lines = [f"{runs} runs of {'at most ' * int(np.ptp(rounds) > 0)}{lines[0]}"]
    bad, done = np.ravel(status.nonfinite), np.ravel(status.converged)
    if bad.any():
        number = np.count_nonzero(bad)
        whose = "the estimate is" if runs == 1 else f"{number} {'is' if number == 1 else 'are'}"
        lines.append(f"{whose} not finite from round {bad[bad > 0].min()} on: see {_HELP}")
    if done.any():
        whose = "converged" if runs == 1 else f"{np.count_nonzero(done)} converged"
        lines.append(f"{whose} after {_count(int(np.median(done[done > 0])), 'round')}")
    first = int(trace["round"].reshape(-1, trace["round"].shape[-1])[0, 0])
    for name, values in trace.items():
        if name in ("round", "messages") or values.shape != trace["round"].shape:
            continue
        begun, ended = (np.median(values[..., place]) for place in (0, -1))
        before = f"{begun:.4g} after {_count(first, 'round')}, " if values.shape[-1] > 1 else ""
        lines.append(f"{name}: {before}{ended:.4g} at the end")
    sent = np.median(np.sum(trace["messages"], -1))
    lines.append(f"{sent:,.0f} messages each way; solver.traffic(problem) has their size")
    if np.any(status.unsolved):
        short = int(np.max(status.unsolved))
        lines.append(f"{_count(short, 'inexact proximal step')} fell short: see {_HELP}")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
