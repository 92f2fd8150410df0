"""An independent NumPy float64 reference of smoothing ADMM whose messages much happens to.

Written node by node; of the package nothing is imported. Losses are `||w - b_n||^2 / 2`, links are
smoothed l1 norms, and servers have no regularisers.
"""

import math

import numpy as np

from tests.reference.aggregators import trimmed_mean
from tests.reference.compressors import top_k
from tests.reference.graph_exchanged import Way
from tests.reference.hfsad import l1_link_prox, node_levels, server_order


class Weighted(Way):
    """Messages whose weights travel with them, uncompressed."""

    def __init__(self, first, weights, byzantine, step):
        """Take what both ends know at the start, sender -> message and weight."""
        super().__init__(first, byzantine, step)
        self.weights, self.travelling = dict(weights), {}

    def post(self, messages, weights):
        """Take sender -> message and weight, and let arrive what was sent last."""
        self.send(messages)
        self.weights |= self.travelling
        self.travelling = dict(weights)


def hierarchical_admm(parents, clients, b, start, *, masks, bad, c, alpha, weight, step, share):
    """Run the method through differences both ways, negations, delays and trimmed means.

    Args:
      parents: of every node, -1 for the root.
      clients: the nodes with data, in their order.
      b: of the losses, a vector for each client.
      start: of all models.
      masks: who is active, (rounds, passes, nodes), clients before servers in `server_order`.
      bad: who is Byzantine, likewise, (nodes,).
      c: of sigma = c sqrt(k).
      alpha: of mu = alpha / sqrt(k).
      weight: of the links.
      step: of the coded differences, up and down; one entry travels.
      share: that trimmed means take away.

    Returns:
      The root's models after every round, (rounds, dim), and the clients' models at the end.
    """
    servers, levels, root = server_order(parents, clients), node_levels(parents), parents.index(-1)
    nodes = [*clients, *servers]
    column = {node: place for place, node in enumerate(nodes)}
    below = {p: [n for n in nodes if parents[n] == p] for p in (root, *servers)}
    groups = [
        clients,
        *([n for n in servers if levels[n] == at] for at in range(max(levels) - 1, 0, -1)),
    ]
    w, z, q, read = ({n: start.copy() for n in (*nodes, root)} for _ in range(4))
    gamma, k = dict.fromkeys(nodes, 0 * start), dict.fromkeys(nodes, 0)

    def sigma(n):
        return c * math.sqrt(k[n] + 1)

    ways = {}
    for group in groups:
        way = Weighted(
            dict.fromkeys(group, start), dict.fromkeys(group, c), lambda n: bad[column[n]], step
        )
        ways |= dict.fromkeys(group, way)

    def received(p):
        heavy = np.array([ways[n].weights[n] for n in below[p]])
        values = np.array([ways[n].known[n] for n in below[p]])
        return trimmed_mean(values, heavy, share), heavy.sum()

    def update(n):
        s, mu, above = sigma(n), alpha / math.sqrt(k[n] + 1), read[n]
        if n in clients:
            centre = z[n] + gamma[n] / s
            w[n] = (s * centre + b[clients.index(n)]) / (s + 1)
        else:
            mean, heavy = received(n)
            w[n] = (s * z[n] + gamma[n] + heavy * mean) / (s + heavy)
        a, e = w[n] - gamma[n] / s, above + gamma[n] / s
        apart = l1_link_prox(e - a, 2 / s, mu, weight)
        z[n], q[n] = (a + e - apart) / 2, (a + e + apart) / 2
        gamma[n] = gamma[n] + s * (above - q[n])
        k[n] += 1

    roots = []
    for round_masks in masks:
        for turn, mask in enumerate(round_masks):
            last, once = turn == len(round_masks) - 1, round_masks.any(0)
            active = {n: mask[column[n]] for n in nodes}
            at_root = {n: parents[n] == root and once[column[n]] for n in nodes}
            models = dict(w)
            for group in groups:
                sends = {}
                for n in group:
                    reads = at_root[n] and turn == 0 if parents[n] == root else active[n]
                    speaks = at_root[n] and last if parents[n] == root else active[n]
                    if reads:
                        read[n] = read[n] + step * top_k(models[parents[n]] - read[n], 1)
                    if active[n]:
                        update(n)
                    if speaks:
                        sends[n] = q[n] - gamma[n] / sigma(n)
                way = ways[group[0]]
                way.post(sends, {n: sigma(n) for n in sends})
                for n in sends:
                    if not bad[column[n]]:
                        error = (sends[n] - way.built[n]) / 2
                        gamma[n], q[n] = gamma[n] + sigma(n) * error, q[n] - error
        w[root] = received(root)[0]
        roots.append(w[root])
    return np.array(roots), np.array([w[n] for n in clients])
