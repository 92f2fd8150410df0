"""Where an experiment finds real data, if it is to use them."""

import os
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
