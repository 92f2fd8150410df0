"""Settings of the private methods, found by search.

`PUBLISHED` is what the learning curves are drawn with. `TUNED` and `HETEROGENEOUS` are what
`python benchmarks/tune.py zcdp` prints: for every method on every task the best of 300 settings
(P-ADMM: 60), by the mean error after 200 rounds on 8 tuning problems that no experiment draws. The
cost of such a search on private data would not be accounted for.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from fedjax_admm.trials.experiments._data import tuned_rows

ZCDP, GRAD, P_ADMM = "zCDP-NFL", "zCDP-grad", "P-ADMM"
ADVANCED, BASIC = "DP-NFL, advanced", "DP-NFL, basic"
TASKS = ("elastic net", "LAD", "ridge")

UNACCOUNTED = (
    "The search has looked at the errors of models without noise on the tuning problems; its cost "
    "in privacy is not accounted for."
)
"""What is to be said wherever a tuned setting is used."""


class PrivateSetting(NamedTuple):
    """The numbers of a private solver; fields that a method does not have are not used."""

    step: float  # eta_0
    power: float  # q, of eta_n = eta_0 / n^q
    rho: float  # weight of the constraints
    clip: float  # c, norm to which gradients are clipped
    tau: float  # each release has 1 / tau of the budget of the one before it


Table = Mapping[tuple[str, str], Mapping[float, PrivateSetting]]


def _table(name: str) -> Table:
    table: dict[tuple[str, str], dict[float, PrivateSetting]] = {}
    for row in tuned_rows("zcdp"):
        if row["table"] == name:
            setting = PrivateSetting(*(float(row[each]) for each in PrivateSetting._fields))
            table.setdefault((row["task"], row["method"]), {})[float(row["value"])] = setting
    return table


PUBLISHED = _table("published")
"""Task and method -> epsilon -> setting, of the learning curves."""
TUNED = _table("tuned")
"""Task and method -> epsilon -> setting. A method without a step or a rho does not use it."""
HETEROGENEOUS = _table("heterogeneous")
"""Task and method -> deviation of the clients' true models -> setting, at epsilon 8."""


def nearest(table: Mapping[float, PrivateSetting], value: float) -> PrivateSetting:
    """Return the setting at the number nearest to `value`, in ratio if all are positive."""
    if min(table) > 0 and value > 0:
        return table[min(table, key=lambda known: abs(math.log(known / value)))]
    return table[min(table, key=lambda known: abs(known - value))]
