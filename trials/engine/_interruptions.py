"""Ctrl-C and a request to stop: what has begun is finished first, unless a second one comes."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what Slurm and Kubernetes send before they kill."""


class Interruption:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        """Begin with nobody having asked."""
        self.asked = False


@contextmanager
def held_back() -> Iterator[Interruption]:
    """Note the first request to stop instead of stopping; a second one stops at once.

    A compiled program lets no handler of Python run until it ends. So a thread reads the signals,
    too, and ends the process with exit code 130 where a second one has not stopped it in a second.
    Files are written whole or not at all, and a lock of a file is released then.

    Outside the main thread, where Python allows no handlers, nothing is held back. What is ignored
    (Ctrl-C in a script's background jobs) stays so.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    # None: not installed from Python, so that it could not be put back.
    earlier = {n: old for n, old in handlers.items() if old not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in earlier.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        interruption.asked = True
        restore()

    ended = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_end_at_the_second, args=(reader, ended), daemon=True).start()
    try:
        for number in earlier:
            signal.signal(number, note)
        yield interruption
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        writer.close()
        restore()


def _end_at_the_second(reader: socket.socket, ended: threading.Event) -> None:
    """Read the numbers of signals until there are none; see to it that the second one stops."""
    asked = 0
    with suppress(OSError), reader:
        while numbers := reader.recv(64):
            asked += sum(number in SIGNALS for number in numbers)
            if asked > 1 and not ended.wait(1.0):
                os.write(2, b"fedjax-admm: ended at once; what was finished before is kept.\n")
                os._exit(130)
