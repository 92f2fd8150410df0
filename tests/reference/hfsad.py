"""Independent NumPy float64 reference of the smoothing ADMM over a tree (HFSAD) and its baseline.

HFSAD is given by R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth
Hierarchical Federated Learning" (Norwegian University of Science and Technology); the subgradient
baseline by D. Davis, D. Drusvyatskiy, K. J. MacPhee, C. Paquette, "Subgradient methods for sharp
weakly convex functions", J. Optim. Theory Appl. 179 (2018) 962-982.

Node 0 of a tree need not be the root; ``parents`` says which one is. Each leaf has a loss, each
internal node a regulariser, and each node but the root a penalty ``r`` on the difference to its
parent:

    minimise  sum_leaf f_n(w_n) + sum_internal R_n(w_n) + sum_nonroot r_n(w_parent(n) - w_n).

A node but the root holds ``z = w_n`` and ``q = w_parent(n)`` with the multipliers ``Lambda`` and
``Gamma``, the number ``k`` of updates that it has done, and the schedules ``sigma = c sqrt(k)`` and
``mu = alpha / sqrt(k)``. The root's update is printed with ``+Gamma``; the Lagrangian gives
``-Gamma``, which is what stands here.

`hierarchical_admm`, `hfsad` and `subgradient` are written node by node and are the truth; the
functions ending in ``_batch`` do the same arithmetic for many trials at once. Nothing here imports
the package.
"""

import math

import numpy as np

SCAD_LAMBDA = 0.1
SCAD_GAMMA = 2.4
BOX = 5.0
BISECTIONS = 60


# --- trials of robust phase retrieval -----------------------------------------------------------


def phase_trial(seed, trial, snr=20.0, signed=False, clusters=5, clients=50, dim=25):
    """One trial: every client sees ``y = (x^T truth)^2 + noise`` once.

    The noise is exponential of a rate with probability 0.9 and of a tenth of that rate otherwise;
    the rate makes ``10 log10(mean (x^T truth)^2 / mean noise^2)`` equal ``snr`` in expectation.

    Args:
        seed: Seed of the experiment.
        trial: Number of the trial.
        snr: Signal-to-noise ratio in dB, of ``x^T truth`` and not of its square.
        signed: Gives half of the noise a minus sign.
        clusters: Number of clusters.
        clients: Number of clients per cluster.
        dim: Dimension; 0.3 of the truth and 0.8 of each cluster's regressors are not zero,
            rounded half up.

    Returns:
        The regressors (clusters * clients, dim), the measurements (clusters * clients,), both
        cluster by cluster, and the truth (dim,).
    """
    rng = np.random.default_rng([seed, trial])
    count = int(0.3 * dim + 0.5)
    kept = int(0.8 * dim + 0.5)

    values = rng.standard_normal(count)
    support = rng.permutation(dim)[:count]
    truth = np.zeros(dim)
    truth[support] = values

    x = rng.standard_normal((clusters, clients, dim))
    for cluster in range(clusters):
        lost = rng.permutation(dim)[kept:]
        x[cluster][:, lost] = 0.0
    x = x.reshape(clusters * clients, dim)

    common = rng.uniform(size=(clusters, clients)).ravel() < 0.9
    exponential = rng.exponential(size=(clusters, clients)).ravel()
    signal = x @ truth
    rate = math.sqrt(len(x) * 21.8 * 10.0 ** (snr / 10.0) / float(signal @ signal))
    noise = exponential / np.where(common, rate, rate / 10.0)
    if signed:
        minus = rng.uniform(size=(clusters, clients)).ravel() < 0.5
        noise = np.where(minus, -noise, noise)
    return x, signal**2 + noise, truth


def spectral_start(x, y):
    """Start from the top eigenvector of the measurements, scaled to their median."""
    weights = np.clip(y, 0.0, 3.0 * np.median(y))
    scale = 1.0 / np.sqrt((x**2).mean(0))
    moment = (x.T * weights) @ x / len(x)
    top = np.linalg.eigh(scale[:, None] * moment * scale)[1][:, -1]
    direction = scale * top
    return direction * math.sqrt(np.median(y) / np.median((x @ direction) ** 2))


