"""The folder of a solution: claimed before the work begins, written when it is done."""

import math
import platform
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

from fedjax_admm._host import _files as files, _store as store
from fedjax_admm._version import __version__
from fedjax_admm.trials import figures
from fedjax_admm.trials.solve._settings import Settings
from fedjax_admm.trials.solve._solution import MODELS, Columns, Rows, Solution, Stages
from fedjax_admm.trials.tables._cells import csv_text


@contextmanager
def claimed_folder(
    settings: Settings, path: Path, out: Path | None, *, overwrite: bool = False
) -> Iterator[Path]:
    """Give the folder of the result, results/FAMILY-INPUT if none is named.

    Nobody else writes there meanwhile. It is new or empty.

    Args:
      settings: what will be solved.
      path: the file that holds the problem.
      out: the folder, or None.
      overwrite: write into any folder, and replace the files there that have the names of ours.
    """
    folder = out or Path("results") / f"{settings.family}-{path.stem}"
    names = (MODELS, *settings.tables, *settings.figure().names, store.CONFIG)
    with store.locked(folder, owner_only=settings.owner_only()):
        store.check_places(folder, names, inputs=_inputs(settings, path))
        if not overwrite:
            store.check_empty(folder)
        yield folder


def write_solution(
    solution: Solution, path: Path, folder: Path, stages: Stages, *, overwrite: bool = False
) -> list[str]:
    """Write the solution of the problem in a file into a folder that `claimed_folder` gave.

    Args:
      solution: what `solve_file` returned.
      path: the file that holds the problem.
      folder: where to write.
      stages: told what is done.
      overwrite: as in `claimed_folder`.

    Returns:
      The names of the files.
    """
    settings, chosen, written = solution.settings, solution.settings.figure(), []
    with store.staged(folder) as stage:
        with stages("figure and tables"):
            for name, table in solution.tables.items():
                if table is not None:
                    text = _as_csv(table)
                    files.write_text(stage / name, text, owner_only=settings.owner_only())
                    written.append(name)
            for name, arrays in solution.arrays.items():
                files.write_arrays(stage / name, arrays)
                written.append(name)
            figure = solution.draw()
            look = {"formats": chosen.formats, "style": chosen.look}
            figures.save_figure(figure, stage, caption=figures.titled_caption(figure), **look)
        command = ["fedjax-admm", "solve", settings.family, "--input", str(path)]
        config = {
            "command": shlex.join([*command, *settings.words(), "--out", str(folder)]),
            "family": settings.family,
            "settings": {"input": path, **settings.stored(), "out": folder},
            "data": solution.data,
            "result": solution.result,
            "seconds": stages.seconds if settings.timed else None,
            "versions": {
                "fedjax-admm": __version__,
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
            },
        }
        store.publish(
            stage,
            folder,
            _as_json(config),
            stale={*solution.tables, *figures.PICTURES} - {*written, *chosen.names},
            inputs=_inputs(settings, path),
            overwrite=overwrite,
        )
    return [*written, *chosen.names, store.CONFIG]


def _as_csv(table: Rows | Columns) -> str:
    rows = table
    if isinstance(table, Mapping):
        rows = [[*table], *zip(*table.values(), strict=True)]
    return csv_text([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    """Return a number with the digits that tell it from others; anything else as it is."""
    digits = 9 if getattr(value, "dtype", None) == "float32" else 12
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float):
        return f"{plain:.{digits}g}"
    return int(plain) if isinstance(plain, bool) else plain


def _as_json(value: Any) -> Any:
    """Return what JSON can hold: infinity, NaN and paths become texts."""
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        return _as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    lost = isinstance(value, float) and not math.isfinite(value)
    return str(value) if lost or isinstance(value, Path) else value


def _inputs(settings: Settings, path: Path) -> list[Path]:
    """Return the files that may be read: the input, and whatever a setting may name."""
    values = [getattr(settings, each.name) for each in fields(settings)]
    return [path, *(Path(value) for value in values if isinstance(value, str | Path))]
