"""Float64 truth for convex functions of one number: minimisers by bisection of the slope.

The map of a convex g is where the slope `g'(x) + (x - v) / step` changes its sign. Here that place
is halved until nothing is left of the interval: no formula of the map is used but for projections.
"""

import numpy as np

TINY, HUGE = 1e-300, 1e300


def _shaped(*arguments):
    return np.broadcast_arrays(*(np.asarray(a, np.float64) for a in arguments))


def _order(x):
    """Number floats in their order: the middle of two numbers leaves as many on either side."""
    bits = np.abs(x).view(np.int64)
    return np.where(x < 0, -bits, bits)


def _float(order):
    bits = np.abs(order).view(np.float64)
    return np.where(order < 0, -bits, bits)


def _bisect(slope, low, high):
    """Where a nondecreasing function of floats changes its sign, to the last bit."""
    low, high = _order(low), _order(high)
    for _ in range(66):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        with np.errstate(all="ignore"):
            rises = slope(_float(middle)) > 0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    return _float(high)


def minimiser(slope, v, step, *parameters, low=-np.inf, high=np.inf):
    """Minimise g plus the half square; `slope(x, *parameters)` is the derivative of g.

    At a kink it may be that of either side. The step 0 gives the projection on [low, high].
    """
    v, step, low, high, *parameters = _shaped(v, step, low, high, *parameters)
    low, high = (np.clip(end, -HUGE, HUGE) for end in (low, high))

    def objective(x):
        return step * slope(x, *parameters) + (x - v)

    found = np.clip(_bisect(objective, low, high), low, high)
    # The last step of the bisection has left 0 by the smallest float.
    found = np.where(np.abs(found) < 1e-310, 0.0, found)
    return np.where(step > 0, found, np.clip(v, low, high))


def _sign(x):
    """Slope of the modulus, that from above at 0."""
    return np.where(x >= 0, 1.0, -1.0)


def prox_non_negative_l1(v, step):
    return minimiser(lambda x: np.ones_like(x), v, step, low=0.0)


def prox_non_negative_squared_l2(v, step, weight):
    return minimiser(lambda x, weight: weight * x, v, step, weight, low=0.0)


def prox_box_l1(v, step, weight, lower, upper):
    return minimiser(lambda x, weight: weight * _sign(x), v, step, weight, low=lower, high=upper)


def prox_box_squared_l2(v, step, weight, lower, upper):
    return minimiser(lambda x, weight: weight * x, v, step, weight, low=lower, high=upper)


def prox_huber(v, step, delta):
    def slope(x, delta):
        return np.where(np.abs(x) <= delta, x, np.copysign(delta, x))

    return minimiser(slope, v, step, delta)


def prox_sum_positive(v, step):
    return minimiser(lambda x: (x > 0) * 1.0, v, step)


def prox_linear(v, step, slope):
    return minimiser(lambda x, slope: slope + 0 * x, v, step, slope)


def prox_hinge(v, step):
    return minimiser(lambda x: np.where(x < 1, -1.0, 0.0), v, step)


def prox_squared_hinge(v, step):
    return minimiser(lambda x: np.where(x < 1, -2 * (1 - x), 0.0), v, step)


def _sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def prox_logistic(v, step):
    return minimiser(lambda x: -_sigmoid(-x), v, step)


def prox_cross_entropy(v, step, target):
    def slope(x, target):
        return (1 - target) * _sigmoid(x) - target * _sigmoid(-x)

    return minimiser(slope, v, step, target)


def prox_poisson(v, step, counts):
    return minimiser(lambda x, y: 1 - y / np.maximum(x, TINY), v, step, counts, low=0.0)


def prox_log_barrier(v, step, weight):
    return minimiser(lambda x, w: -w / np.maximum(x, TINY), v, step, weight, low=0.0)


def prox_bernoulli(v, step, target):
    def slope(x, t):
        return (1 - t) / np.maximum(1 - x, TINY) - t / np.maximum(x, TINY)

    return minimiser(slope, v, step, target, low=0.0, high=1.0)


def prox_kl(v, step, reference):
    def slope(x, y):
        return np.log(np.maximum(x / y, TINY))

    return minimiser(slope, v, step, reference, low=0.0)


def prox_entropy(v, step):
    return minimiser(lambda x: 1 + np.log(np.maximum(x, TINY)), v, step, low=0.0)


def project_non_negative(v):
    return np.array([max(number, 0.0) for number in np.ravel(v)]).reshape(np.shape(v))


def project_binary(v, low, high):
    """Return the nearer of two values; on a tie the larger one."""
    v, low, high = _shaped(v, low, high)
    return np.where(v - low >= high - v, high, low)
