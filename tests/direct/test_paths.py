"""Paths from ranges: the smoother against the joint normal distribution, and what is recovered."""

import math

import jax
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm.direct import dead_reckoning, locate_path, rough_path
from fedjax_admm.direct._chains import Chain, filtered, smoothed
from fedjax_admm.direct._ranging import Rows, innovations

ANCHORS = np.array([[0.0, 0.0], [40.0, 0.0], [40.0, 30.0], [0.0, 30.0], [20.0, 45.0]])
OFFSETS = np.array([0.0, 1.2, 0.0, -0.8, 0.3])


@pytest.fixture(autouse=True)
def _double_precision(x64):
    """A path is located in float64."""


def chain_of(seed, rows=600, moving=2, size=4):
    """Return a chain of two moving entries, one that stays, and one that decays."""
    random = np.random.default_rng(seed)
    step = np.eye(moving) + 0.1 * random.normal(size=(rows, moving, moving))
    root = 0.3 * random.normal(size=(rows, moving, moving))
    root[2] = 0  # two measurements at one time
    step[5] = 0  # a new beginning
    precision = random.uniform(0.5, 2, rows)
    precision[3] = 0
    return Chain(
        random.uniform(0.5, 2, size),
        np.arange(size) == size - 1,
        step / np.maximum(1, np.linalg.norm(step, 2, (1, 2)))[:, None, None],
        root @ root.transpose(0, 2, 1),
        random.uniform(0.5, 1, rows),
        random.normal(size=(rows, size)),
        random.normal(size=rows),
        precision,
    )


@pytest.mark.parametrize("rows", [6, 300])
def test_the_smoother_is_the_joint_normal_distribution(rows):
    chain = chain_of(0, rows)
    size = chain.row.shape[1]
    # Joint moments of all states before any measurement, by the recursion of covariances.
    joint = np.zeros((rows, size, rows, size))
    covariance = np.diag(chain.deviation**2)
    for i in range(rows):
        step, noise = np.eye(size), np.zeros((size, size))
        step[:2, :2], step[3, 3] = chain.step[i], chain.decay[i]
        noise[:2, :2] = chain.noise[i]
        noise[3, 3] = (1 - chain.decay[i] ** 2) * chain.deviation[3] ** 2
        covariance = step @ covariance @ step.T + noise
        joint[i, :, i] = covariance
        if i:
            joint[i, :, :i] = np.einsum("st,tju->sju", step, joint[i - 1, :, :i])
            joint[:i, :, i] = joint[i, :, :i].transpose(1, 2, 0)
    joint = joint.reshape(rows * size, -1)
    there = chain.precision > 0
    select = np.zeros((rows, rows, size))
    select[np.arange(rows), np.arange(rows)] = chain.row
    select = select.reshape(rows, -1)[there]
    inner = select @ joint @ select.T + np.diag(1 / chain.precision[there])
    gain, gap = np.linalg.solve(inner, select @ joint).T, chain.measured[there]
    wanted, spread = gain @ gap, joint - gain @ select @ joint
    found = smoothed(jax.tree.map(jax.numpy.asarray, chain), 3)
    np.testing.assert_allclose(found.mean.reshape(-1), wanted, atol=1e-9)
    blocks = np.einsum("isit->ist", spread.reshape(rows, size, rows, size))
    np.testing.assert_allclose(found.covariance, blocks[:, :3, :3], atol=1e-9)
    np.testing.assert_allclose(found.last, blocks[-1], atol=1e-9)
    # The innovations have the likelihood of the joint distribution.
    innovation, variance = filtered(jax.tree.map(jax.numpy.asarray, chain))
    variances = np.asarray(variance)[there] + 1 / chain.precision[there]
    told = np.sum(np.log(variances) + np.asarray(innovation)[there] ** 2 / variances)
    direct = np.linalg.slogdet(inner)[1] + gap @ np.linalg.solve(inner, gap)
    np.testing.assert_allclose(told, direct, rtol=1e-9)


