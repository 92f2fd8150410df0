r"""Local losses of the nodes of a network, stacked over nodes, with their proximal maps.

    squared    L_i(w) = sum_j c_ij (x_ij^T w - y_ij)^2 + ridge ||w||^2
    lasso      the same + l1 ||w||_1
    logistic   L_i(w) = sum_j c_ij log(1 + exp(-y_ij x_ij^T w)),      y = -1 or 1
    trained    L_i(w) = sum_j c_ij loss(w, x_ij, y_ij),               any differentiable loss

Weights c_ij are 1 / m_i for a mean over the m_i samples of a node, 1 for a sum, zero for padding
and on nodes whose data are not accessible (their loss is zero, its prox the identity).

Every loss has the methods of `capabilities` for points (nodes, dim): `values`, `gradients`,
`minimizers` and `prox`, which an exact one answers without a memory, while an inexact one remembers
the models that it returned last (its warm start) and the state of its optimiser.

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023 (the primal updates).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import InputError, is_concrete, per_client
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import Gradients, Minimizers, Prox, TypicalNorm, Values
from fedjax_admm.kernels import sum_of_squares

_HIGHEST = jax.lax.Precision.HIGHEST


class LocalLoss(Values, Gradients, Prox, Minimizers, TypicalNorm, Protocol):
    """What a solver on a network asks of the nodes."""


@register_dataclass
@dataclass(frozen=True, eq=False)
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
        length = kernels.safe_norm(self._outside(v))
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
        """Return `(I - P) rows`; what is rounding counts as nothing."""
        outside = rows - self.expand(self._seen().astype(rows.dtype), rows)
        whole = jnp.all(self._seen(), -1) & (self.singular.shape[-1] == rows.shape[-1])
        nothing = whole[:, None] | (jnp.abs(outside) <= 64 * self.rounding(rows))
        return jnp.where(nothing, 0, outside)

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


@register_dataclass
@dataclass(frozen=True, eq=False)
class LassoLoss:
    """Least squares with an l1 penalty; its prox runs `steps` proximal gradient steps."""

    smooth: SquaredLoss
    l1: jax.Array  # shape=(nodes,): at least 0
    steps: int = field(metadata={"static": True})

    spread: ClassVar[tuple[str, ...]] = ("l1",)

    def values(self, points):
        """Return every node's loss, shape (nodes,)."""
        return self.smooth.values(points) + self.l1 * jnp.sum(jnp.abs(points), -1)

    def gradients(self, points, key=None):
        """Return a subgradient (sign(0) = 0), shape (nodes, dim)."""
        return self.smooth.gradients(points) + self.l1[:, None] * jnp.sign(points)

    def minimizers(self):
        """Return local minimisers, shape (nodes, dim): a proximal point iteration from zero."""
        reach = kernels.safe_ratio(20.0, jnp.max(self.smooth.spectrum, -1))
        zero = jnp.zeros_like(self.smooth.correlation)

        def point(w, _):
            return self.prox(w, jnp.where(reach > 0, reach, 1), w)[0], None

        return jax.lax.scan(point, zero, length=100)[0]

    def curvature(self):
        """Return the Lipschitz constant of every smooth part's gradient, shape (nodes,)."""
        return self.smooth.curvature()

    def typical_norm(self):
        """Return the median length of a node's least squares model."""
        return self.smooth.typical_norm()

    def prox_memory(self, start):
        """Return the models: the prox starts from those that it returned last."""
        return start

    def prox(self, points, step, memory):
        """Return the models after `z <- S(z - grad(z) / L; l1 / L)`, `L = L_i + 1 / step`."""
        total = (self.smooth.curvature() + 1 / step)[:, None]

        def descend(z, _):
            bent = self.smooth.expand(self.smooth.spectrum, z)
            slope = 2 * (bent + self.smooth.ridge[:, None] * z - self.smooth.correlation)
            moved = z - (slope + (z - points) / step[:, None]) / total
            return kernels.soft_threshold(moved, self.l1[:, None] / total), None

        models, _ = jax.lax.scan(descend, memory, length=self.steps)
        return models, models


