"""Independent NumPy float64 references of consensus over a graph.

Node i of a connected graph has a smooth convex f_i, and all a convex r with a proximal map:

    minimise  sum_i f_i(x) + r(x)

Everything is written node by node and neighbour by neighbour, after the papers named at each
function. Nothing here imports the package.
"""

import numpy as np

# --- graphs and problems ------------------------------------------------------------------------

EDGES = (*((i, (i + 1) % 8) for i in range(8)), (0, 4), (1, 3), (2, 6))
NODES, DIM = 8, 3


def neighbours(edges, nodes, present=None):
    """Return the neighbours of every node; of those present only, if it is said who is."""
    found = [[] for _ in range(nodes)]
    for i, j in edges:
        if present is None or (present[i] and present[j]):
            found[i].append(j)
            found[j].append(i)
    return found


def metropolis(edges, nodes, present=None):
    """Return the matrix W of Metropolis weights; of the present subgraph, if one is given."""
    near = neighbours(edges, nodes, present)
    matrix = np.zeros((nodes, nodes))
    for i in range(nodes):
        for j in near[i]:
            matrix[i, j] = 1 / (1 + max(len(near[i]), len(near[j])))
        matrix[i, i] = 1 - matrix[i].sum()
    return matrix


def curvatures_and_centres(scale=1.0):
    """Return h and b of `f_i(x) = sum_p h_ip (x_p - b_ip)^2 / 2`, shape (nodes, dim) each."""
    rng = np.random.default_rng(0)
    h = scale * rng.uniform(0.2, 1, (NODES, DIM))
    return h, rng.standard_normal((NODES, DIM))


def soft(v, threshold):
    """Return the proximal map of `threshold ||x||_1`."""
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0)


def minimizer(h, b, lasso=0.0):
    """Return the minimiser of the mean of the losses plus `lasso ||x||_1`, shape (dim,)."""
    return soft((h * b).mean(0), lasso) / h.mean(0)


def prox(h, b, v, weight, lasso=0.0):
    """Return `argmin_x h (x - b)^2 / 2 + lasso |x| + weight (x - v)^2 / 2`, entry by entry."""
    return soft(h * b + weight * v, lasso) / (h + weight)


def distance(x, optimum):
    """Return `||X - 1 x*|| / (sqrt(nodes) ||x*||)`."""
    return np.linalg.norm(x - optimum) / (np.sqrt(len(x)) * np.linalg.norm(optimum))


# --- methods: each returns the models after every round, shape (rounds, nodes, dim) ---------------


def admm_nodes(h, b, start, c, masks, lasso=0.0, edges=EDGES):
    """Run decentralised ADMM with a multiplier per node, which only those present update.

    The paper has everybody take part in every round; else the multipliers do not add up to zero.

    W. Shi, Q. Ling, K. Yuan, G. Wu, W. Yin, "On the Linear Convergence of the ADMM in
    Decentralized Consensus Optimization", IEEE TSP 62(7), 2014, Algorithm 1.

    Returns:
      The models, and the multipliers after every round.
    """
    near = neighbours(edges, len(start))
    x, alpha = start.copy(), np.zeros_like(start)
    models, multipliers = [], []
    for mask in masks:
        new = x.copy()
        for i in np.flatnonzero(mask):
            weight = 2 * c * len(near[i])
            centre = (c * sum(x[i] + x[j] for j in near[i]) - alpha[i]) / weight
            new[i] = prox(h[i], b[i], centre, weight, lasso)
        x, alpha = new, alpha.copy()
        for i in np.flatnonzero(mask):
            alpha[i] += c * sum(x[i] - x[j] for j in near[i])
        models.append(x)
        multipliers.append(alpha)
    return np.array(models), np.array(multipliers)


def admm_edges(h, b, start, c, masks, relaxation=1.0, lasso=0.0, edges=EDGES):
    """Run decentralised ADMM with a mailbox per neighbour: who is absent still receives.

    The relaxed Peaceman-Rachford splitting, z in units of multipliers: z_ij is kept by i. Nodes
    without neighbours take proximal steps of weight 2c from where they are.
    """
    near = neighbours(edges, len(start))
    x = start.copy()
    z = {(i, j): c * (x[i] + x[j]) for i, js in enumerate(near) for j in js}
    models = []
    for mask in masks:
        new = x.copy()
        for i in np.flatnonzero(mask):
            weight = 2 * c * max(len(near[i]), 1)
            centre = sum(z[i, j] for j in near[i]) / weight if near[i] else x[i]
            new[i] = prox(h[i], b[i], centre, weight, lasso)
        x, sent = new, z.copy()
        for i in np.flatnonzero(mask):
            for j in near[i]:
                arrived = 4 * c * x[i] - sent[i, j]
                z[j, i] = (1 - relaxation / 2) * sent[j, i] + relaxation / 2 * arrived
        models.append(x)
    return np.array(models)


def extra_published(h, b, start, s, rounds, lasso=0.0, edges=EDGES):
    """Run EXTRA, or PG-EXTRA, as published; everybody takes part in every round.

    W. Shi, Q. Ling, G. Wu, W. Yin, "EXTRA", SIAM J. Optim. 25(2), 2015, Algorithm 1, and "A
    Proximal Gradient Algorithm for Decentralized Composite Optimization", IEEE TSP 63(22), 2015.
    """
    mixing = metropolis(edges, len(start))
    lazy = (np.eye(len(start)) + mixing) / 2

    def slope(x):
        return h * (x - b)

    old, half = start, mixing @ start - s * slope(start)
    x, models = soft(half, s * lasso), []
    for _ in range(rounds):
        models.append(x)
        half = mixing @ x + half - lazy @ old - s * (slope(x) - slope(old))
        old, x = x, soft(half, s * lasso)
    return np.array(models)


def extra_present(h, b, start, s, masks, lasso=0.0, edges=EDGES):
    """Run EXTRA, or PG-EXTRA, with an accumulated correction p, among those present only.

    Returns:
      The models, and p after every round.
    """
    x, p = start.copy(), np.zeros_like(start)
    models, corrections = [], []
    for mask in masks:
        mixed = metropolis(edges, len(x), mask) @ x
        new_x, new_p = x.copy(), p.copy()
        for i in np.flatnonzero(mask):
            half = mixed[i] - s * h[i] * (x[i] - b[i]) - p[i]
            new_p[i] = p[i] + (x[i] - mixed[i]) / 2
            new_x[i] = soft(half, s * lasso)
        x, p = new_x, new_p
        models.append(x)
        corrections.append(p)
    return np.array(models), np.array(corrections)
