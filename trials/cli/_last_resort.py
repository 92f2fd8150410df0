"""Errors of fedjax-admm itself: a report in a file."""

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
    """Return whether a file is neither Python's, nor installed, nor of this package."""
    if file.startswith("<"):  # made by Python itself
        return False
    roots = [sysconfig.get_path("stdlib"), str(Path(__file__).parents[1])]  # fedjax_admm/trials
    for package in ("fedjax_admm", "fedjax_admm.kernels"):
        roots += sys.modules[package].__path__ if package in sys.modules else []
    path = Path(os.path.realpath(file))
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(os.path.realpath(root)) for root in roots)


def report_sentence(error: BaseException) -> str:
    """Write the report of an error into a new file, and return a sentence about it."""
    what = f"this is an error of fedjax-admm itself ({type(error).__name__}: {_short(error)})"
    try:
        path = _write(_report(error))
    except OSError as refused:
        return (
            f"{what}, and no file could be written about it ({refused.strerror}); please report it "
            "with the command and the output of `fedjax-admm doctor`."
        )
    return (
        f"{what}; please report it with {path}, which holds the command, the versions and where it "
        "happened."
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
    command = f"command: {shlex.join(['fedjax-admm', *sys.argv[1:]])}"
    return "\n".join([command, *versions, "", *traceback.format_exception(error)])


def _write(text: str) -> str:
    """Write into a new temporary file that nobody else can read."""
    descriptor, path = tempfile.mkstemp(".txt", "fedjax-admm-error-")
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path
