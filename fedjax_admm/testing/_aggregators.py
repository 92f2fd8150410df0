"""Checks of an aggregator: who is absent, who stands in which group, and what is equivariant."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, flag
from fedjax_admm._shown import short_repr
from fedjax_admm.testing._messages import (
    both_precisions,
    check_part,
    demand_derivatives,
    demand_one_trace,
    demand_vmap,
    normal,
)
from fedjax_admm.testing._shared import (
    cast,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    make,
    name_of,
    unfit,
)

VALUES = np.random.default_rng(0).standard_normal((7, 3))
# Absent vectors stand before, among and behind those who are present.
_ABSENT = (0, 3, 4)


@short_repr
class _Bench(NamedTuple):
    aggregator: Any
    values: np.ndarray  # shape=(vectors, dim)
    alone: bool
    translates: bool

    @property
    def name(self) -> str:
        return name_of(self.aggregator)

    def given(self, dtype: Any, groups: int = 1) -> tuple[Any, ...]:
        """Return values, weights, groups, their number and what was there before.

        Of several groups, each has as many vectors, one after the other in turn.
        """
        count, dim = self.values.shape
        rng = np.random.default_rng(1)
        values = np.repeat(self.values, groups, 0) + 0.1 * (groups > 1) * rng.standard_normal(
            (count * groups, dim)
        )
        weights = rng.uniform(0.6, 1.4, count * groups)
        which = jnp.asarray(np.tile(np.arange(groups), count), jnp.int32)
        previous = normal((groups, dim), dtype, 2)
        return jnp.asarray(values, dtype), jnp.asarray(weights, dtype), which, groups, previous


def check_aggregator(
    aggregator: Any,
    *,
    values: ArrayLike = VALUES,
    alone: bool = True,
    translates: bool = True,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check an aggregator, `(values, weights, groups, number, previous) -> one vector per group`.

    - `kind`: shape (number, dim) and the dtype of the values, float32 and float64; finite. Where
      there is a `check(number)`, it accepts so many vectors.
    - `absent`: vectors of weight 0 do not matter, not even if they are not finite.
    - `empty`: a group in which nobody is present keeps its previous vector.
    - `groups`: many groups give the same as one by one.
    - `permuted`: the order of vectors does not matter.
    - `alone`: where one vector alone is present, or all are equal, it is the result.
    - `translates`: all vectors, and the previous one, moved by as much move the result by that.
    - `jit`: the same numbers under `jax.jit`, and one trace for all numbers of the aggregator.
    - `vmap`: the same in many trials as in each alone, also if each has its own numbers.
    - `derivatives`: finite by values, weights, the previous vector and the numbers; also where
      vectors are equal, zero, or absent and not finite.

    Args:
      aggregator: a pytree, as `messages.coordinate_median()` is.
      values: shape (vectors, dim), none twice; as many as a group needs.
      alone: whether one vector alone, or all equal ones, are the result. A rule that moves the
        previous vector by a bounded step, or shortens vectors, says no.
      translates: whether the rule follows a shift. One that shortens vectors says no.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: it cannot be called, is an attack or no pytree, or values are no matrix of two
        rows or more.
    """
    wanted = "an aggregator such as messages.coordinate_median()"
    if hasattr(aggregator, "who"):  # an attack, which can be called, too
        raise unfit("aggregator", aggregator, wanted)
    check_part("aggregator", aggregator, ("__call__",), wanted)
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or not np.all(np.isfinite(matrix)):
        raise InputError(
            f"must have the axes (vectors, dim), with two vectors or more, and be finite, but "
            f"their shape is {matrix.shape}",
            argument="values",
            value=values,
        )
    chosen = flag("alone", alone), flag("translates", translates)
    make(_Bench(aggregator, matrix, *chosen), _CHECKS, only)


def _call(aggregator, values, weights, groups, number, previous):
    return aggregator(values, weights, groups, number, previous)


_aggregate = jax.jit(_call, static_argnums=4)


def _kind(b: _Bench) -> None:
    count, dim = b.values.shape
    if hasattr(b.aggregator, "check"):
        with doing(f"{b.name}.check of a group of {count}"):
            b.aggregator.check(count)
    for aggregator, dtype in both_precisions(b.aggregator):
        for groups in (1, 3):
            with doing(f"{b.name} of values of dtype {np.dtype(dtype).name}"):
                found = _aggregate(aggregator, *b.given(dtype, groups))
            demand_kind(f"{b.name} of {groups} groups", found, (groups, dim), dtype)
            demand_finite(f"{b.name} of {groups} groups", found)


def _absent(b: _Bench) -> None:
    with jax.enable_x64(True):
        aggregator = cast(b.aggregator, np.float64)
        values, weights, groups, _, previous = b.given(np.float64)
        wanted = _aggregate(aggregator, values, weights, groups, 1, previous)
        for what in (1e3, np.inf, np.nan):
            rows, heavy = np.asarray(values), np.asarray(weights)
            for place in _ABSENT:
                rows, heavy = np.insert(rows, place, what, 0), np.insert(heavy, place, 0.0)
            given = jnp.asarray(rows), jnp.asarray(heavy), jnp.zeros(len(heavy), jnp.int32)
            with doing(f"{b.name} with absent vectors"):
                found = _aggregate(aggregator, *given, 1, previous)
            demand_close(
                f"{b.name} with vectors of {what:g} and weight 0, and without them,",
                found,
                wanted,
                1e-9,
                1e-9,
                "Take jnp.where(weights > 0, values, 0), since 0 times inf is no number.",
            )


