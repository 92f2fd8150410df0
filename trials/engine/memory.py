"""How much memory there is, and how much a compiled program takes."""

import os
from pathlib import Path
from typing import Any

import jax

# Control groups of Linux, versions 2 and 1: the limit, what is used, and what of it is cache.
_CONTROL_GROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def free_bytes(device: Any) -> int | None:
    """Return the memory that is free for one device; None where the system does not tell.

    CPU devices of a process share the memory of their machine, or of their container if that has
    less.
    """
    if device.platform == "cpu":
        free = host_bytes()
        return None if free is None else free // len(jax.local_devices())
    stats = device.memory_stats() or {}
    return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None


def host_bytes() -> int | None:
    """Return the memory that is free on this machine; None where the system does not tell."""
    known = [size for size in (available(), container_room()) if size is not None]
    return min(known, default=None)


def program_bytes(compiled: Any) -> int:
    """Return what one device needs for a compiled program, by the program's own analysis."""
    analysis = compiled.memory_analysis()
    if analysis is None:  # a back end that does not tell
        return 0
    return (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
        - analysis.alias_size_in_bytes
    )


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
