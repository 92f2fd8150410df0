"""The options of `solve ratings`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedjax_admm import penalties
from fedjax_admm._shown import short_repr
from fedjax_admm.trials.solve._settings import (
    MOST_ROUNDS,
    SHARE,
    Demand,
    Settings,
    choice,
    number,
    random_seed,
    text,
    whole,
)

if TYPE_CHECKING:
    from fedjax_admm.ratings import Ratings
    from fedjax_admm.trials.solve._command import Solution, Stages

AUTO = "auto"
PENALTIES: dict[str, Callable[[float], Any]] = {
    "l2": lambda weight: penalties.squared_l2(weight),
    "l1": lambda weight: penalties.l1(weight),
    "nonnegative": lambda weight: penalties.add(
        penalties.squared_l2(weight), penalties.non_negative()
    ),
}
MODEL_CHOICES = (AUTO, "fedmc", "biases")
_WEIGHT = Demand(lambda value: 0 <= value <= 1e30, "lie between 0 and 1e30")
_BETA = Demand(
    lambda value: 1e-30 <= value <= 1e30, "lie between 1e-30 and 1e30", "useful ones are about 1e5"
)


@short_repr
@dataclass(frozen=True, kw_only=True)
class RatingsSettings(Settings):
    """Complete a table of ratings by FedMC-ADMM, and compare it with means and biases."""

    family: ClassVar[str] = "ratings"
    reads: ClassVar[str] = "File of ratings: user, item, rating; CSV, Parquet, MovieLens, gzip."

    user: str | None = text("Column of users: numbers or texts (the usual names).", None)
    item: str | None = text("Column of items, likewise.", None)
    rating: str | None = text("Column of the ratings.", None)
    clients: int | None = whole("Clients that share the users (100, or the number of users).", None)
    sampled: int | None = whole("Clients that take part in a round (a tenth of them).", None)
    rank: int = whole("Numbers per user and per item.", 5)
    rounds: int = whole("Rounds of FedMC-ADMM.", 400, at_most=MOST_ROUNDS)
    inner_steps: int = whole("Steps per block in a client's turn.", 10)
    penalty: str = choice("On users' and items' factors.", PENALTIES, "l2")
    lam: float = number("Weight of the penalty on users' factors.", 1e-6, _WEIGHT)
    gamma: float = number("Weight of the penalty on items' factors.", 1e-6, _WEIGHT)
    beta: float | str = number("Weight of the clients' agreement.", AUTO, _BETA, word=AUTO)
    model: str = choice(
        "What is fitted to all ratings; auto: what validates better.", MODEL_CHOICES, AUTO
    )
    validation: float = number("Share of the ratings learnt from that judges beta.", 0.1, SHARE)
    seed: int = random_seed("Seed of the split and of all draws.")
    top: tuple[str, ...] = text(
        "A user: print its best unrated items; repeatable.", (), metavar="USER", repeated=True
    )
    top_count: int = whole("How many items --top prints.", 10)

    def read(self, path: Path) -> tuple["Ratings", list[int]]:
        """Read the table, and find the users whose best items are told."""
        from fedjax_admm.trials.solve.ratings._fit import read_table

        return read_table(path, self)

    def solve(self, data: tuple["Ratings", list[int]], title: str, stages: "Stages") -> "Solution":
        """Choose beta, compare, and fit."""
        from fedjax_admm.trials.solve.ratings import _fit, _report

        table, shown = data
        _fit.check_size(table, self)
        return _report.solution(_fit.fit_ratings(table, self, stages), shown, title)
