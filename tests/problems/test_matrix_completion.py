"""Matrix completion: who holds which ratings, what is learnt from, units, mistakes."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.problems import matrix_completion, matrix_completion_of_clients
from fedjax_admm.problems._rating_split import share_of
from fedjax_admm.ratings import DrawnRatings, Ratings, from_arrays
from fedjax_admm.ratings.blocks import BLOCK

USERS, ITEMS, CLIENTS = 61, 30, 7


def table():
    """Whole numbers from 0 to 5; every user and item occurs."""
    rng = np.random.default_rng(0)
    seen = rng.random((USERS, ITEMS)) < rng.uniform(0.1, 0.9, (USERS, 1))
    seen[:, 0] = seen[0] = True
    users, items = np.nonzero(seen)
    return from_arrays(users, items, rng.integers(0, 6, users.size))


TABLE = table()


def other_values(values):
    """The same users and items, so that nothing is compiled again."""
    values = np.broadcast_to(np.float32(values), len(TABLE))
    return Ratings(TABLE.users, TABLE.items, values, TABLE.user_ids, TABLE.item_ids)


def some_present(present):
    """The same users and items, some of which are not there and hold nonsense."""
    users, items = (np.where(present, part, 0) for part in (TABLE.users, TABLE.items))
    order = np.argsort(~present, kind="stable")
    columns = (users, items, np.where(present, TABLE.values, 1e6), present)
    return DrawnRatings(*(jnp.asarray(part[order]) for part in columns), USERS, ITEMS)


def build(source=TABLE, seed=0, **options):
    return matrix_completion(source, jax.random.key(seed), clients=CLIENTS, **options)


@cache
def cached(**options):
    return build(**options)


def as_lists(listed):
    """Users, items and values of every client, without padding."""
    clients = []
    for first, count in zip(np.asarray(listed.first), np.asarray(listed.counts), strict=True):
        blocks = slice(int(first), int(first) - int(-count // BLOCK))
        columns = (listed.users, listed.items, listed.values)
        clients.append(tuple(np.asarray(part[blocks]).ravel()[:count] for part in columns))
    return clients


def as_table(problem, listed):
    """Rows (client, user, item, rating) by user and item, in the numbers and units of the file."""
    who = {int(place): user for user, place in enumerate(np.asarray(problem.places))}
    mean, deviation = float(problem.mean), float(problem.deviation)
    rows = [
        (client, who[client * problem.users_per_client + int(user)], int(item), value)
        for client, lists in enumerate(as_lists(listed))
        for user, item, value in zip(*lists, strict=True)
    ]
    rows = np.array(sorted(rows, key=lambda row: row[1:3]), float).reshape(-1, 4)
    rows[:, 3] = np.round(rows[:, 3] * deviation + mean, 4)
    return rows


def content(problem):
    """Return what a problem holds; how much room its lists have depends on how it was drawn."""
    parts = []
    for part in (problem.by_user, problem.by_item, problem.held_out):
        there = np.asarray(part.items) < ITEMS
        parts += [np.asarray(v)[there] for v in (part.users, part.items, part.values)]
        parts.append(part.counts)
    parts += [problem.members, problem.mean, problem.deviation, problem.places]
    return parts + ([] if problem.tuning is None else content(problem.tuning))


def alike(one, other):
    """Whether two problems hold the same, up to the last digit of the units."""
    pairs = zip(content(one), content(other), strict=True)
    return all(a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1e-6) for a, b in pairs)


def same(one, other):
    """Whether all arrays of two problems agree; the bounds on the largest client may not."""
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


# --- clients ------------------------------------------------------------------------------------


def test_every_user_is_kept():
    problem = cached()
    members = np.asarray(problem.members)
    assert (problem.num_clients, problem.num_items) == (CLIENTS, ITEMS)
    assert problem.users_per_client == 9
    assert members.sum() == USERS
    assert members.max() - members.min() <= 1
    np.testing.assert_array_equal(np.sum(np.asarray(problem.here), 1), members)
    places = np.asarray(problem.places)
    assert places.shape == (USERS,)
    assert len(set(places.tolist())) == USERS
    assert np.all(places % 9 < members[places // 9])


@pytest.mark.parametrize(
    ("share", "standardize"),
    [(0.8, True), (0.7, False)],
)
def test_the_split_is_exact_and_complete(share, standardize):
    problem = cached(train=share, standardize=standardize)
    learnt = as_table(problem, problem.by_user)
    np.testing.assert_array_equal(learnt, as_table(problem, problem.by_item))
    both = np.concatenate([learnt, as_table(problem, problem.held_out)])
    both = both[np.lexsort([both[:, 2], both[:, 1]])]
    wanted = np.stack([TABLE.users, TABLE.items, TABLE.values], -1)
    np.testing.assert_array_equal(both[:, 1:], wanted)
    owners = np.asarray(problem.places)[TABLE.users] // problem.users_per_client
    np.testing.assert_array_equal(both[:, 0], owners)
    for client, size in enumerate(np.bincount(owners, minlength=CLIENTS)):
        assert problem.by_user.counts[client] == math.floor(Fraction(str(share)) * int(size))
        assert problem.by_user.counts[client] + problem.held_out.counts[client] == size


@pytest.mark.parametrize("share", ["0.8", "0.7", "0.9", "0.5", "0.75", "0.6", "0.3", "1"])
def test_shares_of_any_number_are_exact(share):
    sizes = np.arange(200_001)
    wanted = [math.floor(Fraction(share) * n) for n in sizes[:1001].tolist()]
    whole, parts = Fraction(share).denominator, Fraction(share).numerator
    found = np.asarray(share_of(jnp.asarray(sizes, jnp.int32), float(share)))
    np.testing.assert_array_equal(found[:1001], wanted)
    np.testing.assert_array_equal(found, sizes * parts // whole)


def test_lists_are_sorted():
    problem = cached()
    for listed, place in ((problem.by_user, 0), (problem.by_item, 1), (problem.held_out, 0)):
        for lists in as_lists(listed):
            assert np.all(np.diff(lists[place]) >= 0)
        counts = np.asarray(listed.counts)
        assert listed.largest == max(1, -(-counts.max() // BLOCK))


def test_units():
    """Mean 0 and deviation 1 of what is learnt from; the same map for what is held out."""
    problem = cached()
    values = np.concatenate([values for _, _, values in as_lists(problem.by_user)])
    assert np.mean(values, dtype=float) == pytest.approx(0, abs=1e-6)
    assert np.std(values, dtype=float) == pytest.approx(1, rel=1e-6)
    learnt = as_table(problem, problem.by_user)[:, 3]
    assert float(problem.mean) == pytest.approx(np.mean(learnt), rel=1e-6)
    assert float(problem.deviation) == pytest.approx(np.std(learnt), rel=1e-6)
    plain = cached(train=0.7, standardize=False)
    assert (float(plain.mean), float(plain.deviation)) == (0, 1)
    for leaf in (problem.mean, problem.deviation, problem.by_user.values):
        assert leaf.dtype == jnp.float32


# --- the split for hyper-parameters -------------------------------------------------------------


def test_tuning_splits_the_training_ratings_once_more():
    problem = cached(validation=0.25)
    tuning = problem.tuning
    assert tuning.tuning is None
    # Its own units: those of fewer ratings.
    parts = [as_table(tuning, tuning.by_user), as_table(tuning, tuning.held_out)]
    np.testing.assert_array_equal(parts[0], as_table(tuning, tuning.by_item))
    both = np.concatenate(parts)
    both = both[np.lexsort([both[:, 2], both[:, 1]])]
    np.testing.assert_array_equal(both, as_table(problem, problem.by_user))
    judged = {tuple(row[1:3]) for row in as_table(problem, problem.held_out)}
    assert not judged & {tuple(row[1:3]) for row in both}
    for learnt, size in zip(tuning.by_user.counts, problem.by_user.counts, strict=True):
        assert int(learnt) == int(size) * 3 // 4
    assert float(tuning.mean) == pytest.approx(np.mean(parts[0][:, 3]), rel=1e-6)
    assert float(tuning.deviation) == pytest.approx(np.std(parts[0][:, 3]), rel=1e-6)
    np.testing.assert_array_equal(tuning.members, problem.members)
    np.testing.assert_array_equal(tuning.places, problem.places)
    assert tuning.by_user.largest == -(-int(tuning.by_user.counts.max()) // BLOCK)


# --- keys ---------------------------------------------------------------------------------------


def test_the_key_decides():
    assert same(cached(), build())
    other = build(seed=1)
    assert np.any(np.asarray(other.places) != np.asarray(cached().places))
    # Users alike, another split.
    assert not same(cached().by_user, other.by_user)


@pytest.mark.thorough
def test_a_batch_of_keys():
    """As one after another; and who learns what with whom is uniform."""
    seeds = np.arange(300)

    @jax.jit
    @jax.vmap
    def batch(seed):
        return matrix_completion(TABLE, jax.random.key(seed), clients=CLIENTS)

    problems = batch(jnp.asarray(seeds))
    for seed in (0, 1):
        one = jax.tree.map(lambda leaf, i=seed: leaf[i], problems)
        # The order in which a batch adds up decides about the last digit of the units.
        assert alike(one, build(seed=seed))
    owner = np.asarray(problems.places) // 9
    together = np.mean(owner[:, :, None] == owner[:, None, :], 0)[np.triu_indices(USERS, 1)]
    # Five clients of nine users, two of eight: 8 or 7 others of 60.
    chance = (5 * 9 * 8 + 2 * 8 * 7) / (USERS * (USERS - 1))
    spread = np.sqrt(chance * (1 - chance) / len(seeds))
    assert np.mean(together) == pytest.approx(chance, rel=1e-6)
    assert np.std(together) == pytest.approx(spread, rel=0.1)
    learnt = np.zeros(len(TABLE))
    key = TABLE.users * ITEMS + TABLE.items
    arrays = jax.tree.map(np.asarray, problems)
    for i in range(100):
        problem = jax.tree.map(lambda leaf, i=i: leaf[i], arrays)
        there = problem.by_user.items < ITEMS
        blocks = np.arange(len(there))
        client = np.searchsorted(problem.by_user.first, blocks, side="right") - 1
        who = np.zeros(CLIENTS * 9 + 9, int)
        who[problem.places] = np.arange(USERS)
        user = who[client[:, None] * 9 + problem.by_user.users]
        found = (user * ITEMS + problem.by_user.items)[there]
        learnt[np.searchsorted(key, found)] += 1
    assert np.mean(learnt) == pytest.approx(80, abs=1)
    assert np.std(learnt) == pytest.approx(4, rel=0.15)


# --- ratings that are not there -----------------------------------------------------------------


def test_what_is_not_present_is_left_out():
    present = np.random.default_rng(1).random(len(TABLE)) < 0.9
    problem = build(some_present(present))
    both = np.concatenate([as_table(problem, problem.by_user), as_table(problem, problem.held_out)])
    both = both[np.lexsort([both[:, 2], both[:, 1]])]
    wanted = np.stack([TABLE.users, TABLE.items, TABLE.values], -1)[present]
    np.testing.assert_array_equal(both[:, 1:], wanted)
    sizes = np.bincount(both[:, 0].astype(int), minlength=CLIENTS)
    np.testing.assert_array_equal(problem.by_user.counts, sizes * 4 // 5)
    assert float(problem.mean) < 6


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"clients": 62},
            r"clients must be at most the number of users \(61\), but it is 62\.",
        ),
        ({"train": 0}, "train must be a share between 0 and 1, but it is 0"),
    ],
)
def test_mistakes_get_a_sentence(options, sentence):
    arguments = {"key": jax.random.key(0), "clients": CLIENTS} | options
    with pytest.raises(InputError, match=sentence):
        matrix_completion(TABLE, **arguments)


def few_of_each(problem, number):
    """A mask that leaves every client this many ratings."""
    owner = np.asarray(problem.places)[TABLE.users] // problem.users_per_client
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(CLIENTS))
    present = np.zeros(len(TABLE), bool)
    present[order[(starts[:, None] + np.arange(number)).ravel()]] = True
    return present


def test_a_client_with_one_rating_gets_a_sentence():
    one = some_present(few_of_each(cached(), 1))
    sentence = (
        "every client needs a rating to learn from, but client 0 has 1 in all, of which a share "
        "of 0.8 is none; take fewer clients or a larger share"
    )
    with pytest.raises(InputError, match=sentence):
        build(one)
    two = some_present(few_of_each(cached(), 2))
    np.testing.assert_array_equal(build(two).by_user.counts, 1)
    with pytest.raises(InputError, match=r"client 0 has 1 in all, of which a share of 0\.75"):
        build(two, validation=0.25)


@pytest.mark.parametrize("value", [0.0, 3.0, -0.5])
def test_equal_ratings_get_a_sentence(value):
    sentence = f"ratings must not all be equal, but all that are learnt from are {value:g}"
    with pytest.raises(InputError, match=sentence):
        build(other_values(value))


def test_numbers_beyond_int32_get_a_sentence():
    none = jnp.zeros(4, jnp.int32)
    huge = DrawnRatings(none, none, jnp.zeros(4), jnp.ones(4, bool), 8, 2**30)
    sentence = "clients times users or items must be below 2.31, but it is 2147483648"
    with pytest.raises(InputError, match=sentence):
        matrix_completion(huge, jax.random.key(0), clients=2)
    with pytest.raises(InputError, match=sentence):
        matrix_completion_of_clients([GIVEN[0], GIVEN[0]], num_items=2**30)


# --- clients that are given ---------------------------------------------------------------------

GIVEN = [
    ([2, 0, 0], [1, 3, 0], [4.0, 0.0, 5.0]),
    ([0, 0, 1, 1], [3, 1, 1, 0], [1.0, 2.0, 3.0, 3.0]),
    ([0], [4], [0.0]),
]
HELD_OUT = [([0], [1], [2.0]), ([], [], []), ([1, 0], [0, 0], [1.0, 3.0])]


def test_clients_that_are_given():
    given = [tuple(np.array(part) for part in client) for client in GIVEN]
    problem = matrix_completion_of_clients(given, num_items=6, members=[3, 2, 5], held_out=HELD_OUT)
    np.testing.assert_array_equal(problem.members, [3, 2, 5])
    assert (problem.num_clients, problem.users_per_client, problem.num_items) == (3, 5, 6)
    np.testing.assert_array_equal(problem.places, [0, 1, 2, 5, 6, 10, 11, 12, 13, 14])
    values = np.concatenate([client[2] for client in GIVEN])
    assert problem.mean.dtype == problem.by_user.values.dtype == jnp.float32
    assert float(problem.mean) == pytest.approx(values.mean(), rel=1e-6)
    assert float(problem.deviation) == pytest.approx(values.std(), rel=1e-6)
    for listed, wanted, place in (
        (problem.by_user, GIVEN, 0),
        (problem.by_item, GIVEN, 1),
        (problem.held_out, HELD_OUT, 0),
    ):
        for found, client in zip(as_lists(listed), wanted, strict=True):
            order = np.argsort(client[place], kind="stable")
            users, items, raw = (np.array(part)[order] for part in client)
            np.testing.assert_array_equal(found[0], users)
            np.testing.assert_array_equal(found[1], items)
            standard = (raw - values.mean()) / values.std()
            np.testing.assert_allclose(found[2], standard, rtol=0, atol=1e-6)
    assert problem.tuning is None


def test_members_are_those_who_occur():
    """Among what is held out, too."""
    options = {"num_items": 6, "held_out": HELD_OUT, "standardize": False}
    problem = matrix_completion_of_clients(GIVEN, **options)
    np.testing.assert_array_equal(problem.members, [3, 2, 2])
    np.testing.assert_array_equal(as_lists(problem.by_user)[0][2], [0.0, 5.0, 4.0])
    assert (float(problem.mean), float(problem.deviation)) == (0, 1)


def changed(place, part):
    """The given clients with another column in the second one."""
    client = list(GIVEN[1])
    client[place] = part
    return [GIVEN[0], tuple(client), GIVEN[2]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"clients": changed(1, [3, 3, 1, 0])},
            r"clients\[1\] must rate an item once per user, but user 0 rates item 3 2 times",
        ),
        (
            {"held_out": [([2], [1], [2.0]), ([], [], []), ([], [], [])]},
            r"held_out\[0\] must not hold what is learnt from, but user 2 rates item 1 in both",
        ),
        (
            {"clients": changed(1, [0, 1, 2, 6])},
            r"clients\[1\]: items must be from 0 to 5, but entry 3 is 6\.",
        ),
        (
            {"members": [3, 1, 1]},
            r"members must say at least \[3, 2, 1\] users per client, but it is \[3, 1, 1\]",
        ),
    ],
)
def test_mistakes_in_given_clients_get_a_sentence(options, sentence):
    arguments = {"clients": GIVEN, "num_items": 6} | options
    with pytest.raises(InputError, match=sentence):
        matrix_completion_of_clients(**arguments)


def test_with_room_problems_of_one_table_have_one_shape():
    some = build(validation=0.2, room=True)
    problems = [some.tuning, replace(some, tuning=None), build(train=1.0, room=True)]
    shapes = [jax.tree.map(jnp.shape, problem) for problem in problems]
    assert len({str(jax.tree.flatten(shape)) for shape in shapes}) == 1
    plain = build(validation=0.2)
    for wanted, got in ((plain.tuning, some.tuning), (plain, some)):
        for name in ("by_user", "by_item", "held_out"):
            pairs = zip(as_lists(getattr(wanted, name)), as_lists(getattr(got, name)), strict=True)
            for client, other in pairs:
                np.testing.assert_array_equal(client, other)
