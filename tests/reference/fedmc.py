"""Independent NumPy float64 reference of federated matrix completion by linearised ADMM.

The method is FedMC-ADMM of P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating
Direction Multiplier Method for Federated Matrix Completion Problems". Client ``i`` of ``p`` holds
the ratings of its own users, and

    minimise  F = (1/p) sum_i [f_i(U_i, V) + R_i(U_i)] + R(V),
    f_i(U, V) = 1/2 sum_{(t, j) observed} (u_t . v_j - M_tj)^2,

with ``U_i`` of shape ``(m_i, r)`` and ``V`` of shape ``(n, r)``, rows first. Each client has a copy
``W_i`` of ``V`` with the constraint ``W_i = V`` and the dual variable ``Y_i``:

    Lagrangian = sum_i {(1/p) [f_i(U_i, W_i) + R_i(U_i)] + <Y_i, W_i - V> + beta/2 ||W_i - V||^2}
                 + R(V).

A *client* is a tuple of arrays ``(rows, cols, values)``: local user, item and rating. What is
observed is what is in the list; a rating may be zero. A *regulariser* has ``value(x)``,
``prox(v, step)``, the minimiser of ``value(x) + ||x - v||^2 / (2 step)``, and
``smallest_subgradient(x, gradient)``, the element of least norm of ``gradient + d value(x)``.

The baselines are FedMAvg (Wang and Chang, IEEE Trans. Signal Process. 70:1625-1640, 2022), means,
damped biases, and alternating least squares. Everything is written client by client, with the
residuals of all ratings in each inner step. Nothing here imports the package.
"""

import math
from dataclasses import dataclass

import numpy as np

EPSILON = 1e-12


# --- regularisers -------------------------------------------------------------------------------


@dataclass
class L2:
    """``weight / 2 ||x||^2``."""

    weight: float = 0.0

    def value(self, x):
        return 0.5 * self.weight * float((x**2).sum())

    def prox(self, v, step):
        return v / (1.0 + step * self.weight)

    def smallest_subgradient(self, x, gradient):
        return gradient + self.weight * x


@dataclass
class L1:
    """``weight ||x||_1``, the sum over all entries."""

    weight: float = 0.0

    def value(self, x):
        return self.weight * float(np.abs(x).sum())

    def prox(self, v, step):
        return np.sign(v) * np.maximum(np.abs(v) - step * self.weight, 0.0)

    def smallest_subgradient(self, x, gradient):
        at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - self.weight, 0.0)
        return np.where(x == 0, at_zero, gradient + self.weight * np.sign(x))


@dataclass
class NonNegative:
    """0 where no entry is negative, infinite elsewhere."""

    def value(self, x):
        return math.inf if np.any(x < 0) else 0.0

    def prox(self, v, step):
        return np.maximum(v, 0.0)

    def smallest_subgradient(self, x, gradient):
        return np.where(x == 0, np.minimum(gradient, 0.0), gradient)


# --- local loss ---------------------------------------------------------------------------------


def residuals(U, W, client):
    """``e_tj = u_t . w_j - M_tj`` of every rating."""
    rows, cols, values = client
    return (U[rows] * W[cols]).sum(axis=1) - values


def loss(U, W, client):
    """``f_i(U, W)``."""
    return 0.5 * float((residuals(U, W, client) ** 2).sum())


def gradient_users(U, W, client):
    """Gradient of ``f_i`` by the users, without 1/p: row t is the sum of ``e_tj w_j``."""
    rows, cols, _ = client
    gradient = np.zeros_like(U)
    np.add.at(gradient, rows, residuals(U, W, client)[:, None] * W[cols])
    return gradient


def gradient_items(U, W, client):
    """Gradient of ``f_i`` by the items, without 1/p: row j is the sum of ``e_tj u_t``."""
    rows, cols, _ = client
    gradient = np.zeros_like(W)
    np.add.at(gradient, cols, residuals(U, W, client)[:, None] * U[rows])
    return gradient


