"""FedAvg, FedProx, SCAFFOLD and ProxSkip on quadratic clients: plain loops in float64.

Client i has `f_i(x) = x' A_i x / 2 - b_i' x`; all minimise `(1/N) sum_i f_i + weight ||.||_1`.
Every method returns its state after each round, a dict of arrays (rounds, ...). Clients that are
absent keep everything, and a round of nobody changes nothing.
"""

import numpy as np


def soft(v, threshold):
    """Return the prox of `threshold ||.||_1`."""
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0)


def lasso(A, b, weight, steps=20_000):
    """Return the minimiser of `(1/N) sum_i f_i + weight ||.||_1`, by proximal gradient steps."""
    H, q, x = A.mean(0), b.mean(0), np.zeros(b.shape[1])
    length = 1 / np.linalg.eigvalsh(H)[-1]
    for _ in range(steps):
        x = soft(x - length * (H @ x - q), length * weight)
    return x


def gradient_steps(A_i, b_i, x, rate, steps, pull=lambda w: 0.0):
    """Return `x` after steps of `w - rate (A_i w - b_i + pull(w))`."""
    w = x.copy()
    for _ in range(steps):
        w = w - rate * (A_i @ w - b_i + pull(w))
    return w


def averaged(update, x, masks, length, weight):
    """Return the server's models where `update(i, x)` is what client i sends."""
    models = []
    for mask in masks:
        sent = [update(i, x) for i in np.flatnonzero(mask)]
        if sent:
            x = soft(sum(sent) / len(sent), length * weight)
        models.append(x)
    return {"server": np.array(models)}


def fed_avg(A, b, x, masks, rate, steps, weight=0.0):
    """FedAvg with `steps` gradient steps."""
    return averaged(
        lambda i, x: gradient_steps(A[i], b[i], x, rate, steps), x, masks, steps * rate, weight
    )


def fed_prox(A, b, x, masks, penalty, rate=None, steps=None, weight=0.0):
    """FedProx, exact where `rate` is None."""

    def update(i, x):
        if rate is None:
            return np.linalg.solve(A[i] + penalty * np.eye(len(x)), b[i] + penalty * x)
        return gradient_steps(A[i], b[i], x, rate, steps, lambda w: penalty * (w - x))

    length = 1 / penalty if rate is None else 0.0
    if rate is not None:
        for k in range(steps):
            length += rate * (1 - rate * penalty) ** k
    return averaged(update, x, masks, length, weight)


def biased_limit(A, b, Q):
    """Return `(sum Q_i)^{-1} sum Q_i x_i*`, where averaging ends."""
    own = np.array([np.linalg.solve(A_i, b_i) for A_i, b_i in zip(A, b, strict=True)])
    return np.linalg.solve(Q.sum(0), sum(Q_i @ o for Q_i, o in zip(Q, own, strict=True)))


def fed_avg_limit(A, b, rate, steps):
    """Return where FedAvg ends if everybody takes part."""
    eye = np.eye(A.shape[1])
    Q = [eye - np.linalg.matrix_power(eye - rate * A_i, steps) for A_i in A]
    return biased_limit(A, b, np.array(Q))


def fed_prox_limit(A, b, penalty, rate=None, steps=None):
    """Return where FedProx ends if everybody takes part; exact where `rate` is None."""
    eye, Q = np.eye(A.shape[1]), []
    for A_i in A:
        part = np.linalg.solve(A_i + penalty * eye, A_i)
        if rate is not None:
            left = np.linalg.matrix_power(eye - rate * (A_i + penalty * eye), steps)
            part = (eye - left) @ part
        Q.append(part)
    return biased_limit(A, b, np.array(Q))


def scaffold(A, b, x, masks, rate, steps, server_step=1.0, weight=0.0):
    """SCAFFOLD, option II."""
    clients, dim = b.shape
    c, controls = np.zeros(dim), np.zeros((clients, dim))
    models, shared, all_controls = [], [], []
    for mask in masks:
        present = np.flatnonzero(mask)
        move, change = np.zeros(dim), np.zeros(dim)
        new = controls.copy()
        for i in present:
            pull = c - controls[i]
            y = gradient_steps(A[i], b[i] - pull, x, rate, steps)
            new[i] = controls[i] - c + (x - y) / (steps * rate)
            move += y - x
            change += new[i] - controls[i]
        if present.size:
            x = x + server_step * move / present.size
            x = soft(x, steps * rate * server_step * weight)
        c, controls = c + change / clients, new
        models.append(x)
        shared.append(c)
        all_controls.append(controls)
    return {
        "model": np.array(models),
        "control": np.array(shared),
        "controls": np.array(all_controls),
    }


def prox_skip(A, b, x, coins, gamma, p, masks=None, weight=0.0):
    """ProxSkip with the coins of all rounds."""
    clients, dim = b.shape
    X, h, server = np.tile(x, (clients, 1)), np.zeros((clients, dim)), x
    masks = np.ones((len(coins), clients), bool) if masks is None else masks
    models, controls, servers = [], [], []
    for coin, mask in zip(coins, masks, strict=True):
        present = np.flatnonzero(mask)
        X, h = X.copy(), h.copy()
        for i in present:
            X[i] = X[i] - gamma * (A[i] @ X[i] - b[i] - h[i])
        if coin and present.size:
            sent = X[present] - gamma / p * h[present]
            server = soft(sent.mean(0), gamma / p * weight)
            for i in present:
                h[i] = h[i] + p / gamma * (server - X[i])
                X[i] = server
        models.append(X)
        controls.append(h)
        servers.append(server)
    return {"model": np.array(models), "control": np.array(controls), "server": np.array(servers)}
