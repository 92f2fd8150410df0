"""Independent NumPy float64 reference of FSMDM and of its baselines.

FSMDM, the federated smoothing ADMM with Moreau envelope, is given by R. Mirzaeifard, A. Moradi,
M. Yukawa, S. Werner, "Federated Smoothing ADMM for Localization", arXiv:2503.09497 (2025); the
distributed subgradient baseline DSRL by R. Mirzaeifard, N. K. D. Venkategowda, S. Werner, "Robust
Networked Federated Learning for Localization", APSIPA ASC 2023, arXiv:2308.16737. Client ``l``
at the position ``a_l`` knows one range ``d_l``; the server looks for the minimiser of
``sum_l | ||w - a_l|| - d_l |``. Misprinted signs of the paper are corrected, in the z-step
(equations 20, 21) and in the (g, q)-step (equation 23).

`fsmdm` and `dsrl` are written client by client and are the truth; the functions ending in
``_batch`` do the same arithmetic for many trials at once. Nothing here imports the package.
"""

import math

import numpy as np

CLIENTS = 21
SIDE = 30.0
OUTLIER_RANGE = 60.0 * math.sqrt(3.0)
SHORTEST_RANGE = 1e-3

PUBLISHED = {
    "c": 1.0 / (100.0 * math.sqrt(2.0)),
    "d": math.sqrt(3.0) / math.sqrt(500.0),
    "alpha": 100.0 * math.sqrt(3.0),
    "beta": 100.0 * math.sqrt(3.0),
    "omega": 10.0,
}
TUNED = {
    "c": PUBLISHED["c"],
    "d": PUBLISHED["d"] / 4.0,
    "alpha": PUBLISHED["alpha"],
    "beta": 4.0 * PUBLISHED["beta"],
    "omega": 100.0,
}


# --- trials -------------------------------------------------------------------------------------


def outlier_trial(seed, trial, probability, clients=CLIENTS):
    """Anchors, distances and target of a trial where ranges are outliers with a probability."""
    rng = np.random.default_rng([seed, trial])
    anchors = rng.uniform(-SIDE, SIDE, (clients, 3))
    target = rng.uniform(-SIDE, SIDE, 3)
    uniform = rng.uniform(size=clients)
    outlier = rng.uniform(0.0, OUTLIER_RANGE, clients)
    exact = np.sqrt(((target - anchors) ** 2).sum(1))
    distances = np.where(uniform < probability, outlier, exact)
    return anchors, np.maximum(distances, SHORTEST_RANGE), target


def cauchy_trial(seed, trial, scale, clients=CLIENTS):
    """Anchors, distances and target of a trial with Cauchy noise of a scale on every range."""
    rng = np.random.default_rng([seed, trial])
    anchors = rng.uniform(-SIDE, SIDE, (clients, 3))
    target = rng.uniform(-SIDE, SIDE, 3)
    noise = rng.standard_cauchy(clients)
    distances = np.sqrt(((target - anchors) ** 2).sum(1)) + scale * noise
    return anchors, np.maximum(distances, SHORTEST_RANGE), target


def stack_trials(draw, seed, trials, level):
    """Stacks ``draw(seed, t, level)`` for ``t < trials`` into (T, L, 3), (T, L) and (T, 3)."""
    drawn = [draw(seed, trial, level) for trial in range(trials)]
    return tuple(np.stack(part) for part in zip(*drawn, strict=True))


# --- FSMDM, client by client --------------------------------------------------------------------


def _norm(vector):
    return math.sqrt(float(vector @ vector))


def _prox_smoothed_abs(value, mu, step):
    """Prox of the smoothed absolute value with parameter ``mu``, for the step ``step``."""
    if abs(value) <= mu + step:
        return value * mu / (mu + step)
    return value - math.copysign(step, value)


