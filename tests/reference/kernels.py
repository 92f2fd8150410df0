"""Float64 truth for the kernels: objectives, a global brute-force minimiser, NumPy closed forms.

Nothing here is shared with the JAX code. Objectives are written from the definitions of the
penalties; closed forms case by case, as one finds them in the papers; the maps without a simple
closed form (smoothed MCP and SCAD) are found by minimising their objective.
"""

from itertools import product

import numpy as np

# --- penalties, from their definitions ---------------------------------------------------------


def mcp(t, lam, gamma):
    t = np.abs(t)
    return np.where(t <= gamma * lam, lam * t - t**2 / (2 * gamma), gamma * lam**2 / 2)


def scad(t, lam, gamma):
    t = np.abs(t)
    middle = (2 * gamma * lam * t - t**2 - lam**2) / (2 * (gamma - 1))
    top = (gamma + 1) * lam**2 / 2
    return np.where(t <= lam, lam * t, np.where(t <= gamma * lam, middle, top))


def huber_above(t, mu):
    """The smoothed modulus: |t| outside [-mu, mu], the touching parabola inside."""
    t = np.abs(t)
    return np.where(t >= mu, t, t**2 / (2 * mu) + mu / 2)


def pinball(x, quantile):
    return np.maximum(quantile * x, (quantile - 1) * x)


def norm_envelope(radius, mu):
    """Moreau envelope of the Euclidean norm as a function of the radius."""
    return np.where(radius <= mu, radius**2 / (2 * mu), radius - mu / 2)


# --- brute force -------------------------------------------------------------------------------


def global_minimum(objective, low, high, points=2001, sections=48, seeds=()):
    """Global minimiser of a scalar function on [low, high]: dense grid, then golden sections.

    ``seeds`` are added to the grid (kinks). Every local minimum of the grid is refined, so that
    two minima of nearly the same depth are both seen. Returns (minimiser, minimum).
    """
    grid = np.unique(np.concatenate([np.linspace(low, high, points), np.asarray(seeds, float)]))
    if len(grid) == 1:
        return grid[0], objective(grid)[0]
    padded = np.concatenate([[np.inf], objective(grid), [np.inf]])
    lowest = np.flatnonzero((padded[1:-1] <= padded[:-2]) & (padded[1:-1] <= padded[2:]))
    left = grid[np.maximum(lowest - 1, 0)]
    right = grid[np.minimum(lowest + 1, len(grid) - 1)]
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(sections):
        inner_left = right - ratio * (right - left)
        inner_right = left + ratio * (right - left)
        keep_left = objective(inner_left) <= objective(inner_right)
        left, right = np.where(keep_left, left, inner_left), np.where(keep_left, inner_right, right)
    refined = np.concatenate([(left + right) / 2, grid[lowest]])
    values = objective(refined)
    best = int(np.argmin(values))
    return refined[best], values[best]


# --- closed forms, elementwise on float64 scalars ----------------------------------------------


def elementwise(function):
    vectorised = np.vectorize(function, otypes=[np.float64])

    def call(*arguments):
        return vectorised(*(np.asarray(a, np.float64) for a in arguments))

    call.__name__ = function.__name__
    return call


@elementwise
def soft_threshold(v, threshold):
    if v > threshold:
        return v - threshold
    if v < -threshold:
        return v + threshold
    return 0.0


@elementwise
def prox_elastic_net(v, step, l1, l2):
    if abs(v) <= step * l1:
        return 0.0
    return (v - np.sign(v) * step * l1) / (1 + step * l2)


@elementwise
def prox_pinball(v, step, quantile):
    if v > quantile * step:
        return v - quantile * step
    if v < -(1 - quantile) * step:
        return v + (1 - quantile) * step
    return 0.0


@elementwise
def project_box(v, lower, upper):
    return lower if v < lower else upper if v > upper else v


@elementwise
def project_linf_ball(v, radius):
    return np.sign(v) * radius if abs(v) > radius else v


@elementwise
def prox_squared_l2(v, step, weight):
    return v / step / (weight + 1 / step) if step > 0 else v


@elementwise
def smoothed_abs(v, mu):
    return abs(v) if abs(v) >= mu else v**2 / (2 * mu) + mu / 2


