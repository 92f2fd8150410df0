"""Proximal maps as links of optax's chains: proximal training in two lines.

    sparse = fa.as_gradient_transformation(fa.penalties.l1(1e-3), 0.1)
    optimizer = optax.chain(optax.sgd(0.1), sparse)

With u the update of the links before, which contains the learning rate, the parameters become

    x <- Prox_g(x + u; learning rate)

and the link returns the update `Prox_g(x + u; learning rate) - x`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import jax.numpy as jnp
import optax

from fedjax_admm._checks import refuse
from fedjax_admm.kernels import tree_prox
from fedjax_admm.schedules import ScheduleLike, as_schedule

LeafProx: TypeAlias = Callable[..., Any] | Any
"""A function `prox(v, step)`, or a penalty with the method `prox`."""

_MAP = "must be a function prox(v, step), a penalty, or a mapping from paths to such"


class ProximalState(NamedTuple):
    """State of the link."""

    updates: jax.Array  # shape=(), int32: number of updates so far


def as_gradient_transformation(
    prox: LeafProx | Mapping[str, LeafProx | None], learning_rate: ScheduleLike
) -> optax.GradientTransformation:
    """Make a proximal map the last link of an optax chain.

    `optax.chain(optax.sgd(0.1), as_gradient_transformation(penalties.l1(1e-3), 0.1))` is proximal
    gradient descent: its limits are stationary points of the loss plus the penalty. The learning
    rate is that of the links before, and the step of the map. After a link that scales every entry
    by itself, as Adam does, the map is not scaled (the usual Prox-SGD): zeros are as exact, but the
    limits are those of the scaled gradients, which weigh the penalty differently.

    Entries that the map makes zero are zero after `optax.apply_updates`: `x + (0 - x)` is exact.
    Other entries are those of the map up to a rounding.

    Args:
      prox: `prox(v, step)` for every leaf, such as those of `fedjax_admm.kernels`; a penalty of
        `fedjax_admm.penalties`; or a mapping from patterns of leaves' paths to such or None, as in
        `kernels.tree_prox`: `{"*/kernel": penalties.l1(1e-3), "*/bias": None}`.
      learning_rate: a number, an optax schedule, or another function of the count of updates from
        0, as in the links before. A schedule of `fedjax_admm.schedules` counts from 1.

    Returns:
      The link; its `update` needs the parameters.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 4.2 (proximal gradient method).
    """
    maps = (
        {pattern: _leaf_prox(leaf_prox) for pattern, leaf_prox in prox.items()}
        if isinstance(prox, Mapping)
        else _leaf_prox(prox)
    )
    refuse(maps is None, "prox", _MAP, prox)
    schedule = as_schedule("learning_rate", learning_rate, at_least=0)
    first = 1 if schedule is learning_rate else 0

    def init(params: optax.Params) -> ProximalState:
        del params
        return ProximalState(jnp.zeros((), jnp.int32))

    def update(
        updates: optax.Updates, state: Any, params: optax.Params | None = None
    ) -> tuple[optax.Updates, ProximalState]:
        remedy = "call optimizer.update(gradients, state, params)"
        refuse(params is None, "params", "must be given", remedy=remedy)
        step = schedule(state.updates + first)
        moved = jax.tree.map(_sum, params, updates)
        there = tree_prox(cast(Any, maps), moved, step)
        updates = jax.tree.map(lambda new, old: _sum(new, -old), there, params)
        return updates, ProximalState(jnp.asarray(optax.safe_increment(state.updates)))

    return optax.GradientTransformation(init, update)


def _leaf_prox(prox: Any) -> Callable[..., Any] | None:
    """Return the map of a leaf; None leaves it unchanged."""
    if hasattr(prox, "prox"):

        def prox_of_penalty(v: jax.Array, step: jax.Array) -> jax.Array:
            penalty = jax.tree.map(lambda number: jnp.asarray(number, v.dtype), prox)
            return penalty.prox(v, step)

        return prox_of_penalty
    refuse(not (prox is None or callable(prox)), "prox", _MAP, prox)
    return prox


def _sum(x: jax.Array, y: jax.Array) -> jax.Array:
    """Add in the wider of both dtypes, as optax does, also for a strict caller."""
    with jax.numpy_dtype_promotion("standard"):
        return x + y