def random_start(seed, trial, dim):
    """A standard normal start."""
    return np.random.default_rng([seed, trial, 1]).standard_normal(dim)


def near_start(seed, trial, truth):
    """The truth plus a random direction of relative length 0.3."""
    direction = np.random.default_rng([seed, trial, 2]).standard_normal(len(truth))
    return truth + 0.3 * np.linalg.norm(truth) / np.linalg.norm(direction) * direction


def relative_error(w, truth):
    """``min over the sign of ||w -+ truth||^2 / ||truth||^2``, over the last axis."""
    minus = ((w - truth) ** 2).sum(-1)
    plus = ((w + truth) ** 2).sum(-1)
    return np.minimum(minus, plus) / (truth**2).sum(-1)


def stack_trials(seed, trials, snr=20.0, start="spectral", clusters=5, clients=50, dim=25):
    """Trials ``0..trials-1`` as the batch functions take them.

    Returns:
        The regressors (T, clusters, clients, dim), the measurements (T, clusters, clients), the
        truths (T, dim) and the starts (T, dim).
    """
    parts = []
    for trial in range(trials):
        x, y, truth = phase_trial(seed, trial, snr, clusters=clusters, clients=clients, dim=dim)
        if start == "spectral":
            first = spectral_start(x, y)
        elif start == "random":
            first = random_start(seed, trial, dim)
        else:
            first = near_start(seed, trial, truth)
        shape = (clusters, clients)
        parts.append((x.reshape(*shape, dim), y.reshape(shape), truth, first))
    return tuple(np.stack(part) for part in zip(*parts, strict=True))


# --- penalties and their proxes -----------------------------------------------------------------
#
# A penalty stands for ``weight * P``; ``step`` is the step of the prox and ``tau = weight * step``.


def scad(t, lam=SCAD_LAMBDA, gamma=SCAD_GAMMA):
    """SCAD of one number."""
    t = abs(t)
    if t <= lam:
        return lam * t
    if t <= gamma * lam:
        return (2.0 * gamma * lam * t - t * t - lam * lam) / (2.0 * (gamma - 1.0))
    return (gamma + 1.0) * lam * lam / 2.0


def scad_slope(t, lam=SCAD_LAMBDA, gamma=SCAD_GAMMA):
    """Derivative of SCAD at ``t >= 0``, from the right at 0."""
    if t <= lam:
        return lam
    if t <= gamma * lam:
        return (gamma * lam - t) / (gamma - 1.0)
    return 0.0


def mcp_slope(t, lam, gamma):
    """Derivative of MCP at ``t >= 0``, from the right at 0."""
    return lam - t / gamma if t <= gamma * lam else 0.0


def smoothed_abs(t, mu):
    """The modulus with a parabola on ``[-mu, mu]``."""
    return abs(t) if abs(t) >= mu else t * t / (2.0 * mu) + mu / 2.0


def smoothed_abs_slope(t, mu):
    """Derivative of `smoothed_abs`."""
    return min(max(t / mu, -1.0), 1.0)


def _soft(a, threshold):
    return math.copysign(max(abs(a) - threshold, 0.0), a)


def _scad_prox(a, tau, lam, gamma):
    t = abs(a)
    if tau < gamma - 1.0:
        if t <= (1.0 + tau) * lam:
            return _soft(a, tau * lam)
        if t <= gamma * lam:
            shift = math.copysign(tau * gamma * lam, a)
            return ((gamma - 1.0) * a - shift) / (gamma - 1.0 - tau)
        return a
    if tau <= gamma + 1.0:
        return _soft(a, tau * lam) if t <= (gamma + 1.0 + tau) / 2.0 * lam else a
    return 0.0 if t <= lam * math.sqrt(tau * (gamma + 1.0)) else a


