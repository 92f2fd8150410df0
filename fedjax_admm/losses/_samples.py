"""Losses of one sample of a linear model, elementwise in its prediction p = x^T w and target y.

    squared    (p - y)^2                    absolute    |p - y|
    logistic   log(1 + exp(-y p)), y = -1 or 1
    huber      (p - y)^2 / 2 up to |p - y| = threshold, then linear
    quantile   level (y - p) below the target, (1 - level) (p - y) above

All are convex in p, and so must be a loss of one's own: a pytree with the members of `SampleLoss`,
which `check_sample_loss` checks. A gradient in w is `slope(p, y) x`: clipping it to the norm c is
clipping the slope to `[-c / ||x||, c / ||x||]`, again the slope of a convex loss.
"""

from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive, ranged
from fedjax_admm._pytrees import pytree_dataclass


class SampleLoss(Protocol):
    """A convex loss of a prediction and a target, arrays of equal shape."""

    smooth: ClassVar[bool]  # whether the slope is continuous
    labels: ClassVar[bool]  # whether targets are -1 and 1

    def value(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Return the loss."""
        ...

    def slope(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Return the derivative by the prediction; at a kink the middle of both sides'."""
        ...

    def curvature(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Return the second derivative by the prediction, where there is one."""
        ...

    def largest_curvature(self) -> float:
        """Return the least upper bound of the curvature, 0 for pieces that are straight."""
        ...


@pytree_dataclass
class Squared:
    """`(p - y)^2`."""

    smooth: ClassVar[bool] = True
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        """Return `(p - y)^2`."""
        return (prediction - target) ** 2

    def slope(self, prediction, target):
        """Return `2 (p - y)`."""
        return 2 * (prediction - target)

    def curvature(self, prediction, target):
        """Return 2."""
        return jnp.full_like(prediction, 2)

    def largest_curvature(self):
        """Return 2."""
        return 2.0


@pytree_dataclass
class Absolute:
    """`|p - y|`."""

    smooth: ClassVar[bool] = False
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        """Return `|p - y|`."""
        return jnp.abs(prediction - target)

    def slope(self, prediction, target):
        """Return the sign of `p - y`, 0 at 0."""
        return jnp.sign(prediction - target)

    def curvature(self, prediction, target):
        """Return 0."""
        return jnp.zeros_like(prediction)

    def largest_curvature(self):
        """Return 0: both pieces are straight."""
        return 0.0


@pytree_dataclass
class Quantile:
    """`level (y - p)` for p <= y, else `(1 - level) (p - y)`: the pinball loss.

    The constant that minimises its mean is the quantile of the targets at that level. It is
    `|p - y| / 2 + (1/2 - level) (p - y)`, for the level 1/2 half of `Absolute`.

    Reference: R. Koenker, G. Bassett, "Regression Quantiles", Econometrica 46(1), 1978.
    """

    level: jax.Array = ranged(above=0, below=1)  # shape=()

    smooth: ClassVar[bool] = False
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        """Return the loss."""
        residual = prediction - target
        return jnp.maximum(-self.level * residual, (1 - self.level) * residual)

    def slope(self, prediction, target):
        """Return `-level` below the target, `1 - level` above, `1/2 - level` at it."""
        return jnp.sign(prediction - target) / 2 + (0.5 - self.level)

    def curvature(self, prediction, target):
        """Return 0."""
        return jnp.zeros_like(prediction)

    def largest_curvature(self):
        """Return 0: both pieces are straight."""
        return 0.0


@pytree_dataclass
class Huber:
    """`r^2 / 2` for |r| <= threshold, else `threshold (|r| - threshold / 2)`; r = p - y."""

    threshold: jax.Array = positive()  # shape=()

    smooth: ClassVar[bool] = True
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        """Return the loss; its two pieces meet smoothly."""
        inside = self.slope(prediction, target)
        return inside * (prediction - target - inside / 2)

    def slope(self, prediction, target):
        """Return `p - y`, cut at the threshold."""
        return jnp.clip(prediction - target, -self.threshold, self.threshold)

    def curvature(self, prediction, target):
        """Return 1 within the threshold, else 0."""
        inside = jnp.abs(prediction - target) <= self.threshold
        return inside.astype(prediction.dtype)

    def largest_curvature(self):
        """Return 1."""
        return 1.0


@pytree_dataclass
class Logistic:
    """`log(1 + exp(-y p))`, targets -1 and 1."""

    smooth: ClassVar[bool] = True
    labels: ClassVar[bool] = True

    def value(self, prediction, target):
        """Return `log(1 + exp(-y p))`."""
        return jax.nn.softplus(-target * prediction)

    def slope(self, prediction, target):
        """Return `-y / (1 + exp(y p))`."""
        return -target * jax.nn.sigmoid(-target * prediction)

    def curvature(self, prediction, target):
        """Return `s (1 - s)`, s the logistic function of p."""
        # 1 - s would be 0 for large p.
        return jax.nn.sigmoid(prediction) * jax.nn.sigmoid(-prediction)

    def largest_curvature(self):
        """Return 1/4."""
        return 0.25


def squared() -> Squared:
    """Squared loss, `(p - y)^2`."""
    return Squared()


def absolute() -> Absolute:
    """Absolute loss, `|p - y|`."""
    return Absolute()


def quantile(level: ArrayLike) -> Quantile:
    """Quantile loss, `level (y - p)` for p <= y, else `(1 - level) (p - y)`; 0 < level < 1."""
    return build(Quantile, **locals())


def huber(threshold: ArrayLike = 1.0) -> Huber:
    """Huber loss, `(p - y)^2 / 2` up to |p - y| = threshold, then linear."""
    return build(Huber, **locals())


def logistic() -> Logistic:
    """Logistic loss, `log(1 + exp(-y p))`, with targets -1 and 1."""
    return Logistic()
