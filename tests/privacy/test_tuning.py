"""Choosing the numbers of private solvers: what is drawn, what is found, what is said."""

import math
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedjax_admm import InputError, graphs, losses
from fedjax_admm._run import run
from fedjax_admm.measures import consensus_error, consensus_gap
from fedjax_admm.privacy import (
    PrivateSetting,
    Tuned,
    exact_release,
    gaussian_release,
    grid_settings,
    nearby_settings,
    random_settings,
    tune_private,
    zcdp_plan,
)
from fedjax_admm.problems import _consensus as consensus, draw_consensus_regression
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import private_networked_admm, private_subgradient

DELTA, ROUNDS, TRIALS, CLIENTS = 1e-5, 12, 3, 5

# --- settings -------------------------------------------------------------------------------------


def logarithms(settings, name, low, high):
    values = np.array([getattr(setting, name) for setting in settings])
    assert low <= values.min() <= values.max() <= high
    return (np.log(values) - math.log(low)) / math.log(high / low)


def test_random_settings_are_uniform_in_their_logarithms():
    ranges = {"step": (0.01, 100.0), "rho": (0.5, 4.0), "clip": (1.0, 50.0)}
    powers, taus = (0.0, 0.5), (0.9, 0.95, 1.0)
    settings = random_settings(3, 3000, **ranges, power=powers, tau=taus)
    assert len(settings) == 3000
    shares = [logarithms(settings, name, *pair) for name, pair in ranges.items()]
    for share in shares:
        assert stats.kstest(share, "uniform").pvalue > 1e-3
    for k, first in enumerate(shares):
        for second in shares[:k]:
            assert abs(np.corrcoef(first, second)[0, 1]) < 0.08
    for name, choices in (("power", powers), ("tau", taus)):
        found = [getattr(setting, name) for setting in settings]
        assert set(found) == set(choices)
        for choice in choices:
            assert found.count(choice) == pytest.approx(3000 / len(choices), rel=0.1)


def test_nearby_settings():
    centre = PrivateSetting(0.02, 0.5, 11.0, 3.0, 0.96)
    taus = (0.97, 0.98, 0.99)
    first, *others = nearby_settings(1, centre, 3001, spread=0.3, tau=taus)
    assert first == centre
    assert len(others) == 3000
    assert all(setting.power == 0.5 for setting in others)
    assert all(type(part) is float for setting in others for part in setting)
    logs = [
        np.log([getattr(setting, name) / getattr(centre, name) for setting in others])
        for name in ("step", "rho", "clip")
    ]
    for values in logs:
        assert stats.kstest(values / 0.3, "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(logs)[np.triu_indices(3, 1)]).max() < 0.08
    found = [setting.tau for setting in others]
    assert set(found) == {0.96, *taus}
    assert found.count(0.96) == pytest.approx(1500, rel=0.1)
    for tau in taus:
        assert found.count(tau) == pytest.approx(500, rel=0.15)


def test_a_grid_is_all_combinations():
    found = grid_settings(step=[1.0, 2.0], clip=[3.0, 4.0, 5.0], rho=[6.0], tau=[0.9, 1.0])
    assert len(found) == len(set(found)) == 12
    expected = {
        PrivateSetting(step, 0.5, 6.0, clip, tau)
        for step in (1.0, 2.0)
        for clip in (3.0, 4.0, 5.0)
        for tau in (0.9, 1.0)
    }
    assert set(found) == expected
    assert grid_settings(step=[1.0], clip=[2.0]) == [PrivateSetting(1.0, 0.5, 1.0, 2.0, 0.985)]
    assert grid_settings(step=[], clip=[2.0]) == []


CENTRE = PrivateSetting(1.0, 0.5, 1.0, 1.0, 0.98)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: random_settings(0, 0), "number must be at least 1, but it is 0"),
        (lambda: random_settings(0, 5, rho=(2.0, 1.0)), "rho must be the smallest and the largest"),
        (lambda: nearby_settings(0, CENTRE, 5, spread=0.0), "spread must be positive .* is 0.0"),
    ],
)
def test_mistakes_in_settings_get_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


# --- search ---------------------------------------------------------------------------------------


def normal_equations(x, y, shares, loss, l1, l2):
    """The optimum of ridge regression; the package's own takes seconds to compile."""
    x, y, shares = x.reshape(-1, x.shape[-1]), y.reshape(-1), shares.reshape(-1)
    gram = x.T @ (shares[:, None] * x) + l2 * jnp.eye(x.shape[-1], dtype=x.dtype)
    return jnp.linalg.solve(gram, x.T @ (shares * y))


def ridge(key):
    with mock.patch.object(consensus, "pooled_optimum", normal_equations):
        return draw_consensus_regression(
            key, graphs.star(CLIENTS), losses.squared(), samples=9, dim=3, l2=1.0
        )


