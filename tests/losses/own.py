"""Losses of one's own, as a user writes them: good ones, and ones that are not what they say."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fedjax_admm._pytrees import pytree_dataclass


@pytree_dataclass
class PseudoHuber:
    """`d^2 (sqrt(1 + (r / d)^2) - 1)`, r = p - y."""

    width: Any = 1.0

    smooth: ClassVar[bool] = True
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        r = (prediction - target) / self.width
        return self.width**2 * (jnp.sqrt(1 + r * r) - 1)

    def slope(self, prediction, target):
        r = (prediction - target) / self.width
        return self.width * r / jnp.sqrt(1 + r * r)

    def curvature(self, prediction, target):
        r = (prediction - target) / self.width
        return (1 + r * r) ** -1.5

    def largest_curvature(self):
        return 1.0


@pytree_dataclass
class Insensitive:
    """`max(|p - y| - margin, 0)`."""

    margin: Any = 0.5

    smooth: ClassVar[bool] = False
    labels: ClassVar[bool] = False

    def value(self, prediction, target):
        return jnp.maximum(jnp.abs(prediction - target) - self.margin, 0)

    def slope(self, prediction, target):
        r = prediction - target
        return jnp.where(jnp.abs(r) > self.margin, jnp.sign(r), 0)

    def curvature(self, prediction, target):
        return jnp.zeros_like(prediction)

    def largest_curvature(self):
        return 0.0


@pytree_dataclass
class SquaredHinge:
    """`max(1 - y p, 0)^2`, y = -1 or 1."""

    smooth: ClassVar[bool] = True
    labels: ClassVar[bool] = True

    def value(self, prediction, target):
        return jnp.maximum(1 - target * prediction, 0) ** 2

    def slope(self, prediction, target):
        return -2 * target * jnp.maximum(1 - target * prediction, 0)

    def curvature(self, prediction, target):
        return 2 * (target * prediction < 1).astype(prediction.dtype)

    def largest_curvature(self):
        return 2.0


def changed(base: type, *numbers: float, **members: Any) -> Any:
    """Return a loss like another one, with some members of its own."""
    return pytree_dataclass(type("Mine", (base,), members))(*numbers)


def student(p: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.log1p((p - y) ** 2)
