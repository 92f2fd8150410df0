"""FedDR, FedPD, FedDyn, Fed-PLT and their kin as plain loops, in NumPy and float64.

Written from the formulas for quadratic clients `f_i(x) = x^T A_i x / 2 - b_i^T x`, one client after
the other. Every function returns the server's model after each round, shape (rounds, dim).
"""

import numpy as np


def exact(hessian, linear, weight, centre, _start):
    """Return argmin f(w) + weight/2 |w - centre|^2."""
    return np.linalg.solve(
        hessian + weight * np.eye(linear.size), linear + weight * np.asarray(centre)
    )


def gradient_steps(rate, steps):
    """Return a local solver that descends from the start that it is given."""

    def descend(hessian, linear, weight, centre, start):
        w = np.array(start)
        for _ in range(steps):
            w = w - rate * (hessian @ w - linear + weight * (w - centre))
        return w

    return descend


def soft(threshold):
    """Return the prox of `threshold` times the l1 norm: (v, step) to a point."""
    return lambda v, step: np.sign(v) * np.maximum(np.abs(v) - step * threshold, 0)


def nothing(v, _step):
    """Return the point itself: the prox of no regulariser."""
    return v


def fed_dr(hessians, linear, start, masks, eta, alpha=1.0, local=exact, prox=nothing):
    """FedDR with one start of everybody, which is not recorded."""
    number = len(linear)
    y = [np.array(start) for _ in range(number)]
    x = [local(hessians[i], linear[i], 1 / eta, y[i], np.array(start)) for i in range(number)]
    sent = [2 * x[i] - y[i] for i in range(number)]
    server = prox(np.mean(sent, axis=0), eta)
    trace = []
    for mask in masks:
        for i in np.flatnonzero(mask):
            y[i] = y[i] + alpha * (server - x[i])
            x[i] = local(hessians[i], linear[i], 1 / eta, y[i], x[i])
            sent[i] = 2 * x[i] - y[i]
        server = prox(np.mean(sent, axis=0), eta)
        trace.append(server)
    return np.array(trace)


def composite_fed_admm(hessians, linear, start, masks, rho, prox=nothing):
    """FedADMM with a regulariser at the server, after one start of everybody.

    The start is a round of its own with all dual variables zero.
    """
    number = len(linear)
    server, dual, sent = np.array(start), np.zeros((number, len(start))), [None] * number
    trace = []
    for mask in [np.ones(number, bool), *masks]:
        for i in np.flatnonzero(mask):
            x = exact(hessians[i], linear[i], rho, server - dual[i] / rho, None)
            dual[i] = dual[i] + rho * (x - server)
            sent[i] = x + dual[i] / rho
        server = prox(np.mean(sent, axis=0), 1 / rho)
        trace.append(server)
    return np.array(trace[1:])


def fed_pd(hessians, linear, start, masks, coins, eta, local=exact, prox=nothing):
    """FedPD with the coins given; the absent keep all, averages are over what was sent last."""
    number = len(linear)
    x = [np.array(start) for _ in range(number)]
    copy = [np.array(start) for _ in range(number)]
    sent = [np.array(start) for _ in range(number)]
    dual = np.zeros((number, len(start)))
    server, trace = np.array(start), []
    for mask, coin in zip(masks, coins, strict=True):
        for i in np.flatnonzero(mask):
            x[i] = local(hessians[i], linear[i], 1 / eta, copy[i] - eta * dual[i], x[i])
            dual[i] = dual[i] + (x[i] - copy[i]) / eta
            copy[i] = x[i] + eta * dual[i]
            if coin:
                sent[i] = copy[i]
        if coin and np.any(mask):
            server = prox(np.mean(sent, axis=0), eta)
            for i in np.flatnonzero(mask):
                copy[i] = server
        trace.append(server)
    return np.array(trace)


def fed_dyn(hessians, linear, start, masks, rho, local=exact, prox=nothing):
    """FedDyn."""
    number = len(linear)
    server, slope = np.array(start), np.zeros((number, len(start)))
    trace = []
    mean_slope = np.zeros(len(start))
    for mask in masks:
        fresh, present = np.zeros(len(start)), np.flatnonzero(mask)
        for i in present:
            w = local(hessians[i], linear[i], rho, server + slope[i] / rho, server)
            slope[i] = slope[i] - rho * (w - server)
            mean_slope = mean_slope - rho / number * (w - server)
            fresh = fresh + w
        if present.size:
            server = prox(fresh / present.size - mean_slope / rho, 1 / rho)
        trace.append(server)
    return np.array(trace)


def fed_plt(hessians, linear, start, masks, length, local=exact, prox=nothing):
    """Fed-PLT; recorded is what the server sends in a round, as in the paper."""
    number = len(linear)
    x = [np.array(start) for _ in range(number)]
    z = [np.array(start) for _ in range(number)]
    trace = []
    for mask in masks:
        y = prox(np.mean(z, axis=0), length)
        for i in np.flatnonzero(mask):
            x[i] = local(hessians[i], linear[i], 1 / length, 2 * y - z[i], x[i])
            z[i] = z[i] + 2 * (x[i] - y)
        trace.append(y)
    return np.array(trace)


def fed_split(hessians, linear, start, rounds, length):
    """FedSplit, everybody and exact: z_i += 2 (prox_{s f_i}(2 mean z - z_i) - mean z)."""
    z = np.tile(np.array(start), (len(linear), 1))
    trace = []
    for _ in range(rounds):
        mean = z.mean(0)
        trace.append(mean)
        halves = np.array(
            [
                exact(a, b, 1 / length, 2 * mean - own, None)
                for a, b, own in zip(hessians, linear, z, strict=True)
            ]
        )
        z = z + 2 * (halves - mean)
    return np.array(trace)
