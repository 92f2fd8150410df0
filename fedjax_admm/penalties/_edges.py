r"""Penalties on the difference of two neighbours' models, with the proximal maps of their duals.

An edge e = (h, t) of weight A_e costs `lam A_e phi(w_h - w_t)`. With the radius `r_e = lam A_e`,
every penalty has, edge by edge (rows of an array (edges, dim)),

    values(v)                       phi(v)
    conjugate(u, radius)            r phi*(u / r), infinite where u is infeasible
    prox_conjugate(v, radius, sigma)
                                    argmin_z r phi*(z / r) + sum_k (z_k - v_k)^2 / (2 sigma_k)
    isotropic                       whether phi is a function of ||v||_2: only then may the entries
                                    of sigma differ, and axes be turned

    network_lasso()                 phi = ||.||_2: neighbours' models become equal
    entrywise_l1()                  phi = ||.||_1: some entries become equal
    mocha()                         phi = ||.||_2^2 / 2: models become alike, never equal
    squared_difference()            phi = ||.||_2^2
    quadratic_difference(matrix)    phi = v^T M v / 2

Everything is zero where the radius is zero: an edge that is not there carries no flow. A phi that
is not convex has no conjugate that gives it back; links of a tree take such penalties by their prox
(`group_mcp`, `group_scad`), and leave what lies far apart unbiased.

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023 (the dual updates); D. Hallac, J. Leskovec, S. Boyd,
"Network Lasso", KDD 2015; V. Smith et al., "Federated Multi-Task Learning", NIPS 2017 (MOCHA).
"""

from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import finite_array, of_shape, refuse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import sum_of_squares

# A flow may leave its ball by rounding: so many units in the last place are forgiven.
_FORGIVEN = 64


class EdgePenalty(Protocol):
    """What a solver of generalised total variation asks of phi."""

    isotropic: ClassVar[bool]
    """Whether phi is a function of ||v||_2."""

    def values(self, difference: jax.Array) -> jax.Array:
        """Return phi of every row, shape (edges,)."""
        ...

    def conjugate(self, flow: jax.Array, radius: jax.Array) -> jax.Array:
        """Return `r phi*(u / r)` of every row, shape (edges,)."""
        ...

    def prox_conjugate(self, v: jax.Array, radius: jax.Array, sigma: jax.Array) -> jax.Array:
        """Return the prox of `r phi*(. / r)`, row by row, shape (edges, dim).

        Args:
          v: shape (edges, dim).
          radius: shape (edges,).
          sigma: the step, shape (), or (dim,) where phi is isotropic.
        """
        ...


@pytree_dataclass
class NetworkLasso:
    """phi = ||.||_2."""

    isotropic: ClassVar[bool] = True

    def values(self, difference):
        """Return the length of every row."""
        return kernels.safe_norm(difference)

    def conjugate(self, flow, radius):
        """Return 0 in the ball of the radius, infinity outside."""
        return _indicator(self.dual_norm(flow), radius)

    def prox_conjugate(self, v, radius, sigma):
        """Return the point of every row's ball that is nearest in the metric of the steps."""
        if jnp.ndim(sigma) == 0:
            return kernels.project_l2_ball(v, radius[:, None])
        return _nearest_in_ball(v, radius, sigma)

    def dual_norm(self, gradients):
        """Return the Euclidean norm of every row."""
        return kernels.safe_norm(gradients)


@pytree_dataclass
class EntrywiseL1:
    """phi = ||.||_1."""

    isotropic: ClassVar[bool] = False

    def values(self, difference):
        """Return the sum of moduli of every row."""
        return jnp.sum(jnp.abs(difference), -1)

    def conjugate(self, flow, radius):
        """Return 0 in the cube of the radius, infinity outside."""
        return _indicator(self.dual_norm(flow), radius)

    def prox_conjugate(self, v, radius, sigma):
        """Return every entry clipped to the radius."""
        return kernels.project_linf_ball(v, radius[:, None])

    def dual_norm(self, gradients):
        """Return the largest modulus of every row."""
        return jnp.max(jnp.abs(gradients), -1)


@pytree_dataclass
class HalfSquare:
    """phi = curvature ||.||^2 / 2."""

    curvature: jax.Array  # shape=()

    isotropic: ClassVar[bool] = True

    def values(self, difference):
        """Return `curvature ||v||^2 / 2` of every row."""
        return self.curvature * sum_of_squares(difference) / 2

    def conjugate(self, flow, radius):
        """Return `||u||^2 / (2 curvature r)`."""
        return _over(sum_of_squares(flow), 2 * self.curvature * radius)

    def prox_conjugate(self, v, radius, sigma):
        """Return `v curvature r / (curvature r + sigma)`."""
        stiffness = self.curvature * radius[:, None]
        return v * (stiffness / (stiffness + jnp.atleast_1d(sigma)[None]))


@pytree_dataclass
class Quadratic:
    """phi = v^T M v / 2, with the eigendecomposition `M = basis diag(spectrum) basis^T`."""

    basis: jax.Array  # shape=(dim, dim), columns
    spectrum: jax.Array  # shape=(dim,), at least 0

    isotropic: ClassVar[bool] = False

    def values(self, difference):
        """Return `v^T M v / 2` of every row."""
        return jnp.sum(self.spectrum[None] * self._turned(difference) ** 2, -1) / 2

    def conjugate(self, flow, radius):
        """Return `u^T M^+ u / (2 r)`, infinite outside the range of M.

        Outside it, what is rounding of the largest flow counts as nothing.
        """
        turned = self._turned(flow)
        size = jnp.max(jnp.abs(turned), initial=0)
        turned = jnp.where(jnp.abs(turned) <= _rounding(turned) * size, 0, turned)
        return jnp.sum(_over(turned**2, 2 * radius[:, None] * self.spectrum[None]), -1)

    def prox_conjugate(self, v, radius, sigma):
        """Return `r M (r M + sigma I)^-1 v`; M may be singular."""
        stiffness = radius[:, None] * self.spectrum[None]
        shrunk = self._turned(v) * (stiffness / (stiffness + sigma))
        return jnp.matmul(shrunk, self.basis.T, precision=jax.lax.Precision.HIGHEST)

    def _turned(self, rows):
        return jnp.matmul(rows, self.basis, precision=jax.lax.Precision.HIGHEST)


