"""Plans: the noise of every release of a run, and what has been spent after each of them.

A plan is made on the host in float64 before anything runs, from (epsilon, delta), the number of
rounds and tau; it knows no data. `zcdp_plan` adds up budgets of zero-concentrated differential
privacy; `approximate_plan` adds up (epsilon_n, delta_n) of classical Gaussian mechanisms. Both give
budgets that grow by 1 / tau from release to release, so that late messages, which matter most, are
the most exact ones.

Whatever way a plan was made, its noise is normal, and what it guarantees is known exactly
(`gaussian_epsilon`): `Plan.spent` gives both numbers. They are for planning: what has been released
in fact is `ledger`'s. Noise is rounded up, so that neither says more than the plan was made for
after its last release; `ledger` bounds "advanced" and "basic" from above, and may where tau < 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_admm._checks import count, one_of, whole_numbers
from fedjax_admm.privacy import accountant

NOMINAL = "nominal, no guarantee"
"""What every epsilon is called where gradients are not clipped."""

UNIT = "one sample of one client, replaced by any other"
"""Who is protected: what may differ between two inputs that cannot be told apart."""
ADVERSARY = "sees every message of every client in every round"
"""From whom."""
PUBLIC = (
    "the graph, the numbers of samples, all hyper-parameters, the clipping norm, the regulariser, "
    "who takes part in which round"
)
"""What is taken to be known to everybody."""
NOT_COVERED = (
    "choosing hyper-parameters on the data, weights of the regulariser computed from the data, "
    "stopping or choosing a round by the data, the discreteness of floating-point noise, a key of "
    "the noise that is used twice, the models that clients keep to themselves"
)
"""What the guarantee does not speak of."""


def rounded_up(number: float, digits: int = 4) -> str:
    """Write an epsilon, a delta or a budget in few digits that are never less than it.

    A shorter epsilon promises more than was kept wherever rounding to nearest goes down. What lies
    above such a number by less than a part of 1e-13, as roundings in float64 do, is written as it.

    Args:
      number: not negative; may be infinite.
      digits: how many to write, at least 1, at most 13.

    Returns:
      The text, such as `rounded_up(1.0001) == "1.001"`.
    """
    exact = Decimal(float(number)) * (1 - Decimal("1e-13"))
    return f"{float(Context(digits, ROUND_CEILING).plus(exact)):.{digits}g}"


class Spent(NamedTuple):
    """What clients have spent; arrays of the shape of the counts, float64."""

    budget: np.ndarray  # zCDP: the sum of the budgets of the releases so far
    epsilon: np.ndarray  # at some delta, by some accounting
    exact_epsilon: np.ndarray  # at the same delta, exactly
    label: str  # "" or, without clipping, `NOMINAL`


@dataclass(frozen=True, eq=False)
class Plan:
    """The noise of a run's releases; build it with `zcdp_plan` or `approximate_plan`."""

    accounting: str  # a key of `ACCOUNTINGS`
    epsilon: float  # after the last release, by that accounting
    delta: float
    tau: float
    multipliers: np.ndarray  # shape=(rounds,), float64: z_n, standard deviation over sensitivity

    @property
    def rounds(self) -> int:
        """Return the number of planned releases of a client."""
        return self.multipliers.size

    @property
    def budgets(self) -> np.ndarray:
        """Return the zCDP budget `1 / (2 z_n^2)` of every release, shape (rounds,), float64."""
        return accountant.budgets_of(self.multipliers)

    @property
    def exact_epsilon(self) -> float:
        """Return the exact epsilon, at the plan's delta, of all planned releases."""
        return float(self.spent(self.rounds).exact_epsilon)

    def spent(self, releases: ArrayLike, *, clipped: bool = True) -> Spent:
        """Return what clients will have spent after so many releases of their own, all by the plan.

        Args:
          releases: whole numbers, any shape.
          clipped: whether gradients were clipped (`GaussianRelease.clipped`).

        Returns:
          Arrays of that shape. Who takes part less often has spent less; nothing is won by not
          knowing who did.
        """
        counts = np.asarray(releases)
        whole_numbers("releases", counts, counts.shape, at_most=self.rounds)
        different, places = np.unique(counts, return_inverse=True)
        places = places.reshape(counts.shape)
        each, claim = self.budgets, ACCOUNTINGS[self.accounting].claim
        budgets = np.array([math.fsum(each[:n].tolist()) for n in different])
        claims = [
            claim(self, self.multipliers[:n], budget) if n else 0.0
            for n, budget in zip(different, budgets, strict=True)
        ]
        exact = [accountant.gaussian_epsilon(budget, self.delta) for budget in budgets]
        return Spent(
            budgets[places],
            np.array(claims, np.float64)[places],
            np.array(exact, np.float64)[places],
            "" if clipped else NOMINAL,
        )

    def statement(self, *, clipped: bool = True) -> str:
        """Say what is guaranteed to whom, in one line per point.

        Args:
          clipped: whether gradients are clipped.

        Returns:
          A text to print with every result. Its epsilons are rounded up.
        """
        label = "" if clipped else f" ({NOMINAL})"
        described = ACCOUNTINGS[self.accounting].description
        claimed, exact = rounded_up(self.epsilon), rounded_up(self.exact_epsilon)
        delta = rounded_up(self.delta, 6)
        return "\n".join(
            [
                f"epsilon: {claimed} at delta {delta}, by {described}{label}",
                f"exact epsilon: {exact} at delta {delta}{label}",
                f"spent over: {self.rounds} releases of each client, tau {self.tau:g}",
                f"protected: {UNIT}",
                f"adversary: {ADVERSARY}",
                f"public: {PUBLIC}",
                f"not covered: {NOT_COVERED}",
            ]
        )


