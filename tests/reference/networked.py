"""Independent NumPy float64 reference of networked federated learning by total variation.

The method is Algorithm 1 of Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated
Learning via Generalized Total Variation Minimization", arXiv:2105.12769. Node ``i`` of an
undirected graph has a model ``w_i`` and a loss ``L_i``; edge ``e = (h, t)``, ``h < t``, has the
weight ``A_e``:

    minimise  sum_i L_i(w_i) + lambda sum_e A_e phi(w_h - w_t).

The squared loss is ``L_i(w) = scale / m ||X w - y||^2 = w^T Q w - 2 q^T w + c`` with
``Q = scale / m X^T X``, ``q = scale / m X^T y``, ``c = scale / m ||y||^2``; the logistic loss, with
labels +-1, is ``scale / m sum log(1 + exp(-y x^T w))``. The whole local objective of an
inaccessible node is absent, ridge and Lasso term included, so its prox is the identity.

``u_e`` is the flow of an edge, ``(D w)_e = w_h - w_t``, and the *radius* of an edge is
``lambda A_e``. An edge of weight zero is no edge: it counts in no degree and carries no flow.

The baselines are FedAvg (McMahan et al., AISTATS 2017), the average of exact prox steps, and IFCA
(Ghosh et al., arXiv:2006.04088). Everything is written node by node and edge by edge. Nothing here
imports the package.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

# --- nodes and local losses ---------------------------------------------------------------------


@dataclass
class Node:
    """Data of one client; ``scale`` = 1 gives the mean over its samples, ``m`` the sum."""

    x: np.ndarray
    y: np.ndarray
    accessible: bool = True
    scale: float = 1.0

    @property
    def dim(self):
        return self.x.shape[1]

    @property
    def weight(self):
        """What multiplies the loss of one sample."""
        return self.scale / len(self.y)


def second_moment(node):
    """``Q`` of a node, zero if it is inaccessible."""
    if not node.accessible:
        return np.zeros((node.dim, node.dim))
    return node.weight * node.x.T @ node.x


def cross_moment(node):
    """``q`` of a node, zero if it is inaccessible."""
    if not node.accessible:
        return np.zeros(node.dim)
    return node.weight * node.x.T @ node.y


def squared_loss(node, w, ridge=0.0, lasso=0.0):
    """``L_i(w) + ridge ||w||_2^2 + lasso ||w||_1``."""
    if not node.accessible:
        return 0.0
    residual = node.x @ w - node.y
    value = node.weight * float(residual @ residual)
    return value + ridge * float(w @ w) + lasso * float(np.abs(w).sum())


def squared_gradient(node, w):
    """Gradient of the squared loss."""
    if not node.accessible:
        return np.zeros(node.dim)
    return 2.0 * node.weight * node.x.T @ (node.x @ w - node.y)


def logistic_loss(node, w):
    """Logistic loss; the labels are -1 and 1."""
    if not node.accessible:
        return 0.0
    return node.weight * float(np.logaddexp(0.0, -node.y * (node.x @ w)).sum())


def logistic_gradient(node, w):
    """Gradient of the logistic loss."""
    if not node.accessible:
        return np.zeros(node.dim)
    return -node.weight * node.x.T @ (node.y * expit(-node.y * (node.x @ w)))


# --- proximal operators -------------------------------------------------------------------------


def prox_squared(node, v, tau, ridge=0.0):
    """Minimiser of ``L_i(z) + ridge ||z||_2^2 + ||z - v||^2 / (2 tau)``."""
    if not node.accessible:
        return v.copy()
    eye = np.eye(node.dim)
    matrix = eye + 2.0 * tau * (second_moment(node) + ridge * eye)
    return np.linalg.solve(matrix, v + 2.0 * tau * cross_moment(node))


def soft_threshold(v, threshold):
    """Prox of ``threshold ||.||_1``."""
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def prox_lasso(node, v, tau, eta, steps, start):
    """A number of proximal gradient steps on ``L_i(z) + eta ||z||_1 + ||z - v||^2 / (2 tau)``.

    The step is ``1 / L`` with ``L = 2 lambda_max(Q) + 1 / tau``, and the first point is ``start``.
    An infinite ``tau`` leaves the proximal term away.
    """
    if not node.accessible:
        return v.copy()
    q_matrix, q_vector = second_moment(node), cross_moment(node)
    lipschitz = 2.0 * np.linalg.eigvalsh(q_matrix)[-1] + 1.0 / tau
    z = np.array(start, float)
    for _ in range(steps):
        gradient = 2.0 * (q_matrix @ z - q_vector) + (z - v) / tau
        z = soft_threshold(z - gradient / lipschitz, eta / lipschitz)
    return z


def prox_lasso_exact(node, v, tau, eta, steps=20000):
    """The limit of `prox_lasso`, by many steps; ends when a step changes nothing."""
    z = v.copy()
    for _ in range(steps // 20):
        after = prox_lasso(node, v, tau, eta, 20, z)
        if np.array_equal(after, z):
            break
        z = after
    return z


def prox_logistic(node, v, tau, tolerance=1e-13, steps=100):
    """Minimiser of the logistic loss plus ``||z - v||^2 / (2 tau)``, by damped Newton from ``v``.

    Ends when the norm of the gradient is below ``tolerance (1 + ||v|| / tau)``.
    """
    if not node.accessible:
        return v.copy()

    def value(z):
        return logistic_loss(node, z) + float((z - v) @ (z - v)) / (2.0 * tau)

    z = v.copy()
    for _ in range(steps):
        gradient = logistic_gradient(node, z) + (z - v) / tau
        if np.linalg.norm(gradient) <= tolerance * (1.0 + np.linalg.norm(v) / tau):
            break
        p = expit(-node.y * (node.x @ z))
        hessian = node.weight * (node.x.T * (p * (1.0 - p))) @ node.x + np.eye(node.dim) / tau
        direction = np.linalg.solve(hessian, gradient)
        decrease = float(gradient @ direction)
        # Near the minimiser rounding hides the decrease, hence the last term.
        length, current = 1.0, value(z)
        slack = 1e-14 * (1.0 + abs(current))
        while value(z - length * direction) > current - 1e-4 * length * decrease + slack:
            length /= 2.0
        z = z - length * direction
    return z


def prox_gradient_steps(node, v, tau, steps, rate, start, gradient=squared_gradient):
    """A number of gradient steps on ``L_i(z) + ||z - v||^2 / (2 tau)`` from ``start``."""
    if not node.accessible:
        return v.copy()
    z = np.array(start, float)
    for _ in range(steps):
        z = z - rate * (gradient(node, z) + (z - v) / tau)
    return z


# --- penalties and dual updates -----------------------------------------------------------------


def dual_nlasso(v, radius, sigma):
    """Projection on the ball of the 2-norm; ``phi = ||.||_2``."""
    norm = math.sqrt(float(v @ v))
    return v * (radius / norm) if norm > radius else v.copy()


def dual_l1(v, radius, sigma):
    """Projection on the box; ``phi = ||.||_1``."""
    return np.clip(v, -radius, radius)


def dual_mocha(v, radius, sigma):
    """``phi = ||.||_2^2 / 2``."""
    return v * (radius / (radius + sigma))


def dual_squared(v, radius, sigma):
    """``phi = ||.||_2^2``."""
    return v * (2.0 * radius / (2.0 * radius + sigma))


def dual_quadratic(v, radius, sigma, matrix):
    """``phi(v) = v^T M v / 2`` with M positive semidefinite, singular or not."""
    scaled = radius * np.asarray(matrix, float)
    return scaled @ np.linalg.solve(scaled + sigma * np.eye(len(v)), v)


def dual_update(penalty, v, radius, sigma, matrix=None):
    """Minimiser of ``radius phi*(z / radius) + ||z - v||^2 / (2 sigma)``."""
    if penalty == "nlasso":
        return dual_nlasso(v, radius, sigma)
    if penalty == "l1":
        return dual_l1(v, radius, sigma)
    if penalty == "mocha":
        return dual_mocha(v, radius, sigma)
    if penalty == "squared":
        return dual_squared(v, radius, sigma)
    if penalty == "quadratic":
        return dual_quadratic(v, radius, sigma, matrix)
    raise ValueError(penalty)


# --- the graph ----------------------------------------------------------------------------------


def degrees(count, edges, weights):
    """Numbers of incident edges of positive weight (count,)."""
    out = np.zeros(count, int)
    for (head, tail), weight in zip(edges, weights, strict=True):
        if weight > 0.0:
            out[head] += 1
            out[tail] += 1
    return out


def divergence(count, edges, u):
    """``D^T u``: flows out of a node as head minus flows out of it as tail (count, d)."""
    out = np.zeros((count, u.shape[1]))
    for (head, tail), flow in zip(edges, u, strict=True):
        out[head] += flow
        out[tail] -= flow
    return out


# --- Algorithm 1 --------------------------------------------------------------------------------


def primal_dual(
    nodes,
    edges,
    weights,
    lam,
    penalty,
    ratio,
    rounds,
    margin=0.5,
    prox=None,
    masks=None,
    record=True,
    matrix=None,
    local=None,
    start=None,
):
    """Algorithm 1, node by node and then edge by edge.

    The steps are ``tau_i = ratio / deg_i`` and ``sigma = margin / ratio``; the paper has the ratio
    1 and the margin 1/2. Isolated nodes stand at their local minimiser from the beginning.

    Args:
        nodes: Sequence of `Node`.
        edges: Pairs (head, tail) of node numbers, head < tail.
        weights: Weights of the edges (E,), zero or positive.
        lam: Strength of the penalty.
        penalty: One of `PENALTIES`.
        ratio: The ratio c of the primal steps to the dual step.
        rounds: Number of iterations.
        margin: ``sigma tau_i deg_i``.
        prox: The primal update, ``prox(node, v, tau, w)`` with ``w`` the model before it;
            `prox_squared` by default.
        masks: Which nodes are active (rounds, n); all of them by default. A node that is not keeps
            its model, and an edge of which one end is not keeps its flow.
        record: Returns the last iterate alone if false.
        matrix: M of the penalty "quadratic".
        local: The minimiser ``local(node)`` where an isolated accessible node stands;
            `local_model` by default.
        start: First ``w`` (n, d) and ``u`` (E, d); zeros by default.

    Returns:
        ``w`` (rounds, n, d) and ``u`` (rounds, E, d) after every round.
    """
    count, dim = len(nodes), nodes[0].dim
    degree = degrees(count, edges, weights)
    sigma = margin / ratio
    prox = (lambda node, v, tau, w: prox_squared(node, v, tau)) if prox is None else prox
    local = local_model if local is None else local

    w, u = np.zeros((count, dim)), np.zeros((len(edges), dim))
    if start is not None:
        w, u = np.array(start[0], float), np.array(start[1], float)
    for i, node in enumerate(nodes):
        if degree[i] == 0:
            w[i] = local(node) if node.accessible else 0.0

    trajectory_w, trajectory_u = [], []
    for index in range(rounds):
        active = np.ones(count, bool) if masks is None else np.asarray(masks[index], bool)

        flow = divergence(count, edges, u)
        w_next = w.copy()
        for i, node in enumerate(nodes):
            if degree[i] == 0 or not active[i]:
                continue
            tau = ratio / degree[i]
            w_next[i] = prox(node, w[i] - tau * flow[i], tau, w[i])

        u_next = u.copy()
        for e, (head, tail) in enumerate(edges):
            if weights[e] == 0.0 or not (active[head] and active[tail]):
                continue
            ahead = (2.0 * w_next[head] - w[head]) - (2.0 * w_next[tail] - w[tail])
            u_next[e] = dual_update(penalty, u[e] + sigma * ahead, lam * weights[e], sigma, matrix)

        w, u = w_next, u_next
        if record:
            trajectory_w.append(w)
            trajectory_u.append(u)
    if not record:
        return w, u
    return (
        np.array(trajectory_w).reshape(rounds, count, dim),
        np.array(trajectory_u).reshape(rounds, len(edges), dim),
    )


# --- comparison methods -------------------------------------------------------------------------


def pooled_least_squares(nodes):
    """Minimum-norm minimiser of the sum of the losses of the accessible nodes among ``nodes``."""
    rows, labels = [], []
    for node in nodes:
        if node.accessible:
            rows.append(math.sqrt(node.weight) * node.x)
            labels.append(math.sqrt(node.weight) * node.y)
    if not rows:
        return np.zeros(nodes[0].dim)
    return np.linalg.lstsq(np.concatenate(rows), np.concatenate(labels))[0]


def local_model(node):
    """Minimum-norm least squares of one node, zero if it is inaccessible."""
    return pooled_least_squares([node])


def local_models(nodes):
    """`local_model` of every node (n, d)."""
    return np.array([local_model(node) for node in nodes])


def pooled_model(nodes):
    """One model for all, the minimiser of the sum of the accessible losses (d,)."""
    return pooled_least_squares(nodes)


def cluster_oracle(nodes, labels):
    """Minimiser of the sum of the accessible losses of a node's true cluster, per node (n, d)."""
    models = {}
    for label in sorted(set(np.asarray(labels).tolist())):
        members = [node for node, other in zip(nodes, labels, strict=True) if other == label]
        models[label] = pooled_least_squares(members)
    return np.array([models[label] for label in np.asarray(labels).tolist()])