def driven(*, rows=400, noise=0.1, scale=1.05, offsets=OFFSETS, outliers=0.0, seed=0):
    """Return ranges of a target that drives a figure of eight, and its odometer."""
    random = np.random.default_rng(seed)
    times = np.sort(random.uniform(0, 120, rows))
    fine = np.linspace(0, 120, 2401)
    angle = 2 * np.pi * fine / 60

    def place(angle):
        return np.stack([20 + 14 * np.sin(angle), 18 + 10 * np.sin(2 * angle)], -1)

    truth = place(2 * np.pi * times / 60)
    which = random.integers(0, len(ANCHORS), rows)
    distance = np.linalg.norm(truth - ANCHORS[which], axis=1)
    ranges = scale * distance + offsets[which] + noise * random.normal(size=rows)
    wrong = random.uniform(size=rows) < outliers
    ranges = np.where(wrong, ranges + random.uniform(3, 15, rows), ranges)
    ahead = np.diff(place(angle), axis=0)
    heading = np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0]))
    turn = np.diff(heading, prepend=heading[:1])
    odometer = np.stack([fine[1:], np.linalg.norm(ahead, axis=1), turn], -1)
    return which, ranges, times, truth, wrong, odometer


def scores(estimate, truth):
    gap = np.asarray(estimate.positions) - truth
    return np.einsum("ri,rij,rj->r", gap, np.linalg.inv(estimate.covariances), gap)


@pytest.fixture(scope="module")
def with_outliers():
    with jax.enable_x64(True):
        which, ranges, times, truth, wrong, _ = driven(outliers=0.1)
        return truth, wrong, locate_path(ANCHORS, which, ranges, times)


def test_scale_offsets_and_path_are_found_among_outliers(with_outliers):
    truth, wrong, found = with_outliers
    errors = np.linalg.norm(found.positions - truth, axis=1)
    assert np.sqrt(np.mean(errors**2)) < 0.2
    assert abs(found.scale - 1.05) < 4 * found.scale_deviation + 1e-3
    assert np.all(np.abs(found.offsets - OFFSETS) < 4 * found.offset_deviations)
    assert np.array_equal(np.asarray(found.weights) == 0, wrong)
    assert 0.06 < found.noise < 0.13


def test_regions_hold_the_truth_about_as_often_as_they_say(with_outliers):
    truth, _, found = with_outliers
    inside = scores(found, truth) < 2 * math.log(10)  # 90 % of chi-squared with 2 degrees
    assert 0.8 < inside.mean() < 0.99


def test_offsets_that_are_not_there_are_not_found():
    which, ranges, times, *_ = driven(offsets=0 * OFFSETS, scale=1.0, seed=1)
    found = locate_path(ANCHORS, which, ranges, times)
    assert found.offset_spread < 0.1
    assert np.ptp(found.offsets) < 0.02
    assert np.all(np.abs(found.offsets) < 2 * found.offset_deviations)


def slow_errors(times, which, deviation, memory, seed):
    """Return Gauss-Markov errors of each anchor at its rows."""
    random = np.random.default_rng(seed)
    errors = np.zeros(len(times))
    for each in range(len(ANCHORS)):
        rows = np.flatnonzero(which == each)
        last = deviation * random.normal()
        for row, span in zip(rows, np.diff(times[rows], prepend=times[rows[0]]), strict=True):
            decay = np.exp(-span / memory)
            last = decay * last + deviation * np.sqrt(1 - decay**2) * random.normal()
            errors[row] = last
    return errors


def test_regions_hold_the_truth_where_errors_are_correlated_in_time():
    which, ranges, times, truth, *_ = driven(noise=0.05, offsets=0 * OFFSETS, scale=1.0)
    ranges = ranges + slow_errors(times, which, 0.4, 5.0, seed=2)
    found = locate_path(ANCHORS, which, ranges, times)
    inside = scores(found, truth) < 2 * math.log(10)
    assert 0.75 < inside.mean() < 0.99
    assert 0.2 < found.slow < 0.8
    assert 2 < found.memory < 15
    assert found.noise < 0.15