def _mcp_prox(a, tau, lam, gamma):
    t = abs(a)
    if tau < gamma:
        return _soft(a, tau * lam) / (1.0 - tau / gamma) if t <= gamma * lam else a
    return 0.0 if t <= lam * math.sqrt(gamma * tau) else a


def scad_prox(v, step, lam=SCAD_LAMBDA, gamma=SCAD_GAMMA, weight=1.0):
    """Prox of weighted SCAD, a global minimiser for every step."""
    return np.array([_scad_prox(a, weight * step, lam, gamma) for a in v.tolist()])


def l1_link_prox(v, step, mu, weight):
    """Prox of the smoothed l1 norm times ``weight``."""
    shrink = step * weight
    inside = mu / (mu + shrink) * v
    return np.where(np.abs(v) > mu + shrink, v - shrink * np.sign(v), inside)


def l1_link_slope(e, mu, weight):
    """Gradient of the smoothed l1 norm times ``weight``."""
    return weight * np.clip(e / mu, -1.0, 1.0)


def _bisect_link(a, tau, mu, slope, prox):
    """Prox of one number ``a`` where the smoothing keeps the problem single-valued."""
    top = abs(a)

    def psi(t):
        return t + tau * slope(smoothed_abs(t, mu)) * smoothed_abs_slope(t, mu) - top

    if psi(mu) <= 0.0:
        return prox(a)
    low, high = 0.0, min(top, mu)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        if psi(middle) <= 0.0:
            low = middle
        else:
            high = middle
    return math.copysign((low + high) / 2.0, a)


def mcp_link_prox(v, step, mu, lam, gamma, weight=1.0):
    """Prox of weighted smoothed MCP, for ``weight * step < gamma``."""
    tau = weight * step
    if tau >= gamma:
        raise ValueError("the prox has several values: weight * step must stay below gamma")

    def one(a):
        return _bisect_link(
            a, tau, mu, lambda s: mcp_slope(s, lam, gamma), lambda b: _mcp_prox(b, tau, lam, gamma)
        )

    return np.array([one(a) for a in v.tolist()])


def scad_link_prox(v, step, mu, lam, gamma, weight=1.0):
    """Prox of weighted smoothed SCAD, for ``weight * step < gamma - 1``."""
    tau = weight * step
    if tau >= gamma - 1.0:
        raise ValueError("the prox has several values: weight * step must stay below gamma - 1")

    def one(a):
        return _bisect_link(
            a,
            tau,
            mu,
            lambda s: scad_slope(s, lam, gamma),
            lambda b: _scad_prox(b, tau, lam, gamma),
        )

    return np.array([one(a) for a in v.tolist()])


def mcp_link_slope(e, mu, lam, gamma, weight=1.0):
    """Gradient of weighted smoothed MCP."""
    return weight * np.array(
        [mcp_slope(smoothed_abs(t, mu), lam, gamma) * smoothed_abs_slope(t, mu) for t in e.tolist()]
    )


def scad_link_slope(e, mu, lam, gamma, weight=1.0):
    """Gradient of weighted smoothed SCAD."""
    return weight * np.array(
        [
            scad_slope(smoothed_abs(t, mu), lam, gamma) * smoothed_abs_slope(t, mu)
            for t in e.tolist()
        ]
    )


def phase_prox(v, step, x, y, box=BOX):
    """Prox of ``|y - (x^T w)^2|``, a global minimiser, then clipped to ``[-box, box]``.

    Clipping is not the prox of the sum with the box where the box binds. ``box=None`` leaves the
    result as it is.
    """
    square = float(x @ x)
    if square == 0.0:
        w = v
    else:
        rho = square * step
        u0 = float(x @ v)
        low = abs(u0) / (1.0 + 2.0 * rho)
        high = abs(u0) / (1.0 - 2.0 * rho) if 2.0 * rho < 1.0 else math.inf
        size = min(max(math.sqrt(max(y, 0.0)), low), high)
        u = size if u0 >= 0.0 else -size
        w = v + x * ((u - u0) / square)
    return w if box is None else np.clip(w, -box, box)


