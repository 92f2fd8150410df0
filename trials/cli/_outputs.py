"""Standard output and standard error that are closed, full, or read by nobody any more.

What can't be told there must not look like an error of the command, and must not go elsewhere: a
closed descriptor would be given to the next file that is opened, a result perhaps.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNREAD, FAILED = 141, 1
"""Exit codes: nobody reads standard output (as shells say of SIGPIPE); it can't be written."""


class OutputError(Exception):
    """Standard output can't be written."""

    def __init__(self, reason: OSError) -> None:
        """Keep the code, and a sentence unless the reader has just gone, as `head` does."""
        unread = reason.errno == errno.EPIPE
        self.code = UNREAD if unread else FAILED
        self.sentence = "" if unread else f"cannot write to standard output: {reason.strerror}"
        super().__init__(self.sentence)


class _Descriptor(io.FileIO):
    """A descriptor that takes everything after it has failed once."""

    def __init__(self, number: int, *, matters: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self.matters, self.failed = matters, False

    def write(self, data) -> int | None:
        """Write, or tell by `OutputError` that the output has failed, once."""
        if not self.failed:
            try:
                return super().write(data)
            except OSError as error:
                self.failed = True
                if self.matters:
                    raise OutputError(error) from None
        return memoryview(data).nbytes


@contextmanager
def guarded() -> Iterator[None]:
    """Guard both outputs; what was replaced by another object, as tests do, is left alone.

    What an encoding can't write is escaped. A closed output takes everything and shows nothing.
    """
    _fill_closed_descriptors()
    replaced, guards = {}, {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None or stream is getattr(sys, f"__{name}__"):
            replaced[name] = stream
            guards[name] = _stream(number, stream)
            setattr(sys, name, guards[name])
    try:
        yield
        guards.get("stdout", sys.stdout).flush()
    finally:
        for name, stream in replaced.items():
            if stream is None:
                continue  # the interpreter flushes the guard when it ends
            guards[name].flush()
            setattr(sys, name, stream)


def _stream(number: int, stream: io.TextIOWrapper | None) -> io.TextIOWrapper:
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(number, matters=number == 1)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=number == 2 or (stream is not None and stream.line_buffering),
    )


def _fill_closed_descriptors() -> None:
    """Open nothing on every standard descriptor that is closed, so that no file gets its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
