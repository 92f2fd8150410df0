"""Traced programs, kept beside JAX's compiled ones: a later process traces nothing of them.

JAX's cache holds what XLA made. Each process traces, batches and lowers the same Python again
before it knows the key of that cache; for `solve networked` these took a third of a second start.
`kept` writes the lowered program (StableHLO, by `jax.export`) into the folder "traced" of that
cache, and is off where that is off. What is there serves the versions that wrote it: the name of a
file is a digest of everything that tracing depends on.
"""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import wraps
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax import export

from fedjax_admm._checks import InputError
from fedjax_admm._host._digest import code_digest
from fedjax_admm._host._files import write_atomically

Result = TypeVar("Result")


def kept(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function whose traced programs are kept from one process to the next.

    The program must follow from this package's code and from structure, shapes and dtypes of the
    arguments. No function, solver or loss of a user's own may be behind it: the name of the file
    does not know their code. A file that is broken is written anew, and a folder that cannot be
    written is left.

    Args:
      function: of arrays by position (pytrees) and static values by name; returns arrays, in
        tuples, lists or dicts. It is called itself where JAX keeps no compiled programs.
    """
    programs: dict[Hashable, Callable[..., Result]] = {}

    @wraps(function)
    def call(*arrays: Any, **static: Hashable) -> Result:
        folder = _folder()
        if folder is None:
            return function(*arrays, **static)
        leaves, structure = jax.tree.flatten(arrays)
        leaves = [leaf if isinstance(leaf, jax.Array) else jax.device_put(leaf) for leaf in leaves]

        def of_leaves(*leaves: Any) -> Result:
            return function(*jax.tree.unflatten(structure, leaves), **static)

        of_leaves.__name__ = function.__name__
        known = (*_dependencies(leaves), structure, tuple(sorted(static.items())))
        if known not in programs:
            names = function.__module__, function.__qualname__
            file = folder / hashlib.sha256(repr((*names, *known)).encode()).hexdigest()
            program = _read(file) or _traced(of_leaves, leaves, file)
            programs[known] = jax.jit(program.call)
        return programs[known](*leaves)

    return call


def _folder() -> Path | None:
    """Return the folder of traced programs; None where compiled ones are not kept in a folder."""
    values = jax.config.values
    folder = values["jax_compilation_cache_dir"]
    used = values["jax_enable_compilation_cache"] and folder and "://" not in folder
    return Path(folder, "traced") if used else None


def _dependencies(leaves: list[Any]) -> tuple[Hashable, ...]:
    """Return what tracing depends on beside the function, its structure and its static values."""
    configuration = tuple(
        (name, getattr(jax.config, name, value)) for name, value in jax.config.values.items()
    )
    kinds = tuple((leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)) for leaf in leaves)
    versions = tuple(map(metadata.version, ("jax", "jaxlib")))
    place = jax.default_backend(), jax.device_count()
    return code_digest(), *versions, *place, configuration, kinds


def _read(file: Path) -> export.Exported | None:
    """Return the program in a file; None where there is no whole one."""
    with suppress(OSError, EOFError, zlib.error):
        program = gzip.decompress(file.read_bytes())
        return export.deserialize(bytearray(program)) if program else None


def _traced(function: Callable[..., Any], leaves: list[Any], file: Path) -> export.Exported:
    """Trace a function, and write its program into a file where that is possible."""
    program = export.export(jax.jit(function))(*leaves)
    content = gzip.compress(bytes(program.serialize()), 1)
    with suppress(InputError):
        write_atomically(file, lambda opened: opened.write(content))
    return program