def phase_gradient(w, x, y, mu):
    """Gradient of the smoothed modulus, of parameter ``mu``, of ``y - (x^T w)^2``."""
    u = float(x @ w)
    return min(max((u * u - y) / mu, -1.0), 1.0) * 2.0 * u * x


def phase_step(z, dual, sigma, mu, x, y, box=BOX):
    """Linearised client update in place of `phase_prox`."""
    w = z - (dual + phase_gradient(z, x, y, mu)) / sigma
    return w if box is None else np.clip(w, -box, box)


# --- weighted absolute regression ---------------------------------------------------------------


def regression_loss(w, x, y, weights):
    """``sum_i weights_i |y_i - x_i^T w| / sum_i weights_i``."""
    return float(weights @ np.abs(y - x @ w)) / float(weights.sum())


def regression_gradient(w, x, y, weights, mu):
    """Gradient of `regression_loss` with the modulus smoothed by ``mu``."""
    return x.T @ (weights * np.clip((x @ w - y) / mu, -1.0, 1.0)) / weights.sum()


def regression_step(z, dual, sigma, mu, x, y, weights):
    """Linearised client update of `regression_loss`."""
    return z - (dual + regression_gradient(z, x, y, weights, mu)) / sigma


# --- the method over a tree, node by node -------------------------------------------------------


def node_levels(parents):
    """Level of each node, 0 for the root, whose parent is -1."""
    levels = []
    for node in range(len(parents)):
        level = 0
        while parents[node] != -1:
            node = parents[node]
            level += 1
        levels.append(level)
    return levels


def server_order(parents, clients):
    """Internal nodes but the root: by level, level 1 first, within a level by number."""
    levels = node_levels(parents)
    inner = [n for n in range(len(parents)) if parents[n] != -1 and n not in set(clients)]
    return sorted(inner, key=lambda n: (levels[n], n))


