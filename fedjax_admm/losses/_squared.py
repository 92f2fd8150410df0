r"""Least squares of the nodes of a network, kept with the singular values of their data.

`SquaredLoss` is the local loss whose prox, minimisers and conjugates are exact; `least_squares`
builds it. The other local losses are in `_local`.
"""

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import is_concrete, per_client, refuse
from fedjax_admm._host._programs import compiled
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import sum_of_squares

_HIGHEST = jax.lax.Precision.HIGHEST


@pytree_dataclass
class SquaredLoss:
    """Least squares with a ridge, kept with the singular values of every node's data.

    With rows `sqrt(c_ij) x_ij^T = U diag(s) V^T` and `t = U^T (sqrt(c_ij) y_ij)`,

        L_i(w) = sum_r (s_r v_r^T w - t_r)^2 + unexplained_i + ridge_i ||w||^2

    which never forms `Q_i = sum_j c x x^T`, whose eigenvalues s^2 lose half of the digits.
    """

    features: jax.Array  # shape=(nodes, samples, dim): x_ij
    targets: jax.Array  # shape=(nodes, samples): y_ij
    weights: jax.Array  # shape=(nodes, samples): c_ij, zero for padding
    ridge: jax.Array  # shape=(nodes,): at least 0
    basis: jax.Array  # shape=(nodes, rank, dim): v_r, orthonormal; rank = min(samples, dim)
    singular: jax.Array  # shape=(nodes, rank): s_r, zero where rounding is all
    projected: jax.Array  # shape=(nodes, rank): t_r
    unexplained: jax.Array  # shape=(nodes,): the least sum of squares

    spread: ClassVar[tuple[str, ...]] = (
        "features",
        "targets",
        "weights",
        "ridge",
        "basis",
        "singular",
        "projected",
        "unexplained",
    )

    @property
    def spectrum(self) -> jax.Array:
        """The eigenvalues of every Q_i on its basis, shape (nodes, rank)."""
        return self.singular**2

    @property
    def correlation(self) -> jax.Array:
        """Every `q_i = sum_j c x y`, shape (nodes, dim)."""
        return self._spread(self.singular * self.projected)

    def with_targets(self, targets):
        """Return the same loss for other targets, shape (nodes, samples); nothing is factored."""
        aimed = jnp.sqrt(self.weights) * targets
        rows = jnp.einsum("nmd,nrd->nmr", self.features, self.basis, precision=_HIGHEST)
        left = jnp.sqrt(self.weights)[..., None] * rows
        left = left * kernels.safe_ratio(1.0, self.singular)[:, None]
        projected, unexplained = _explained(left, aimed)
        return replace(self, targets=targets, projected=projected, unexplained=unexplained)

    def weighted(self, factors):
        """Return the losses times factors of shape (nodes,), at least 0; the ridge stays."""
        roots = jnp.sqrt(factors)[:, None]
        return replace(
            self,
            weights=factors[:, None] * self.weights,
            singular=roots * self.singular,
            projected=roots * self.projected,
            unexplained=factors * self.unexplained,
        )

    def values(self, points):
        """Return every node's loss, shape (nodes,)."""
        squares = jnp.sum(self.weights * self._residuals(points) ** 2, -1)
        return squares + self.ridge * sum_of_squares(points)

    def gradients(self, points, key=None):
        """Return `2 (Q_i + ridge) w_i - 2 q_i`, shape (nodes, dim)."""
        slopes = self.weights * self._residuals(points)
        back = jnp.einsum("nm,nmd->nd", slopes, self.features, precision=_HIGHEST)
        return 2 * (back + self.ridge[:, None] * points)

    def minimizers(self):
        """Return the least squares solutions of minimum norm, shape (nodes, dim)."""
        return self._spread(kernels.safe_ratio(self.singular * self.projected, self._eigenvalues()))

    def curvature(self):
        """Return the Lipschitz constant of every gradient, shape (nodes,)."""
        return 2 * (jnp.max(self.spectrum, -1) + self.ridge)

    def gram(self):
        """Return every `Q_i + ridge I`, shape (nodes, dim, dim)."""
        scaled = self.singular[..., None] * self.basis
        matrix = jnp.einsum("nrd,nre->nde", scaled, scaled, precision=_HIGHEST)
        identity = jnp.eye(matrix.shape[-1], dtype=matrix.dtype)[None]
        return matrix + self.ridge[:, None, None] * identity

    def second_moments(self):
        """Return the Hessian of every loss, shape (nodes, dim, dim)."""
        return 2 * self.gram()

    def in_units(self, turn):
        """Return the losses of v with `w = turn v`, for their prox alone: data are left out.

        The rows `diag(s) V^T turn` and `sqrt(ridge) turn` are factored, not their squares.

        Args:
          turn: shape (dim, dim), invertible.
        """
        rows = jnp.einsum(
            "nrd,de->nre", self.singular[..., None] * self.basis, turn, precision=_HIGHEST
        )
        ridge = jnp.sqrt(self.ridge)[:, None, None] * turn[None]
        rows = jnp.concatenate([rows, ridge], 1)
        aimed = jnp.concatenate([self.projected, jnp.zeros_like(ridge[..., 0])], 1)
        basis, singular, projected, _ = _factored(rows, aimed, _by_rotations(rows))
        return replace(
            self,
            features=self.features[:, :0],
            targets=self.targets[:, :0],
            weights=self.weights[:, :0],
            ridge=jnp.zeros_like(self.ridge),
            basis=basis,
            singular=singular,
            projected=projected,
        )

    def typical_norm(self):
        """Return the median length of a node's model, entries that its data do not see included."""
        rank = jnp.sum(self._seen(), -1)
        seen = jnp.sqrt(self.features.shape[-1] / jnp.maximum(rank, 1).astype(self.singular.dtype))
        lengths = kernels.safe_norm(self.minimizers()) * seen
        return jnp.nan_to_num(jnp.nanmedian(jnp.where(rank > 0, lengths, jnp.nan)))

    def prox_memory(self, start):
        """Return nothing: the prox is exact."""
        return ()

    def prox(self, points, step, memory):
        """Return `((1 + 2 step ridge) I + 2 step Q_i)^-1 (v_i + 2 step q_i)` for every node."""
        step = step[:, None]
        unseen = 1 + 2 * step * self.ridge[:, None]
        # q has no part outside the basis: the point is taken apart alone, so that long steps lose
        # nothing.
        along = self._coordinates(points)
        there = along + 2 * step * self.singular * self.projected
        there = there / (unseen + 2 * step * self.spectrum)
        change = jnp.where(self._seen(), there - along / unseen, 0)
        return points / unseen + self._spread(change), memory

    def conjugates(self, v, radius):
        """Return the conjugates restricted to the ball ||w|| <= radius, or an upper bound.

        With c = V^T v and P the projector onto the range of Q_i,

            sum_r (c_r^2 + 4 s_r t_r c_r - 4 ridge t_r^2) / (4 (s_r^2 + ridge))
                - unexplained + radius ||(I - P) v||

        for a ridge the last term is `||(I - P) v||^2 / (4 ridge)`.

        Args:
          v: shape (nodes, dim).
          radius: shape (): some minimiser has models no longer than this; infinite for the plain
            conjugate.

        Returns:
          Shape (nodes,).
        """
        along, ridge = self._coordinates(v), self.ridge[:, None]
        # Divided by s first: s^2 and c^2 may leave the range where their quotient does not.
        root = jnp.sqrt(self._eigenvalues())
        c, t = kernels.safe_ratio(along, root), self.projected
        form = c * c / 4 + kernels.safe_ratio(self.singular, root) * t * c
        form = form - kernels.safe_ratio(ridge, self._eigenvalues()) * t * t
        outside = self._outside(v)
        rounding = jnp.abs(outside) <= 64 * self.rounding(v)
        length = kernels.safe_norm(jnp.where(rounding, 0, outside))
        free = jnp.where(length > 0, radius * jnp.where(length > 0, length, 1), 0)
        rest = jnp.where(self.ridge > 0, length**2 * kernels.safe_ratio(1.0, self.ridge) / 4, free)
        return jnp.sum(jnp.where(self._seen(), form, 0), -1) + rest - self.unexplained

    def unseen(self, rows):
        """Return the part of rows (nodes, dim) that no data see; a ridge sees everything."""
        return jnp.where((self.ridge > 0)[:, None], 0, self._outside(rows))

    def rounding(self, rows):
        """Return the rounding errors of `unseen`, feature by feature, shape (nodes, dim).

        `eps (|v| + |V| |V|^T |v|)` changes with the units of a feature as the feature does.
        """
        basis, rows = jnp.abs(self.basis), jnp.abs(rows)
        mixed = jnp.einsum("nrd,nre,ne->nd", basis, basis, rows, precision=_HIGHEST)
        return jnp.finfo(rows.dtype).eps * (rows + mixed)

    def _outside(self, rows):
        """Return `(I - P) rows`.

        The second time takes away what rounding left inside the range, which is large along
        features of large numbers.
        """
        whole = jnp.all(self._seen(), -1) & (self.singular.shape[-1] == rows.shape[-1])
        seen = self._seen().astype(rows.dtype)
        for _ in range(2):
            rows = rows - self.expand(seen, rows)
        return jnp.where(whole[:, None], 0, rows)

    def _seen(self):
        return self.singular > 0

    def _eigenvalues(self):
        """Return the eigenvalues of Q_i + ridge on the basis; 0 where there is no direction."""
        return jnp.where(self._seen(), self.spectrum + self.ridge[:, None], 0)

    def _coordinates(self, rows):
        return jnp.einsum("nrd,nd->nr", self.basis, rows, precision=_HIGHEST)

    def expand(self, factors, rows):
        """Return `basis^T diag(factors) basis rows`."""
        return self._spread(factors * self._coordinates(rows))

    def _spread(self, coordinates):
        return jnp.einsum("nrd,nr->nd", self.basis, coordinates, precision=_HIGHEST)

    def _residuals(self, w):
        return jnp.einsum("nmd,nd->nm", self.features, w, precision=_HIGHEST) - self.targets


