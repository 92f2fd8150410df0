"""Float64 truth for aggregators: plain loops over receivers, coordinates and vectors.

A rule takes the vectors (n, dim) and weights (n,) of those who are present at one receiver.
"""

import numpy as np


def by_receivers(rule, values, weights, groups, number, previous, cap=np.inf, **parameters):
    """Apply a rule receiver by receiver; who hears nobody keeps what stood there before."""
    found = np.array(previous, float)
    for receiver in range(number):
        here = (groups == receiver) & (weights > 0)
        if rule is not mean:
            here &= np.isfinite(values).all(1)
        if not here.any():
            continue
        votes = weights[here].astype(float)
        if cap < np.inf:
            votes = np.minimum(votes, cap * np.median(votes))
        if rule is centred_clipping:
            parameters["start"] = previous[receiver]
        found[receiver] = rule(values[here].astype(float), votes, **parameters)
    return found


def mean(x, s):
    return s @ x / s.sum()


def middle(numbers, s):
    """Walk through the sorted numbers until half of the weight is passed."""
    order = np.argsort(numbers, kind="stable")
    passed = 0.0
    for place, i in enumerate(order):
        passed += s[i]
        if np.isclose(passed, s.sum() / 2, rtol=1e-12, atol=0):
            return (numbers[i] + numbers[order[place + 1]]) / 2
        if passed > s.sum() / 2:
            return numbers[i]
    raise AssertionError("no weight")


def coordinate_median(x, s):
    return np.array([middle(column, s) for column in x.T])


def trimmed_mean(x, s, share):
    """Take weight away from the ends, vector by vector."""
    found = []
    for column in x.T:
        order = np.argsort(column, kind="stable")
        left = s[order].copy()
        for end in (range(len(left)), reversed(range(len(left)))):
            due = share * s.sum()
            for i in end:
                taken = min(due, left[i])
                left[i] -= taken
                due -= taken
        left[left < 1e-12 * s.sum()] = 0
        found.append(left[left > 0] @ column[order][left > 0] / left.sum())
    return np.array(found)


def weiszfeld(x, s, smoothing=None, steps=32):
    """Return all points of the smoothed iteration from the coordinate median."""
    z = coordinate_median(x, s)
    if smoothing is None:
        smoothing = max(1e-6 * middle(np.linalg.norm(x - z, axis=1), s), np.finfo(float).tiny)
    path = [z]
    for _ in range(steps):
        b = s / np.maximum(smoothing, np.linalg.norm(x - z, axis=1))
        z = b @ x / b.sum()
        path.append(z)
    return np.array(path), smoothing


def geometric_median(x, s, smoothing=None, steps=32):
    return weiszfeld(x, s, smoothing, steps)[0][-1]


def krum_order(x, bad, neighbours=None):
    """Return the vectors from the lowest to the highest score, ties to the lowest index."""
    n = len(x)
    nearest = min(max(n - bad - 2 if neighbours is None else neighbours, 1), n - 1)
    scores = []
    for i in range(n):
        apart = sorted(np.sum((x[i] - x[j]) ** 2) for j in range(n) if j != i)
        scores.append(sum(apart[:nearest]))
    return np.argsort(scores, kind="stable")


def multi_krum(x, s, bad, kept, neighbours=None):
    chosen = krum_order(x, bad, neighbours)[:kept]
    return s[chosen] @ x[chosen] / s[chosen].sum()


def shorten(vector, radius):
    length = np.linalg.norm(vector)
    return vector if length <= radius else vector * (radius / length)


def centred_clipping(x, s, radius, start, steps=1):
    v = start
    for _ in range(steps):
        v = v + s @ np.array([shorten(row - v, radius) for row in x]) / s.sum()
    return v


def norm_bounding(x, s, radius):
    return s @ np.array([shorten(row, radius) for row in x]) / s.sum()
