"""Independent NumPy float64 references of FedADMM and of an adaptive penalty parameter.

Written client by client; nothing here imports the package. FedADMM is given by Y. Gong, Y. Li,
N. Freris, arXiv:2204.03529, Algorithm 1, and by S. Zhou, G. Y. Li, arXiv:2204.10607; the consensus
ADMM by S. Boyd et al., "Distributed Optimization and Statistical Learning via the Alternating
Direction Method of Multipliers" (2011), section 7, with residual balancing by B. Wohlberg,
arXiv:1704.06209.
"""

import math

import numpy as np


def local(hessian, linear, rho, centre, start, rate=None, steps=5):
    """Solve f(w) + rho/2 ||w - centre||^2 exactly, or by gradient steps if there is a rate."""
    if rate is None:
        return np.linalg.solve(hessian + rho * np.eye(len(linear)), linear + rho * centre)
    w = start.copy()
    for _ in range(steps):
        w = w - rate * (hessian @ w - linear + rho * (w - centre))
    return w


def fed_admm(
    hessians,
    linear,
    *,
    rounds,
    rho,
    start=None,
    masks=None,
    rate=None,
    steps=5,
    dual_updates=1,
    server_step=None,
    relaxation=1.0,
    prox=None,
):
    """FedADMM on quadratic clients, as Gong, Li and Freris write it, with what was added to it.

    Args:
      hessians: (N, d, d).
      linear: (N, d).
      rounds: how many.
      rho: a number, or one per client.
      start: (d,).
      masks: who takes part (rounds, N).
      rate: of gradient steps from the server's model; None solves exactly.
      steps: how many.
      dual_updates: solutions and dual steps per round.
      server_step: eta; |S| / N if None.
      relaxation: of the server's model toward the client's own.
      prox: `prox(v, step)` of the regulariser.

    Returns:
      Server's models (rounds, d), clients' models and duals (rounds, N, d).
    """
    clients, dim = linear.shape
    rho = np.broadcast_to(np.asarray(rho, float), (clients,))
    z = np.zeros(dim) if start is None else np.array(start, float)
    inside = z.copy()
    w, y = np.array([z] * clients), np.zeros((clients, dim))
    servers, models, duals = [], [], []
    for index in range(rounds):
        present = [i for i in range(clients) if masks is None or masks[index][i]]
        arrived = []
        for i in present:
            old = w[i] + y[i] / rho[i]
            aim = relaxation * z + (1 - relaxation) * w[i]
            for _ in range(dual_updates):
                centre = aim - y[i] / rho[i]
                w[i] = local(hessians[i], linear[i], rho[i], centre, z, rate, steps)
                y[i] = y[i] + rho[i] * (w[i] - aim)
            arrived.append(rho[i] * (w[i] + y[i] / rho[i] - old))
        if present:
            eta = len(present) / clients if server_step is None else server_step
            inside = inside + eta * np.mean(arrived, 0) / np.mean(rho)
            z = inside if prox is None else prox(inside, clients / math.fsum(rho))
        servers.append(z.copy())
        models.append(w.copy())
        duals.append(y.copy())
    return np.array(servers), np.array(models), np.array(duals)


def zhou_li(hessians, linear, *, rounds, sigma, r, steps, inner=1, masks=None):
    """Zhou and Li's order: the server first, from what all clients sent last; its models."""
    clients, dim = linear.shape
    sigma, r = sigma / clients, r / clients  # their losses are f_i / N
    x_local, pi = np.zeros((clients, dim)), np.zeros((clients, dim))
    sent = sigma * x_local + pi
    servers = []
    for index in range(rounds):
        x = sent.sum(0) / (clients * sigma)
        servers.append(x)
        for i in range(clients):
            if masks is not None and not masks[index][i]:
                continue
            for _ in range(inner):
                v = x
                for _ in range(steps):
                    slope = (hessians[i] @ v - linear[i]) / clients
                    v = (r * v + sigma * x - pi[i] - slope) / (r + sigma)
                x_local[i], pi[i] = v, pi[i] + sigma * (v - x)
            sent[i] = sigma * x_local[i] + pi[i]
    return np.array(servers)


# --- consensus ADMM with the server's step between the clients' and the duals' --------------------


def consensus(curvatures, centres, *, rounds, s, relaxation=1.0, adapt=False, period=2):
    """Consensus ADMM of separable quadratics sum_p h_p (x_p - b_p)^2 / 2, no regulariser.

    Args:
      curvatures: h, (N, d).
      centres: b, (N, d).
      rounds: how many.
      s: the first penalty parameter.
      relaxation: of the clients' models toward the server's of before.
      adapt: whether residuals are balanced.
      period: rounds between attempts.

    Returns:
      Server's models (rounds, d), and the penalty parameter after each round (rounds,).
    """
    clients, dim = centres.shape
    w, zeta = np.zeros(dim), np.zeros((clients, dim))
    servers, chosen = [], []
    for count in range(1, rounds + 1):
        q = (curvatures * centres + s * w + zeta) / (curvatures + s)
        relaxed = relaxation * q + (1 - relaxation) * w
        new = np.mean(relaxed - zeta / s, 0)
        zeta = zeta + s * (new - relaxed)
        if adapt and count % period == 0:
            size = max(np.linalg.norm(q), math.sqrt(clients) * np.linalg.norm(new))
            primal = np.linalg.norm(q - new) / size
            dual = s * math.sqrt(clients) * np.linalg.norm(new - w) / np.linalg.norm(zeta)
            s = 2 * s if primal > 10 * dual else s / 2 if dual > 10 * primal else s
        w = new
        servers.append(w)
        chosen.append(s)
    return np.array(servers), np.array(chosen)
