"""A total budget of zCDP as epsilon and delta, and back: classical, by Renyi, and exact."""

import math

import numpy as np

from fedjax_admm.privacy.accountant._arguments import (
    Values,
    bisected,
    checked_delta,
    checked_number,
    each_number,
    stepped_while,
)

# Trapezoidal rule in y = log t for integrals over t > 0 of the functions of `log_delta_with_error`.
# They are analytic for |Im y| < pi/4, so the error is about exp(-2 pi (pi/4) / step) = 1e-17.
_STEP = 0.125
_NODES = np.exp(np.arange(-40.0, 4.0, _STEP, dtype=np.float64))
_FAR = 50.0  # beyond this many standard deviations delta is below every float64


def zcdp_epsilon(budget: Values, delta: float) -> Values:
    """Epsilon of a zCDP budget by the classical formula.

    `epsilon = phi + 2 sqrt(phi ln(1/delta))`. It is the weakest of the three conversions:
    `gaussian_epsilon <= renyi_epsilon <= zcdp_epsilon`.

    Reference: M. Bun, T. Steinke, "Concentrated Differential Privacy: Simplifications, Extensions,
    and Lower Bounds", TCC 2016, Proposition 1.3.
    """
    root = math.sqrt(-math.log(checked_delta(delta)))
    return each_number(
        lambda phi: phi + 2.0 * math.sqrt(phi) * root, "budget", budget, at_least=0.0
    )


def zcdp_budget(epsilon: Values, delta: float) -> Values:
    """Budget whose classical epsilon is given: the inverse of `zcdp_epsilon`.

    `phi = (sqrt(L + epsilon) - sqrt(L))^2` with `L = ln(1/delta)`, computed without cancellation
    as `(epsilon / (sqrt(L + epsilon) + sqrt(L)))^2` and rounded down.

    Reference: as `zcdp_epsilon`.
    """
    log_inverse = -math.log(checked_delta(delta))

    def one(eps: float) -> float:
        if math.isinf(eps):
            return math.inf
        root = eps / (math.sqrt(log_inverse + eps) + math.sqrt(log_inverse))
        return stepped_while(lambda phi: zcdp_epsilon(phi, delta) > eps, root * root, 0.0)

    return each_number(one, "epsilon", epsilon, at_least=0.0)


def renyi_epsilon(budget: Values, delta: float) -> Values:
    """Epsilon of a zCDP budget by the best conversion through Renyi orders.

    The infimum over the orders `alpha > 1` of
    `phi alpha + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1)`. With `x = alpha - 1` and
    `L = ln(1/delta)` its derivative is `phi - (L - log(1 + x)) / x^2`, which changes its sign once:
    the minimiser is the only root of `phi x^2 + log(1 + x) = L`, found by bisection. The value is
    rounded up, so that it is never below the infimum.

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

    return each_number(one, "budget", budget, at_least=0.0)


def gaussian_delta(budget: Values, epsilon: float) -> Values:
    """Exact delta of Gaussian releases at a given epsilon.

    `delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)` with `mu = sqrt(2 phi)`
    and the normal distribution function Phi. Gaussian releases of total budget phi satisfy this,
    however the budget is divided among them, and no smaller delta holds. The relative error is
    below 2e-15 times `(1 + |s|) (1 + |s| + mu) + |log mu|`, `s = epsilon/mu - mu/2`, also where
    delta is small.

    Reference: B. Balle, Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy",
    ICML 2018, Theorem 8; J. Dong, A. Roth, W. Su, "Gaussian Differential Privacy", JRSS B 84(1),
    2022, Corollary 1 and Corollary 2.
    """
    eps = checked_number("epsilon", epsilon, at_least=0.0)

    def one(phi: float) -> float:
        return math.exp(log_delta_with_error(phi, eps)[0])

    return each_number(one, "budget", budget, at_least=0.0)


def gaussian_epsilon(budget: Values, delta: float) -> Values:
    """Exact epsilon of Gaussian releases at a given delta.

    The smallest epsilon >= 0 with `gaussian_delta(budget, epsilon) <= delta`, by bisection to a
    relative 1e-12 and rounded up: what is returned holds.

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
        return bisected(holds, good=high, bad=0.0)

    return each_number(one, "budget", budget, at_least=0.0)


def gaussian_budget(epsilon: Values, delta: float) -> Values:
    """Largest budget that Gaussian releases may spend at a given epsilon and delta.

    The largest phi with `gaussian_delta(phi, epsilon) <= delta`, by bisection to a relative 1e-12
    and rounded down: what is returned may be spent.

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
        # `gaussian_epsilon` of it, which is rounded up, is not above epsilon.
        return (1 - 4e-13) * bisected(holds, good=low, bad=high)

    return each_number(one, "epsilon", epsilon, at_least=0.0)


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