def private(setting, epsilon=8.0):
    plan = zcdp_plan(epsilon, DELTA, ROUNDS, setting.tau)
    return private_networked_admm(
        gaussian_release(plan, setting.clip),
        rho=setting.rho,
        step_size=power_decay(setting.step, setting.power),
    )


def noiseless(step):
    """Without clipping a step that is too large overflows."""
    return private_subgradient(exact_release(), step_size=power_decay(step, 0.0))


def tune(build=private, settings=None, seed=0, **options):
    settings = random_settings(2, 4, step=(0.1, 1.0)) if settings is None else settings
    arguments = {"trials": TRIALS, "rounds": ROUNDS} | options
    return tune_private(build, settings, ridge, jax.random.key(seed), **arguments)


def test_the_planted_best_of_a_grid_is_found():
    """Least clipping moves too slowly, most clipping takes too much noise."""
    settings = grid_settings(step=[0.05], clip=[1e-4, 3.0, 3e3, 3e4], rho=[1.0], tau=[0.9])
    found = tune(settings=settings)
    assert isinstance(found, Tuned)
    assert found.setting == settings[1]
    low, best, high, highest = found.scores.mean(0)
    assert best < 0.8 * low
    assert low == pytest.approx(CLIENTS, rel=1e-2)  # nobody has moved
    assert highest > high > 100 * best
    assert found.score == pytest.approx(best, rel=1e-6)
    np.testing.assert_array_equal(found.solver.release.norm, np.float32(3.0))
    expected = private(settings[1])
    jax.tree.map(np.testing.assert_array_equal, found.solver, expected)
    assert jax.tree.structure(found.solver) == jax.tree.structure(expected)


@pytest.mark.thorough
def test_scores_are_those_of_single_runs():
    """Every setting on the same problems with the same draws."""
    settings = random_settings(2, 4, step=(0.1, 1.0))
    found = tune(settings=settings)
    assert found.scores.shape == (TRIALS, 4)
    assert isinstance(found.scores, np.ndarray)
    once = jax.jit(
        lambda solver, problem, key: run(
            solver, problem, key, rounds=ROUNDS, measure=consensus_error, every=ROUNDS
        ).trace["unprotected_error"][-1]
    )
    expected = np.empty((TRIALS, 4))
    for t, key in enumerate(jax.random.split(jax.random.key(0), TRIALS)):
        problem_key, run_key = jax.random.split(key)
        problem = ridge(problem_key)
        for s, setting in enumerate(settings):
            expected[t, s] = once(private(setting), problem, jax.random.clone(run_key))
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4)
    assert len(np.unique(found.scores)) == found.scores.size
    place = int(expected.mean(0).argmin())
    assert found.setting == settings[place]
    assert found.score == pytest.approx(expected.mean(0)[place], rel=1e-4)


def test_runs_that_fail_lose():
    found = tune(noiseless, [1e30, 0.1, 1e-3])
    assert (found.scores[:, 0] == math.inf).all()
    assert np.isfinite(found.scores[:, 1:]).all()
    assert found.setting == 0.1
    assert math.isfinite(found.score)


def test_if_every_run_fails_it_is_told():
    with pytest.raises(InputError, match=f"all {TRIALS} problems, but none of 3 does; take small"):
        tune(noiseless, [1e30, 1e25, 1e28])


def test_another_metric_decides():
    """The entry of the measure that is named."""
    errors = tune(noiseless, [1e-3, 0.1, 1e-6])
    gaps = tune(noiseless, [1e-3, 0.1, 1e-6], measure=consensus_gap, metric="gap")
    assert gaps.setting == errors.setting == 0.1
    assert (gaps.scores > -1e-5).all()
    assert (np.abs(gaps.scores / errors.scores - 1) > 1e-2).all()


@pytest.mark.thorough
def test_other_numbers_do_not_compile_again():
    traced = []

    def draw(key):
        traced.append(key)
        return ridge(key)

    scores = []
    for seed in range(3):
        settings = random_settings(seed, 4, step=(0.1, 1.0))
        key = jax.random.key(10 + seed)
        found = tune_private(private, settings, draw, key, trials=2, rounds=ROUNDS)
        scores.append(found.scores)
        if not seed:
            first = len(traced)
    assert len(traced) == first
    assert first >= 1
    assert len(np.unique(scores)) == 3 * 2 * 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"settings": []}, "settings must hold at least one setting, but it is empty"),
        ({"trials": 0}, "trials must be at least 1, but it is 0"),
        ({"rounds": 0}, "rounds must be at least 1, but it is 0"),
        ({"rounds": ROUNDS + 1}, f"rounds must be at most {ROUNDS}, for which the noise is plann"),
        ({"width": 0}, "width must be at least 1, but it is 0"),
    ],
)
def test_mistakes_in_a_search_get_a_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence):
        tune(**options)
