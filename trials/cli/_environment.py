"""What the command line sets up before JAX starts: devices, precision, the compilation cache."""

import os
from pathlib import Path

import jax

NO_CACHE = "FEDJAX_ADMM_NO_CACHE"
NUM_CPU_DEVICES = "JAX_NUM_CPU_DEVICES"


def cache_folder() -> Path:
    """Return the folder of compiled programs, under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(base or Path.home() / ".cache") / "fedjax-admm" / "compiled"


def prepare(*, x64: bool = False, cache: bool = True, devices: int | None = None) -> None:
    """Configure JAX for a command; call it before anything is computed.

    A CPU gets as many devices as this process may use cores, because one device runs loops of small
    steps on one core; the variable JAX_NUM_CPU_DEVICES says otherwise. Programs are cached however
    quickly they compiled.

    Args:
      x64: compute in float64.
      cache: keep compiled programs between commands (the variable FEDJAX_ADMM_NO_CACHE set to
        anything switches it off too).
      devices: CPU devices that the process needs; one for every core if None.
    """
    if NUM_CPU_DEVICES not in os.environ:
        jax.config.update("jax_num_cpu_devices", min(_cores(), devices or _cores()))
    use_x64(x64)
    if cache and not os.environ.get(NO_CACHE):
        jax.config.update("jax_compilation_cache_dir", str(cache_folder()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def use_x64(wide: bool) -> None:
    """Compute in float64, or in float32."""
    jax.config.update("jax_enable_x64", wide)


def _cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux: what a scheduler has given to it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
