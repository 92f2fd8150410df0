"""Traffic is counted exactly."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import fedjax_admm as fa


def test_totals_are_exact_where_float32_and_int32_are_not():
    active = np.full((3, 10_000), 1000, np.int32)
    sent = fa.traffic.totals(fa.Traffic(up=100_001, down=7), active)
    assert sent.up.dtype == np.int64
    assert [int(row[-1]) for row in sent.up] == [10_000 * 1000 * 100_001] * 3
    assert int(sent.down[0, 1]) == 2 * 1000 * 7


def test_a_run_is_paid_by_activations():
    masks = np.zeros((6, 21), bool)
    masks[0, :4] = masks[3, :7] = True
    problem = fa.problems.draw_localization(jax.random.key(0), fa.problems.no_noise())
    solver = fa.solvers.fsmdm()
    result = fa.run(
        solver,
        problem,
        jax.random.key(1),
        rounds=6,
        every=3,
        participation=fa.participation.replay(masks),
    )
    sent = fa.traffic.totals(solver.traffic(problem), result.trace["messages"])
    np.testing.assert_array_equal(sent.up, [4 * 4, 4 * 11])
    np.testing.assert_array_equal(sent.down, [3 * 4, 3 * 11])
    assert fa.solvers.fed_subgradient().traffic(problem) == fa.Traffic(up=3, down=3)


def test_what_is_sent_before_the_first_round_counts_from_the_first_record():
    sent = fa.traffic.totals(fa.Traffic(up=3, down=2, before=100), [[1, 0, 4], [0, 0, 0]])
    np.testing.assert_array_equal(sent.up, [[103, 103, 115], [100, 100, 100]])
    np.testing.assert_array_equal(sent.down, [[2, 2, 10], [0, 0, 0]])


def test_a_broadcast_is_paid_per_round():
    """Whoever sends; two trials with the same records."""
    traffic = fa.Traffic(up=3, down=2, broadcast=1000)
    sent = fa.traffic.totals(traffic, [[1, 0, 4], [0, 0, 0]], rounds=np.int32([2, 4, 10]))
    np.testing.assert_array_equal(sent.up, [[3, 3, 15], [0, 0, 0]])
    np.testing.assert_array_equal(sent.down, [[2002, 4002, 10010], [2000, 4000, 10000]])


def test_broadcasts_are_exact_where_int32_is_not():
    traffic = fa.Traffic(up=0, down=0, broadcast=23_101_000, before=2**40)
    sent = fa.traffic.totals(traffic, np.zeros(2, np.int32), rounds=np.int32([1, 10**6]))
    np.testing.assert_array_equal(sent.down, [23_101_000, 23_101_000 * 10**6])
    np.testing.assert_array_equal(sent.up, 2**40)
    assert sent.up.dtype == sent.down.dtype == np.int64


def test_rounds_are_needed_for_broadcasts_only():
    with pytest.raises(fa.InputError) as caught:
        fa.traffic.totals(fa.Traffic(up=1, down=1, broadcast=1), [1, 2])
    assert str(caught.value) == (
        "rounds must be given, because this solver broadcasts in every round; pass "
        'trace["round"] of the run.'
    )
    plain = fa.Traffic(up=1, down=5, before=7)
    for one, other in zip(
        fa.traffic.totals(plain, [1, 2]),
        fa.traffic.totals(plain, [1, 2], rounds=[1, 2]),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_sizes_of_matrix_completion():
    """Numbers per round of Netflix, rank 13, ten of a hundred clients."""
    netflix, sampled = SimpleNamespace(num_items=17_770, num_clients=100), 10
    size = 17_770 * 13
    for options, up, before in (
        ({}, 2 * size, 100 * size),
        ({"combined": True}, size, 100 * size),
        ({"zero_dual": True}, 2 * size, 0),
    ):
        traffic = fa.solvers.fed_mc_admm(rank=13, **options).traffic(netflix)
        assert traffic == fa.Traffic(up=up, down=size, before=before)
    sent = fa.traffic.totals(
        fa.solvers.fed_mc_admm(rank=13, zero_dual=True).traffic(netflix), [sampled]
    )
    assert (sent.up[0], sent.down[0]) == (4_620_200, 2_310_100)
    sent = fa.traffic.totals(fa.solvers.fed_mavg(rank=13).traffic(netflix), [sampled], rounds=[1])
    assert (sent.up[0], sent.down[0]) == (2_310_100, 23_101_000)
    sent = fa.traffic.totals(
        fa.solvers.fed_mavg(rank=13, all_users=False).traffic(netflix), [sampled]
    )
    assert (sent.up[0], sent.down[0]) == (2_310_100, 2_310_100)