def fedavg(nodes, rate, rounds, local_steps=1, start=None):
    """FedAvg with full-batch gradient steps; equal weights, accessible nodes only.

    Returns:
        The model after every round (rounds, d).
    """
    model = np.zeros(nodes[0].dim) if start is None else np.array(start, float)
    out = np.empty((rounds, len(model)))
    for index in range(rounds):
        returned = []
        for node in nodes:
            if not node.accessible:
                continue
            w = model
            for _ in range(local_steps):
                w = w - rate * squared_gradient(node, w)
            returned.append(w)
        model = np.mean(returned, axis=0)
        out[index] = model
    return out


def fedavg_prox(nodes, taus, rounds, start=None):
    """The average of exact prox steps ``prox_(tau_i L_i)`` of the accessible nodes.

    Returns:
        The model after every round (rounds, d).
    """
    model = np.zeros(nodes[0].dim) if start is None else np.array(start, float)
    out = np.empty((rounds, len(model)))
    for index in range(rounds):
        returned = []
        for node, tau in zip(nodes, taus, strict=True):
            if node.accessible:
                returned.append(prox_squared(node, model, tau))
        model = np.mean(returned, axis=0)
        out[index] = model
    return out


def ifca_assignment(nodes, thetas):
    """The number of the model of smallest local loss, the first of equals, -1 if inaccessible."""
    out = np.full(len(nodes), -1)
    for i, node in enumerate(nodes):
        if node.accessible:
            out[i] = int(np.argmin([squared_loss(node, theta) for theta in thetas]))
    return out


