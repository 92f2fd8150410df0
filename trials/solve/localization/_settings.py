"""The options of `solve localization`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fedjax_admm.trials.solve._options import MOST_ROUNDS, TimeFormat, file, flag, whole
from fedjax_admm.trials.solve._settings import Settings
from fedjax_admm.trials.solve._solution import Solution, Stages


@dataclass(frozen=True, kw_only=True)
class LocalizationSettings(Settings):
    """Locate a target from the ranges that sensors measured."""

    family: ClassVar[str] = "localization"
    wide: ClassVar[bool] = True  # coordinates of maps have many digits
    reads: ClassVar[str] = "CSV or Parquet: x, y, [z,] range; with --anchors time, anchor, range."
    tables: ClassVar[tuple[str, ...]] = ("residuals.csv", "positions.csv", "anchors.csv")

    anchors: Annotated[str | None, file("File: anchor, x, y[, z] or latitude, longitude.")] = None
    odometry: Annotated[str | None, file("File of steps: time, distance, turn.")] = None
    truth: Annotated[str | None, file("File of the true path, which is only compared.")] = None
    clock: Annotated[bool, flag("--clock", "Ranges share an unknown offset, as pseudo-ranges.")] = (
        False
    )
    time_format: TimeFormat = None
    rounds: Annotated[int, whole("Global rounds of FSMDM.", at_most=MOST_ROUNDS)] = 3000

    def check_together(self) -> None:
        """Check that only a path has an odometer, a true path and a clock."""
        for name in ("odometry", "truth", "clock", "time_format"):
            if getattr(self, name) not in (None, False) and self.anchors is None:
                raise self.mistake("belongs to a path, which has {anchors}; give both", name)

    def read(self, path: Path) -> Any:
        """Read the ranges; with anchors, those of a path."""
        from fedjax_admm.trials.tables._kits import read_kit
        from fedjax_admm.trials.tables._ranges import read_ranges

        if self.anchors is None:
            return read_ranges(path)
        how = {"signed": self.clock, "form": self.time_format}
        return read_kit(path, self.anchors, self.odometry, self.truth, **how)

    def solve(self, data: Any, title: str, stages: Stages) -> Solution:
        """Locate the target, or its path."""
        from fedjax_admm.trials.solve.localization import _fit, _path, _report

        if self.anchors is None:
            return _report.solution(_fit.locate(data, self.rounds, stages), self, title)
        # Some matrices of the size of the filter's state per range.
        size = 2 * len(data.axes) + 1 + self.clock + 2 * len(data.names)
        numbers = 12 * len(data.ranges) * size**2
        self.check_memory("the path", numbers, "give fewer ranges or fewer anchors")
        found = _path.locate_log(data, stages, clock=self.clock)
        return _report.path_solution(found, self, title)
