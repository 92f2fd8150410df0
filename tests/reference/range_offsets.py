"""Independent NumPy float64 reference of ranges with offsets: proximal maps, and FSMDM on them.

Every map is found as a minimiser should be: the offset by bisection, the radius of each time among
the few points where the minimum of a piecewise quadratic can lie. Nothing here imports the package.

Reference: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
Localization", arXiv:2503.09497 (2025), Algorithm 1.
"""

import math

import numpy as np


def radius(point_radius, offset, distances, weights, step, pull):
    """Return the best radius of one time, and the derivative of its cost in the offset."""
    knots = sorted(zip(distances, weights, strict=True))
    numbers = range(len(knots) + 1)
    slopes = [sum(w if k < n else -w for k, (_, w) in enumerate(knots)) for n in numbers]
    candidates = [0.0] + [d - offset for d, _ in knots]
    candidates += [point_radius - step * (slope + pull) for slope in slopes]

    def cost(rho):
        total = sum(w * abs(rho + offset - d) for d, w in knots)
        return total + pull * rho + (rho - point_radius) ** 2 / (2 * step)

    best = min((rho for rho in candidates if rho >= 0), key=cost)
    if best > 0:
        return best, (point_radius - best) / step - pull
    return 0.0, sum(w * math.copysign(1, offset - d) for d, w in knots)


def prox(points, anchor, distances, weights, step, pull, prior=None):
    """Return the prox of one anchor's loss plus `sum_t pull_t ||x_t - anchor||`, and its offset.

    Args:
      points: shape (times, dim).
      anchor: shape (dim,).
      distances: shape (times, ranges).
      weights: likewise.
      step: a number.
      pull: shape (times,).
      prior: centre, precision, lower and upper of the offset; no offset if None.
    """
    radii = np.linalg.norm(points - anchor, axis=1)
    rows = list(zip(radii, distances, weights, pull, strict=True))

    def derivative(b):
        total = sum(radius(r, b, d, w, step, s)[1] for r, d, w, s in rows)
        return total + prior["precision"] * (b - prior["centre"])

    offset = 0.0
    if prior is not None:
        low, high = -1e3, 1e3
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if derivative(middle) > 0 else (middle, high)
        offset = min(max((low + high) / 2, prior["lower"]), prior["upper"])
    new = np.array([radius(r, offset, d, w, step, s)[0] for r, d, w, s in rows])
    return anchor + (points - anchor) * (new / radii)[:, None], offset


def fsmdm(problem, *, rounds, c, d, alpha, beta, omega, server):
    """Run FSMDM with one local update on anchors with ranges and offsets; models after every round.

    Args:
      problem: a dict of NumPy arrays: anchors, ranges, weights, steepness, start, and priors, a
        list of one dict per client.
      rounds: how many.
      c: of sigma_psi.
      d: of sigma_xi.
      alpha: of mu_phi.
      beta: of mu_h.
      omega: weight of the link.
      server: `(model, step) -> model`, the prox of the regulariser.
    """
    anchors, start = problem["anchors"], problem["start"]
    count, dim = anchors.shape
    x, z, g, q = (np.tile(start, (count, 1)) for _ in range(4))
    psi, xi, zeta = (np.zeros_like(x) for _ in range(3))
    w, out = start.copy(), []
    for k in range(1, rounds + 1):
        root = math.sqrt(k)
        sigma_psi, mu_phi, sigma_xi, mu_h = c * root, alpha / root, d * root, beta / root
        for i in range(count):
            step = 1 / (sigma_psi + sigma_xi)
            v = (sigma_psi * z[i] + sigma_xi * g[i] - psi[i] - xi[i]) * step
            steep = problem["steepness"][i]
            x[i] = prox(
                v.reshape(-1, dim),
                anchors[i],
                problem["ranges"][i],
                problem["weights"][i],
                step,
                steep,
                problem["priors"][i],
            )[0].ravel()
            centre = (x[i] + psi[i] / sigma_psi).reshape(-1, dim) - anchors[i]
            for t, part in enumerate(centre):
                if steep[t] > 0:
                    step, mu = steep[t] / sigma_psi, steep[t] * mu_phi
                    length = np.linalg.norm(part)
                    part *= mu / (mu - step) if length <= mu - step else 1 + step / length
            z[i] = (centre + anchors[i]).ravel()
            psi[i] += sigma_psi * (x[i] - z[i])
            near, far = x[i] + xi[i] / sigma_xi, w + zeta[i] / sigma_xi
            y = omega * np.clip((far - near) / (mu_h + 2 * omega / sigma_xi), -1, 1)
            g[i], q[i] = near + y / sigma_xi, far - y / sigma_xi
            xi[i], zeta[i] = -y, y
        weight = d * math.sqrt(k + 1)
        w = server(np.mean(q - zeta / weight, 0), 1 / (count * weight))
        out.append(w.copy())
    return np.array(out)