@pytest.mark.thorough
def test_times_count_from_the_first_one_in_float32():
    which, ranges, times, truth, *_ = driven()
    with jax.enable_x64(False):
        given = np.float32(ANCHORS), which, np.float32(ranges)
        found = locate_path(*given, times + 1.7e9, start=np.float32(truth))
    assert found.positions.dtype == np.float32
    assert np.sqrt(np.mean(np.sum((np.asarray(found.positions) - truth) ** 2, 1))) < 0.2


def test_a_pause_of_a_day_is_another_segment():
    which, ranges, times, truth, *_ = driven(offsets=0 * OFFSETS, scale=1.0)
    found = locate_path(ANCHORS, which, ranges, times + 86400 * (times > 60))
    assert np.sqrt(np.mean(np.sum((np.asarray(found.positions) - truth) ** 2, 1))) < 0.2
    assert 0.06 < found.noise < 0.13


def test_the_likelihood_is_that_of_the_dense_normal_distribution():
    """The covariance of ranges of a target at rest, in NumPy: prior, offsets and slow errors."""
    which, ranges, times, *_ = driven(rows=40)
    dtype, rows = np.float64, len(times)
    centred = ANCHORS - ANCHORS.mean(0)
    spans = np.diff(times, prepend=times[:1])
    still, turns = np.zeros((rows, 2, 2)), np.broadcast_to(np.eye(2), (rows, 2, 2))
    kit = Rows(
        *map(jax.numpy.asarray, (centred, which.astype(np.int32), ranges, np.ones(rows), spans)),
        *map(jax.numpy.asarray, (still, turns, np.zeros(rows), np.zeros(rows))),
        prior=jax.numpy.asarray([30.0, 30, 1, 1]),
        reach=jax.numpy.asarray(40.0),
        free=jax.numpy.ones(3, dtype),
        clock=False,
    )
    logs = {"noise": 0.3, "turning": 1e-9, "slip": 1e-9, "offset_spread": 0.7, "slow": 0.5}
    logs |= {"memory": 9.0, "scale_spread": 0.02}
    theta = jax.numpy.asarray([*np.log(list(logs.values())), 1.03, 0.2])
    states = np.zeros((rows, kit.size))
    states[:, :2] = 3.0, -4.0
    innovation, variance = innovations(kit, jax.numpy.asarray(states), theta, np.ones(rows))
    told = np.sum(np.log(variance) + innovation**2 / variance)
    gap = np.array([3.0, -4.0]) - centred[which]
    distance = np.linalg.norm(gap, axis=1)
    ways = 1.03 * gap / distance[:, None]
    same = which[:, None] == which[None]
    apart = np.abs(times[:, None] - times[None])
    wanted = 30.0**2 * ways @ ways.T + same * (0.7**2 + 0.5**2 * np.exp(-apart / 9.0))
    wanted += same * 0.02**2 * np.outer(distance, distance) + 0.3**2 * np.eye(rows)
    # At the prior's mean, the origin, the linear model has this range.
    error = ranges - (1.03 * distance + 0.2) + ways @ np.array([3.0, -4.0])
    direct = np.linalg.slogdet(wanted)[1] + error @ np.linalg.solve(wanted, error)
    np.testing.assert_allclose(told, direct, rtol=1e-8)


def test_an_odometer_makes_the_path_better():
    which, ranges, times, truth, _, odometer = driven(noise=0.5, scale=1.0)
    moves, turns = dead_reckoning(times, *odometer.T)
    with_it = locate_path(ANCHORS, which, ranges, times, moves=moves, turns=turns)
    without = locate_path(ANCHORS, which, ranges, times)
    errors = [
        np.sqrt(np.mean(np.sum((np.asarray(each.positions) - truth) ** 2, 1)))
        for each in (with_it, without)
    ]
    assert errors[0] < 0.7 * errors[1]
    lengths = np.linalg.norm(with_it.headings, axis=1)
    np.testing.assert_allclose(lengths, 1, atol=0.1)


