"""What this installation has, and what is missing: `fedjax-admm doctor`."""

import importlib.util
import os
import platform
from importlib import metadata

import jax
import typer

from fedjax_admm.trials.cli import _environment as environment

_PACKAGES = ("fedjax-admm", "jax", "jaxlib", "numpy", "optax", "chex", "matplotlib")
_OPTIONAL = {
    "jax_cuda13_plugin": "NVIDIA GPUs (pip install 'fedjax-admm[cuda13]')",
    "sklearn": "images of digits, without which experiments draw some (pip install scikit-learn)",
    "jupyterlab": "notebooks (pip install 'fedjax-admm[notebooks]')",
}


def doctor() -> None:
    """Report devices, versions, the compilation cache, and what is missing."""
    environment.prepare()
    typer.echo(examine())


def examine() -> str:
    """Return a report on devices, versions, the compilation cache, data and missing parts."""
    lines = [f"Python {platform.python_version()} on {platform.platform(terse=True)}"]
    lines += [f"  {name:<12} {_version(name)}" for name in _PACKAGES]
    lines += ["", "Devices"]
    for device in jax.local_devices():
        memory = (device.memory_stats() or {}).get("bytes_limit")
        size = f", {memory / 2**30:.1f} GiB" if memory else ""
        lines.append(f"  {device} ({device.device_kind}{size})")
    lines += ["", "Compilation cache", *(f"  {line}" for line in _cache())]
    data = os.environ.get("FEDJAX_ADMM_DATA")
    lines += [
        "",
        "Real data",
        f"  FEDJAX_ADMM_DATA is {data or 'not set: synthetic twins are used, except for digits'}",
    ]
    absent = [what for name, what in _OPTIONAL.items() if importlib.util.find_spec(name) is None]
    lines += ["", "Optional parts that are not installed", *(f"  {what}" for what in absent)]
    if not absent:
        lines.append("  none")
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing (pip install --upgrade fedjax-admm)"


def _cache() -> list[str]:
    if os.environ.get(environment.NO_CACHE):
        return [f"off (the variable {environment.NO_CACHE} is set)"]
    folder = environment.cache_folder()
    if folder is None:
        return ["off (there is no home folder; the variable XDG_CACHE_HOME can name another)"]
    if jax.config.values["jax_compilation_cache_dir"] is None:
        return [f"off ({folder} cannot be written)"]
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files) / 2**20
    return [f"{folder}", f"{len(files)} files, {size:.1f} MiB"]
