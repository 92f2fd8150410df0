"""What nobody foresaw: an error of fedjax-admm itself, kept in a file for whoever repairs it."""

import os
import platform
import shlex
import sys
import sysconfig
import tempfile
import traceback
from importlib import metadata
from pathlib import Path

CODE = 70
"""The exit code: EX_SOFTWARE of sysexits.h."""

_PACKAGES = ("fedjax-admm", "jax", "jaxlib", "numpy", "optax", "matplotlib", "typer")


def of_a_user(error: BaseException) -> bool:
    """Return whether code that is neither ours nor installed took part: a user's own experiment."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(_foreign(frame.filename) for frame in frames)


def ended(error: BaseException) -> str:
    """Return a sentence about others' code that ends the command; empty where ours does."""
    frames = traceback.extract_tb(error.__traceback__)
    if frames and _within(frames[-1].filename, _ours()):
        return ""
    files = [frame for frame in frames if not frame.filename.startswith("<")]
    last = [frame for frame in files if _foreign(frame.filename)][-1:] or files[-1:]
    where = "".join(f" in {frame.filename}, line {frame.lineno}," for frame in last)
    return (
        f"{error!r}{where} would end the command, which is not for an experiment; raise another "
        "error there, such as ValueError, or return"
    )


def _foreign(file: str) -> bool:
    if file.startswith("<"):  # what Python itself made
        return False
    installed = [
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ]
    return not _within(file, _ours() + installed)


def _ours() -> list[str]:
    """Return the folders of this package, wherever it is installed from."""
    ours = [str(Path(__file__).parents[1])]  # fedjax_admm/trials
    for package in ("fedjax_admm", "fedjax_admm.kernels"):
        module = sys.modules.get(package)
        ours += list(module.__path__) if module is not None else []
    return ours


def _within(file: str, roots: list[str]) -> bool:
    path = Path(os.path.realpath(file))
    return any(path.is_relative_to(os.path.realpath(root)) for root in roots)


def kept(error: BaseException) -> str:
    """Write what is needed to repair an error into a new file, and return a sentence about it."""
    name = type(error).__name__
    try:
        path = _write(_report(error))
    except OSError as refused:
        return (
            f"this is an error of fedjax-admm itself ({name}: {_short(error)}), and no file could "
            f"be written about it ({refused.strerror}); please report it with the command and with "
            "what `fedjax-admm doctor` says."
        )
    return (
        f"this is an error of fedjax-admm itself ({name}: {_short(error)}); please report it with "
        f"{path}, which holds the command, the versions and where it happened."
    )


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{text[:160]}..." if len(text) > 160 else text or "without a message"


def _report(error: BaseException) -> str:
    versions = [f"Python {platform.python_version()} on {platform.platform(terse=True)}"]
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} is not installed")
    return "\n".join(
        [
            f"command: {shlex.join(['fedjax-admm', *sys.argv[1:]])}",
            *versions,
            "",
            "".join(traceback.format_exception(error)),
        ]
    )


def _write(text: str) -> str:
    """Write into a new file that nobody else can read, in the temporary folder or in this one."""
    try:
        folder = tempfile.gettempdir()
        descriptor, path = tempfile.mkstemp(".txt", "fedjax-admm-error-", folder)
    except OSError:
        descriptor, path = tempfile.mkstemp(".txt", "fedjax-admm-error-", os.getcwd())
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path
