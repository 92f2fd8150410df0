"""Penalties of paths: models that are positions at successive times, row after row."""

from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import build, count, finite_array, rising
from fedjax_admm.penalties._protocols import CertifiedByStep, WithoutKink, not_negative, penalty


@penalty
class SquareMotion(CertifiedByStep, WithoutKink):
    """Half the squares of differences of a path; see `motion`."""

    weight: jax.Array = not_negative(one=True)
    # shape=(times,) and (times, times): eigenvalues and eigenvectors of D^T D
    spectrum: Any = field(kw_only=True)
    basis: Any = field(kw_only=True)
    differences: Any = field(kw_only=True)  # shape=(times - order, times): D
    known: Any = field(kw_only=True)  # shape=(times, columns): U

    def value(self, x):
        """Return `weight / 2 sum ||D (x - U)||^2` of all paths together."""
        rows, _ = _around(x, self.known)
        return self.weight.astype(x.dtype) / 2 * jnp.sum(_times(self.differences, rows) ** 2)

    def prox(self, v, step):
        """Return each path's minimiser, `U + (I + step weight D^T D)^-1 (v - U)`."""
        rows, known = _around(v, self.known)
        bend = self.weight.astype(v.dtype) * jnp.asarray(self.spectrum, v.dtype)[:, None]
        bend = bend.reshape(*(1,) * (rows.ndim - 2), *bend.shape)
        parts = _times(self.basis.T, rows) / (1 + _beside(step, v) * bend)
        return (_times(self.basis, parts) + known).reshape(v.shape)


@penalty
class TotalMotion(CertifiedByStep):
    """The sizes of differences of a path; see `motion`."""

    weight: jax.Array = not_negative(one=True)
    known: Any = field(kw_only=True)  # shape=(times, columns): U
    order: int = field(kw_only=True, metadata={"static": True})

    def value(self, x):
        """Return `weight sum |D (x - U)|` of all paths together."""
        rows, _ = _around(x, self.known)
        return self.weight.astype(x.dtype) * jnp.sum(jnp.abs(jnp.diff(rows, self.order, axis=-2)))

    def prox(self, v, step):
        """Return each path's minimiser, in pieces of equal differences to U."""
        rows, known = _around(v, self.known)
        step = _beside(step, v)
        if self.order == 1:
            rows = kernels.prox_tv1d(rows, step, self.weight, axis=-2)
        else:
            rows = kernels.prox_trend_filter(rows, step, self.weight, axis=-2)
        return (rows + known).reshape(v.shape)


def _around(x: jax.Array, known: Any) -> tuple[jax.Array, jax.Array]:
    """Return x - U and U, both (..., times, columns)."""
    known = jnp.asarray(known, x.dtype).reshape(*(1,) * (x.ndim - 1), *known.shape)
    return x.reshape(*x.shape[:-1], *known.shape[-2:]) - known, known


def _beside(step: ArrayLike, v: jax.Array) -> jax.Array:
    """Return a step (), or (..., 1) of each path, as one that broadcasts against x - U."""
    step = jnp.asarray(step, v.dtype)
    return step[..., None] if step.ndim else step


def _times(matrix: Any, rows: jax.Array) -> jax.Array:
    """Return the product of a matrix with every path."""
    return jnp.einsum("st,...tc->...sc", jnp.asarray(matrix, rows.dtype), rows, precision="highest")


def motion(
    times: int | ArrayLike,
    weight: ArrayLike,
    *,
    order: int = 2,
    columns: int = 2,
    displacements: ArrayLike | None = None,
) -> SquareMotion:
    """Build the squares of what a path does otherwise than is expected of it.

    With the differences D of an order and a path U that is known up to where it begins, the penalty
    is `weight / 2 sum ||D (x - U)||^2`. Order 1 is a random walk around the displacements, such as
    those of an odometer, `x_(t+1) - x_t = u_t`, U their sums; order 2 is a constant velocity. A
    model is a path row after row, (times * columns,), as that of `problems.localization` with
    `path`.

    Args:
      times: the number of times, at least `order + 1`; or the times themselves, increasing, whose
        intervals divide the differences (in units of the mean interval).
      weight: not negative; the inverse of the variance of a difference, in the unit of the losses
        that the penalty is added to.
      order: 1 or 2.
      columns: entries of the model for one time.
      displacements: u, shape (times - 1, columns), metres; 0 if None.
    """
    order = count("order", order, at_most=2)
    instants = None
    if np.ndim(times) > 0:
        instants = np.asarray(finite_array("times", times, (None,)), np.float64)
        times = len(instants)
        rising("times", instants)
    known = _known(times, order, columns, displacements)
    differences = np.diff(np.eye(len(known)), axis=0)
    if instants is not None:
        lengths = np.diff(instants)
        differences /= (lengths / lengths.mean())[:, None]
    if order == 2:
        differences = np.diff(differences, axis=0)
    # In double precision, whatever that of the models is: the basis must be orthogonal.
    spectrum, basis = np.linalg.eigh(differences.T @ differences)
    return build(
        SquareMotion,
        weight=weight,
        differences=differences,
        spectrum=np.maximum(spectrum, 0),
        basis=basis,
        known=known,
    )


def motion_variation(
    times: int,
    weight: ArrayLike,
    *,
    order: int = 2,
    columns: int = 2,
    displacements: ArrayLike | None = None,
) -> TotalMotion:
    """Build the sizes of what a path does otherwise than is expected, which lets it turn suddenly.

    The penalty is `weight sum |D (x - U)|`; the arguments are those of `motion`.

    Reference: S.-J. Kim, K. Koh, S. Boyd, D. Gorinevsky, "l1 trend filtering", SIAM Review 51(2),
    2009.
    """
    order = count("order", order, at_most=2)
    known = _known(times, order, columns, displacements)
    return build(TotalMotion, weight=weight, known=known, order=order)


def _known(times: Any, order: int, columns: int, displacements: ArrayLike | None) -> np.ndarray:
    """Return U, (times, columns), in double precision."""
    known = np.zeros((count("times", times, at_least=order + 1), count("columns", columns)))
    if displacements is not None:
        steps = finite_array("displacements", displacements, (len(known) - 1, columns))
        known[1:] = np.cumsum(np.asarray(steps, np.float64), 0)
    return known
