"""Laws of waiting, and links against a list of all messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages
from fedjax_admm.messages.delays._delays import move, open_transit
from tests.reference.delays import Links

N, DIM, ROUNDS = 6, 3, 200


def waits_of(delay, rounds=4000, number=5, seed=0):
    """Return draws of a delay, shape (rounds, number)."""
    keys = jax.random.split(jax.random.key(seed), rounds)
    indices = jnp.arange(rounds, dtype=jnp.int32)
    return np.asarray(jax.vmap(lambda k, i: delay.draw(k, i, number))(keys, indices))


def traffic(seed=0, rounds=ROUNDS, dtype=np.float64, sending=0.7):
    """Return messages, weights and who sends, round by round; silent rows are not numbers."""
    rng = np.random.default_rng(seed)
    sends = rng.random((rounds, N)) < sending
    values = rng.standard_normal((rounds, N, DIM)).astype(dtype)
    values[~sends] = np.nan
    return values, rng.uniform(0.5, 2, (rounds, N)).astype(dtype), sends


def heard(delay, values, weights, sends, first=0, transit=None, key=None):
    """Return what arrives in every round, and the links after the last one."""
    key = jax.random.key(3) if key is None else key
    if transit is None:
        transit = open_transit(delay.depth, values[0], weights[0])

    def step(transit, given):
        index, value, weight, send = given
        round_key = jax.random.fold_in(key, index)
        *found, transit = move(delay, transit, value, weight, send, index, round_key)
        return transit, tuple(found)

    indices = first + jnp.arange(len(values), dtype=jnp.int32)
    return jax.lax.scan(step, transit, (indices, values, weights, sends))


def check_against_messages(delay, waits, depth):
    """Run the same traffic through the links and through lists; return what happened there."""
    values, weights, sends = traffic()
    _, (got, heavy, arrived) = heard(delay, *map(jnp.asarray, (values, weights, sends)))
    links = Links(depth, delay.in_order)
    wanted = np.zeros_like(values), np.zeros_like(weights), np.zeros_like(sends)
    for t in range(len(values)):
        for sender, message in links.round(t, values[t], weights[t], sends[t], waits[t]).items():
            wanted[0][t, sender], wanted[1][t, sender] = message.value, message.weight
            wanted[2][t, sender] = True
    for found, expected in zip((got, heavy, arrived), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)
    return links.seen


@pytest.mark.parametrize("in_order", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_links_hear_what_lists_of_messages_hear(in_order, x64):
    waits = np.random.default_rng(1).integers(0, 7, (ROUNDS, N))
    delay = messages.replay_delays(waits, 5, in_order=in_order)
    assert (delay.loses, delay.depth, delay.in_order) == (True, 5, in_order)
    seen = check_against_messages(delay, waits, 5)
    usual = ("lost", "together", "held" if in_order else "overtaken")
    assert all(seen[name] > 20 for name in usual)
    assert seen["overtaken" if in_order else "held"] == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    "delay",
    [
        messages.bounded_delay(np.arange(N), in_order=True),
        messages.geometric_delay(2.0, 4, in_order=True),
        messages.geometric_delay(2.0, 4, late="last", in_order=True),
        messages.heavy_tailed_delay(1.2, 9, in_order=True),
        messages.lossy(0.3, messages.bounded_delay(3, in_order=True)),
        messages.lossy(0.3),
        messages.fixed_delay([0, 1, 2, 3, 1, 0]),
    ],
)
def test_every_delay_is_heard_as_it_draws(delay, x64):
    draw = jax.jit(lambda key, index: delay.draw(key, index, N))
    key = jax.random.key(3)
    waits = [draw(jax.random.fold_in(key, t), jnp.int32(t)) for t in range(ROUNDS)]
    seen = check_against_messages(delay, np.asarray(waits), delay.depth)
    assert delay.loses == (seen["lost"] > 0)
    if delay.in_order:
        assert seen["overtaken"] == 0


@pytest.mark.thorough
def test_with_waits_of_zero_all_is_heard_at_once_to_the_last_bit(dtype):
    values, weights, sends = map(jnp.asarray, traffic(rounds=20, dtype=dtype))
    delay = messages.replay_delays(np.zeros((20, N), int), 2)
    _, (got, heavy, arrived) = heard(delay, values, weights, sends)
    assert got.dtype == heavy.dtype == dtype
    np.testing.assert_array_equal(arrived, sends)
    np.testing.assert_array_equal(got, jnp.where(sends[..., None], values, 0))
    np.testing.assert_array_equal(heavy, jnp.where(sends, weights, 0))


@pytest.mark.thorough
def test_geometric_waits_have_their_law():
    mean, depth = 2.0, 8
    drawn = waits_of(messages.geometric_delay(mean, depth)).ravel()
    p = 1 / (1 + mean)
    wanted = [p * (1 - p) ** k for k in range(depth + 1)] + [(1 - p) ** (depth + 1)]
    found = np.bincount(drawn, minlength=depth + 2) / drawn.size
    np.testing.assert_allclose(found, wanted, atol=4 * 0.5 / np.sqrt(drawn.size))


@pytest.mark.thorough
def test_what_is_late_is_heard_at_last():
    lost, last = (messages.geometric_delay(5.0, 4, late=late) for late in ("lost", "last"))
    assert (lost.loses, last.loses) == (True, False)
    np.testing.assert_array_equal(np.minimum(waits_of(lost), 4), waits_of(last))


@pytest.mark.thorough
@pytest.mark.parametrize(("exponent", "scale"), [(1.5, 1.0), (0.7, 4.0), (3.0, 0.5)])
def test_heavy_tails_have_their_law(exponent, scale):
    drawn = waits_of(messages.heavy_tailed_delay(exponent, 50, scale=scale)).ravel()
    for k in (1, 2, 5, 20, 51):
        share = np.mean(drawn >= k)
        assert share == pytest.approx((1 + k / scale) ** -exponent, abs=2 / np.sqrt(drawn.size))


@pytest.mark.thorough
def test_other_laws():
    bounds = np.array([0, 1, 2, 3, 9])
    drawn = waits_of(messages.bounded_delay(bounds))
    np.testing.assert_array_equal(drawn.max(0), bounds)
    for client, bound in enumerate(bounds):
        shares = np.bincount(drawn[:, client]) / len(drawn)
        np.testing.assert_allclose(shares, 1 / (bound + 1), atol=0.035)
    assert np.abs(np.corrcoef(drawn[:, 2], drawn[:, 3])[0, 1]) < 0.06
    np.testing.assert_array_equal(waits_of(messages.fixed_delay(bounds), 2), [bounds, bounds])
    assert not waits_of(messages.prompt(), 3).any()
    chance = np.array([0, 0.2, 0.5, 0.9, 1])
    drawn = waits_of(messages.lossy(chance, messages.fixed_delay(2)))
    np.testing.assert_allclose((drawn == 3).mean(0), chance, atol=0.035)
    assert set(np.unique(drawn)) == {2, 3}


def test_what_never_waits_is_prompt():
    builders = (
        messages.fixed_delay(0),
        messages.fixed_delay([0, 0]),
        messages.bounded_delay(0),
        messages.geometric_delay(2.0, 0, late="last"),
        messages.heavy_tailed_delay(2.0, 0, late="last"),
    )
    assert all(isinstance(delay, messages.Prompt) for delay in builders)
    assert not isinstance(messages.geometric_delay(2.0, 0), messages.Prompt)
    assert messages.lossy(0.5).depth == 0


@pytest.mark.thorough
def test_bounds_are_traced_with_a_depth():
    def longest(bound):
        delay = messages.bounded_delay(bound, 3)
        return jnp.max(delay.draw(jax.random.key(0), jnp.int32(0), 200))

    np.testing.assert_array_equal(jax.vmap(longest)(jnp.array([0, 2, 5])), [0, 2, 3])


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: messages.fixed_delay(-1), r"rounds must be at least 0, but it is -1\."),
        (lambda: messages.bounded_delay(1.5), "rounds must be whole numbers, but"),
        (lambda: jax.jit(messages.bounded_delay)(2), "give the longest as depth"),
        (lambda: messages.geometric_delay(-1.0, 3), "mean must be at least 0"),
        (lambda: messages.geometric_delay(1.0, 3, late="never"), "late must be one of"),
        (lambda: messages.heavy_tailed_delay(0.0, 3), "exponent must be greater than 0"),
        (lambda: messages.lossy(1.5), "probability must be at most 1"),
        (lambda: messages.lossy(0.5, messages.prompt), "delay must be a delay such as"),
        (
            lambda: messages.replay_delays([0, 1]),
            r"waits must have shape \(any, any\), but it has \(2,\)\.",
        ),
    ],
)
def test_mistakes_are_told_in_one_sentence(build, told):
    with pytest.raises(InputError, match=told):
        build()
