"""What somebody, or a disk, does to a folder of results: each returns what prepares the folder."""

import json
import os
import shutil

import numpy as np

from fedjax_admm.trials import folders
from tests.faults.prepared import finished, unfinished

CONFIG, ARRAYS = "out/config.json", "out/trials.npz"


def signed(folder):
    """Write the digests anew, so that an edit shows by its content alone."""
    path = folder / CONFIG
    config = json.loads(path.read_text())
    config["files"]["config.json"] = folders.own_digest(config)
    if (folder / ARRAYS).is_file():
        config["files"]["trials.npz"] = folders.digest(folder / ARRAYS)
    path.write_text(json.dumps(config))


def edited(*keys, start=finished, sign=True, **changes):
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
        if sign:
            signed(folder)

    return prepare


def lacking(*names, start=finished):
    """Remove keys of config.json."""

    def prepare(folder):
        start(folder)
        path = folder / CONFIG
        config = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in config.items() if k not in names}))
        signed(folder)

    return prepare


def recomputed(change, *, sign=True):
    """Change the arrays of trials.npz: `change` gets them by name and may alter them in place."""

    def prepare(folder):
        finished(folder)
        with np.load(folder / ARRAYS) as file:
            arrays = dict(file)
        changed = change(arrays)
        np.savez(folder / ARRAYS, **(arrays if changed is None else changed))
        if sign:
            signed(folder)

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


def exchanged(name, make, start=finished):
    """Put something that is no file in the place of a file."""

    def prepare(folder):
        start(folder)
        path = folder / "out" / name
        path.unlink()
        make(path)

    return prepare


def truncated(name, share=0.5, start=finished):
    """Cut a file off."""

    def prepare(folder):
        start(folder)
        path = folder / "out" / name
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])

    return prepare


def both(*, swept=None, sign=True, **changes):
    """Put a finished run into `out` and into `other`, where config.json is changed."""

    def prepare(folder):
        edited(sign=sign, **changes)(folder)
        shutil.move(folder / "out", folder / "other")
        finished(folder)

    return prepare


def loop(path):
    """Make a link that leads to itself."""
    path.symlink_to(path.name)


def dangling(path):
    """Make a link that leads nowhere."""
    path.symlink_to("nowhere")


def endless(path):
    """Make a link to what never ends."""
    path.symlink_to("/dev/zero")


def fifo(path):
    """Make a fifo that nobody writes."""
    os.mkfifo(path)


SHAPES = {"folder": os.mkdir, "loop": loop, "dangling": dangling, "endless": endless, "fifo": fifo}
STARTS = {"plot": finished, "compare": finished, "resume": unfinished}
