"""The options of `solve private`."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fedjax_admm import losses
from fedjax_admm.trials.solve._options import (
    choice,
    file,
    flag,
    number,
    random_seed,
    text,
    whole,
)
from fedjax_admm.trials.solve._settings import RowSettings
from fedjax_admm.trials.solve._solution import Solution, Stages

ADMM, SUBGRADIENT, P_ADMM = "zcdp-nfl", "subgradient", "p-admm"
# Method -> its numbers where they are not given: they did well on drawn data of unit scale.
METHODS: dict[str, dict[str, float]] = {
    ADMM: {"rho": 3.0, "step": 1.0, "power": 0.5},
    SUBGRADIENT: {"step": 0.3, "power": 0.5},
    P_ADMM: {"rho": 3.0},
}
LOSSES: dict[str, Callable[[], Any]] = {
    "squared": losses.squared,
    "absolute": losses.absolute,
    "huber": losses.huber,
    "logistic": losses.logistic,
}
ACCOUNTINGS = ("zcdp", "advanced", "basic")


@dataclass(frozen=True, kw_only=True)
class PrivateSettings(RowSettings):
    """Fit a linear model to clients' data under differential privacy, and say what was spent."""

    family: ClassVar[str] = "private"
    reads: ClassVar[str] = "CSV or Parquet with named columns, one row per sample of a client."
    tables: ClassVar[tuple[str, ...]] = (
        *("ledger.csv", "curve.csv"),
        *("private_models.csv", "evaluation.csv"),
    )
    timed: ClassVar[bool] = False  # how long a run took is not covered by the guarantee
    arguments: ClassVar[dict[str, str]] = {"step_size": "step"}

    client: Annotated[str, text("Column that names the client of a row.")]
    features: Annotated[str, text("Columns, as in 'a,b[-1]'; scale them by public numbers only.")]
    epsilon: Annotated[float, number("Privacy of the run; inf: no noise.", above=0, infinite=True)]
    clip: Annotated[float, number("Clipping norm of gradients, chosen without the data.", above=0)]
    delta: Annotated[float, number("Probability of failure.", above=0, below=1)] = 1e-5
    accounting: Annotated[str, choice("How releases are added up.", ACCOUNTINGS)] = "zcdp"
    rounds: Annotated[int, whole("Rounds, in each of which all clients send.", at_most=10**6)] = 200
    tau: Annotated[float, number("Budgets grow by 1 / tau a round.", above=0, at_most=1)] = 0.985
    method: Annotated[str, choice("Method that the clients run.", METHODS)] = ADMM
    loss: Annotated[str, choice("Loss; logistic takes 0/1 or -1/1.", LOSSES)] = "squared"
    l1: Annotated[float, number("Weight of ||w||_1, chosen without the data.", at_least=0)] = 0.0
    l2: Annotated[float, number("Weight of ||w||^2, intercept included.", at_least=0)] = 1.0
    rho: Annotated[float | None, number("Weight of the clients' agreement (3).", above=0)] = None
    step: Annotated[float | None, number("First step (1; of subgradients 0.3).", above=0)] = None
    power: Annotated[
        float | None,
        number("Step n is step / n^power, of 0, 0.5 or 1 (0.5).", at_least=0, at_most=1),
    ] = None
    edges: Annotated[str | None, file("Columns head,tail or source,target (drawn).")] = None
    seed: Annotated[
        int | None,
        random_seed("Seed of the noise, for tests: who knows it can take the noise away (secret)."),
    ] = field(default=None, repr=False)
    evaluate: Annotated[bool, flag("--evaluate", "Also measure errors: not protected.")] = False
    keep_private: Annotated[
        bool, flag("--keep-private", "Also write the models without noise: not protected.")
    ] = False

    def check_together(self) -> None:
        """Check how options go together."""
        told, numbers = None, METHODS[self.method]
        for name in ("rho", "step", "power"):
            if getattr(self, name) is not None and name not in numbers:
                told = f"{self.method} has no {{{name}}}; leave it out"
        if self.method == P_ADMM and self.loss == "absolute":
            told = "p-admm needs a smooth loss, but {loss} is absolute; take {loss} huber, or "
            told += "{method} zcdp-nfl"
        elif self.method == P_ADMM and self.l1 != 0:
            told = f"p-admm needs {{l1}} 0, but it is {self.l1:g}; take {{method}} zcdp-nfl"
        if told is not None:
            raise self.mistake(told, "method")

    def owner_only(self) -> bool:
        """Return whether something is written that no noise protects."""
        return self.keep_private or self.evaluate

    def read(self, path: Path) -> Any:
        """Read the samples of all clients."""
        from fedjax_admm.trials.solve.private._clients import read_clients

        return read_clients(path, self)

    def solve(self, data: Any, title: str, stages: Stages) -> Solution:
        """Read or draw the graph, and run the method."""
        from fedjax_admm.trials.solve.private import _clients, _fit, _report

        with stages("graph"):
            network = _clients.build_client_graph(data.nodes, self)
        with stages("rounds"):
            fit = _fit.fit_private(data, network, self, _fit.noise_key(self.seed))
        return _report.solution(fit, title)

    def complete(self) -> "PrivateSettings":
        """Return the settings with all numbers that the method has."""
        defaults = METHODS[self.method]
        missing = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return replace(self, **missing)