@register_dataclass
@dataclass(frozen=True, eq=False)
class LogisticLoss:
    """Logistic regression; its prox takes `steps` damped Newton steps."""

    features: jax.Array  # shape=(nodes, samples, dim): x_ij
    targets: jax.Array  # shape=(nodes, samples): y_ij, -1 or 1
    weights: jax.Array  # shape=(nodes, samples): c_ij, zero for padding
    steps: int = field(metadata={"static": True})

    spread: ClassVar[tuple[str, ...]] = ("features", "targets", "weights")

    def values(self, points):
        """Return every node's loss, shape (nodes,)."""
        return jnp.sum(self.weights * jax.nn.softplus(-self._margins(points)), -1)

    def gradients(self, points, key=None):
        """Return `-sum_j c p_j y_j x_j`, `p = 1 / (1 + exp(y x^T w))`, shape (nodes, dim)."""
        slopes = -self.weights * self.targets * jax.nn.sigmoid(-self._margins(points))
        return jnp.einsum("nm,nmd->nd", slopes, self.features, precision=_HIGHEST)

    def minimizers(self):
        """Return local minimisers with the ridge 1e-4 ||w||^2 / 2: separable data have none."""
        zero = jnp.zeros(self.features.shape[::2], self.features.dtype)
        step = jnp.full(self.features.shape[0], 1e4, zero.dtype)
        return self._newton(zero, step, zero, 4 * self.steps)

    def curvature(self):
        """Return a Lipschitz constant of every gradient, shape (nodes,): `sum_j c ||x||^2 / 4`."""
        return jnp.sum(self.weights * sum_of_squares(self.features), -1) / 4

    def second_moments(self):
        """Return a bound of every Hessian, shape (nodes, dim, dim): `sum_j c x x^T / 4`."""
        scaled = self.weights[..., None] * self.features
        return jnp.einsum("nmd,nme->nde", scaled, self.features, precision=_HIGHEST) / 4

    def in_units(self, turn):
        """Return the losses of v with `w = turn v`; turn has shape (dim, dim)."""
        turned = jnp.einsum("nmd,de->nme", self.features, turn, precision=_HIGHEST)
        return replace(self, features=turned)

    def typical_norm(self):
        """Return the median length of a node's own model."""
        lengths = kernels.safe_norm(self.minimizers())
        known = jnp.sum(self.weights, -1) > 0
        return jnp.nan_to_num(jnp.nanmedian(jnp.where(known, lengths, jnp.nan)))

    def prox_memory(self, start):
        """Return nothing: the prox is exact."""
        return ()

    def prox(self, points, step, memory):
        """Return the models after damped Newton steps from the points, shape (nodes, dim)."""
        return self._newton(points, step, points, self.steps), memory

    def _newton(self, v, step, start, steps):
        identity = jnp.eye(v.shape[-1], dtype=v.dtype)[None] / step[:, None, None]
        # 1, 1/2, 1/4, ...: the longest that fits, or none.
        lengths = jnp.append(0.5 ** jnp.arange(15, dtype=v.dtype), jnp.zeros(1, v.dtype))
        eps = jnp.finfo(v.dtype).eps

        def objective(z):
            return self.values(z) + sum_of_squares(z - v) / (2 * step)

        def newton(z, _):
            gradient = self.gradients(z) + (z - v) / step[:, None]
            share = jax.nn.sigmoid(self._margins(z))
            bent = (self.weights * share * (1 - share))[..., None] * self.features
            hessian = identity + jnp.einsum("nmd,nme->nde", self.features, bent, precision=_HIGHEST)
            # Collinear features of any size leave the Hessian positive definite, to rounding.
            size = jnp.trace(hessian, axis1=1, axis2=2)[:, None, None]
            inverse = positive_inverse(
                hessian + 4 * eps * size * jnp.eye(v.shape[-1], dtype=v.dtype)[None]
            )
            direction = jnp.einsum("nde,ne->nd", inverse, gradient, precision=_HIGHEST)
            here = objective(z)
            decrease = jnp.sum(gradient * direction, -1)
            there = jax.vmap(lambda t: objective(z - t * direction))(lengths)
            allowed = (here + 50 * eps * (1 + jnp.abs(here)))[None]
            enough = allowed - 1e-4 * lengths[:, None] * decrease[None]
            # argmax finds the first length that decreases enough.
            fits = (there <= enough).at[-1].set(True)
            return z - lengths[jnp.argmax(fits, 0)][:, None] * direction, None

        return jax.lax.scan(newton, start, length=steps)[0]

    def _margins(self, w):
        products = jnp.einsum("nmd,nd->nm", self.features, w, precision=_HIGHEST)
        return self.targets * products


@short_repr
class TrainedMemory(NamedTuple):
    """What the inexact prox of `TrainedLoss` remembers, stacked over nodes."""

    models: Any  # shape=(nodes, dim): what it returned last; () where every round starts anew
    optimizer: Any  # its states


