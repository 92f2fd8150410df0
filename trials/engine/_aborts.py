"""A process that JAX's runtime would abort ends with a sentence.

Where another process is lost, or nobody comes, the service that joins the processes writes a dump
to standard error and calls abort(). Python's own signal handlers do not run then, so that C's is
set; it calls back into Python on the thread that aborts. Until the processes part, what C++ writes
goes to a file of no name: it is shown in the end, unless the sentence takes its place.
"""

import ctypes
import io
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_SERVICE = re.compile(rb"[Cc]oordination.?[Ss]ervice|distributed service|std::bad_cast")
_REASON = re.compile(rb"absl::Status: ([A-Z_]+: [^\n.]{1,150})")


class Farewell:
    """Says a sentence and ends the process, whichever thread comes first."""

    def __init__(self, sentence: Callable[[str], str]) -> None:
        """Say `sentence(reason)` on what is standard error now."""
        self._sentence, self._said = sentence, threading.Lock()
        self._descriptor = os.dup(2)

    def end(self, reason: str) -> NoReturn:
        """End this process with code 1; what other threads do is left as it is."""
        if not self._said.acquire(blocking=False):
            threading.Event().wait()  # the other thread ends the process
        text = f"{self._sentence(reason)}\n"
        if os.isatty(self._descriptor):  # below a progress bar, which hides the cursor
            text = f"\n\x1b[?25h{text}"
        try:
            os.write(self._descriptor, text.encode(errors="backslashreplace"))
        finally:
            os._exit(1)

    @contextmanager
    def instead_of_aborts(self) -> Iterator[None]:
        """Say it where the service that joins processes aborts this one."""
        if os.name != "posix":
            yield
            return
        with tempfile.TemporaryFile(buffering=0) as hidden:
            earlier = sys.stderr
            earlier.flush()
            kept = os.dup(2)
            os.dup2(hidden.fileno(), 2)
            sys.stderr = io.TextIOWrapper(
                io.FileIO(self._descriptor, "w", closefd=False),
                errors="backslashreplace",
                write_through=True,
            )
            put_back = _on_abort(lambda: self._aborted(hidden.fileno()))
            try:
                yield
            finally:
                put_back()
                sys.stderr = earlier
                os.dup2(kept, 2)
                os.close(kept)
                _show(hidden.fileno(), 2)

    def _aborted(self, hidden: int) -> None:
        written = os.pread(hidden, 2**20, 0)
        if _SERVICE.search(written):
            found = _REASON.search(written)
            self.end(found[1].decode(errors="replace") if found else "")
        _show(hidden, self._descriptor)  # something else: abort() goes on


def _on_abort(action: Callable[[], None]) -> Callable[[], None]:
    """Call an action where the process aborts, and return what undoes that."""
    library = ctypes.CDLL(None)
    library.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.signal.restype = ctypes.c_void_p
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: action())
    earlier = library.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))

    def put_back(keep: object = handler) -> None:
        library.signal(signal.SIGABRT, earlier)

    return put_back


def _show(hidden: int, descriptor: int) -> None:
    """Copy what was hidden."""
    written = os.pread(hidden, 2**20, 0)
    if written:
        try:
            os.write(descriptor, written)
        except OSError:
            return