def ifca(nodes, thetas, rate, rounds):
    """IFCA: every client takes its best model, then the models follow their clients' gradients.

    The sum of the gradients of a model's clients is divided by the number of all nodes,
    inaccessible ones included.

    Returns:
        A dict of ``thetas`` after every round (rounds, k, d), ``assignments`` (rounds + 1, n),
        those of a round and at last those under the final models, and ``clusters``
        (rounds + 1,), the numbers of models with a client.
    """
    thetas = np.array(thetas, float)
    trajectory = np.empty((rounds, *thetas.shape))
    assignments = np.empty((rounds + 1, len(nodes)), int)
    for index in range(rounds):
        assigned = ifca_assignment(nodes, thetas)
        assignments[index] = assigned
        updated = thetas.copy()
        for j in range(len(thetas)):
            total = np.zeros(thetas.shape[1])
            for i, node in enumerate(nodes):
                if assigned[i] == j:
                    total += squared_gradient(node, thetas[j])
            updated[j] = thetas[j] - rate / len(nodes) * total
        thetas = updated
        trajectory[index] = thetas
    assignments[rounds] = ifca_assignment(nodes, thetas)
    clusters = np.array([len(set(row.tolist()) - {-1}) for row in assignments])
    return {"thetas": trajectory, "assignments": assignments, "clusters": clusters}