def _empty(b: _Bench) -> None:
    given = list(b.given(np.float32, 3))
    none = jnp.zeros_like(given[1])
    there = jnp.where(given[2] == 1, 0, given[1])
    moved = jnp.where(given[2] == 1, 2, given[2])
    for what, weights, groups, kept in (
        ("in which all are absent", there, given[2], [1]),
        ("without vectors", given[1], moved, [1]),
        ("where everybody is absent", none, given[2], [0, 1, 2]),
    ):
        with doing(f"{b.name} of a group {what}"):
            found = _aggregate(b.aggregator, given[0], weights, groups, 3, given[4])
        found, wanted = np.asarray(found)[kept], np.asarray(given[4])[kept]
        remedy = "Take jnp.where(total > 0, result, previous)."
        where = f"{b.name} of a group {what} must keep its previous vector; the two"
        demand_close(where, found, wanted, 0.0, 0.0, remedy)
        if len(kept) == 1:
            others = np.asarray(_aggregate(b.aggregator, given[0], weights, groups, 3, given[4]))
            demand_finite(f"{b.name} of groups beside one {what}", others)


def _groups(b: _Bench) -> None:
    with jax.enable_x64(True):
        aggregator = cast(b.aggregator, np.float64)
        values, weights, groups, number, previous = b.given(np.float64, 3)
        with doing(f"{b.name} of {number} groups"):
            both = _aggregate(aggregator, values, weights, groups, number, previous)
        for group in range(number):
            own = np.flatnonzero(np.asarray(groups) == group)
            alone = _aggregate(
                aggregator,
                values[own],
                weights[own],
                jnp.zeros(len(own), jnp.int32),
                1,
                previous[group][None],
            )
            where = f"{b.name} of group {group} among {number}, and alone,"
            demand_close(where, both[group], alone[0], 1e-9, 1e-9)


def _permuted(b: _Bench) -> None:
    with jax.enable_x64(True):
        aggregator = cast(b.aggregator, np.float64)
        values, weights, groups, number, previous = b.given(np.float64, 3)
        order = np.random.default_rng(3).permutation(len(groups))
        with doing(b.name):
            one = _aggregate(aggregator, values, weights, groups, number, previous)
            given = values[order], weights[order], groups[order]
            other = _aggregate(aggregator, *given, number, previous)
        where = f"{b.name} of vectors in another order, and in the first one,"
        demand_close(where, other, one, 1e-9, 1e-9)


def _alone(b: _Bench) -> None:
    if not b.alone:
        return
    with jax.enable_x64(True):
        aggregator = cast(b.aggregator, np.float64)
        values, weights, groups, _, previous = b.given(np.float64)
        single = jnp.where(jnp.arange(len(weights)) == 2, weights, 0)
        equal = jnp.broadcast_to(values[2], values.shape)
        for what, rows, heavy in (
            ("one vector alone", values, single),
            ("vectors that are all the same", equal, weights),
        ):
            with doing(f"{b.name} of {what}"):
                found = _aggregate(aggregator, rows, heavy, groups, 1, previous)
            remedy = "Pass alone=False if the rule moves by bounded steps or shortens vectors."
            where = f"{b.name} of {what} must return it; the two"
            demand_close(where, found[0], values[2], 1e-9, 1e-9, remedy)


def _translates(b: _Bench) -> None:
    if not b.translates:
        return
    with jax.enable_x64(True):
        aggregator = cast(b.aggregator, np.float64)
        values, weights, groups, _, previous = b.given(np.float64)
        shift = 3 * normal((1, values.shape[1]), np.float64, 4)
        with doing(b.name):
            one = _aggregate(aggregator, values, weights, groups, 1, previous)
            moved = values + shift, weights, groups, 1, previous + shift
            other = _aggregate(aggregator, *moved)
        remedy = "Pass translates=False if the rule shortens vectors."
        where = f"{b.name} of vectors that are all moved, and the result moved by as much,"
        demand_close(where, other, one + shift, 1e-8, 1e-8, remedy)


def _three_groups(aggregator, values, weights, groups, previous):
    return aggregator(values, weights, groups, 3, previous)


def _jit(b: _Bench) -> None:
    values, weights, groups, _, previous = b.given(np.float32, 3)
    given = values, weights, groups, previous
    demand_one_trace(b.name, b.aggregator, _three_groups, lambda: given, 1e-4)


def _vmap(b: _Bench) -> None:
    values, weights, groups, _, previous = b.given(np.float32, 3)

    def given(trial):
        moved = values + 0.1 * normal(values.shape, np.float32, 10 + trial)
        return moved, weights, groups, previous

    demand_vmap(b.name, b.aggregator, _three_groups, given, 1e-4)


def _derivatives(b: _Bench) -> None:
    for aggregator, dtype in both_precisions(b.aggregator):
        values, weights, groups, _, previous = b.given(dtype)
        one = np.asarray(weights).copy()
        one[1] = 0
        wild = np.asarray(values).copy()
        wild[1] = np.nan
        nan, none = jnp.asarray(wild), jnp.zeros_like(weights)
        places = {
            "vectors": (values, weights),
            "equal vectors": (jnp.ones_like(values), weights),
            "zeros": (jnp.zeros_like(values), weights),
            "vectors of which one is absent and not finite": (nan, jnp.asarray(one)),
            "nobody": (values, none),
        }
        demand_derivatives(
            b.name,
            lambda rule, rows, heavy, before, groups=groups: rule(rows, heavy, groups, 1, before),
            {what: (aggregator, *given, previous) for what, given in places.items()},
            (0, 1, 2, 3),
        )


_CHECKS = {
    "kind": _kind,
    "absent": _absent,
    "empty": _empty,
    "groups": _groups,
    "permuted": _permuted,
    "alone": _alone,
    "translates": _translates,
    "jit": _jit,
    "vmap": _vmap,
    "derivatives": _derivatives,
}
AGGREGATOR_CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the checks that `check_aggregator` makes."""
