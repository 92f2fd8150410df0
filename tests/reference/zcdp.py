"""Independent NumPy float64 reference of private networked federated learning (zCDP-NFL).

The method is that of F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked
Federated Learning for Nonsmooth Objectives". Client ``k`` of ``K`` holds ``M_k`` samples
``(x_kj, y_kj)`` and a model ``w_k`` of ``P`` numbers, and

    minimise  sum_k f_k(w_k)  subject to  w_k = w_l on every edge,
    f_k(w) = (1/M_k) sum_j loss(x_kj . w, y_kj) + (1/K) (l1 ||w||_1 + l2 ||w||^2).

With ``N_k`` the neighbours of client ``k``, ``d_k`` their number, ``v_k`` what it last released,
and ``a = 1 / (1 / eta + 2 rho d_k)``, a round is

    w_k     <- v_k - a [g_k(v_k) + gamma_k + rho sum_(l in N_k) (v_k - v_l)],
    v_k     <- w_k + sigma_k xi_k,     xi_k standard normal, the only message,
    gamma_k <- gamma_k + rho sum_(l in N_k) (v_k - v_l),

all of them zero at first. ``g_k`` is the mean of the gradients of the samples, each clipped to the
norm ``clip``, plus the gradient of the regulariser.

The comparison methods are the distributed subgradient method (A. Nedic, A. Ozdaglar, IEEE TAC
54(1), 2009) and P-ADMM (J. Ding, Y. Gong, M. Pan, Z. Han, arXiv:1901.02094). The accounting is that
of M. Bun, T. Steinke, TCC 2016, and of J. Dong, A. Roth, W. Su, arXiv:1905.02383.

Shapes: ``edges`` (E, 2), ``x`` (K, M, P), ``y`` (K, M), and ``counts`` (K,) with the ``M_k``; the
samples after the first ``M_k`` are padding, and None says that there is none. Everything is written
client by client and sample by sample, but for `matrix_form`. Nothing here imports the package.
"""

import math
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr

# --- losses of one sample -----------------------------------------------------------------------


def squared_value(p, y):
    """``(p - y)^2``."""
    return (p - y) ** 2


def squared_slope(p, y):
    """``2 (p - y)``."""
    return 2.0 * (p - y)


def absolute_value(p, y):
    """``|p - y|``."""
    return abs(p - y)


def absolute_slope(p, y):
    """``sign(p - y)``, zero at zero."""
    return np.sign(p - y)


def huber_value(p, y, threshold=1.0):
    """``r^2 / 2`` for ``|r| <= threshold``, else ``threshold (|r| - threshold / 2)``."""
    size = abs(p - y)
    if size <= threshold:
        return 0.5 * size**2
    return threshold * (size - 0.5 * threshold)


def huber_slope(p, y, threshold=1.0):
    """``r`` cut to ``[-threshold, threshold]``."""
    return min(max(p - y, -threshold), threshold)


def logistic_value(p, y):
    """``log(1 + exp(-y p))``; ``y`` is -1 or 1."""
    return np.logaddexp(0.0, -y * p)


def logistic_slope(p, y):
    """``-y / (1 + exp(y p))``."""
    return -y * expit(-y * p)


LOSSES = {
    "squared": (squared_value, squared_slope),
    "absolute": (absolute_value, absolute_slope),
    "huber": (huber_value, huber_slope),
    "logistic": (logistic_value, logistic_slope),
}


def huber(threshold):
    """The Huber loss of another threshold than 1, for the argument ``loss``."""
    return partial(huber_value, threshold=threshold), partial(huber_slope, threshold=threshold)


def of_loss(loss):
    """The pair (value, slope) of a name of `LOSSES`; a pair is left as it is."""
    return LOSSES[loss] if isinstance(loss, str) else loss


# --- objective of a client ----------------------------------------------------------------------


def own(x, y, counts, k):
    """The true samples of client ``k``, without the padding."""
    size = len(y[k]) if counts is None else int(counts[k])
    return x[k][:size], y[k][:size]


def regulariser(w, l1=0.0, l2=0.0):
    """``R(w) = l1 ||w||_1 + l2 ||w||^2``."""
    return l1 * float(np.abs(w).sum()) + l2 * float((w**2).sum())


