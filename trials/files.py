"""Files of a run: texts and JSON objects, and the archives of `fedjax_admm._host`.

Every file is whole or not there, see `write_atomically`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host import _archives
from fedjax_admm._host._archives import (
    UNFINISHED as UNFINISHED,
    Archive as Archive,
    reason_of,
    write_arrays as write_arrays,
    write_atomically as write_atomically,
)


def write_text(path: Path, text: str, *, owner_only: bool = False) -> None:
    """Write a text atomically, in UTF-8; `owner_only` is that of `write_atomically`."""
    write_atomically(path, lambda file: file.write(text.encode()), owner_only=owner_only)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, indented, keys in the order given."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
      InputError: the file is missing or malformed.
    """
    try:
        loaded = json.loads(path.read_bytes())
        if not isinstance(loaded, dict):
            raise ValueError("it is not an object")
        return loaded
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{path} does not exist", value=path, remedy="give the folder of a run"
        ) from None
    except Exception as error:  # whatever the bytes are
        raise InputError(
            f"{path} cannot be read ({reason_of(error)})",
            value=path,
            remedy="the run must be repeated",
        ) from None


def read_archive(path: Path, *, about_only: bool = False) -> Archive:
    """Read an npz file of a run, and what went with its arrays; see `fedjax_admm._host`.

    Raises:
      InputError: the file is missing or damaged.
    """
    return _archives.read_archive(
        path,
        about_only=about_only,
        missing="; the run has not finished",
        remedy="delete it to have its trials computed again",
    )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an npz file of a run, as `read_archive` does."""
    return read_archive(path).arrays
