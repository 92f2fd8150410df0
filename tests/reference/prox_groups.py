"""Float64 truth for groups of entries, group by group in a loop."""

import numpy as np

from tests.reference import kernels as reference, prox_elementwise, prox_nonconvex


def _by_norm(shrink):
    """Apply a map of numbers to the norm of every group along the last axis."""

    def prox(v, step, *parameters, axis=-1):
        axes = (axis,) if np.ndim(axis) == 0 else tuple(axis)
        last = tuple(range(-len(axes), 0))
        moved = np.moveaxis(np.array(v, np.float64), axes, last)
        out = np.zeros_like(moved)
        for index in np.ndindex(moved.shape[: -len(axes)]):
            length = np.sqrt(np.sum(moved[index] ** 2))
            if length > 0:
                out[index] = moved[index] / length * shrink(length, step, *parameters)
        return np.moveaxis(out, last, axes)

    return prox


prox_group_l2 = _by_norm(lambda r, step: max(r - step, 0.0))
prox_group_mcp = _by_norm(reference.prox_mcp)
prox_group_scad = _by_norm(reference.prox_scad)
prox_group_l0 = _by_norm(prox_nonconvex.prox_l0)
prox_group_l_half = _by_norm(prox_nonconvex.prox_l_half)
prox_smoothed_group_mcp = _by_norm(reference.prox_smoothed_mcp)
prox_smoothed_group_scad = _by_norm(reference.prox_smoothed_scad)


@_by_norm
def prox_cube_l2(r, step):
    """The root of t + 3 step t**2 = r by bisection."""
    low, high = 0.0, r
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle + 3 * step * middle**2 < r else (low, middle)
    return (low + high) / 2


def prox_sparse_group(v, step, l1, group):
    v = np.array(v, np.float64)
    l1 = np.broadcast_to(l1, v.shape)
    for index in np.ndindex(v.shape[:-1]):
        shrunk = reference.soft_threshold(v[index], step * l1[index])
        v[index] = reference.prox_group_l2(shrunk[None], step * group)[0]
    return v


def prox_sparse_segments(v, step, l1, weights, segments, *, count):
    v = reference.soft_threshold(v, step * l1)
    weights = np.broadcast_to(weights, (count,))
    for index in np.ndindex(v.shape[:-1]):
        for segment in range(count):
            mine = np.flatnonzero(np.asarray(segments) == segment)
            length = np.linalg.norm(v[index][mine])
            if length > 0:
                v[(*index, mine)] *= max(length - step * weights[segment], 0.0) / length
    return v


def prox_segments_l2(v, step, weights, segments, *, count):
    return prox_sparse_segments(v, step, 0.0, weights, segments, count=count)


def prox_l1_minus_l2(v, step, weight):
    """Every stationary point: the dense one, and one along each axis; then the best."""
    out = np.zeros_like(v)
    for index in np.ndindex(v.shape[:-1]):
        size = max(np.max(np.abs(v[index])), step) or 1.0
        a, step_of = np.abs(v[index]) / size, step / size
        shrunk = np.maximum(a - step_of, 0.0)
        candidates = [np.zeros_like(a)]
        for place in range(len(a)):
            single = np.zeros_like(a)
            single[place] = max(a[place] - (1 - weight) * step_of, 0.0)
            candidates.append(single)
        length = np.linalg.norm(shrunk)
        if length > 0:
            candidates.append(shrunk * (1 + weight * step_of / length))
        costs = [
            step_of * (np.sum(x) - weight * np.linalg.norm(x)) + np.sum((x - a) ** 2) / 2
            for x in candidates
        ]
        # Rounding must not decide between equal candidates: the first within it.
        best = int(np.argmax(np.array(costs) <= min(costs) + 1e-13 * (1 + abs(min(costs)))))
        out[index] = np.where(v[index] < 0, -size, size) * candidates[best]
    return out


prox_group_huber = _by_norm(prox_elementwise.prox_huber)