def client_value(loss, x_k, y_k, w, l1, l2, clients):
    """``f_k(w)``."""
    value, _ = of_loss(loss)
    total = 0.0
    for j in range(len(y_k)):
        total += float(value(x_k[j] @ w, y_k[j]))
    return total / len(y_k) + regulariser(w, l1, l2) / clients


def sample_gradient(loss, x_kj, y_kj, w, clip=None):
    """Gradient of the loss of one sample, cut to the norm ``clip``."""
    _, slope = of_loss(loss)
    s = float(slope(x_kj @ w, y_kj))
    norm = abs(s) * math.sqrt(float(x_kj @ x_kj))
    factor = 1.0 if clip is None or norm <= clip else clip / norm
    return s * factor * x_kj


def subgradient(loss, x_k, y_k, w, clip=None, l1=0.0, l2=0.0, clients=1):
    """``g_k(w)``: the mean of the clipped gradients of the samples plus ``R'(w) / K``."""
    total = np.zeros(len(w))
    for j in range(len(y_k)):
        total += sample_gradient(loss, x_k[j], y_k[j], w, clip)
    return total / len(y_k) + (l1 * np.sign(w) + 2.0 * l2 * w) / clients


def objective(loss, x, y, counts, w, l1=0.0, l2=0.0):
    """``F(w) = sum_k f_k(w)`` for one model ``w`` (P,)."""
    total = 0.0
    for k in range(len(x)):
        total += client_value(loss, *own(x, y, counts, k), w, l1, l2, len(x))
    return total


def clipped_value(loss, x_kj, y_kj, w, clip, threshold=1.0):
    """The convex function of ``w`` whose gradient is the clipped one of a sample.

    With ``t = clip / ||x||``, the most that the slope may be: the squared loss becomes twice the
    Huber loss of threshold ``t / 2``, the absolute loss is multiplied by ``min(1, t)``, the Huber
    loss has the smaller of both thresholds, and the logistic loss goes on linearly.

    Args:
        loss: A name of `LOSSES`.
        x_kj: Features (P,).
        y_kj: Label.
        w: Model (P,).
        clip: Largest norm.
        threshold: That of the Huber loss.
    """
    norm = math.sqrt(float(x_kj @ x_kj))
    t = math.inf if norm == 0.0 else clip / norm
    p = float(x_kj @ w)
    if loss == "squared":
        size = abs(p - y_kj)
        return size**2 if size <= t / 2.0 else t * size - t**2 / 4.0
    if loss == "absolute":
        return min(1.0, t) * abs(p - y_kj)
    if loss == "huber":
        return huber_value(p, y_kj, min(threshold, t))
    if loss == "logistic":
        if t >= 1.0:
            return logistic_value(p, y_kj)
        corner = math.log((1.0 - t) / t)
        if y_kj * p >= corner:
            return logistic_value(p, y_kj)
        return logistic_value(corner, 1.0) + t * (corner - y_kj * p)
    raise ValueError(loss)


# --- graphs -------------------------------------------------------------------------------------


def neighbour_lists(edges, clients):
    """The neighbours of every client, a list of lists."""
    out = [[] for _ in range(clients)]
    for a, b in edges:
        out[int(a)].append(int(b))
        out[int(b)].append(int(a))
    return out


def degrees(edges, clients):
    """``d_k`` (K,)."""
    return np.array([len(found) for found in neighbour_lists(edges, clients)])


def laplacian(edges, clients):
    """``L = D - A`` (K, K)."""
    out = np.zeros((clients, clients))
    for a, b in edges:
        out[a, a] += 1.0
        out[b, b] += 1.0
        out[a, b] -= 1.0
        out[b, a] -= 1.0
    return out


def metropolis(edges, clients):
    """``m_kl = 1 / (1 + max(d_k, d_l))`` on the edges, the rest to one on the diagonal (K, K)."""
    degree = degrees(edges, clients)
    out = np.zeros((clients, clients))
    for a, b in edges:
        out[a, b] = out[b, a] = 1.0 / (1.0 + max(degree[a], degree[b]))
    for k in range(clients):
        out[k, k] = 1.0 - out[k].sum()
    return out


def connected(edges, clients):
    """Whether every client is reached from client 0."""
    neighbours = neighbour_lists(edges, clients)
    seen, ahead = {0}, [0]
    while ahead:
        for other in neighbours[ahead.pop()]:
            if other not in seen:
                seen.add(other)
                ahead.append(other)
    return len(seen) == clients


