"""What a deployment keeps in files: states of its ends, and the record of who was heard when."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_admm._checks import InputError, refuse
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
    other = leaves.about.get("solver") != digest[:SHOWN_BYTES].hex()
    told = "is of another solver, other numbers of it, another key or another release"
    refuse(other, "path", told)
    return leaves.arrays, leaves.about["numbers"]


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
            raise InputError("holds no record of a deployment", "path") from error
