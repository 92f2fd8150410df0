"""Float64 truth for losses of data: direct solves, and duals solved by coordinates, in NumPy.

Nothing here is shared with the JAX code: no factor is used, every point is solved for by itself.
"""

import numpy as np


def prox_least_squares(v, step, matrix, target, weights=None):
    weights = np.ones(len(matrix)) if weights is None else weights
    gram = matrix.T @ (weights[:, None] * matrix)
    right = matrix.T @ (weights * target)
    system = np.eye(len(gram)) + step * gram
    return np.stack([np.linalg.solve(system, point + step * right) for point in v])


def prox_quadratic(v, step, matrix, linear):
    system = np.eye(len(matrix)) + step * matrix
    return np.stack([np.linalg.solve(system, point - step * linear) for point in v])


def circulant(kernel):
    """The matrix of a circular convolution, by its definition."""
    n = len(kernel)
    return np.array([[kernel[(i - j) % n] for j in range(n)] for i in range(n)])


def prox_least_squares_circular(v, step, kernel, target):
    return prox_least_squares(v, step, circulant(kernel.ravel()), target.ravel())


def prox_interval_dual(v, step, matrix, target, lower, upper, sweeps=20000):
    """The map of `sum_i max(lower_i r_i, upper_i r_i)`, r = A x - b, by coordinates of the dual.

    The slopes u in [lower, upper] minimise `step |A^T u|^2 / 2 - <A v - b, u>`, one by one.
    """
    gram = matrix @ matrix.T
    found = []
    for point in v:
        rest, u = matrix @ point - target, np.zeros(len(target))
        for _ in range(sweeps):
            old = u.copy()
            for i in range(len(u)):
                if gram[i, i] > 0:
                    slope = rest[i] - step * (gram[i] @ u)
                    u[i] = np.clip(u[i] + slope / (step * gram[i, i]), lower[i], upper[i])
            if np.max(np.abs(u - old)) <= 1e-15:
                break
        found.append(point - step * matrix.T @ u)
    return np.stack(found)


def prox_logistic_loss(v, step, matrix, target):
    """Newton's method on the primal, with halved steps."""

    def cost(x, point):
        rest = matrix @ x - target
        return step * np.sum(np.logaddexp(0, -rest)) + np.sum((x - point) ** 2) / 2

    found = []
    for point in v:
        x = point.copy()
        for _ in range(200):
            share = 1 / (1 + np.exp(np.clip(matrix @ x - target, -700, 700)))
            slope = x - point - step * matrix.T @ share
            bend = np.eye(len(x)) + step * matrix.T @ ((share * (1 - share))[:, None] * matrix)
            move, length = np.linalg.solve(bend, slope), 1.0
            while length > 1e-8 and cost(x - length * move, point) > cost(x, point):
                length /= 2
            x = x - length * move
        found.append(x)
    return np.stack(found)