def lipschitz(kind, factor, own, other, count, epsilon=EPSILON):
    """Bound on the Lipschitz constant of the gradient by one block, the other block being fixed.

    Args:
        kind: "fro", the Frobenius norm of ``factor^T factor``; "spec", its largest eigenvalue;
            "row", one constant per row of the moving block, the Frobenius norm of
            ``G_t = sum of f_j f_j^T`` over the ratings of that row.
        factor: The fixed block.
        own: Row of the moving block, for every rating.
        other: Row of the fixed block, for every rating.
        count: Number of rows of the moving block.
        epsilon: Least value of each constant.

    Returns:
        A number, or for "row" an array of shape ``(count, 1)``.
    """
    if kind == "fro":
        return max(float(np.linalg.norm(factor.T @ factor)), epsilon)
    if kind == "spec":
        return max(float(np.linalg.eigvalsh(factor.T @ factor)[-1]), epsilon)
    if kind == "row":
        constants = np.zeros((count, 1))
        for t in range(count):
            seen = factor[other[own == t]]
            constants[t, 0] = max(np.linalg.norm(seen.T @ seen), epsilon)
        return constants
    raise ValueError(kind)


# --- FedMC-ADMM ---------------------------------------------------------------------------------


def user_steps(U, W, client, steps, penalty, bound="fro", epsilon=EPSILON):
    """The U block: proximal gradient steps with W fixed. The factor 1/p cancels."""
    rows, cols, _ = client
    constant = lipschitz(bound, W, rows, cols, len(U), epsilon)
    for _ in range(steps):
        U = penalty.prox(U - gradient_users(U, W, client) / constant, 1.0 / constant)
    return U


def item_iterates(W, U, V, Y, client, steps, beta, p, bound="fro", epsilon=EPSILON):
    """The W block: all inner iterates, the first is ``W``; ``U`` is already the new one."""
    rows, cols, _ = client
    constant = lipschitz(bound, U, cols, rows, len(W), epsilon) / p
    iterates = [W]
    for _ in range(steps):
        gradient = gradient_items(U, W, client) / p
        W = (constant * W + beta * V - gradient - Y) / (constant + beta)
        iterates.append(W)
    return iterates


def server_step(W, Y, beta, penalty):
    """``V`` from the values of all clients, also of those which did not take part."""
    p = len(W)
    return penalty.prox((W + Y / beta).mean(axis=0), 1.0 / (p * beta))


def fedmc_admm(
    clients,
    users,
    V,
    selections,
    beta,
    inner_steps,
    user_penalty,
    item_penalty,
    bound="fro",
    epsilon=EPSILON,
    zero_dual=False,
):
    """FedMC-ADMM, one round for each list of clients in ``selections``.

    The dual variable of a client moves with the old ``V``. It starts at ``-(1/p)`` times the
    gradient by the items, or at zero with ``zero_dual``.

    Returns:
        One state per round after the initial one, dictionaries with ``U`` (a list), ``W`` and
        ``Y`` of shape ``(p, n, r)``, and ``V``.
    """
    p = len(clients)
    V = np.array(V, float)
    U = [np.array(u, float) for u in users]
    W = np.array([V] * p)
    Y = np.zeros_like(W)
    if not zero_dual:
        for i in range(p):
            Y[i] = -gradient_items(U[i], V, clients[i]) / p
    states = [{"U": list(U), "W": W.copy(), "Y": Y.copy(), "V": V}]
    for selection in selections:
        for i in selection:
            U[i] = user_steps(U[i], W[i], clients[i], inner_steps, user_penalty, bound, epsilon)
            W[i] = item_iterates(
                W[i], U[i], V, Y[i], clients[i], inner_steps, beta, p, bound, epsilon
            )[-1]
            Y[i] = Y[i] + beta * (W[i] - V)
        V = server_step(W, Y, beta, item_penalty)
        states.append({"U": list(U), "W": W.copy(), "Y": Y.copy(), "V": V})
    return states


# --- FedMAvg ------------------------------------------------------------------------------------