def _local_update(client, w, anchor, distance, c, d, alpha, beta, omega, z_sign):
    """One local update; changes the dict ``client`` of x, z, g, q, psi, xi, zeta and k."""
    client["k"] += 1
    root = math.sqrt(client["k"])
    sigma_psi = c * root
    mu_phi = alpha / root
    sigma_xi = d * root
    mu_h = beta / root
    z, g = client["z"], client["g"]
    psi, xi, zeta = client["psi"], client["xi"], client["zeta"]

    # x-step (15)-(18): prox of 2 max(0, ||x - a|| - d).
    total = sigma_psi + sigma_xi
    step = 1.0 / total
    v = (sigma_psi * z + sigma_xi * g - psi - xi) / total - anchor
    r = _norm(v)
    if r <= distance:
        x = anchor + v
    elif r <= distance + 2.0 * step:
        x = anchor + distance * v / r
    else:
        x = anchor + (r - 2.0 * step) * v / r

    # z-step (20)-(22): backward step on minus the envelope; the sign is corrected.
    step = 1.0 / sigma_psi
    v = x + z_sign * psi / sigma_psi - anchor
    r = _norm(v)
    z = anchor + (mu_phi / (mu_phi - step) if r <= mu_phi - step else 1.0 + step / r) * v

    # Dual of x = z (24).
    psi = psi + sigma_psi * (x - z)

    # (g, q)-step (23).
    upper = x + xi / sigma_xi
    lower = w + zeta / sigma_xi
    step = 2.0 * omega / sigma_xi
    e = np.array([_prox_smoothed_abs(value, mu_h, step) for value in lower - upper])
    g = (upper + lower - e) / 2.0
    q = (upper + lower + e) / 2.0

    # Duals of x = g and w = q (25), (26).
    xi = xi + sigma_xi * (x - g)
    zeta = zeta + sigma_xi * (w - q)

    client.update(x=x, z=z, g=g, q=q, psi=psi, xi=xi, zeta=zeta)


def fsmdm(
    anchors,
    distances,
    *,
    rounds,
    c,
    d,
    alpha,
    beta,
    omega,
    local_updates=1,
    masks=None,
    start=None,
    z_sign=+1,
    l1=0.0,
    location=None,
):
    """FSMDM on one trial, with loops over rounds and clients.

    Args:
        anchors: Positions of the clients (L, 3).
        distances: Ranges (L,).
        rounds: Number of global rounds.
        c: Scale of the penalty of x = z, ``sigma_psi = c sqrt(k)``.
        d: Scale of the penalties of x = g and w = q, ``sigma_xi = d sqrt(k)``.
        alpha: Scale of the envelope parameter, ``mu_phi = alpha / sqrt(k)``.
        beta: Scale of the smoothing of the l1 norm, ``mu_h = beta / sqrt(k)``.
        omega: Weight of the exact penalty on ``w - x_l``.
        local_updates: Local updates of an active client per round.
        masks: Which clients are active (rounds, L); all of them by default.
        start: First ``w``; the origin by default.
        z_sign: -1 gives the sign in the z-step as the paper prints it.
        l1: Weight of ``||w||_1``, which the server adds to the sum of the losses.
        location: `location(uploads, weights) -> w` of the server, where it is not the mean of the
            uploads ``q - zeta / s`` (L, 3) with the weights ``s`` (L,).

    Returns:
        A dict of the states after every round: ``w`` (rounds, 3), ``x``, ``z``, ``g``, ``q``,
        ``psi``, ``xi``, ``zeta`` (rounds, L, 3) and ``k`` (rounds, L).
    """
    anchors = np.asarray(anchors, float)
    count = len(anchors)
    w = np.zeros(3) if start is None else np.array(start, float)
    clients = []
    for _ in range(count):
        client = {name: w.copy() for name in ("x", "z", "g", "q")}
        client |= {name: np.zeros(3) for name in ("psi", "xi", "zeta")}
        clients.append(client | {"k": 0})
    # What the server holds of each client; before any upload m = d w_0 and s = d.
    messages = [d * w for _ in range(count)]
    weights = [d for _ in range(count)]

    names = ("x", "z", "g", "q", "psi", "xi", "zeta")
    out = {name: np.empty((rounds, count, 3)) for name in names}
    out |= {"w": np.empty((rounds, 3)), "k": np.empty((rounds, count), int)}
    for index in range(rounds):
        for number, client in enumerate(clients):
            if masks is not None and not masks[index][number]:
                continue
            for _ in range(local_updates):
                _local_update(
                    client,
                    w,
                    anchors[number],
                    float(distances[number]),
                    c,
                    d,
                    alpha,
                    beta,
                    omega,
                    z_sign,
                )
            weights[number] = d * math.sqrt(client["k"] + 1)
            messages[number] = weights[number] * client["q"] - client["zeta"]
        w = np.sum(messages, axis=0) / math.fsum(weights)
        if location is not None:
            w = location(np.array(messages) / np.array(weights)[:, None], np.array(weights))
        w = np.sign(w) * np.maximum(np.abs(w) - l1 / math.fsum(weights), 0.0)

        out["w"][index] = w
        for number, client in enumerate(clients):
            out["k"][index, number] = client["k"]
            for name in names:
                out[name][index, number] = client[name]
    return out


