"""States of one client or server in files."""

import os
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._trees import read_tree, write_tree
from fedjax_admm.deploy._messages import SHOWN_BYTES


def save(path: str | os.PathLike[str], digest: bytes, tree: Any, numbers: Any) -> None:
    """Write a pytree of arrays, and numbers, to a file, in the place of an older one."""
    write_tree(path, tree, {"solver": digest[:SHOWN_BYTES].hex(), "numbers": numbers})


def load(path: str | os.PathLike[str], digest: bytes) -> tuple[list[np.ndarray], Any]:
    """Read the leaves and the numbers of a file that `save` has written.

    Raises:
      InputError: the file is damaged, or of another solver or run.
    """
    leaves = read_tree(path)
    if leaves.about.get("solver") != digest[:SHOWN_BYTES].hex():
        raise InputError(
            "is of another solver, other numbers of it, another key or another release",
            argument="path",
            value=str(path),
        )
    return leaves.arrays, leaves.about["numbers"]