def largest_eigenvalue(factor):
    """Largest eigenvalue of ``factor^T factor``."""
    return float(np.linalg.eigvalsh(factor.T @ factor)[-1])


def fedmavg(
    clients,
    users,
    V,
    selections,
    user_steps,
    item_steps,
    lam,
    gam,
    setting,
    all_users=True,
    epsilon=EPSILON,
):
    """FedMAvg with the penalties ``lam / 2 ||U_i||^2`` and ``gam / 2 ||V||^2``.

    Every client moves its users, or with ``all_users=False`` only the selected ones; the selected
    ones move a copy of ``V``, and the mean of these copies is the new ``V``. The steps are
    ``1 / c`` with ``c = lambda_max(V^T V) / 2``, and ``1 / d`` with
    ``d = 5 lambda_max(U_i^T U_i)`` and the new ``U_i``; ``c`` and ``d`` are at least ``epsilon``.

    Args:
        setting: "paper", the gradient by the items is divided by p; "fair", it is not. Neither
            divides the gradient by the users, nor the penalties.

    Returns:
        One state per round after the initial one, dictionaries with ``U`` and ``V``.
    """
    p = len(clients)
    omega = {"paper": p, "fair": 1}[setting]
    V = np.array(V, float)
    U = [np.array(u, float) for u in users]
    states = [{"U": list(U), "V": V}]
    for selection in selections:
        c = max(0.5 * largest_eigenvalue(V), epsilon)
        for i in range(p) if all_users else selection:
            for _ in range(user_steps):
                U[i] = U[i] - (gradient_users(U[i], V, clients[i]) + lam * U[i]) / c
        copies = []
        for i in selection:
            W = V
            d = max(5.0 * largest_eigenvalue(U[i]), epsilon)
            for _ in range(item_steps):
                W = W - (gradient_items(U[i], W, clients[i]) / omega + gam * W) / d
            copies.append(W)
        V = sum(copies) / len(copies)
        states.append({"U": list(U), "V": V})
    return states


# --- figures of merit ---------------------------------------------------------------------------


def objective(clients, users, V, user_penalty, item_penalty):
    """``F`` with the global ``V``."""
    total = 0.0
    for client, U in zip(clients, users, strict=True):
        total += loss(U, V, client) + user_penalty.value(U)
    return total / len(clients) + item_penalty.value(V)


def lagrangian(state, clients, beta, user_penalty, item_penalty):
    """The augmented Lagrangian at a state of `fedmc_admm`."""
    p, V = len(clients), state["V"]
    total = item_penalty.value(V)
    for i in range(p):
        U, W, Y = state["U"][i], state["W"][i], state["Y"][i]
        total += (loss(U, W, clients[i]) + user_penalty.value(U)) / p
        total += float((Y * (W - V)).sum()) + 0.5 * beta * float(((W - V) ** 2).sum())
    return total


def stationarity_squared(clients, users, V, user_penalty, item_penalty):
    """Squared distance of 0 to the subdifferential of ``F`` at ``(U_1, .., U_p, V)``.

    This is the sum over the clients of the squared norm of the smallest element of
    ``(1/p) (grad_U f_i(U_i, V) + dR_i(U_i))``, plus the squared norm of the smallest element of
    ``(1/p) sum_i grad_V f_i(U_i, V) + dR(V)``. ``W`` and ``Y`` do not enter.
    """
    p = len(clients)
    total, gradient = 0.0, np.zeros_like(V)
    for client, U in zip(clients, users, strict=True):
        smallest = user_penalty.smallest_subgradient(U, gradient_users(U, V, client)) / p
        total += float((smallest**2).sum())
        gradient = gradient + gradient_items(U, V, client) / p
    return total + float((item_penalty.smallest_subgradient(V, gradient) ** 2).sum())