class Accounting(NamedTuple):
    """A way to add up what releases cost."""

    description: str
    # (plan, multipliers so far, sum of their budgets) -> epsilon
    claim: Callable[[Plan, np.ndarray, float], float]
    # (sum of the budgets of any releases, their number, delta) -> epsilon, or a bound of it
    composed: Callable[[float, int, float], float]


def zcdp_plan(epsilon: float, delta: float, rounds: int, tau: float = 0.985) -> Plan:
    """Plan noise by zero-concentrated differential privacy.

    The total budget is `(sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2`, release n has the
    share `tau^(T - n) / sum_s tau^(T - s)` of it, and `z_n = 1 / sqrt(2 budget_n)`.

    Args:
      epsilon: of the whole run, positive; infinity plans no noise.
      delta: of the whole run, between 0 and 1.
      rounds: number T of releases of each client.
      tau: each release has 1 / tau of the budget of the one before it; above 0, at most 1.

    Returns:
      The plan. Its exact epsilon is smaller than `epsilon`, by about a quarter at epsilon 1.

    Reference: F. Gauthier et al., "Private Networked Federated Learning for Nonsmooth Objectives",
    Theorem 2; M. Bun, T. Steinke, "Concentrated Differential Privacy", 2016, Proposition 1.3.
    """
    rounds = count("rounds", rounds)
    accountant.checked_number("epsilon", epsilon, above=0.0)
    total = accountant.zcdp_budget(epsilon, delta)
    return replace(zcdp_plan_of_budget(total, delta, rounds, tau), epsilon=float(epsilon))


def zcdp_plan_of_budget(budget: float, delta: float, rounds: int, tau: float = 0.985) -> Plan:
    """Plan noise for a total zCDP budget, such as `gaussian_budget(epsilon, delta)`.

    Args:
      budget: of the whole run, positive.
      delta: at which epsilons are stated.
      rounds: as `zcdp_plan`.
      tau: as `zcdp_plan`.
    """
    rounds = count("rounds", rounds)
    accountant.checked_number("budget", budget, above=0.0)
    multipliers = accountant.noise_multipliers(accountant.release_budgets(budget, rounds, tau))
    epsilon = accountant.zcdp_epsilon(budget, delta)
    return Plan("zcdp", float(epsilon), float(delta), float(tau), multipliers)


