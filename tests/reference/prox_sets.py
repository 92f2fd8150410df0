"""Float64 truth for projections onto sets: one point at a time, by bisections and solves."""

import numpy as np


def each(project):
    """Return a projection of one vector as one of rows; parameters of one row each, or of all."""

    def rows(points, *parameters):
        found = []
        for i, v in enumerate(points):
            own = [p[min(i, len(p) - 1)] if np.ndim(p) == 2 else p for p in parameters]
            found.append(project(v, *own))
        return np.stack(found)

    return rows


def bisect(rising, low, high, steps=200):
    """Return where a rising function crosses zero."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


@each
def second_order_cone(v):
    """By the spectral decomposition: (t, x) = (t + n) c_1 + (t - n) c_2, both cut at zero."""
    t, x = v[0], v[1:]
    n = np.sqrt(np.sum(x**2))
    u = x / n if n > 0 else x
    first, second = np.r_[0.5, u / 2], np.r_[0.5, -u / 2]
    found = max(t + n, 0) * first + max(t - n, 0) * second
    return found if n > 0 else np.r_[max(t, 0), x]


@each
def rotated_second_order_cone(v):
    """By the multiplier of ||x||^2 <= 2 a b: a - a0 = m b, b - b0 = m a, (1 + m) x = x0."""
    a0, b0, x0 = v[0], v[1], v[2:]

    def point(m):
        return np.r_[(a0 + m * b0) / (1 - m**2), (b0 + m * a0) / (1 - m**2), x0 / (1 + m)]

    def excess(p):
        return np.sum(p[2:] ** 2) - 2 * p[0] * p[1]

    if excess(v) <= 0 and min(a0, b0) >= 0:
        return v
    if excess(v) <= 0 and max(a0, b0) <= 0:
        return 0 * v
    if a0 + b0 == 0:
        length = np.sqrt((a0 - b0) ** 2 / 4 + np.sum(x0**2) / 2)
        return np.r_[(a0 - b0) / 4 + length / 2, (b0 - a0) / 4 + length / 2, x0 / 2]
    if a0 + b0 > 0:
        return point(bisect(lambda m: -excess(point(m)), 0.0, 1 - 1e-16))
    return point(1 / bisect(lambda m: -excess(point(1 / m)), 1e-300, 1 - 1e-16))


@each
def exponential_cone(v):
    """The nearest of all rays (rho, 1, exp(rho)) and of the flat part of the boundary."""
    x, y, z = v
    if (y > 0 and y * np.exp(x / y) <= z) or (y == 0 and x <= 0 <= z):
        return v

    def ray(rho):
        return np.array([rho, 1.0, np.exp(rho)])

    def along(rho):
        d = ray(rho)
        return max(v @ d, 0) / (d @ d) * d

    def slope(rho):
        moved = np.array([1.0, 0.0, np.exp(rho)])
        return -((v - along(rho)) @ moved)

    grid = np.sort(np.r_[np.linspace(-30, 30, 6001), -np.geomspace(30, 1e4, 400)])
    best = [np.zeros(3), np.array([min(x, 0.0), 0.0, max(z, 0.0)])]
    values = np.array([slope(rho) for rho in grid])
    for k in np.flatnonzero((values[:-1] < 0) & (values[1:] >= 0)):
        best.append(along(bisect(slope, grid[k], grid[k + 1])))
    return min(best, key=lambda p: np.sum((p - v) ** 2))


def dual_exponential_cone(points):
    return points + exponential_cone(-points)


@each
def l2_sphere(v, radius):
    n = np.sqrt(np.sum(v**2))
    return radius * v / n if n > 0 else radius * np.eye(len(v))[0]


@each
def halfspace(v, normal, offset):
    return hyperplane_point(v, normal, min(normal @ v, offset))


@each
def hyperplane(v, normal, offset):
    return hyperplane_point(v, normal, offset)


@each
def line(v, direction):
    """By least squares for the number of times that the direction is taken."""
    return direction * np.linalg.lstsq(direction[:, None], v)[0]


@each
def hyperslab(v, normal, lower, upper):
    return hyperplane_point(v, normal, np.clip(normal @ v, lower, upper))


def hyperplane_point(v, normal, offset):
    """By the optimality conditions, x + m normal = v and <normal, x> = offset."""
    if not np.any(normal):
        return v
    n = len(v)
    system = np.block([[np.eye(n), normal[:, None]], [normal[None], np.zeros((1, 1))]])
    return np.linalg.solve(system, np.r_[v, offset])[:n]


def affine(points, factor):
    """Of {x: basis x = level}, by least squares for the way there."""
    basis, level = factor
    return np.stack([v + np.linalg.lstsq(basis, level - basis @ v)[0] for v in points])


def graph(points, factor):
    """Of the set spanned by rows, or orthogonal to rows, by least squares."""
    along, across = factor
    if len(along) == 0:
        return affine(points, (across, np.zeros(len(across))))
    return np.stack([along.T @ np.linalg.lstsq(along.T, v)[0] for v in points])


def box_and_halfspace(radius, normal, offset):
    """Return the projection onto |x_i| <= radius, <normal, x> <= offset, by its multiplier."""

    def project(v):
        def point(m):
            return np.clip(v - m * normal, -radius, radius)

        if normal @ point(0) <= offset:
            return point(0)
        return point(bisect(lambda m: offset - normal @ point(m), 0.0, 1e3))

    return each(project)
