"""Independent NumPy float64 references of solvers on graphs whose messages much happens to.

Written node by node and neighbour by neighbour; nothing here imports the package. Losses are the
quadratic ones of `graph_peers`, and all methods return the models after every round, shape
(rounds, nodes, dim).
"""

import numpy as np

from tests.reference.aggregators import trimmed_mean
from tests.reference.compressors import top_k
from tests.reference.graph_peers import EDGES, metropolis, neighbours, prox, soft


class Way:
    """Messages that Byzantine senders negate, of which differences are coded, one round late.

    Of the difference to what the receiver builds up, the largest entry times `step` arrives.
    """

    def __init__(self, first, byzantine, step):
        """Take what both ends know at the start, sender -> message, and who is Byzantine."""
        self.built = dict(first)
        self.known = dict(self.built)
        self.byzantine, self.step, self.waiting = byzantine, step, {}

    def send(self, messages):
        """Take sender -> message; return what arrives now, which is what was sent last."""
        arrived, self.waiting = self.waiting, {}
        for sender, message in messages.items():
            told = -message if self.byzantine(sender) else message
            coded = top_k(told - self.built[sender], 1)
            self.built[sender] = self.built[sender] + self.step * coded
            self.waiting[sender] = self.built[sender]
        self.known |= arrived
        return arrived


def extra(h, b, start, s, masks, bad, step, mixing, lasso, edges=EDGES):
    """Run EXTRA or PG-EXTRA with trimmed means of the neighbours present and of the node."""
    x, p = start.copy(), np.zeros_like(start)
    way, models = Way(enumerate(start), lambda i: bad[i], step), []
    for mask in masks:
        present = np.flatnonzero(mask)
        way.send({i: x[i] for i in present})
        known = np.array([way.known[i] for i in range(len(x))])
        weights = metropolis(edges, len(x), mask)
        x, p = x.copy(), p.copy()
        for i in present:
            away = mixing * (known[i] - trimmed_mean(known, weights[i], 0.3))
            half = x[i] - away - s * h[i] * (x[i] - b[i]) - p[i]
            x[i], p[i] = soft(half, s * lasso), p[i] + away / 2
        models.append(x)
    return np.array(models)


def admm(h, b, start, c, masks, bad, step, relaxation, edges=EDGES):
    """Run decentralised ADMM with trimmed means of letters, y_ij being what i holds of j."""
    near, a = neighbours(edges, len(start)), relaxation / 2
    x = start.copy()
    y = {(i, j): (x[i] + x[j]) / 2 for i, js in enumerate(near) for j in js}
    first = {(i, j): 2 * x[i] - y[i, j] for i, j in y}
    way, models = Way(first, lambda pair: bad[pair[0]], step), []
    for mask in masks:
        x = x.copy()
        for i in np.flatnonzero(mask):
            centre = trimmed_mean(np.array([y[i, j] for j in near[i]]), np.ones(len(near[i])), 0.3)
            x[i] = prox(h[i], b[i], centre, 2 * c * len(near[i]))
        sent = {(i, j): 2 * x[i] - y[i, j] for i, j in y if mask[i]}
        for (i, j), letter in way.send(sent).items():
            y[j, i] = (1 - a) * y[j, i] + a * letter
        models.append(x)
    return np.array(models)


def gtv(h, b, start, lam, c, masks, bad, step, edges=EDGES):
    """Run the primal-dual method of GTV minimisation with the network lasso."""
    near = neighbours(edges, len(start))
    w, u = start.copy(), {edge: np.zeros(start.shape[1]) for edge in edges}
    way, models = Way(enumerate(start), lambda i: bad[i], step), []
    for mask in masks:
        before, w = dict(way.known), w.copy()
        for i in np.flatnonzero(mask):
            pull = sum(u[e] * ((e[0] == i) - float(e[1] == i)) for e in edges if i in e)
            tau = c / len(near[i])
            w[i] = prox(h[i], b[i], w[i] - tau * pull, 1 / tau)
        way.send({i: w[i] for i in np.flatnonzero(mask)})
        for i, j in edges:
            if mask[i] and mask[j]:
                ahead = [2 * way.known[k] - before[k] for k in (i, j)]
                moved = u[i, j] + 0.5 / c * (ahead[0] - ahead[1])
                u[i, j] = moved * min(1.0, lam / max(np.linalg.norm(moved), 1e-300))
        models.append(w)
    return np.array(models)


def private(method, slopes, dim, masks, bad, step, edges, rho=0.1, eta=0.1):
    """Run a private solver from zero, without noise and clipping, with affine slopes.

    Args:
      method: "networked_admm", "p_admm" or "subgradient", of which that takes trimmed means.
      slopes: for every client, model -> gradient of its loss.
      dim: of models.
      masks: who takes part.
      bad: who is Byzantine.
      step: of the coded differences.
      edges: of the graph.
      rho: weight of the constraints.
      eta: step of the first-order methods.

    Returns:
      What everybody knows after every round, and the models of the clients' own.
    """
    number = len(slopes)
    near, weights = neighbours(edges, number), metropolis(edges, number)
    w, gamma = np.zeros((number, dim)), np.zeros((number, dim))
    way = Way(enumerate(w.copy()), lambda k: bad[k], step)
    heard, models = [], []
    for mask in masks:
        v, w = np.array([way.known[k] for k in range(number)]), w.copy()
        for k in np.flatnonzero(mask):
            degree, slope = len(near[k]), slopes[k](v[k])
            apart = sum(v[k] - v[j] for j in near[k])
            if method == "subgradient":
                w[k] = trimmed_mean(v, weights[k], 0.3) - eta * slope
            elif method == "networked_admm":
                gain = 1 / (1 / eta + 2 * rho * degree)
                w[k] = v[k] - gain * (slope + gamma[k] + rho * apart)
            else:
                none = slopes[k](np.zeros(dim))
                bent = np.array([slopes[k](unit) - none for unit in np.eye(dim)])
                pull = gamma[k] - rho * sum(v[k] + v[j] for j in near[k])
                w[k] = np.linalg.solve(bent + 2 * rho * degree * np.eye(dim), -none - pull)
        way.send({k: w[k] for k in np.flatnonzero(mask)})
        for k in np.flatnonzero(mask):
            there = [j for j in near[k] if mask[j]]
            gamma[k] = gamma[k] + rho * sum(way.known[k] - way.known[j] for j in there)
        heard.append([way.known[k] for k in range(number)])
        models.append(w)
    return np.array(heard), np.array(models)