def hierarchical_admm(
    parents,
    clients,
    start,
    *,
    client_update,
    link_prox,
    regulariser_prox,
    c,
    alpha,
    rounds,
    passes=1,
    masks=None,
):
    """Smoothing ADMM over a tree, with loops over rounds, passes, levels and nodes.

    Args:
        parents: Parent of each node, -1 for the root.
        clients: The leaves, in the order in which the clients are counted; they may hang at
            different levels.
        start: First model of every node (dim,).
        client_update: ``(client, z, lambda, sigma, mu) -> w``, with the client's place in
            ``clients``.
        link_prox: For each node ``(v, step, mu) -> e``; the root's is not used.
        regulariser_prox: For each node ``(v, step) -> w``; the clients' are not used.
        c: For each node, ``sigma = c sqrt(k)``; the root's is not used.
        alpha: For each node, ``mu = alpha / sqrt(k)``; the root's is not used.
        rounds: Number of global iterations, after each of which the root updates.
        passes: Passes over the levels, the deepest first, in a global iteration.
        masks: Which nodes are active (rounds, passes, columns); all of them by default. The
            columns are the clients in their order and then the servers in `server_order`.

    Returns:
        A dict of the states after every global iteration: ``root`` (rounds, dim); ``client_w``,
        ``client_z``, ``client_q``, ``client_lambda``, ``client_gamma`` (rounds, clients, dim),
        ``client_e``, the last differences ``q - z`` that the link's prox gave, ``client_k``
        (rounds, clients); and the same with ``server_`` for the internal nodes but the root.
    """
    start = np.array(start, float)
    clients = list(clients)
    servers = server_order(parents, clients)
    levels = node_levels(parents)
    root = parents.index(-1)
    children = [[n for n in range(len(parents)) if parents[n] == p] for p in range(len(parents))]
    column = {node: number for number, node in enumerate(clients + servers)}
    number_of = {node: number for number, node in enumerate(clients)}

    w = [start.copy() for _ in parents]
    z = [start.copy() for _ in parents]
    q = [start.copy() for _ in parents]
    lam = [np.zeros_like(start) for _ in parents]
    gam = [np.zeros_like(start) for _ in parents]
    last_e = [np.zeros_like(start) for _ in parents]
    k = [0 for _ in parents]

    def next_sigma(node):
        return c[node] * math.sqrt(k[node] + 1)

    def update(node):
        k[node] += 1
        sigma = c[node] * math.sqrt(k[node])
        mu = alpha[node] / math.sqrt(k[node])

        if node in number_of:
            w[node] = client_update(number_of[node], z[node], lam[node], sigma, mu)
        else:
            total = sigma
            vector = sigma * z[node] - lam[node]
            for child in children[node]:
                total += next_sigma(child)
                vector = vector + (next_sigma(child) * q[child] - gam[child])
            w[node] = regulariser_prox[node](vector / total, 1.0 / total)

        above = w[parents[node]]
        a = w[node] + lam[node] / sigma
        b = above + gam[node] / sigma
        e = link_prox[node](b - a, 2.0 / sigma, mu)
        z[node] = (a + b - e) / 2.0
        q[node] = (a + b + e) / 2.0
        last_e[node] = e

        lam[node] = lam[node] + sigma * (w[node] - z[node])
        gam[node] = gam[node] + sigma * (above - q[node])

    def update_root():
        total = 0.0
        vector = np.zeros_like(start)
        for child in children[root]:
            total += next_sigma(child)
            vector = vector + (next_sigma(child) * q[child] - gam[child])
        w[root] = regulariser_prox[root](vector / total, 1.0 / total)

    states = {"w": w, "z": z, "q": q, "lambda": lam, "gamma": gam, "e": last_e, "k": k}
    kinds = {"client": clients, "server": servers}
    out = {"root": np.empty((rounds, len(start)))}
    for kind, nodes in kinds.items():
        for name in states:
            shape = (rounds, len(nodes)) + (() if name == "k" else start.shape)
            out[f"{kind}_{name}"] = np.empty(shape, int if name == "k" else float)

    for index in range(rounds):
        for turn in range(passes):
            for level in range(max(levels), 0, -1):
                for node in range(len(parents)):
                    if levels[node] != level:
                        continue
                    if masks is None or masks[index][turn][column[node]]:
                        update(node)
        update_root()

        out["root"][index] = w[root]
        for kind, nodes in kinds.items():
            for name, values in states.items():
                for number, node in enumerate(nodes):
                    out[f"{kind}_{name}"][index, number] = values[node]
    return out


# --- the published method for phase retrieval ---------------------------------------------------


def cluster_tree(clusters, clients):
    """Parents and leaves of a root, ``clusters`` servers below it and their clients below them."""
    parents = [-1] + [0] * clusters
    for cluster in range(clusters):
        parents += [1 + cluster] * clients
    return parents, list(range(1 + clusters, len(parents)))


def published_constants(x, clusters=5):
    """Constants as printed, for 50 clients per cluster: ``c, alpha`` of clients, ``d, beta`` above.

    ``omega`` weighs the links of the clients, ``omega_0`` those of the servers, and ``eta`` the
    SCAD of a server.
    """
    clients = len(x) // clusters
    omega = 5.0 * math.sqrt(float((x**2).sum(1).max()))
    eta = clients - 1.0 / clusters
    omega_0 = clients * omega + eta * SCAD_LAMBDA * SCAD_GAMMA
    return {
        "omega": omega,
        "omega_0": omega_0,
        "c": omega,
        "alpha": math.sqrt(20.0),
        "d": omega_0 / 25.0,
        "beta": 25.0 * math.sqrt(20.0),
        "eta": eta,
    }


