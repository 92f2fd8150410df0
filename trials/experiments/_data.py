"""Data of experiments: a user's files, and the tables of tuned settings in `tuned/`."""

import csv
import os
from functools import cache
from pathlib import Path

from fedjax_admm._checks import InputError


def data_file(data: str, names: tuple[str, ...], what: str) -> Path | None:
    """Return the file of real data that a run uses; None for synthetic ones."""
    given = data or os.environ.get("FEDJAX_ADMM_DATA")
    if not given or data == "synthetic":
        return None
    folder = Path(given)
    if data and not folder.is_dir():
        return folder
    found = [folder / name for name in names if (folder / name).is_file()]
    if data and not found:
        raise InputError(
            f"must be {what} or a folder that holds it, but {folder} holds no "
            f"{names[0] if names else 'such file'}",
            argument="data",
            value=data,
            remedy="name the file itself",
        )
    return found[0] if found else None


@cache
def tuned_rows(table: str) -> list[dict[str, str]]:
    """Return the rows of a table of settings that a search has found, by columns.

    Each row holds the error by which it was chosen too, on problems that no experiment draws.
    """
    path = Path(__file__).with_name("tuned") / f"{table}.csv"
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
