"""Projections onto matrices with given sums of rows and columns."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._gaps import approximate
from fedjax_admm.kernels._loops import while_loop
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.matrices._semidual import Distance, transported


def _nearest_rows(shifted, sums):
    """Project rows onto simplices: one loop, where `project_simplex` compiles two that see further.

    C. Michelot's thresholds rise to the right one, and stop when the positive entries stay.
    """
    z = shifted - jnp.max(stop_gradient(shifted), axis=-1, keepdims=True)
    fixed, wanted = stop_gradient((z, sums))

    def excess(t, z, sums):
        active = (fixed > t) | (fixed >= 0)
        count = jnp.sum(active, axis=-1, keepdims=True).astype(z.dtype)
        return (jnp.sum(jnp.where(active, z, 0), axis=-1, keepdims=True) - sums) / count

    def goes_on(carry):
        t, new, count = carry
        return jnp.any(new > t) & (count < shifted.shape[-1] + 2)

    def climb(carry):
        _, t, count = carry
        return t, jnp.maximum(excess(t, fixed, wanted), t), count + 1

    start = (-jnp.inf * jnp.ones_like(wanted), -wanted, jnp.int32(0))
    t = while_loop(goes_on, climb, start)[1]
    x = z - excess(t, z, sums)
    return jnp.where(((fixed > t) | (fixed >= 0)) & ~(stop_gradient(x) < 0), x, 0)


def _nearest_shifts(shifted, _, found):
    top = jnp.argmax(shifted, axis=-1, keepdims=True)
    return jnp.take_along_axis(found - shifted, top, axis=-1)


def _entropic_rows(shifted, sums):
    return sums * jax.nn.softmax(shifted, axis=-1)


def _entropic_shifts(shifted, sums, _):
    return jnp.log(sums) - jax.nn.logsumexp(shifted, axis=-1, keepdims=True)


_EUCLIDEAN = Distance(
    _nearest_rows, lambda x: (x > 0).astype(x.dtype), _nearest_shifts, euclidean=True
)
_ENTROPIC = Distance(_entropic_rows, lambda x: x, _entropic_shifts, euclidean=False)


@approximate
def project_transport(
    v: Array,
    row_marginals: Size,
    column_marginals: Size,
    iterations: int = 400,
    tolerance: float | None = None,
) -> tuple[Array, Array]:
    """Project onto a transport polytope: `x >= 0` with given sums of rows and of columns.

    `x_ij = max(v_ij + f_i + g_j, 0)` with the shifts f and g for which the sums are right. For a
    transport problem with costs c, `v = -c / step` gives the plan with a quadratic penalty, `argmin
    <c, x> + step |x|**2 / 2`.

    Derivative: implicit, that of the projection onto the affine hull of the positive entries;
    entries at 0 belong to the zeros. Where the positive entries do not connect all rows and
    columns, the mass of a block of rows and its columns cannot change without an entry that is 0:
    of changes of the marginals the part that the blocks can carry counts, each column of a block
    giving up as much of the rest.

    Args:
      v: shape (..., m, n), floating dtype. Infinite entries give NaN.
      row_marginals: at least 0, a number or shape (..., m).
      column_marginals: at least 0, a number or shape (..., n); they are scaled to the mass of the
        rows, and the residual tells if that was more than rounding.
      iterations: at most as many sweeps and trials of Newton's step, a Python number.
      tolerance: of the sums, relative to the largest row's; None for the rounding of the dtype.

    Returns:
      Projections, shape (..., m, n), dtype of `v`; from `with_gap` the residual too, shape (...):
      the largest error of a sum of a row or column.

    Reference: M. Blondel, V. Seguy and A. Rolet, "Smooth and sparse optimal transport", AISTATS,
    2018 (the semi-dual); X. Li, D. Sun and K.-C. Toh, "On the efficient computation of a
    generalized Jacobian of the projector over the Birkhoff polytope", Mathematical Programming 179,
    2020 (Newton's method and the derivative).
    """
    return transported(v, row_marginals, column_marginals, _EUCLIDEAN, iterations, tolerance)


@approximate
def project_birkhoff(
    v: Array, iterations: int = 400, tolerance: float | None = None
) -> tuple[Array, Array]:
    """Project onto the Birkhoff polytope, the doubly stochastic matrices.

    `x_ij = max(v_ij + f_i + g_j, 0)` with the shifts f and g for which all sums of rows and columns
    are 1. Derivative, `iterations`, `tolerance` and residual: those of `project_transport`.

    Reference: X. Li, D. Sun and K.-C. Toh, "On the efficient computation of a generalized Jacobian
    of the projector over the Birkhoff polytope", Mathematical Programming 179, 2020.
    """
    _check_square(v)
    return transported(v, 1.0, 1.0, _EUCLIDEAN, iterations, tolerance)


@approximate
def project_kl_transport(
    v: Array,
    row_marginals: Size,
    column_marginals: Size,
    iterations: int = 400,
    tolerance: float | None = None,
) -> tuple[Array, Array]:
    """Project onto a transport polytope in the Kullback-Leibler divergence from `exp(v)`.

    `argmin KL(x | exp(v))` over `x >= 0` with given sums of rows and columns: `x_ij = exp(v_ij +
    f_i + g_j)`, by Sinkhorn's sweeps on logarithms and Newton's method. For a transport problem
    with costs c, `v = -c / step` gives the plan with the entropic penalty. Entries of `v` may be
    -inf: cells that stay empty. `row_marginals`, `column_marginals`,
    `iterations`, `tolerance` and the residual are those of `project_transport`.

    Derivative: implicit, smooth where the marginals are positive; by a column's marginal of 0 it is
    0.

    Reference: R. Sinkhorn and P. Knopp, "Concerning nonnegative matrices and doubly stochastic
    matrices", Pacific Journal of Mathematics 21, 1967; M. Cuturi, "Sinkhorn distances: lightspeed
    computation of optimal transport", NeurIPS, 2013; G. Peyre and M. Cuturi, "Computational Optimal
    Transport", Foundations and Trends in Machine Learning 11, 2019, section 4.4 (logarithms).
    """
    return transported(v, row_marginals, column_marginals, _ENTROPIC, iterations, tolerance)


@approximate
def project_kl_birkhoff(
    v: Array, iterations: int = 400, tolerance: float | None = None
) -> tuple[Array, Array]:
    """Project onto the doubly stochastic matrices in the Kullback-Leibler divergence from `exp(v)`.

    `x_ij = exp(v_ij + f_i + g_j)` with the shifts f and g for which all sums of rows and columns
    are 1; `iterations`, `tolerance` and residual as in `project_kl_transport`. Derivative:
    implicit; smooth, no kink.

    Reference: R. Sinkhorn and P. Knopp, "Concerning nonnegative matrices and doubly stochastic
    matrices", Pacific Journal of Mathematics 21, 1967.
    """
    _check_square(v)
    return transported(v, 1.0, 1.0, _ENTROPIC, iterations, tolerance)


def _check_square(v):
    shape = jnp.shape(v)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"doubly stochastic matrices are square, but the shape is {shape}.")