# --- the methods --------------------------------------------------------------------------------


def _scale(sigma, client, count):
    """``sigma_k(n)``; an array (rounds, K) is read at the client's own count ``n``, from 1."""
    return sigma(client, count) if callable(sigma) else sigma[count - 1][client]


def _rounds(noise, masks, clients):
    """Who takes part in every round (rounds, K)."""
    return np.ones((len(noise), clients), bool) if masks is None else np.asarray(masks, bool)


def _dual_step(v, gamma, rho, neighbours, active):
    """Step 3; an edge counts if both of its ends are active. Changes ``gamma``."""
    for k in range(len(v)):
        if not active[k]:
            continue
        for other in neighbours[k]:
            if active[other]:
                gamma[k] = gamma[k] + rho * (v[k] - v[other])


def zcdp_nfl(
    loss,
    x,
    y,
    counts,
    edges,
    eta,
    rho,
    sigma,
    noise,
    clip=None,
    l1=0.0,
    l2=0.0,
    masks=None,
):
    """zCDP-NFL, client by client.

    A client that takes no part keeps ``w``, ``v``, ``gamma`` and its count of releases. In the
    primal step of an active one, a neighbour that is away stands with what it last released. In the
    dual step an edge counts only if both of its ends are active, so that the duals sum to zero.

    Args:
        loss: Name of the loss, or a pair of functions.
        x: Features (K, M, P).
        y: Labels (K, M).
        counts: Numbers of samples (K,), or None.
        edges: Edges (E, 2).
        eta: Step (rounds,); a client's n-th release has ``eta[n - 1]``.
        rho: Penalty.
        sigma: Standard deviations (rounds, K), row ``n - 1`` for a client's n-th release, or a
            function of (client, n).
        noise: Standard normals (rounds, K, P), row ``t`` for round ``t`` whoever takes part.
        clip: Largest norm of a sample's gradient; None clips nothing.
        l1: Weight of ``||w||_1``.
        l2: Weight of ``||w||^2``.
        masks: Who takes part (rounds, K); None is everyone.

    Returns:
        ``w``, ``v`` and ``gamma`` after every round, each (rounds, K, P).
    """
    clients, dim = len(x), x.shape[-1]
    neighbours = neighbour_lists(edges, clients)
    masks = _rounds(noise, masks, clients)
    w, v, gamma = np.zeros((3, clients, dim))
    releases = [0] * clients
    out = np.empty((3, len(noise), clients, dim))
    for t in range(len(noise)):
        active, before = masks[t], v.copy()
        for k in range(clients):
            if not active[k]:
                continue
            releases[k] += 1
            step = 1.0 / (1.0 / eta[releases[k] - 1] + 2.0 * rho * len(neighbours[k]))
            g = subgradient(loss, *own(x, y, counts, k), before[k], clip, l1, l2, clients)
            pull = np.zeros(dim)
            for other in neighbours[k]:
                pull += before[k] - before[other]
            w[k] = before[k] - step * (g + gamma[k] + rho * pull)
            v[k] = w[k] + _scale(sigma, k, releases[k]) * noise[t][k]
        _dual_step(v, gamma, rho, neighbours, active)
        out[:, t] = w, v, gamma
    return out[0], out[1], out[2]


