"""Where runs lie: folders below `results/` that are free, or that hold an unfinished run."""

from pathlib import Path

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files
from fedjax_admm.trials.results import CONFIG


def free_folder(name: str) -> Path:
    """Return `results/NAME`, or `results/NAME-2`, ... if that is taken."""
    base = Path("results")
    candidate, number = base / name, 1
    while candidate.exists():
        number += 1
        candidate = base / f"{name}-{number}"
    return candidate


def unfinished_folder(name: str) -> Path:
    """Return the latest folder of `results/` that holds an unfinished run of an experiment.

    Raises:
      InputError: no folder of `results/` holds one.
    """
    candidates = []
    for path in Path("results").glob(f"{name}*/{CONFIG}"):
        config = files.read_json(path)
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
    config = out / CONFIG
    return config.exists() and bool(files.read_json(config).get("x64"))
