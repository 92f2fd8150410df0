"""The benchmarks of the field: how data are split, that tuning is fair, small runs, references."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.penalties import mcp, zero
from fedjax_admm.trials.experiments import _tuning as tuning
from fedjax_admm.trials.experiments.peers import (
    _pinball as pinballs,
    _roster as roster,
    _splits as splits,
    federated,
    nonsmooth,
)
from fedjax_admm.trials.tables._digits import load_digits

(DIGITS,) = federated.EXPERIMENTS
(KINKS,) = nonsmooth.EXPERIMENTS
CLIENTS, LARGEST = 20, 9
SMALL = {"data": "synthetic", "clients": "12", "drawn": "3", "largest": "6", "hidden": "3"}
VALUES = (0.1, 10.0, 0.0)


# --- splits ---


@pytest.fixture(scope="module")
def dealt():
    """Deal 300 samples of ten labels at three concentrations, twice with one key."""
    labels = jnp.asarray(np.random.default_rng(0).integers(0, 10, 300), jnp.int32)

    @jax.jit
    def deal(key, value):
        size_key, odds_key, deal_key = jax.random.split(key, 3)
        sizes = splits.draw_sizes(size_key, CLIENTS, 2, LARGEST)
        odds = splits.label_odds(odds_key, value, CLIENTS, 10)
        return sizes, *splits.deal(deal_key, labels, odds, sizes, LARGEST)

    def at(seed):
        found = {v: deal(jax.random.key(seed), jnp.float32(v)) for v in VALUES}
        return jax.tree.map(np.asarray, found)

    return np.asarray(labels), at(1), at(1), at(2)


def held(labels, places, there):
    return [set(labels[row[mask]].tolist()) for row, mask in zip(places, there, strict=True)]


@pytest.mark.parametrize("value", VALUES)
def test_everybody_has_samples_that_nobody_else_has(dealt, value):
    _, found, again, other = dealt
    sizes, places, there = found[value]
    assert places.shape == there.shape == (CLIENTS, LARGEST)
    assert sizes.min() >= 2
    assert sizes.max() <= LARGEST
    assert len(set(sizes.tolist())) > 3
    np.testing.assert_array_equal(there.sum(1), sizes)  # there are enough for all
    used = places[there]
    assert len(set(used.tolist())) == used.size
    assert used.min() >= 0
    assert used.max() < 300
    for first, second in zip(found[value], again[value], strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(places, other[value][1])


def test_labels_gather_as_the_concentration_falls(dealt):
    labels, found, _, _ = dealt
    kinds = {v: held(labels, places, there) for v, (_, places, there) in found.items()}
    mean = {v: np.mean([len(each) for each in sets]) for v, sets in kinds.items()}
    assert mean[0.1] < 3 < 3.5 < mean[10.0]
    assert max(map(len, kinds[0.0])) == 2
    # Every label is held by twice as many clients as there are clients per label, at most.
    numbers = np.bincount([label for each in kinds[0.0] for label in each], minlength=10)
    assert numbers.min() >= 1
    assert numbers.max() <= 2 * CLIENTS // 10


def test_a_client_whose_labels_are_used_up_goes_without():
    odds = jnp.where(jnp.arange(3) < 1, 0.0, -jnp.inf)[None].repeat(2, 0)  # label 0 alone
    labels = jnp.asarray([0, 1, 0, 2, 0, 1], jnp.int32)
    sizes = jnp.asarray([2, 2], jnp.int32)
    places, there = splits.deal(jax.random.key(0), labels, odds, sizes, 2)
    np.testing.assert_array_equal(there, [[True, True], [True, False]])
    assert sorted(np.asarray(places)[np.asarray(there)].tolist()) == [0, 2, 4]


# --- tuning ---


@pytest.mark.parametrize("module", [federated, nonsmooth])
def test_everybody_is_tuned_alike(module):
    (experiment,) = module.EXPERIMENTS
    table = module.TUNED
    wanted = {(task, name) for task in module.TASKS for name in module.recipes(task)}
    assert set(table) == wanted
    for (task, name), places in table.items():
        grid = module.recipes(task)[name].grid()
        assert len(set(grid)) == len(grid) == roster.GRID
        assert tuple(places) == experiment.sweep.values
        assert all(0 <= place < roster.GRID for place in places.values())


@pytest.mark.parametrize(
    ("value", "first"), [(0.1, 1.0), (0.0, 3.0), (0.2, 1.0), (0.3, 2.0), (50.0, 2.0)]
)
def test_a_value_between_gets_the_setting_of_the_nearest(value, first):
    grid = [tuning.Setting(1.0, 5.0), tuning.Setting(2.0, 6.0), tuning.Setting(3.0, 7.0)]
    choose = jax.jit(lambda v: tuning.chosen_setting(grid, {0.1: 0, 0.5: 1, 0.0: 2}, v))
    found = choose(jnp.float32(value))
    assert float(found.first) == first
    assert float(found.second) == first + 4


def test_images_for_training_validation_and_testing_are_disjoint():
    images = load_digits("synthetic", 10)
    rest, test = federated.pools(images)
    assert len(rest.digits) == 1440
    assert len(test.digits) == 360
    rows = [{row.tobytes() for row in pool.pixels} for pool in (rest, test)]
    assert len(rows[0]) + len(rows[1]) == 1800
    assert not rows[0] & rows[1]

    deal = partial(federated.deal_images, digits=rest.digits, num_validation=200, largest=LARGEST)
    sizes = partial(splits.draw_sizes, clients=CLIENTS, smallest=2, largest=LARGEST)
    dealt, there, validation = jax.jit(lambda keys, split: deal(keys, split=split, sizes=sizes))(
        tuple(jax.random.split(jax.random.key(3), 4)), jnp.float32(0.5)
    )
    training = np.asarray(dealt)[np.asarray(there)].tolist()
    assert len(set(training)) == len(training)
    assert len(set(validation.tolist())) == 200
    assert not set(training) & set(validation.tolist())
    assert max(max(training), int(validation.max())) < 1440


def test_tuning_judges_by_images_for_validation():
    def draw(tuning):
        settings = DIGITS.resolve(SMALL)
        draw = partial(federated.draw_problem, settings, 0.5, tuning=tuning)
        return jax.eval_shape(draw, jax.random.key(3))["network"].held_out["digit"].shape

    assert draw(True) == (1, 216)  # 15 % of what is not for testing
    assert draw(False) == (1, 360)


# --- pinball losses ---


def test_dual_passes_find_the_prox(x64):
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=(7, 3)), generator.normal(size=7)
    tau = np.full(7, 0.7)
    x[5:], y[5:] = x[:1], y[:1]  # padding
    samples = {"x": jnp.asarray(x), "y": jnp.asarray(y), "tau": jnp.asarray(tau)}
    prox = pinballs.PinballProx(7, 2000)
    point, step, weight = jnp.asarray([0.3, -0.2, 0.9]), jnp.asarray(0.4), jnp.asarray(2.0)
    w, u = prox(None, point, step, prox.memory(point), samples, jnp.asarray(5), weight)
    w, u = np.asarray(w), np.asarray(u)
    # The conditions of optimality: the step is a sum of subgradients of the client's five losses.
    np.testing.assert_allclose(w, np.asarray(point) + 0.4 * u @ x, rtol=0, atol=1e-12)
    low, high = 0.4 * (2 * 0.7 - 2), 0.4 * 2 * 0.7
    rest = y - x @ w
    assert (u[:5] >= low - 1e-12).all()
    assert (u[:5] <= high + 1e-12).all()
    assert (u[5:] == 0).all()
    np.testing.assert_allclose(u[:5][rest[:5] > 1e-7], high)
    np.testing.assert_allclose(u[:5][rest[:5] < -1e-7], low)
    again, _ = prox(None, point, step, jnp.asarray(u), samples, jnp.asarray(5), weight)
    np.testing.assert_allclose(again, w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_the_reference_is_the_least(x64, tau):
    from scipy.optimize import linprog

    generator = np.random.default_rng(6)
    x, y = generator.normal(size=(60, 4)), generator.standard_t(2, 60)
    there = np.arange(60) < 50
    found = pinballs.minimize_together(
        *(jnp.asarray(part) for part in (x, y, np.full(60, tau), there)), zero(), 3000
    )
    n = 50
    slack = np.concatenate([np.full(n, 2 * tau / n), np.full(n, (2 - 2 * tau) / n)])
    equations = np.hstack([x[:n], np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * 4 + [(0, None)] * (2 * n)
    best = linprog(np.r_[np.zeros(4), slack], A_eq=equations, b_eq=y[:n], bounds=bounds)
    rest = y[:n] - x[:n] @ np.asarray(found)
    value = np.mean(np.abs(rest) + (2 * tau - 1) * rest)
    assert value == pytest.approx(best.fun, rel=1e-5)
    assert value >= best.fun - 1e-9


# --- runs ---


def run_small(experiment, given, rounds, *names):
    """Return what one trial of some methods measures, "method/metric" -> (sweep, record)."""
    alone = replace(
        experiment,
        methods=lambda settings, value: {n: experiment.methods(settings, value)[n] for n in names},
    )
    trial = jax.jit(alone.trial(experiment.resolve(given), rounds))
    return jax.tree.map(np.asarray, trial(jax.random.key(1)))


@pytest.mark.thorough
def test_a_method_runs_on_digits():
    names = ("logistic: FedAvg", "l1 logistic: FedAvg")
    found = run_small(DIGITS, {**SMALL, "l1_weight": "0.1"}, 4, *names)
    for name in names:
        error = found[f"{name}/error"]
        assert error.shape == (len(federated.SPLITS), 4)
        assert ((error > 0) & (error < 1)).all()
        assert not found[f"{name}/first_nonfinite_round"].any()
        # Five passes of three clients: what remains is the mean number of samples of a client.
        share = found[f"{name}/gradients"] / (np.arange(1, 5) * 5 * 3)
        np.testing.assert_allclose(share, share[:, :1] * np.ones(4), rtol=1e-5)
        assert share.min() >= 4
        assert share.max() <= 6
    losses = [found[f"{name}/loss"][:, -1] for name in names]
    assert (losses[0] != losses[1]).all()  # the weight of the penalty arrives


@pytest.mark.thorough
def test_a_method_runs_on_all_losses_with_kinks():
    names = [f"{task}: FedADMM, prox" for task in nonsmooth.TASKS]
    settings = {"clients": "9", "drawn": "9", "dim": "4", "largest": "8", "shift": "0"}
    found = run_small(KINKS, settings, 40, *names)
    errors = [found[f"{name}/error"] for name in names]
    for name, error in zip(names, errors, strict=True):
        assert error.shape == (1, 20)
        assert nonsmooth.FLOOR <= error[0, -1] < 0.1
        assert error[0, -1] < error[0, 0]
        if not name.startswith("MCP"):  # which is not convex
            assert (found[f"{name}/below"] == 0).all()
    assert len({error.tobytes() for error in errors}) == 3


@pytest.mark.parametrize(
    ("experiment", "given", "words"),
    [
        (DIGITS, {**SMALL, "clients": "400"}, "clients must be at most 306"),
        (KINKS, {"shift": "-1"}, "shift must be at least 0"),
    ],
)
def test_a_setting_that_does_not_fit_is_told(experiment, given, words):
    settings = experiment.resolve(given)
    value = settings[experiment.sweep.name][0]
    with pytest.raises(InputError, match=words):
        experiment.problem(settings, value, jax.random.key(0))


def test_the_penalty_of_a_sum_is_that_of_a_mean_times_clients():
    of = nonsmooth.penalty_of("MCP", KINKS.defaults())
    w = jnp.asarray([0.05, -2.0, 0.0])
    np.testing.assert_allclose(of(7.0).value(w), 7 * of(1.0).value(w), rtol=1e-6)
    np.testing.assert_allclose(of(1.0).value(w), mcp(0.1, 3.0).value(w), rtol=1e-6)
    assert nonsmooth.penalty_of("LAD", KINKS.defaults())(1.0).value(w) == 0
    assert federated.RECIPES["linear"]["FSMDM"].sums
    assert not federated.RECIPES["linear"]["FedADMM"].sums