@register_dataclass
@dataclass(frozen=True, eq=False)
class TrainedLoss:
    """Any differentiable loss, with a prox of a few steps of an optax optimiser.

    The steps run on `L_i(z) + anchor ||z - v_i||^2 / (2 step_i)`. There is no guarantee for a
    nonconvex loss; for a convex one the iterates converge if the errors are summable.
    """

    features: jax.Array  # shape=(nodes, samples, ...): x_ij
    targets: jax.Array  # shape=(nodes, samples, ...): y_ij
    weights: jax.Array  # shape=(nodes, samples): c_ij, zero for padding
    start: jax.Array  # shape=(nodes, dim): first models
    rate: jax.Array  # shape=(): the optimiser's learning rate
    anchor: jax.Array  # shape=(): 1; 0 leaves the proximal term out
    sample_loss: Callable[[jax.Array, Any, Any], jax.Array] = field(metadata={"static": True})
    optimizer: Callable[[Any], optax.GradientTransformation] = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})  # per round
    solo_steps: int = field(metadata={"static": True})  # for a node on its own
    warm: bool = field(metadata={"static": True})  # from the previous models; else from the points

    spread: ClassVar[tuple[str, ...]] = ("features", "targets", "weights", "start")

    def values(self, points):
        """Return every node's loss, shape (nodes,)."""
        return jax.vmap(self._value)(points, self.features, self.targets, self.weights)

    def gradients(self, points, key=None):
        """Return every node's gradient, shape (nodes, dim)."""
        gradient = jax.vmap(jax.grad(self._value))
        return gradient(points, self.features, self.targets, self.weights)

    def minimizers(self):
        """Return what `solo_steps` steps from the start find on every node, shape (nodes, dim)."""
        never = jnp.zeros((), self.start.dtype)
        step = jnp.ones(self.start.shape[0], self.start.dtype)
        optimizer = self._optimizer_states(self.start)
        descend = partial(self._descend, anchor=never, steps=self.solo_steps)
        return descend(self.start, step, self.start, optimizer)[0]

    def typical_norm(self):
        """Return the median length of the first models."""
        return jnp.median(kernels.safe_norm(self.start))

    def prox_memory(self, start):
        """Return the models, where the next steps start there, and the optimiser's states."""
        return TrainedMemory(start if self.warm else (), self._optimizer_states(start))

    def prox(self, points, step, memory):
        """Return the models after `steps` steps of the optimiser, and what it remembers."""
        start = memory.models if self.warm else points
        models, optimizer = self._descend(
            points, step, start, memory.optimizer, anchor=self.anchor, steps=self.steps
        )
        # A node without data stays where it is put.
        models = jnp.where(self._idle(), points, models)
        return models, TrainedMemory(models if self.warm else (), optimizer)

    def _optimizer_states(self, start):
        return jax.vmap(self.optimizer(self.rate).init)(start)

    def _idle(self):
        return jnp.sum(self.weights, -1, keepdims=True) == 0

    def _descend(self, v, step, start, optimizer_states, *, anchor, steps):
        optimizer, idle = self.optimizer(self.rate), self._idle()

        def one(carry, _):
            z, state = carry
            slope = self.gradients(z) + anchor * (z - v) / step[:, None]
            # A node without data is not trained; a slope of exactly 0 has no derivative in Adam.
            slope = jnp.where(idle, 1, slope)
            with jax.numpy_dtype_promotion("standard"):  # optax adds counts to floats
                update, state = jax.vmap(optimizer.update)(slope, state, z)
            return (z + update, state), None

        return jax.lax.scan(one, (start, optimizer_states), length=steps)[0]

    def _value(self, w, features, targets, weights):
        losses = jax.vmap(self.sample_loss, (None, 0, 0))(w, features, targets)
        return jnp.sum(weights * losses)


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

    Raises:
      InputError: a ridge is negative, or their number is not that of the nodes; or features differ
        in size by more than their dtype resolves.
    """
    _check_sizes(features)
    factors = factor(features, targets, weights)
    per_node = per_client("ridge", ridge, features.shape[0], "node").astype(features.dtype)
    known = jnp.sum(weights, -1) > 0
    return SquaredLoss(features, targets, weights, jnp.where(known, per_node, 0), *factors)


def _check_sizes(features: jax.Array) -> None:
    """Check that features that can be looked at differ in size by at most 0.002 / eps."""
    if not is_concrete(features):
        return
    sizes = np.sqrt(np.mean(np.asarray(features, np.float64) ** 2, (0, 1)))
    small = np.argmin(np.where(sizes > 0, sizes, np.inf))
    large = np.argmax(sizes)
    if sizes[large] * float(jnp.finfo(features.dtype).eps) > 0.002 * sizes[small]:
        raise InputError(
            f"must have columns of similar size, but column {large} is "
            f"{sizes[large] / sizes[small]:.0e} times as large as column {small}, which "
            f"{features.dtype} does not resolve",
            argument="features",
            value=features,
            remedy="give features in other units",
        )


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
    roots = jnp.sqrt(weights)
    scaled, aimed = features * roots[..., None], targets * roots
    host = is_concrete((scaled, aimed)) and _alike(np.asarray(scaled))
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


def _factored(scaled, aimed, decomposed):
    """Return `factor`'s arrays from rows, their targets, and their singular value decomposition."""
    left, singular, basis = decomposed
    eps = float(jnp.finfo(scaled.dtype).eps)
    lengths = kernels.safe_norm(jnp.swapaxes(scaled, -1, -2))
    columns = jnp.einsum("nrd,nd->nr", abs(basis), lengths, precision=_HIGHEST)
    seen = singular > 8 * max(scaled.shape[-2:]) * eps * columns
    projected, unexplained = _explained(jnp.where(seen[:, None], left, 0), aimed)
    found = jnp.where(seen[..., None], basis, 0), jnp.where(seen, singular, 0), projected
    return tuple(part.astype(scaled.dtype) for part in (*found, unexplained))


def _explained(left, aimed):
    """Return `t = U^T b` and `||b - U t||^2`."""
    projected = jnp.einsum("nmr,nm->nr", left, aimed, precision=_HIGHEST)
    rest = aimed - jnp.einsum("nmr,nr->nm", left, projected, precision=_HIGHEST)
    return projected, sum_of_squares(rest)
