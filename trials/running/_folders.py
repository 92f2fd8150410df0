"""Where runs lie: which folder a run may write into, and which ones hold an unfinished run."""

import contextlib
import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedjax_admm._checks import InputError, listed
from fedjax_admm.trials import folders
from fedjax_admm.trials.engine import CHUNK_NAME, CHUNKS, ChunkStore, hosts
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import PICTURES
from fedjax_admm.trials.profiling import PROFILE
from fedjax_admm.trials.results import ARRAYS, CONFIG, SUMMARY
from fedjax_admm.trials.running._configuration import Request

WRITTEN = (ARRAYS, SUMMARY, *PICTURES)
"""What a finished run may leave besides its configuration, its chunks and perhaps a profile."""


@contextmanager
def locked_for_all(out: Path) -> Iterator[None]:
    """Have the first process lock the folder of a run for all of them.

    Raises:
      InputError: another run writes there, or the file system refuses; in the first process.
      StoppedElsewhereError: the same, in the others.
    """
    with ExitStack() as held:

        def lock() -> None:
            held.enter_context(folders.locked(out))

        hosts.from_first(lock)
        yield


def check_places(
    out: Path, request: Request, inputs: list[Path], *, resume: bool, overwrite: bool
) -> None:
    """Check what nobody may ask for: to resume and replace, or to write over links and inputs.

    Raises:
      InputError: it is asked for.
    """
    if resume and overwrite:
        raise InputError(
            "goes on with a run, and {overwrite} replaces it",
            argument="resume",
            remedy="leave one of them out",
            others=["overwrite"],
        )
    subfolders = [CHUNKS, *([PROFILE] if request.profile else [])]
    folders.check_places(out, (*WRITTEN, CONFIG), subfolders=subfolders, inputs=inputs)


def check_ours(out: Path, pictures: Sequence[str], *, new: bool) -> None:
    """Check that nothing of somebody else's would be lost, and remove what killed processes left.

    Args:
      out: the folder of a run; it is locked.
      pictures: names of the files of the figure that will be written.
      new: whether the run begins there.

    Raises:
      InputError: something would be.
    """
    if new:
        folders.check_free(out, (CONFIG, *WRITTEN), None, subfolders=[CHUNKS])
    elif folders.read_config(out) is None:
        _check_trials_alone(out)
    else:
        folders.check_own(out, (ARRAYS, SUMMARY, *pictures))
    _remove_unfinished(out)


def _check_trials_alone(out: Path) -> None:
    there = [name for name in WRITTEN if os.path.lexists(out / name)]
    if there:
        those = "those files" if len(there) > 1 else "that file"
        raise InputError(
            f"{out} holds trials of a run whose {CONFIG} is gone, and beside them "
            f"{listed(there)}, which nothing tells to be of that run",
            value=out,
            remedy=f"move {those} away to go on with the trials, or choose another --out",
        )


def check_replaceable(out: Path) -> None:
    """Check that `--overwrite` loses no trials whose run is not known; remove what is unfinished.

    Raises:
      InputError: they are there without a configuration.
    """
    config = folders.read_config(out) or {}
    if "experiment" not in config and ChunkStore(out / CHUNKS).begun():
        what = "is damaged" if os.path.lexists(out / CONFIG) else "is gone"
        raise InputError(
            f"{out} holds trials of a run whose {CONFIG} {what}",
            value=out,
            remedy="go on with them by --resume in the place of --overwrite, or choose another "
            "--out",
        )
    _remove_unfinished(out)


def clear_replaced(out: Path, pictures: Sequence[str]) -> None:
    """Remove what a run replaces: files of the names that it writes, and those of an earlier run.

    Args:
      out: the folder of a run; it is locked.
      pictures: names of the files of the figure that will be written.

    Raises:
      InputError: the file system refuses.
    """
    config = folders.read_config(out) or {}
    others = [name for name in PICTURES if folders.is_recorded(config, out / name)]
    folders.clear(out, dict.fromkeys((ARRAYS, SUMMARY, *pictures, *others)))


@contextmanager
def chunks_set_aside(out: Path, overwrite: bool) -> Iterator[Callable[[], None]]:
    """Set the chunks aside of a run that `--overwrite` replaces, while the new one is prepared.

    Gives what removes them, once the new run has begun; without that they are put back. Where the
    process is killed, `put_chunks_back` does that for the next one.

    Raises:
      InputError: the file system refuses.
    """
    chunks, aside = out / CHUNKS, out / f".replaced.{os.getpid()}.tmp"
    names: list[str] = []

    def set_aside() -> None:
        if overwrite and chunks.is_dir():
            names.extend(path.name for path in chunks.iterdir() if is_chunk(path))
        if names:
            _move(names, chunks, aside, out)

    def remove() -> None:
        if names:
            folders.clear(aside, names)
            names.clear()
            _remove_if_empty(aside)

    try:
        hosts.from_first(set_aside)
        yield remove
    finally:
        if names:
            _put_back(aside, names, out)


def put_chunks_back(out: Path) -> None:
    """Put chunks back that a killed process had set aside: no run has begun in their place.

    Args:
      out: the folder of a run; it is locked.

    Raises:
      InputError: the file system refuses.
    """
    for aside in sorted(out.glob(".replaced.*.tmp")):
        found = re.fullmatch(r"\.replaced\.([1-9][0-9]{0,9})\.tmp", aside.name)
        if found is None or aside.is_symlink() or not aside.is_dir():
            continue
        if int(found[1]) == os.getpid() or folders.is_gone(int(found[1])):
            _put_back(aside, [path.name for path in aside.iterdir() if is_chunk(path)], out)


def _put_back(aside: Path, names: list[str], out: Path) -> None:
    chunks = out / CHUNKS
    _move([name for name in names if not (chunks / name).exists()], aside, chunks, out)
    _remove_if_empty(aside)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _move(names: list[str], source: Path, target: Path, out: Path) -> None:
    try:
        if names:
            target.mkdir(exist_ok=True)
        for name in names:
            os.rename(source / name, target / name)
    except OSError as error:
        raise InputError(
            f"cannot replace the chunks of {out}: {error.strerror}",
            value=out,
            remedy="choose another --out",
        ) from None


def is_chunk(path: Path) -> bool:
    """Return whether a file is called as chunks are."""
    return re.fullmatch(CHUNK_NAME, path.name) is not None


def inputs_of(experiment: Experiment, request: Request) -> list[Path]:
    """Return the files that a run may read: its experiment's, and what its settings name."""
    origin = experiment.origin
    own = [Path(origin.file)] if origin is not None and origin.file is not None else []
    return own + [Path(text) for text in (request.settings or {}).values()]


def unfinished_folder(name: str) -> Path:
    """Return the latest folder of `results/` that holds an unfinished run of an experiment.

    Raises:
      InputError: no folder of `results/` holds one.
    """
    candidates = []
    for path in Path("results").glob(f"{glob.escape(name)}*/{CONFIG}"):
        config = folders.read_config(path.parent) or {}
        if config.get("experiment") == name and config.get("status") == "running":
            candidates.append((path.stat().st_mtime, path.parent))
    if not candidates:
        raise InputError(
            f"results/ holds no unfinished run of {name}",
            value=name,
            remedy="name its folder with --out",
        )
    return max(candidates)[1]


def resumed_x64(out: Path) -> bool:
    """Return whether the unfinished run in `out` computes in float64; False without such a run."""
    return bool((folders.read_config(out) or {}).get("x64"))


def _remove_unfinished(out: Path) -> None:
    folders.remove_unfinished(out, "|".join(map(re.escape, (*WRITTEN, CONFIG))))
