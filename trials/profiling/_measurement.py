"""Where the time of a run goes, and how much of the machine it uses.

    with recording(folder):                       a trace of what lies in between, for Perfetto
        run_one_chunk()
    done = work(trial, key).times(trials)         arithmetic and traffic, counted
    rates = machine_rates(*mesh.devices.flat)     what the machine reaches, measured
    print(table(Profile(..., work=done, rates=rates)))

Work is counted by a model (`work`), not by hardware counters.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError
from fedjax_admm.trials.profiling._operations import Work

# --- what the machine reaches -------------------------------------------------------------------


class Rates(NamedTuple):
    """What devices reach together, measured."""

    copy: float  # bytes read and written per second
    matrix: float  # floating-point operations per second


class _Sizes(NamedTuple):
    """Arrays that are far beyond the caches, and keep every unit busy."""

    copy: int  # bytes
    matrix: int  # rows and columns


_CPU, _ACCELERATOR = _Sizes(64 * 2**20, 1024), _Sizes(2**30, 8192)
_REPEATS, _CALLS = 5, 4  # medians over repeats; calls between two waits, to hide the launch


def machine_rates(*devices: Any) -> Rates:
    """Measure how fast devices copy memory and multiply matrices, all at the same time.

    The copy adds a number to every entry of a float32 array, in place: into a new array it would
    time the pages that the system has to find. The product is of square float32 matrices at the
    highest precision, as solvers ask for. CPU devices share 64 MiB (caches that hold more flatter
    the copy) and all cores, so that several reach no more than one; an accelerator takes 1 GiB.

    Args:
      *devices: of one platform, such as `mesh.devices.flat`.

    Returns:
      The rates of all devices together: medians, compile time left out.

    Raises:
      InputError: no device is given.
    """
    if not devices:
        raise InputError("devices must hold at least one device, but it is empty.")
    on_cpu = devices[0].platform == "cpu"
    sizes = _CPU if on_cpu else _ACCELERATOR
    entries = sizes.copy // 4 // (len(devices) if on_cpu else 1)
    side = sizes.matrix
    copying = _seconds(_add_one, (entries,), 0.0, devices)
    multiplying = _seconds(_square, (side, side), 1 / side, devices)
    return Rates(len(devices) * 2 * 4 * entries / copying, len(devices) * 2 * side**3 / multiplying)


@partial(jax.jit, donate_argnums=0)
def _add_one(x: jax.Array) -> jax.Array:
    return x + 1.0


@jax.jit
def _square(x: jax.Array) -> jax.Array:
    """Square a matrix; where all entries are 1 / side it stays the same."""
    return jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST)


def _seconds(
    function: Callable, shape: tuple[int, ...], entry: float, devices: Sequence[Any]
) -> float:
    """Return the median time of one call on all devices, each on an array of its own."""
    arrays = []
    for device in devices:
        with jax.default_device(device):
            arrays.append(function(jnp.full(shape, entry, jnp.float32)))
    jax.block_until_ready(arrays)
    taken = []
    for _ in range(_REPEATS):
        clock = time.perf_counter()
        for _ in range(_CALLS):
            arrays = [function(array) for array in arrays]
        jax.block_until_ready(arrays)
        taken.append((time.perf_counter() - clock) / _CALLS)
    return statistics.median(taken)


# --- a trace of what happens --------------------------------------------------------------------


@contextmanager
def recording(folder: Path | str) -> Iterator[None]:
    """Record what the devices do between entering and leaving, for Perfetto or XProf.

    Every operation of every iteration is an event: on a CPU, half a second of small steps makes
    120 MB and takes 15 to 20 seconds to write. Record one chunk, or one micro-batch. What is
    recorded takes up to about four times as long.

    Args:
      folder: where the files go, below `plugins/profile/<time>/`; it is made.

    Raises:
      InputError: the folder cannot be written, or another recording is going on.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"folder must be a place to write a trace to, but {folder} is not "
            f"({error.strerror}); choose another."
        ) from None
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # the calls of Python tell nothing about devices
    try:
        jax.profiler.start_trace(folder, profiler_options=options)
    except RuntimeError as error:
        raise InputError(f"folder {folder} gets no trace: {error}; end the other one.") from None
    try:
        yield
    finally:
        jax.profiler.stop_trace()


def trace_file(folder: Path | str) -> Path | None:
    """Return the newest `.trace.json.gz` that `recording` left in a folder; None without one."""
    found = Path(folder).glob("plugins/profile/*/*.trace.json.gz")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


# --- the report ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profile:
    """Where the time of a run went, and what was done in it."""

    compile_seconds: float  # tracing and compiling
    run_seconds: float  # computing
    transfer_seconds: float  # from the devices to the host, and storing
    total_seconds: float  # all of it, and what is in between
    trials: int  # computed in this run; those of an earlier one that it resumed left out
    work: Work  # of all these trials
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
        if profile.work.unknown_loops:
            notes.append(
                f"Both are at least: {profile.work.unknown_loops} loops of unknown length are "
                "counted once."
            )
        if shown["bytes_share"] > 1:
            notes.append("More than a copy reaches: the loops work in the caches.")
    if profile.trace is not None:
        notes.append(f"Trace: {profile.trace}; {_HOW_TO_OPEN}")
    names, values = (max(len(row[place]) for row in rows) for place in (0, 1))
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

    done, rates = profile.work, profile.rates
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
