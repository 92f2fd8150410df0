"""The check of a part of an exchange: a channel, an aggregator, an attack or a delay."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import count
from fedjax_admm.testing import _demand as demand
from fedjax_admm.testing._shared import (
    SAFE,
    both_precisions,
    cast,
    demand_pytree,
    doing,
    is_float,
    make,
    name_of,
    unfit,
    with_floats,
)

VALUES = np.random.default_rng(0).standard_normal((7, 3))
_GROUPS = 3
_ROUNDS = 16


def check_exchange_part(
    part: Any,
    *,
    shapes: Sequence[tuple[int, ...]] | None = None,
    senders: int = 8,
    values: ArrayLike = VALUES,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check a channel, an aggregator, an attack or a delay: its members tell the kind.

    All kinds:

    - `kind`: shapes and dtypes, float32 and float64; finite numbers; a state keeps its structure.
    - `vmap`: the same numbers under `jax.jit` and `jax.vmap`, in a batch of trials, each with its
      own numbers of the part, as one by one; no float is a static field.
    - `keys`: the same key gives the same, and no key is used twice (not of an aggregator).
    - `derivatives`: finite by all arguments and numbers, at ties and zeros too (not of a delay).

    A channel (`init`, `encode`, `bits`, `in_order`), for one message of one sender:

    - `bits`: a whole number.
    - `zeros`: zeros arrive as zeros.

    An aggregator, `(values, weights, groups, number, previous) -> one vector per group`:

    - `absent`: vectors of weight 0 do not matter, even if they are not finite.
    - `empty`: a group in which nobody is present keeps its previous vector.
    - `groups`: many groups give the same as one by one.

    An attack (`who`, `init` and a call that returns the messages and the memory):

    - `who`: bool, one per sender; one sender at least is honest.
    - `rows`: only present Byzantine senders send anything false; absent rows do not matter.

    A delay (`depth`, `loses`, `in_order` and `draw(key, index, number)`):

    - `waits`: none is negative, nor longer than the depth if no message is lost.

    Args:
      part: a pytree, as `messages.qsgd(4)` is.
      shapes: of a channel's or an attack's messages; if None, (6,) and (2, 3), or (3,).
      senders: of an attack or a delay, at least 5; where they are named, the number of names.
      values: of an aggregator, shape (vectors, dim), all different, as many as a group needs.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the part is of no kind or no pytree, or another argument does not fit.
    """
    kind = next((kind for kind, row in _KINDS.items() if all(hasattr(part, m) for m in row[0])), "")
    if not kind or isinstance(part, type):
        kinds = "a channel, an aggregator, an attack or a delay, as messages.qsgd(4) is one"
        raise unfit("part", part, kinds)
    demand_pytree("part", part)
    senders = count("senders", senders, at_least=5)
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or not np.all(np.isfinite(matrix)):
        raise unfit("values", values, "finite, with the axes (vectors, dim), two vectors or more")
    _, bench, usual = _KINDS[kind]
    for shape in usual if shapes is None else shapes:
        make(bench(part, tuple(shape), senders, matrix), EXCHANGE_CHECKS[kind], only)


@dataclass(frozen=True)
class _Bench:
    """A part with the arguments that it is called with; each kind has its own."""

    part: Any
    shape: tuple[int, ...]  # of one message
    senders: int
    values: np.ndarray  # of an aggregator, shape=(vectors, dim)

    @property
    def name(self) -> str:
        return name_of(self.part)

    def call(self, part: Any, values: Any, *others: Any) -> Any:
        """Call a part with values whose derivatives are looked at, and return arrays."""
        raise NotImplementedError

    def arguments(self, dtype: Any, trial: int = 0) -> tuple:
        """Return the arguments of `call` in a trial, with a new key."""
        raise NotImplementedError

    def places(self, dtype: Any) -> dict[str, tuple]:
        """Return the arguments at which derivatives are looked at, by what they are."""
        values, *others = self.arguments(dtype)
        zeros = jnp.zeros_like(values)
        places = {"some values": values, "equal values": zeros + 1, "zeros": zeros}
        return {what: (array, *others) for what, array in places.items()}