def least_squares(
    features: jax.Array, targets: jax.Array, weights: jax.Array, ridge: ArrayLike = 0.0
) -> SquaredLoss:
    """Build `SquaredLoss` from padded data, and factor them.

    Args:
      features: shape (nodes, samples, dim), zero for padding.
      targets: shape (nodes, samples).
      weights: shape (nodes, samples): c_ij, at least 0, zero for padding.
      ridge: weight of ||w||^2, a number or one per node, at least 0; it is 0 for a node without
        samples of positive weight.

    Returns:
      The loss.
    """
    _check_sizes(features)
    factors = factor(features, targets, weights)
    per_node = per_client("ridge", ridge, features.shape[0], "node")
    per_node = _where_known(per_node, weights).astype(features.dtype)
    return SquaredLoss(features, targets, weights, per_node, *factors)


@jax.jit
def _where_known(ridge: jax.Array, weights: jax.Array) -> jax.Array:
    return jnp.where(jnp.sum(weights, -1) > 0, ridge, 0)


def _check_sizes(features: jax.Array) -> None:
    """Check that features that can be looked at differ in size by at most 0.002 / eps."""
    if not is_concrete(features):
        return
    sizes = np.sqrt(np.mean(np.asarray(features, np.float64) ** 2, (0, 1)))
    small = np.argmin(np.where(sizes > 0, sizes, np.inf))
    large = np.argmax(sizes)
    rounded = sizes[large] * float(jnp.finfo(features.dtype).eps) > 0.002 * sizes[small]
    ratio = sizes[large] / max(sizes[small], 1e-300)
    told = f"must have columns of similar size, but column {large} is {ratio:.0e} times as large"
    remedy = "give features in other units"
    refuse(rounded, "features", f"{told} as column {small}", remedy=remedy)