def lagrangian_stationarity_squared(state, clients, beta, user_penalty, item_penalty):
    """Squared distance of 0 to the subdifferential of the Lagrangian by U, W, Y and V.

    Equal to `stationarity_squared` where all ``W_i = V`` and ``Y_i = -(1/p) grad_V f_i``.
    """
    p, V, W, Y = len(clients), state["V"], state["W"], state["Y"]
    total = float(((W - V) ** 2).sum())
    for i in range(p):
        U = state["U"][i]
        gradient = gradient_users(U, W[i], clients[i])
        total += float(((user_penalty.smallest_subgradient(U, gradient) / p) ** 2).sum())
        gradient = gradient_items(U, W[i], clients[i]) / p + Y[i] + beta * (W[i] - V)
        total += float((gradient**2).sum())
    gradient = -(Y + beta * (W - V)).sum(axis=0)
    return total + float((item_penalty.smallest_subgradient(V, gradient) ** 2).sum())


def rmse(test_clients, users, V):
    """Root of the mean squared residual over the test ratings of all clients together."""
    errors = [residuals(U, V, client) for client, U in zip(test_clients, users, strict=True)]
    return math.sqrt(float((np.concatenate(errors) ** 2).mean()))


def fresh_users(clients, users, V, steps, user_penalty, bound="fro", epsilon=EPSILON):
    """The users after more steps against the global ``V``, for every client; for prediction."""
    return [
        user_steps(U, V, client, steps, user_penalty, bound, epsilon)
        for client, U in zip(clients, users, strict=True)
    ]


# --- baselines on one list of ratings -----------------------------------------------------------


def global_mean(values):
    """Mean of all ratings."""
    return float(np.mean(values))


def means_by(index, values, count):
    """Mean of the ratings of each index; without ratings, the mean of all."""
    means = np.full(count, global_mean(values))
    for t in range(count):
        if np.any(index == t):
            means[t] = values[index == t].mean()
    return means


def item_means(users, items, values, m, n):
    """Mean rating of each item; the mean of all ratings for one without ratings."""
    return means_by(items, values, n)


def damped_biases(users, items, values, m, n, damping=5, sweeps=20):
    """Biases ``b_u`` and ``b_i`` of the prediction ``b_u + b_i``; the ratings should have mean 0.

    Both start at 0. A sweep is ``b_u = sum (r - b_i) / (damping + n_u)`` for every user, then
    ``b_i = sum (r - b_u) / (damping + n_i)`` for every item with the new ``b_u``. Users and items
    without ratings have 0.
    """
    user_bias, item_bias = np.zeros(m), np.zeros(n)
    for _ in range(sweeps):
        for t in range(m):
            mine = users == t
            if mine.any():
                rest = values[mine] - item_bias[items[mine]]
                user_bias[t] = rest.sum() / (damping + mine.sum())
        for j in range(n):
            mine = items == j
            if mine.any():
                rest = values[mine] - user_bias[users[mine]]
                item_bias[j] = rest.sum() / (damping + mine.sum())
    return user_bias, item_bias


def ridge_rows(own, other, values, count, factor, weight):
    """``(sum v v^T + weight n_u I)^-1 sum r v`` for every row; zero for one without ratings."""
    rank = factor.shape[1]
    solution = np.zeros((count, rank))
    for t in range(count):
        mine = own == t
        if mine.any():
            seen = factor[other[mine]]
            matrix = seen.T @ seen + weight * mine.sum() * np.eye(rank)
            solution[t] = np.linalg.solve(matrix, seen.T @ values[mine])
    return solution


def als(users, items, values, m, n, U0, V0, weight, sweeps):
    """Alternating ridge regressions, the users first, with the weight times the count (ALS-WR).

    Y. Zhou, D. Wilkinson, R. Schreiber, R. Pan, "Large-scale parallel collaborative filtering for
    the Netflix prize", AAIM 2008. ``U0`` is only returned where ``sweeps`` is 0.
    """
    U, V = np.array(U0, float), np.array(V0, float)
    for _ in range(sweeps):
        U = ridge_rows(users, items, values, m, V, weight)
        V = ridge_rows(items, users, values, n, U, weight)
    return U, V
