"""What the command line sets up before JAX starts: devices, precision, the compilation cache.

JAX and XLA read the environment while they are imported and started, and XLA ends the process over
what it does not know. What they would not take is told before.
"""

import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

NO_CACHE = "FEDJAX_ADMM_NO_CACHE"
NUM_CPU_DEVICES = "JAX_NUM_CPU_DEVICES"
DATA = "FEDJAX_ADMM_DATA"
_WRITTEN = [
    *("cache_key", "compile_time_secs", "module_name"),
    *("backend", "executable", "host_callbacks"),
]  # what JAX 0.10 tells the function that writes a compiled program into its cache
MOST_CPU_DEVICES = 4096
"""XLA takes minutes to start with tens of thousands."""

until_the_end = ExitStack()
"""What a command enters here is left when the command ends, before its exit code is decided."""


def mistake() -> str | None:
    """Return what is wrong in the environment, in a sentence, before JAX is imported; or None."""
    if os.environ.get("XLA_FLAGS") and "jaxlib" not in sys.modules:
        refused = _refused_by_xla()
        if refused:
            return f"XLA does not take the variable XLA_FLAGS ({refused}); correct or unset it"
    try:
        import jax  # noqa: F401
    except ImportError:
        raise
    except Exception as error:
        named = [name for name in os.environ if name.startswith("JAX_") and _about(name, error)]
        variables = f"the variable {named[0]}" if named else "a variable of the environment"
        return f"JAX does not take {variables} ({_short(error)}); correct or unset it"
    backend = os.environ.get("MPLBACKEND", "")
    if backend and backend.lower() != "agg" and not backend.startswith("module://"):
        try:
            import matplotlib  # noqa: F401
        except ValueError:
            return f"matplotlib does not take the variable MPLBACKEND, {backend!r}; unset it"
    return None


def _about(variable: str, error: Exception) -> bool:
    text = str(error)
    return variable in text or f"{variable.lower()} " in f"{text} "


def _refused_by_xla() -> str:
    """Return why XLA would end this process over XLA_FLAGS; empty if it would not."""
    if not hasattr(os, "fork"):
        return ""
    with tempfile.TemporaryFile() as told:
        child = os.fork()
        if not child:
            try:
                os.dup2(told.fileno(), 2)
                from jaxlib import xla_client

                xla_client.CompileOptions()  # reads the flags
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return ""
        told.seek(0)
        lines = told.read().decode(errors="replace").splitlines()
    first = next((line for line in lines if line[:1] in ("E", "F")), "")
    return first.partition("] ")[2].rstrip(".") or "it ends when it reads them"


def cache_folder() -> Path | None:
    """Return the folder of compiled programs, below the user's cache folder; None without one."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        folder = Path(base or Path.home() / ".cache") / "fedjax-admm" / "compiled"
    except RuntimeError:  # nobody knows where the user is at home
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

    Raises:
      InputError: a variable of the environment does not fit, or JAX does not start.
    """
    import jax

    _check_variables()
    if NUM_CPU_DEVICES not in os.environ:
        jax.config.update("jax_num_cpu_devices", min(_cores(), devices or _cores()))
    use_x64(x64)
    if cache and not os.environ.get(NO_CACHE):
        folder = cache_folder()
        jax.config.update("jax_compilation_cache_dir", None if folder is None else str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        _cached_by_every_process()
    used = jax.config.values["jax_compilation_cache_dir"]
    if used and "://" not in used and not _writable(Path(used)):
        jax.config.update("jax_compilation_cache_dir", None)
    if start:
        with starting():
            pass


@contextmanager
def starting() -> Iterator[None]:
    """Start JAX's devices, after what the caller does before.

    Raises:
      InputError: they do not start.
    """
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


def use_x64(wide: bool) -> None:
    """Compute in float64, or in float32."""
    import jax

    jax.config.update("jax_enable_x64", wide)


def _cached_by_every_process() -> None:
    """Have every process of several keep on CPUs what it compiles, not the first one alone.

    JAX lets process 0 alone write, for the others to read. On CPUs they never find it: a part of a
    program's key is a fingerprint of the devices, which differs from process to process there, so
    that all but the first would compile everything at every start. Because their keys differ, they
    never write the same file. JAX has no public option for it; where this JAX writes in another way
    than 0.10 does, it is left so.
    """
    import jax

    try:
        from jax._src import compilation_cache, compiler

        usual, put = compiler._cache_write, compilation_cache.put_executable_and_time
    except (ImportError, AttributeError):
        return
    if getattr(usual, "__module__", "") != compiler.__name__:  # it has been replaced already
        return

    def write(
        key: str, seconds: float, name: str, backend: Any, executable: Any, callbacks: Any
    ) -> None:
        if jax.process_index() == 0 or backend.platform != "cpu" or callbacks:
            usual(key, seconds, name, backend, executable, callbacks)
            return
        try:
            put(key, name, executable, backend, int(seconds))
        except OSError as error:  # as JAX does: the program is there all the same
            warnings.warn(f"cannot keep the program {name}: {error}", stacklevel=2)

    if list(inspect.signature(usual).parameters) == _WRITTEN:
        compiler._cache_write = write


def _check_variables() -> None:
    from fedjax_admm._checks import InputError

    text = os.environ.get(NUM_CPU_DEVICES, "-1")
    if not (text == "-1" or (text.isdecimal() and 1 <= int(text[:9]) <= MOST_CPU_DEVICES)):
        raise InputError(
            f"must be a whole number from 1 to {MOST_CPU_DEVICES}, but it is {text!r}",
            argument=f"the variable {NUM_CPU_DEVICES}",
            value=text,
        )
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
