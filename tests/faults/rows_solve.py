"""Options of `solve` that no problem can have, what would not end, names that mean something."""

import csv
import re
from pathlib import Path

import numpy as np

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

_HUGE = "9" * 5000


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
    """Check that every table written has numbers that exist, and no formula."""
    tables = list(folder.glob("*-mine/*.csv"))
    assert tables
    for path in tables:
        lines = path.read_bytes().decode().split("\n")
        for row in csv.reader((f"{line}\n" for line in lines), strict=True):
            for cell in row:
                assert cell.lower() not in ("nan", "inf", "-inf"), path
                assert not re.match(r"[=@\t\r\n]|[+-](?!\d)", cell), (path, cell)
                assert not re.match(r"[+-]", cell) or np.isfinite(float(cell)), (path, cell)


def _solved(name: str, words: tuple[str, ...], content: str, says: str = "Wrote") -> Row:
    prepare, check = holding(content), _tables_are_sound
    return Row(f"solved-{name}", words, says=says, wanted=DONE, prepare=prepare, check=check)


_NAMED = NODES.replace("p,", "=1+1,").replace("q,", '"@x\ny",').replace("r,", "\x1b[2J,")
_NAMED = _NAMED.replace("n,a,y", "n,=$a_{$,y")
_FORMULAS = tuple("=$a_{$" if word == "a" else word for word in NETWORKED)

