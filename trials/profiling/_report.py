"""Where the time of a run went, and how much of the machine it used, as a table and as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedjax_admm._shown import short_repr
from fedjax_admm.trials.profiling._operations import OperationCounts
from fedjax_admm.trials.profiling._rates import Rates


@short_repr
@dataclass(frozen=True)
class Profile:
    """Where the time of a run went, and what was done in it."""

    compile_seconds: float  # tracing and compiling
    run_seconds: float  # computing
    transfer_seconds: float  # from the devices to the host, and storing
    total_seconds: float  # all of it, and what is in between
    trials: int  # computed in this run; those of an earlier one that it resumed left out
    counts: OperationCounts  # of all these trials
    rates: Rates  # of all devices together
    devices: int
    device: str  # what they are
    trace: Path | None = None  # a `.trace.json.gz`


_HOW_TO_OPEN = (
    "drag it into https://ui.perfetto.dev, or open the folder that was recorded in TensorBoard "
    "(XProf)."
)


def table(profile: Profile) -> str:
    """Return a profile as a short text, aligned.

    Args:
      profile: what was measured.

    Returns:
      Lines without a newline at the end. Rates are those of the time of computing alone.
    """
    shown = as_json(profile)
    rows = [
        ("compile", f"{profile.compile_seconds:.3f} s", ""),
        ("run", f"{profile.run_seconds:.3f} s", f"on {profile.devices} x {profile.device}"),
        ("transfer", f"{profile.transfer_seconds:.3f} s", "device to host, and storing"),
        ("total", f"{profile.total_seconds:.3f} s", ""),
    ]
    notes = []
    if shown["trials_per_second"] is None:
        rows.append(("trials", "0", "nothing was computed"))
    else:
        rows += [
            ("trials", f"{profile.trials}", f"{shown['trials_per_second']:.4g} per second"),
            _compared(shown, "bytes", "GB/s", "copy"),
            _compared(shown, "flops", "GFLOP/s", "matrix product"),
        ]
        if profile.counts.unknown_loops:
            notes.append(
                f"Both are at least: {profile.counts.unknown_loops} loops of unknown length are "
                "counted once."
            )
        if shown["bytes_share"] > 1:
            notes.append("More than a copy reaches: the loops work in the caches.")
    if profile.trace is not None:
        notes.append(f"Trace: {profile.trace}; {_HOW_TO_OPEN}")
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{name:<{names}}  {value:>{values}}  {note}".rstrip() for name, value, note in rows]
    return "\n".join([*lines, *notes])


def _compared(shown: Mapping[str, Any], name: str, unit: str, beside: str) -> tuple[str, str, str]:
    """Return the row of a rate beside what was measured."""
    label = {"bytes": "memory", "flops": "arithmetic"}[name]
    share, limit = shown[f"{name}_share"], shown[f"{name}_per_second_measured"]
    return (
        label,
        f"{shown[f'{name}_per_second'] / 1e9:.3g} {unit}",
        f"{100 * share:.3g} % of the measured {beside} ({limit / 1e9:.3g} {unit})",
    )


def as_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as what JSON knows; rates are None where nothing was computed.

    Args:
      profile: what was measured.

    Returns:
      A dict of numbers and texts, with the rates that were reached and those that were measured.
    """
    ran = profile.run_seconds > 0 and profile.trials > 0

    def each(amount: float) -> float | None:
        return amount / profile.run_seconds if ran else None

    def share(amount: float, limit: float) -> float | None:
        return amount / profile.run_seconds / limit if ran else None

    done, rates = profile.counts, profile.rates
    return {
        "seconds": {
            "compile": profile.compile_seconds,
            "run": profile.run_seconds,
            "transfer": profile.transfer_seconds,
            "total": profile.total_seconds,
        },
        "devices": profile.devices,
        "device": profile.device,
        "trials": profile.trials,
        "trials_per_second": each(profile.trials),
        "bytes": done.bytes,
        "bytes_per_second": each(done.bytes),
        "bytes_per_second_measured": rates.copy,
        "bytes_share": share(done.bytes, rates.copy),
        "flops": done.flops,
        "flops_per_second": each(done.flops),
        "flops_per_second_measured": rates.matrix,
        "flops_share": share(done.flops, rates.matrix),
        "unknown_loops": done.unknown_loops,
        "trace": None if profile.trace is None else str(profile.trace),
    }
