"""Float64 truth for the kernels of vectors: sorted thresholds, bisections, brute force, pools.

Nothing here is shared with the JAX code, which sorts where this bisects and searches where this
sorts. All take the last axis.
"""

from itertools import combinations

import numpy as np


def by_rows(function):
    """Return a function of a vector and numbers or vectors as one of stacked vectors."""

    def call(points, *parameters, **static):
        rows = np.reshape(points, (-1, points.shape[-1]))

        def of_row(part, i):
            part = np.asarray(part)
            if part.ndim == 0:
                return part
            full = np.broadcast_to(part, (*points.shape[:-1], part.shape[-1]))
            row = full.reshape(-1, part.shape[-1])[i]
            return row[0] if part.shape[-1] == 1 else row

        found = [
            function(row, *(of_row(part, i) for part in parameters), **static)
            for i, row in enumerate(rows)
        ]
        return np.reshape(found, points.shape)

    call.__name__ = function.__name__
    return call


@by_rows
def project_simplex(v, mass):
    """The rule of sorted cumulative sums."""
    sizes = v - v.max()
    ordered = np.sort(sizes)[::-1]
    thresholds = (np.cumsum(ordered) - mass) / np.arange(1, v.size + 1)
    count = max(np.flatnonzero(ordered > thresholds), default=0)
    return np.maximum(sizes - thresholds[count], 0)


@by_rows
def project_weighted_simplex(v, weights, mass):
    """The sets of positive entries are tried in the order of the ratios."""
    weights = np.broadcast_to(weights, v.shape)
    heavy = weights > 0
    best = np.maximum(v, 0.0)
    ratios = np.where(heavy, v / np.where(heavy, weights, 1), -np.inf)
    order = np.argsort(-ratios)[: heavy.sum()]
    for count in range(1, order.size + 1):
        chosen = order[:count]
        t = (weights[chosen] @ v[chosen] - mass) / (weights[chosen] @ weights[chosen])
        if count == order.size or t >= ratios[order[count]]:
            best[heavy] = np.maximum(v - t * weights, 0)[heavy]
            return best
    return best


@by_rows
def project_sparse_simplex(v, mass, k):
    """Every support of k entries is tried."""
    found = []
    for support in combinations(range(v.size), min(k, v.size)):
        x = np.zeros_like(v)
        x[list(support)] = project_simplex(v[list(support)], mass)
        found.append((np.sum((x - v) ** 2), x))
    return min(found, key=lambda pair: round(pair[0], 12))[1]


@by_rows
def project_l1_ball(v, radius):
    if np.abs(v).sum() <= radius:
        return v
    return _bisected(lambda t: np.sign(v) * np.maximum(np.abs(v) - t, 0), np.abs, radius, v)


@by_rows
def project_l1_sphere(v, radius):
    sign = np.where(v < 0, -1.0, 1.0)
    return sign * project_simplex(np.abs(v), radius)


@by_rows
def project_weighted_l1_ball(v, weights, radius):
    if weights @ np.abs(v) <= radius:
        return v

    def moved(t):
        return np.sign(v) * np.maximum(np.abs(v) - t * weights, 0)

    return _bisected(moved, lambda x: weights * np.abs(x), radius, v / np.maximum(weights, 1e-3))


def _bisected(moved, size, goal, v):
    """The threshold is halved between 0 and all there is."""
    low, high = 0.0, np.abs(v).max() * 2 + 1
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if size(moved(middle)).sum() > goal else (low, middle)
    return moved(high)


@by_rows
def prox_max(v, step):
    """The level falls from the largest entry; so much is lost until the next one is reached."""
    ordered = np.sort(v)[::-1]
    level, lost = ordered[0], 0.0
    for count in range(1, v.size + 1):
        below = ordered[count] if count < v.size else -np.inf
        room = count * (level - below)
        if lost + room >= step:
            return np.minimum(v, level - (step - lost) / count)
        level, lost = below, lost + room
    raise AssertionError("the last room is infinite")


@by_rows
def prox_linf(v, step):
    if np.abs(v).sum() <= step:
        return 0 * v
    return np.sign(v) * np.minimum(np.abs(v), prox_max(np.abs(v), step))


