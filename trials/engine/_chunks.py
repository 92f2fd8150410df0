"""Finished chunks of trials in a folder, one file each, kept when a run has finished.

The folder knows spans of trials, not how many there shall be: `000000-000064.npz` holds the trials
0 to 63, and more can be added at any time. Every file tells what made it (`identity`), and which
trials it holds. What was made by something else, or stands under another file's name, is refused.

The results of a run are collected from its chunks, which take about as much of the disk once more.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._archives import digest_of_json
from fedjax_admm.trials.files import read_archive, write_arrays
from fedjax_admm.trials.folders import remove_unfinished

CHUNKS = "chunks"
"""What the folder of chunks is called in the folder of a run."""

CHUNK_NAME = r"([0-9]{6,18})-([0-9]{6,18})\.npz"
"""A regular expression of how files of chunks are called: their first trial, and that after their
last."""

_CHANGED = "move it away to have its trials computed again"


class Chunk(NamedTuple):
    """A file of trials, and what it tells about itself."""

    path: Path
    first: int  # trial
    stop: int  # the trial after the last
    identity: Mapping[str, Any]


class ChunkStore:
    """Finished chunks of trials in a folder, one file each."""

    def __init__(self, folder: Path | str, *, locked: bool = False, replace: bool = False):
        """Keep chunks in `folder`; nothing is written yet.

        Args:
          folder: where they are.
          locked: the caller keeps other writers out.
          replace: take no notice of the chunks that are there; `clear` removes them.
        """
        self.folder = Path(folder)
        self.locked = locked
        self._replaces = replace
        self._identity: dict[str, Any] = {}

    def begun(self) -> bool:
        """Return whether there are chunks."""
        return bool(self._spans())

    def identity(self) -> Mapping[str, Any]:
        """Return what made the first chunk; nothing if there is none."""
        return next((self._told(*span).identity for span in self._spans()), {})

    def open(
        self, identity: Mapping[str, Any], trials: int
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the first trial and the arrays of every chunk; what `save` keeps is of their kind.

        Args:
          identity: what makes trials, as JSON holds it: what is equal for two runs that may share
            their trials.
          trials: how many are wanted.
        """
        self._identity = dict(identity)
        remove_unfinished(self.folder)
        spans = self._spans()
        if spans and spans[-1][1] > trials:
            raise InputError(
                f"{self.folder} holds {spans[-1][1]} trials, more than the {trials} that are asked "
                "for",
                value=trials,
                remedy="ask for at least as many or choose another folder",
            )
        chunks = [self._told(*span) for span in spans]
        self._check_identities(chunks)
        return (_read(chunk) for chunk in chunks)

    def stored(self, program: str) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the first trial and the arrays of every chunk that is there now, in their order.

        Nothing is locked, changed or removed: another process may be adding chunks meanwhile.

        Args:
          program: the digest of what makes the trials, as `begin` of `monte_carlo` is told it and
            config.json records it.
        """
        for span in self._spans():
            chunk = self._told(*span)
            if digest_of_json(chunk.identity) != program:
                raise InputError(
                    f"{chunk.path} is of another run than the configuration beside it",
                    value=chunk.path,
                    remedy=_CHANGED,
                )
            yield _read(chunk)

    def save(self, first: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write one finished chunk, whose first trial has this number; `open` comes before."""
        if not self._identity:
            raise InputError(
                "must be opened before chunks are saved", argument="store", value=self.folder
            )
        stop = first + len(next(iter(arrays.values()), ()))
        about = {"first": first, "stop": stop, "identity": self._identity}
        write_arrays(self.folder / f"{first:06d}-{stop:06d}.npz", arrays, about)

    def clear(self) -> None:
        """Remove all chunks, and the folder if nothing else is there."""
        self._replaces = False
        for _, _, path in self._spans():
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody keeps files of their own there
            self.folder.rmdir()

    def _spans(self) -> list[tuple[int, int, Path]]:
        """Return the spans of trials that there are, in their order."""
        if self._replaces:
            return []
        try:
            paths = list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(
                f"cannot read {self.folder} ({error.strerror or error})",
                value=self.folder,
                remedy="choose another folder",
            ) from None
        matches = [(re.fullmatch(CHUNK_NAME, path.name), path) for path in paths]
        return sorted((int(match[1]), int(match[2]), path) for match, path in matches if match)

    def _told(self, first: int, stop: int, path: Path) -> Chunk:
        """Return what a chunk tells about itself, if that is what its name says."""
        about = read_archive(path, about_only=True).about
        identity = about.get("identity")
        if not isinstance(identity, dict):
            raise InputError(f"{path} is no chunk of a run", value=path, remedy=_CHANGED)
        if (about.get("first"), about.get("stop")) != (first, stop):
            raise InputError(
                f"{path} does not hold the trials that its name tells",
                value=path,
                remedy="give it its own name again, or " + _CHANGED,
            )
        return Chunk(path, first, stop, identity)

    def _check_identities(self, chunks: list[Chunk]) -> None:
        """Check that all chunks were made by the same as those that shall be added."""
        others = [chunk for chunk in chunks if chunk.identity != self._identity]
        if not others:
            return
        change = _difference(others[0].identity, self._identity)
        if len(others) == len(chunks):
            raise InputError(
                f"{self.folder} holds trials of another run: {change}",
                value=self.folder,
                remedy="go on with what made them or choose another folder",
            )
        raise InputError(
            f"{others[0].path} is of another run: {change}",
            value=others[0].path,
            remedy=_CHANGED,
        )


def _read(chunk: Chunk) -> tuple[int, dict[str, np.ndarray]]:
    """Return the first trial and the arrays of a chunk."""
    return chunk.first, read_archive(chunk.path).arrays


def _difference(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return the first thing in which two identities differ, as a part of a sentence."""
    name = next(
        name for name in [*asked, *stored] if stored.get(name, name) != asked.get(name, name)
    )
    if name == "program":
        return "its trial function, or a constant or a setting in it, is another"
    return f"its {name} is {stored.get(name)}, not {asked.get(name)}"
