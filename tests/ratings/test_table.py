"""Ratings in memory: renumbered, sorted, refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedjax_admm import InputError
from fedjax_admm.ratings import Ratings, _table as table, from_arrays

FAR = 2**63 - 1


def entries_of(seen):
    """What the table says, in terms of the numbers that were given."""
    users, items = seen.user_ids[seen.users], seen.item_ids[seen.items]
    return list(zip(users.tolist(), items.tolist(), seen.values.tolist(), strict=True))


def test_users_and_items_that_occur_are_renumbered():
    seen = from_arrays([9, 7, 7], [1, 4, 1], [3.5, 0, 5])
    assert isinstance(seen, Ratings)
    assert (len(seen), seen.num_users, seen.num_items) == (3, 2, 2)
    np.testing.assert_array_equal(seen.users, [0, 0, 1])
    np.testing.assert_array_equal(seen.items, [0, 1, 0])
    np.testing.assert_array_equal(seen.values, [5, 0, 3.5])  # 0 is a rating
    np.testing.assert_array_equal(seen.user_ids, [7, 9])
    np.testing.assert_array_equal(seen.item_ids, [1, 4])
    *arrays, ignored = (getattr(seen, field.name) for field in dataclasses.fields(seen))
    dtypes = [array.dtype for array in arrays]
    assert ignored == ()
    assert dtypes == [np.int32, np.int32, np.float32, np.int64, np.int64]
    assert [seen.user(9), seen.item(4)] == [1, 1]


NUMBERS = st.sampled_from([0, 1, 2, 3, 5, 8, 10**7, 10**7 + 20, 2**31, 2**53 + 1, FAR])


@given(st.dictionaries(st.tuples(NUMBERS, NUMBERS), st.integers(-3, 3), min_size=1), st.booleans())
def test_a_table_is_sorted_and_holds_what_was_given(entries, in_order):
    given_ = sorted(entries.items()) if in_order else list(entries.items())
    pairs = np.array([pair for pair, _ in given_])
    users, items = pairs.T
    seen = from_arrays(users, items, [value for _, value in given_])
    assert entries_of(seen) == [(*pair, value) for pair, value in sorted(entries.items())]
    assert sorted({user for user, _ in entries}) == seen.user_ids.tolist()
    assert sorted({item for _, item in entries}) == seen.item_ids.tolist()


@pytest.mark.parametrize("offset", [0, 10**12])  # looked up in a table; searched
def test_many_ratings_go_block_by_block(offset, monkeypatch):
    monkeypatch.setattr(table, "RENUMBERED_AT_ONCE", 7)
    pairs = np.random.default_rng(0).permutation(40 * 30)[:500]
    users, items = np.divmod(pairs, 30)
    seen = from_arrays(3 * users + offset, items, pairs)
    order = np.sort(pairs)
    np.testing.assert_array_equal(seen.user_ids[seen.users], order // 30 * 3 + offset)
    np.testing.assert_array_equal(seen.item_ids[seen.items], order % 30)
    np.testing.assert_array_equal(seen.values, order)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_of_all_kinds(kind):
    largest = min(int(np.iinfo(kind).max), FAR)
    users = np.array([largest, largest - 1, largest], kind)
    seen = from_arrays(users, kind([2, 1, 1]), np.array([1, 2, 3], kind))
    assert entries_of(seen) == [(largest - 1, 1, 2), (largest, 1, 3), (largest, 2, 1)]


def test_the_arrays_given_stay_as_they_are():
    for users in ([1, 2], [2, 1]):
        columns = np.array(users), np.array([1, 2]), np.array([0.5, 1], np.float32)
        copies = [column.copy() for column in columns]
        seen = from_arrays(*columns)
        seen.values[:] = 7
        np.testing.assert_array_equal(columns, copies)


MISTAKES = [
    (([[1]], [1], [1]), "users must have shape (any,), but it has (1, 1)."),
    (
        ([1, 2], [1, 2], [1]),
        "users, items and values must have one entry per rating, but they have [2, 2, 1].",
    ),
    (
        ([], [], []),
        "users, items and values must have one entry per rating, but they have [0, 0, 0].",
    ),
    (
        ([1.5], [1], [1]),
        "users must hold integers, but its dtype is float64; repair numbers such as 1.5, and "
        "convert the whole ones with .astype(int).",
    ),
    (
        ([1], ["a"], [1]),
        "items must hold integers, but its dtype is <U1; repair numbers such as 1.5, and convert "
        "the whole ones with .astype(int).",
    ),
    (
        ([1, -4, 2], [1, 1, 1], [1, 1, 1]),
        "users must not be negative, but entry 1 is -4.",
    ),
    (([1], [1], ["good"]), "values must hold numbers, but its dtype is <U4."),
    (([1], [1], [True]), "values must hold numbers, but its dtype is bool."),
    *[
        (
            ([1, 2], [1, 1], [1.0, value]),
            f"values must be finite in float32, but entry 1 is {value}; remove or repair that "
            "rating.",
        )
        for value in (np.nan, np.inf, -np.inf, 1e39)
    ],
    (
        ([3, 8, 9, 8, 8], [7, 7, 1, 5, 7], [1, 2, 3, 4, 0.5]),
        "ratings, entry 4: user 8 has rated item 7 in entry 1 already, 2 there and 0.5 here; "
        "remove one of the two.",
    ),
    (
        ([1, 1], [2, 2], [3, 3]),
        "ratings, entry 1: user 1 has rated item 2 in entry 0 already, 3 there and 3 here; remove "
        "one of the two.",
    ),
]


@pytest.mark.parametrize(("columns", "sentence"), MISTAKES)
def test_mistakes_get_a_sentence(columns, sentence):
    with pytest.raises(InputError) as caught:
        from_arrays(*columns)
    assert str(caught.value) == sentence


def test_the_earliest_repetition_is_named():
    users, items = np.divmod(np.append(np.arange(99, -1, -1), [70, 3]), 10)
    with pytest.raises(InputError, match="entry 100: user 7 has rated item 0 in entry 29 already"):
        from_arrays(users, items, np.arange(102))


@pytest.mark.parametrize(
    ("identity", "sentence"),
    [
        (5, "user must be one of the 3 that occur, from 2 to 9, but it is 5; take 4 or 9."),
        (1, "user must be one of the 3 that occur, from 2 to 9, but it is 1; take 2."),
        ("four", "user must be a whole number, but it is 'four'."),
    ],
)
def test_unknown_users_get_a_sentence(identity, sentence):
    seen = from_arrays([4, 2, 9], [1, 1, 1], [1, 1, 1])
    with pytest.raises(InputError) as caught:
        seen.user(identity)
    assert str(caught.value) == sentence
    with pytest.raises(InputError, match="item must be one of the 1 that occur"):
        seen.item(3)
