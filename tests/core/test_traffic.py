"""Traffic is counted exactly."""

import jax
import numpy as np

import fedjax_admm as fa


def test_totals_are_exact_where_float32_and_int32_are_not():
    active = np.full((3, 10_000), 1000, np.int32)
    book = fa.ledger(fa.Traffic(up=100_001, down=7), active)
    assert book.up.dtype == np.int64
    assert [int(row[-1]) for row in book.up] == [10_000 * 1000 * 100_001] * 3
    assert int(book.down[0, 1]) == 2 * 1000 * 7


def test_a_run_is_paid_by_activations():
    masks = np.zeros((6, 21), bool)
    masks[0, :4] = masks[3, :7] = True
    problem = fa.draw_localization(jax.random.key(0), fa.no_noise())
    solver = fa.fsmdm()
    result = fa.run(
        solver,
        problem,
        jax.random.key(1),
        rounds=6,
        every=3,
        participation=fa.participation.replay(masks),
    )
    book = fa.ledger(solver.traffic(problem), result.trace["messages"])
    np.testing.assert_array_equal(book.up, [4 * 4, 4 * 11])
    np.testing.assert_array_equal(book.down, [3 * 4, 3 * 11])
    assert fa.federated_subgradient().traffic(problem) == fa.Traffic(up=3, down=3)