# --- FSMDM, many trials at once -----------------------------------------------------------------


def _norm_batch(v):
    return np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


def _update_batch(state, w, anchors, distances, c, d, alpha, beta, omega, z_sign):
    """One local update of all clients; arrays have the coordinate first, (3, T, L)."""
    _, z, g, _, psi, xi, zeta, k = state
    k = k + 1
    root = np.sqrt(k)
    sigma_psi, mu_phi, sigma_xi, mu_h = c * root, alpha / root, d * root, beta / root
    tiny = np.finfo(anchors.dtype).tiny

    total = sigma_psi + sigma_xi
    v = (sigma_psi * z + sigma_xi * g - psi - xi) / total - anchors
    r = _norm_batch(v)
    radius = np.where(r <= distances, r, np.maximum(distances, r - 2.0 / total))
    x = anchors + np.where(r > 0.0, radius / np.maximum(r, tiny), 0.0) * v

    step = 1.0 / sigma_psi
    v = x + z_sign * psi / sigma_psi - anchors
    r = _norm_batch(v)
    near = r <= mu_phi - step
    outside = 1.0 + step / np.where(near, 1.0, np.maximum(r, tiny))
    z = anchors + np.where(near, mu_phi / (mu_phi - step), outside) * v

    psi = psi + sigma_psi * (x - z)

    upper = x + xi / sigma_xi
    lower = w + zeta / sigma_xi
    step = 2.0 * omega / sigma_xi
    e = lower - upper
    e = np.where(np.abs(e) <= mu_h + step, e * (mu_h / (mu_h + step)), e - np.copysign(step, e))
    middle = upper + lower
    g = (middle - e) / 2.0
    q = (middle + e) / 2.0

    return (x, z, g, q, psi, xi + sigma_xi * (x - g), zeta + sigma_xi * (w - q), k)


def _fsmdm_chunk(anchors, distances, start, record, masks, local_updates, d, **constants):
    trials, count, _ = anchors.shape
    anchors = np.ascontiguousarray(np.moveaxis(anchors, 2, 0))
    w = np.ascontiguousarray(np.broadcast_to(start, (trials, 3)).T)[:, :, None]
    copies = np.repeat(w, count, axis=2)
    zeros = np.zeros_like(copies)
    # Without masks all counters agree, and one of them stands for all.
    k = np.zeros((1, 1) if masks is None else (trials, count), anchors.dtype)
    state = (copies, copies, copies, copies, zeros, zeros, zeros, k)
    recorded = np.empty((len(record), trials, 3), anchors.dtype)
    for index in range(max(record)):
        new = state
        for _ in range(local_updates):
            new = _update_batch(new, w, anchors, distances, d=d, **constants)
        if masks is not None:
            active = masks[index]
            new = tuple(np.where(active, a, b) for a, b in zip(new, state, strict=True))
        state = new
        weights = np.broadcast_to(d * np.sqrt(state[7] + 1), distances.shape)
        messages = weights * state[3] - state[6]
        w = (messages.sum(axis=2) / weights.sum(axis=1))[:, :, None]
        for row, moment in enumerate(record):
            if moment == index + 1:
                recorded[row] = w[:, :, 0].T
    return recorded


