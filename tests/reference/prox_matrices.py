"""Float64 twins of the maps of matrices: one matrix after the other, LAPACK, loops, bisection."""

import numpy as np

from tests.reference import kernels as elementwise, prox_vectors


def _each(function):
    """Apply a function of one matrix to all of a stack."""

    def stacked(points, *parameters, **static):
        return np.stack([function(matrix, *parameters, **static) for matrix in points])

    return stacked


def _with(matrix, values):
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ np.diag(values) @ right


def _sizes(matrix):
    return np.linalg.svd(matrix, compute_uv=False)


@_each
def prox_nuclear(matrix, step):
    return _with(matrix, [max(s - t, 0) for s, t in np.broadcast(_sizes(matrix), np.ravel(step))])


@_each
def project_rank(matrix, k):
    return _with(matrix, [s if i < k else 0 for i, s in enumerate(_sizes(matrix))])


@_each
def prox_rank_envelope(matrix, step, k):
    return _with(matrix, prox_vectors.prox_top_k_envelope(_sizes(matrix), step, k=k))


@_each
def project_spectral_ball(matrix, radius):
    return _with(matrix, [min(s, radius) for s in _sizes(matrix)])


@_each
def project_nuclear_ball(matrix, radius):
    sizes = _sizes(matrix)
    if sizes.sum() <= radius:
        return matrix
    low, high = 0.0, sizes.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if np.maximum(sizes - middle, 0).sum() > radius else (low, middle)
        )
    return _with(matrix, np.maximum(sizes - high, 0))


def _eigen(matrix, function):
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return sum(function(v) * np.outer(q, q) for v, q in zip(values, vectors.T, strict=True))


@_each
def project_psd(matrix):
    return _eigen(matrix, lambda value: max(value, 0))


@_each
def prox_log_det(matrix, step):
    return _eigen(matrix, lambda value: np.roots([1, -value, -step]).real.max())


@_each
def prox_spectral_mcp(matrix, step, lam, gamma):
    return _with(matrix, elementwise.prox_mcp(_sizes(matrix), step, lam, gamma))


@_each
def prox_spectral_scad(matrix, step, lam, gamma):
    return _with(matrix, elementwise.prox_scad(_sizes(matrix), step, lam, gamma))


@_each
def prox_spectral_log_det(matrix, step, epsilon):
    """Compare 0 with the roots of `step / (epsilon + x) + x - s = 0`."""
    found = []
    for s in _sizes(matrix):
        roots = np.roots([1, epsilon - s, step - s * epsilon])
        others = [r.real for r in roots if abs(r.imag) < 1e-12 and r.real > 0]
        cost = {x: np.log(1 + x / epsilon) + (x - s) ** 2 / (2 * step) for x in (0.0, *others)}
        found.append(min(cost, key=lambda x: cost[x]))
    return _with(matrix, found)


@_each
def prox_spectral(matrix, step, prox=None):
    """Hard thresholds: what counts the rank."""
    return _with(matrix, [s if s * s > 2 * step else 0 for s in _sizes(matrix)])


@_each
def project_stiefel(matrix):
    """Newton's iteration for the polar factor: full rank only."""
    left, found = np.linalg.qr(matrix)
    for _ in range(60):
        found = (found + np.linalg.inv(found).T) / 2
    return left @ found


@_each
def project_hankel(matrix):
    rows, columns = matrix.shape
    found = np.empty_like(matrix)
    for total in range(rows + columns - 1):
        places = [(i, total - i) for i in range(rows) if 0 <= total - i < columns]
        mean = sum(matrix[place] for place in places) / len(places)
        for place in places:
            found[place] = mean
    return found


# --- transport polytopes ---


@_each
def project_transport(matrix, row_marginals, column_marginals):
    """Dykstra's algorithm between rows and columns, with entries that are at least 0."""
    rows = np.broadcast_to(np.reshape(row_marginals, (-1, 1)), (matrix.shape[0], 1))
    columns = np.broadcast_to(np.reshape(column_marginals, (1, -1)), (1, matrix.shape[1]))
    columns = columns * (rows.sum() / columns.sum())
    x, correction = matrix, np.zeros_like(matrix)
    for _ in range(20000):
        x = x + (rows - x.sum(1, keepdims=True)) / x.shape[1]
        x = x + (columns - x.sum(0, keepdims=True)) / x.shape[0]
        x = x + ((columns.sum() - x.sum()) / x.size)
        before = x + correction
        new = np.maximum(before, 0)
        correction = before - new
        if np.abs(new - x).max() < 1e-13 * rows.sum():
            break
        x = new
    return x


def project_birkhoff(points):
    ones = np.ones(points.shape[-1])
    return project_transport(points, ones, ones)


@_each
def project_kl_transport(matrix, row_marginals, column_marginals):
    """Sinkhorn's algorithm on the matrix itself."""
    rows = np.broadcast_to(np.reshape(row_marginals, (-1, 1)), (matrix.shape[0], 1))
    columns = np.broadcast_to(np.reshape(column_marginals, (1, -1)), (1, matrix.shape[1]))
    columns = columns * (rows.sum() / columns.sum())
    x = np.exp(matrix - matrix.max())
    for _ in range(5000):
        x = x * (columns / x.sum(0, keepdims=True))
        x = x * (rows / x.sum(1, keepdims=True))
    return x


def project_kl_birkhoff(points):
    ones = np.ones(points.shape[-1])
    return project_kl_transport(points, ones, ones)
