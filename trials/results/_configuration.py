"""Contents of `config.json`, read from disk: what somebody reads of it must be there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError, listed

FINISHED, UNFINISHED = "finished", "running"  # values of `status`
RESTORE = "put back what the run wrote, or run it again into another folder"

_REQUIRED = (
    *("experiment", "source", "digest", "title", "statement", "parameter", "parameter_label"),
    *("metrics", "methods", "trials", "rounds", "seed", "settings", "data", "devices_per_trial"),
    *("x64", "quick", "traffic", "versions", "device", "partitioned", "width", "chunk", "status"),
)


def check_configuration(path: Path, config: Mapping[str, Any]) -> None:
    """Check that `config.json`, of a finished or an unfinished run, holds all that is read of it.

    Args:
      path: of the file, for the message.
      config: what was read from it.
    """
    missing = [name for name in _REQUIRED if name not in config]
    if missing:
        few = missing if len(missing) <= 4 else [*missing[:3], f"{len(missing) - 3} more"]
        raise damaged(path, f"it lacks {listed(few)}")


def damaged(path: Path, defect: str) -> InputError:
    """Return the mistake that a file is not what the run wrote."""
    return InputError(f"{path} is not what a run writes: {defect}", value=path, remedy=RESTORE)
