"""Ditto, pFedMe and APFL on quadratic clients: plain loops in float64.

Client i has `f_i(x) = x' A_i x / 2 - b_i' x`. Every method returns its state after each round, a
dict of arrays (rounds, ...). Clients that are absent keep everything.
"""

import numpy as np

from tests.reference.star_averaging import gradient_steps


def _all(model, clients):
    return np.tile(model, (clients, 1))


def _trace(rows):
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _near(A_i, b_i, v, centre, penalty, rate, steps):
    """Return what a client finds of `f_i(v) + penalty ||v - centre||^2 / 2`; exact without rate."""
    if rate is None:
        return np.linalg.solve(A_i + penalty * np.eye(len(v)), b_i + penalty * centre)
    return gradient_steps(A_i, b_i, v, rate, steps, lambda w: penalty * (w - centre))


def ditto(A, b, x, masks, shared_rate, shared_steps, penalty, rate=None, steps=None):
    """Ditto with FedAvg for the shared model."""
    v, rows = _all(x, len(b)), []
    for mask in masks:
        sent, own = [], v.copy()
        for i in np.flatnonzero(mask):
            sent.append(gradient_steps(A[i], b[i], x, shared_rate, shared_steps))
            own[i] = _near(A[i], b[i], v[i], x, penalty, rate, steps)
        x, v = (np.mean(sent, axis=0) if sent else x), own
        rows.append({"shared": x, "own": v})
    return _trace(rows)


def p_fed_me(A, b, x, masks, penalty, eta, beta, R, rate=None, steps=None):
    """pFedMe; theta_i is exact where `rate` is None."""
    theta, rows = _all(x, len(b)), []
    for mask in masks:
        sent, theta = [], theta.copy()
        for i in np.flatnonzero(mask):
            w = x.copy()
            for _ in range(R):
                theta[i] = _near(A[i], b[i], theta[i], w, penalty, rate, steps)
                w = w - eta * penalty * (w - theta[i])
            sent.append(w)
        x = (1 - beta) * x + beta * np.mean(sent, axis=0) if sent else x
        rows.append({"shared": x, "own": theta})
    return _trace(rows)


def apfl(A, b, x, masks, eta, alpha, adaptive, K):
    """APFL; the weights move in the first step of a round, from the values before it."""
    v, weights, rows = _all(x, len(b)), np.full(len(b), alpha), []
    for mask in masks:
        sent, v, weights = [], v.copy(), weights.copy()
        for i in np.flatnonzero(mask):
            w = x.copy()
            for k in range(K):
                a = weights[i]
                slope = A[i] @ (a * v[i] + (1 - a) * w) - b[i]
                if adaptive and k == 0:
                    weights[i] = min(1.0, max(0.0, a - eta * (v[i] - w) @ slope))
                v[i] = v[i] - eta * a * slope
                w = w - eta * (A[i] @ w - b[i])
            sent.append(w)
        x = np.mean(sent, axis=0) if sent else x
        mixed = weights[:, None] * v + (1 - weights[:, None]) * x
        rows.append({"shared": x, "own": mixed, "weights": weights})
    return _trace(rows)