def _normal(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> jax.Array:
    """Return normal numbers, the same for one seed in either precision."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _stack(trees: Sequence[Any]) -> Any:
    """Stack pytrees along a new first axis."""

    def together(*leaves: Any) -> jax.Array:
        if not jnp.issubdtype(jnp.result_type(leaves[0]), jax.dtypes.prng_key):
            return jnp.stack(leaves)
        # A key that is stacked counts as used.
        return jax.random.wrap_key_data(jnp.stack([jax.random.key_data(key) for key in leaves]))

    return jax.tree.map(together, *trees)


def _vmap(b: _Bench) -> None:
    demand.no_static_numbers(b.part)

    def trials() -> list[tuple]:
        factors = enumerate((1.0, 0.9, 0.8))
        parts = [(i, with_floats(b.part, lambda leaf, f=factor: leaf * f)) for i, factor in factors]
        return [(part, *b.arguments(np.float32, i)) for i, part in parts]

    with doing(f"{b.name} under jax.jit and jax.vmap, over arguments and numbers"):
        together = jax.jit(jax.vmap(lambda one: b.call(*one)))(_stack(trials()))
    with doing(b.name):
        alone = _stack([b.call(*one) for one in trials()])
    where = f"{b.name} under jax.jit and jax.vmap, and one by one,"
    demand.close(where, together, alone, 1e-4, 1e-4)


def _derivatives(b: _Bench) -> None:
    for dtype, part in both_precisions(b.part):
        for what, (values, *others) in b.places(dtype).items():
            places = [i for i, other in enumerate(others) if is_float(other)]

            def total(part, values, floats, others=others, places=places):
                given = dict(zip(places, floats, strict=True))
                rest = [given.get(i, other) for i, other in enumerate(others)]
                leaves = jax.tree.leaves(b.call(part, values, *rest))
                squares = [jnp.sum(leaf**2) for leaf in leaves if is_float(leaf)]
                return sum(squares, jnp.zeros(()))

            where = f"The derivative of {b.name} of {what}"
            with doing(where):
                slope = jax.jit(jax.grad(total, (0, 1, 2), allow_int=True))
                slopes = slope(part, values, [others[i] for i in places])
            demand.finite(where, slopes, SAFE)


def _keys(b: _Bench) -> None:
    with doing(b.name):
        one, other = (b.call(b.part, *b.arguments(np.float32)) for _ in range(2))
    remedy = "All that is random must follow from the key."
    demand.close(f"Two calls of {b.name} with the same key", one, other, 0.0, 0.0, remedy)
    with jax.debug_key_reuse(True), doing(b.name):
        jax.jit(lambda *arguments: b.call(b.part, *arguments))(*b.arguments(np.float32))


class _Channel(_Bench):
    def call(self, part, values, *others):
        first, key = others
        return part.encode(values, part.init(first), key)

    def arguments(self, dtype, trial=0):
        message, first = (_normal(self.shape, dtype, seed + trial) for seed in (20, 10))
        return message, first, jax.random.key(trial)


def _channel_kind(b: _Bench) -> None:
    demand.that(type(b.part.in_order) is bool, f"{b.name}.in_order must be True or False.")
    where = f"{b.name}.encode of a message of shape {b.shape}"
    for dtype, channel in both_precisions(b.part):
        message, first, key = b.arguments(dtype)
        with doing(where):
            state = channel.init(first)
            pair = jax.jit(channel.encode)(message, state, key)
        twice = isinstance(pair, tuple) and len(pair) == 2
        demand.that(twice, f"{where} must return the decoded message and the state.")
        demand.kind(where, pair[0], b.shape, dtype)
        demand.finite(where, pair[0])
        demand.same_form(where, "a state", state, pair[1])


def _bits(b: _Bench) -> None:
    with doing(f"{b.name}.bits of {b.shape}"):
        bits = b.part.bits(b.shape)
    demand.count(f"{b.name}.bits({b.shape})", bits)


def _zeros(b: _Bench) -> None:
    arrives = zeros = jnp.zeros(b.shape, jnp.float32)
    with doing(f"{b.name}.encode of zeros"):
        state, encode = b.part.init(zeros), jax.jit(b.part.encode)
        for number in range(2):
            arrives, state = encode(zeros, state, jax.random.key(number))
    remedy = "Divide by what is zero only where it is not."
    demand.close(f"Zeros, and what {b.name} makes of them,", arrives, zeros, 0.0, 0.0, remedy)


class _Delay(_Bench):
    def call(self, part, values, *others):  # the values are a key here, and then the round
        return part.draw(values, *others, self.senders)

    def arguments(self, dtype, trial=0):
        return jax.random.key(trial), jnp.int32(trial)


def _delay_kind(b: _Bench) -> None:
    depths = []
    with doing(f"{b.name}.depth of a delay that is traced"):
        jax.eval_shape(lambda delay: depths.append(delay.depth), b.part)
    demand.count(f"{b.name}.depth of a delay that is traced", depths[0])
    for name in ("loses", "in_order"):
        demand.that(type(getattr(b.part, name)) is bool, f"{b.name}.{name} must be True or False.")
    for dtype, delay in both_precisions(b.part):
        with doing(f"{b.name}.draw for {b.senders} senders"):
            waits = b.call(delay, *b.arguments(dtype))
        demand.kind(f"{b.name}.draw, whole rounds,", waits, (b.senders,), jnp.int32)


def _waits(b: _Bench) -> None:
    with doing(f"{b.name}.draw under jax.vmap, over rounds"):
        keys = jax.random.split(jax.random.key(1), _ROUNDS)
        draw = jax.jit(jax.vmap(lambda key, index: b.call(b.part, key, index)))
        waits = np.asarray(draw(keys, jnp.arange(_ROUNDS, dtype=jnp.int32)))
    last = np.inf if b.part.loses else b.part.depth
    demand.that(
        np.all((waits >= 0) & (waits <= last)),
        f"{b.name} must let messages wait from 0 to depth={b.part.depth} rounds, or have "
        f"loses=True, but they wait from {waits.min()} to {waits.max()}.",
    )


class _Attack(_Bench):
    @property
    def masks(self) -> tuple[jax.Array, jax.Array]:
        """Return who is Byzantine, and who is present: 1 and 4 are both."""
        rows = np.arange(self.senders)
        return jnp.asarray((rows % 3 == 1) | (rows == 0)), jnp.asarray((rows != 0) & (rows != 3))

    def call(self, part, values, *others):
        first, key = jax.random.split(*others)
        byzantine, present = self.masks
        memory = part(values + 1, byzantine, present | True, part.init(values), first)[1]
        return part(values, byzantine, present, memory, key)

    def arguments(self, dtype, trial=0):
        return _normal((self.senders, *self.shape), dtype, 10 + trial), jax.random.key(trial)


@jax.jit
def _attacked(attack, values, byzantine, present):
    return attack(values, byzantine, present, attack.init(values), jax.random.key(0))


def _who(b: _Bench) -> None:
    with doing(f"{b.name}.who of {b.senders} senders under jax.vmap, over keys"):
        draw = jax.jit(jax.vmap(lambda key: b.part.who(key, b.senders)))
        byzantine = draw(jax.random.split(jax.random.key(1), 64))
    demand.kind(f"{b.name}.who of 64 keys", byzantine, (64, b.senders), np.bool_)
    none = int(np.sum(np.all(byzantine, -1)))
    sentence = f"{b.name}.who must leave one sender honest, but in {none} of 64 draws all"
    demand.that(not none, f"{sentence} {b.senders} are Byzantine.")


def _attack_kind(b: _Attack) -> None:
    for dtype, attack in both_precisions(b.part):
        values = b.arguments(dtype)[0]
        with doing(f"{b.name} of {np.dtype(dtype).name} values"):
            memory = attack.init(values)
            demand.stacked(f"{b.name}.init, the memory of senders,", memory, b.senders)
            result, new = _attacked(attack, values, *b.masks)
        demand.kind(b.name, result, values.shape, dtype)
        demand.finite(f"The messages of {b.name}", result)
        demand.same_form(b.name, "a memory", memory, new)


def _rows(b: _Attack) -> None:
    byzantine, present = b.masks
    values = b.arguments(np.float32)[0]
    lying = np.asarray(byzantine & present)
    with doing(f"{b.name} where some are absent"):
        result = np.asarray(_attacked(b.part, values, byzantine, present)[0])
    where = f"The rows of {b.name} that are honest or absent, and what was sent,"
    remedy = "Take jnp.where over byzantine & present."
    demand.close(where, result[~lying], values[~lying], 0.0, 0.0, remedy)
    for what in (1e3, np.nan):
        wild = jnp.where(jnp.expand_dims(present, range(1, values.ndim)), values, what)
        other = _attacked(b.part, wild, byzantine, present)[0]
        where = f"Byzantine messages under {b.name} with {what:g} in absent rows, and without,"
        remedy = "Statistics are those of present & ~byzantine, by jnp.where and not by a product."
        demand.close(where, other[lying], result[lying], 0.0, 0.0, remedy)
    result = _attacked(b.part, values, byzantine | True, present | True)[0]
    demand.finite(f"The messages of {b.name} where everybody is Byzantine", result)


class _Aggregator(_Bench):
    def call(self, part, values, *others):
        weights, previous, groups = others
        return part(values, weights, groups, _GROUPS, previous)

    def arguments(self, dtype, trial=0):
        vectors, dim = self.values.shape
        rng = np.random.default_rng(1 + trial)
        values = np.repeat(self.values, _GROUPS, 0)
        values = values + 0.1 * rng.standard_normal(values.shape)
        weights = rng.uniform(0.6, 1.4, len(values))
        groups = jnp.asarray(np.tile(np.arange(_GROUPS), vectors), jnp.int32)
        previous = _normal((_GROUPS, dim), dtype, 2)
        return jnp.asarray(values, dtype), jnp.asarray(weights, dtype), previous, groups

    def places(self, dtype):
        values, weights, *others = self.arguments(dtype)
        wild, absent = values.at[1].set(np.nan), weights.at[1].set(0)
        return {
            **super().places(dtype),
            "vectors of which one is absent and not finite": (wild, absent, *others),
            "nobody": (values, 0 * weights, *others),
        }


_aggregate = jax.jit(lambda rule, *given: rule(*given[:3], _GROUPS, *given[3:]))
_of_one_group = jax.jit(lambda rule, *given: rule(*given[:3], 1, *given[3:]))


def _aggregator_kind(b: _Bench) -> None:
    vectors, dim = b.values.shape
    if hasattr(b.part, "check"):
        with doing(f"{b.name}.check of a group of {vectors}"):
            b.part.check(vectors)
    for dtype, rule in both_precisions(b.part):
        values, weights, previous, groups = b.arguments(dtype)
        where = f"{b.name} of {_GROUPS} groups"
        with doing(where):
            result = _aggregate(rule, values, weights, groups, previous)
        demand.kind(where, result, (_GROUPS, dim), dtype)
        demand.finite(where, result)


def _absent(b: _Bench) -> None:
    with jax.enable_x64(True):
        rule, (values, weights, previous, groups) = cast(b.part, float), b.arguments(np.float64)
        expected = _aggregate(rule, values, weights, groups, previous)
        for what in (1e3, np.inf, np.nan):
            rows, heavy, which = map(np.asarray, (values, weights, groups))
            for place in (0, 3, 4):  # before, among and behind those who are present
                rows, heavy = np.insert(rows, place, what, 0), np.insert(heavy, place, 0.0)
                which = np.insert(which, place, 0)
            with doing(f"{b.name} of absent vectors"):
                result = _aggregate(rule, rows, heavy, which, previous)
            where = f"{b.name} with vectors of {what:g} and weight 0, and without them,"
            remedy = "Take jnp.where(weights > 0, values, 0), since 0 times inf is no number."
            demand.close(where, result, expected, 1e-9, 1e-9, remedy)


def _empty(b: _Bench) -> None:
    values, weights, previous, groups = b.arguments(np.float32)
    for what, heavy, which, empty in (
        ("in which all are absent", jnp.where(groups == 1, 0, weights), groups, [1]),
        ("without vectors", weights, jnp.where(groups == 1, 2, groups), [1]),
        ("where everybody is absent", 0 * weights, groups, [0, 1, 2]),
    ):
        with doing(f"{b.name} of a group {what}"):
            result = np.asarray(_aggregate(b.part, values, heavy, which, previous))
        demand.finite(f"{b.name} of groups beside one {what}", result)
        where = f"{b.name} of a group {what} must keep its previous vector; the two"
        remedy = "Take jnp.where(total > 0, result, previous)."
        demand.close(where, result[empty], previous[np.array(empty)], 0.0, 0.0, remedy)


def _groups(b: _Bench) -> None:
    with jax.enable_x64(True):
        rule, (values, weights, previous, groups) = cast(b.part, float), b.arguments(np.float64)
        several = _aggregate(rule, values, weights, groups, previous)
        for group in range(_GROUPS):
            own = np.flatnonzero(np.asarray(groups) == group)
            with doing(f"{b.name} of one group"):
                arguments = values[own], weights[own], 0 * groups[own], previous[group][None]
                alone = _of_one_group(rule, *arguments)
            demand.kind(f"{b.name} of 1 group", alone, previous[:1].shape, np.float64)
            where = f"{b.name} of group {group} among {_GROUPS}, and alone,"
            demand.close(where, several[group], alone[0], 1e-9, 1e-9)


_SHARED = {"vmap": _vmap, "derivatives": _derivatives}
EXCHANGE_CHECKS = {
    "channel": {"kind": _channel_kind, "bits": _bits, "zeros": _zeros, **_SHARED, "keys": _keys},
    "aggregator": {
        "kind": _aggregator_kind,
        "absent": _absent,
        "empty": _empty,
        "groups": _groups,
        **_SHARED,
    },
    "attack": {"who": _who, "kind": _attack_kind, "rows": _rows, **_SHARED, "keys": _keys},
    "delay": {"kind": _delay_kind, "waits": _waits, "vmap": _vmap, "keys": _keys},
}
# Kind -> its members, its bench, and the shapes of messages that are looked at. An attack can be
# called like an aggregator, and comes first.
_KINDS = {
    "channel": (("init", "encode", "bits", "in_order"), _Channel, ((6,), (2, 3))),
    "attack": (("who", "init", "__call__"), _Attack, ((3,),)),
    "delay": (("depth", "loses", "in_order", "draw"), _Delay, ((),)),
    "aggregator": (("__call__",), _Aggregator, ((),)),
}
