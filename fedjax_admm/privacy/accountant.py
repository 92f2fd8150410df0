"""The accountant of Gaussian releases: from budgets to epsilon and delta, and back.

Two data sets are neighbours if one sample of one client is replaced by any other sample. A release
is a vector plus Gaussian noise of standard deviation sigma per entry; Delta is the largest distance
between the vectors of neighbours, given all earlier releases. Only the noise multiplier
z = sigma / Delta counts: the release satisfies phi-zCDP (zero-concentrated differential privacy)
with the budget phi = 1 / (2 z^2). Budgets of adaptive releases add up. Since the replaced sample
belongs to one client, the budgets of different clients do not.

    budget          phi, of one release or the sum over all
    epsilon, delta  differential privacy: P(S) <= e^epsilon P'(S) + delta for every event S
    release n       n = 1, ..., rounds

Everything is computed on the host in float64: the precision of the session does not matter.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from fedjax_admm._checks import InputError, count, one_line

Values = TypeVar("Values", float, np.ndarray)

_WIDTH = 1e-13  # relative width at which a bisection ends

# Trapezoidal rule in y = log t for integrals over t > 0 of the functions of `log_delta_with_error`.
# They are analytic for |Im y| < pi/4, so the error is about exp(-2 pi (pi/4) / step) = 1e-17.
_STEP = 0.125
_NODES = np.exp(np.arange(-40.0, 4.0, _STEP, dtype=np.float64))
_FAR = 50.0  # beyond this many standard deviations delta is below every float64


# --- conversions of a total budget ----------------------------------------------------------------


def zcdp_epsilon(budget: Values, delta: float) -> Values:
    """Epsilon of a zCDP budget by the classical formula.

    `epsilon = phi + 2 sqrt(phi ln(1/delta))`. It is the weakest of the three conversions:
    `gaussian_epsilon <= renyi_epsilon <= zcdp_epsilon`.

    Args:
      budget: total budget phi >= 0, a number or an array; infinity means no privacy.
      delta: probability of failure, between 0 and 1.

    Returns:
      Epsilon >= 0, of the shape of `budget`.

    Raises:
      InputError: an argument is out of range.

    Reference: M. Bun, T. Steinke, "Concentrated Differential Privacy: Simplifications, Extensions,
    and Lower Bounds", TCC 2016, Proposition 1.3.
    """
    root = math.sqrt(-math.log(checked_delta(delta)))

    def one(phi: float) -> float:
        return phi + 2.0 * math.sqrt(phi) * root

    return _each(one, "budget", budget, at_least=0.0)


def zcdp_budget(epsilon: Values, delta: float) -> Values:
    """Budget whose classical epsilon is given: the inverse of `zcdp_epsilon`.

    `phi = (sqrt(L + epsilon) - sqrt(L))^2` with `L = ln(1/delta)`, computed without cancellation
    as `(epsilon / (sqrt(L + epsilon) + sqrt(L)))^2`.

    Args:
      epsilon: epsilon >= 0, a number or an array; infinity means no privacy.
      delta: probability of failure, between 0 and 1.

    Returns:
      Total budget phi >= 0, of the shape of `epsilon`.

    Raises:
      InputError: an argument is out of range.

    Reference: as `zcdp_epsilon`.
    """
    log_inverse = -math.log(checked_delta(delta))

    def one(eps: float) -> float:
        if math.isinf(eps):
            return math.inf
        root = eps / (math.sqrt(log_inverse + eps) + math.sqrt(log_inverse))
        return root * root

    return _each(one, "epsilon", epsilon, at_least=0.0)


def renyi_epsilon(budget: Values, delta: float) -> Values:
    """Epsilon of a zCDP budget by the best conversion through Renyi orders.

    The infimum over the orders `alpha > 1` of
    `phi alpha + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1)`. With `x = alpha - 1` and
    `L = ln(1/delta)` its derivative is `phi - (L - log(1 + x)) / x^2`, which changes its sign once:
    the minimiser is the only root of `phi x^2 + log(1 + x) = L`, found by bisection. The value is
    rounded up, so that it is never below the infimum.

    Args:
      budget: total budget phi >= 0, a number or an array; infinity means no privacy.
      delta: probability of failure, between 0 and 1.

    Returns:
      Epsilon >= 0, of the shape of `budget`.

    Raises:
      InputError: an argument is out of range.

    Reference: C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy",
    NeurIPS 2020, Proposition 12 (arXiv:2004.00010).
    """
    log_inverse = -math.log(checked_delta(delta))

    def one(phi: float) -> float:
        if phi == 0.0 or math.isinf(phi):
            return phi
        # At `low` both terms on the left are at most L/2; at `high` the first one alone is L.
        high = math.sqrt(log_inverse) / math.sqrt(phi)
        low = min(math.sqrt(0.5) * high, math.expm1(0.5 * log_inverse))
        for _ in range(100):  # in log x, because the bracket may span many powers of ten
            x = math.sqrt(low) * math.sqrt(high)
            if phi * x * x + math.log1p(x) < log_inverse:
                low = x
            else:
                high = x
        x = high
        terms = (phi, phi * x, -math.log1p(1.0 / x), log_inverse / x, -math.log1p(x) / x)
        return max(0.0, sum(terms) + 1e-15 * sum(abs(term) for term in terms))

    return _each(one, "budget", budget, at_least=0.0)


def gaussian_delta(budget: Values, epsilon: float) -> Values:
    """Exact delta of Gaussian releases at a given epsilon.

    `delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)` with `mu = sqrt(2 phi)`
    and the normal distribution function Phi. Gaussian releases of total budget phi satisfy this,
    however the budget is divided among them, and no smaller delta holds. The relative error is
    below 2e-15 times `(1 + |s|) (1 + |s| + mu) + |log mu|`, `s = epsilon/mu - mu/2`, also where
    delta is small.

    Args:
      budget: total budget phi >= 0, a number or an array; infinity means no privacy.
      epsilon: epsilon >= 0.

    Returns:
      Delta, between 0 and 1, of the shape of `budget`.

    Raises:
      InputError: an argument is out of range.

    Reference: B. Balle, Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy",
    ICML 2018, Theorem 8; J. Dong, A. Roth, W. Su, "Gaussian Differential Privacy", JRSS B 84(1),
    2022, Corollary 1 and Corollary 2.
    """
    eps = checked_number("epsilon", epsilon, at_least=0.0)

    def one(phi: float) -> float:
        return math.exp(log_delta_with_error(phi, eps)[0])

    return _each(one, "budget", budget, at_least=0.0)


def gaussian_epsilon(budget: Values, delta: float) -> Values:
    """Exact epsilon of Gaussian releases at a given delta.

    The smallest epsilon >= 0 with `gaussian_delta(budget, epsilon) <= delta`, by bisection to a
    relative 1e-12 and rounded up: what is returned holds.

    Args:
      budget: total budget phi >= 0, a number or an array; infinity means no privacy.
      delta: probability of failure, between 0 and 1.

    Returns:
      Epsilon >= 0, of the shape of `budget`.

    Raises:
      InputError: an argument is out of range.

    Reference: as `gaussian_delta`.
    """
    log_allowed = math.log(checked_delta(delta))

    def one(phi: float) -> float:
        if phi == 0.0 or math.isinf(phi):
            return phi

        def holds(eps: float) -> bool:
            return sum(log_delta_with_error(phi, eps)) <= log_allowed

        if holds(0.0):
            return 0.0
        high = zcdp_epsilon(phi, delta)
        while not holds(high):  # only where rounding outweighs the gap between the two formulas
            high *= 2.0
        return _bisect(holds, good=high, bad=0.0)

    return _each(one, "budget", budget, at_least=0.0)


def gaussian_budget(epsilon: Values, delta: float) -> Values:
    """Largest budget that Gaussian releases may spend at a given epsilon and delta.

    The largest phi with `gaussian_delta(phi, epsilon) <= delta`, by bisection to a relative 1e-12
    and rounded down: what is returned may be spent.

    Args:
      epsilon: epsilon >= 0, a number or an array; infinity means no privacy.
      delta: probability of failure, between 0 and 1.

    Returns:
      Total budget phi >= 0, of the shape of `epsilon`.

    Raises:
      InputError: an argument is out of range.

    Reference: as `gaussian_delta`.
    """
    allowed = checked_delta(delta)
    log_allowed = math.log(allowed)

    def one(eps: float) -> float:
        if math.isinf(eps):
            return math.inf

        def holds(phi: float) -> bool:
            return sum(log_delta_with_error(phi, eps)) <= log_allowed

        # The classical formula allows less, and so does delta(eps) <= delta(0) <= mu / sqrt(2 pi).
        low = 0.5 * max(zcdp_budget(eps, delta), math.pi * allowed * allowed)
        high = 2.0 * low
        while holds(high) and high > 0.0:  # at 0 the answer is below every float64
            low, high = high, 2.0 * high
        return _bisect(holds, good=low, bad=high)

    return _each(one, "epsilon", epsilon, at_least=0.0)


# --- budgets and noise of the single releases -----------------------------------------------------


def release_budgets(total: float, rounds: int, tau: float) -> np.ndarray:
    """Divide a budget among releases so that it grows by 1/tau from each to the next.

    `phi_n = total tau^(T-n) / sum_s tau^(T-s)` for n = 1, ..., T, hence `phi_{n+1} = phi_n / tau`.

    Args:
      total: total budget, greater than 0; infinity gives every release an infinite budget.
      rounds: number of releases T.
      tau: quotient of two successive budgets, greater than 0 and at most 1.

    Returns:
      Budgets, shape (rounds,). Their sum is `total` to a relative 1e-14, and never above it.

    Raises:
      InputError: an argument is out of range; or tau is so small for so many rounds that the first
        releases get no budget that can be told from 0.
    """
    return _divided("total", total, rounds, tau, power=1.0)


def noise_multipliers(budgets: Values) -> Values:
    """Noise multipliers that spend given budgets: `z = sigma / Delta = 1 / sqrt(2 phi)`.

    Args:
      budgets: budgets phi > 0 of the releases, a number or an array; infinity asks for no noise.

    Returns:
      Multipliers z >= 0, of the shape of `budgets`.

    Raises:
      InputError: a budget is not greater than 0 (it would take infinite noise).
    """

    def one(phi: float) -> float:
        return math.sqrt(0.5) / math.sqrt(phi)

    return _each(one, "budgets", budgets, above=0.0)


def budgets_of(multipliers: Values) -> Values:
    """Budgets that given noise multipliers spend: `phi = 1 / (2 z^2)`, see `noise_multipliers`.

    Args:
      multipliers: noise multipliers z >= 0 of the releases, a number or an array; 0 is no noise.

    Returns:
      Budgets phi, of the shape of `multipliers`; infinity where there is no noise.

    Raises:
      InputError: a multiplier is negative or not a number.
    """

    def one(z: float) -> float:
        return 0.5 / z / z if z else math.inf

    return _each(one, "multipliers", multipliers, at_least=0.0)


# --- releases that are (epsilon, delta) each, and their composition -------------------------------


def mechanism_multipliers(epsilons: Values, delta: float) -> Values:
    """Noise multipliers of the classical Gaussian mechanism.

    `z_n = sqrt(2 ln(1.25/delta)) / epsilon_n` makes release n (epsilon_n, delta)-differentially
    private if `epsilon_n <= 1`.

    Args:
      epsilons: epsilon of the releases, a number or an array, greater than 0 and at most 1;
        infinity asks for no noise.
      delta: probability of failure of each single release, between 0 and 1.

    Returns:
      Multipliers z, of the shape of `epsilons`.

    Raises:
      InputError: delta is out of range; or some epsilon is not greater than 0, or is above 1.

    Reference: C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014,
    Theorem A.1 (stated for epsilon below 1; at 1 by continuity).
    """
    top = math.sqrt(2.0 * math.log(1.25 / checked_delta(delta)))
    seen = _reals("epsilons", epsilons, above=0.0)
    over = np.flatnonzero((seen > 1.0) & np.isfinite(seen))
    if over.size:
        raise InputError(
            "must be at most 1 for the classical Gaussian mechanism, but that of release "
            f"{over[0] + 1} is {seen.ravel()[over[0]]:g}",
            argument="epsilons",
            value=epsilons,
            remedy="take a smaller total epsilon, more rounds or a larger tau",
        )
    return _each(lambda eps: top / eps, "epsilons", epsilons)


def basic_epsilon(epsilons: ArrayLike) -> float:
    """Epsilon of all releases by basic composition: the sum of `epsilons`.

    The deltas add up as well.

    Args:
      epsilons: epsilon >= 0 of each release, shape (rounds,).

    Returns:
      Epsilon of the whole.

    Raises:
      InputError: an epsilon is negative or not a number.

    Reference: C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014,
    Theorem 3.16.
    """
    return math.fsum(_reals("epsilons", epsilons, at_least=0.0).ravel())


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

    Raises:
      InputError: an argument is out of range.

    Reference: P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential Privacy",
    IEEE Transactions on Information Theory 63(6), 2017, Theorem 3.5.
    """
    eps = _reals("epsilons", epsilons, at_least=0.0)
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

    Raises:
      InputError: an argument is out of range; or the first releases get nothing that can be told
        from 0.
    """
    return _divided("epsilon", epsilon, rounds, tau, power=0.5)


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

    Raises:
      InputError: an argument is out of range; or the first releases get nothing that can be told
        from 0.

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
    return _bisect(holds, good=1.0, bad=high) * basic


# --- helpers --------------------------------------------------------------------------------------


def log_delta_with_error(phi: float, eps: float) -> tuple[float, float]:
    """Log of the exact delta of Gaussian releases, and a bound of its rounding error.

    With the normal density f, `s = eps/mu - mu/2` and the ratio of Mills `R(x) = Phi(-x) / f(x)`,
    `e^eps f(s + mu) = f(s)` and therefore `delta = f(s) (R(s) - R(s + mu))`. As
    `R(x) = int_0^inf exp(-x t - t^2/2) dt`, the difference is one integral of a positive function,
    `int_0^inf exp(-s t - t^2/2) (1 - exp(-mu t)) dt`, in which nothing cancels or overflows. For
    `s < -1`, where delta > 2/3, the same is `1 - Phi(s) - f(s) R(s + mu)`.
    """
    if phi == 0.0 or math.isinf(eps):
        return -math.inf, 0.0
    if math.isinf(phi):
        return 0.0, 0.0
    mu = math.sqrt(2.0) * math.sqrt(phi)
    s = eps / mu - mu / 2.0
    if s - 4e-15 * (abs(s) + mu) > _FAR:
        return -math.inf, 0.0
    far = s < -1.0
    start = s + mu if far else s
    t = _NODES / (1.0 + max(start, 0.0))
    values = t * np.exp(-t * (start + t / 2.0))
    if not far:
        values *= -np.expm1(-mu * t)
    log_integral = math.log(_STEP * float(np.sum(values)))
    error = 2e-15 * ((1.0 + abs(s)) * (1.0 + abs(s) + mu) + abs(log_integral))
    log_term = log_integral - s * s / 2.0 - 0.5 * math.log(2.0 * math.pi)
    if far:
        lost = 0.5 * math.erfc(-s * math.sqrt(0.5)) + math.exp(log_term)
        return math.log1p(-lost), error
    return log_term, error


def _bisect(holds: Callable[[float], bool], good: float, bad: float) -> float:
    """Narrow [good, bad] (in any order) around the place where `holds` ends; return the good end.

    It ends at a relative width of 1e-13, or after as many steps as float64 has powers of two.
    """
    for _ in range(1200):
        if abs(good - bad) <= _WIDTH * max(good, bad):
            break
        middle = good + (bad - good) / 2.0
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


def _advanced(eps: np.ndarray, log_inverse_slack: float) -> float:
    """The formula of `advanced_epsilon`."""
    basic = math.fsum(eps.ravel())
    if math.isinf(basic):
        return math.inf
    drift = math.fsum((eps * np.tanh(eps / 2.0)).ravel())
    return min(basic, drift + math.sqrt(2.0 * log_inverse_slack * math.fsum((eps * eps).ravel())))


def _divided(name: str, total: float, rounds: int, tau: float, power: float) -> np.ndarray:
    """Divide `total` in proportion to `tau^(power (rounds - n))`, n = 1, ..., rounds."""
    total = checked_number(name, total, above=0.0)
    rounds = count("rounds", rounds)
    tau = checked_number("tau", tau, above=0.0, at_most=1.0)
    if math.isinf(total):
        return np.full(rounds, math.inf, dtype=np.float64)
    weights = np.power(tau, power * np.arange(rounds - 1, -1, -1, dtype=np.float64))
    parts = total * (weights / math.fsum(weights))
    smallest = float(np.finfo(np.float64).tiny)  # below it digits are lost
    lost = int(np.count_nonzero(np.minimum(weights, parts) < smallest))
    if lost:
        which = "release 1 gets" if lost == 1 else f"releases 1 to {lost} get"
        raise InputError(
            f"tau = {tau:g} over {rounds} rounds is too small: {which} no share of {name} = "
            f"{total:g} that is above {smallest:.1e}",
            value=tau,
            remedy="take a larger tau or fewer rounds",
        )
    while math.fsum(parts) > total:
        parts *= 1.0 - 2.0**-52
    return parts


def _each(function: Callable[[float], float], name: str, value: Values, **limits: float) -> Values:
    """Apply a function of one number to a checked number or to every entry of an array."""
    seen = _reals(name, value, **limits)
    results = [function(entry) for entry in seen.ravel().tolist()]
    if seen.ndim == 0:
        return cast(Values, results[0])
    return cast(Values, np.array(results, dtype=np.float64).reshape(seen.shape))


def checked_delta(delta: float) -> float:
    """The checked probability of failure."""
    return checked_number("delta", delta, above=0.0, below=1.0)


def checked_number(name: str, value: Any, **limits: float) -> float:
    """One checked number as a Python float."""
    seen = _reals(name, value, **limits)
    if seen.ndim:
        raise InputError(
            f"must be one number, but it has shape {seen.shape}", argument=name, value=value
        )
    return seen.item()


def _reals(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> np.ndarray:
    """Checked numbers as a float64 array; infinity is a number, NaN is not."""
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):  # ragged lists; values inside a transformation
        given = np.asarray(None)
    if given.dtype.kind not in "iuf":
        raise InputError(
            "must be a number or an array of numbers that is known on the host, but it is "
            f"{one_line(value)}",
            argument=name,
            value=value,
        )
    seen = given.astype(np.float64)
    limits = [(~np.isnan(seen), "a number")]
    if above is not None:
        limits.append((seen > above, f"greater than {above:g}"))
    if at_least is not None:
        limits.append((seen >= at_least, f"at least {at_least:g}"))
    if at_most is not None:
        limits.append((seen <= at_most, f"at most {at_most:g}"))
    if below is not None:
        limits.append((seen < below, f"less than {below:g}"))
    for holds, wanted in limits:
        bad = np.flatnonzero(~holds)
        if bad.size:
            where = f"entry {bad[0]} " if seen.ndim else "it "
            raise InputError(
                f"must be {wanted}, but {where}is {seen.ravel()[bad[0]]:g}",
                argument=name,
                value=value,
            )
    return seen