# --- critical strengths -------------------------------------------------------------------------


def _dual_norm(v, dual_norm):
    if dual_norm == "l2":
        return math.sqrt(float(v @ v))
    if dual_norm == "linf":
        return float(np.abs(v).max())
    raise ValueError(dual_norm)


def critical_lambda_star(edges, weights, nodes, dual_norm="l2"):
    """Smallest lambda at which a star has a solution with all models equal.

    Node 0 is the centre. The norm is dual to the penalty: "l2" for nlasso and "linf" for l1.
    """
    common = pooled_model(nodes)
    critical = 0.0
    for (head, leaf), weight in zip(edges, weights, strict=True):
        if head != 0:
            raise ValueError("node 0 is the centre of a star")
        gradient = squared_gradient(nodes[leaf], common)
        critical = max(critical, _dual_norm(gradient, dual_norm) / weight)
    return critical


def critical_lambda_tree(edges, weights, nodes, dual_norm="l2"):
    """`critical_lambda_star` for any tree: an edge carries the gradient sum of one of its sides."""
    common = pooled_model(nodes)
    critical = 0.0
    for removed, (head, _) in enumerate(edges):
        side, grown = {head}, True
        while grown:
            grown = False
            for e, (a, b) in enumerate(edges):
                if e != removed and (a in side) != (b in side):
                    side |= {a, b}
                    grown = True
        gradient = np.zeros(nodes[0].dim)
        for i in side:
            gradient += squared_gradient(nodes[i], common)
        critical = max(critical, _dual_norm(gradient, dual_norm) / weights[removed])
    return critical


