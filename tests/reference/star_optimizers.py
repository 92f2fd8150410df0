"""Star solvers whose clients or server take steps of an optimiser: plain loops in NumPy, float64.

Client i has `f_i(x) = x' A_i x / 2 - b_i' x`. Every function returns the server's model after each
round, shape (rounds, dim).
"""

import numpy as np


class ClippedAdam:
    """One client's Adam with bias correction, after clipping the slope to a length."""

    def __init__(self, dim, rate=0.05, clip=0.8, b1=0.9, b2=0.999, eps=1e-8):
        self.rate, self.clip, self.b1, self.b2, self.eps = rate, clip, b1, b2, eps
        self.m, self.v, self.count = np.zeros(dim), np.zeros(dim), 0

    def step(self, slope):
        """Return what is added to the model."""
        length = np.linalg.norm(slope)
        if length >= self.clip:
            slope = slope / length * self.clip
        self.count += 1
        self.m = self.b1 * self.m + (1 - self.b1) * slope
        self.v = self.b2 * self.v + (1 - self.b2) * slope**2
        mean, square = self.m / (1 - self.b1**self.count), self.v / (1 - self.b2**self.count)
        return -self.rate * mean / (np.sqrt(square) + self.eps)


class Locals:
    """Local steps of all clients, whose optimisers are kept or begun anew in every round."""

    def __init__(self, A, b, steps, keep, rate):
        self.A, self.b, self.steps, self.keep, self.rate = A, b, steps, keep, rate
        self.optimizers = [ClippedAdam(b.shape[1]) for _ in b]

    def __call__(self, i, start, number, pull):
        """Return the model of client i after round `number` (from 1), and the mean slope."""
        optimizer = self.optimizers[i] if self.keep else ClippedAdam(start.size)
        w, slopes = start.copy(), []
        for _ in range(self.steps):
            slopes.append(self.A[i] @ w - self.b[i] + pull(w))
            w = w + self.rate(number) * optimizer.step(slopes[-1])
        return w, np.mean(slopes, axis=0)


def averaging(local, x, masks, penalty=0.0):
    """FedAvg, or FedProx with a penalty."""
    models = []
    for number, mask in enumerate(masks, 1):
        sent = [
            local(i, x, number, lambda w, x=x: penalty * (w - x))[0] for i in np.flatnonzero(mask)
        ]
        x = np.mean(sent, axis=0) if sent else x
        models.append(x)
    return np.array(models)


def scaffold(local, x, masks, clients):
    """SCAFFOLD whose control variates are mean gradients."""
    controls, models = np.zeros((clients, x.size)), []
    for number, mask in enumerate(masks, 1):
        c, moves = controls.mean(0), []
        for i in np.flatnonzero(mask):
            correction = c - controls[i]
            w, slope = local(i, x, number, lambda _, pull=correction: pull)
            controls[i] = slope - correction
            moves.append(w - x)
        x = x + np.mean(moves, axis=0) if moves else x
        models.append(x)
    return np.array(models)


def fed_dyn(local, x, masks, clients, rho):
    """FedDyn."""
    slopes, models = np.zeros((clients, x.size)), []
    for number, mask in enumerate(masks, 1):
        sent = []
        for i in np.flatnonzero(mask):
            w, _ = local(i, x, number, lambda w, x=x, c=slopes[i]: rho * (w - x) - c)
            slopes[i] = slopes[i] - rho * (w - x)
            sent.append(w)
        x = np.mean(sent, axis=0) - slopes.mean(0) / rho if sent else x
        models.append(x)
    return np.array(models)


def fed_admm(local, x, masks, clients, rho):
    """FedADMM."""
    w, y, models = np.tile(x, (clients, 1)), np.zeros((clients, x.size)), []
    for number, mask in enumerate(masks, 1):
        for i in np.flatnonzero(mask):
            w[i], _ = local(i, x, number, lambda v, x=x, dual=y[i]: dual + rho * (v - x))
            y[i] = y[i] + rho * (w[i] - x)
        x = (w + y / rho).mean(0) if mask.any() else x
        models.append(x)
    return np.array(models)


def server_steps(A, b, x, masks, rate, steps, kind, eta, b1, b2, tau):
    """FedAvgM, FedAdagrad, FedAdam or FedYogi: Algorithm 2 of Reddi et al., version 5."""
    m, v, models = np.zeros(x.size), np.full(x.size, tau**2), []
    for mask in masks:
        present = np.flatnonzero(mask)
        if present.size:
            deltas = []
            for i in present:
                w = x.copy()
                for _ in range(steps):
                    w = w - rate * (A[i] @ w - b[i])
                deltas.append(w - x)
            delta = np.mean(deltas, axis=0)
            if kind == "momentum":
                m = b1 * m + delta
                x = x + eta * m
            else:
                m = b1 * m + (1 - b1) * delta
                v = {
                    "adagrad": v + delta**2,
                    "yogi": v - (1 - b2) * delta**2 * np.sign(v - delta**2),
                    "adam": b2 * v + (1 - b2) * delta**2,
                }[kind]
                x = x + eta * m / (np.sqrt(v) + tau)
        models.append(x)
    return np.array(models)
