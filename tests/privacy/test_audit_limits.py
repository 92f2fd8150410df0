"""Audits at the limits of numbers: extreme samples, far tails, rounding."""

from dataclasses import replace
from fractions import Fraction
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fedjax_admm as fa
from fedjax_admm import graphs, losses
from fedjax_admm.privacy import (
    _releases as releases,
    accountant,
    gaussian_release,
    zcdp_plan,
    zcdp_plan_of_budget,
)
from fedjax_admm.privacy._noise import normal_of_words
from fedjax_admm.problems import consensus_regression
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers import private_subgradient
from tests.privacy.test_audit import (
    CLIP,
    ROUNDS,
    SOLVERS,
    distances,
    own,
    sensitivity,
    sent,
    state_of,
)
from tests.solvers.private.cases import (
    CLIENTS,
    DELTA,
    DIM,
    WITHOUT_OPTIMUM,
    cast,
    draw,
    problem_of,
)

pytestmark = pytest.mark.thorough

# --- extreme samples ------------------------------------------------------------------------------

NUMBER = 120  # choices


def extremes(dtype, labels):
    """Return samples of the whole range of a dtype, infinity and NaN among them."""
    limits, rng = np.finfo(dtype), np.random.default_rng(0)
    largest, least = float(limits.max), float(limits.tiny)
    values = [0, 1, least / 8, least, least * 1e6, largest**0.5, largest / 8, largest]
    values = np.array([*values, *(-np.array(values)), np.inf, -np.inf, np.nan])
    shape = (CLIENTS, NUMBER)
    x = rng.choice(values, (*shape, DIM))
    x[:, ::4] = rng.standard_normal((CLIENTS, NUMBER // 4, DIM))
    # Long features alone, in all directions.
    x[:, 1::4] = largest / 4 * rng.uniform(-1, 1, (CLIENTS, NUMBER // 4, DIM))
    y = rng.choice(values, shape)
    y[:, ::3] = 10 * rng.standard_normal((CLIENTS, NUMBER // 3))
    return x, np.where(y < 0, -1.0, 1.0) if labels else y


def moved(name, loss, dtype):
    """Return how far extreme samples move messages, in sensitivities, shape (clients,)."""
    labels = loss == "logistic"
    with jax.enable_x64(True):
        problem = problem_of(draw(1, labels=labels), loss, l2=0.5)
    with jax.enable_x64(dtype == "float64"):
        problem = cast(problem, dtype)
        solver = SOLVERS[name](gaussian_release(zcdp_plan(2.0, DELTA, ROUNDS), CLIP))
        state = state_of(solver, problem)
        # Every mean and sum of the samples is looked at, and whether others' messages move.
        v, w = (own(part) for part in sent(solver, problem, state, *extremes(dtype, labels)))
        assert np.isfinite(v).all()
        return distances(w) / sensitivity(name, problem, 6)


EXTREME = [
    ("ADMM", "squared", "float32"),
    ("ADMM", "logistic", "float64"),
    ("subgradient", "squared", "float64"),
    ("P-ADMM", "squared", "float32"),
]


@pytest.mark.parametrize(("name", "loss", "dtype"), EXTREME)
def test_no_sample_of_the_dtype_moves_a_message_further_than_the_sensitivity(name, loss, dtype):
    ratio = moved(name, loss, dtype)
    assert np.all(ratio <= 1 + (1e-4 if dtype == "float32" else 1e-9)), ratio
    assert ratio.max() > 0.5


def test_one_finite_sample_leaves_everybodys_messages_numbers():
    """Features near the end of float32, whose predictions are inf - inf."""
    rng = np.random.default_rng(0)
    x = [rng.standard_normal((m, 8)).astype(np.float32) for m in (10, 6, 20)]
    y = [rng.standard_normal(len(part)).astype(np.float32) for part in x]
    x[0][0] = 3e38 * np.where(np.arange(8) % 2, 1, -1)
    with WITHOUT_OPTIMUM:
        problem = consensus_regression(
            graphs.from_edges(3, [(0, 1), (1, 2)]), x, y, losses.squared()
        )
    release = gaussian_release(zcdp_plan(2.0, 1e-5, 40), 20.0)
    run = fa.run(private_subgradient(release, step_size=5.0), problem, jax.random.key(0), rounds=40)
    assert int(run.status.nonfinite) == 0
    assert np.isfinite(run.state.solver.nodes.v).all()


# --- tails ----------------------------------------------------------------------------------------

DRAWS = 2_000_000
# A sample moves a message by half a deviation.
SHIFT, BEYOND, SMALL = 0.5, 5.3, 1e-7
# Only numbers whose first word, without its sign, is below 2^12 of 2^31: |Z| > 4.76.
FAR, LIKELY = 2**12 - 1, 2.0**-19


def far_numbers(key, shape, dtype):
    """Draw as the sampler does, given that all numbers are far out."""
    words = jax.random.bits(key, (3, *shape), jnp.uint32)
    return normal_of_words(words.at[0].set(words[0] & jnp.uint32(2**31 + FAR)), dtype)


def tails_epsilon():
    """Return an epsilon that the tail proves not to hold, and the exact one of the noise."""
    plan = zcdp_plan_of_budget(SHIFT**2 / 2, SMALL, 1)
    release = gaussian_release(plan, 1.0)
    ones = (jnp.ones(1, jnp.float32), jnp.ones(1, jnp.int32), jnp.ones(1, jnp.int32))
    with mock.patch.object(releases, "standard_normal", far_numbers):
        # The sensitivity is 2 c gain / M = 2.
        found = [
            release(jax.random.key(seed), jnp.full((1, DRAWS), message, jnp.float32), *ones)
            for seed, message in enumerate((2.0, 0.0))
        ]
    hits, misses = (int((part > BEYOND * release.deviation(*ones)[0]).sum()) for part in found)
    low = LIKELY * stats.beta.ppf(1e-3, hits, DRAWS - hits + 1)
    high = LIKELY * stats.beta.ppf(1 - 1e-3, misses + 1, DRAWS - misses)
    return np.log((low - SMALL) / high), accountant.gaussian_epsilon(SHIFT**2 / 2, SMALL)


def test_what_is_far_out_under_one_data_set_is_possible_under_its_neighbour():
    proved, exact = tails_epsilon()
    assert exact - 1 < proved <= exact


# --- rounding -------------------------------------------------------------------------------------


def shortfalls():
    """Return by which part the noise of a run in float32 is too small, at worst; exactly."""
    rng, worst = np.random.default_rng(0), Fraction(-1)
    plan = zcdp_plan(2.0, DELTA, 300)
    with jax.enable_x64(True):  # multipliers are in float64, and the run rounds them to nearest
        release = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), gaussian_release(plan, 1 / 3))
    sizes = rng.integers(1, 2000, 300).astype(np.int32)
    gains = rng.lognormal(0, 5, 300).astype(np.float32)
    found = release.deviation(jnp.asarray(gains), jnp.asarray(sizes), jnp.arange(1, 301))
    for z, size, gain, deviation in zip(plan.multipliers, sizes, gains, found, strict=True):
        needed = Fraction(float(z)) * 2 * Fraction(float(release.norm)) * Fraction(float(gain))
        needed /= int(size)
        worst = max(worst, 1 - Fraction(float(deviation)) / needed)
    return worst


def test_noise_is_never_smaller_than_planned_after_any_cast():
    assert shortfalls() < 0


@pytest.mark.parametrize("name", SOLVERS)
def test_noise_is_larger_than_the_steps_of_large_models(name):
    """Models 10^7 times their noise swallow it, or move by a whole step where a sample moves less.

    Whatever a message is rounded to, under two keys it is not the same, and noise is as many times
    the distance of two data sets as planned.
    """
    size, problem = 1e6, cast(problem_of(draw(1), "squared", l2=0.5), "float32")
    plan = zcdp_plan(1.0, DELTA, 10, 1.0)
    solver = cast(SOLVERS[name](gaussian_release(plan, 0.05)), "float32")
    first = solver.init(problem, jax.random.key(0))
    v = size + jnp.asarray(np.random.default_rng(0).standard_normal((CLIENTS, DIM)), jnp.float32)
    state = first._replace(nodes=first.nodes._replace(v=v, w=v))
    everybody = jnp.ones(CLIENTS, bool)

    @jax.jit
    def one(key, x, y):
        features, targets = problem.features.at[0, 0].set(x), problem.targets.at[0, 0].set(y)
        other = replace(problem, features=features, targets=targets)
        after = solver.step(other, state, RoundInfo(jnp.int32(0), key, everybody))
        return solver.estimate(after)[0], solver.unprotected(after)[0]

    keys = jax.random.split(jax.random.key(1), 400)
    data = [(problem.features[0, 0], problem.targets[0, 0]), (jnp.ones(DIM), jnp.float32(1e9))]
    data.append((jnp.ones(DIM), jnp.float32(-1e9)))
    sent_ = np.asarray(jax.vmap(one, (0, None, None))(keys, *data[0])[0], np.float64)
    # Models without noise do not depend on the key.
    models = np.array(
        [one(jax.random.key(k), *pair)[1] for k, pair in enumerate(data, 2)], np.float64
    )
    apart = max(np.linalg.norm(a - b) for a in models for b in models)
    deviations = sent_.std(0)
    assert np.all(deviations > 0.9 * plan.multipliers[0] * apart)
    # A step of the models, which they are rounded to, is hidden too.
    assert np.all(deviations > plan.multipliers[0] * np.spacing(np.float32(size)))
