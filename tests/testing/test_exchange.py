"""Channels, aggregators, attacks and delays that break one rule each, and good ones."""

from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.testing import check_exchange_part
from fedjax_admm.testing._exchange import EXCHANGE_CHECKS
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


def mine(kind, **members):
    base, value = GOOD[kind]
    return changed(base, **members)(jnp.asarray(value))


def sent(change):
    """Return an encode with a change of the decoded message."""

    def encode(self, message, state, key):
        arrives, state = Dithered.encode(self, message, state, key)
        return change(arrives, message, state, key), state

    return encode


def called(base, change):
    """Return a call of an aggregator or an attack, with a change of its result."""

    def __call__(self, *arguments):  # noqa: N807
        return change(base.__call__(self, *arguments), *arguments)

    return __call__


def drawn(change):
    """Return a draw that changes the waits."""

    def draw(self, key, index, number):
        return change(Sometimes.draw(self, key, index, number), key, index)

    return draw


def lies_twice(self, values, bad, present, memory, key):
    return values + jax.random.normal(key, values.shape) * jax.random.uniform(key)


BROKEN = {
    ("channel", "a state that grows"): (
        {"encode": lambda self, message, state, key: (message, (state, state))},
        "kind",
        "What MineDithered returns for float32 numbers must keep its structure, shapes and dtypes",
    ),
    ("channel", "half a bit"): (
        {"bits": lambda self, shape: 0.5},
        "bits",
        "must be a whole Python number, 0 or more, but it is 0.5",
    ),
    ("channel", "zeros that are not"): (
        {"encode": sent(lambda arrives, message, *_: arrives / jnp.max(jnp.abs(message)))},
        "zeros",
        "Zeros, and what MineDithered makes of them, differ: .*nan",
    ),
    ("channel", "senders that are mixed up"): (
        {"encode": sent(lambda arrives, *_: np.asarray(arrives))},
        "vmap",
        "The check 'vmap' of MineDithered raised",
    ),
    ("aggregator", "one vector for all groups"): (
        {"__call__": called(Powered, lambda result, *_: result[0])},
        "kind",
        r"What MinePowered returns for float32 numbers must keep .* shape",
    ),
    ("aggregator", "absent vectors that count"): (
        {"rows": lambda self, values, votes: values},
        "groups",
        "of groups beside vectors of inf and weight 0, and alone, differ: .* Take jnp.where",
    ),
    ("aggregator", "nobody is zero"): (
        {
            "__call__": called(
                Powered,
                lambda result, values, weights, groups, number, previous: jnp.where(
                    result == previous, 0, result
                ),
            )
        },
        "groups",
        "of groups beside vectors of 1000 and weight 0, and alone, differ: .*previous",
    ),
    ("aggregator", "groups that are not looked at"): (
        {
            "total": lambda self, array, groups, number: jnp.broadcast_to(
                jnp.sum(array, 0)[None], (number, *array.shape[1:])
            )
        },
        "groups",
        "of groups beside vectors of 1000 and weight 0, and alone, differ",
    ),
    ("aggregator", "roots of distances"): (
        {
            "__call__": called(
                Powered,
                lambda result, values, *_: (
                    result + jnp.sqrt(jnp.sum((values[1:2] - values[4:5]) ** 2))
                ),
            )
        },
        "derivatives",
        "The derivative of MinePowered of equal values must be finite, but .*nan",
    ),
    ("attack", "all lie"): (
        {"who": lambda self, key, number: jnp.ones(number, bool)},
        "who",
        "who must leave one sender honest, but in 64 of 64 draws all 8 are Byzantine",
    ),
    ("attack", "one memory for all"): (
        {
            "init": lambda self, values: jnp.zeros((), jnp.int32),
            "__call__": lambda self, values, *others: (values, others[2]),
        },
        "rows",
        r"memory of senders of MineLouder must have a leading axis of 8, but the shapes are \[\(\)",
    ),
    ("attack", "the absent speak"): (
        {
            "__call__": called(
                Louder, lambda both, values, bad, *_: (jnp.where(bad[:, None], 9, values), both[1])
            )
        },
        "rows",
        "The rows of MineLouder that are honest or absent, and what was sent, differ",
    ),
    ("attack", "a key that is used twice"): (
        {"lies": lies_twice},
        "keys",
        "The check 'keys' of MineLouder raised KeyReuseError: .* Split keys with jax.random.split",
    ),
    ("delay", "waits of one half"): (
        {"draw": lambda self, key, index, number: jnp.full(number, 0.5)},
        "waits",
        r"draw, in 16 rounds, must return int32 of shape \(16, 8\), but it returns float32",
    ),
    ("delay", "waits beyond the depth"): (
        {"draw": drawn(lambda waits, *_: 2 * waits)},
        "waits",
        "from 0 to depth=2 rounds, or have loses=True, but they wait from 0 to 4",
    ),
    ("delay", "draws of its own"): (
        {"draw": drawn(lambda waits, *_: waits * np.int32(RNG.integers(9)))},
        "keys",
        "Two calls of MineSometimes with the same key differ: .* must follow from the key",
    ),
}
# In the run that everybody makes: one of each kind.
QUICK = ("a state that grows", "absent vectors that count", "all lie", "waits of one half")


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
        check_exchange_part(mine(kind, **members), only=check)


def test_every_rule_has_a_broken_example():
    rules = {rule for checks in EXCHANGE_CHECKS.values() for rule in checks}
    assert {check for _, check, _ in BROKEN.values()} == rules
    assert all(f"`{rule}`" in (check_exchange_part.__doc__ or "") for rule in rules)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", GOOD)
def test_good_ones_pass(kind):
    check_exchange_part(mine(kind))


class Bare(Dithered):
    """Registered as no pytree."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"part": 3}, "part must be a channel, an aggregator, an attack or a delay, as"),
        ({"part": Dithered}, "part must be a channel"),
        (
            {"part": messages.qsgd},
            "part must be a pytree, but it is <function qsgd",
        ),
        (
            {"part": Bare(0.1)},
            r"part must be a pytree, but it is Bare\(noise=0\.1\);",
        ),
        ({"only": "speed"}, "only must be one of 'bits'"),
    ],
)
def test_wrong_arguments_are_input_errors(change, message):
    options = {"part": mine("channel")} | change
    with pytest.raises(InputError, match=message):
        check_exchange_part(options.pop("part"), **options)
