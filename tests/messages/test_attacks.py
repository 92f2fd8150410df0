"""Attacks against loops over senders, the choice of Byzantine senders, and wrong arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, messages
from tests.reference import attacks

K = 9
BAD = np.array([0, 1, 0, 0, 1, 0, 1, 0, 1], bool)
PRESENT = np.array([1, 1, 0, 1, 1, 1, 0, 1, 1], bool)
VALUE = np.arange(6.0).reshape(2, 3)
# Attack -> what it is, and the reference.
ATTACKS = {
    "sign flip": (
        lambda **who: messages.sign_flip(scale=2.0, **who),
        lambda v, b, p: attacks.sign_flip(v, b, p, 2.0),
    ),
    "constant": (
        lambda **who: messages.constant_message(value=VALUE, **who),
        lambda v, b, p: attacks.constant_message(v, b, p, VALUE),
    ),
    "mimic": (messages.mimic, lambda v, b, p: attacks.mimic(v, b, p, "extreme")),
    "mimic first": (
        lambda **who: messages.mimic(whom="first", **who),
        lambda v, b, p: attacks.mimic(v, b, p, "first"),
    ),
    "a little": (messages.a_little_is_enough, attacks.a_little_is_enough),
    "a little of 1.5": (
        lambda **who: messages.a_little_is_enough(z=1.5, **who),
        lambda v, b, p: attacks.a_little_is_enough(v, b, p, 1.5),
    ),
    "inner product": (
        lambda **who: messages.inner_product_manipulation(epsilon=0.3, **who),
        lambda v, b, p: attacks.inner_product_manipulation(v, b, p, 0.3),
    ),
}
OTHERS = {
    "noise": lambda **who: messages.scaled_noise(deviation=2.0, **who),
    "noise around the mean": lambda **who: messages.scaled_noise(around="mean", **who),
    "stale": lambda **who: messages.stale_replay(age=2, **who),
}
EVERY = {name: build for name, (build, _) in ATTACKS.items()} | OTHERS


def honest_values(seed=0, dtype=np.float64):
    """One direction of the honest spread leads clearly; the absent are not numbers."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((K, 2, 3)) + 3 * rng.standard_normal((K, 1, 1)) * VALUE / 5 + 1
    values[~PRESENT] = np.nan
    return values.astype(dtype)


@jax.jit
def call(attack, *given):
    return attack(*given)


def tell(attack, values, bad=BAD, present=PRESENT, memory=None, seed=5):
    """Return what is told, and the memory."""
    values = jnp.asarray(values)
    memory = attack.init(values) if memory is None else memory
    key = jax.random.key(seed)
    return call(attack, values, jnp.asarray(bad), jnp.asarray(present), memory, key)


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    "name", ["a little", "mimic", *sorted(set(ATTACKS) - {"mimic", "a little"})]
)
def test_lies_are_those_of_a_loop_over_senders(name, x64):
    build, reference = ATTACKS[name]
    values = honest_values()
    told, memory = tell(build(who=BAD), values)
    assert memory == ()
    np.testing.assert_allclose(told, reference(values, BAD, PRESENT), rtol=1e-12, atol=1e-12)
    others = ~(BAD & PRESENT)
    np.testing.assert_array_equal(told[others], values[others])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_the_one_who_is_copied_is_the_extreme_one(seed, x64):
    values = honest_values(seed)
    told, _ = tell(messages.mimic(who=BAD), values)
    np.testing.assert_array_equal(told, attacks.mimic(values, BAD, PRESENT, "extreme"))


