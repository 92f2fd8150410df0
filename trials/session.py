"""What the command line sets up before JAX starts: devices, precision, the compilation cache."""

import os
from pathlib import Path

import jax

NO_CACHE = "FEDJAX_ADMM_NO_CACHE"


def cache_folder() -> Path:
    """Return the folder of compiled programs, under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(base or Path.home() / ".cache") / "fedjax-admm" / "compiled"


def prepare(*, x64: bool = False, cache: bool = True) -> None:
    """Configure JAX for a command; call it before anything is computed.

    A CPU gets as many devices as it has cores, because one device runs loops of small steps on
    one core. Programs are cached however quickly they compiled.

    Args:
      x64: compute in float64.
      cache: keep compiled programs between commands (the variable FEDJAX_ADMM_NO_CACHE set to
        anything switches it off too).
    """
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    jax.config.update("jax_enable_x64", x64)
    if cache and not os.environ.get(NO_CACHE):
        jax.config.update("jax_compilation_cache_dir", str(cache_folder()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
