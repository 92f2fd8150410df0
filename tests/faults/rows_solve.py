"""Options of `solve` that no problem can have, what would not end, names that mean something."""

import csv
import re
from pathlib import Path

from tests.faults.row import DONE, Row
from tests.faults.rows_inputs import (
    COMPLETED,
    LOCALIZATION,
    NETWORKED,
    NODES,
    PRIVATE,
    RANGES,
    RATINGS,
    holding,
)


def _located(name: str, says: str, *more: str) -> Row:
    words = (*LOCALIZATION, "mine.csv", *more)
    return Row(f"localization-{name}", words, says=says, prepare=holding(RANGES))


def _networked(name: str, says: str, *more: str) -> Row:
    return Row(f"networked-{name}", (*NETWORKED, *more), says=says, prepare=holding(NODES))


def _completed(name: str, says: str, *more: str) -> Row:
    words = (*COMPLETED, "mine.csv", *more)
    return Row(f"ratings-{name}", words, says=says, prepare=holding(RATINGS))


def _private(name: str, says: str, *more: str) -> Row:
    words = (*_with_edges(*more), *more)
    return Row(f"private-{name}", words, says=says, prepare=holding(NODES))


def _with_edges(*more: str) -> tuple[str, ...]:
    """Return the command without those options that a row gives itself: none may come twice."""
    words = list(PRIVATE)
    for option in {word for word in more if word.startswith("--") and word in words}:
        at = words.index(option)
        del words[at : at + 2]
    return tuple(words)


def _tables_are_sound(folder: Path) -> None:
    """Check that every table written has numbers that exist."""
    tables = list(folder.glob("results/*-mine/*.csv"))
    assert tables
    for path in tables:
        lines = path.read_bytes().decode().split("\n")
        for row in csv.reader((f"{line}\n" for line in lines), strict=True):
            for cell in row:
                assert cell.lower() not in ("nan", "inf", "-inf"), path


def _solved(name: str, words: tuple[str, ...], content: str, says: str = "Wrote") -> Row:
    prepare, check = holding(content), _tables_are_sound
    return Row(f"solved-{name}", words, says=says, wanted=DONE, prepare=prepare, check=check)


_NAMED = NODES.replace("p,", "=1+1,").replace("q,", '"@x\ny",').replace("r,", "\x1b[2J,")
_NAMED = _NAMED.replace("n,a,y", "n,=$a_{$,y")
_FORMULAS = tuple("=$a_{$" if word == "a" else word for word in NETWORKED)

ROWS = [
    # Numbers that are none.
    _located("rounds-twice", "--rounds is given twice", "--rounds", "3", "--rounds", "4"),
    _located("input-twice", "--input is given twice", "--input", "other.csv"),
    _located("option-unknown", "No such option", "--lambda", "nan"),
    _located("out-is-the-input", "file|folder", "--out", "mine.csv"),
    _networked("splits-endless", "needs .* is free", "--splits", "1000000000000"),
    _networked("validation-all", "--validation must be less", "--validation", "1"),
    _networked("validation-nearly-all", "at least", "--validation", "0.999999999999"),
    _networked("coordinates-one", "two columns", "--coordinates", "e"),
    _completed("rank-none", "--rank must be at least 1", "--rank", "0"),
    _completed("rank-beyond-memory", "needs .* but .* is free", "--rank", "1000000000000"),
    _completed("sampled-too-many", "--sampled must be at most", "--sampled", "3"),
    _completed("top-unknown", "99", "--top", "99"),
    _completed("item-is-user", "is named twice", "--user", "0", "--item", "0"),
    _private("clip-beyond-float32", "--clip|clip", "--clip", "1e300"),
    _private("tau-small", "tau", "--tau", "0.01"),
    _private("step-unstable", "step", "--method", "subgradient", "--step", "1e30"),
    # What is solved: odd names, numbers at the edge.
    _solved("formulas", (*_FORMULAS, "--splits", "2", "--rounds", "20"), _NAMED),
    _solved("far", (*LOCALIZATION, "mine.csv"), re.sub(r"(\d+)", r"\g<1>e58", RANGES)),
    _solved("near", (*LOCALIZATION, "mine.csv"), re.sub(r"(\d+)", r"\g<1>e-50", RANGES)),
    _solved(
        "overflow",
        (*NETWORKED, "--splits", "1", "--rounds", "20"),
        NODES.replace(",9\n", ",9e59\n"),
    ),
]
