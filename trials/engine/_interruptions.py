"""Ctrl-C and a request to stop: what has begun is finished first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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

    try:
        for number in earlier:
            signal.signal(number, note)
        yield interruption
    finally:
        restore()
