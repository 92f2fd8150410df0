"""Float64 truth for chains and images, by other roads than the kernels.

Chains by level sets (cuts at thresholds, each by a shortest path); trends and anisotropic images by
an active set method on the dual, a least squares problem in a box; isotropic images by a splitting.
"""

import numpy as np
from scipy.optimize import lsq_linear

# --- chains --------------------------------------------------------------------------------------


def prox_tv1d(v, step, weights=1.0, axis=-1):
    """Rows along an axis; weights a number or of one size for all rows."""
    rows = np.moveaxis(v, axis, -1)
    links = np.broadcast_to(step * weights, (*rows.shape[:-1], rows.shape[-1] - 1))
    found = np.empty(rows.shape)
    for index in np.ndindex(rows.shape[:-1]):
        found[index] = constant_or_parted(rows[index], links[index], 0.0, 0.0)
    return np.moveaxis(found, -1, axis)


def constant_or_parted(v, links, left, right):
    """A part of a chain, pulled at its ends: constant, unless parting at that level pays."""
    level = np.mean(v) + (left + right) / len(v)
    gain = level - v
    gain[0] -= left
    gain[-1] -= right
    above = cheapest_labels(gain, links)
    cuts = np.flatnonzero(above[1:] != above[:-1])
    if not len(cuts):
        return np.full(len(v), level)
    parts, begin = [], 0
    for cut in [*cuts, len(v) - 1]:
        last = cut == len(v) - 1
        pull = right if last else links[cut] * (1.0 if above[cut + 1] else -1.0)
        parts.append(constant_or_parted(v[begin : cut + 1], links[begin:cut], left, pull))
        begin, left = cut + 1, -pull
    return np.concatenate(parts)


def cheapest_labels(gain, links):
    """Labels b in {0, 1} of least `sum gain b + sum links |b' - b|`; constant where that is 0."""
    size = len(gain)
    cost, came = np.array([0.0, gain[0]]), np.zeros((size, 2), int)
    for i in range(1, size):
        ways = cost[:, None] + links[i - 1] * np.array([[0.0, 1.0], [1.0, 0.0]])
        came[i] = np.argmin(ways, axis=0)
        cost = np.min(ways, axis=0) + np.array([0.0, gain[i]])
    if np.min(cost) >= -1e-12 * np.max(np.abs(gain)):
        return np.zeros(size, bool)
    labels = np.zeros(size, bool)
    label = int(np.argmin(cost))
    for i in range(size - 1, -1, -1):
        labels[i] = bool(label)
        label = came[i][label]
    return labels


def prox_fused_lasso(v, step, l1, tv, axis=-1):
    fused = prox_tv1d(v, step * tv, axis=axis)
    return np.sign(fused) * np.maximum(np.abs(fused) - step * l1, 0)


# --- images and trends ---------------------------------------------------------------------------


def boxed_dual(v, step, differences):
    """Minimiser of `step |differences x|_1 + |x - v|^2 / 2`."""
    if step == 0 or not np.any(v):
        return v
    size = np.max(np.abs(v))
    bound = step / size * np.ones(len(differences))
    found = lsq_linear(differences.T, v / size, (-bound, bound), "bvls", tol=1e-15, max_iter=5000)
    return v - size * differences.T @ found.x


def prox_trend_filter(v, step, order=1, iterations=None, axis=-1):
    rows = np.moveaxis(v, axis, -1)
    differences = np.diff(np.eye(rows.shape[-1]), order + 1, axis=0)
    found = np.apply_along_axis(boxed_dual, -1, rows, float(step), differences)
    return np.moveaxis(found, -1, axis)


def image_differences(rows, columns):
    """Matrices of the differences down and to the right, 0 beyond the edges."""
    one = np.zeros((rows, rows))
    one[:-1] = np.diff(np.eye(rows), axis=0)
    other = np.zeros((columns, columns))
    other[:-1] = np.diff(np.eye(columns), axis=0)
    return np.kron(one, np.eye(columns)), np.kron(np.eye(rows), other)


def prox_tv2d_anisotropic(v, step, iterations=None):
    differences = np.concatenate(image_differences(*v.shape[-2:]))
    differences = differences[np.any(differences != 0, axis=1)]
    flat = v.reshape(len(v), -1)
    return np.stack([boxed_dual(row, float(step), differences) for row in flat]).reshape(v.shape)


def prox_tv2d_isotropic(v, step, iterations=None):
    """Alternating directions; the penalty parameter of the splitting follows the size of `v`."""
    size = max(np.max(np.abs(v)), 1e-300)
    flat, bound = v.reshape(len(v), -1).T / size, step / size
    down, right = image_differences(*v.shape[-2:])
    inverse = np.linalg.inv(np.eye(len(flat)) + down.T @ down + right.T @ right)
    a, u = np.zeros((2, 2, *flat.shape))
    x = flat
    for _ in range(4000):
        x = inverse @ (flat + down.T @ (a[0] + u[0]) + right.T @ (a[1] + u[1]))
        jumps = np.stack([down @ x, right @ x])
        norm = np.maximum(np.linalg.norm(jumps - u, axis=0), 1e-300)
        a = np.maximum(1 - bound / norm, 0) * (jumps - u)
        u += a - jumps
    return size * x.T.reshape(v.shape)
