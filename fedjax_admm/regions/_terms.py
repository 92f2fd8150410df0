r"""Ranges and their linearisation, and systems of positions by time and offsets by anchor.

With r_lti = ||x_t - a_l|| + c_t + b_l - d_lti in metres and z = w r, the objective of all fits is

    F(x, c, b) = sum_lti rho(w_lti r_lti) + sum_l p_l (b_l - m_l)^2 / 2

where rho is a robust loss, divided by its curvature at 0, w = weight / sigma in 1/metres and p_l
the precision of the prior of the offset, 1/metres^2. The Jacobian of r_lti in (x_t, c_t) is
u_lt = ((x_t - a_l) / ||x_t - a_l||, 1) and in b_l it is 1, so that Hessians are arrows:

    [ A_1           B_1 ]       A_t = sum_l k_lt u u^T + sum_l g_lt (I - u u^T) / ||x_t - a_l||
    [      ...      ... ]       B_t = [k_1t u_1t, k_2t u_2t, ...]
    [           A_T B_T ]       C   = diag(sum_t k_lt + p_l)
    [ B_1^T ... B_T^T C ]

Positions are eliminated: `S = C - sum_t B_t^T A_t^{-1} B_t` has one row per anchor.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm import kernels
from fedjax_admm._checks import having, instance, is_concrete, refuse
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.losses import SampleLoss
from fedjax_admm.problems import Localization, RangeLocalization
from fedjax_admm.regions._losses import soft_l1

Array = jax.Array


@pytree_dataclass
class Terms:
    """The ranges of either kind of problem, in their own units again."""

    anchors: Array  # shape=(clients, dim), metres
    ranges: Array  # shape=(clients, times, ranges), metres; 0 where missing
    weights: Array  # shape=(clients, times, ranges): w, 1/metres; 0 where missing
    prior: Any  # the problem's `offsets`, precision in 1/metres^2; None without offsets

    @property
    def count(self) -> Array:
        """Return the number of ranges, shape ()."""
        return jnp.sum(self.weights > 0, dtype=self.ranges.dtype)

    def lengths(self, rows: Array) -> tuple[Array, Array]:
        """Return `||x_t - a_l||`, (clients, times), and u, (clients, times, columns)."""
        dim = self.anchors.shape[1]
        gap = rows[None, :, :dim] - self.anchors[:, None]
        radius = kernels.safe_norm(gap)
        ways = gap / jnp.maximum(radius, 1e-12)[..., None]
        if rows.shape[1] > dim:
            ways = jnp.concatenate([ways, jnp.ones_like(radius)[..., None]], -1)
        return radius, ways

    def residuals(self, rows: Array, offsets: Array) -> Array:
        """Return z = w r of positions (times, columns) and offsets (clients,), as `ranges`."""
        radius, _ = self.lengths(rows)
        dim = self.anchors.shape[1]
        total = radius + offsets[:, None] + (rows[None, :, dim] if rows.shape[1] > dim else 0)
        return self.weights * (total[..., None] - self.ranges)

    def objective(self, loss: SampleLoss, rows: Array, offsets: Array) -> Array:
        """Return F, shape ()."""
        return jnp.sum(value(loss, self.residuals(rows, offsets))) + self.penalty(offsets)

    def penalty(self, offsets: Array) -> Array:
        """Return `sum_l p_l (b_l - m_l)^2 / 2`, shape ()."""
        if self.prior is None:
            return jnp.zeros((), self.ranges.dtype)
        return jnp.sum(self.prior.precision * (offsets - self.prior.centre) ** 2) / 2

    def pull(self, offsets: Array) -> Array:
        """Return `p_l (b_l - m_l)`, the slope of the penalty, shape (clients,)."""
        if self.prior is None:
            return jnp.zeros_like(offsets)
        return self.prior.precision * (offsets - self.prior.centre)

    def free(self, offsets: Array, slopes: Array) -> Array:
        """Return which offsets may move, bool, shape (clients,): a bound holds the others.

        Args:
          offsets: shape (clients,).
          slopes: shape (clients,): derivatives of F in the offsets.
        """
        if self.prior is None:
            return jnp.zeros(offsets.shape, bool)
        low = (offsets <= self.prior.lower) & (slopes >= 0)
        return ~(low | ((offsets >= self.prior.upper) & (slopes <= 0)))


@pytree_dataclass
class Arrow:
    """The inverse of a symmetric arrow, by blocks."""

    inverse: Array  # shape=(times, columns, columns): A_t^{-1}
    across: Array  # shape=(times, columns, clients): K_t = A_t^{-1} B_t; 0 for offsets at bounds
    offsets: Array  # shape=(clients, clients): S^{-1}; 0 in rows and columns of offsets at bounds
    ridge: Array  # shape=(times,): of rounding, added to the diagonal of A_t

    def solve(self, rows: Array, offsets: Array) -> tuple[Array, Array]:
        """Solve for right sides of positions (times, columns) and of offsets (clients,)."""
        pulled = offsets - jnp.einsum("tcl,tc->l", self.across, rows)
        found = self.offsets @ pulled
        return jnp.einsum("tcd,td->tc", self.inverse, rows) - self.across @ found, found


def terms_of(problem: Localization | RangeLocalization) -> Terms:
    """Return the ranges of a problem in metres, with weights and priors in their own units."""
    if isinstance(problem, Localization):
        ranges = problem.distances[:, None, None]
        return Terms(problem.anchors, ranges, jnp.ones_like(ranges), None)
    instance("problem", problem, RangeLocalization, "a problem of problems.localization")
    own = problem.divided(1 / problem.unit)
    return Terms(own.anchors, own.ranges, own.weights, own.offsets)


def rows_of(problem: Localization | RangeLocalization, model: Any) -> Array:
    """Return a model as (times, columns)."""
    columns = problem.dim if isinstance(problem, Localization) else problem.columns
    return jnp.asarray(model).reshape(-1, columns)


def lone(array: Array, axis: int) -> Array:
    """Return an array without its axis of times, if there is a single time."""
    return jnp.squeeze(array, axis) if array.shape[axis] == 1 else array


def checked_loss(loss: Any, dtype: Any) -> SampleLoss:
    """Return a loss that is curved at 0, with its numbers in a dtype; None stands for soft l1."""
    loss = soft_l1() if loss is None else loss
    kind = "a loss of one residual, built as regions.soft_l1() or losses.huber(1.345)"
    having("value", "slope", "curvature", kind=kind)("loss", loss)
    loss = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), loss)
    zero = jnp.zeros((), dtype)
    bend = loss.curvature(zero, zero)
    straight = is_concrete(bend) and not float(bend) > 0
    remedy = "use regions.soft_l1 with a small threshold in the place of an absolute value"
    refuse(straight, "loss", "must be curved at 0", loss, remedy=remedy)
    return loss


def value(loss: SampleLoss, residuals: Array) -> Array:
    """Return rho(z): the loss over its curvature at 0."""
    zero = jnp.zeros_like(residuals)
    return loss.value(residuals, zero) / loss.curvature(zero, zero)


def slope(loss: SampleLoss, residuals: Array) -> Array:
    """Return psi(z), the derivative of rho."""
    zero = jnp.zeros_like(residuals)
    return loss.slope(residuals, zero) / loss.curvature(zero, zero)


def curvature(loss: SampleLoss, residuals: Array) -> Array:
    """Return psi'(z)."""
    zero = jnp.zeros_like(residuals)
    return loss.curvature(residuals, zero) / loss.curvature(zero, zero)


