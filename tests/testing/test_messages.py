"""Channels, aggregators, attacks and delays that are wrong in one way each, and good ones."""

from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages, testing
from fedjax_admm._pytrees import pytree_dataclass
from tests.testing.own import changed


@pytree_dataclass
class Dithered:
    """Numbers plus a little noise; it counts messages."""

    noise: Any

    in_order = False

    def init(self, message):
        return jnp.zeros((), jnp.int32)

    def encode(self, message, state, key):
        draws = self.noise * jax.random.normal(key, message.shape, message.dtype)
        return message * (1 + draws), state + 1

    def bits(self, shape):
        return 16 * int(np.prod(shape))

    def omega(self, shape):
        return 0.02


@pytree_dataclass
class Powered:
    """The mean, with a power of the weights."""

    power: Any

    def votes(self, weights):
        present = weights > 0
        return jnp.where(present, jnp.where(present, weights, 1) ** self.power, 0)

    def rows(self, values, votes):
        return jnp.where(votes[:, None] > 0, values, 0)

    def total(self, array, groups, number):
        return jax.ops.segment_sum(array, groups, num_segments=number)

    def __call__(self, values, weights, groups, number, previous):
        votes = self.votes(weights)
        total = self.total(votes, groups, number)[:, None]
        parts = self.total(votes[:, None] * self.rows(values, votes), groups, number)
        return jnp.where(total > 0, parts / jnp.where(total > 0, total, 1), previous)


@pytree_dataclass
class Louder:
    """A quarter of the senders say more and more, with noise."""

    factor: Any

    def who(self, key, number):
        return jax.random.permutation(key, jnp.arange(number, dtype=jnp.int32)) < number // 4

    def init(self, values):
        return jnp.zeros(values.shape[0], jnp.int32)

    def lies(self, values, bad, present, memory, key):
        often = jnp.expand_dims(memory, range(1, values.ndim)).astype(values.dtype)
        return values * (self.factor + often) + jax.random.normal(key, values.shape, values.dtype)

    def __call__(self, values, bad, present, memory, key):
        lying = jnp.expand_dims(bad & present, range(1, values.ndim))
        lies = self.lies(values, bad, present, memory, key)
        return jnp.where(lying, lies, values), memory + present.astype(jnp.int32)


@pytree_dataclass
class Sometimes:
    """Messages are two rounds late by chance."""

    chance: Any
    depth: int = field(default=2, metadata={"static": True})

    loses = False
    in_order = False

    def draw(self, key, index, number):
        return 2 * jax.random.bernoulli(key, self.chance, (number,)).astype(jnp.int32)


RNG = np.random.default_rng(0)
GOOD = {
    "channel": (Dithered, 0.1),
    "aggregator": (Powered, 0.5),
    "attack": (Louder, 2.0),
    "delay": (Sometimes, 0.3),
}
CHECKS = {kind: getattr(testing, f"check_{kind}") for kind in GOOD}
NAMES = {kind: getattr(testing, f"{kind.upper()}_CHECKS") for kind in GOOD}


def mine(kind, **members):
    base, value = GOOD[kind]
    return changed(base, **members)(jnp.asarray(value))


def sent(change):
    """Return an encode that changes what arrives."""

    def encode(self, message, state, key):
        arrives, state = Dithered.encode(self, message, state, key)
        return change(arrives, message, state, key), state

    return encode


def found(change):
    """Return a rule that changes what is found."""

    def __call__(self, *given):  # noqa: N807
        return change(Powered.__call__(self, *given), *given)

    return __call__


def told(change):
    """Return an attack that changes what is told."""

    def __call__(self, *given):  # noqa: N807
        return change(Louder.__call__(self, *given), *given)

    return __call__


def drawn(change):
    """Return a draw that changes the waits."""

    def draw(self, key, index, number):
        return change(Sometimes.draw(self, key, index, number), key, index)

    return draw


def noise_twice(self, message, state, key):
    return message + jax.random.normal(key, message.shape) * jax.random.uniform(key), state


def lies_twice(self, values, bad, present, memory, key):
    return values + jax.random.normal(key, values.shape) * jax.random.uniform(key)


def spread(self, values, bad, present, memory, key):
    return jnp.broadcast_to(jnp.sqrt(jnp.var(values, 0))[None], values.shape)