@elementwise
def prox_smoothed_abs(v, step, mu):
    if abs(v) <= mu + step:
        return v * mu / (mu + step)
    return v - np.sign(v) * step


def _best_of(v, step, penalty, candidates):
    """The candidate of least objective; on a tie the first."""
    scores = [step * float(penalty(c)) + (c - v) ** 2 / 2 for c in candidates]
    return candidates[int(np.argmin(scores))]


@elementwise
def prox_mcp(v, step, lam, gamma):
    # Stationary points of each piece, then the best: no threshold formula is used.
    a = abs(v)
    candidates = [0.0, max(a, gamma * lam)]
    if step < gamma:
        candidates.append(min(max((a - step * lam) / (1 - step / gamma), 0.0), gamma * lam))
    return np.copysign(_best_of(a, step, lambda t: mcp(t, lam, gamma), candidates), v)


@elementwise
def prox_scad(v, step, lam, gamma):
    a = abs(v)
    candidates = [0.0, min(max(a - step * lam, 0.0), lam), max(a, gamma * lam)]
    if step < gamma - 1:
        middle = ((gamma - 1) * a - step * gamma * lam) / (gamma - 1 - step)
        candidates.append(min(max(middle, lam), gamma * lam))
    return np.copysign(_best_of(a, step, lambda t: scad(t, lam, gamma), candidates), v)


def _smoothed_prox(penalty):
    @elementwise
    def prox(v, step, lam, gamma, mu):
        a = abs(v)

        def objective(t):
            return step * penalty(huber_above(t, mu), lam, gamma) + (t - a) ** 2 / 2

        x, _ = global_minimum(objective, 0.0, a, seeds=[min(mu, a), min(gamma * lam, a)])
        return np.copysign(x, v)

    return prox


prox_smoothed_mcp = _smoothed_prox(mcp)
prox_smoothed_scad = _smoothed_prox(scad)


# --- rows --------------------------------------------------------------------------------------


def prox_group_l2(v, step):
    v = np.asarray(v, np.float64)
    out = np.zeros_like(v)
    for index in np.ndindex(v.shape[:-1]):
        length = np.linalg.norm(v[index])
        if length > step:
            out[index] = (length - step) * v[index] / length
    return out


def project_l2_ball(v, radius):
    v = np.array(v, np.float64)
    for index in np.ndindex(v.shape[:-1]):
        length = np.linalg.norm(v[index])
        if length > radius:
            v[index] *= radius / length
    return v


def prox_range_excess(p, anchor, distance, step):
    offset = p - anchor
    r = np.linalg.norm(offset)
    if r <= distance:
        return np.array(p, np.float64)
    target = distance if r <= distance + 2 * step else r - 2 * step
    return anchor + target * offset / r


def prox_negative_moreau_norm(c, anchor, step, mu):
    offset = c - anchor
    r = np.linalg.norm(offset)
    if r == 0:
        return np.array(anchor, np.float64)
    if r <= mu - step:
        return anchor + mu / (mu - step) * offset
    return anchor + (1 + step / r) * offset


def prox_phase_residual(v, step, x, y):
    """Every stationary point along x, then the best (ties: the positive projection)."""
    squared = float(np.dot(x, x))
    if squared == 0:
        return np.array(v, np.float64)
    u0, rho = float(np.dot(x, v)), step * squared
    root = np.sqrt(max(y, 0.0))
    candidates = [root, -root, u0 / (1 + 2 * rho)]
    if 2 * rho != 1:
        inner = u0 / (1 - 2 * rho)
        candidates += [inner] if abs(inner) <= root else []
    scores = [
        abs(y - u**2) + (u - u0) ** 2 / (2 * rho) if rho else (u - u0) ** 2 for u in candidates
    ]
    u = candidates[int(np.argmin(scores))] if rho else u0
    return v + (u - u0) / squared * x


def prox_phase_residual_clipped(v, step, x, y, radius):
    return project_linf_ball(prox_phase_residual(v, step, x, y), radius)


