"""A digest of what a trial computes: equal for equal programs, in every process.

A program is its StableHLO text, without places in source files and with every constant in full. Two
things in that text depend on what the process has traced before: how functions are called, and
whether two equal ones are written once or twice. Both are left out: where a function is called,
the digest of its own text stands for its name.

JAX has a setting that makes large constants arguments of the text's functions, which the text does
not show then. The arrays that the traced program closes over are therefore digested too.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._host._files import bytes_of

# What is no plain word, such as "<lambda>", stands in quotation marks.
_WORD = r'@("(?:[^"\\]|\\.)*"|<<[^>\n]*>>|[\w.$-]+)'
_FUNCTION = re.compile(rf"^  func\.func (?:\w+ )?{_WORD}", re.MULTILINE)
_NAME = re.compile(_WORD)
_END = "\n  }\n"


@cache
def code_digest() -> str:
    """Return a short digest of this package's own source code: a version may change unnoticed."""
    digest = hashlib.sha256()
    for package in ("fedjax_admm", "fedjax_admm.kernels", "fedjax_admm.trials"):
        folder = resources.files(package)
        for path in sorted(Path(str(folder)).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def digest_of_text(lowered: Any, function: str, constants: Iterable[Any]) -> str:
    """Return the SHA-256 of a function in a lowered program, and of all that it calls.

    Args:
      lowered: what `jax.jit(...).lower(...)` returns.
      function: what the function is called in its text.
      constants: the arrays that the traced function closes over; typed keys may be among them.
    """
    text = lowered.compiler_ir().operation.get_asm(
        large_elements_limit=None, enable_debug_info=False
    )
    own = _digest_of_function(_functions(text), function, {})
    return hashlib.sha256(f"{own}{digest_of_arrays(constants)}".encode()).hexdigest()


def digest_of_arrays(arrays: Iterable[Any]) -> str:
    """Return the SHA-256 of arrays, numbers and typed keys, in their order."""
    digest = hashlib.sha256()
    for array in arrays:
        if isinstance(array, np.memmap):
            # Reading it whole could take hours: its size and its date stand for it.
            about = os.stat(str(array.filename))
            digest.update(f"{array.dtype}{array.shape}{about.st_size}{about.st_mtime_ns}".encode())
            continue
        if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            digest.update(str(jax.random.key_impl(array)).encode())
            array = jax.random.key_data(array)
        array = np.asarray(array)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(bytes_of(array))
    return digest.hexdigest()


def _functions(text: str) -> dict[str, str]:
    """Return the text of every function of a module."""
    matches = list(_FUNCTION.finditer(text))
    stops = [match.start() for match in matches[1:]] + [len(text)]
    functions = {}
    for match, stop in zip(matches, stops, strict=True):
        end = text.find(_END, match.start(), stop)
        functions[match[1]] = text[match.start() : stop if end < 0 else end]
    return functions


def _digest_of_function(functions: Mapping[str, str], name: str, known: dict[str, str]) -> str:
    if name not in known:
        known[name] = "itself"

        def called(match: re.Match) -> str:
            # What is no function is the name of a mesh of devices.
            inner = match[1]
            return _digest_of_function(functions, inner, known) if inner in functions else match[0]

        own = _NAME.sub(called, functions[name])
        known[name] = hashlib.sha256(own.encode()).hexdigest()
    return known[name]
