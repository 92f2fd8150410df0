"""The options of `solve networked`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fedjax_admm import penalties
from fedjax_admm.trials.solve._options import (
    MOST_ROUNDS,
    choice,
    flag,
    number,
    random_seed,
    text,
    whole,
)
from fedjax_admm.trials.solve._settings import RowSettings
from fedjax_admm.trials.solve._solution import Solution, Stages

AUTO = "auto"
WASSERSTEIN, NEAREST = "wasserstein", "neighbours"  # graphs that are made of the data
_GRAPHS = f"{WASSERSTEIN}|{NEAREST}|FILE"
PENALTIES: dict[str, Callable[[], Any]] = {
    "nlasso": lambda: penalties.network_lasso(),
    "l1": lambda: penalties.entrywise_l1(),
    "mocha": lambda: penalties.mocha(),
    "squared": lambda: penalties.squared_difference(),
}


@dataclass(frozen=True, kw_only=True)
class NetworkedSettings(RowSettings):
    """Fit a linear model per node of a network, and compare it with local and pooled models."""

    family: ClassVar[str] = "networked"
    wide: ClassVar[bool] = True  # the primal-dual method is run to convergence
    reads: ClassVar[str] = "CSV or Parquet with named columns, one row per node and time."
    tables: ClassVar[tuple[str, ...]] = ("comparison.csv", "lam_grid.csv")

    node: Annotated[str, text("Column that names the node of a row.")]
    graph: Annotated[
        str,
        text("Edges join nodes with similar data, or a file head,tail[,weight].", metavar=_GRAPHS),
    ] = WASSERSTEIN
    threshold: Annotated[
        float | None,
        number("Largest squared distance that is joined (isolates 5 % of the nodes).", above=0),
    ] = None
    neighbours: Annotated[int | None, whole("Nearest nodes that a node is joined to (5).")] = None
    lam: Annotated[Any, number("Strength of the coupling.", above=0, word=AUTO)] = 0.5
    penalty: Annotated[str, choice("Penalty on differences of neighbours.", PENALTIES)] = "nlasso"
    splits: Annotated[int, whole("Number of random splits into training and validation.")] = 5
    validation: Annotated[float, number("Share held out of every node.", above=0, below=1)] = 0.33
    raw: Annotated[bool, flag("--raw", "Couple models of features as they are.")] = False
    gap: Annotated[float, number("Relative gap at convergence.", above=0, below=1)] = 1e-6
    rounds: Annotated[int, whole("Most rounds of a fit.", at_most=MOST_ROUNDS)] = 5000
    seed: Annotated[int, random_seed("Seed of the splits.")] = 2025
    coordinates: Annotated[str | None, text("Columns of a map, as longitude,latitude.")] = None

    def check_together(self) -> None:
        """Check that there are splits to choose lam by."""
        if self.lam == AUTO and self.splits < 2:
            told = "auto needs at least 2 {splits}: one half chooses, the other reports the errors"
            raise self.mistake(told, "lam")

    def read(self, path: Path) -> Any:
        """Read the rows of all nodes."""
        from fedjax_admm.trials.solve.networked._rows import rows_needed

        how = {"coordinates": self.coordinates, "at_least": rows_needed(self.validation)}
        return self.rows(path, self.graph, node=self.node, **how)

    def solve(self, data: Any, title: str, stages: Stages) -> Solution:
        """Build the graph, and fit."""
        from fedjax_admm.trials.solve.networked import _fit, _report
        from fedjax_admm.trials.tables._node_graphs import build_graph

        _fit.check_size(data, self)
        with stages("graph"):
            network = build_graph(data, self.graph, self.threshold, self.neighbours)
        with stages("local, pooled and coupled models"):
            fit = _fit.fit_networked(data, network, self)
        return _report.solution(fit, title)