def phase_objective(w, v, step, x, y):
    """``|y - (x^T w)**2| + ||w - v||**2 / (2 step)`` of every row of ``w``."""
    return np.abs(y - (w @ x) ** 2) + np.sum((w - v) ** 2, axis=-1) / (2 * step)


def prox_phase_residual_box(v, step, x, y, radius):
    """Every stationary point inside each of the ``3**dim`` faces of the box, then the best."""
    root = np.sqrt(max(y, 0.0))
    points = []
    for sides in product((-1, 0, 1), repeat=len(v)):
        inside = np.equal(sides, 0)
        start = np.where(inside, v, np.multiply(sides, radius))
        along = np.where(inside, x, 0.0)
        u0, squared = x @ start, along @ along
        points.append(start)
        if squared > 0:
            reach = 2 * step * squared
            targets = [root, -root, u0 / (1 + reach), *([u0 / (1 - reach)] if reach != 1 else [])]
            points += [start + along * (u - u0) / squared for u in targets]
    feasible = [w for w in points if np.max(np.abs(w)) <= radius * (1 + 1e-14)]
    best = min(feasible, key=lambda w: phase_objective(w, v, step, x, y))
    return np.clip(best, -radius, radius)


# --- graphs ------------------------------------------------------------------------------------


def edge_difference(w, heads, tails):
    out = np.zeros((len(heads), *np.shape(w)[1:]))
    for edge, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        out[edge] = w[head] - w[tail]
    return out


def node_divergence(u, heads, tails, num_nodes):
    out = np.zeros((num_nodes, *np.shape(u)[1:]))
    for edge, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        out[head] += u[edge]
        out[tail] -= u[edge]
    return out


def degrees(heads, tails, num_nodes, present=None):
    out = np.zeros(num_nodes, int)
    for edge, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        if present is None or present[edge]:
            out[head] += 1
            out[tail] += 1
    return out


# --- factor models -----------------------------------------------------------------------------


def _clipped(place, size):
    return min(max(int(place), 0), size - 1)


def _pairs(size):
    """Entries of a symmetric matrix in the order in which they are stored."""
    return [(a, b) for a in range(size) for b in range(a, size)]


def _symmetric(components):
    """The matrix and the right side of one stored quadratic."""
    size = next(r for r in range(len(components) + 1) if r * (r + 3) == 2 * len(components))
    matrix = np.zeros((size, size))
    for (a, b), entry in zip(_pairs(size), components[: len(components) - size], strict=True):
        matrix[a, b] = matrix[b, a] = entry
    return matrix, np.asarray(components[len(components) - size :], np.float64)


def factor_residual(u, v, rows, columns, values):
    u, v = np.asarray(u, np.float64), np.asarray(v, np.float64)
    out = np.zeros(len(rows))
    for entry, (row, column) in enumerate(zip(rows, columns, strict=True)):
        predicted = np.dot(u[_clipped(row, len(u))], v[_clipped(column, len(v))])
        out[entry] = predicted - values[entry]
    return out


def factor_gram(v, rows, columns, values, num_rows, start=None):
    v = np.asarray(v, np.float64)
    rank = v.shape[1]
    out = np.zeros((num_rows, rank * (rank + 3) // 2))
    for row in range(num_rows):
        mine = [entry for entry, place in enumerate(rows) if place == row]
        seen = v[[_clipped(columns[entry], len(v)) for entry in mine]]
        matrix = seen.T @ seen
        right = seen.T @ np.asarray([values[entry] for entry in mine], np.float64)
        out[row] = [*(matrix[pair] for pair in _pairs(rank)), *right]
    return out if start is None else out + start


def gram_gradient(quadratic, u):
    out = np.zeros(np.shape(u))
    for place in np.ndindex(out.shape[1:]):
        at = (slice(None), *place)
        matrix, right = _symmetric(np.asarray(quadratic, np.float64)[at])
        out[at] = matrix @ np.asarray(u, np.float64)[at] - right
    return out


def gram_norm(quadratic):
    quadratic = np.asarray(quadratic, np.float64)
    out = np.zeros(quadratic.shape[1:])
    for place in np.ndindex(out.shape):
        out[place] = np.linalg.norm(_symmetric(quadratic[(slice(None), *place)])[0])
    return out