@pytest.mark.thorough
@pytest.mark.parametrize("around", ["zero", "mean"])
def test_noise_is_every_liars_own(around, x64):
    values, number = np.ones((4000, 5)) * np.arange(5.0), 2000
    bad = np.arange(4000) < number
    attack = messages.scaled_noise(who=bad, deviation=2.0, around=around)
    told, _ = tell(attack, values, bad, np.ones_like(bad), seed=7)
    again, _ = tell(attack, values, bad, np.ones_like(bad), seed=6)
    lies = np.asarray(told[bad])
    centre = np.arange(5.0) if around == "mean" else np.zeros(5)
    np.testing.assert_allclose(lies.mean(0), centre, atol=0.2)
    np.testing.assert_allclose(np.cov(lies.T), 4 * np.eye(5), atol=0.5)
    np.testing.assert_array_equal(told[~bad], values[~bad])
    assert not np.any(again[bad] == told[bad])
    normals = np.asarray(jax.random.normal(jax.random.key(7), values.shape))
    wanted = attacks.scaled_noise(values, bad, np.ones_like(bad), 2.0, normals, around)
    np.testing.assert_allclose(told, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
def test_stale_messages_are_the_senders_own_of_some_time_ago(x64):
    rng = np.random.default_rng(0)
    for age in (1, 3):
        attack, twin = messages.stale_replay(who=BAD, age=age), attacks.StaleReplay(K, age)
        step = jax.jit(attack.__call__)
        memory = attack.init(jnp.zeros((K, 2, 3)))
        for _ in range(40):
            values, present = rng.standard_normal((K, 2, 3)), rng.random(K) < 0.6
            told, memory = step(values, BAD, present, memory, jax.random.key(0))
            np.testing.assert_array_equal(told, twin(values, BAD, present))


@pytest.mark.thorough
def test_some_senders_memory_is_moved_alone():
    attack = messages.stale_replay(who=[True, True], age=1)
    first, memory = tell(attack, [[1.0], [2.0]], [True] * 2, [True, False])
    np.testing.assert_array_equal(memory.sent, [1, 0])
    told, _ = tell(attack, [[3.0], [4.0]], [True] * 2, [True] * 2, memory)
    np.testing.assert_array_equal(first, [[1], [2]])
    np.testing.assert_array_equal(told, [[1], [4]])


@pytest.mark.thorough
def test_z_is_the_published_one(x64):
    published = {
        (50, 24): 1.426077,
        (50, 12): 0.336038,
        (50, 5): 0.083652,
        (20, 8): 0.674490,
        (20, 4): 0.157311,
        (10, 3): 0.180012,
    }
    for (n, f), wanted in published.items():
        bad = np.arange(n) < f
        values = np.random.default_rng(n).standard_normal((n, 2))
        told, _ = tell(messages.a_little_is_enough(who=bad), values, bad, np.ones(n, bool))
        z = (values[~bad].mean(0) - np.asarray(told[0])) / values[~bad].std(0)
        np.testing.assert_allclose(z, wanted, atol=1e-6)
        assert attacks.unnoticed(n - f, f) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.thorough
def test_z_is_finite_where_the_formula_has_none(x64):
    values = np.random.default_rng(0).standard_normal((9, 2))
    for f in range(1, 10):  # from five on Byzantine senders are the majority
        bad = np.arange(9) < f
        told, _ = tell(messages.a_little_is_enough(who=bad), values, bad, np.ones(9, bool))
        assert np.isfinite(told).all()
        if f >= 5 and f < 8:  # the quantile of (h - 1) / h
            z = (values[f:].mean(0) - np.asarray(told[0])) / values[f:].std(0)
            np.testing.assert_allclose(z, attacks.NormalDist().inv_cdf((8 - f) / (9 - f)))
        if f == 8:
            np.testing.assert_allclose(told[0], values[8])


@pytest.mark.thorough
@pytest.mark.parametrize("name", EVERY)
def test_without_honest_senders_or_with_one_all_stays_a_number(name, dtype):
    attack = EVERY[name](who=BAD)
    values = np.nan_to_num(honest_values(dtype=dtype), nan=1.0)
    memory = attack.init(jnp.asarray(values))
    if name == "stale":
        _, memory = tell(attack, 2 * values)
    for honest in (0, 1, 2):
        bad = np.arange(K) >= honest
        for present in (np.ones(K, bool), ~bad, np.zeros(K, bool)):

            def total(v, attack, bad=bad, present=present):
                told, _ = tell(attack, v, bad, present, memory)
                return jnp.sum(told**2), told

            (_, told), slopes = jax.value_and_grad(total, (0, 1), has_aux=True, allow_int=True)(
                jnp.asarray(values), attack
            )
            assert told.dtype == dtype
            assert np.isfinite(told).all()
            floating = [s for s in jax.tree.leaves(slopes) if s.dtype != jax.dtypes.float0]
            assert all(np.isfinite(s).all() for s in floating)
            if not present.any():
                np.testing.assert_array_equal(told, values)
        same = np.ones_like(values)  # nobody differs from anybody
        slope = jax.grad(lambda v: tell(attack, v, BAD, memory=memory)[0].sum())(jnp.asarray(same))
        assert np.isfinite(slope).all()


def lying(shares, number):
    """Return how many lie of each share."""
    key = jax.random.key(0)
    draw = jax.vmap(lambda share: messages.byzantine(share).draw(jax.random.clone(key), number))
    return jax.jit(draw)(shares).sum(1)


def test_a_share_is_rounded_down_whatever_binary_fractions_do():
    hundredths = np.arange(100) / 100
    np.testing.assert_array_equal(lying(jnp.asarray(hundredths, jnp.float32), 100), range(100))


@pytest.mark.thorough
def test_liars_are_uniform_and_a_larger_share_only_adds_some():
    keys = jax.random.split(jax.random.key(1), 4000)

    def draw(share):
        drawn = jax.vmap(lambda key: messages.byzantine(share).draw(key, 10))
        return np.asarray(drawn(jax.random.clone(keys)))

    few, many = draw(0.3), draw(0.6)
    np.testing.assert_array_equal(few.sum(1), 3)
    np.testing.assert_allclose(few.mean(0), 0.3, atol=0.035)
    together = np.mean(few[:, 0] & few[:, 1])
    assert together == pytest.approx(3 / 10 * 2 / 9, abs=0.02)
    assert np.all(many[few])


def test_named_liars_are_exactly_these_and_nobody_is_none():
    who = messages.sign_flip(who=BAD).who(jax.random.key(0), K)
    np.testing.assert_array_equal(who, BAD)
    honest = messages.no_attack()
    assert not honest.who(jax.random.key(0), K).any()
    values = jnp.ones((K, 2))
    np.testing.assert_array_equal(tell(honest, values)[0], values)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: messages.sign_flip(), "or be left out where who says who is Byzantine"),
        (lambda: messages.mimic(0.1, who=BAD), "or be left out where who says who is Byzantine"),
        (lambda: messages.mimic(1.0), "share must be less than 1, but it is 1"),
        (lambda: messages.mimic(-0.1), "share must be at least 0"),
        (lambda: messages.mimic(0.1, "last"), "whom must be one of"),
        (lambda: messages.scaled_noise(0.1, around="one"), "around must be one of"),
        (lambda: messages.stale_replay(0.1, 0), "age must be at least 1"),
        (
            lambda: messages.sign_flip(who=[1, 0]),
            r"who must be True or False, but its dtype is int32\.",
        ),
        (
            lambda: messages.sign_flip(who=BAD).who(jax.random.key(0), 3),
            r"who must have shape \(3,\), but it has \(9,\)\.",
        ),
    ],
)
def test_mistakes_are_told_in_one_sentence(build, told):
    with pytest.raises(InputError, match=told):
        build()