ROWS = [
    # Numbers that are none.
    _located("rounds-none", "--rounds must be at least 1", "--rounds", "0"),
    _located("rounds-negative", "--rounds must be at least 1", "--rounds", "-3"),
    _located("rounds-exponent", "whole number", "--rounds", "1e3"),
    _located("rounds-fraction", "whole number", "--rounds", "1.5"),
    _located("rounds-nan", "whole number", "--rounds", "nan"),
    _located("rounds-empty", "whole number", "--rounds", ""),
    _located("rounds-fullwidth", "whole number", "--rounds", "\uff13"),
    _located("rounds-grouped", "whole number", "--rounds", "1_000"),
    _located("rounds-twice", "--rounds is given twice", "--rounds", "3", "--rounds", "4"),
    _located("rounds-beyond-int32", "at most 2147483647", "--rounds", "2147483648"),
    _located("rounds-beyond-text", "whole number", "--rounds", _HUGE),
    _located("rounds-beyond-float", "at most 2147483647", "--rounds", "1" + "0" * 400),
    _located("input-twice", "--input is given twice", "--input", "other.csv"),
    _located("option-unknown", "No such option", "--lambda", "nan"),
    _located("out-is-the-input", "file|folder", "--out", "mine.csv"),
    Row("family-unknown", ("solve", "everything", "--input", "mine.csv"), says="No such command"),
    Row("input-none", ("solve", "localization"), says="Missing option '--input'"),
    _networked("lam-nan", "--lam must be positive", "--lam", "nan"),
    _networked("lam-infinite", "--lam must be positive", "--lam", "inf"),
    _networked("lam-beyond", "--lam must be positive and finite", "--lam", "1e400"),
    _networked("lam-negative", "--lam must be positive", "--lam", "-1"),
    _networked("lam-zero", "--lam must be positive", "--lam", "0"),
    _networked("lam-vanishing", "--lam must be positive", "--lam", "1e-400"),
    _networked("lam-word", "--lam must be a positive number or auto", "--lam", "much"),
    _networked("lam-grouped", "--lam must be a positive number or auto", "--lam", "1_0"),
    _networked("lam-auto-of-one", "at least 2 --splits", "--lam", "auto", "--splits", "1"),
    _networked("splits-none", "--splits must be at least 1", "--splits", "0"),
    _networked("splits-endless", "needs|would take", "--splits", "1000000000000"),
    _networked("splits-beyond-float", "--splits must be at most", "--splits", "1" + "0" * 400),
    _networked("rounds-none", "--rounds must be at least 1", "--rounds", "0"),
    _networked("rounds-endless", "at most 2147483647", "--rounds", "1000000000000000"),
    _networked("validation-zero", "--validation must lie", "--validation", "0"),
    _networked("validation-all", "--validation must lie", "--validation", "1"),
    _networked("validation-nan", "--validation must lie", "--validation", "nan"),
    _networked("validation-nearly-all", "at least", "--validation", "0.999999999999"),
    _networked("validation-last-bit", "at least", "--validation", "0.9999999999999999"),
    _networked("threshold-nan", "--threshold must be positive", "--threshold", "nan"),
    _networked("threshold-negative", "--threshold must be positive", "--threshold", "-1"),
    _networked("threshold-of-none", "leaves no edge", "--threshold", "1e-300"),
    _networked("neighbours-alone", "goes with --graph", "--neighbours", "1"),
    _networked("neighbours-all", "below the number", "--graph", "neighbours", "--neighbours", "3"),
    _networked("neighbours-zero", "at least 1", "--graph", "neighbours", "--neighbours", "0"),
    _networked("neighbours-beyond", "at most", "--graph", "neighbours", "--neighbours", "9" * 400),
    _networked("penalty-unknown", "--penalty must be one of", "--penalty", "l3"),
    _networked("graph-empty", "--graph", "--graph", ""),
    _networked("seed-negative", "--seed must be at least 0", "--seed", "-1"),
    _networked("seed-beyond", "--seed must be at most", "--seed", "4294967296"),
    _networked("features-empty-part", "twice", "--features", "a,,y"),
    _networked("time-unknown", "no column", "--time", "z"),
    _networked("coordinates-one", "two columns", "--coordinates", "e"),
    _completed("rank-none", "--rank must be at least 1", "--rank", "0"),
    _completed("rank-exponent", "whole number", "--rank", "1e9"),
    _completed("rank-beyond-memory", "needs .* but .* is free", "--rank", "1000000000000"),
    _completed("rank-beyond-float", "--rank must be at most", "--rank", "1" + "0" * 400),
    _completed("steps-endless", "would take .* (days|years)", "--inner-steps", "1000000000000"),
    _completed("steps-none", "--inner-steps must be at least 1", "--inner-steps", "0"),
    _completed("rounds-and-steps", "years|days", "--rounds", "2000000000", "--inner-steps", "1000"),
    _completed("sampled-too-many", "--sampled must be at most", "--sampled", "3"),
    _completed("sampled-none", "--sampled must be at least 1", "--sampled", "0"),
    _completed("penalty-unknown", "--penalty must be one of", "--penalty", "l0"),
    _completed("lam-nan", "--lam must lie between", "--lam", "nan"),
    _completed("lam-negative", "--lam must lie between", "--lam", "-1"),
    _completed("gamma-beyond", "--gamma must lie between", "--gamma", "1e31"),
    _completed("beta-zero", "--beta must lie between", "--beta", "0"),
    _completed("beta-infinite", "--beta must lie between", "--beta", "1e400"),
    _completed("beta-word", "--beta must be a positive number or auto", "--beta", "all"),
    _completed("validation-of-none", "no rating to judge", "--validation", "1e-9"),
    _completed("validation-nan", "--validation must lie", "--validation", "nan"),
    _completed("top-unknown", "99", "--top", "99"),
    _completed("top-negative", "--top must be a whole number", "--top", "-1"),
    _completed("top-beyond", "--top|9999", "--top", "9" * 30),
    _completed("top-count-none", "--top-count must be at least 1", "--top-count", "0"),
    _completed("user-unknown", "no column 'z'", "--user", "z"),
    _completed("item-is-user", "is named twice", "--user", "0", "--item", "0"),
    _private("epsilon-zero", "--epsilon must be positive", "--epsilon", "0"),
    _private("epsilon-nan", "--epsilon must be positive", "--epsilon", "nan"),
    _private("epsilon-vanishing", "budget", "--epsilon", "1e-310"),
    _private("epsilon-twice", "--epsilon is given twice", "--epsilon", "1", "--epsilon", "2"),
    _private("clip-zero", "--clip must be positive", "--clip", "0"),
    _private("clip-nan", "--clip must be positive", "--clip", "nan"),
    _private("clip-infinite", "--clip must be positive", "--clip", "inf"),
    _private("clip-beyond-float32", "--clip|clip", "--clip", "1e300"),
    _private("clip-none", "--nominal-norm", "--clip", "none"),
    _private("norm-with-clip", "--nominal-norm", "--nominal-norm", "1"),
    _private("delta-zero", "--delta must lie", "--delta", "0"),
    _private("delta-one", "--delta must lie", "--delta", "1"),
    _private("delta-vanishing", "--delta|delta", "--delta", "1e-320"),
    _private("tau-zero", "--tau must be above 0", "--tau", "0"),
    _private("tau-large", "--tau must be above 0", "--tau", "1.1"),
    _private("tau-small", "tau", "--tau", "0.01"),
    _private("rounds-endless", "at most 2147483647", "--rounds", "1000000000000000"),
    _private("method-unknown", "--method must be one of", "--method", "sgd"),
    _private("rho-of-none", "has no --rho", "--method", "subgradient", "--rho", "1"),
    _private("rho-infinite", "--rho must be positive", "--rho", "inf"),
    _private("step-negative", "--step must be positive", "--step", "-1"),
    _private("step-unstable", "step", "--method", "subgradient", "--step", "1e30"),
    _private("power-two", "--power must lie", "--power", "2"),
    _private("loss-not-smooth", "smooth loss", "--method", "p-admm", "--loss", "absolute"),
    _private("l1-nan", "--l1 must be finite", "--l1", "nan"),
    _private("l2-negative", "--l2 must be finite and not", "--l2", "-1"),
    _private("l2-beyond-float32", "l2", "--l2", "1e300"),
    _private("huber-of-squared", "--loss huber only", "--huber-threshold", "1"),
    _private("degree-small", "--degree must be between", "--degree", "0.1"),
    _private("degree-nan", "--degree must be between", "--degree", "nan"),
    _private("degree-infinite", "--degree must be between", "--degree", "inf"),
    _private("seed-beyond", "--seed must be at most", "--seed", "4294967296"),
    _private("accounting-unknown", "--accounting must be one of", "--accounting", "renyi"),
    # What is solved: names that a spreadsheet or a figure would obey, numbers at the edge.
    _solved("formulas", (*_FORMULAS, "--splits", "2", "--rounds", "20"), _NAMED),
    _solved("far", (*LOCALIZATION, "mine.csv"), re.sub(r"(\d+)", r"\g<1>e58", RANGES)),
    _solved("near", (*LOCALIZATION, "mine.csv"), re.sub(r"(\d+)", r"\g<1>e-50", RANGES)),
    _solved(
        "overflow",
        (*NETWORKED, "--splits", "1", "--rounds", "20"),
        NODES.replace(",9\n", ",9e59\n"),
    ),
]
