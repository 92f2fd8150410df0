"""The ranges that sensors measured, read from a file: one row per sensor."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._tables import read_header, read_table
from fedjax_admm.trials.tables._columns import AXES, COLUMNS

_FORM = "x, y, [z,] range"


@dataclass(frozen=True)
class RangeTable:
    """Measurements as read from a file."""

    anchors: np.ndarray  # shape=(sensors, dim), metres
    distances: np.ndarray  # shape=(sensors,), metres
    lines: np.ndarray  # shape=(sensors,): line of the file, from 1, the header included
    ignored: tuple[str, ...] = ()  # other columns of the file
    missing: int = 0  # rows that were left out because their range is empty

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the names of the dim coordinates."""
        return AXES[: self.anchors.shape[1]]

    def residuals(self, position: np.ndarray) -> np.ndarray:
        """Return each sensor's distance from a position minus its range, metres."""
        return np.linalg.norm(position[None] - self.anchors, axis=1) - self.distances

    def cost(self, position: np.ndarray) -> float:
        """Return the sum of the absolute residuals of a position, metres."""
        return float(np.abs(self.residuals(position)).sum())


def read_ranges(path: Path) -> RangeTable:
    """Read a file with the columns x, y, [z,] range: one row per sensor.

    They may have a unit behind, as `range (cm)`; without one they are in metres. Other columns are
    ignored; the order does not matter. A row whose range is empty is left out.
    """
    header = read_header(path, f"it must have the columns {_FORM}")
    found = {what: header.find(*COLUMNS[what])[:1] for what in (*AXES, "range")}
    whats = [what for what, columns in found.items() if columns or what != "z"]
    columns, factors = zip(*((found[what] or [(what, 1.0)])[0] for what in whats), strict=True)
    header.require(columns, _FORM)
    table = read_table(header, columns)
    anchors = table.numbers(columns[:-1], complete=True) * factors[:-1]
    distances = table.number_column(columns[-1], positive=True) * factors[-1]
    there = np.isfinite(distances)
    anchors, distances = anchors[there], distances[there]
    if len(anchors) < len(whats):
        need = f"{len(whats) - 1} dimensions need at least {len(whats)}"
        raise InputError(f"{path} has {len(anchors)} sensors with a range, but {need}")
    if not np.ptp(anchors, axis=0).any():
        told = f"{path}: all sensors stand at one place, and ranges from there fit a whole circle"
        raise InputError(told, remedy="add sensors at other places")
    ignored = header.others(columns)
    return RangeTable(anchors, distances, table.lines[there], ignored, int((~there).sum()))
