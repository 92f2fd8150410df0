"""Tracking: warm-started rounds per sample, against a loop over runs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import graphs, losses, privacy
from tests.solvers.private.cases import WITHOUT_OPTIMUM

ANCHORS = np.array([[-20.0, -20.0], [20.0, -20.0], [20.0, 20.0], [-20.0, 20.0], [0.0, 30.0]])
SAMPLES, TIMES = 30, 6


@pytest.fixture(autouse=True)
def _double_precision(x64):
    """Trajectories are compared to 1e-9."""


@pytest.fixture(autouse=True)
def keys_serve_again():
    """Have keys watched here, as they are for users."""


def walked(speed=0.5):
    steps = speed * np.arange(SAMPLES)[:, None]
    return np.array([-8.0, 3.0]) + steps * [0.8, -0.6]


def moving(noise=0.05):
    """Return the problems of successive samples, some ranges missing."""
    random = np.random.default_rng(0)
    path = walked()
    ranges = np.linalg.norm(path[:, None] - ANCHORS, axis=-1)
    ranges = ranges + noise * random.normal(size=ranges.shape)
    ranges[random.uniform(size=ranges.shape) < 0.2] = np.nan

    def build(distances, target):
        return fa.problems.localization(ANCHORS, distances, sigma=1.0, target=target)

    return jax.vmap(build)(jnp.asarray(ranges), jnp.asarray(path))


def solver():
    return fa.solvers.fed_admm(rho=0.5, local=fa.solvers.local_prox())


def test_it_is_a_loop_of_runs_that_begin_where_the_last_one_ended():
    problems, key = moving(), jax.random.key(3)
    chosen = fa.participation.bernoulli(0.7)
    found = fa.track(
        solver(), problems, key, rounds=3, participation=chosen, measure=fa.measures.target_regret
    )
    state = None
    for k in range(SAMPLES):
        problem = jax.tree.map(lambda leaf, k=k: leaf[k], problems)
        if state is not None:
            state = state._replace(index=jnp.zeros((), jnp.int32), fingerprint=None)
        run = fa.run(
            solver(),
            problem,
            jax.random.fold_in(key, k),
            rounds=3,
            participation=chosen,
            measure=fa.measures.target_regret,
            every=3,
            start=state,
        )
        state = run.state
        np.testing.assert_allclose(found.estimates[k], run.estimate, atol=1e-9)
        np.testing.assert_allclose(found.trace["regret"][k], run.trace["regret"][0], atol=1e-9)
        assert found.trace["messages"][k] == run.trace["messages"][0]


@pytest.mark.thorough
def test_more_rounds_per_sample_follow_a_target_more_closely():
    problems, errors = moving(), []
    for rounds in (1, 10):
        found = fa.track(solver(), problems, jax.random.key(0), rounds=rounds)
        gaps = np.linalg.norm(found.estimates - walked(), axis=1)
        errors.append(np.median(gaps[5:]))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.4


@pytest.mark.thorough
def test_the_regret_is_the_difference_of_the_sums_of_losses():
    problems = moving(noise=0.5)
    found = fa.track(
        solver(), problems, jax.random.key(0), rounds=5, measure=fa.measures.target_regret
    )
    for k, estimate in enumerate(np.asarray(found.estimates)):
        one = jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k]), problems)
        sums = []
        for place in (estimate, one.target):
            length = np.linalg.norm(place - one.anchors, axis=1)
            sums.append(np.sum(one.weights[:, 0, 0] * np.abs(length - one.ranges[:, 0, 0])))
        np.testing.assert_allclose(found.trace["regret"][k], sums[0] - sums[1], atol=1e-9)


def shifted(state):
    """Move a window of positions by one time; the newest begins at the one before."""

    def move(rows):
        if rows.ndim == 0 or rows.shape[-1] != 2 * TIMES:
            return rows
        return jnp.concatenate([rows[..., 2:], rows[..., -2:]], -1)

    return jax.tree.map(move, state)


@pytest.mark.thorough
def test_a_window_of_positions_with_a_chain_penalty_moves_along():
    """One or two ranges per time: only the penalty between times makes them a path."""
    random = np.random.default_rng(1)
    path, count = walked(), SAMPLES - TIMES + 1
    ranges = np.linalg.norm(path[:, None] - ANCHORS, axis=-1)
    ranges[random.uniform(size=ranges.shape) < 0.7] = np.nan
    windows = np.stack([ranges[k : k + TIMES].T for k in range(count)])

    def build(distances):
        return fa.problems.localization(ANCHORS, distances, sigma=1.0, path=True)

    problems = jax.vmap(build)(jnp.asarray(windows))
    smooth = fa.solvers.fed_admm(
        rho=0.3, local=fa.solvers.local_prox(), regularizer=fa.penalties.motion(TIMES, 0.3)
    )
    errors = []
    for carry in (None, shifted):
        found = fa.track(smooth, problems, jax.random.key(0), rounds=10, carry=carry)
        newest = np.asarray(found.estimates)[:, -2:]
        errors.append(np.median(np.linalg.norm(newest - path[TIMES - 1 :], axis=1)[8:]))
    assert errors[1] < errors[0]
    assert errors[1] < 1.0


def halved(state):
    return jax.tree.map(lambda leaf: leaf / 2 if leaf.ndim == 2 else leaf, state)


def test_tracking_uses_its_key_once_and_no_more_releases_than_are_planned():
    """Five samples of three rounds each are fifteen releases, whose noise follows from one key."""
    rng, count = np.random.default_rng(0), 5
    graph = graphs.from_edges(3, [(0, 1), (1, 2)])

    def one():
        x, y = rng.standard_normal((3, 6, 2)), rng.standard_normal((3, 6))
        with WITHOUT_OPTIMUM:
            return fa.problems.consensus_regression(graph, list(x), list(y), losses.squared())

    problems = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(one() for _ in range(count)))

    def private(releases, clip=1.0):
        release = privacy.gaussian_release(privacy.zcdp_plan(1.0, 1e-5, releases), clip)
        return fa.solvers.private_subgradient(release, step_size=0.1)

    def tracked(solver, seed=11, rounds=3, **options):
        return fa.track(solver, problems, jax.random.key(seed), rounds=rounds, **options)

    with pytest.raises(fa.InputError, match="rounds times samples must be at most 5, for"):
        tracked(private(5))
    found = tracked(private(15))
    spent = privacy.ledger(found.state, 1e-5)
    assert np.isfinite(found.estimates).all()
    assert np.all(spent.epsilon <= 1)
    np.testing.assert_allclose(spent.epsilon, 1, rtol=1e-10)
    np.testing.assert_array_equal(tracked(private(15)).estimates, found.estimates)
    again = pytest.raises(fa.InputError, match="key must be used once, but a private run")
    with again:
        tracked(private(15, clip=2.0))
    with again:
        tracked(private(15), rounds=2)
    with again:
        tracked(private(15), carry=halved)
    with again:
        fa.run(private(15), one(), jax.random.key(11), rounds=3)
    tracked(private(15, clip=2.0), seed=12)


def test_problems_need_an_axis_of_samples():
    problems = moving()
    uneven = replace(problems, target=problems.target[:-1])
    with pytest.raises(
        fa.InputError,
        match=r"problems must be arrays with one leading axis \(samples\),",
    ):
        fa.track(solver(), uneven, jax.random.key(0), rounds=2)
