"""A trace of what the devices do, for Perfetto or XProf."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

from fedjax_admm._checks import InputError


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
            f"must be a place to write a trace to, but {folder} is not ({error.strerror})",
            argument="folder",
            value=folder,
            remedy="choose another",
        ) from None
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # the calls of Python tell nothing about devices
    try:
        jax.profiler.start_trace(folder, profiler_options=options)
    except RuntimeError as error:
        raise InputError(
            f"{folder} gets no trace: {error}",
            argument="folder",
            value=folder,
            remedy="end the other one",
        ) from None
    try:
        yield
    finally:
        jax.profiler.stop_trace()


def trace_file(folder: Path | str) -> Path | None:
    """Return the newest `.trace.json.gz` that `recording` left in a folder; None without one."""
    found = Path(folder).glob("plugins/profile/*/*.trace.json.gz")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)