# --- graphs and data ----------------------------------------------------------------------------


def draw_sbm(rng, sizes, p_in, p_out):
    """Stochastic block model: independent edges, of weight 1.

    Returns:
        Edges (E, 2), weights (E,) and the label of every node (n,).
    """
    labels = np.repeat(np.arange(len(sizes)), sizes)
    edges = []
    for head in range(len(labels)):
        for tail in range(head + 1, len(labels)):
            if rng.uniform() < (p_in if labels[head] == labels[tail] else p_out):
                edges.append((head, tail))
    return np.array(edges, int).reshape(-1, 2), np.ones(len(edges)), labels


def chain(sizes, weak):
    """Path through all nodes; the edges between consecutive clusters have the weight ``weak``.

    Returns:
        Edges (n - 1, 2), weights (n - 1,) and the label of every node (n,).
    """
    labels = np.repeat(np.arange(len(sizes)), sizes)
    edges = [(i, i + 1) for i in range(len(labels) - 1)]
    weights = [1.0 if labels[head] == labels[tail] else weak for head, tail in edges]
    return np.array(edges), np.array(weights), labels


def star(count):
    """Node 0 joined to every other one by edges of weight 1; edges (count - 1, 2) and weights."""
    return np.array([(0, leaf) for leaf in range(1, count)]), np.ones(count - 1)


def draw_nodes(rng, truths, m, sigma, accessible=None, scale=1.0):
    """Nodes with Gaussian features, ``y = x^T truth + sigma noise`` with noise per sample.

    Args:
        rng: Generator.
        truths: True models (n, d).
        m: Samples per node.
        sigma: Standard deviation of the noise.
        accessible: Which nodes are accessible (n,); all of them by default.
        scale: The ``scale`` of every node.
    """
    out = []
    for i, truth in enumerate(truths):
        x = rng.standard_normal((m, len(truth)))
        y = x @ truth + sigma * rng.standard_normal(m)
        out.append(Node(x, y, accessible is None or bool(accessible[i]), scale))
    return out