def zcdp_grad(
    loss, x, y, counts, edges, eta, sigma, noise, clip=None, l1=0.0, l2=0.0, masks=None, mixing=None
):
    """The distributed subgradient method with noise.

    ``w_k = sum_l m_kl v_l - eta g_k(v_k)``, ``l = k`` included, and ``v_k = w_k + sigma_k xi_k``. A
    client that takes no part keeps ``w``, ``v`` and its count; an active one mixes what all its
    neighbours released last.

    Args:
        loss: Name of the loss, or a pair of functions.
        x: Features (K, M, P).
        y: Labels (K, M).
        counts: Numbers of samples (K,), or None.
        edges: Edges (E, 2).
        eta: Step (rounds,); a client's n-th release has ``eta[n - 1]``.
        sigma: Standard deviations (rounds, K) or a function, as in `zcdp_nfl`.
        noise: Standard normals (rounds, K, P).
        clip: Largest norm of a sample's gradient; None clips nothing.
        l1: Weight of ``||w||_1``.
        l2: Weight of ``||w||^2``.
        masks: Who takes part (rounds, K); None is everyone.
        mixing: Weights (K, K); None is `metropolis`.

    Returns:
        ``w`` and ``v`` after every round, each (rounds, K, P).
    """
    clients, dim = len(x), x.shape[-1]
    neighbours = neighbour_lists(edges, clients)
    mixing = metropolis(edges, clients) if mixing is None else mixing
    masks = _rounds(noise, masks, clients)
    w, v = np.zeros((2, clients, dim))
    releases = [0] * clients
    out = np.empty((2, len(noise), clients, dim))
    for t in range(len(noise)):
        before = v.copy()
        for k in range(clients):
            if not masks[t][k]:
                continue
            releases[k] += 1
            mixed = mixing[k, k] * before[k]
            for other in neighbours[k]:
                mixed = mixed + mixing[k, other] * before[other]
            g = subgradient(loss, *own(x, y, counts, k), before[k], clip, l1, l2, clients)
            w[k] = mixed - eta[releases[k] - 1] * g
            v[k] = w[k] + _scale(sigma, k, releases[k]) * noise[t][k]
        out[:, t] = w, v
    return out[0], out[1]


def p_admm_step(x_k, y_k, linear, curvature, clip=None, tolerance=1e-12, steps=200):
    """Minimiser of ``(1/M) sum_j loss_j(w) + (curvature / 2) ||w||^2 - linear . w``.

    ``loss_j`` is the squared loss, with ``clip`` the one of `clipped_value`. Without ``clip`` by a
    linear system, else by damped Newton steps: the function is quadratic piece by piece, and
    ``curvature`` is positive, so that they end at the minimiser. The norm of the gradient is at
    last below ``tolerance (1 + ||linear||)``.
    """
    samples, dim = x_k.shape
    start = 2.0 / samples * x_k.T @ x_k + curvature * np.eye(dim)
    w = np.linalg.solve(start, 2.0 / samples * x_k.T @ y_k + linear)
    if clip is None:
        return w

    def value(z):
        total = sum(clipped_value("squared", x_k[j], y_k[j], z, clip) for j in range(samples))
        return total / samples + 0.5 * curvature * float(z @ z) - float(linear @ z)

    for _ in range(steps):
        gradient = subgradient("squared", x_k, y_k, w, clip) + curvature * w - linear
        if np.linalg.norm(gradient) <= tolerance * (1.0 + np.linalg.norm(linear)):
            return w
        hessian = curvature * np.eye(dim)
        for j in range(samples):
            if 2.0 * abs(x_k[j] @ w - y_k[j]) * np.linalg.norm(x_k[j]) <= clip:
                hessian += 2.0 / samples * np.outer(x_k[j], x_k[j])
        direction = np.linalg.solve(hessian, gradient)
        decrease = float(gradient @ direction)
        # Near the minimiser rounding hides the decrease, hence the last term.
        length, current = 1.0, value(w)
        slack = 1e-14 * (1.0 + abs(current))
        while value(w - length * direction) > current - 1e-4 * length * decrease + slack:
            length /= 2.0
        w = w - length * direction
    raise RuntimeError("Newton's method has not ended")


def p_admm(x, y, counts, edges, rho, sigma, noise, clip=None, l2=1.0, masks=None):
    """P-ADMM for ridge regression: the primal step of `zcdp_nfl` is exact and there is no step.

        w_k = argmin_w f_k(w) + w . gamma_k + rho sum_(l in N_k) ||w - (v_k + v_l) / 2||^2.

    Args:
        x: Features (K, M, P).
        y: Labels (K, M).
        counts: Numbers of samples (K,), or None.
        edges: Edges (E, 2).
        rho: Penalty.
        sigma: Standard deviations (rounds, K) or a function, as in `zcdp_nfl`.
        noise: Standard normals (rounds, K, P).
        clip: Largest norm of a sample's gradient; None clips nothing.
        l2: Weight of ``||w||^2``.
        masks: Who takes part (rounds, K), with the rules of `zcdp_nfl`; None is everyone.

    Returns:
        ``w``, ``v`` and ``gamma`` after every round, each (rounds, K, P).
    """
    clients, dim = len(x), x.shape[-1]
    neighbours = neighbour_lists(edges, clients)
    masks = _rounds(noise, masks, clients)
    w, v, gamma = np.zeros((3, clients, dim))
    releases = [0] * clients
    out = np.empty((3, len(noise), clients, dim))
    for t in range(len(noise)):
        active, before = masks[t], v.copy()
        for k in range(clients):
            if not active[k]:
                continue
            releases[k] += 1
            linear = -gamma[k]
            for other in neighbours[k]:
                linear = linear + rho * (before[k] + before[other])
            curvature = 2.0 * l2 / clients + 2.0 * rho * len(neighbours[k])
            w[k] = p_admm_step(*own(x, y, counts, k), linear, curvature, clip)
            v[k] = w[k] + _scale(sigma, k, releases[k]) * noise[t][k]
        _dual_step(v, gamma, rho, neighbours, active)
        out[:, t] = w, v, gamma
    return out[0], out[1], out[2]


