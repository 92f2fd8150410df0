"""The options of families whose table has a row per observation of a node or a client."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fedjax_admm._host._tables import edge_header
from fedjax_admm.trials.solve._options import TimeFormat, flag, text
from fedjax_admm.trials.solve._settings import Settings

if TYPE_CHECKING:
    from fedjax_admm.trials.tables._observations import Observations


@dataclass(frozen=True, kw_only=True)
class RowSettings(Settings):
    """The columns of a regression, which are declared once for all such families."""

    target: Annotated[str, text("Column that is predicted.")]
    features: Annotated[str, text("Columns, as in 'a,b[-1]'; [-1] is that of the row before.")]
    time: Annotated[str | None, text("Column that orders rows (order of the file).")] = None
    time_format: TimeFormat = None
    no_intercept: Annotated[bool, flag("--no-intercept", "Without a constant feature.")] = False

    def rows(self, path: Path, edges: str | None, **how: Any) -> "Observations":
        """Read all rows; the columns of a file of edges are looked at before."""
        if edges is not None and os.path.isfile(edges):
            edge_header(edges)
        from fedjax_admm.trials.tables._observations import read_observations

        names = ("target", "features", "time", "time_format")
        columns = {name: getattr(self, name) for name in names}
        return read_observations(path, intercept=not self.no_intercept, **columns, **how)