def ratio(loss: SampleLoss, residuals: Array) -> Array:
    """Return psi(z) / z, the weight of a reweighted least-squares step; 1 at 0."""
    size = jnp.maximum(jnp.abs(residuals), 1e-4)
    return slope(loss, size) / size


def blocks(ways: Array, curvatures: Array, bend: Array | None, dim: int) -> Array:
    """Return A_t, shape (times, columns, columns); the arguments are those of `arrow`."""
    square = jnp.einsum("ltc,ltd,lt->tcd", ways, ways, curvatures)
    if bend is None:
        return square
    space = ways[..., :dim]
    spheres = jnp.sum(bend, 0)[:, None, None] * jnp.eye(dim, dtype=ways.dtype)[None]
    spheres -= jnp.einsum("ltc,ltd,lt->tcd", space, space, bend)
    return square.at[:, :dim, :dim].add(spheres)


def arrow(
    terms: Terms,
    ways: Array,
    curvatures: Array,
    free: Array,
    *,
    bend: Array | None = None,
    damping: Array | float = 0.0,
) -> Arrow:
    """Invert the Hessian of F.

    Args:
      terms: ranges.
      ways: shape (clients, times, columns): u.
      curvatures: shape (clients, times): k, 1/metres^2.
      free: bool, shape (clients,): offsets that are not at a bound.
      bend: shape (clients, times): `g_lt / ||x_t - a_l||`, of the curvature of spheres; None for
        Gauss-Newton.
      damping: A_t and C are multiplied by one plus it.
    """
    columns = ways.shape[-1]
    square = blocks(ways, curvatures, bend, terms.anchors.shape[1])
    # A time with fewer ranges than unknowns keeps what it does not know.
    least = jnp.finfo(ways.dtype).eps * jnp.trace(square, axis1=-2, axis2=-1)
    eye = jnp.eye(columns, dtype=ways.dtype)[None]
    ridge = 10 * jnp.abs(least) + jnp.finfo(ways.dtype).tiny ** 0.5
    square = square * (1 + damping) + ridge[:, None, None] * eye
    inverse = positive_inverse(square)
    times, clients = curvatures.shape[1], curvatures.shape[0]
    if terms.prior is None:
        return Arrow(
            inverse,
            jnp.zeros((times, columns, clients), ways.dtype),
            jnp.zeros((clients, clients), ways.dtype),
            ridge,
        )
    moves = free.astype(ways.dtype)
    beside = jnp.einsum("ltc,lt,l->tcl", ways, curvatures, moves)
    across = jnp.einsum("tcd,tdl->tcl", inverse, beside)
    own = (jnp.sum(curvatures, 1) + terms.prior.precision) * (1 + damping)
    schur = jnp.diag(jnp.where(free, own, 1)) - jnp.einsum("tcl,tcm->lm", beside, across)
    return Arrow(inverse, across, positive_inverse(schur) * moves[None] * moves[:, None], ridge)
