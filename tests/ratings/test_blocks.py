"""Ratings in blocks: what a pass visits, how exact a sum is, how much the padding wastes."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm._linear_algebra import compensated_sum
from fedjax_admm.ratings.blocks import BLOCK, ClientRatings, in_blocks

# Nobody, one rating, a block less one, a block, a block and one, many, nobody, few.
COUNTS = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 700, 0, 5]
CLIENTS, WIDTH, ITEMS = len(COUNTS), 9, 50
TOTAL = sum(COUNTS) + 40  # some are not kept


def draw(seed=0, counts=COUNTS):
    """Ratings in no order; those that are not kept have wild numbers."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(CLIENTS), counts)
    owner = np.concatenate([owner, rng.integers(0, CLIENTS, TOTAL - len(owner))])
    users, items = rng.integers(0, WIDTH, TOTAL), rng.integers(0, ITEMS, TOTAL)
    values, keep = np.arange(1.0, TOTAL + 1), np.arange(TOTAL) < sum(COUNTS)
    users, items = (np.where(keep, part, 10**6) for part in (users, items))
    order = rng.permutation(TOTAL)
    return [part[order] for part in (owner, users, items, values, keep)]


@partial(jax.jit, static_argnames="by")
def blocks_of(owner, users, items, values, keep, by):
    return in_blocks(
        *(part.astype(jnp.int32) for part in (owner, users, items)),
        values.astype(float),
        keep,
        by=by,
        clients=CLIENTS,
        users_per_client=WIDTH,
        num_items=ITEMS,
        capacity=sum(COUNTS),
    )


def whose(drawn, client, by):
    """The ratings of a client, sorted; ties in the order in which they were given."""
    owner, users, items, values, keep = drawn
    mine = np.flatnonzero(keep & (owner == client))
    mine = mine[np.argsort({"users": users, "items": items}[by][mine], kind="stable")]
    return users[mine], items[mine], values[mine]