def hfsad(x, y, start, passes, rounds, masks=None, client="prox", box=BOX, scad=True, clusters=5):
    """HFSAD with the published constants on one trial, through `hierarchical_admm`.

    Args:
        x: Regressors (clients, dim), cluster by cluster.
        y: Measurements (clients,).
        start: First model of every node (dim,).
        passes: Passes over clients and edge servers in a global iteration.
        rounds: Number of global iterations.
        masks: Which nodes are active (rounds, passes, clients + clusters).
        client: "prox" or "linearized".
        box: Radius to which the clients clip; None for no clipping.
        scad: Whether the servers regularise.
        clusters: Number of clusters.

    Returns:
        The dict of `hierarchical_admm`.
    """
    p = published_constants(x, clusters)
    per_cluster = len(x) // clusters
    parents, leaves = cluster_tree(clusters, per_cluster)

    def client_update(number, z, dual, sigma, mu):
        if client == "prox":
            return phase_prox(z - dual / sigma, 1.0 / sigma, x[number], float(y[number]), box)
        return phase_step(z, dual, sigma, mu, x[number], float(y[number]), box)

    def leaf_link(v, step, mu):
        return l1_link_prox(v, step, mu, p["omega"])

    def server_link(v, step, mu):
        return l1_link_prox(v, step, mu, p["omega_0"])

    def server_prox(v, step):
        return scad_prox(v, step, weight=p["eta"]) if scad else v

    def root_prox(v, step):
        return scad_prox(v, step) if scad else v

    count = len(leaves)
    return hierarchical_admm(
        parents,
        leaves,
        start,
        client_update=client_update,
        link_prox=[None] + [server_link] * clusters + [leaf_link] * count,
        regulariser_prox=[root_prox] + [server_prox] * clusters + [None] * count,
        c=[None] + [p["d"]] * clusters + [p["c"]] * count,
        alpha=[None] + [p["beta"]] * clusters + [p["alpha"]] * count,
        rounds=rounds,
        passes=passes,
        masks=masks,
    )


# --- the subgradient baseline -------------------------------------------------------------------


def phase_objective(w, x, y, scad_weight=1.0):
    """Mean of ``|y - (x^T w)^2|`` plus SCAD."""
    penalty = math.fsum(scad(t) for t in w.tolist())
    return float(np.abs(y - (x @ w) ** 2).mean()) + scad_weight * penalty


def phase_subgradient(w, x, y, scad_weight=1.0):
    """A subgradient of `phase_objective`, with ``sign(0) = 0``."""
    u = x @ w
    loss = (np.sign(u * u - y) * 2.0 * u) @ x / len(x)
    slope = np.array([math.copysign(scad_slope(abs(t)), t) if t else 0.0 for t in w.tolist()])
    return loss + scad_weight * slope


def subgradient(x, y, start, rounds, rule=("geo", 1.0, 0.99), scad_weight=1.0, box=BOX):
    """Normalised subgradient steps with all data in one place.

    Args:
        x: Regressors (clients, dim).
        y: Measurements (clients,).
        start: First model (dim,).
        rounds: Number of steps.
        rule: ``("geo", a, q)`` steps ``a q^k``, ``("sqrt", a)`` steps ``a / sqrt(k + 1)``, from
            ``k = 0``; ``("polyak", f_star)`` steps ``max(F(w) - f_star, 0) / ||g||``.
        scad_weight: Weight of SCAD in the objective.
        box: Radius to which the model is clipped; None for no clipping.

    Returns:
        The model after every step (rounds, dim).
    """
    w = np.array(start, float)
    out = np.empty((rounds, len(w)))
    for k in range(rounds):
        g = phase_subgradient(w, x, y, scad_weight)
        norm = math.sqrt(float(g @ g))
        if rule[0] == "geo":
            size = rule[1] * rule[2] ** k
        elif rule[0] == "sqrt":
            size = rule[1] / math.sqrt(k + 1)
        else:
            size = max(phase_objective(w, x, y, scad_weight) - rule[1], 0.0)
            size = size / norm if norm > 0.0 else 0.0
        if norm > 0.0:
            w = w - size * g / norm
        if box is not None:
            w = np.clip(w, -box, box)
        out[k] = w
    return out


# --- many trials at once ------------------------------------------------------------------------


