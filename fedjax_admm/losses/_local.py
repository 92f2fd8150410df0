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
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax

from fedjax_admm import kernels
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.capabilities import Gradients, Minimizers, Prox, TypicalNorm, Values
from fedjax_admm.kernels import sum_of_squares
from fedjax_admm.losses._squared import SquaredLoss

_HIGHEST = jax.lax.Precision.HIGHEST


class LocalLoss(Values, Gradients, Prox, Minimizers, TypicalNorm, Protocol):
    """What a solver on a network asks of the nodes."""


@pytree_dataclass
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


@pytree_dataclass
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


class TrainedMemory(NamedTuple):
    """What the inexact prox of `TrainedLoss` remembers, stacked over nodes."""

    models: Any  # shape=(nodes, dim): what it returned last; () where every round starts anew
    optimizer: Any  # its states


@pytree_dataclass
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
