"""How much memory there is on this machine."""

import os
from pathlib import Path

# Control groups of Linux, versions 2 and 1: the limit, what is used, and what of it is cache.
_CONTROL_GROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def host_bytes() -> int | None:
    """Return the memory that is free on this machine; None where the system does not tell."""
    known = [size for size in (available(), container_room()) if size is not None]
    return min(known, default=None)


def shown(size: float) -> str:
    """Return a size as text, with its unit."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min(max(int(size).bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{size / 1024**power:.{0 if power == 0 else 1}f} {units[power]}"


def available() -> int | None:
    """Return what the kernel can give without swapping; caches count as free."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not Linux
        return None


def container_room(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return what a container's limit leaves; None without one."""
    for limit, used, cached in _CONTROL_GROUPS:
        try:
            statistics = dict(
                line.split()
                for line in (folder / used).with_name("memory.stat").read_text().splitlines()
            )
            # What files only keep in the cache is given back when it is needed.
            taken = int((folder / used).read_text()) - int(statistics[cached])
            return max(0, int((folder / limit).read_text()) - taken)
        except (OSError, ValueError, KeyError):  # no such group, or its limit is "max"
            continue
    return None


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