@by_rows
def prox_sum_largest(v, step, k):
    """What is lost is bisected."""
    low, high = v.min() - step - 1, v.max() + 1
    for _ in range(200):
        middle = (low + high) / 2
        more = np.clip(v - middle, 0, step).sum() > k * step
        low, high = (middle, high) if more else (low, middle)
    return v - np.clip(v - low, 0, step)


@by_rows
def project_box_section(v, lower, upper, weights, total):
    """The multiplier is bisected between all corners; then the free entries solve a plane."""
    lower, upper, weights = (np.broadcast_to(part, v.shape) for part in (lower, upper, weights))

    def at(t):
        return np.clip(v - t * weights, lower, upper)

    reach = 1e3 * (np.abs(v).max() + np.abs(total) + np.abs(at(0.0)).max())
    low, high = -reach, reach
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if weights @ at(middle) > total else (low, middle)
    x = at((low + high) / 2)
    room = 1e-10 * reach
    free = (x > lower + room) & (x < upper - room)
    if free.any():
        rest = total - weights[~free] @ x[~free]
        part = weights[free]
        x[free] = v[free] + part * (rest - part @ v[free]) / (part @ part)
    return x


@by_rows
def project_top_k(v, k):
    order = sorted(range(v.size), key=lambda i: (-abs(v[i]), i))
    return np.where(np.isin(np.arange(v.size), order[:k]), v, 0.0)


def project_top_k_groups(v, k):
    """The groups are on the last axis but one."""
    found = np.zeros_like(v)
    for place in np.ndindex(v.shape[:-2]):
        norms = np.sqrt(np.sum(v[place] ** 2, -1))
        order = sorted(range(norms.size), key=lambda i: (-norms[i], i))
        found[place][order[:k]] = v[place][order[:k]]
    return found


def pooled(v, weights):
    """Pool adjacent violators, with a stack."""
    blocks = []
    for entry, weight in zip(v, weights, strict=True):
        blocks.append([entry, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, heavy, count = blocks.pop()
            before = blocks[-1]
            both = before[1] + heavy
            blocks[-1] = [(before[0] * before[1] + mean * heavy) / both, both, before[2] + count]
    return np.concatenate([np.full(count, mean) for mean, _, count in blocks])


@by_rows
def project_isotonic(v, weights, increasing=True):
    weights = np.broadcast_to(weights, v.shape)
    return pooled(v, weights) if increasing else -pooled(-v, weights)


@by_rows
def prox_slope(v, step, weights):
    order = np.argsort(-np.abs(v), kind="stable")
    fit = -pooled(step * weights - np.abs(v)[order], np.ones(v.size))
    found = np.zeros_like(v)
    found[order] = np.maximum(fit, 0)
    return np.sign(v) * found


@by_rows
def project_permutahedron(v, weights):
    """Every ordered partition of the sorted entries is tried: a face fixes the sum of each part."""
    order, ordered = np.argsort(-v, kind="stable"), np.sort(weights)[::-1]
    sizes, best, found = v[order], np.inf, None
    for count in range(v.size):
        for cuts in combinations(range(1, v.size), count):
            x = np.concatenate(
                [
                    part - part.mean() + goal.mean()
                    for part, goal in zip(
                        np.split(sizes, cuts), np.split(ordered, cuts), strict=True
                    )
                ]
            )
            inside = np.all(
                np.cumsum(np.sort(x)[::-1]) <= np.cumsum(ordered) + 1e-12 * np.abs(ordered).sum()
            )
            distance = np.sum((x - sizes) ** 2)
            if inside and distance < best:
                best, found = distance, x
    return found[np.argsort(order)]


@by_rows
def prox_k_support(v, step, k):
    """The weights that add up to k are bisected."""
    sizes = np.abs(v)
    if np.count_nonzero(v) <= k or step == 0:
        return v / (1 + step)

    def weights(a):
        return np.clip(a * sizes - step, 0, 1)

    low, high = 0.0, (1 + step) / sizes[sizes > 0].min()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if weights(middle).sum() < k else (low, middle)
    return v * weights(high) / (weights(high) + step)


def prox_top_k_envelope(v, step, k):
    """Half the square is taken out of it; from the step 1 on it is not convex any more."""
    if step >= 1:
        return project_top_k(v, k=k)
    return prox_k_support(v / (1 - step), step / (1 - step), k=k)
