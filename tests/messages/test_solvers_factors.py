"""Solvers of factor models with an exchange: matrices, one per client, that pass it."""

import jax
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, messages, participation, penalties, solvers
from fedjax_admm.ratings import given_start, uniform_start
from tests.reference import fedmc, fedmc_exchanged as reference

ITEMS, RANK, SIZES, ROUNDS, STEPS, BETA, WEIGHT = 9, 2, (6, 1, 4, 5, 3), 15, 2, 3.0, 0.1
MASKS = np.random.default_rng(1).random((ROUNDS, len(SIZES))) < 0.6
MASKS[4] = False
BAD = np.arange(len(SIZES)) == 3


def clients():
    """Return ratings of five clients' users, about half of all."""
    rng = np.random.default_rng(0)
    found = []
    for users in SIZES:
        pairs = rng.permutation(users * ITEMS)[: users * ITEMS // 2 + 1]
        found.append((pairs // ITEMS, pairs % ITEMS, rng.standard_normal(len(pairs))))
    return found


def problem():
    return fa.problems.matrix_completion_of_clients(
        clients(), num_items=ITEMS, members=SIZES, standardize=False
    )


def first_factors():
    rng = np.random.default_rng(2)
    users = [rng.uniform(0, 1, (size, RANK)) for size in SIZES]
    return users, rng.uniform(0, 1, (ITEMS, RANK))


def start():
    users, items = first_factors()
    room = max(SIZES)
    return given_start(np.stack([np.pad(u, ((0, room - len(u)), (0, 0))) for u in users]), items)


def fed_mc_admm(exchange):
    small = penalties.squared_l2(WEIGHT)
    return solvers.fed_mc_admm(
        beta=BETA,
        inner_steps=STEPS,
        start=start(),
        user_penalty=small,
        item_penalty=small,
        exchange=exchange,
    )


def fed_mavg(exchange, all_users=False):
    return solvers.fed_mavg(
        user_steps=STEPS,
        item_steps=STEPS,
        start=start(),
        user_weight=WEIGHT,
        item_weight=WEIGHT,
        all_users=all_users,
        exchange=exchange,
    )


def everything():
    """Return an exchange where everything happens, of which the reference knows the numbers."""
    return messages.exchange(
        messages.differences(messages.top_k(1), step=0.9),
        messages.differences(messages.top_k(1), step=0.9),
        aggregator=messages.trimmed_mean(reference.SHARE, cap=100),
        attack=messages.sign_flip(who=BAD),
        delay=messages.fixed_delay(1),
    )


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("build", [fed_mc_admm, fed_mavg])
def test_equations_hold_where_everything_happens_to_messages(build):
    found = fa.run(
        build(everything()),
        problem(),
        jax.random.key(0),
        rounds=ROUNDS,
        participation=participation.replay(MASKS),
        measure=lambda solver, problem, state: state.factors._asdict(),
    ).trace
    given = clients(), *first_factors(), MASKS, BAD, 0.9
    if build is fed_mc_admm:
        squares = fedmc.L2(WEIGHT)
        wanted = reference.fedmc_admm(*given, BETA, STEPS, squares, squares)
    else:
        wanted = reference.fedmavg(*given, STEPS, WEIGHT)
    np.testing.assert_allclose(found["items"], [V for _, V in wanted], rtol=1e-9, atol=1e-9)
    for i, size in enumerate(SIZES):
        users = [U[i] for U, _ in wanted]
        np.testing.assert_allclose(found["users"][:, i, :size], users, rtol=1e-9, atol=1e-9)
    moved = np.abs(np.diff(found["items"], axis=0)).max((1, 2))
    assert moved[-3:].min() > 1e-4
    assert moved.max() < 10


def test_clients_send_one_matrix_and_its_bits_are_counted():
    size, rank_one = ITEMS * RANK, 32 * (ITEMS + RANK)
    low, sizes = messages.exchange(messages.low_rank(1)), problem()
    assert fed_mc_admm(None).traffic(sizes) == (2 * size, size, 5 * size, 0, None, None)
    assert fed_mc_admm(low).traffic(sizes) == (size, size, 5 * size, 0, rank_one, 32 * size)
    assert fed_mavg(low).traffic(sizes) == (size, size, 0, 0, rank_one, 32 * size)
    assert fed_mavg(low, True).traffic(sizes) == (size, 0, 0, 5 * size, rank_one, 0)
    free = solvers.fed_mc_admm(start=uniform_start(rank=RANK), zero_dual=True, exchange=low)
    assert free.traffic(sizes).before == 0


def test_what_does_not_fit_is_refused():
    for build in (fed_mc_admm, fed_mavg):
        with pytest.raises(InputError, match="exchange"):
            build("qsgd")
    with pytest.raises(InputError, match="all_users"):
        fed_mavg(messages.exchange(down=messages.natural()), all_users=True)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_all_users_fit_and_the_drawn_send():
    """A channel that changes nothing leaves the trajectory; absent clients have fitted, too."""
    process = participation.without_replacement(2)
    exchanges = None, messages.exchange(messages.top_k(ITEMS * RANK))
    plain, sent = (
        fa.run(
            fed_mavg(given, True), problem(), jax.random.key(1), rounds=5, participation=process
        ).state.solver.factors
        for given in exchanges
    )
    for name in ("users", "items"):
        wanted, found = getattr(plain, name), getattr(sent, name)
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
