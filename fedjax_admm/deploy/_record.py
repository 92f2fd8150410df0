"""The record of a deployment: who was heard when, and what all servers keep of it."""

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm.deploy._messages import SHOWN_BYTES


class Record(NamedTuple):
    """Who was heard in every round; `participation.replay(record.heard)` simulates it."""

    heard: np.ndarray  # shape=(rounds, num_clients) or (rounds, passes, nodes), bool
    digest: str  # of the solver, its numbers, the key and the release

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record as JSON: the rounds as texts of 0 and 1, with spaces between passes."""
        mask = self.heard.shape[1:]
        passes = self.heard.reshape(len(self.heard), -1, mask[-1])
        rounds = [" ".join("".join("01"[int(x)] for x in row) for row in each) for each in passes]
        content = {"mask": mask, "digest": self.digest, "heard": rounds}
        Path(path).write_text(json.dumps(content, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Record":
        """Read a record that `save` has written.

        Raises:
          InputError: the file holds none.
        """
        try:
            content = json.loads(Path(path).read_text("utf-8"))
            texts = [text.replace(" ", "") for text in content["heard"]]
            rows = [[{"0": False, "1": True}[x] for x in text] for text in texts]
            heard = np.array(rows, bool).reshape(len(rows), *content["mask"])
            return cls(heard, str(content["digest"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                "holds no record of a deployment", argument="path", value=str(path)
            ) from error


class Recorded:
    """A server, a root or a relay, which records who was heard in every round."""

    masks: list[np.ndarray]  # of the rounds that are closed
    mask: tuple[int, ...]  # the shape of each
    _digest: bytes

    @property
    def round(self) -> int:
        """Return the round that is open, from 0."""
        return len(self.masks)

    @property
    def record(self) -> Record:
        """Return who has been heard, by which a simulation can replay it."""
        heard = np.array(self.masks, bool).reshape(self.round, *self.mask)
        return Record(heard, self._digest[:SHOWN_BYTES].hex())


def check_all_heard(numbers: Collection[int], heard: Collection[int]) -> None:
    """Check that all have been heard before the first round.

    Raises:
      InputError: somebody has not.
    """
    missing = sorted(set(numbers) - set(heard))
    if missing:
        raise InputError(
            f"has not heard clients {missing[:10]} yet, and needs all before the first round",
            argument="server",
        )
