"""A plugin of the suite: memory per worker is bounded, and the summary tells what the run took.

JAX keeps every program that it has compiled, several megabytes a test. After a test, a worker that
has grown beyond KEPT, by more than GROWTH since the last time, drops them all and gives the memory
back to the system. A test that takes a worker beyond LIMIT fails, so that sixteen workers fit a
laptop. Where the system does not tell the memory of a process (it is read from /proc), nothing is
dropped and nothing fails.
"""

import ctypes
import gc
import os
from pathlib import Path

import jax
import pytest

from tests.compiling import forget_shared_context

KEPT = 0.9  # GB
GROWTH = 0.1  # GB
LIMIT = 1.5  # GB
_STATUS = Path("/proc/self/status")


def resident(line: str = "VmRSS") -> float:
    """Return the memory of this process in GB: `VmRSS` now, `VmHWM` at most; 0 where unknown."""
    if not _STATUS.exists():
        return 0.0
    fields = dict(row.split(":", 1) for row in _STATUS.read_text().splitlines())
    return int(fields[line].split()[0]) * 1024 / 1e9


def drop_programs() -> None:
    """Drop all compiled programs and give free memory back to the system."""
    jax.clear_caches()
    forget_shared_context()
    gc.collect()
    if _STATUS.exists():
        ctypes.CDLL(None).malloc_trim(0)


def processor_seconds() -> float:
    """Return user and system time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


class Memory:
    """The hooks; one object per process of a run."""

    def __init__(self) -> None:
        self.peak, self.seconds, self.left, self.failed = 0.0, 0.0, 0.0, False

    def pytest_collection_finish(self, session):
        """What was collected stays: the garbage collector need not look through it each time."""
        gc.collect()
        gc.freeze()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item, nextitem):
        result = yield
        self.peak = max(self.peak, resident("VmHWM"))
        if nextitem is not None and resident() > max(KEPT, self.left + GROWTH):
            drop_programs()
            self.left = resident()
        if self.peak > LIMIT and not self.failed:
            self.failed = True
            pytest.fail(f"this worker has taken {self.peak:.2f} GB; the limit is {LIMIT} GB")
        return result

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["took"] = (self.peak, processor_seconds())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        peak, seconds = getattr(node, "workeroutput", {}).get("took", (0.0, 0.0))
        self.peak, self.seconds = max(self.peak, peak), self.seconds + seconds

    def pytest_terminal_summary(self, terminalreporter):
        own = sum(os.times()[:2]) if self.seconds else processor_seconds()
        minutes = (self.seconds + own) / 60
        terminalreporter.write_line(
            f"processor time {minutes:.1f} min, at most {self.peak:.2f} GB in one process"
        )


def pytest_configure(config):
    """Register the hooks."""
    config.pluginmanager.register(Memory(), "fedjax-admm-memory")