def _nearest_in_ball(v: jax.Array, radius: jax.Array, sigma: jax.Array) -> jax.Array:
    """Return `argmin_{||z|| <= r} sum_k (z_k - v_k)^2 / sigma_k` for every row, shape (edges, dim).

    Outside the ball `z_k = v_k / (1 + nu sigma_k)` with `||z|| = r`. `1 / ||z||` is concave and
    grows with nu, so that Newton's method for it rises from 0 to the root; equal steps take one
    step, for it is linear then. The last step carries the derivative.

    Reference: J. J. More, D. C. Sorensen, "Computing a trust region step", SIAM Journal on
    Scientific and Statistical Computing 4 (1983), section 3 (the reciprocal of the length).
    """
    size = jnp.max(jnp.abs(v), -1, keepdims=True)
    v, limit = kernels.safe_ratio(v, size), kernels.safe_ratio(radius, size[:, 0])
    share = sigma / jnp.max(sigma)
    outside = (kernels.safe_norm(v) > limit) & (limit > 0)

    def newton(v, limit, nu):
        z = v / (1 + nu[:, None] * share[None])
        square = sum_of_squares(z)
        fall = jnp.sum(z * z * (share[None] / (1 + nu[:, None] * share[None])), -1)
        ratio = kernels.safe_ratio(jnp.sqrt(jnp.where(square > 0, square, 1)), limit)
        return nu + jnp.where(outside, kernels.safe_ratio(square, fall) * (ratio - 1), 0)

    def goes_on(carry):
        nu, moved, steps = carry
        return jnp.any(moved > 4 * jnp.finfo(nu.dtype).eps * nu) & (steps < _NEWTON)

    def step(carry):
        nu, _, steps = carry
        new = newton(*known, nu)
        return new, new - nu, steps + 1

    known = jax.lax.stop_gradient((v, limit))
    zero = jnp.zeros_like(limit)
    nu, _, _ = jax.lax.while_loop(goes_on, step, (zero, jnp.ones_like(limit), jnp.int32(0)))
    nu = newton(v, limit, jax.lax.stop_gradient(nu))
    z = v / (1 + nu[:, None] * share[None])
    # Rounding may leave the ball; a radius of zero is met at no nu.
    return kernels.project_l2_ball(jnp.where(outside[:, None], z, v), limit[:, None]) * size


_NEWTON = 60


def network_lasso() -> NetworkLasso:
    """Penalty ||.||_2 of differences: they are zero as a whole, or not at all."""
    return NetworkLasso()


def entrywise_l1() -> EntrywiseL1:
    """Penalty ||.||_1 of differences: they are zero entry by entry."""
    return EntrywiseL1()


def mocha() -> HalfSquare:
    """Penalty ||.||_2^2 / 2 of differences, that of MOCHA."""
    return HalfSquare(jnp.asarray(1.0, float))


def squared_difference() -> HalfSquare:
    """Penalty ||.||_2^2 of differences."""
    return HalfSquare(jnp.asarray(2.0, float))


def quadratic_difference(matrix: ArrayLike) -> Quadratic:
    """Penalty `v^T M v / 2` of differences.

    Args:
      matrix: M, shape (dim, dim), symmetric and positive semidefinite; it may be singular. It is
        decomposed at once, so that it cannot be traced.

    Returns:
      The penalty; its numbers are leaves.
    """
    array = finite_array("matrix", matrix, (None, None))
    of_shape("matrix", array, array.shape[:1] * 2)
    host = np.asarray(array, np.float64)
    tolerance = 1e-6 * np.abs(host).max(initial=0)
    apart = np.abs(host - host.T).max(initial=0) > tolerance
    refuse(apart, "matrix", "must be symmetric, but it is not", remedy="use (M + M.T) / 2")
    spectrum, basis = np.linalg.eigh((host + host.T) / 2)
    least = spectrum.min(initial=0)
    told = f"must be positive semidefinite, but it has the eigenvalue {least:g}"
    refuse(least < -tolerance, "matrix", told)
    # Rounding of a singular matrix: its conjugate is infinite off the range, not huge.
    spectrum = np.where(spectrum > tolerance, spectrum, 0)
    return Quadratic(jnp.asarray(basis, array.dtype), jnp.asarray(spectrum, array.dtype))


def _indicator(norm: jax.Array, radius: jax.Array) -> jax.Array:
    """Return 0 where the norm is at most the radius (to rounding), infinity elsewhere."""
    return jnp.where(norm <= radius * (1 + _rounding(norm)), 0, jnp.inf).astype(norm.dtype)


def _over(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
    """Return a ratio of nonnegative numbers with 0 / 0 = 0 and 1 / 0 infinite."""
    infinite = (denominator == 0) & (numerator > 0)
    return jnp.where(infinite, jnp.inf, kernels.safe_ratio(numerator, denominator))


def _rounding(values: jax.Array) -> float:
    return _FORGIVEN * float(jnp.finfo(values.dtype).eps)
