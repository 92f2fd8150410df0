"""Statistics against plain NumPy, one trial at a time."""

import numpy as np
import pytest
import scipy.stats

from fedjax_admm.trials.results import paired_difference, summarize, unpaired_difference

NAN, INF = np.nan, np.inf
TABLE = {
    "fine": [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0],
    "a NaN": [3.0, NAN, 4.0, 1.0],
    "infinities": [INF, 2.0, -INF, 7.0, 1.0],
    "two": [1.0, 2.0],
}


@pytest.mark.parametrize("name", TABLE)
def test_summary_of_the_finite_trials(name):
    values = np.array(TABLE[name])
    kept = values[np.isfinite(values)]
    table = summarize(values, axis=0)
    assert (int(table.trials), int(table.nonfinite)) == (len(values), len(values) - len(kept))
    deviation = np.sqrt(sum((x - kept.mean()) ** 2 for x in kept) / (len(kept) - 1))
    np.testing.assert_allclose(table.mean, sum(kept) / len(kept))
    np.testing.assert_allclose(table.standard_error, deviation / np.sqrt(len(kept)))
    np.testing.assert_allclose(
        [table.q10, table.median, table.q90], np.quantile(kept, [0.1, 0.5, 0.9])
    )


@pytest.mark.parametrize(
    ("values", "mean", "nonfinite"), [([4.0], 4.0, 0), ([NAN, 4.0], 4.0, 1), ([NAN, INF], NAN, 2)]
)
def test_too_few_trials_give_nan_and_no_warning(values, mean, nonfinite):
    table = summarize(np.array(values), axis=0)
    np.testing.assert_equal(float(table.mean), mean)
    np.testing.assert_equal(float(table.median), mean)
    assert np.isnan(table.standard_error)
    assert int(table.nonfinite) == nonfinite


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_the_axis_of_trials_is_removed(axis):
    values = np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32)
    values[1, 2, 3] = NAN
    shape = tuple(np.delete(values.shape, axis))
    assert all(field.shape == shape for field in summarize(values, axis=axis))
    moved = summarize(np.moveaxis(values, axis, 0), axis=0)
    for one, other in zip(summarize(values, axis=axis), moved, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sums_are_taken_in_float64():
    values = np.full(100_000, 0.1, np.float32)
    assert float(summarize(values, axis=0).mean) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_pairs_are_compared_trial_by_trial():
    first = np.array([1.0, 5.0, 2.0, NAN, 3.0, INF])
    second = np.array([2.0, 4.0, 4.0, 1.0, NAN, INF])
    table = paired_difference(first, second, axis=0)
    difference = np.array([-1.0, 1.0, -2.0])
    assert int(table.trials) == 3
    np.testing.assert_allclose(table.mean, difference.mean())
    np.testing.assert_allclose(table.standard_error, difference.std(ddof=1) / np.sqrt(3))
    np.testing.assert_allclose(table.median, -1)
    np.testing.assert_allclose(table.smaller, 2 / 3)


def test_independent_trials_are_compared_by_their_means():
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 30)), np.round(random.normal(1.0, 2.0, (2, 50)), 1)
    first = np.round(first, 1)
    table = unpaired_difference(np.c_[first, [NAN, INF]], second, axis=1)
    for i in range(2):
        seen = scipy.stats.ttest_ind(first[i], second[i], equal_var=False)
        np.testing.assert_allclose(table.mean[i] / table.standard_error[i], seen.statistic)
        count = scipy.stats.mannwhitneyu(first[i], second[i]).statistic
        np.testing.assert_allclose(table.smaller[i], 1 - count / 1500)
    np.testing.assert_array_equal(table.trials, 30)


def test_one_infinite_member_takes_its_pair_out():
    table = paired_difference(np.array([-INF, 1.0]), np.array([0.0, 2.0]), axis=0)
    assert (int(table.trials), float(table.mean), float(table.smaller)) == (1, -1, 1)