def tight(listed):
    """With the smallest bound on the blocks of a client."""
    return replace(listed, largest=-(-int(listed.counts.max()) // BLOCK))


# --- the layout ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["users", "items"])
def test_blocks_hold_each_client_in_order(by):
    drawn = draw()
    listed = blocks_of(*drawn, by=by)
    np.testing.assert_array_equal(listed.counts, COUNTS)
    for array in (listed.users, listed.items, listed.first, listed.counts):
        assert array.dtype == jnp.int32
    assert (listed.users_per_client, listed.num_items) == (WIDTH, ITEMS)
    padding = np.ones(listed.users.shape, bool)
    for client, count in enumerate(COUNTS):
        blocks = slice(int(listed.first[client]), int(listed.first[client]) - (-count // BLOCK))
        padding[blocks].reshape(-1)[:count] = False
        for array, wanted in zip(
            (listed.users, listed.items, listed.values), whose(drawn, client, by), strict=True
        ):
            np.testing.assert_array_equal(np.asarray(array[blocks]).ravel()[:count], wanted)
    assert np.sum(~padding) == sum(COUNTS)
    np.testing.assert_array_equal(np.asarray(listed.users)[padding], WIDTH)
    np.testing.assert_array_equal(np.asarray(listed.items)[padding], ITEMS)
    np.testing.assert_array_equal(np.asarray(listed.values)[padding], 0)
    assert listed.largest >= -(-max(COUNTS) // BLOCK)


def test_there_is_room_for_clients_that_hardly_fill_their_last_block():
    counts = [BLOCK + 1, 1, 2 * BLOCK + 1, 1, BLOCK + 1, 1, 5 * BLOCK + 1]
    counts.append(sum(COUNTS) - sum(counts))
    listed = blocks_of(*draw(counts=counts), by="users")
    np.testing.assert_array_equal(listed.counts, counts)
    there = np.asarray(listed.items) < ITEMS
    assert np.sum(there) == sum(COUNTS)
    np.testing.assert_array_equal(
        np.sort(np.asarray(listed.values)[there]), np.arange(1, sum(COUNTS) + 1)
    )


# --- a pass -------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="chunk")
def visited(listed: ClientRatings, clients, chunk):
    """Return all that a pass gives to `add` and is no padding, in its order."""
    room = TOTAL * 2

    def add(carry, place, users, items, values):
        number, seen = carry
        there = items < ITEMS
        after = number + jnp.cumsum(there, dtype=jnp.int32)
        at = jnp.where(there, after - 1, room)
        parts = (place.astype(float), users.astype(float), items.astype(float), values)
        seen = seen.at[at].set(jnp.stack(parts, -1), mode="drop")
        # Padding must not reach the value of anything.
        assert place.shape == users.shape == items.shape == values.shape
        return after[-1], seen

    zero = (jnp.zeros((), jnp.int32), jnp.full((room, 4), -1.0))
    number, seen = listed.fold(clients, zero, add, chunk)
    return number, seen


def expected(drawn, clients, by):
    parts = []
    for place, client in enumerate(clients):
        users, items, values = whose(drawn, client, by)
        parts.append(np.stack([np.full(len(users), place), users, items, values], -1))
    return np.concatenate(parts) if parts else np.zeros((0, 4))


def check(found, drawn, clients, by="users"):
    number, seen = found
    wanted = expected(drawn, clients, by)
    assert int(number) == len(wanted)
    np.testing.assert_array_equal(seen[: len(wanted)], wanted)
    np.testing.assert_array_equal(seen[len(wanted) :], -1)


@pytest.mark.thorough
@pytest.mark.parametrize("chunk", [64, 128, 8192])
def test_a_pass_visits_every_rating_once(chunk):
    drawn = draw(1)
    for by in ("users", "items"):
        listed = blocks_of(*drawn, by=by)
        for bound in (listed, tight(listed)):
            everyone = bound.everyone
            assert everyone.dtype == jnp.int32
            check(visited(bound, everyone, chunk), drawn, range(CLIENTS), by)


@pytest.mark.parametrize(
    "clients",
    [
        [5, 3, 0],
        [0, 6, 7],  # without ratings, at both ends
        [7, 6, 5],
        [4, 0, 2],
        [1, 5, 4],
        [0, 6, 0],  # without ratings
    ],
)
def test_a_pass_over_some_clients_keeps_their_order(clients):
    drawn = draw(2)
    listed = tight(blocks_of(*drawn, by="users"))
    check(visited(listed, jnp.asarray(clients, jnp.int32), 128), drawn, clients)


def test_a_batch_of_passes():
    """Over ratings and clients at once, as one after another."""
    draws = [draw(seed) for seed in (4, 5)]
    stacked = [np.stack(parts) for parts in zip(*draws, strict=True)]
    chosen = [[5, 3, 0], [4, 0, 2]]

    @jax.jit
    @jax.vmap
    def batch(clients, *drawn):
        return visited(blocks_of(*drawn, by="users"), clients, 128)

    found = batch(jnp.asarray(chosen, jnp.int32), *stacked)
    for i in range(2):
        check((found[0][i], found[1][i]), draws[i], chosen[i])


def test_a_pass_can_be_differentiated():
    drawn = draw(6)
    listed = tight(blocks_of(*drawn, by="users"))
    clients = jnp.asarray([5, 3, 0], jnp.int32)

    @jax.jit
    @jax.grad
    def slopes(values):
        def add(carry, place, users, items, values):
            return carry + jnp.sum(
                jnp.where(items < ITEMS, (place + 1).astype(float) * values**2, 0)
            )

        return replace(listed, values=values).fold(clients, jnp.zeros(()), add, 128)

    found = np.asarray(slopes(listed.values))
    weight = np.zeros(len(listed.values))
    for place, client in enumerate([5, 3, 0]):
        blocks = -(-COUNTS[client] // BLOCK)
        weight[int(listed.first[client]) :][:blocks] = place + 1
    np.testing.assert_array_equal(found, 2 * weight[:, None] * np.asarray(listed.values))


# --- sums ---------------------------------------------------------------------------------------


@jax.jit
def sum_of_values(listed):
    return listed.total(lambda client, users, items, values: values)


def test_totals_leave_out_padding():
    """Even where the term of padding is not a number."""
    drawn = draw(7)
    listed = blocks_of(*drawn, by="items")

    def term(client, users, items, values):
        whole = (client + 1) * (items - users)
        return jnp.where(items < ITEMS, whole.astype(float) * values, jnp.nan)

    wanted = 0
    for client in range(CLIENTS):
        users, items, values = whose(drawn, client, "items")
        wanted += np.sum((client + 1) * (items - users) * values)
    assert float(jax.jit(lambda listed: listed.total(term))(listed)) == pytest.approx(wanted)
    assert float(sum_of_values(listed)) == sum(COUNTS) * (sum(COUNTS) + 1) / 2


def long_list(values):
    """One client with as many ratings as given, in float32."""
    blocks = len(values) // BLOCK
    return ClientRatings(
        jnp.zeros((blocks, BLOCK), jnp.int32),
        jnp.zeros((blocks, BLOCK), jnp.int32),
        jnp.asarray(values, jnp.float32).reshape(blocks, BLOCK),
        jnp.zeros(1, jnp.int32),
        jnp.asarray([len(values)], jnp.int32),
        1,
        1,
        blocks,
    )


def test_the_total_of_a_million_numbers():
    """What cancels leaves a sum to the rounding of its largest parts."""
    values = np.random.default_rng(8).standard_normal(2**20).astype(np.float32)
    exact = np.sum(values, dtype=np.float64)
    assert abs(float(sum_of_values(long_list(values))) - exact) <= 1e-6 * np.abs(values).sum()


@jax.jit
def repeated(term, number):
    """Add a term again and again: plainly, and compensated."""
    zero = jnp.zeros_like(term)

    def step(_, carry):
        plain, pair = carry
        return plain + term, compensated_sum(pair, term)

    plain, pair = jax.lax.fori_loop(0, number, step, (zero, (zero, zero)))
    return plain, sum(pair)


def test_many_additions_are_as_exact_as_one():
    tenth, number = jnp.float32(0.1), 30_000
    plain, total = repeated(tenth, number)
    exact = number * float(tenth)
    assert abs(float(plain) / exact - 1) > 1e-4
    assert float(total) == pytest.approx(exact, rel=1.2e-7)


def test_small_after_large_and_large_after_small():
    """Both orders of Neumaier's algorithm."""
    total = (jnp.zeros(()), jnp.zeros(()))
    for term in (1.0, 1e20, 1.0, -1e20):
        total = compensated_sum(total, jnp.float32(term))
    assert float(total[0] + total[1]) == 2