def test_windows_are_near_the_path_among_outliers():
    which, ranges, times, truth, *_ = driven(offsets=0 * OFFSETS, scale=1.0, outliers=0.1)
    found = np.asarray(rough_path(ANCHORS, which, ranges, times))
    assert np.quantile(np.linalg.norm(found - truth, axis=1), 0.9) < 4


def test_known_offsets_and_scale_stay():
    which, ranges, times, truth, *_ = driven(offsets=0 * OFFSETS, scale=1.0)
    found = locate_path(ANCHORS, which, ranges, times, offsets=False, scale=False)
    assert (found.scale, found.scale_deviation, found.offset_spread) == (1, 0, 0)
    assert not np.any(found.offsets)
    assert np.sqrt(np.mean(np.sum((np.asarray(found.positions) - truth) ** 2, 1))) < 0.2


@pytest.mark.thorough
def test_factors_that_differ_between_anchors_are_found_where_they_are():
    factors = np.array([1.0, 1.05, 0.97, 1.1, 1.02])
    which, ranges, times, truth, *_ = driven(offsets=0 * OFFSETS, scale=1.0, rows=300)
    common, own = (
        locate_path(ANCHORS, which, factors[which] * ranges, times, offsets=False, own_scales=each)
        for each in (False, True)
    )
    assert own.evidence > common.evidence + 10
    assert np.all(np.abs(own.scales - factors) < 4 * own.scale_deviations)
    assert np.sqrt(np.mean(np.sum((np.asarray(own.positions) - truth) ** 2, 1))) < 0.2
    np.testing.assert_array_equal(common.scales, np.full(5, common.scale))
    # Where there are none, they are not found, and the evidence does not speak for them.
    common, own = (
        locate_path(ANCHORS, which, ranges, times, offsets=False, own_scales=each)
        for each in (False, True)
    )
    assert own.evidence < common.evidence + 3
    np.testing.assert_allclose(own.scales, 1, atol=0.01)


@pytest.mark.thorough
def test_a_clock_that_walks_is_found_with_the_path():
    which, ranges, times, truth, *_ = driven(offsets=0 * OFFSETS, scale=1.0, rows=300)
    random = np.random.default_rng(5)
    spans = np.diff(times, prepend=times[0])
    walk = np.cumsum(0.1 * np.sqrt(spans) * random.normal(size=300)) - 25
    found = locate_path(ANCHORS, which, ranges + walk, times, offsets=False, clock=True)
    assert np.sqrt(np.mean(np.sum((np.asarray(found.positions) - truth) ** 2, 1))) < 0.3
    assert np.sqrt(np.mean((np.asarray(found.clock) - walk) ** 2)) < 0.3
    assert 0.03 < found.drift < 0.3


@pytest.mark.thorough
def test_differences_of_ranges_are_ranges_with_a_clock():
    random = np.random.default_rng(6)
    times = np.linspace(0, 60, 90)
    truth = np.stack([20 + 14 * np.sin(times / 10), 18 + 10 * np.sin(times / 5)], -1)
    exact = np.linalg.norm(truth[:, None] - ANCHORS, axis=-1)
    measured = exact + 0.1 * random.normal(size=exact.shape)
    differences = (measured - measured[:, :1]).ravel()
    which, rows = np.tile(np.arange(5), 90), times.repeat(5)
    found = locate_path(ANCHORS, which, differences, rows, offsets=False, scale=False, clock=True)
    errors = np.linalg.norm(found.positions[::5] - truth, axis=1)
    assert np.sqrt(np.mean(errors**2)) < 0.2


