"""What somebody, or a disk, does to a folder of results: each returns what prepares the folder."""

import json
import shutil

import numpy as np

from tests.faults.prepared import finished

CONFIG, ARRAYS = "out/config.json", "out/trials.npz"


def edited(*keys, start=finished, **changes):
    """Change values of config.json; in an object below it where `keys` lead there."""

    def prepare(folder):
        start(folder)
        path = folder / CONFIG
        config = json.loads(path.read_text())
        inside = config
        for key in keys:
            inside = inside[key]
        inside.update(changes)
        path.write_text(json.dumps(config))

    return prepare


def lacking(*names, start=finished):
    """Remove keys of config.json."""

    def prepare(folder):
        start(folder)
        path = folder / CONFIG
        config = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in config.items() if k not in names}))

    return prepare


def recomputed(change):
    """Change the arrays of trials.npz: `change` gets them by name and may alter them in place."""

    def prepare(folder):
        finished(folder)
        with np.load(folder / ARRAYS) as file:
            arrays = dict(file)
        changed = change(arrays)
        np.savez(folder / ARRAYS, **(arrays if changed is None else changed))

    return prepare


def replaced(name, content, start=finished):
    """Put other bytes into a file; None: remove it."""

    def prepare(folder):
        start(folder)
        path = folder / "out" / name
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    return prepare


def both(**changes):
    """Put a finished run into `out` and into `other`, where config.json is changed."""

    def prepare(folder):
        edited(**changes)(folder)
        shutil.move(folder / "out", folder / "other")
        finished(folder)

    return prepare