def _scad_prox_batch(v, tau, lam=SCAD_LAMBDA, gamma=SCAD_GAMMA):
    """Prox of SCAD where ``tau < gamma - 1``, as it is with the published constants."""
    t = np.abs(v)
    soft = np.maximum(t - tau * lam, 0.0)
    middle = ((gamma - 1.0) * t - tau * (gamma * lam)) / (gamma - 1.0 - tau)
    size = np.where(t <= (1.0 + tau) * lam, soft, np.where(t <= gamma * lam, middle, t))
    return np.copysign(size, v)


class _Nodes:
    """The nodes of one level in all trials, arrays (T, clusters, nodes, dim), with scratch space.

    ``Lambda = -Gamma`` after every update, so it is not kept. Without masks all counters agree,
    and one of them stands for all.
    """

    def __init__(self, start, shape, c, alpha, weight, masked):
        self.c, self.alpha, self.weight = c, alpha, weight
        self.z = np.array(np.broadcast_to(start, shape))
        self.q, self.w = self.z.copy(), self.z.copy()
        self.gamma, self.t, self.v = (np.zeros(shape, start.dtype) for _ in range(3))
        self.old = [np.empty_like(self.z) for _ in range(4)] if masked else None
        self.k = np.zeros((*shape[:3], 1) if masked else (1, 1, 1, 1), start.dtype)

    def next_sigma(self):
        return self.c * np.sqrt(self.k + 1)

    def begin(self, active):
        """Schedules of the coming update; ``t = Gamma / sigma`` and ``w = z + t``."""
        root = np.sqrt(self.k + 1)
        self.sigma, self.mu = self.c * root, self.alpha / root
        if active is not None:
            for kept, value in zip(self.old, (self.w, self.z, self.q, self.gamma), strict=True):
                np.copyto(kept, value)
        np.multiply(self.gamma, 1 / self.sigma, out=self.t)
        np.add(self.z, self.t, out=self.w)

    def finish(self, above, active):
        """The pair (z, q), Gamma and the counters, from ``w`` and ``t = Gamma / sigma``."""
        t, v, w, gamma = self.t, self.v, self.w, self.gamma
        step = 2 / self.sigma
        t *= 2
        t -= w
        t += above
        np.multiply(t, 1 / (self.mu + step * self.weight), out=gamma)
        np.clip(gamma, -1, 1, out=gamma)
        gamma *= self.weight
        np.multiply(gamma, step, out=v)
        t -= v  # e, the prox of the smoothed l1 link at b - a
        np.add(w, above, out=v)
        np.subtract(v, t, out=self.z)
        self.z *= 0.5
        np.add(self.z, t, out=self.q)
        if active is None:
            self.k += 1
            return
        idle = ~active
        for kept, value in zip(self.old, (self.w, self.z, self.q, self.gamma), strict=True):
            np.copyto(value, kept, where=idle)
        self.k += active

    def message(self):
        """Sums over the nodes of a cluster of ``sigma^+ q - Gamma`` and of ``sigma^+``."""
        nodes = self.q.shape[2]
        sigma = self.next_sigma()
        np.multiply(self.q, sigma, out=self.v)
        self.v -= self.gamma
        vector = np.matmul(np.ones((1, nodes), self.v.dtype), self.v)
        total = sigma.sum(axis=2, keepdims=True) if sigma.shape[2] == nodes else nodes * sigma
        return vector, total


def _phase_prox_batch(w, x, root_y, square, sigma, scratch):
    """`phase_prox` without the box, in place; ``square`` is the squared length of ``x``."""
    u0 = np.vecdot(w, x)[..., None]
    double = 2 * square / sigma
    low = np.abs(u0) / (1 + double)
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.where(double < 1, np.abs(u0) / (1 - double), np.inf)
    size = np.minimum(np.maximum(root_y, low), high)
    np.multiply(x, (np.where(u0 >= 0, size, -size) - u0) / square, out=scratch)
    w += scratch


def _phase_step_batch(w, x, y, z, sigma, mu, scratch):
    """`phase_step` without the box, in place; ``w`` comes as ``z - Lambda / sigma``."""
    u = np.vecdot(z, x)[..., None]
    np.multiply(x, np.clip((u * u - y) / mu, -1, 1) * 2 * u / sigma, out=scratch)
    w -= scratch


