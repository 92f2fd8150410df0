"""The options of `solve ratings`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fedjax_admm import penalties
from fedjax_admm.trials.solve._options import (
    MOST_ROUNDS,
    choice,
    file,
    number,
    random_seed,
    text,
    whole,
)
from fedjax_admm.trials.solve._settings import Settings
from fedjax_admm.trials.solve._solution import Solution, Stages

AUTO = "auto"
PENALTIES: dict[str, Callable[[float], Any]] = {
    "l2": lambda weight: penalties.squared_l2(weight),
    "l1": lambda weight: penalties.l1(weight),
    "nonnegative": lambda weight: penalties.add(
        penalties.squared_l2(weight), penalties.non_negative()
    ),
}
_LARGEST, _MODELS = 1e30, (AUTO, "fedmc", "biases")
_BETA: dict[str, Any] = {"at_least": 1 / _LARGEST, "at_most": _LARGEST, "word": AUTO}
weight = partial(number, at_least=0, at_most=_LARGEST)


def _texts(users: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, users))


@dataclass(frozen=True, kw_only=True)
class RatingsSettings(Settings):
    """Complete a table of ratings by FedMC-ADMM, and compare it with means and biases."""

    family: ClassVar[str] = "ratings"
    reads: ClassVar[str] = "File of ratings: user, item, rating; CSV, Parquet, MovieLens, gzip."
    tables: ClassVar[tuple[str, ...]] = ("factors.npz", "curve.csv", "predictions.csv")

    user: Annotated[str | None, text("Column of users: numbers or texts (the usual names).")] = None
    item: Annotated[str | None, text("Column of items, likewise.")] = None
    rating: Annotated[str | None, text("Column of the ratings.")] = None
    clients: Annotated[int | None, whole("Clients that share the users (100, or fewer).")] = None
    sampled: Annotated[int | None, whole("Clients that take part in a round (a tenth).")] = None
    rank: Annotated[int, whole("Numbers per user and per item.")] = 5
    rounds: Annotated[int, whole("Rounds of FedMC-ADMM.", at_most=MOST_ROUNDS)] = 400
    penalty: Annotated[str, choice("Penalty on users' and items' factors.", PENALTIES)] = "l2"
    lam: Annotated[float, weight("Weight of the penalty on users' factors.")] = 1e-6
    gamma: Annotated[float, weight("Weight of the penalty on items' factors.")] = 1e-6
    beta: Annotated[Any, number("Weight of the clients' agreement, about 1e5.", **_BETA)] = AUTO
    model: Annotated[str, choice("Model fitted to all; auto: the better one.", _MODELS)] = AUTO
    validation: Annotated[float, number("Share that judges beta.", above=0, below=1)] = 0.1
    seed: Annotated[int, random_seed("Seed of the split and of all draws.")] = 2025
    top: Annotated[
        list[str] | None,
        text("A user whose best unrated items are printed; repeatable.", "USER", _texts),
    ] = None
    predict: Annotated[str | None, file("File: user, item: pairs that are predicted.")] = None
    titles: Annotated[str | None, file("File: item, title: what items are called.")] = None

    def read(self, path: Path) -> Any:
        """Read the table, and what is asked of it: users, pairs, titles."""
        from fedjax_admm.ratings import read_pairs, read_titles
        from fedjax_admm.trials.solve.ratings._fit import read_table

        table, shown = read_table(path, self)
        named = {"user": self.user, "item": self.item}
        pairs = None if self.predict is None else read_pairs(self.predict, table, **named)
        titles = None if self.titles is None else read_titles(self.titles, table, item=self.item)
        return table, shown, {"pairs": pairs, "titles": titles}

    def solve(self, data: Any, title: str, stages: Stages) -> Solution:
        """Choose beta, compare, and fit."""
        from fedjax_admm.trials.solve.ratings import _fit, _report

        table, shown, asked = data
        _fit.check_size(table, self)
        return _report.solution(_fit.fit_ratings(table, self, stages), shown, title, **asked)
