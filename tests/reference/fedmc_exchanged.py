"""Independent NumPy float64 references of factor models whose messages much happens to.

Written client by client; nothing here imports the package. On both ways one entry of a difference
travels; Byzantine clients negate what they send; what goes up arrives one round late, and the
server takes trimmed means of it. Both functions return U_i, a list, and V after every round.
"""

import numpy as np

from tests.reference.aggregators import trimmed_mean
from tests.reference.compressors import top_k
from tests.reference.fedmc import (
    gradient_items,
    gradient_users,
    item_iterates,
    largest_eigenvalue,
    user_steps,
)
from tests.reference.graph_exchanged import Way

SHARE = 0.3


class Down:
    """What every client builds up of V."""

    def __init__(self, first, clients, step):
        """Take what all know at the start."""
        self.built, self.step = [first] * clients, step

    def read(self, i, sent):
        self.built[i] = self.built[i] + self.step * top_k(sent - self.built[i], 1)
        return self.built[i]


def _location(messages):
    """Return the trimmed mean of matrices."""
    messages = np.array(messages)
    flat = messages.reshape(len(messages), -1)
    return trimmed_mean(flat, np.ones(len(flat)), SHARE).reshape(messages.shape[1:])


def fedmc_admm(clients, users, V, masks, bad, step, beta, steps, user_penalty, item_penalty):
    """FedMC-ADMM; honest clients take over what the channel has made of W_i + Y_i / beta."""
    p, U = len(clients), list(users)
    W = [V] * p
    Y = [-gradient_items(U[i], V, clients[i]) / p for i in range(p)]
    up = Way(((i, W[i] + Y[i] / beta) for i in range(p)), lambda i: bad[i], step)
    down, states = Down(V, p, step), []
    for mask in masks:
        present, sent = np.flatnonzero(mask), {}
        for i in present:
            read = down.read(i, V)
            U[i] = user_steps(U[i], W[i], clients[i], steps, user_penalty)
            W[i] = item_iterates(W[i], U[i], read, Y[i], clients[i], steps, beta, p)[-1]
            Y[i] = Y[i] + beta * (W[i] - read)
            sent[i] = W[i] + Y[i] / beta
        up.send(sent)
        for i in present:
            if not bad[i]:
                lost = (sent[i] - up.built[i]) / 2
                W[i], Y[i] = W[i] - lost, Y[i] - beta * lost
        V = item_penalty.prox(_location([up.known[i] for i in range(p)]), 1 / (p * beta))
        states.append((list(U), V))
    return states


def fedmavg(clients, users, V, masks, bad, step, steps, weight):
    """FedMAvg of the drawn users, fair; V stays where nothing arrives."""
    p, U = len(clients), list(users)
    up, down = Way(((i, V) for i in range(p)), lambda i: bad[i], step), Down(V, p, step)
    states = []
    for mask in masks:
        sent = {}
        for i in np.flatnonzero(mask):
            read = W = down.read(i, V)
            c, client = largest_eigenvalue(read) / 2, clients[i]
            for _ in range(steps):
                U[i] = U[i] - (gradient_users(U[i], read, client) + weight * U[i]) / c
            d = 5 * largest_eigenvalue(U[i])
            for _ in range(steps):
                W = W - (gradient_items(U[i], W, client) + weight * W) / d
            sent[i] = W
        arrived = up.send(sent)
        if arrived:
            V = _location([arrived[i] for i in sorted(arrived)])
        states.append((list(U), V))
    return states
