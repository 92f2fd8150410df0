"""Setup of JAX before a command computes: devices, precision, the compilation cache."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

NO_CACHE = "FEDJAX_ADMM_NO_CACHE"
NUM_CPU_DEVICES = "JAX_NUM_CPU_DEVICES"
DATA = "FEDJAX_ADMM_DATA"
until_the_end = ExitStack()
"""Contexts of a command; they are left when it ends, before its exit code is decided."""

_COMPILED = "/jax/core/compile/backend_compile_duration"
LONG = 1.0
"""Seconds of compiling after which memory is given back. That takes less than a tenth of them."""


def mistake() -> str | None:
    """Return a sentence where JAX cannot be imported with this environment, else None."""
    try:
        import jax  # noqa: F401
    except ImportError:
        raise
    except Exception as error:
        return f"JAX does not start ({_short(error)}); correct or unset the variable"
    return None


def cache_folder() -> Path | None:
    """Return the folder of compiled programs, below the user's cache folder; None without one."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        folder = Path(base or Path.home() / ".cache") / "fedjax-admm" / "compiled"
    except RuntimeError:  # there is no home folder
        return None
    return folder if folder.is_absolute() else None


def prepare(
    *, x64: bool = False, cache: bool = True, devices: int | None = None, start: bool = True
) -> None:
    """Configure JAX for a command; call it before anything is computed.

    A CPU gets as many devices as this process may use cores, because one device runs loops of small
    steps on one core; the variable JAX_NUM_CPU_DEVICES says otherwise. Programs are cached however
    quickly they compiled, where the folder for them can be written.

    Args:
      x64: compute in float64.
      cache: keep compiled programs between commands (the variable FEDJAX_ADMM_NO_CACHE set to
        anything switches it off too).
      devices: CPU devices that the process needs; one for every core if None.
      start: start JAX's devices too; where several processes are joined, that comes first.
    """
    import jax

    _check_data_folder()
    _give_memory_back()
    if NUM_CPU_DEVICES not in os.environ:
        jax.config.update("jax_num_cpu_devices", min(_cores(), devices or _cores()))
    use_x64(x64)
    if cache and not os.environ.get(NO_CACHE):
        folder = cache_folder()
        jax.config.update("jax_compilation_cache_dir", None if folder is None else str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    used = jax.config.values["jax_compilation_cache_dir"]
    if used and "://" not in used and not _writable(Path(used)):
        jax.config.update("jax_compilation_cache_dir", None)
    if start:
        with starting():
            pass


@contextmanager
def starting() -> Iterator[None]:
    """Start JAX's devices, after what the caller does before."""
    import jax

    from fedjax_admm._checks import InputError

    try:
        yield
        jax.local_devices()
    except (RuntimeError, AssertionError) as error:
        platforms = os.environ.get("JAX_PLATFORMS")
        where = f" on {platforms}" if platforms else ""
        reason = _short(error) if str(error) else "there is no such device here"
        raise InputError(
            f"JAX does not start{where}: {reason}",
            value=platforms,
            remedy="correct or unset the variable JAX_PLATFORMS" if platforms else None,
        ) from error


@cache
def _give_memory_back() -> None:
    """Have the memory that compiling leaves free given back to the system.

    The threads of the compiler have heaps of their own, in which nothing else finds room.
    """
    import jax

    jax.monitoring.register_event_duration_secs_listener(ended)


def ended(event: str, duration_secs: float, **_: str | int) -> None:
    """Give memory back after a long compilation."""
    if event == _COMPILED and duration_secs > LONG:
        trim()


def trim() -> None:
    """Give free memory back, where the C library has a function for that."""
    if os.name == "posix":
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)


def use_x64(wide: bool) -> None:
    """Compute in float64, or in float32."""
    import jax

    jax.config.update("jax_enable_x64", wide)


def _check_data_folder() -> None:
    from fedjax_admm._checks import InputError

    data = os.environ.get(DATA)
    if data and not Path(data).is_dir():
        raise InputError(
            f"must be a folder, but {data!r} is {'a file' if Path(data).exists() else 'not there'}",
            argument=f"the variable {DATA}",
            value=data,
            remedy="correct or unset it",
        )


def _writable(folder: Path) -> bool:
    """Return whether files can be written into a folder, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _short(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux: what a scheduler has given to it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
