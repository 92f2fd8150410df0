"""Aggregators: known numbers, loops over receivers, who may lie, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from fedjax_admm import InputError, messages
from fedjax_admm.messages.aggregators._network import MOST, sort_columns
from tests.reference import aggregators as reference

# Our rule, the one of the reference, and what the latter is told.
RULES = {
    "mean": (messages.mean(), reference.mean, {}),
    "median": (messages.coordinate_median(), reference.coordinate_median, {"cap": 3}),
    "trimmed": (messages.trimmed_mean(0.25), reference.trimmed_mean, {"cap": 3, "share": 0.25}),
    "geometric": (messages.geometric_median(), reference.geometric_median, {"cap": 3}),
    "krum": (messages.krum(2), reference.multi_krum, {"bad": 2, "kept": 1}),
    "multi_krum": (
        messages.multi_krum(2, 8),
        reference.multi_krum,
        {"cap": 3, "bad": 2, "kept": 8},
    ),
    "clipping": (
        messages.centred_clipping(1.0, 2),
        reference.centred_clipping,
        {"cap": 3, "radius": 1.0, "steps": 2},
    ),
    "bounding": (messages.norm_bounding(1.0), reference.norm_bounding, {"cap": 3, "radius": 1.0}),
}
ROBUST = ["median", "trimmed", "geometric", "krum", "multi_krum"]
every_rule = pytest.mark.parametrize("name", RULES)


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 21, MOST, MOST + 1])
def test_columns_are_sorted_with_what_belongs_to_them(rows):
    keys = np.random.default_rng(rows).permutation(rows * 3).reshape(rows, 3).astype(np.float32)
    keys[rows // 2 :, 0] = np.inf
    others = np.where(np.isfinite(keys), keys, 7)
    found, along = sort_columns(jnp.asarray(keys), jnp.asarray(others))
    np.testing.assert_array_equal(found, np.sort(keys, axis=0))
    np.testing.assert_array_equal(along, np.where(np.isfinite(found), found, 7))


@jax.jit
def in_groups(aggregator, values, weights, groups, previous):
    return aggregator(values, weights, groups, previous.shape[0], previous)


def at_star(aggregator, values, weights=None):
    """Aggregate at one receiver that stood at 0."""
    values = jnp.asarray(values, float)
    weights = jnp.ones(len(values)) if weights is None else jnp.asarray(weights, float)
    groups, previous = jnp.zeros(len(values), jnp.int32), jnp.zeros((1, values.shape[1]))
    return np.asarray(in_groups(aggregator, values, weights, groups, previous)[0])


def cloud(seed=1, number=10, dim=3):
    return np.random.default_rng(seed).standard_normal((number, dim))


def with_byzantine(number, lie, size=10, seed=1):
    x = cloud(seed, size)
    x[size - number :] = lie
    return x


# ---- Known numbers.

KNOWN = {
    "median": ([-0.479572, 0.126683, 0.273880], [0.009265, 0.701368, 0.405473]),
    "trimmed": ([-0.409829, 0.253602, 0.198679], [-0.051741, 0.611717, 0.450494]),
    "geometric": ([-0.422190, 0.213644, 0.217322], [-0.099578, 0.592379, 0.423620]),
    "krum": (cloud()[9], [-0.536953, 0.581118, 0.364572]),
    "multi_krum": ([-0.317763, 0.271222, 0.142373], [-0.299439, 0.406275, 0.241048]),
    "bounding": ([-0.301462, 0.202115, 0.151612], [-0.061840, 0.353308, 0.250632]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_numbers_of_a_clean_cloud_and_of_one_with_two_liars(name, x64):
    clean, bad = KNOWN[name]
    aggregator = messages.trimmed_mean(0.2) if name == "trimmed" else RULES[name][0]
    np.testing.assert_allclose(at_star(aggregator, cloud()), clean, atol=6e-7)
    np.testing.assert_allclose(at_star(aggregator, with_byzantine(2, 100)), bad, atol=6e-7)


# Quadratics with centres b and curvatures h, and what consensus ADMM finds with weights s.
ADMM = {
    "mean": [(0.353386, -0.378795), (0.410565, -0.277417), (0.410565, -0.277417), None],
    "median": [
        (0.281211, -0.522748),
        (0.281211, -0.522748),
        (0.454958, -0.310557),
        (0.454958, -0.310557),
    ],
    "trimmed": [
        (0.229018, -0.418702),
        (0.304629, -0.386466),
        (0.370403, -0.366836),
        (0.546568, -0.099771),
    ],
    "geometric": [
        (0.293677, -0.506746),
        (0.293677, -0.506746),
        (0.380311, -0.407653),
        (0.476318, -0.284008),
    ],
}


# ---- Receivers.


def ragged(dtype=float):
    """Return five receivers, of which two hear nobody; absences and what is not finite."""
    rng = np.random.default_rng(3)
    groups = rng.permutation(np.repeat([0, 1, 2, 4], [9, 1, 3, 12])).astype(np.int32)
    values = rng.standard_normal((25, 2))
    weights = rng.lognormal(0, 1.5, 25)
    weights[groups == 2] = 0
    silent = np.flatnonzero(groups == 4)[:3]
    weights[silent] = 0
    values[weights == 0] = np.nan
    values[silent[0]] = np.inf
    previous = rng.standard_normal((5, 2))
    return [np.asarray(a, dtype) for a in (values, weights)], groups, previous.astype(dtype)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", ["median", *(name for name in RULES if name != "median")])
def test_ragged_groups_with_absences_equal_a_loop_over_receivers(name, x64):
    (values, weights), groups, previous = ragged()
    if name != "mean":  # which passes it on
        values[np.flatnonzero((groups == 0) & (weights > 0))[0], 0] = -np.inf
    aggregator, rule, told = RULES[name]
    found = in_groups(aggregator, *map(jnp.asarray, (values, weights, groups, previous)))
    wanted = reference.by_receivers(rule, values, weights, groups, 5, previous, **told)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(found[jnp.array([2, 3])], previous[2:4])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mean", *ROBUST])
def test_rules_follow_a_shift_and_a_stretch(name, x64):
    x, shift = cloud(7, 13), np.array([5.0, -3.0, 100.0])
    aggregator = RULES[name][0]
    moved = at_star(aggregator, shift + 40 * x)
    np.testing.assert_allclose(moved, shift + 40 * at_star(aggregator, x), rtol=1e-9)


# ---- Votes.


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mean", "median", "trimmed", "geometric"])
def test_whole_weights_are_repeated_vectors(name, x64):
    build = {
        "mean": messages.mean,
        "median": lambda: messages.coordinate_median(cap=np.inf),
        "trimmed": lambda: messages.trimmed_mean(0.17, cap=np.inf),
        "geometric": lambda: messages.geometric_median(cap=np.inf),
    }[name]
    for seed in range(4):
        x, votes = cloud(seed, 12), np.random.default_rng(seed).integers(1, 6, 12)
        repeated = at_star(build(), np.repeat(x, votes, 0))
        np.testing.assert_allclose(at_star(build(), x, votes), repeated, rtol=1e-9)


@pytest.mark.thorough
def test_equal_votes_of_any_size_have_the_usual_median():
    x = jnp.asarray(cloud(8, 40, 4), jnp.float32)
    numbers = np.arange(1, 41)
    sizes = np.array([1.0, 0.1, 1 / 3, 1e-3, 7.7, 1e6])
    weights = sizes[:, None, None] * (np.arange(40) < numbers[:, None])

    def median(votes):
        at = jnp.zeros(40, jnp.int32)
        return messages.coordinate_median()(x, votes, at, 1, jnp.zeros((1, 4)))[0]

    found = jax.jit(jax.vmap(jax.vmap(median)))(jnp.asarray(weights, jnp.float32))
    wanted = np.stack([np.median(x[:number], 0) for number in numbers])
    np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=1e-6)


@pytest.mark.thorough
def test_unequal_votes_move_the_median(x64):
    x = np.arange(4.0)[:, None]
    for votes, wanted in [((1, 1, 1, 3), 2.5), ((1, 1, 1, 2.9), 2), ((1, 1, 1, 3.1), 3)]:
        assert at_star(messages.coordinate_median(cap=np.inf), x, votes) == wanted
    # 0.1 + 0.1 + 0.3 is not half of the sum to the last bit.
    for votes, wanted in [((0.1, 0.2, 0.2, 0.1), 1.5), ((0.1, 0.1, 0.3, 0.5), 2.5)]:
        assert at_star(messages.coordinate_median(cap=np.inf), x, votes) == wanted


@pytest.mark.thorough
def test_who_claims_a_large_weight_gets_the_cap():
    """At a cap of 3 two that claim all are outvoted by seven others, not by five."""
    median = messages.coordinate_median()
    for others, held in [(7, True), (5, False)]:
        x = with_byzantine(2, 1e6, others + 2)
        weights = np.r_[np.ones(others), 1e20, np.inf]
        assert (np.abs(at_star(median, x, weights)).max() < 10) == held
    alone = np.r_[np.ones(8), 1e20]
    assert np.abs(at_star(median, with_byzantine(1, 1e6, 9), alone)).max() < 10
    assert (
        at_star(messages.coordinate_median(cap=np.inf), with_byzantine(1, 1e6, 9), alone)[0] == 1e6
    )


@pytest.mark.thorough
def test_a_share_of_f_of_n_cuts_exactly_f_at_each_end(dtype):
    """Of 1e30, no part may stay by rounding."""
    cases = [(n, f) for n in range(3, 42) for f in range((n + 1) // 2)]
    x = np.random.default_rng(9).standard_normal((len(cases), 41, 1))
    weights = np.zeros((len(cases), 41))
    wanted = []
    for row, (n, f) in enumerate(cases):
        weights[row, :n] = 0.1
        wanted.append(x[row, f : n - f].mean() if f else x[row, :n].mean())
        x[row, :f], x[row, n - f : n] = -1e30, 1e30

    def trimmed(values, votes, share):
        rule = messages.trimmed_mean(share)
        return rule(values, votes, jnp.zeros(41, jnp.int32), 1, jnp.zeros((1, 1), dtype))[0, 0]

    shares = np.array([f / n for n, f in cases])
    found = jax.jit(jax.vmap(trimmed))(*(jnp.asarray(a, dtype) for a in (x, weights, shares)))
    np.testing.assert_allclose(found, wanted, atol=300 * float(jnp.finfo(dtype).eps))


# ---- Liars.

LIES = [1e6, -1e30, 3e38, np.inf, -np.inf, np.nan]


def test_half_of_the_votes_moves_a_median_and_less_does_not():
    median = messages.coordinate_median()
    honest = cloud(1, 11)[:6].astype(np.float32)
    for lie in LIES:
        found = at_star(median, with_byzantine(5, lie, 11))
        assert np.all((honest.min(0) <= found) & (found <= honest.max(0)))
    assert np.all(at_star(median, with_byzantine(6, 1e6, 11)) == 1e6)


@pytest.mark.thorough
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("held", [2, 5])
def test_a_trimmed_mean_holds_up_to_its_share(held, lie):
    trimmed = messages.trimmed_mean(held / 11)
    honest = cloud(1, 11)[: 11 - held].astype(np.float32)
    found = at_star(trimmed, with_byzantine(held, lie, 11))
    assert np.all((honest.min(0) <= found) & (found <= honest.max(0)))
    assert np.all(at_star(trimmed, with_byzantine(held + 1, 1e6, 11)) > 1e4)


@pytest.mark.thorough
@pytest.mark.parametrize("lie", LIES)
def test_a_geometric_median_holds_below_half(lie):
    honest = cloud(1, 11)[:6]
    found = at_star(messages.geometric_median(), with_byzantine(5, lie, 11))
    # The bound of the exact one: 2 (n - f) / (n - 2 f) times the radius of the honest.
    spread = np.linalg.norm(honest - honest.mean(0), axis=1).max()
    assert np.linalg.norm(found - honest.mean(0)) < 12 * spread
    moved = at_star(messages.geometric_median(), with_byzantine(6, 1e6, 11))
    np.testing.assert_allclose(moved, 1e6, rtol=1e-3)


@pytest.mark.thorough
def test_the_geometric_median_forgets_how_far_away_the_liars_are(x64):
    """After a fixed number of steps, too: from the mean they would keep a hold on it."""
    found = [
        at_star(messages.geometric_median(), with_byzantine(4, lie)) for lie in (1e8, 1e12, 1e30)
    ]
    np.testing.assert_allclose(found[0], found[2], atol=1e-6)
    np.testing.assert_allclose(found[1], found[2], atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("lie", LIES)
def test_krum_chooses_an_honest_vector_up_to_what_it_is_told(lie):
    honest = cloud(1, 11)[:7].astype(np.float32)
    assert at_star(messages.krum(4), with_byzantine(4, lie, 11)).tolist() in honest.tolist()
    found = at_star(messages.multi_krum(4, 7), with_byzantine(4, lie, 11))
    np.testing.assert_allclose(found, honest.mean(0), rtol=1e-5)
    # Six that agree have five near ones each, at no distance.
    assert np.all(at_star(messages.krum(4), with_byzantine(6, 1e6, 11)) == 1e6)


@pytest.mark.thorough
def test_the_mean_is_moved_by_one_and_passes_on_what_is_not_finite():
    assert np.all(at_star(messages.mean(), with_byzantine(1, 1e6)) > 1e4)
    assert np.isnan(at_star(messages.mean(), with_byzantine(1, np.nan))).all()


@pytest.mark.thorough
@pytest.mark.parametrize("lie", [1e6, 1e30, 3e38])
def test_liars_move_what_is_shortened_by_their_share_of_the_radius(lie):
    silent = at_star(messages.norm_bounding(2.0), with_byzantine(3, 0))
    told = at_star(messages.norm_bounding(2.0), with_byzantine(3, lie))
    np.testing.assert_allclose(np.linalg.norm(told - silent), 0.3 * 2, rtol=1e-5)

    clip, x = messages.centred_clipping(2.0), jnp.asarray(with_byzantine(3, lie), jnp.float32)
    at = jnp.zeros(10, jnp.int32)
    honest = in_groups(clip, x, jnp.ones(10).at[7:].set(0), at, jnp.zeros((1, 3)))
    first = in_groups(clip, x, jnp.ones(10), at, jnp.zeros((1, 3)))
    np.testing.assert_allclose(first, 0.7 * honest + 0.3 * 2 / np.sqrt(3), rtol=1e-5)
    # Round after round it goes on, where the Byzantine senders are more than half.
    many, v = jnp.asarray(with_byzantine(6, lie), jnp.float32), jnp.zeros((1, 3))
    for _ in range(50):
        v = in_groups(clip, many, jnp.ones(10), at, v)
    assert jnp.linalg.norm(v) > 15


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["median", "trimmed", "geometric", "krum", "multi_krum", "bounding"]
)
def test_who_sends_what_is_not_finite_counts_as_absent(name):
    told = at_star(RULES[name][0], with_byzantine(2, np.nan))
    np.testing.assert_array_equal(told, at_star(RULES[name][0], cloud(), np.arange(10) < 8))


# ---- The geometric median and Krum.


@pytest.mark.thorough
def test_steps_of_weiszfeld_never_increase_what_they_minimise(x64):
    rng = np.random.default_rng(10)
    x, s = rng.standard_cauchy((15, 3)), rng.uniform(0.5, 1.2, 15)
    path, nu = reference.weiszfeld(x, s, 0.5, 32)
    apart = np.linalg.norm(x - path[:, None], axis=2)
    sums = np.where(apart >= nu, apart, apart**2 / (2 * nu) + nu / 2) @ s
    assert np.all(np.diff(sums) <= 1e-12 * sums[0])
    for steps in (1, 4, 32):
        found = at_star(messages.geometric_median(0.5, steps), x, s)
        np.testing.assert_allclose(found, path[steps], rtol=1e-10)


@pytest.mark.thorough
def test_the_geometric_median_is_where_directions_cancel(x64):
    x, s = cloud(11, 15), np.random.default_rng(11).uniform(0.5, 1.2, 15)
    gaps = at_star(messages.geometric_median(steps=200), x, s) - x
    pull = s @ (gaps / np.linalg.norm(gaps, axis=1, keepdims=True))
    np.testing.assert_allclose(pull, 0, atol=1e-8)
    # A majority at one point is where it stands.
    x[:8] = 3
    np.testing.assert_array_equal(at_star(messages.geometric_median(), x), 3)


@pytest.mark.thorough
def test_krum_takes_the_lowest_index_at_ties_and_as_many_neighbours_as_it_is_told(x64):
    x = np.repeat(np.arange(3.0), 5)[:, None]  # each value has four others at no distance
    weights = np.arange(15) >= 6
    assert at_star(messages.krum(3, neighbours=4), x, np.ones(15)) == 0
    assert at_star(messages.krum(3, neighbours=4), x, weights) == 1 + 1  # only 9 of 1.0 are gone
    x, s = cloud(77, 11), np.ones(11)  # where one neighbour more or less chooses others
    for bad, neighbours, same in [(0, None, 9), (3, None, 6), (3, 5, 5), (3, 100, 10)]:
        found = at_star(messages.multi_krum(bad, 3, neighbours), x)
        wanted = reference.multi_krum(x, s, bad, 3, same)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.thorough
def test_krum_of_too_few_is_finite_and_refused_where_they_can_be_counted():
    assert np.isfinite(at_star(messages.krum(5), cloud()[:4])).all()
    assert np.isfinite(at_star(messages.krum(5), cloud()[:1])).all()
    messages.krum(2).check(7)
    messages.coordinate_median().check(1)
    with pytest.raises(
        InputError, match=r"^bad must have .* is 2 and a group has 6; take at most 1"
    ):
        messages.krum(2).check(6)
    with pytest.raises(InputError, match=r"a group has 2; take coordinate_median"):
        messages.krum(0).check(2)


# ---- Transformations.


def finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


@pytest.mark.thorough
@every_rule
def test_derivatives_are_finite_at_ties_at_no_distance_and_beside_absent_and_huge_vectors(name):
    def objective(aggregator, values, weights, previous):
        at = jnp.array([0] * 8 + [1] * 4, jnp.int32)
        found = aggregator(values, weights, at, 3, previous)
        return jnp.sum(jnp.where(jnp.isfinite(found), found, 0) ** 2)

    slopes = jax.jit(jax.grad(objective, argnums=(0, 1, 2, 3)))
    same = np.ones((12, 2), np.float32)
    mixed = cloud(14, 12, 2).astype(np.float32)
    absent, huge, infinite, tiny = mixed.copy(), mixed.copy(), mixed.copy(), 1e-30 * mixed
    absent[[1, 8, 9, 10, 11]] = np.nan
    huge[5], huge[6] = 1e30, -3e38
    infinite[5, 0] = np.inf
    weights = np.ones(12, np.float32)
    there = np.where(np.isnan(absent[:, 0]), 0, weights).astype(np.float32)
    previous = np.ones((3, 2), np.float32)
    cases = [(same, weights), (0 * same, weights), (absent, there), (tiny, weights)]
    if name != "mean":
        cases += [(infinite, weights)]
    if name not in ("mean", "trimmed", "multi_krum"):  # which two of eight take with them
        cases += [(huge, weights)]
    for case, (values, votes) in enumerate(cases):
        found = slopes(RULES[name][0], values, votes, previous)
        assert finite(found), (case, found)
    by_values, by_last = (slopes(RULES[name][0], absent, there, previous)[i] for i in (1, 3))
    np.testing.assert_array_equal(by_values[there == 0], 0)
    np.testing.assert_array_equal(by_last[1:], 2)


@pytest.mark.thorough
@every_rule
def test_derivatives_equal_differences(name, x64):
    x, s = jnp.asarray(cloud(15, 9, 2)), jnp.asarray(np.random.default_rng(15).uniform(1, 4, 9))
    at = jnp.zeros(9, jnp.int32)

    def found(aggregator, values, weights):
        return aggregator(values, weights, at, 1, jnp.ones((1, 2)) / 3)

    check_grads(jax.jit(found), (RULES[name][0], x, s), order=1, modes=["rev"], rtol=1e-4)


# ---- Builders.


def test_what_cannot_be_is_refused_in_a_sentence():
    for build, told in [
        (lambda: messages.trimmed_mean(0.5), r"share must be less than 0\.5, but it is 0\.5\."),
        (lambda: messages.trimmed_mean(-0.1), r"^share must be at least 0"),
        (lambda: messages.geometric_median(0.0), r"^smoothing must be greater than 0"),
        (lambda: messages.geometric_median(steps=0), r"^steps must be at least 1"),
        (lambda: messages.krum(-1), r"^bad must be at least 0"),
        (lambda: messages.krum(1, neighbours=0), r"^neighbours must be at least 1"),
        (lambda: messages.multi_krum(1, 0), r"^kept must be at least 1"),
        (lambda: messages.coordinate_median(cap=0.5), r"^cap must be at least 1"),
    ]:
        with pytest.raises(InputError, match=told):
            build()