def factor(features: jax.Array, targets: jax.Array, weights: jax.Array) -> tuple[jax.Array, ...]:
    """Return the singular values of every node's data `sqrt(c_ij) x_ij`, and what they explain.

    A singular value counts as seen where it is above the rounding of the columns that it is made
    of, `s_r > 8 max(samples, dim) eps sum_k ||a_k|| |v_rk|`: units of features change nothing.

    Data that can be looked at go through LAPACK on the host in float64. Where columns of float64
    differ in length by more than a thousand, and inside a trace, Jacobi's rotations take its place:
    they are as accurate in every column, and run on any number of devices.

    Args:
      features: shape (nodes, samples, dim).
      targets: shape (nodes, samples).
      weights: shape (nodes, samples), at least 0.

    Returns:
      The fields `basis`, `singular`, `projected` and `unexplained` of `SquaredLoss`.

    Reference: J. Demmel and K. Veselic, "Jacobi's method is more accurate than QR", SIAM Journal on
    Matrix Analysis and Applications 13(4), 1992.
    """
    data = features, targets, weights
    known = is_concrete(data)
    library: Any = np if known else jnp
    features, targets, weights = map(library.asarray, data)
    with np.errstate(over="ignore", invalid="ignore"):
        roots = library.sqrt(weights)
        scaled, aimed = features * roots[..., None], targets * roots
    host = known and _alike(scaled)
    found = np.linalg.svd(np.asarray(scaled, np.float64), full_matrices=False) if host else ()
    return _factored(scaled, aimed, found or _by_rotations(scaled))


