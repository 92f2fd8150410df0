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


def _foreign(file: str) -> bool:
    if file.startswith("<"):  # what Python itself made
        return False
    ours = [str(Path(__file__).parents[1])]  # fedjax_admm/trials, wherever it is installed from
    for package in ("fedjax_admm", "fedjax_admm.kernels"):
        module = sys.modules.get(package)
        ours += list(module.__path__) if module is not None else []
    installed = [
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ]
    path = os.path.realpath(file)
    return not any(Path(path).is_relative_to(os.path.realpath(root)) for root in ours + installed)


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
