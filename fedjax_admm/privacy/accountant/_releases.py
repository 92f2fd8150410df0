"""What single releases get of a total budget, and the noise that it stands for."""

import math

import numpy as np

from fedjax_admm._checks import count, refuse
from fedjax_admm.privacy.accountant._arguments import (
    Values,
    checked_number,
    each_number,
    stepped_while,
)


def release_budgets(total: float, rounds: int, tau: float) -> np.ndarray:
    """Divide a budget among releases so that it grows by 1/tau from each to the next.

    `phi_n = total tau^(T-n) / sum_s tau^(T-s)` for n = 1, ..., T, hence `phi_{n+1} = phi_n / tau`.

    Args:
      total: total budget, greater than 0; infinity gives every release an infinite budget.
      rounds: number of releases T.
      tau: quotient of two successive budgets, greater than 0 and at most 1.

    Returns:
      Budgets, shape (rounds,). Their sum is `total` to a relative 1e-14, and never above it.
    """
    return divided("total", total, rounds, tau, power=1.0)


def noise_multipliers(budgets: Values) -> Values:
    """Noise multipliers that spend given budgets: `z = sigma / Delta = 1 / sqrt(2 phi)`, or more.

    They are rounded up: `budgets_of` them is never above the budgets.
    """

    def one(phi: float) -> float:
        z = math.sqrt(0.5) / math.sqrt(phi)
        return stepped_while(lambda z: _budget_of(z) > phi, z, math.inf)

    return each_number(one, "budgets", budgets, above=0.0)


def budgets_of(multipliers: Values) -> Values:
    """Budgets that given noise multipliers spend: `phi = 1 / (2 z^2)`, see `noise_multipliers`."""
    return each_number(_budget_of, "multipliers", multipliers, at_least=0.0)


def _budget_of(z: float) -> float:
    return 0.5 / z / z if z else math.inf


def divided(name: str, total: float, rounds: int, tau: float, power: float) -> np.ndarray:
    """Divide `total` in proportion to `tau^(power (rounds - n))`, n = 1, ..., rounds."""
    total = checked_number(name, total, above=0.0)
    rounds = count("rounds", rounds)
    tau = checked_number("tau", tau, above=0.0, at_most=1.0)
    if math.isinf(total):
        return np.full(rounds, math.inf, dtype=np.float64)
    weights = np.power(tau, power * np.arange(rounds - 1, -1, -1, dtype=np.float64))
    parts = total * (weights / math.fsum(weights))
    smallest = float(np.finfo(np.float64).tiny)  # below it digits are lost
    lost = np.minimum(weights, parts) < smallest
    told = f"{tau:g} over {rounds} rounds is too small for {name} = {total:g}: a share vanishes"
    refuse(lost.any(), "tau", told, remedy="take a larger tau or fewer rounds")
    while math.fsum(parts) > total:
        parts *= 1.0 - 2.0**-52
    return parts