@pytest.mark.thorough
def test_moves_that_nobody_knows_leave_the_ranges_to_tell():
    which, ranges, times, truth, _, odometer = driven(rows=300)
    heard = odometer[(odometer[:, 0] < 40) | (odometer[:, 0] > 70)]
    moves, turns = dead_reckoning(times, *heard.T)
    silent = np.isnan(moves).any(1)
    assert silent[(times > 41) & (times < 70)].all()
    assert not silent[(times < 40) | (times > 72)].any()
    found = locate_path(ANCHORS, which, ranges, times, moves=moves, turns=turns)
    errors = np.linalg.norm(found.positions - truth, axis=1)
    assert np.sqrt(np.mean(errors[silent] ** 2)) < 0.5
    assert np.sqrt(np.mean(errors[~silent] ** 2)) < 0.2


@pytest.mark.thorough
def test_space():
    random = np.random.default_rng(3)
    anchors = random.uniform(-20, 20, (7, 3))
    times = np.linspace(0, 60, 240)
    truth = np.stack([8 * np.cos(times / 8), 8 * np.sin(times / 8), times / 10 - 3], -1)
    which = random.integers(0, 7, 240)
    ranges = np.linalg.norm(truth - anchors[which], axis=1) + 0.05 * random.normal(size=240)
    found = locate_path(anchors, which, ranges, times)
    assert np.sqrt(np.mean(np.sum((np.asarray(found.positions) - truth) ** 2, 1))) < 0.2


@pytest.mark.thorough
def test_ranges_of_one_time_share_a_place():
    which, ranges, times, *_ = driven(rows=150)
    times = times.repeat(2)[:150]
    found = locate_path(ANCHORS, which, ranges, times)
    np.testing.assert_allclose(found.positions[0::2], found.positions[1::2], atol=1e-9)


def test_dead_reckoning_adds_up_to_the_track():
    random = np.random.default_rng(0)
    ends, steps, turned = np.arange(1.0, 41), random.uniform(0, 1, 40), 0.3 * random.normal(size=40)
    heading, place, track = 0.0, np.zeros(2), [np.zeros(2)]
    for length, turn in zip(steps, turned, strict=True):
        middle = heading + turn / 2
        place = place + length * np.array([np.cos(middle), np.sin(middle)])
        heading += turn
        track.append(place)
    times = np.array([0.0, 3, 3, 10, 25, 40, 45])
    moves, turns = dead_reckoning(times, ends, steps, turned)
    heading, place = 0.0, np.zeros(2)
    for time, (forwards, left), turn in zip(times[:-1], moves[:-1], turns[:-1], strict=True):
        cos, sin = np.cos(heading), np.sin(heading)
        place = place + np.array([cos * forwards - sin * left, sin * forwards + cos * left])
        heading += turn
        np.testing.assert_allclose(place, track[min(int(time), 40)], atol=1e-9)
    assert not moves[0].any()
    assert not moves[2].any()  # no time has passed
    # The odometer has ended two seconds before the last time is reached, or more.
    assert np.isfinite(moves[:-1]).all()
    assert np.isnan(moves[-1]).all()
    assert np.isnan(turns[-1])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"times": [0.0, 2, 1]}, "times must not decrease"),
        ({"anchor": [0, 1, 5]}, "anchor must be from 0 to 4"),
        ({"anchor": [0.0, 1, 2]}, "anchor must be whole numbers"),
        ({"ranges": [1.0, 2, 0]}, "ranges must be"),
        ({"moves": np.zeros((3, 2))}, "moves must be given with turns"),
        (
            {"anchors": ANCHORS[:, :1]},
            r"anchors must have shape \(any, 2\) or \(any,",
        ),
    ],
)
def test_mistakes(change, sentence):
    given = {"anchors": ANCHORS, "anchor": [0, 1, 2], "ranges": [9.0, 9, 9], "times": [0.0, 1, 2]}
    with pytest.raises(fa.InputError, match=sentence):
        locate_path(**(given | change))