def fsmdm_batch(
    anchors,
    distances,
    *,
    rounds,
    c,
    d,
    alpha,
    beta,
    omega,
    local_updates=1,
    masks=None,
    start=None,
    z_sign=+1,
    dtype=np.float64,
    chunk=1000,
):
    """FSMDM on many trials, the arithmetic of `fsmdm` vectorised over trials and clients.

    Args:
        anchors: Positions (T, L, 3).
        distances: Ranges (T, L).
        rounds: The number of rounds, or the sequence of rounds after which to record.
        c: As in `fsmdm`.
        d: As in `fsmdm`.
        alpha: As in `fsmdm`.
        beta: As in `fsmdm`.
        omega: As in `fsmdm`.
        local_updates: As in `fsmdm`.
        masks: Which clients are active (rounds, T, L); all of them by default.
        start: First ``w``, (3,) or (T, 3); the origin by default.
        z_sign: As in `fsmdm`.
        dtype: Floating-point type of the arithmetic.
        chunk: Trials worked on together, a matter of memory only.

    Returns:
        The server's ``w`` after the recorded rounds, (rounds_recorded, T, 3); the last round
        only if ``rounds`` is a number.
    """
    record = (rounds,) if np.ndim(rounds) == 0 else tuple(rounds)
    anchors, distances = np.asarray(anchors, dtype), np.asarray(distances, dtype)
    trials = len(anchors)
    start = np.zeros(3) if start is None else start
    start = np.broadcast_to(np.asarray(start, dtype), (trials, 3))
    parts = []
    for first in range(0, trials, chunk):
        part = slice(first, first + chunk)
        parts.append(
            _fsmdm_chunk(
                anchors[part],
                distances[part],
                start[part],
                record,
                None if masks is None else np.asarray(masks)[:, part],
                local_updates,
                c=c,
                d=d,
                alpha=alpha,
                beta=beta,
                omega=omega,
                z_sign=z_sign,
            )
        )
    return np.concatenate(parts, axis=1)


# --- DSRL ---------------------------------------------------------------------------------------


def sqrt_step(scale=16.0):
    """Step sizes ``scale / sqrt(k)``."""
    return lambda k: scale / math.sqrt(k)


def inverse_step(scale=100.0):
    """Step sizes ``scale / k``."""
    return lambda k: scale / k


def dsrl(anchors, distances, *, rounds, step, masks=None, start=None):
    """Federated subgradient method on one trial, client by client.

    Args:
        anchors: Positions of the clients (L, 3).
        distances: Ranges (L,).
        rounds: Number of global rounds.
        step: Step size as a function of the round ``k = 1, 2, ...``.
        masks: Which clients are active (rounds, L); all of them by default.
        start: First ``w``; the origin by default.

    Returns:
        ``w`` after every round (rounds, 3).
    """
    w = np.zeros(3) if start is None else np.array(start, float)
    out = np.empty((rounds, 3))
    for index in range(rounds):
        returned = []
        for number, (anchor, distance) in enumerate(zip(anchors, distances, strict=True)):
            if masks is not None and not masks[index][number]:
                returned.append(w)
                continue
            r = _norm(w - anchor)
            u = np.sign(r - distance) * (w - anchor) / max(r, 1e-12)
            returned.append(w - step(index + 1) * u)
        w = np.mean(returned, axis=0)
        out[index] = w
    return out


# --- centralised reference ----------------------------------------------------------------------


def _grid():
    axis = np.linspace(-33.0, 33.0, 13)
    return np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)


def centralised_batch(anchors, distances):
    """`centralised` for many trials: (T, L, 3) and (T, L) to (T, 3)."""
    grid = _grid()
    starts = np.empty((len(anchors), 12, 3))
    for trial, (a, d) in enumerate(zip(anchors, distances, strict=True)):
        r = np.sqrt(((grid[:, None] - a) ** 2).sum(2))
        starts[trial] = grid[np.argsort(np.abs(r - d).sum(1), kind="stable")[:12]]
    w, best = starts, starts
    best_cost = np.full(starts.shape[:2], math.inf)
    for index in range(61):
        v = w[:, :, None] - anchors[:, None]
        r = np.sqrt((v * v).sum(3))
        residual = r - distances[:, None]
        now = np.abs(residual).sum(2)
        better = now < best_cost
        best_cost = np.where(better, now, best_cost)
        best = np.where(better[:, :, None], w, best)
        if index == 60:
            break
        unit = v / np.maximum(r, 1e-12)[..., None]
        weight = 1.0 / np.maximum(np.abs(residual), max(3.0 * 0.75**index, 1e-9))
        weighted = np.swapaxes(unit * weight[..., None], 2, 3)
        hessian = weighted @ unit + 1e-9 * np.eye(3)
        w = w - np.linalg.solve(hessian, weighted @ residual[..., None])[..., 0]
    choice = best_cost.argmin(1)
    return best[np.arange(len(best)), choice]
