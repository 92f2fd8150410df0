"""The options of `solve localization`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from fedjax_admm._shown import short_repr
from fedjax_admm.trials.solve._options import MOST_ROUNDS, whole
from fedjax_admm.trials.solve._settings import Settings

if TYPE_CHECKING:
    from fedjax_admm.trials.solve._command import Solution, Stages
    from fedjax_admm.trials.tables import RangeTable


@short_repr
@dataclass(frozen=True, kw_only=True)
class LocalizationSettings(Settings):
    """Locate a target from the ranges that sensors measured."""

    family: ClassVar[str] = "localization"
    reads: ClassVar[str] = "CSV or Parquet with columns x, y, [z,] range, in metres."

    rounds: Annotated[int, whole("Global rounds of FSMDM.", at_most=MOST_ROUNDS)] = 3000

    def wide(self) -> bool:
        """Return True: coordinates of maps have many digits."""
        return True

    def read(self, path: Path) -> "RangeTable":
        """Read the ranges."""
        from fedjax_admm.trials.tables import read_ranges

        return read_ranges(path)

    def solve(self, data: "RangeTable", title: str, stages: "Stages") -> "Solution":
        """Locate the target."""
        from fedjax_admm.trials.solve.localization import _fit, _report

        return _report.solution(_fit.locate(data, self.rounds, stages), self, title)