def approximate_plan(
    epsilon: float, delta: float, rounds: int, tau: float = 0.985, *, composition: str = "advanced"
) -> Plan:
    """Plan noise by adding up (epsilon_n, delta_n) of classical Gaussian mechanisms.

    `z_n = sqrt(2 ln(1.25 / delta_n)) / epsilon_n` with `epsilon_n = epsilon_1 tau^(-(n - 1) / 2)`.
    "advanced": delta_n = delta / (2 T), and epsilon_1 such that the composed epsilon with slack
    delta / 2 is `epsilon`. "basic": delta_n = delta / T, and the epsilon_n add up to `epsilon`.

    Args:
      epsilon: as `zcdp_plan`.
      delta: as `zcdp_plan`.
      rounds: as `zcdp_plan`.
      tau: as `zcdp_plan`.
      composition: "advanced" or "basic".

    Returns:
      The plan. The noise is the same as that of a zCDP plan with a smaller epsilon.

    Reference: C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014,
    Theorem A.1; P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential
    Privacy", 2017, Theorem 3.5.
    """
    rounds = count("rounds", rounds)
    accountant.checked_delta(delta)
    one_of("composition", composition, _PARTS)
    accountant.checked_number("epsilon", epsilon, above=0.0)
    multipliers = np.zeros(rounds)
    if epsilon < np.inf:
        if composition == "advanced":
            epsilons = accountant.advanced_epsilons(epsilon, delta / 2, rounds, tau)
        else:
            epsilons = accountant.basic_epsilons(epsilon, rounds, tau)
        each = _release_delta(composition, delta, rounds)
        multipliers = accountant.mechanism_multipliers(epsilons, each)
    return Plan(composition, float(epsilon), float(delta), float(tau), multipliers)


# Parts of delta per release: advanced composition itself spends one.
_PARTS = {"advanced": 2, "basic": 1}


def _release_delta(composition: str, delta: float, rounds: int) -> float:
    return delta / (_PARTS[composition] * rounds)


def _epsilons(plan: Plan, multipliers: np.ndarray) -> np.ndarray:
    """Return the epsilon_n of classical Gaussian mechanisms with these multipliers."""
    delta = _release_delta(plan.accounting, plan.delta, plan.rounds)
    with np.errstate(divide="ignore"):
        return math.sqrt(2 * math.log(1.25 / delta)) / multipliers


def _sums(composition: str, budget: float, releases: int, delta: float) -> tuple[float, float]:
    """Return the sum of the squares of the epsilon_n, and the largest sum that they can have."""
    each = _release_delta(composition, delta, releases)
    squares = 4 * np.log(1.25 / each) * budget
    return squares, np.sqrt(releases * squares)


def _composed_advanced(budget: float, releases: int, delta: float) -> float:
    squares, total = _sums("advanced", budget, releases, delta)
    drift = total * np.tanh(total / releases / 2)
    return float(min(total, drift + np.sqrt(2 * np.log(2 / delta) * squares)))


ACCOUNTINGS = {
    "zcdp": Accounting(
        "zero-concentrated differential privacy",
        lambda plan, _, budget: accountant.zcdp_epsilon(budget, plan.delta),
        lambda budget, _, delta: float(accountant.zcdp_epsilon(budget, delta)),
    ),
    "advanced": Accounting(
        "classical Gaussian mechanisms under advanced composition",
        lambda plan, z, _: accountant.advanced_epsilon(_epsilons(plan, z), plan.delta / 2),
        _composed_advanced,
    ),
    "basic": Accounting(
        "classical Gaussian mechanisms under basic composition",
        lambda plan, z, _: accountant.basic_epsilon(_epsilons(plan, z)),
        lambda budget, number, delta: float(_sums("basic", budget, number, delta)[1]),
    ),
}
"""The ways to add up what releases cost."""