BROKEN = {
    ("channel", "a dtype of its own"): (
        {"encode": sent(lambda arrives, *_: arrives.astype(jnp.float32))},
        "kind",
        r"MineDithered.encode of a message of shape \(6,\) must return float64 where",
    ),
    ("channel", "a state that grows"): (
        {"encode": lambda self, message, state, key: (message, (state, state))},
        "kind",
        "must return a state with the structure, shapes and dtypes of the one that it is given",
    ),
    ("channel", "an order that is an array"): (
        {"in_order": jnp.ones((), bool)},
        "kind",
        "in_order must be True or False, a part of the structure",
    ),
    ("channel", "one thing is returned"): (
        {"encode": lambda self, message, state, key: message},
        "kind",
        r"must return what arrives and the state, but it returns a ArrayImpl",
    ),
    ("channel", "bits that are no whole number"): (
        {"bits": lambda self, shape: 0.5 * shape[0]},
        "bits",
        r"bits\(\(6,\)\) must be a whole Python number that is not negative, but it is 3.0",
    ),
    ("channel", "bits that are not those of the layout"): (
        {"layout": lambda self, shape: messages.Number(shape)},
        "bits",
        r"bits\(\(6,\)\) must be the bits of its layout, 192, but it is 96",
    ),
    ("channel", "a code that is not what arrives"): (
        {
            "init": lambda self, message: (),
            "encode": lambda self, message, state, key: (message / 2, state),
            "code": lambda self, message, key: message,
            "read": lambda self, code, shape, dtype: jnp.asarray(code, dtype),
            "layout": lambda self, shape: messages.Number(shape),
            "bits": lambda self, shape: 32 * int(np.prod(shape)),
        },
        "bits",
        "What is read of the bytes of MineDithered, and what arrives, differ",
    ),
    ("channel", "zeros that are not"): (
        {"encode": sent(lambda arrives, message, *_: arrives / jnp.max(jnp.abs(message)))},
        "zeros",
        "Zeros must arrive as zeros, but MineDithered makes .*nan",
    ),
    ("channel", "a branch on values"): (
        {"encode": sent(lambda arrives, *_: arrives if arrives[0].sum() > 0 else 0 * arrives)},
        "jit",
        "encode under jax.jit raised .* Take jnp.where in place of an if on values",
    ),
    ("channel", "senders that are mixed up"): (
        {"encode": sent(lambda arrives, *_: np.asarray(arrives))},
        "vmap",
        "encode under jax.vmap, over arguments and numbers raised",
    ),
    ("channel", "a root of zero"): (
        {"encode": sent(lambda arrives, message, *_: arrives * jnp.sqrt(jnp.sum(message**2)))},
        "derivatives",
        "The derivative of MineDithered.encode of zeros must be finite, but .*nan",
    ),
    ("channel", "a key that is used twice"): (
        {"encode": noise_twice},
        "keys",
        "encode .*Split keys with jax.random.split|encode raised KeyReuseError",
    ),
    ("channel", "draws of its own"): (
        {"encode": sent(lambda arrives, *_: arrives * np.float32(RNG.random()))},
        "keys",
        "Two calls of MineDithered.encode with the same key differ: .* must follow from the key",
    ),
    ("channel", "a constant that is too small"): (
        {"omega": lambda self, shape: 0.001},
        "constants",
        "mean squared error of MineDithered for .* must be at most 0.001 times",
    ),
    ("channel", "a bias"): (
        {"encode": sent(lambda arrives, *_: 1.1 * arrives), "omega": lambda self, shape: 1.0},
        "constants",
        "MineDithered has an omega, and must be right on average, but the entry",
    ),
    ("channel", "a contraction that is none"): (
        {"omega": lambda self, shape: None, "contraction": lambda self, shape: 1.0},
        "constants",
        r"must be at most 0 times the square of the message, by contraction\(\(6,\)\) = 1",
    ),
    ("aggregator", "one vector for all groups"): (
        {"__call__": found(lambda result, *_: result[0])},
        "kind",
        r"of 1 groups must return an array of shape \(1, 3\), but its shape is \(3,\)",
    ),
    ("aggregator", "too few for it"): (
        {"check": lambda self, number: [][number]},
        "kind",
        "check of a group of 7 raised IndexError",
    ),
    ("aggregator", "absent vectors that count"): (
        {"rows": lambda self, values, votes: values},
        "absent",
        "with vectors of inf and weight 0, and without them, differ: .* Take jnp.where",
    ),
    ("aggregator", "nobody is zero"): (
        {
            "__call__": found(
                lambda result, values, weights, groups, number, previous: jnp.where(
                    result == previous, 0, result
                )
            )
        },
        "empty",
        "of a group in which all are absent must keep its previous vector; the two differ",
    ),
    ("aggregator", "groups that are not looked at"): (
        {
            "total": lambda self, array, groups, number: jnp.broadcast_to(
                jnp.sum(array, 0)[None], (number, *array.shape[1:])
            )
        },
        "groups",
        "of group 0 among 3, and alone, differ",
    ),
    ("aggregator", "the first counts more"): (
        {
            "votes": lambda self, weights: (
                weights * (1 + jnp.arange(weights.shape[0], dtype=weights.dtype))
            )
        },
        "permuted",
        "of vectors in another order, and in the first one, differ",
    ),
    ("aggregator", "vectors that are shortened"): (
        {"__call__": found(lambda result, *_: 0.9 * result)},
        "alone",
        "of one vector alone must return it; the two differ: .* Pass alone=False",
    ),
    ("aggregator", "no shift is followed"): (
        {"__call__": found(lambda result, *_: result**3)},
        "translates",
        "and the result moved by as much, differ: .* Pass translates=False",
    ),
    ("aggregator", "a branch on values"): (
        {"__call__": found(lambda result, *_: result if result[0, 0] > -9 else -result)},
        "jit",
        "MinePowered under jax.jit raised",
    ),
    ("aggregator", "a number that is fixed"): (
        {"votes": lambda self, weights: weights ** float(self.power)},
        "vmap",
        "MinePowered under jax.vmap, over arguments and numbers raised",
    ),
    ("aggregator", "roots of distances"): (
        {
            "__call__": found(
                lambda result, values, *_: (
                    result + jnp.sqrt(jnp.sum((values[:1] - values[2:3]) ** 2))
                )
            )
        },
        "derivatives",
        "The derivative of MinePowered of equal vectors must be finite, but .*nan",
    ),
    ("attack", "all lie"): (
        {"who": lambda self, key, number: jnp.ones(number, bool)},
        "who",
        "who must leave one sender honest, but in 64 of 64 draws all 8 are Byzantine",
    ),
    ("attack", "liars that are numbers"): (
        {"who": lambda self, key, number: jnp.ones(number, jnp.int32)},
        "who",
        r"who must return a bool array of shape \(8,\), but it returns int32 of shape \(8,\)",
    ),
    ("attack", "one memory for all"): (
        {"init": lambda self, values: jnp.zeros((), jnp.int32)},
        "kind",
        r"must return what is remembered of each of 8 senders, stacked, but it has shape \(\)",
    ),
    ("attack", "a memory that changes its dtype"): (
        {"__call__": told(lambda both, *_: (both[0], both[1].astype(jnp.float32)))},
        "kind",
        "must return a memory with the structure, shapes and dtypes",
    ),
    ("attack", "the absent speak"): (
        {
            "__call__": told(
                lambda both, values, bad, *_: (jnp.where(bad[:, None], 9, values), both[1])
            )
        },
        "rows",
        "must change the rows of present Byzantine senders alone, but it changes row 0, which is "
        "absent",
    ),
    ("attack", "the honest lie"): (
        {"__call__": told(lambda both, *_: (both[0] + 1, both[1]))},
        "rows",
        "but it changes row 0, which is absent|row 2, which is not Byzantine",
    ),
    ("attack", "statistics of the absent"): (
        {"lies": lambda self, values, *_: values - jnp.sum(values, 0)[None]},
        "rows",
        "with 1000 in absent rows, and without, differ: .* present & ~byzantine",
    ),
    ("attack", "a number of senders that is fixed"): (
        {"lies": lambda self, values, *_: values * jnp.arange(8, dtype=values.dtype)[:, None]},
        "some",
        "MineLouder of 3 senders of 8 raised",
    ),
    ("attack", "a root of zero"): (
        {"lies": spread},
        "derivatives",
        "The derivative of what MineLouder tells of equal values must be finite, but .*nan",
    ),
    ("attack", "a key that is used twice"): ({"lies": lies_twice}, "keys", "MineLouder .*[kK]ey"),
    ("delay", "waits of one half"): (
        {"draw": lambda self, key, index, number: jnp.full(number, 0.5)},
        "kind",
        r"draw must return int32 of shape \(5,\), whole rounds, but it returns float32",
    ),
    ("delay", "losses that are a number"): ({"loses": 0}, "kind", "loses must be True or False"),
    ("delay", "waits before the message"): (
        {"draw": drawn(lambda waits, *_: waits - 1)},
        "waits",
        "must let messages wait 0 rounds or more, but one waits -1",
    ),
    ("delay", "waits beyond the depth"): (
        {"draw": drawn(lambda waits, *_: 2 * waits)},
        "waits",
        "has loses=False, but a message waits 4 rounds, which is more than its depth of 2",
    ),
    ("delay", "messages that nobody hears"): (
        {"draw": drawn(lambda waits, *_: waits + 1)},
        "links",
        "of what sender . said in round . nothing is heard by round ., and nothing newer",
    ),
    ("delay", "a round that is a Python number"): (
        {"draw": drawn(lambda waits, key, index: waits if int(index) < 99 else 0 * waits)},
        "links",
        "Messages on links with MineSometimes raised",
    ),
    ("delay", "draws of its own"): (
        {"draw": drawn(lambda waits, *_: waits * np.int32(RNG.integers(9)))},
        "keys",
        "Two calls of MineSometimes.draw with the same key differ",
    ),
}
# In the run that everybody makes, one of each kind.
QUICK = ("bits that are no whole number", "too few for it", "all lie", "losses that are a number")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*both, marks=[] if both[1] in QUICK else [pytest.mark.thorough])
        for both in BROKEN
    ],
)
def test_a_broken_one_is_caught(kind, name):
    members, check, message = BROKEN[kind, name]
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        CHECKS[kind](mine(kind, **members), only=check)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", GOOD)
def test_good_ones_pass(kind):
    CHECKS[kind](mine(kind))


