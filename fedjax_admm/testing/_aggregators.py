"""Checks of an aggregator: absent vectors, empty groups, and equivariance."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.testing._parts import FOR_SMOOTH, Bench, normal
from fedjax_admm.testing._shared import (
    both_precisions,
    cast,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
)


class Aggregator(Bench):
    """An aggregator, with the vectors of one group."""

    rtol = 1e-4

    def call(self, part: Any, *arguments: Any) -> Any:
        values, weights, groups, previous = arguments
        return part(values, weights, groups, 3, previous)

    def arguments(self, trial: int) -> tuple:
        values, weights, groups, _, previous = self.groups(np.float32, 3)
        return values + 0.1 * trial * normal(values.shape, seed=trial), weights, groups, previous

    def groups(self, dtype: Any, number: int = 1) -> tuple:
        """Return all arguments of the rule; groups have as many vectors, one after the other."""
        vectors, dim = self.values.shape
        rng = np.random.default_rng(1)
        noise = 0.1 * (number > 1) * rng.standard_normal((vectors * number, dim))
        values = np.repeat(self.values, number, 0) + noise
        weights = rng.uniform(0.6, 1.4, vectors * number)
        groups = jnp.asarray(np.tile(np.arange(number), vectors), jnp.int32)
        previous = normal((number, dim), dtype, 2)
        return jnp.asarray(values, dtype), jnp.asarray(weights, dtype), groups, number, previous

    def smooth(self, part: Any, *arguments: Any) -> Any:
        values, weights, previous = arguments
        return part(values, weights, jnp.zeros(len(weights), jnp.int32), 1, previous)

    def places(self, dtype: Any) -> dict[str, tuple]:
        values, weights, *_, previous = self.groups(dtype)
        wild, absent = values.at[1].set(np.nan), weights.at[1].set(0)
        return {
            "vectors": (values, weights, previous),
            "equal vectors": (jnp.ones_like(values), weights, previous),
            "zeros": (jnp.zeros_like(values), weights, previous),
            "vectors of which one is absent and not finite": (wild, absent, previous),
            "nobody": (values, 0 * weights, previous),
        }

    def wide(self, number: int = 1) -> tuple:
        """Return the rule and all of its arguments in float64."""
        return (cast(self.part, np.float64), *self.groups(np.float64, number))


@partial(jax.jit, static_argnums=4)
def _compiled(rule, values, weights, groups, number, previous):
    return rule(values, weights, groups, number, previous)


def _called(b: Bench, what: str, *arguments: Any) -> jax.Array:
    with doing(f"{b.name} of {what}"):
        return _compiled(*arguments)


def _kind(b: Aggregator) -> None:
    vectors, dim = b.values.shape
    if hasattr(b.part, "check"):
        with doing(f"{b.name}.check of a group of {vectors}"):
            b.part.check(vectors)
    for dtype, rule in both_precisions(b.part):
        for number in (1, 3):
            where = f"{b.name} of {number} groups"
            result = _called(b, np.dtype(dtype).name, rule, *b.groups(dtype, number))
            demand_kind(where, result, (number, dim), dtype)
            demand_finite(where, result)


def _absent(b: Aggregator) -> None:
    with jax.enable_x64(True):
        rule, values, weights, groups, number, previous = b.wide()
        expected = _called(b, "vectors", rule, values, weights, groups, number, previous)
        for what in (1e3, np.inf, np.nan):
            rows, heavy = np.asarray(values), np.asarray(weights)
            for place in (0, 3, 4):  # before, among and behind those who are present
                rows, heavy = np.insert(rows, place, what, 0), np.insert(heavy, place, 0.0)
            arguments = jnp.asarray(rows), jnp.asarray(heavy), jnp.zeros(len(heavy), jnp.int32)
            result = _called(b, "absent vectors", rule, *arguments, 1, previous)
            where = f"{b.name} with vectors of {what:g} and weight 0, and without them,"
            remedy = "Take jnp.where(weights > 0, values, 0), since 0 times inf is no number."
            demand_close(where, result, expected, 1e-9, 1e-9, remedy)


def _empty(b: Aggregator) -> None:
    values, weights, groups, number, previous = b.groups(np.float32, 3)
    for what, heavy, which, empty in (
        ("in which all are absent", jnp.where(groups == 1, 0, weights), groups, [1]),
        ("without vectors", weights, jnp.where(groups == 1, 2, groups), [1]),
        ("where everybody is absent", 0 * weights, groups, [0, 1, 2]),
    ):
        result = _called(b, f"a group {what}", b.part, values, heavy, which, number, previous)
        demand_finite(f"{b.name} of groups beside one {what}", result)
        where = f"{b.name} of a group {what} must keep its previous vector; the two"
        remedy = "Take jnp.where(total > 0, result, previous)."
        demand_close(where, np.asarray(result)[empty], previous[np.array(empty)], 0.0, 0.0, remedy)


def _groups(b: Aggregator) -> None:
    with jax.enable_x64(True):
        rule, values, weights, groups, number, previous = b.wide(3)
        several = _called(b, "3 groups", rule, values, weights, groups, number, previous)
        for group in range(number):
            own = np.flatnonzero(np.asarray(groups) == group)
            part = values[own], weights[own], jnp.zeros(len(own), jnp.int32)
            alone = _called(b, "one group", rule, *part, 1, previous[group][None])
            where = f"{b.name} of group {group} among {number}, and alone,"
            demand_close(where, several[group], alone[0], 1e-9, 1e-9)


AGGREGATOR_CHECKS = {
    "kind": _kind,
    "absent": _absent,
    "empty": _empty,
    "groups": _groups,
    **{name: check for name, check in FOR_SMOOTH.items() if name != "keys"},
}
