r"""Profile regions: where the objective, minimised over offsets, exceeds its minimum by little.

    { x : 2 (P(x) - min P) <= tau q },   P(x) = min over c and b of F(x, c, b)
    tau = [sum_i psi(z_i)^2 / (n - sum_i h_i)] / [sum_i psi'(z_i) / n]

q is the quantile of chi-squared with as many degrees of freedom as space has dimensions, and tau is
taken at the fit. The region follows the objective wherever it goes: two modes are two components.

Reference: E. Ronchetti, "Robust testing in linear models: the infinitesimal approach", PhD thesis,
ETH Zurich 1982 (the factor tau); D. Venzon, S. Moolgavkar, "A method for computing
profile-likelihood-based confidence intervals", Applied Statistics 37 (1988) 87-94.
"""

from collections.abc import Sequence
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import number, refuse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.graphs import Graph, components
from fedjax_admm.kernels.compiling import kernel
from fedjax_admm.losses import SampleLoss
from fedjax_admm.problems import Localization, RangeLocalization
from fedjax_admm.regions._covariance import free_offsets, leverages
from fedjax_admm.regions._ellipses import chi_squared_quantile
from fedjax_admm.regions._refine import Fit, descended
from fedjax_admm.regions._terms import checked_loss, curvature, rows_of, slope, terms_of

_STEPS = 15  # of the minimisation over offsets at a grid point


@pytree_dataclass
class ProfileRegion:
    """A region on a grid, and its connected components."""

    axes: tuple[jax.Array, ...]  # of each coordinate, shape=(points,), rising, metres
    excess: jax.Array  # shape=(points, ...): 2 (P - min P) / tau
    threshold: jax.Array  # shape=(): q
    labels: jax.Array  # shape=(points, ...), int32: of the component, -1 outside

    @property
    def inside(self) -> jax.Array:
        """Return which grid points lie inside, bool, shape (points, ...)."""
        return self.excess <= self.threshold

    @kernel
    def modes(self) -> jax.Array:
        """Return the number of connected components, shape (), int32."""
        flat = self.labels.reshape(-1)
        return jnp.sum(flat == jnp.arange(flat.size, dtype=flat.dtype), dtype=jnp.int32)

    @kernel
    def contains(self, points: jax.Array) -> jax.Array:
        """Return whether the nearest grid points lie inside, bool: (..., dim) to (...)."""
        places, within = [], jnp.ones(points.shape[:-1], bool)
        for axis, coordinate in zip(self.axes, jnp.moveaxis(points, -1, 0), strict=True):
            after = jnp.searchsorted((axis[1:] + axis[:-1]) / 2, coordinate)
            places.append(after)
            within &= (coordinate >= axis[0]) & (coordinate <= axis[-1])
        return within & self.inside[tuple(places)]


def profile(
    problem: Localization | RangeLocalization,
    fit: Fit,
    axes: Sequence[ArrayLike],
    loss: SampleLoss | None = None,
    *,
    level: ArrayLike = 0.9,
) -> ProfileRegion:
    """Evaluate the profile region of a position on a grid.

    Args:
      problem: with a single time.
      fit: of `refine` with the same loss, in the deepest mode.
      axes: of each dimension of space, the coordinates of the grid, shape (points,), rising,
        metres.
      loss: as in `refine`.
      level: between 0 and 1.

    Returns:
      The region; points that touch, corners included, belong to one component.

    Raises:
      InputError: the problem is a path, or there is not one axis per dimension.
    """
    terms = terms_of(problem)
    loss = checked_loss(loss, terms.anchors.dtype)
    dim = terms.anchors.shape[1]
    times = terms.ranges.shape[1]
    refuse(times != 1, "problem", f"must have a single time, but it is a path of {times}")
    refuse(len(axes) != dim, "axes", f"must hold an array for each of {dim} dimensions", len(axes))
    level = number("level", level, above=0, at_most=1)
    dtype = terms.anchors.dtype
    axes = tuple(jnp.asarray(axis, dtype) for axis in axes)
    rows = rows_of(problem, fit.model)

    def cost(place: jax.Array) -> jax.Array:
        there = rows.at[:, :dim].set(place)
        if terms.prior is None and rows.shape[1] == dim:
            return terms.objective(loss, there, fit.offsets)
        moved = descended(terms, loss, there, fit.offsets, _STEPS, fixed=dim)
        return terms.objective(loss, *moved)

    shape = tuple(len(axis) for axis in axes)
    grid = jnp.stack(jnp.meshgrid(*axes, indexing="ij"), -1).reshape(-1, dim)
    costs = jax.lax.map(cost, grid, batch_size=min(len(grid), 4096)).reshape(shape)
    residuals = terms.residuals(rows, fit.offsets)
    _, ways = terms.lengths(rows)
    free = free_offsets(terms, loss, residuals, fit.offsets)
    measured = terms.weights > 0
    degrees = terms.count - jnp.sum(leverages(terms, loss, residuals, ways, free))
    bend = jnp.sum(jnp.where(measured, curvature(loss, residuals), 0)) / terms.count
    variance = jnp.sum(slope(loss, residuals) ** 2) / jnp.maximum(degrees, 1)
    least = jnp.minimum(jnp.min(costs), terms.objective(loss, rows, fit.offsets))
    # The share of ranges within the bend of the loss is at least one in n.
    excess = 2 * (costs - least) * jnp.maximum(bend, 1 / terms.count) / variance
    threshold = chi_squared_quantile(level.astype(dtype), dim)
    return ProfileRegion(axes, excess, threshold, _labels(excess <= threshold))


def _labels(inside: jax.Array) -> jax.Array:
    """Return the smallest number of a component's points; -1 outside."""
    places = np.arange(inside.size).reshape(inside.shape)
    steps = [step for step in product((-1, 0, 1), repeat=inside.ndim) if step > (0,) * inside.ndim]
    heads, tails = [], []
    for step in steps:
        here = tuple(
            slice(max(0, -s), n - max(0, s)) for s, n in zip(step, places.shape, strict=True)
        )
        there = tuple(
            slice(max(0, s), n + min(0, s)) for s, n in zip(step, places.shape, strict=True)
        )
        heads.append(places[here].reshape(-1))
        tails.append(places[there].reshape(-1))
    heads, tails = np.concatenate(heads), np.concatenate(tails)
    order = np.argsort(heads, kind="stable")
    heads, tails = (jnp.asarray(ends[order], jnp.int32) for ends in (heads, tails))
    flat = inside.reshape(-1)
    joined = (flat[heads] & flat[tails]).astype(jnp.float32)
    labels = components(Graph(heads, tails, joined, inside.size))
    return jnp.where(flat, labels, -1).reshape(inside.shape)
