"""Finished chunks of trials in a folder, one file each, while a run lasts."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.trials.files import (
    read_arrays,
    read_json,
    remove_unfinished,
    write_arrays,
    write_json,
)

CHUNKS = "chunks"
"""What the folder of chunks is called in the folder of a run."""

_LAYOUT = "layout.json"  # in the folder of chunks: what tells their run from others


class ChunkStore:
    """Finished chunks of trials in a folder, one file each."""

    def __init__(self, folder: Path | str):
        """Keep chunks in `folder`; nothing is written yet."""
        self.folder = Path(folder)

    def begun(self) -> bool:
        """Return whether a run has begun to keep chunks here."""
        return (self.folder / _LAYOUT).exists()

    def open(
        self, identity: Mapping[str, Any], lengths: Sequence[int]
    ) -> dict[int, dict[str, np.ndarray]]:
        """Return the finished chunks by number, or begin a new store.

        Args:
          identity: what tells this run from others; it is kept in `layout.json`.
          lengths: how many trials each chunk has.

        Raises:
          InputError: the store belongs to another run, or a file is damaged.
        """
        wanted = dict(identity)
        layout = self.folder / _LAYOUT
        remove_unfinished(self.folder)
        if not self.begun():
            write_json(layout, wanted)
            return {}
        found = read_json(layout)
        if found != wanted:
            raise InputError(
                f"{self.folder} holds chunks of another run ({_numbers(found)}, not "
                f"{_numbers(wanted)})",
                value=self.folder,
                remedy="resume with those numbers or choose another folder",
            )
        paths = {number: self._path(number) for number in range(len(lengths))}
        chunks = {number: read_arrays(path) for number, path in paths.items() if path.exists()}
        kinds = {number: _kind(arrays) for number, arrays in chunks.items()}
        usual = next(iter(kinds.values()), None)
        for number, arrays in chunks.items():
            if kinds[number] != usual or any(
                array.shape[:1] != (lengths[number],) for array in arrays.values()
            ):
                raise InputError(
                    f"{paths[number]} does not hold {lengths[number]} trials of this run",
                    value=paths[number],
                    remedy="delete it to have its trials computed again",
                )
        return chunks

    def save(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write one finished chunk."""
        write_arrays(self._path(number), arrays)

    def clear(self) -> None:
        """Remove all chunks: their content has been written elsewhere."""
        if not self.folder.is_dir():
            return
        remove_unfinished(self.folder)
        for path in self.folder.glob("*.npz"):
            if path.stem.isdecimal():
                path.unlink()
        (self.folder / _LAYOUT).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody keeps files of their own there
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


def _kind(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return what is alike in all chunks: names, types, shapes but for the number of trials."""
    return {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}


def _numbers(layout: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in layout.items())
