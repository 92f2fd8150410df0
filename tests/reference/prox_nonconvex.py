"""Float64 truth for nonconvex functions of one number: every local minimum, then the best.

Nothing here is shared with the JAX code, and no threshold formula is used: stationary points are
found by bisection of the slope of the objective, and their objectives compared with that at 0 (and
at the point, where g is flat there).
"""

import numpy as np

from tests.reference.kernels import elementwise


def largest_root(slope, bend, v):
    """Largest root in (0, v] of `slope`, convex with the derivative `bend`, or None."""
    low, high = 1e-60 * v, v
    if bend(low) < 0:  # the least value of slope first, by bisection of its derivative
        for _ in range(2000):
            middle = (low + high) / 2 if low > 1e-9 * v else np.sqrt(low) * np.sqrt(high)
            if not low < middle < high:
                break
            low, high = (middle, high) if bend(middle) < 0 else (low, middle)
    if slope(low) > 0:
        return None
    high = v
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return (low + high) / 2


def concave(value, rise, bend):
    """Prox of a concave function of magnitudes from its value and two derivatives."""

    @elementwise
    def prox(v, step, *parameters):
        if step == 0 or v == 0:
            return v
        a = abs(v)
        root = largest_root(
            lambda x: x + step * rise(x, *parameters) - a,
            lambda x: 1 + step * bend(x, *parameters),
            a,
        )
        if root is None or step * value(root, *parameters) + (root - a) ** 2 / 2 >= a * a / 2:
            return 0.0
        return np.copysign(root, v)

    return prox


prox_l_half = concave(np.sqrt, lambda x: x**-0.5 / 2, lambda x: -(x**-1.5) / 4)
prox_l_two_thirds = concave(
    lambda x: x ** (2 / 3), lambda x: 2 / 3 * x ** (-1 / 3), lambda x: -2 / 9 * x ** (-4 / 3)
)
prox_log_sum = concave(
    lambda x, epsilon: np.log((x + epsilon) / epsilon),
    lambda x, epsilon: 1 / (x + epsilon),
    lambda x, epsilon: -1 / (x + epsilon) ** 2,
)
prox_geman = concave(
    lambda x, gamma: x / (x + gamma),
    lambda x, gamma: gamma / (x + gamma) ** 2,
    lambda x, gamma: -2 * gamma / (x + gamma) ** 3,
)
prox_exponential_type = concave(
    lambda x, gamma: np.expm1(-gamma * x) / np.expm1(-gamma),
    lambda x, gamma: -gamma * np.exp(-gamma * x) / np.expm1(-gamma),
    lambda x, gamma: gamma**2 * np.exp(-gamma * x) / np.expm1(-gamma),
)


def _cheapest(v, step, value, candidates):
    costs = [step * value(x) + (x - v) ** 2 / 2 for x in candidates]
    return candidates[int(np.argmin(costs))]


@elementwise
def prox_l0(v, step):
    return _cheapest(v, step, lambda x: float(x != 0), [0.0, v])


@elementwise
def prox_capped_l1(v, step, theta):
    shrunk = np.sign(v) * max(abs(v) - step, 0.0)
    return _cheapest(v, step, lambda x: min(abs(x), theta), [shrunk, v])


@elementwise
def prox_capped_quadratic(v, step, weight, cap):
    shrunk = v / (1 + step * weight)
    return _cheapest(v, step, lambda x: min(weight * x * x / 2, cap), [shrunk, v])