def _hfsad_chunk(x, y, start, passes, rounds, masks, client, box, scad):
    trials, clusters, per_cluster, dim = x.shape
    dtype = x.dtype
    y = y[..., None]
    root_y = np.sqrt(np.maximum(y, 0))
    square = np.vecdot(x, x)[..., None]
    printed = [published_constants(part.reshape(-1, dim), clusters) for part in x.astype(float)]

    def constant(name):
        return np.array([p[name] for p in printed], dtype)[:, None, None, None]

    eta = constant("eta")
    root = np.array(start[:, None, None, :])
    masked = masks is not None
    leaf_shape, server_shape = x.shape, (trials, clusters, 1, dim)
    omega, omega_0 = constant("omega"), constant("omega_0")
    c, alpha, d, beta = (constant(name) for name in ("c", "alpha", "d", "beta"))
    leaves = _Nodes(root, leaf_shape, c, alpha, omega, masked)
    servers = _Nodes(root, server_shape, d, beta, omega_0, masked)
    leaf_count = clusters * per_cluster

    out = np.empty((rounds, trials, dim), dtype)
    for index in range(rounds):
        for turn in range(passes):
            leaf_active = server_active = None
            if masked:
                active = masks[index, turn]
                leaf_active = active[:, :leaf_count].reshape(trials, clusters, per_cluster, 1)
                server_active = active[:, leaf_count:].reshape(trials, clusters, 1, 1)

            leaves.begin(leaf_active)
            if client == "prox":
                _phase_prox_batch(leaves.w, x, root_y, square, leaves.sigma, leaves.v)
            else:
                _phase_step_batch(leaves.w, x, y, leaves.z, leaves.sigma, leaves.mu, leaves.v)
            if box is not None:
                np.clip(leaves.w, -box, box, out=leaves.w)
            leaves.finish(servers.w, leaf_active)

            vector, total = leaves.message()
            servers.begin(server_active)
            total = total + servers.sigma
            w = (servers.w * servers.sigma + vector) / total
            servers.w[...] = _scad_prox_batch(w, eta / total) if scad else w
            servers.finish(root, server_active)
        vector, total = servers.message()
        total = np.broadcast_to(total, (trials, clusters, 1, 1)).sum(axis=1, keepdims=True)
        root = vector.sum(axis=1, keepdims=True) / total
        if scad:
            root = _scad_prox_batch(root, 1 / total)
        out[index] = root[:, 0, 0]
    return out, leaves.w


def hfsad_batch(
    x,
    y,
    start,
    passes,
    rounds,
    dtype=np.float64,
    masks=None,
    client="prox",
    box=BOX,
    scad=True,
    final=False,
    chunk=25,
):
    """HFSAD on many trials, the arithmetic of `hfsad` for all trials and clients at once.

    Args:
        x: Regressors (T, clusters, clients, dim).
        y: Measurements (T, clusters, clients).
        start: First models (T, dim).
        passes: As in `hfsad`.
        rounds: As in `hfsad`.
        dtype: Floating-point type of the arithmetic.
        masks: Which nodes are active (rounds, passes, T, clients + clusters).
        client: As in `hfsad`.
        box: As in `hfsad`.
        scad: As in `hfsad`.
        final: Whether to return the last models of the clients too.
        chunk: Trials worked on together, a matter of the cache only.

    Returns:
        The root's model after every global iteration (rounds, T, dim); with ``final`` also the
        clients' last models (T, clusters, clients, dim).
    """
    x, y, start = (np.ascontiguousarray(part, dtype) for part in (x, y, start))
    roots, models = [], []
    for first in range(0, len(x), chunk):
        part = slice(first, first + chunk)
        kept = None if masks is None else masks[:, :, part]
        got = _hfsad_chunk(x[part], y[part], start[part], passes, rounds, kept, client, box, scad)
        roots.append(got[0])
        models.append(got[1])
    roots = np.concatenate(roots, axis=1)
    return (roots, np.concatenate(models)) if final else roots
