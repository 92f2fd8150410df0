"""`solve networked`: units of models, words of comparisons, numbers in their columns."""

import numpy as np
import pytest

from fedjax_admm.trials.solve.networked._report import compared
from fedjax_admm.trials.solve.networked._rows import standard_units, users_units


def test_models_come_back_in_the_users_units():
    random = np.random.default_rng(0)
    x = random.normal([30.0, -2.0, 1.0], [1e3, 1e-4, 0.0], (50, 3))
    y = x @ [1.0, 2e3, -4.0] + random.normal(size=50)
    units = standard_units(x, y)
    z = units.features(x)
    model = random.normal(size=3)
    found = units.in_users(model)
    np.testing.assert_allclose(z @ model + units.level, x @ found, rtol=1e-9)
    np.testing.assert_allclose(np.mean(z**2, 0), 1, rtol=1e-12)
    np.testing.assert_allclose(z[:, :2].mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(units.level, y.mean())
    same = users_units(3)
    np.testing.assert_array_equal(same.features(x), x)
    np.testing.assert_array_equal(same.in_users(model), model)


def test_a_constant_column_beside_an_intercept_has_coefficient_zero():
    x = np.column_stack([np.arange(4.0), np.full(4, 7.5), np.ones(4)])
    units = standard_units(x, np.arange(4.0))
    np.testing.assert_array_equal(units.constant, [False, True, False])
    np.testing.assert_array_equal(units.features(x)[:, 1], 0)
    assert units.in_users(np.array([1.0, 3.0, 2.0]))[1] == 0


@pytest.mark.parametrize(
    ("gtv", "pooled", "sentence"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.3], "GTV predicts better than one pooled model: an error "),
        ([2.0, 2.1, 2.3], [1.0, 1.1, 1.2], "One pooled model predicts better than GTV: an error "),
        ([1.0, 1.2, 1.13], [1.1, 1.1, 1.1], "GTV and one pooled model cannot be told apart: "),
        ([1.0, 1.2], [1.3, 1.21], "GTV and one pooled model cannot be told apart: "),
        # An outlier makes the deviation large; all splits agree.
        ([1.0, 1.0, 1.0], [1.5, 90.0, 1.5], "GTV predicts better than one pooled model: "),
        ([1.0, 1.1], [1.0, 1.1], "GTV and one pooled model have the same error."),
        ([0.0], [0.0], "GTV and one pooled model have the same error."),
        ([1.0], [2.0], "On the one split, GTV had an error 50 % below that of one pooled model."),
        ([2.0], [1.0], "On the one split, one pooled model had an error 50 % below that of GTV."),
    ],
)
def test_a_comparison_says_who_is_better(gtv, pooled, sentence):
    found = compared(np.array(gtv), np.array(pooled), "one pooled model")
    assert found.startswith(sentence)
    assert "adds little" not in found


def test_local_models_are_many():
    found = compared(np.array([2.0, 2.1]), np.array([1.0, 1.1]), "local models")
    assert found.startswith("Local models predict better than GTV: an error ")