def _alike(scaled: np.ndarray) -> bool:
    """Tell whether LAPACK's errors, relative to the longest column, are small in every column."""
    if scaled.dtype == np.float32:
        return True
    lengths = np.linalg.norm(scaled, axis=-2)
    shortest = np.min(lengths, -1, where=lengths > 0, initial=np.inf)
    return bool(np.all(lengths.max(-1, initial=0) <= 1e3 * shortest))


def _by_rotations(scaled: jax.Array) -> tuple[jax.Array, ...]:
    """Return left vectors, singular values, and right vectors as rows."""
    samples, dim = scaled.shape[-2:]
    rank = min(samples, dim)
    # Columns are rotated, as it is they that have units; many of few rows would take too long.
    room = dim - samples if samples < dim <= _ROTATED else 0
    padded = jnp.pad(scaled, ((0, 0), (0, max(room, 0)), (0, 0)))
    left, singular, right = kernels.svd_by_rotations(padded)
    return left[:, :samples, :rank], singular[:, :rank], jnp.swapaxes(right[..., :rank], -1, -2)


_ROTATED = 64


@compiled
def _factored(scaled, aimed, decomposed):
    """Return `factor`'s arrays from rows, their targets, and their singular value decomposition."""
    left, singular, basis = decomposed
    dtype, found_in = scaled.dtype, jax.dtypes.canonicalize_dtype(singular.dtype)
    scaled, aimed = scaled.astype(found_in), aimed.astype(found_in)
    eps = float(jnp.finfo(dtype).eps)
    lengths = kernels.safe_norm(jnp.swapaxes(scaled, -1, -2))
    columns = jnp.einsum("nrd,nd->nr", abs(basis), lengths, precision=_HIGHEST)
    seen = singular > 8 * max(scaled.shape[-2:]) * eps * columns
    projected, unexplained = _explained(jnp.where(seen[:, None], left, 0), aimed)
    found = jnp.where(seen[..., None], basis, 0), jnp.where(seen, singular, 0), projected
    return tuple(part.astype(dtype) for part in (*found, unexplained))


def _explained(left, aimed):
    """Return `t = U^T b` and `||b - U t||^2`."""
    projected = jnp.einsum("nmr,nm->nr", left, aimed, precision=_HIGHEST)
    rest = aimed - jnp.einsum("nmr,nr->nm", left, projected, precision=_HIGHEST)
    return projected, sum_of_squares(rest)
