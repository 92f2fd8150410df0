"""Processes of this machine: which one a number stands for, and whether it is gone."""

import os
from pathlib import Path

_PROC = Path("/proc")


def boot() -> str:
    """Return what tells this start of this machine from others; "" where nobody knows."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def started(process: int) -> str:
    """Return when a process began, in the system's own count, which tells it from later ones.

    Returns:
      A text that is the same as long as the process lives; "" where the system does not tell.
    """
    found = _stat(process)
    return found[19] if found else ""


def is_gone(process: int, since: str = "") -> bool:
    """Return whether a process has ended.

    Args:
      process: its number.
      since: what `started` returned for it; another process may have got its number since.
    """
    if os.name != "posix":  # there a signal 0 would end it
        return False
    try:
        os.kill(process, 0)
    except PermissionError:  # somebody else's
        pass
    except (ProcessLookupError, OverflowError):
        return True
    found = _stat(process)
    if not found:
        return False
    return found[0] in "ZX" or (since != "" and found[19] != since)


def _stat(process: int) -> list[str]:
    """Return what Linux tells of a process, from its state on; nothing elsewhere."""
    try:
        text = (_PROC / str(process) / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
