"""The check of a part of an exchange: a channel, an aggregator, an attack or a delay."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.testing import _demand as demand

Shapes = Sequence[tuple[int, ...]]


def check_exchange_part(
    part: Any, *, shapes: Shapes | None = None, senders: int = 8, only: demand.Only = None
) -> None:
    """Check a channel, an aggregator, an attack or a delay: its members tell the kind.

    All kinds:

    - `kind`: shapes and dtypes, float32 and float64; finite numbers; a state keeps its structure
      (not of a delay).
    - `vmap`: the same numbers under `jax.jit` and `jax.vmap`, in a batch of trials, each with its
      own numbers of the part, as one by one; one trace serves them, and no float is a static field.
    - `keys`: the same key gives the same, and no key is used twice (not of an aggregator).
    - `derivatives`: finite by all arguments and numbers, at ties and zeros too (not of a delay).

    A channel (`init`, `encode`, `bits`, `in_order`), for one message of one sender:

    - `bits`: a whole number.
    - `zeros`: zeros arrive as zeros.

    An aggregator, `(values, weights, groups, number, previous) -> one vector per group`:

    - `groups`: a group's vector does not depend on other groups, nor on vectors of weight 0, even
      if they are not finite; a group in which nobody is present keeps its previous vector.

    An attack (`who`, `init` and a call that returns the messages and the memory):

    - `who`: bool, one per sender; one sender at least is honest.
    - `rows`: only present Byzantine senders send anything false; absent rows do not matter.

    A delay (`depth`, `loses`, `in_order` and `draw(key, index, number)`):

    - `waits`: none is negative, nor longer than the depth if no message is lost.

    Args:
      part: a pytree, as `messages.qsgd(4)` is.
      shapes: of a channel's or an attack's messages; if None, (6,) and (2, 3), or (3,).
      senders: of an attack or a delay, at least 5; where they are named, the number of names.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the part is of no kind or no pytree, or `only` names no check.
    """
    found = [kind for kind in _KINDS if all(hasattr(part, m) for m in _KINDS[kind].members)]
    kinds = "a channel, an aggregator, an attack or a delay, as messages.qsgd(4) is one"
    demand.fits("part", part, kinds, bool(found))
    bench, name = _KINDS[found[0]], demand.name_of(part)
    for shape in bench.usual if shapes is None else shapes:
        demand.make(bench(name, part, tuple(shape), senders), EXCHANGE_CHECKS[found[0]], only)


class _Bench(NamedTuple):
    """A part, which each kind calls with arguments of its own; `form` has the form of results."""

    name: str
    part: Any
    shape: tuple[int, ...]  # of one message
    senders: int

    def form(self, part, values, *others):
        return values, part.init(values)


def _normal(shape: tuple[int, ...], dtype: Any, key: jax.Array) -> jax.Array:
    """Return normal numbers, the same for one key in either precision."""
    return jax.random.normal(key, shape, np.float32).astype(dtype)


def _kind(b: Any) -> None:
    for dtype, part in demand.both_precisions(b.part):
        arguments = b.arguments(dtype, jax.random.key(0))
        result = jax.jit(b.call)(part, *arguments)
        where = f"What {b.name} returns for {np.dtype(dtype).name} numbers"
        demand.same_form(where, b.form(part, *arguments), result)
        demand.finite(where, result)


def _vmap(b: Any) -> None:
    demand.batch(b.name, b.part, lambda part, key: b.call(part, *b.arguments(np.float32, key)))


def _derivatives(b: Any) -> None:
    for dtype, part in demand.both_precisions(b.part):
        values, *others = b.arguments(dtype, jax.random.key(0))
        equal = {"some": values, "equal": jnp.ones_like(values), "zero": jnp.zeros_like(values)}
        for what, array in equal.items():
            slopes = demand.slopes(b.call, part, array, *others)
            demand.finite(f"The derivative of {b.name} of {what} values", slopes, demand.SAFE)


def _keys(b: Any) -> None:
    one, other = (b.call(b.part, *b.arguments(np.float32, jax.random.key(0))) for _ in range(2))
    remedy = "All that is random must follow from the key."
    demand.close(f"Two calls of {b.name} with the same key", one, other, 0.0, 0.0, remedy)
    with jax.debug_key_reuse(True):
        jax.jit(b.call)(b.part, *b.arguments(np.float32, jax.random.key(0)))


class _Channel(_Bench):
    members, usual = ("init", "encode", "bits", "in_order"), ((6,), (2, 3))

    def call(self, part, values, first, key):
        return part.encode(values, part.init(first), key)

    def arguments(self, dtype, key):
        one, two, key = jax.random.split(key, 3)
        return _normal(self.shape, dtype, one), _normal(self.shape, dtype, two), key


def _bits(b: _Channel) -> None:
    demand.count(f"{b.name}.bits({b.shape})", b.part.bits(b.shape))


def _zeros(b: _Channel) -> None:
    arrives = zeros = jnp.zeros(b.shape, jnp.float32)
    state, encode = b.part.init(zeros), jax.jit(b.part.encode)
    for number in range(2):
        arrives, state = encode(zeros, state, jax.random.key(number))
    remedy = "Divide by what is zero only where it is not."
    demand.close(f"Zeros, and what {b.name} makes of them,", arrives, zeros, 0.0, 0.0, remedy)


class _Delay(_Bench):
    members, usual = ("depth", "loses", "in_order", "draw"), ((),)

    def call(self, part, key, index):
        return part.draw(key, index, self.senders)

    def arguments(self, dtype, key):
        return key, jnp.int32(1)


def _waits(b: _Delay) -> None:
    last = np.inf if b.part.loses else b.part.depth
    jax.eval_shape(lambda delay: demand.count(f"{b.name}.depth, traced,", delay.depth), b.part)
    for _, delay in demand.both_precisions(b.part):
        keys, rounds = jax.random.split(jax.random.key(1), 16), jnp.arange(16, dtype=jnp.int32)
        waits = np.asarray(jax.jit(jax.vmap(b.call, (None, 0, 0)))(delay, keys, rounds))
        demand.kind(f"{b.name}.draw, in 16 rounds,", waits, (16, b.senders), jnp.int32)
        found = f"they wait from {waits.min()} to {waits.max()}"
        wanted = f"let messages wait from 0 to depth={b.part.depth} rounds, or have loses=True"
        within = np.all((waits >= 0) & (waits <= last))
        demand.that(within, f"{b.name} must {wanted}, but {found}.")


class _Attack(_Bench):
    members, usual = ("who", "init", "__call__"), ((3,),)

    @property
    def masks(self) -> tuple[jax.Array, jax.Array]:
        """Return who is Byzantine, and who is present: 1 and 4 are both."""
        rows = np.arange(self.senders)
        return jnp.asarray((rows % 3 == 1) | (rows == 0)), jnp.asarray((rows != 0) & (rows != 3))

    def call(self, part, values, key):
        (byzantine, present), (first, second) = self.masks, jax.random.split(key)
        earlier = _normal(values.shape, values.dtype, jax.random.key(9))
        memory = part(earlier, byzantine, present | True, part.init(values), first)[1]
        return part(values, byzantine, present, memory, second)

    def arguments(self, dtype, key):
        one, key = jax.random.split(key)
        return _normal((self.senders, *self.shape), dtype, one), key


def _who(b: _Attack) -> None:
    draw = jax.jit(jax.vmap(lambda key: b.part.who(key, b.senders)))
    byzantine = draw(jax.random.split(jax.random.key(1), 64))
    demand.kind(f"{b.name}.who of 64 keys", byzantine, (64, b.senders), np.bool_)
    none, wanted = int(np.sum(np.all(byzantine, -1))), f"{b.name}.who must leave one sender honest"
    demand.that(not none, f"{wanted}, but in {none} of 64 draws all {b.senders} are Byzantine.")


def _rows(b: _Attack) -> None:
    byzantine, present = b.masks
    values, key = b.arguments(np.float32, jax.random.key(0))
    lying, absent = byzantine & present, jnp.expand_dims(~present, range(1, values.ndim))
    call = jax.jit(b.call)
    result, memory = call(b.part, values, key)
    demand.stacked(f"The memory of senders of {b.name}", memory, b.senders)
    where = f"The rows of {b.name} that are honest or absent, and what was sent,"
    remedy = "Take jnp.where over byzantine & present."
    demand.close(where, result[~lying], values[~lying], 0.0, 0.0, remedy)
    for what in (1e3, np.nan):
        other = call(b.part, jnp.where(absent, what, values), key)[0]
        where = f"Byzantine messages under {b.name} with {what:g} in absent rows, and without,"
        remedy = "Statistics are those of present & ~byzantine, by jnp.where and not by a product."
        demand.close(where, other[lying], result[lying], 0.0, 0.0, remedy)
    result = b.part(values, byzantine | True, present | True, b.part.init(values), key)[0]
    demand.finite(f"The messages of {b.name} where everybody is Byzantine", result)


class _Aggregator(_Bench):
    members, usual = ("__call__",), ((),)

    def call(self, part, values, weights, previous, groups):
        return part(values, weights, groups, len(previous), previous)

    def form(self, part, values, *others):
        return others[1]

    def arguments(self, dtype, key):
        """Return 24 vectors of groups 0 to 2, of which all of 2 are absent; group 3 has none."""
        one, two, three = jax.random.split(key, 3)
        groups = jnp.tile(jnp.arange(3, dtype=jnp.int32), 8)
        values, previous = _normal((24, 3), dtype, one), _normal((4, 3), dtype, two)
        weights = jax.random.uniform(three, (24,), np.float32, 0.6, 1.4).astype(dtype)
        absent = jnp.asarray([0, 12, 22])
        weights = jnp.where(groups == 2, 0, weights.at[absent].set(0))
        return values.at[absent].set(np.nan), weights, previous, groups


def _groups(b: _Aggregator) -> None:
    with jax.enable_x64(True):
        rule, call = demand.cast(b.part, np.float64), jax.jit(b.call)
        arrays = b.arguments(np.float64, jax.random.key(0))
        values, weights, previous, groups = map(np.asarray, arrays)
        alone = previous.copy()
        for group in range(2):
            own = (groups == group) & (weights > 0)
            one = values[own], weights[own], previous[[group]], 0 * groups[own]
            alone[group] = call(rule, *one)[0]
        remedy = "Take jnp.where(weights > 0, values, 0), and previous where the total is 0."
        for what in (1e3, np.inf, np.nan):
            wild = np.where(weights[:, None] > 0, values, what)
            where = f"{b.name} of groups beside vectors of {what:g} and weight 0, and alone,"
            demand.close(where, call(rule, wild, *arrays[1:]), alone, 1e-9, 1e-9, remedy)
        result = call(rule, values, 0 * weights, previous, groups)
        demand.close(f"{b.name} of nobody and what was before", result, previous, 0.0, 0.0, remedy)


_SHARED = {"kind": _kind, "vmap": _vmap, "derivatives": _derivatives}
EXCHANGE_CHECKS = {
    "channel": {"bits": _bits, "zeros": _zeros, "keys": _keys, **_SHARED},
    "attack": {"who": _who, "rows": _rows, "keys": _keys, **_SHARED},
    "delay": {"waits": _waits, "keys": _keys, "vmap": _vmap},
    "aggregator": {"groups": _groups, **_SHARED},
}
# An attack can be called like an aggregator, and comes first.
_KINDS = {"channel": _Channel, "attack": _Attack, "delay": _Delay, "aggregator": _Aggregator}
