"""Solvers of factor models with an exchange: matrices, one per client, that pass it."""

from dataclasses import dataclass

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, messages, participation, solvers
from fedjax_admm.ratings import uniform_start
from tests.bits import same_bits
from tests.messages.loud import Loud

ITEMS, RANK, SIZES, ROUNDS = 9, 2, (6, 1, 4, 5, 3), 15


def problem():
    """Return ratings of five clients' users, about half of all."""
    rng = np.random.default_rng(0)
    clients = []
    for users in SIZES:
        pairs = rng.permutation(users * ITEMS)[: users * ITEMS // 2 + 1]
        clients.append((pairs // ITEMS, pairs % ITEMS, rng.standard_normal(len(pairs))))
    return fa.problems.matrix_completion_of_clients(
        clients, num_items=ITEMS, members=SIZES, standardize=False
    )


def fedmc(exchange=None, **options):
    start = uniform_start(1.0, rank=RANK)
    return solvers.fedmc_admm(beta=3.0, inner_steps=2, start=start, exchange=exchange, **options)


def fedmavg(exchange=None, all_users=False):
    start = uniform_start(1.0, rank=RANK)
    return solvers.fedmavg(
        user_steps=2, item_steps=2, start=start, all_users=all_users, exchange=exchange
    )


def end(solver, process=None, rounds=ROUNDS, **options):
    key = jax.random.key(1)
    return fa.run(solver, problem(), key, rounds=rounds, participation=process, **options)


@dataclass(frozen=True)
class Sizes:
    """What traffic is counted by."""

    num_items: int = ITEMS
    num_clients: int = len(SIZES)


def test_clients_send_one_matrix_and_its_bits_are_counted():
    size, rank_one = ITEMS * RANK, 32 * (ITEMS + RANK)
    low = messages.exchange(messages.low_rank(1))
    assert fedmc().traffic(Sizes()) == (2 * size, size, 5 * size, 0, None, None)
    assert fedmc(low).traffic(Sizes()) == (size, size, 5 * size, 0, rank_one, 32 * size)
    assert fedmc(low, zero_dual=True).traffic(Sizes()).before == 0
    assert fedmavg(low).traffic(Sizes()) == (size, size, 0, 0, rank_one, 32 * size)
    assert fedmavg(low, True).traffic(Sizes()) == (size, 0, 0, 5 * size, rank_one, 0)


def test_what_does_not_fit_is_refused():
    for build in (fedmc, fedmavg):
        with pytest.raises(InputError, match="exchange"):
            build("qsgd")
    with pytest.raises(InputError, match="all_users"):
        fedmavg(messages.exchange(down=messages.natural()), all_users=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("build", "process"),
    [(fedmc, participation.bernoulli(0.5)), (fedmavg, participation.without_replacement(2))],
)
def test_a_channel_that_changes_nothing_leaves_the_trajectory(build, process):
    with jax.enable_x64(True):
        plain, loud = (
            end(build(given), process) for given in (None, messages.exchange(Loud(), Loud()))
        )
        found, wanted = loud.state.solver, plain.state.solver
        chex.assert_trees_all_close(found.factors, wanted.factors, rtol=1e-11, atol=1e-12)
        if build is fedmc:
            chex.assert_trees_all_close(found.clients, wanted.clients, rtol=1e-11, atol=1e-12)
        assert np.all(np.isfinite(plain.estimate))
        sent = int(np.sum(plain.trace["messages"]))
        assert int(jnp.sum(found.post.up[0].channel)) == sent
        assert int(jnp.sum(found.post.down[0])) == sent


@pytest.mark.thorough
def test_all_users_read_everything_and_the_drawn_send():
    with jax.enable_x64(True):
        process = participation.without_replacement(2)
        plain, loud = (
            end(fedmavg(given, True), process) for given in (None, messages.exchange(Loud()))
        )
        found, wanted = loud.state.solver, plain.state.solver
        chex.assert_trees_all_close(found.factors, wanted.factors, rtol=1e-11, atol=1e-12)
        assert int(jnp.sum(found.post.up[0].channel)) == 2 * ROUNDS


@pytest.mark.thorough
def test_both_ends_hold_the_same_whatever_the_channel_loses():
    solver = fedmc(messages.exchange(messages.low_rank(1), messages.differences(messages.qsgd(4))))
    run = end(solver, participation.bernoulli(0.5))
    state = run.state.solver
    uploads = state.clients.copies + state.clients.duals / solver.beta
    box = state.post.up[0]
    np.testing.assert_allclose(box.known, uploads, atol=1e-5)
    np.testing.assert_allclose(box.last[0], jnp.mean(uploads, 0), atol=1e-5)
    assert np.linalg.matrix_rank(np.asarray(box.known), tol=1e-4).max() == 1


@pytest.mark.thorough
def test_the_median_bears_a_liar_whom_the_mean_follows():
    lies = messages.constant_message(value=1e3, who=[False, False, True, False, False])
    median, mean = (
        end(fedmc(messages.exchange(aggregator=rule, attack=lies)), rounds=3).estimate
        for rule in (messages.coordinate_median(), None)
    )
    assert np.max(np.abs(median)) < 10
    assert np.min(np.abs(mean)) > 50


@pytest.mark.thorough
def test_what_is_late_is_heard_later_and_a_run_goes_on_to_the_same_numbers():
    given = messages.exchange(
        messages.top_k(9),
        messages.natural(),
        delay=messages.fixed_delay(2),
        attack=messages.stale_replay(0.2, age=2),
    )
    solver, process = fedmc(given), participation.bernoulli(0.8)

    def seen(solver, problem, state):
        return {"known": state.post.up[0].known, "items": state.items}

    whole = end(solver, process, rounds=6, measure=seen)
    half = end(solver, process, rounds=3, measure=seen)
    # In rounds 1 and 2 nothing arrives, so that all stays as it was at the start.
    for name in ("known", "items"):
        np.testing.assert_array_equal(whole.trace[name][0], whole.trace[name][1])
    assert np.any(whole.trace["known"][1] != whole.trace["known"][2])
    assert np.any(whole.trace["items"][1] != whole.trace["items"][2])
    rest = end(solver, process, rounds=3, measure=seen, start=half.state)
    same_bits(rest.state, whole.state)