@pytree_dataclass
class Fixed(Dithered):
    """The same with a number that is part of the structure."""

    noise: float = field(default=0.1, metadata={"static": True})


def test_a_static_number_is_caught():
    with pytest.raises(AssertionError, match=r"Fixed.noise is a static number \(0.1\)"):
        testing.check_channel(Fixed(), only="jit")


@pytree_dataclass
class Deep(Sometimes):
    """The same with a depth that is a number."""

    depth: Any = 2


def test_a_depth_that_is_traced_is_caught():
    message = "Deep.depth of a delay that is traced must be a whole Python number .* a static field"
    with pytest.raises(AssertionError, match=message):
        testing.check_delay(Deep(jnp.asarray(0.3)), only="kind")


class Bare(Dithered):
    """Registered as no pytree."""


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("channel", {"channel": messages.qsgd}, r"channel must be a channel such as messages.qsgd"),
        ("channel", {"channel": Dithered}, "channel must be a channel"),
        ("channel", {"channel": Bare(0.1)}, "channel must be a pytree, but Bare is registered as"),
        ("channel", {"shapes": ()}, r"shapes must be shapes of messages such as \(\(6,\), \(2, 3"),
        ("channel", {"only": "speed"}, "only must be one of 'kind'"),
        ("aggregator", {"aggregator": 3}, r"aggregator must be an aggregator such as messages.co"),
        ("aggregator", {"values": np.ones(3)}, r"values must have the axes \(vectors, dim\)"),
        ("aggregator", {"alone": "no"}, "alone must be True or False"),
        ("attack", {"attack": 0.2}, "attack must be an attack such as messages.sign_flip"),
        ("attack", {"senders": 4}, "senders must be at least 5"),
        ("delay", {"delay": 3}, "delay must be a delay such as messages.bounded_delay"),
        ("delay", {"rounds": 3}, "rounds must be even"),
        ("delay", {"rounds": 1}, "rounds must be at least 2"),
    ],
)
def test_wrong_arguments_are_input_errors(kind, given, message):
    options = {kind: mine(kind)} | given
    with pytest.raises(InputError, match=message):
        CHECKS[kind](options.pop(kind), **options)


@pytest.mark.parametrize("kind", GOOD)
def test_the_docstring_names_every_check(kind):
    assert all(f"`{name}`" in (CHECKS[kind].__doc__ or "") for name in NAMES[kind])