def stability_matrix(edges, clients, hessians, rho, eta):
    """``4 (1/eta + 2 rho D) - 3 rho L - 2 blkdiag(H_k)``, ``D`` and ``L`` acting on blocks of P.

    If it is positive definite, `zcdp_nfl` of quadratic ``f_k`` with the Hessians ``H_k`` and a
    constant step converges without noise; where it first fails, an eigenvalue of the recursion is
    at -1.

    Args:
        edges: Edges (E, 2).
        clients: Their number K.
        hessians: (K, P, P).
        rho: Penalty.
        eta: Step.

    Returns:
        Matrix (K P, K P).
    """
    dim = hessians.shape[-1]
    graph = laplacian(edges, clients)
    small = 4.0 * (np.eye(clients) / eta + 2.0 * rho * np.diag(np.diag(graph))) - 3.0 * rho * graph
    out = np.kron(small, np.eye(dim))
    for k in range(clients):
        block = slice(k * dim, (k + 1) * dim)
        out[block, block] -= 2.0 * hessians[k]
    return out


# --- privacy ------------------------------------------------------------------------------------


def sensitivity_nfl(clip, samples, degree, rho, eta):
    """``2 clip / (M_k (2 rho d_k + 1 / eta))``, the most that one replaced sample moves ``w_k``."""
    return 2.0 * clip / (samples * (2.0 * rho * degree + 1.0 / eta))


def sensitivity_grad(clip, samples, eta):
    """``2 clip eta / M_k``."""
    return 2.0 * clip * eta / samples


def sensitivity_p_admm(clip, samples, degree, rho, l2, clients):
    """``2 clip / (M_k (2 rho d_k + 2 l2 / K))``, by strong convexity."""
    return 2.0 * clip / (samples * (2.0 * rho * degree + 2.0 * l2 / clients))


def noise_scale(sensitivity, budget):
    """``sigma`` with which a Gaussian release is ``budget``-zCDP; zero for an infinite budget."""
    return sensitivity / np.sqrt(2.0 * np.asarray(budget))


def budgets(total, rounds, tau):
    """The budgets of the rounds (rounds,): they sum to ``total``, and each is ``1 / tau`` the one
    before it.
    """
    weights = np.array([tau ** (rounds - n) for n in range(1, rounds + 1)])
    return total * weights / weights.sum()


def classical_epsilon(phi, delta):
    """``phi + 2 sqrt(phi ln(1 / delta))``."""
    return phi + 2.0 * math.sqrt(phi * math.log(1.0 / delta))


def classical_budget(eps, delta):
    """The inverse of `classical_epsilon`, ``(sqrt(ln(1/delta) + eps) - sqrt(ln(1/delta)))^2``."""
    if math.isinf(eps):
        return math.inf
    log = math.log(1.0 / delta)
    return (eps / (math.sqrt(log + eps) + math.sqrt(log))) ** 2


def log_exact_delta(mu, eps):
    """Logarithm of `exact_delta`."""
    first = log_ndtr(mu / 2.0 - eps / mu)
    second = eps + log_ndtr(-mu / 2.0 - eps / mu)
    return float(first + np.log(-np.expm1(second - first)))


def exact_delta(mu, eps):
    """``Phi(mu/2 - eps/mu) - exp(eps) Phi(-mu/2 - eps/mu)``, the least delta of ``mu``-GDP."""
    return math.exp(log_exact_delta(mu, eps))


