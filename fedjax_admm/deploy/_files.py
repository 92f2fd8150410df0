"""States in files: arrays and a few numbers, written whole or not at all; no pickle."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import InputError


def save(path: str | os.PathLike[str], digest: bytes, tree: Any, numbers: Any) -> None:
    """Write a pytree of arrays, and numbers, to a file, in the place of an older one."""
    arrays: dict[str, Any] = {
        f"{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))
    }
    text = json.dumps({"digest": digest.hex(), "numbers": numbers})
    draft = Path(f"{path}.part")
    with draft.open("wb") as file:
        np.savez(file, **arrays, header=np.frombuffer(text.encode(), np.uint8))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load(path: str | os.PathLike[str], digest: bytes) -> tuple[list[np.ndarray], Any]:
    """Read the leaves and the numbers of a file that `save` has written.

    Raises:
      InputError: the file is damaged, or of another solver or run.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes())
            leaves = [file[f"{i}"] for i in range(len(file.files) - 1)]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"cannot be read as a saved state: {error}", argument="path", value=str(path)
        ) from error
    if header["digest"] != digest.hex():
        raise InputError(
            "is of another solver, other numbers of it, another key or another release",
            argument="path",
            value=str(path),
        )
    return leaves, header["numbers"]
