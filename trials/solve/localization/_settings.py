"""The options of `solve localization`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fedjax_admm.trials.solve._options import MOST_ROUNDS, TimeFormat, file, flag, text, whole
from fedjax_admm.trials.solve._settings import Settings
from fedjax_admm.trials.solve._solution import Solution, Stages


@dataclass(frozen=True, kw_only=True)
class LocalizationSettings(Settings):
    """Locate a target from the ranges that sensors measured."""

    family: ClassVar[str] = "localization"
    wide: ClassVar[bool] = True  # coordinates of maps have many digits
    reads: ClassVar[str] = (
        "CSV or Parquet: x, y, [z,] range; of a path time, anchor, range, a column per anchor, or "
        "a folder with a file per anchor."
    )
    tables: ClassVar[tuple[str, ...]] = ("residuals.csv", "positions.csv", "anchors.csv")

    anchors: Annotated[str | None, file("File: anchor, x, y[, z] or latitude, longitude.")] = None
    odometry: Annotated[str | None, file("File of steps: time, distance, turn.")] = None
    truth: Annotated[str | None, file("File of the true path, which is only compared.")] = None
    clock: Annotated[bool, flag("--clock", "Ranges share an unknown offset, as pseudo-ranges.")] = (
        False
    )
    tag: Annotated[str | None, text("Target whose ranges are read, where a file has more.")] = None
    map: Annotated[
        str | None,
        text("Columns with other names: time=stamp,range=dist[mm].", "WHAT=COLUMN,..."),
    ] = None
    time_format: TimeFormat = None
    rounds: Annotated[int, whole("Global rounds of FSMDM.", at_most=MOST_ROUNDS)] = 3000

    def read(self, path: Path) -> Any:
        """Read the ranges; those of a path have anchors, in a file or in their rows."""
        from fedjax_admm.trials.tables._kits import columns_of, holds_anchors, read_kit
        from fedjax_admm.trials.tables._ranges import read_ranges

        named = columns_of(self.map or "")
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
        if self.anchors is None and not (paths and holds_anchors(paths[0], named)):
            for name in ("odometry", "truth", "clock", "tag", "map", "time_format"):
                if getattr(self, name) not in (None, False):
                    raise self.mistake("belongs to a path, which has {anchors}; give both", name)
            return read_ranges(path)
        how = {"signed": self.clock, "form": self.time_format, "named": named, "tag": self.tag}
        return read_kit(paths, self.anchors, self.odometry, self.truth, **how)

    def solve(self, data: Any, title: str, stages: Stages) -> Solution:
        """Locate the target, or its path."""
        from fedjax_admm.trials.solve.localization import _fit, _path, _report
        from fedjax_admm.trials.tables._kits import KitLog

        if not isinstance(data, KitLog):
            return _report.solution(_fit.locate(data, self.rounds, stages), self, title)
        # Per range, some vectors of the size of the filter's state and matrices of its motion.
        size = 2 * len(data.axes) + self.clock + (3 + len(data.axes)) * len(data.names)
        numbers = len(data.ranges) * (4 * size + 100)
        self.check_memory("the path", numbers, "give fewer ranges or fewer anchors")
        found = _path.locate_log(data, stages, clock=self.clock)
        return _report.path_solution(found, self, title)
