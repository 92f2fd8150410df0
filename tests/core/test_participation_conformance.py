"""Every participation process: masks, keys, memory and shares."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import participation
from tests.builders import builders

SHAPE, ROUNDS = (2, 12), 600
RECORDED = np.random.default_rng(0).random((ROUNDS, *SHAPE)) < 0.4


@dataclass(frozen=True)
class Case:
    """A process, and the share of clients that takes part in the long run."""

    build: Callable[[], Any]
    share: float
    draws: bool = True  # whether keys matter


PROCESSES = {
    "everyone": Case(participation.everyone, 1.0, draws=False),
    "bernoulli": Case(lambda: participation.bernoulli(0.3), 0.3),
    "without_replacement": Case(lambda: participation.without_replacement(6), 6 / 24),
    "sampled": Case(lambda: participation.sampled(0.25), 6 / 24),
    # With p = 0.2, a client that last took part acts again after 1, 2 or 3 rounds.
    "round_robin": Case(
        lambda: participation.round_robin(3, 0.2), 1 / (0.2 + 2 * 0.8 * 0.2 + 3 * 0.64)
    ),
    "markov_on_off": Case(lambda: participation.markov_on_off(0.1, 0.3), 0.25),
    "whole_rounds": Case(
        lambda: participation.whole_rounds(participation.markov_on_off(0.2, 0.2)), 0.5
    ),
    "replay": Case(lambda: participation.replay(RECORDED), RECORDED.mean(), draws=False),
}


def test_every_process_is_in_the_table():
    assert set(builders(participation, "init", "draw", "check")) == set(PROCESSES)


@pytest.fixture(params=PROCESSES)
def case(request):
    return PROCESSES[request.param]


def follow(process, key, start=None, first=0, rounds=ROUNDS):
    """Return the state after some rounds, and their masks; keys depend on the round alone."""

    def draw(state, index):
        state, presence = process.draw(state, index, jax.random.fold_in(key, index), SHAPE)
        return state, presence.active

    state = process.init(jax.random.fold_in(key, 2**31), SHAPE) if start is None else start
    indices = jnp.arange(first, first + rounds, dtype=jnp.int32)
    return jax.lax.scan(draw, state, indices)


followed = jax.jit(follow, static_argnames=("first", "rounds"))


def test_masks_have_the_shape_and_the_share(case):
    process = case.build()
    process.check(SHAPE, ROUNDS)
    _, masks = followed(process, jax.random.key(3))
    assert (masks.shape, masks.dtype) == ((ROUNDS, *SHAPE), bool)
    assert np.mean(masks) == pytest.approx(case.share, abs=0.04)


def test_who_is_selected_is_who_is_active(case):
    process = case.build()
    state = process.init(jax.random.key(0), SHAPE)
    _, presence = process.draw(state, jnp.int32(0), jax.random.key(1), SHAPE)
    if presence.sampled is not None:
        assert presence.sampled.dtype == jnp.int32
        np.testing.assert_array_equal(presence.sampled, np.flatnonzero(presence.active))


def test_what_it_remembers_keeps_its_structure(case):
    process = case.build()
    state = process.init(jax.random.key(0), SHAPE)
    new, _ = process.draw(state, jnp.int32(0), jax.random.key(1), SHAPE)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, new)


@pytest.mark.thorough
def test_rounds_in_parts_are_the_rounds_at_once(case):
    process, key = case.build(), jax.random.key(5)
    last, whole = followed(process, key, rounds=40)
    state, early = followed(process, key, rounds=25)
    state, late = followed(process, key, state, first=25, rounds=15)
    np.testing.assert_array_equal(np.concatenate([early, late]), whole)
    chex.assert_trees_all_equal(state, last)


@pytest.mark.thorough
def test_the_same_under_jit_and_alone(case):
    process = case.build()
    state = process.init(jax.random.key(7), SHAPE)
    compiled = jax.jit(lambda p, s, i, k: p.draw(s, i, k, SHAPE))
    for index in range(5):
        _, inside = compiled(process, state, jnp.int32(index), jax.random.key(index))
        state, presence = process.draw(state, jnp.int32(index), jax.random.key(index), SHAPE)
        np.testing.assert_array_equal(presence.active, inside.active)


@pytest.mark.thorough
def test_a_batch_of_keys_is_the_keys_one_by_one(case):
    process, keys = case.build(), jax.random.split(jax.random.key(9), 3)
    _, batch = jax.jit(jax.vmap(lambda key: follow(process, key, rounds=30)))(keys)
    for masks, key in zip(batch, keys, strict=True):
        np.testing.assert_array_equal(masks, followed(process, key, rounds=30)[1])
    if case.draws:
        assert np.any(np.asarray(batch[0]) != np.asarray(batch[1]))


@pytest.mark.thorough
def test_its_numbers_can_be_stacked_and_mapped(case):
    process, key = case.build(), jax.random.key(1)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), process)
    mapped = jax.vmap(lambda p: follow(p, key, rounds=20)[1], axis_size=2)
    alone = followed(process, key, rounds=20)[1]
    np.testing.assert_array_equal(jax.jit(mapped)(stacked), jnp.stack([alone, alone]))


def test_a_process_that_is_not_in_the_table_would_be_noticed():
    room = ModuleType("tests.room")

    def mine() -> participation.Everyone:
        return participation.everyone()

    mine.__module__ = "tests.room"
    room.mine, room.other = mine, participation.bernoulli
    assert set(builders(room, "init", "draw", "check")) == {"mine"}
