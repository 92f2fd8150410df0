r"""Robust fits: reweighted Gauss-Newton steps from a point to a stationary point nearby.

With z, w, u and the arrow of `_terms`, a step solves

    k_lt = sum_i w_lti^2 psi(z_lti) / z_lti,   g_lt = sum_i w_lti psi(z_lti)
    (arrow of k, times 1 + lambda) (dx, dc, db) = -(gradient of F)

and is taken if F does not grow; lambda falls fourfold after a step that is taken and rises
eightfold after one that is not. Offsets are cut to their bounds.

Reference: P. W. Holland, R. E. Welsch, "Robust regression using iteratively reweighted
least-squares", Communications in Statistics A 6(9) (1977) 813-827; D. W. Marquardt, "An algorithm
for least-squares estimation of nonlinear parameters", SIAM J. 11(2) (1963) 431-441.
"""

from dataclasses import field

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import count
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.losses import SampleLoss
from fedjax_admm.problems import Localization, RangeLocalization
from fedjax_admm.regions._terms import (
    Terms,
    arrow,
    checked_loss,
    lone,
    ratio,
    rows_of,
    slope,
    terms_of,
)


@pytree_dataclass
class Fit:
    """A model with the offsets of all anchors."""

    model: jax.Array  # shape=(..., times * columns): as the problem's models, metres
    offsets: jax.Array  # shape=(..., clients), metres; 0 where the problem has none
    dim: int = field(metadata={"static": True})  # of space
    columns: int = field(metadata={"static": True})  # of the model of one time

    @property
    def position(self) -> jax.Array:
        """Return the positions, shape (..., times, dim), metres; (..., dim) of a single time."""
        rows = self.model.reshape(*self.model.shape[:-1], -1, self.columns)
        return lone(rows[..., : self.dim], -2)


def refine(
    problem: Localization | RangeLocalization,
    start: ArrayLike | Fit,
    loss: SampleLoss | None = None,
    *,
    steps: int = 40,
) -> Fit:
    """Move a model to a stationary point of `F = sum rho(w r) + prior of offsets`.

    A pure function under `jax.jit` and `jax.vmap`; it sees all ranges in one place.

    Args:
      problem: of `problems.localization`; a path has a position at each time, without a prior of
        motion.
      start: a model (times * columns,), such as the estimate of a run, or a `Fit`.
      loss: rho, of a residual over sigma: `losses.squared`, `losses.huber`, `regions.soft_l1`,
        `regions.cauchy`; soft l1 with the threshold 1 if None. It is divided by its curvature at 0.
      steps: a fixed number.

    Returns:
      The model and the offsets, of the dtype of the anchors.

    Raises:
      InputError: the problem or the loss is of another kind.
    """
    terms, steps = terms_of(problem), count("steps", steps)
    dtype = terms.anchors.dtype
    loss = checked_loss(loss, dtype)
    if isinstance(start, Fit):
        model, offsets = start.model, start.offsets
    else:
        model, offsets = start, jnp.zeros(len(terms.anchors), dtype)
        if terms.prior is not None:
            offsets = jnp.clip(terms.prior.centre, terms.prior.lower, terms.prior.upper)
    rows = rows_of(problem, model).astype(dtype)
    rows, offsets = descended(terms, loss, rows, offsets, steps)
    return Fit(rows.reshape(-1), offsets, problem.dim, rows.shape[1])


def descended(
    terms: Terms,
    loss: SampleLoss,
    rows: jax.Array,
    offsets: jax.Array,
    steps: int,
    *,
    fixed: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """Return positions (times, columns) and offsets (clients,) after some steps.

    The first `fixed` columns stay where they are.
    """
    moving = (jnp.arange(rows.shape[1]) >= fixed).astype(rows.dtype)[None, None]

    def step(carry, _):
        rows, offsets, damping, cost = carry
        residuals = terms.residuals(rows, offsets)
        ways = terms.lengths(rows)[1] * moving
        slopes = jnp.sum(terms.weights * slope(loss, residuals), -1)
        curvatures = jnp.sum(terms.weights**2 * ratio(loss, residuals), -1)
        right = jnp.sum(slopes, 1) + terms.pull(offsets)
        system = arrow(terms, ways, curvatures, terms.free(offsets, right), damping=damping)
        moves, shifts = system.solve(jnp.einsum("ltc,lt->tc", ways, slopes), right)
        new_rows, new_offsets = rows - moves, offsets - shifts
        if terms.prior is not None:
            new_offsets = jnp.clip(new_offsets, terms.prior.lower, terms.prior.upper)
        new_cost = terms.objective(loss, new_rows, new_offsets)
        taken = new_cost <= cost
        return (
            jnp.where(taken, new_rows, rows),
            jnp.where(taken, new_offsets, offsets),
            jnp.where(taken, damping / 4, jnp.maximum(8 * damping, 1e-3)),
            jnp.where(taken, new_cost, cost),
        ), None

    first = rows, offsets, jnp.zeros((), rows.dtype), terms.objective(loss, rows, offsets)
    (rows, offsets, _, _), _ = jax.lax.scan(step, first, length=steps)
    return rows, offsets
