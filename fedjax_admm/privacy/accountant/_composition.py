"""Releases that are (epsilon, delta) private each, and what they are together."""

import math

import numpy as np
from numpy.typing import ArrayLike

from fedjax_admm._checks import refuse_entries
from fedjax_admm.privacy.accountant._arguments import (
    Values,
    bisected,
    checked_delta,
    checked_number,
    each_number,
    real_numbers,
    stepped_while,
)
from fedjax_admm.privacy.accountant._releases import divided


def mechanism_multipliers(epsilons: Values, delta: float) -> Values:
    """Noise multipliers of the classical Gaussian mechanism.

    `z_n = sqrt(2 ln(1.25/delta)) / epsilon_n` makes release n (epsilon_n, delta)-differentially
    private if `epsilon_n <= 1`. z_n is rounded up.

    Reference: C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014,
    Theorem A.1 (stated for epsilon below 1; at 1 by continuity).
    """
    top = math.sqrt(2.0 * math.log(1.25 / checked_delta(delta)))
    seen = real_numbers("epsilons", epsilons, above=0.0)
    told = "must be at most 1 for the classical Gaussian mechanism"
    remedy = "take a smaller total epsilon, more rounds or a larger tau"
    refuse_entries((seen > 1.0) & np.isfinite(seen), "epsilons", told, seen, remedy)

    def one(eps: float) -> float:
        return stepped_while(lambda z: z > 0 and top / z > eps, top / eps, math.inf)

    return each_number(one, "epsilons", epsilons)


def basic_epsilon(epsilons: ArrayLike) -> float:
    """Epsilon of all releases by basic composition: the sum of `epsilons`.

    The deltas add up as well.

    Reference: C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014,
    Theorem 3.16.
    """
    return math.fsum(real_numbers("epsilons", epsilons, at_least=0.0).ravel())


def advanced_epsilon(epsilons: ArrayLike, slack: float) -> float:
    """Epsilon of all releases by advanced composition.

    The theorem: if release n is (epsilon_n, delta_n)-differentially private, chosen adaptively,
    then for any slack in [0, 1] the whole is (epsilon', delta')-differentially private with
    `delta' = 1 - (1 - slack) prod (1 - delta_n) <= slack + sum delta_n` and epsilon' the least of

    - `sum epsilon_n`,
    - `sum epsilon_n tanh(epsilon_n/2) + sqrt(2 log(e + sqrt(sum epsilon_n^2)/slack) S)` and
    - `sum epsilon_n tanh(epsilon_n/2) + sqrt(2 log(1/slack) S)`, where `S = sum epsilon_n^2`;

    `tanh(epsilon/2)` is `(e^epsilon - 1) / (e^epsilon + 1)`. The second one is left out here: it is
    smaller than the third one only if `sqrt(S) + e slack < 1` (7 percent smaller for 200 releases
    with epsilon 1 in all and slack 5e-6).

    Args:
      epsilons: epsilon >= 0 of each release, shape (rounds,).
      slack: the part of delta that composition itself spends, between 0 and 1.

    Returns:
      Epsilon of the whole, never more than `basic_epsilon(epsilons)`.

    Reference: P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential Privacy",
    IEEE Transactions on Information Theory 63(6), 2017, Theorem 3.5.
    """
    eps = real_numbers("epsilons", epsilons, at_least=0.0)
    return _advanced(eps, -math.log(checked_number("slack", slack, above=0.0, below=1.0)))


def basic_epsilons(epsilon: float, rounds: int, tau: float) -> np.ndarray:
    """Divide an epsilon among releases for basic composition.

    `epsilon_n = epsilon_1 tau^(-(n-1)/2)` with `sum epsilon_n = epsilon`: the variances of the
    noise have the quotient tau, as with `release_budgets`.

    Args:
      epsilon: epsilon of the whole, greater than 0; infinity gives infinity to every release.
      rounds: number of releases.
      tau: quotient of two successive variances, greater than 0 and at most 1.

    Returns:
      Epsilon of each release, shape (rounds,); `basic_epsilon` of them is never above `epsilon`.
    """
    return divided("epsilon", epsilon, rounds, tau, power=0.5)


def advanced_epsilons(epsilon: float, slack: float, rounds: int, tau: float) -> np.ndarray:
    """Divide an epsilon among releases for advanced composition.

    `epsilon_n = epsilon_1 tau^(-(n-1)/2)` with `advanced_epsilon(epsilons, slack) = epsilon`, by
    bisection and rounded down. Where basic composition allows more (few releases) this is the
    answer of `basic_epsilons`.

    Args:
      epsilon: epsilon of the whole, greater than 0; infinity gives infinity to every release.
      slack: the part of delta that composition itself spends, between 0 and 1.
      rounds: number of releases.
      tau: quotient of two successive variances, greater than 0 and at most 1.

    Returns:
      Epsilon of each release, shape (rounds,); `advanced_epsilon` of them is never above `epsilon`.

    Reference: as `advanced_epsilon`.
    """
    log_inverse = -math.log(checked_number("slack", slack, above=0.0, below=1.0))
    basic = basic_epsilons(epsilon, rounds, tau)
    if math.isinf(basic[0]):
        return basic
    allowed = checked_number("epsilon", epsilon)

    def holds(scale: float) -> bool:
        return _advanced(scale * basic, log_inverse) <= allowed

    high = 2.0
    while holds(high):
        high *= 2.0
    return bisected(holds, good=1.0, bad=high) * basic


def _advanced(eps: np.ndarray, log_inverse_slack: float) -> float:
    """The formula of `advanced_epsilon`."""
    basic = math.fsum(eps.ravel())
    if math.isinf(basic):
        return math.inf
    drift = math.fsum((eps * np.tanh(eps / 2.0)).ravel())
    return min(basic, drift + math.sqrt(2.0 * log_inverse_slack * math.fsum((eps * eps).ravel())))
