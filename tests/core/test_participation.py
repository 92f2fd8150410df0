"""Who takes part: rates, bounds on silence, and exact replay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, participation, where_active

SHAPE = (30,)


def masks(process, rounds=400, shape=SHAPE, seed=0):
    """Return the masks of a process, shape (rounds, clients)."""
    key = jax.random.key(seed)

    def draw(state, index):
        state, presence = process.draw(state, index, jax.random.fold_in(key, index), shape)
        return state, presence.active

    first = process.init(jax.random.fold_in(key, 2**31), shape)
    return np.asarray(jax.lax.scan(draw, first, jnp.arange(rounds))[1])


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_bernoulli_has_its_rate_and_is_independent(probability):
    drawn = masks(participation.bernoulli(probability))
    assert drawn.mean() == pytest.approx(probability, abs=0.015)
    if 0 < probability < 1:
        correlation = np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]
        assert abs(correlation) < 0.2
        assert abs(np.corrcoef(drawn[1:].ravel(), drawn[:-1].ravel())[0, 1]) < 0.05


def test_every_client_can_have_its_own_probability():
    wanted = np.linspace(0, 1, 30)
    np.testing.assert_allclose(
        masks(participation.bernoulli(wanted), 2000).mean(0), wanted, atol=0.05
    )


def test_without_replacement_draws_a_fixed_number_uniformly():
    process = participation.without_replacement(7)
    drawn = masks(process, 2000)
    np.testing.assert_array_equal(drawn.sum(1), 7)
    np.testing.assert_allclose(drawn.mean(0), 7 / 30, atol=0.05)
    _, presence = process.draw((), jnp.int32(0), jax.random.key(1), SHAPE)
    assert presence.sampled.dtype == jnp.int32
    np.testing.assert_array_equal(np.flatnonzero(presence.active), presence.sampled)


@pytest.mark.parametrize(("fraction", "clients"), [(0.2, 6), (0.25, 8), (1.0, 30), (0.001, 1)])
def test_a_fraction_is_rounded_to_a_number_of_clients(fraction, clients):
    np.testing.assert_array_equal(
        masks(participation.sampled(fraction), 20),
        masks(participation.without_replacement(clients), 20),
    )


def longest_silence(drawn):
    """Return the longest run of silent rounds of any client, the start included."""
    longest = 0
    for client in drawn.T:
        times = np.concatenate([[-1], np.flatnonzero(client), [len(client)]])
        longest = max(longest, int(np.max(np.diff(times) - 1)))
    return longest


def test_round_robin_is_periodic_and_staggered():
    drawn = masks(participation.round_robin(5), 40)
    np.testing.assert_array_equal(drawn.sum(1), 6)
    np.testing.assert_array_equal(drawn[:-5], drawn[5:])
    assert longest_silence(drawn) == 4


def test_bounded_delay_acts_at_random_but_never_sleeps_long():
    drawn = masks(participation.round_robin(6, 0.1), 1000)
    assert longest_silence(drawn) == 5
    assert 1 / 6 < drawn.mean() < 0.3


def test_markov_has_its_stationary_rate_and_its_stretches():
    drawn = masks(participation.markov_on_off(0.1, 0.2), 4000)
    assert drawn.mean() == pytest.approx(1 / 3, abs=0.03)
    assert drawn[0].mean() == pytest.approx(1 / 3, abs=0.25)
    was_on = drawn[:-1]
    assert drawn[1:][was_on].mean() == pytest.approx(0.8, abs=0.02)
    assert drawn[1:][~was_on].mean() == pytest.approx(0.1, abs=0.02)


def test_where_active_keeps_everything_of_the_absent():
    active = jnp.array([True, False, True])
    old = {"x": jnp.zeros((3, 2)), "k": jnp.zeros(3, jnp.int32)}
    new = {"x": jnp.ones((3, 2)), "k": jnp.ones(3, jnp.int32)}
    kept = where_active(active, new, old)
    np.testing.assert_array_equal(kept["x"], [[1, 1], [0, 0], [1, 1]])
    np.testing.assert_array_equal(kept["k"], [1, 0, 1])
    assert kept["k"].dtype == jnp.int32


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: participation.bernoulli(1.2), "probability must be at most 1, but it is 1.2."),
        (lambda: participation.sampled(0), "fraction must be greater than 0, but it is 0."),
        (lambda: participation.without_replacement(0), "clients must be at least 1, but it is 0."),
        (lambda: participation.round_robin(2.5), "delay must be a whole number, but it is 2.5."),
        (
            lambda: participation.replay(np.ones((3, 4))),
            "masks must be True or False, but its dtype is float32.",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == sentence


def test_whole_rounds_repeats_one_draw_for_all_passes():
    process = participation.whole_rounds(participation.without_replacement(3))
    shape = (4, 7)
    process.check(shape, 10)
    state = process.init(jax.random.key(0), shape)
    _, presence = process.draw(state, jnp.int32(0), jax.random.key(1), shape)
    assert presence.active.shape == shape
    np.testing.assert_array_equal(presence.active, np.broadcast_to(presence.active[0], shape))
    assert presence.active[0].sum() == 3


def test_whole_rounds_remembers_what_its_process_remembers():
    inner = participation.markov_on_off(0.3, 0.3)
    process = participation.whole_rounds(inner)
    state, same = process.init(jax.random.key(0), (2, 5)), inner.init(jax.random.key(0), (5,))
    for index in range(5):
        state, presence = process.draw(state, jnp.int32(index), jax.random.key(index), (2, 5))
        same, alone = inner.draw(same, jnp.int32(index), jax.random.key(index), (5,))
        np.testing.assert_array_equal(presence.active, np.stack([alone.active] * 2))


def test_whole_rounds_mistakes():
    process = participation.whole_rounds(participation.without_replacement(8))
    with pytest.raises(InputError, match="use the process alone"):
        process.check((8,), 1)
    with pytest.raises(InputError, match=r"at most the number of clients \(7\)"):
        process.check((2, 7), 1)
    with pytest.raises(InputError, match=r"process must be a participation process such as"):
        participation.whole_rounds(0.5)
