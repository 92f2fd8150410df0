"""Threefry in one loop: JAX's numbers, in fewer kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import _threefry

DRAWS = {
    "a stack of keys": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "keys with numbers": lambda key: jax.random.key_data(
        jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.array([0, 7, 2**32 - 1], jnp.uint32))
    ),
    "bytes": lambda key: jax.random.bits(key, (3, 5), jnp.uint8),
    "half words": lambda key: jax.random.bits(key, (7,), jnp.uint16),
    "one word": lambda key: jax.random.bits(key, (), jnp.uint32),
    "nothing": lambda key: jax.random.uniform(key, (0, 3)),
    "numbers of many keys": jax.vmap(
        lambda key: jax.random.normal(key, (2, 3)), axis_size=4, in_axes=None
    ),
    "an order": lambda key: jax.random.permutation(key, 10),
    "waits": lambda key: jax.random.gamma(key, 2.0, (4,)),
}


@pytest.mark.kin(3)
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_numbers_are_those_of_jax(draw):
    key = jax.random.key(3)
    np.testing.assert_array_equal(jax.jit(draw)(_threefry.one_loop(key)), draw(key))


def test_words_of_double_precision_are_those_of_jax():
    with jax.enable_x64(True):
        key = jax.random.key(3)
        found = jax.random.bits(_threefry.one_loop(key), (5,), jnp.uint64)
        np.testing.assert_array_equal(found, jax.random.bits(key, (5,), jnp.uint64))


def test_the_older_way_of_counting_numbers_is_left_to_jax():
    with jax.threefry_partitionable(False):
        key = jax.random.key(3)
        found = jax.random.bits(_threefry.one_loop(key), (5,))
        np.testing.assert_array_equal(found, jax.random.bits(key, (5,)))


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_derived_keys_are_those_of_jax_and_of_the_same_kind(kind):
    key = jax.random.key(3, impl=kind)
    for found, expected in (
        (_threefry.split(key, 3), jax.random.split(key, 3)),
        (_threefry.fold_in(key, 5), jax.random.fold_in(key, 5)),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(expected))


def test_a_key_in_one_loop_stays_one():
    key = _threefry.one_loop(jax.random.key(3))
    assert _threefry.split(key).dtype == _threefry.one_loop(key).dtype == key.dtype


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="other devices have loops of their own")
def test_a_hash_is_one_kernel():
    """JAX's hash is a loop; ours is not merged with the two sums that read it."""

    def program(key):
        number = jax.random.uniform(key, (50,))
        return number + 1, number * 2

    key = jax.random.key(3)
    text = jax.jit(program).lower(_threefry.one_loop(key)).compile().as_text()
    assert " while(" not in text
    assert text.count("u32[50]{0} xor(") <= 21  # twenty rounds and the two words, once