def exact_epsilon(phi, delta):
    """The least epsilon of Gaussian releases whose budgets sum to ``phi``, ``mu = sqrt(2 phi)``."""
    mu = math.sqrt(2.0 * phi)
    if exact_delta(mu, 0.0) <= delta:
        return 0.0
    return brentq(
        lambda eps: log_exact_delta(mu, eps) - math.log(delta),
        0.0,
        classical_epsilon(phi, delta),
        xtol=1e-13,
    )


def conventional_epsilons(eps, delta, rounds, tau, rule="advanced"):
    """The epsilons of the rounds of (epsilon, delta)-DP-NFL, each ``tau^(-1/2)`` the one before it.

    With "advanced" they have ``sum e_n tanh(e_n / 2) + sqrt(2 ln(2 / delta) sum e_n^2) = eps``,
    with "basic" the sum ``eps``.
    """
    shape = np.array([tau ** (-(n - 1) / 2.0) for n in range(1, rounds + 1)])
    if rule == "basic":
        return eps * shape / shape.sum()

    def excess(first):
        e = first * shape
        spread = 2.0 * math.log(2.0 / delta) * float((e**2).sum())
        return float((e * np.tanh(e / 2.0)).sum()) + math.sqrt(spread) - eps

    return brentq(excess, 0.0, eps, xtol=1e-16, rtol=1e-15) * shape


def conventional_multipliers(eps, delta, rounds, tau, rule="advanced"):
    """``z_n = sqrt(2 ln(1.25 / delta_n)) / e_n`` (rounds,), for epsilons up to one.

    ``delta_n`` is ``delta / (2 rounds)`` with "advanced", else ``delta / rounds``.
    """
    e = conventional_epsilons(eps, delta, rounds, tau, rule)
    if e.max() > 1.0:
        raise ValueError("the classical Gaussian mechanism needs epsilons of at most one")
    share = delta / (2.0 * rounds if rule == "advanced" else rounds)
    return math.sqrt(2.0 * math.log(1.25 / share)) / e


# --- optimum, error and data --------------------------------------------------------------------


def error(w, optimum):
    """``sum_k ||w_k - w_c||^2 / ||w_c||^2``, a sum over the clients; ``w`` is (..., K, P)."""
    return ((w - optimum) ** 2).sum(axis=(-2, -1)) / float(optimum @ optimum)


def elastic_l1(x, y, counts=None, fraction=0.001):
    """``fraction ||X^T y||_inf`` over the data of all clients."""
    total = np.zeros(x.shape[-1])
    for k in range(len(x)):
        x_k, y_k = own(x, y, counts, k)
        total += x_k.T @ y_k
    return fraction * float(np.abs(total).max())


def centralised(loss, x, y, counts=None, l1=0.0, l2=0.0, threshold=1.0, tolerance=1e-12):
    """``w_c``, the minimiser of ``sum_k f_k(w)`` with one common ``w`` (P,), by cvxpy.

    Ridge is "squared" with ``l2 = 1``, the elastic net has ``l1`` besides, and LAD is "absolute".
    ``threshold`` is that of the Huber loss.
    """
    import cvxpy

    w = cvxpy.Variable(x.shape[-1])
    terms = [l1 * cvxpy.norm1(w), l2 * cvxpy.sum_squares(w)]
    for k in range(len(x)):
        x_k, y_k = own(x, y, counts, k)
        residual = x_k @ w - y_k
        if loss == "squared":
            term = cvxpy.sum_squares(residual)
        elif loss == "absolute":
            term = cvxpy.norm1(residual)
        elif loss == "huber":
            term = cvxpy.sum(cvxpy.huber(residual, threshold)) / 2.0
        elif loss == "logistic":
            term = cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y_k, x_k @ w)))
        else:
            raise ValueError(loss)
        terms.append(term / len(y_k))
    task = cvxpy.Problem(cvxpy.Minimize(sum(terms)))
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
    task.solve(solver="CLARABEL", **tight)
    if task.status != "optimal":
        raise RuntimeError(f"cvxpy ended with the status {task.status}")
    return np.array(w.value)


def draw_graph(rng, clients, edges):
    """A connected graph with so many edges, uniform over all such, by rejection (E, 2)."""
    pairs = [(a, b) for a in range(clients) for b in range(a + 1, clients)]
    while True:
        chosen = np.sort(rng.choice(len(pairs), edges, replace=False))
        out = np.array([pairs[i] for i in chosen])
        if connected(out, clients):
            return out
