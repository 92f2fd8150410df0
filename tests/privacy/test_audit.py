"""Audits: how far one sample moves a message, and how well data sets can be told apart."""

import math
from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fedjax_admm as fa
from fedjax_admm import graphs, participation
from fedjax_admm.privacy import approximate_plan, gaussian_release, zcdp_plan
from fedjax_admm.problems import consensus_regression, with_loss
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
from tests.reference import zcdp as reference
from tests.solvers.private.cases import (
    CLIENTS,
    DELTA,
    DIM,
    LOSSES,
    SIZES,
    WITHOUT_OPTIMUM,
    cast,
    draw,
    problem_of,
)

# --- how far one replaced sample moves a message --------------------------------------------------

CLIP, RHO, ROUNDS = 0.7, 0.7, 8
SCHEDULE = partial(power_decay, 0.3, 0.5)
SOLVERS = {
    "ADMM": lambda release, rho=RHO: private_networked_admm(release, rho=rho, step_size=SCHEDULE()),
    "subgradient": lambda release, rho=RHO: private_subgradient(release, step_size=SCHEDULE()),
    "P-ADMM": lambda release, rho=RHO: p_admm(release, rho=rho),
}


def sensitivity(name, problem, n, rho=RHO, clip=CLIP):
    """Return Delta_k of the n-th release by the reference's formulas, shape (clients,)."""
    eta = 0.3 / math.sqrt(n)
    degrees = np.asarray(problem.graph.degrees)
    one = {
        "ADMM": lambda m, d: reference.sensitivity_nfl(clip, m, d, rho, eta),
        "subgradient": lambda m, d: reference.sensitivity_grad(clip, m, eta),
        "P-ADMM": lambda m, d: reference.sensitivity_p_admm(
            clip, m, d, rho, float(problem.l2), problem.num_clients
        ),
    }[name]
    return np.array([one(m, d) for m, d in zip(np.asarray(problem.sizes), degrees, strict=True)])


def state_of(solver, problem, seed=3):
    """Return a state after five releases of everybody, drawn by chance."""
    first = solver.init(problem, jax.random.key(0))
    normal = np.random.default_rng(seed).standard_normal

    def one(leaf):
        whole = jnp.issubdtype(leaf.dtype, jnp.integer)
        return jnp.full_like(leaf, 5) if whole else jnp.asarray(normal(leaf.shape), leaf.dtype)

    return jax.tree.map(one, first)


@jax.jit
def messages(solver, problem, state, active, x, y):
    """Return what is sent if the first sample of a client is (x, y).

    Args:
      solver: any private solver.
      problem: its first samples do not matter.
      state: before the round.
      active: who takes part.
      x: shape (clients, choices, dim), in row k those of client k.
      y: shape (clients, choices).

    Returns:
      Shape (clients, choices, clients, dim), and the same of the messages without noise.
    """
    info = RoundInfo(jnp.array(5, jnp.int32), jax.random.key(3), active)

    def one(k, x, y):
        features = problem.features.at[k, 0].set(x)
        targets = problem.targets.at[k, 0].set(y)
        other = replace(problem, features=features, targets=targets)
        # Building the problem anew is part of what is audited.
        other = with_loss(other, problem.loss, l1=problem.l1, l2=problem.l2)
        after = solver.step(other, state, info)
        return solver.estimate(after), solver.unprotected(after)

    places = jnp.arange(problem.num_clients, dtype=jnp.int32)
    return jax.vmap(jax.vmap(one, (None, 0, 0)))(places, x, y)


def sent(solver, problem, state, x, y, active=None):
    active = jnp.ones(problem.num_clients, bool) if active is None else jnp.asarray(active)
    dtype = problem.features.dtype
    with WITHOUT_OPTIMUM:
        found = messages(
            cast(solver, dtype), problem, state, active, *(jnp.asarray(p, dtype) for p in (x, y))
        )
    return tuple(np.asarray(part) for part in found)


def own(found):
    """Return each client's own messages (clients, choices, dim); those of others do not move."""
    for k, part in enumerate(found):
        others = np.delete(part, k, axis=1)
        np.testing.assert_array_equal(others, np.broadcast_to(others[:1], others.shape))
    places = np.arange(len(found))
    mine = found[places, :, places].astype(np.float64)
    assert np.all(np.isfinite(mine))
    return mine


def distances(mine):
    """Return the largest distance of any two choices, shape (clients,)."""
    return np.array(
        [max(np.linalg.norm(all_ - row, axis=1).max() for row in all_) for all_ in mine]
    )


NUMBER = 200  # choices


def choices(v, labels, power):
    """Return samples of all sizes, up to 10^power. The first two have opposite gradients.

    Their features are orthogonal to v_k, so that residuals have the signs of the targets.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((CLIENTS, NUMBER, DIM)) * 10 ** rng.uniform(-2, 2, (CLIENTS, NUMBER, 1))
    x[:, 20:80] *= 10.0 ** rng.uniform(-power, power, (CLIENTS, 60, 1))
    x[:, 2:6] = 0
    x[:, 6:10, 1:] = 0
    y = rng.standard_normal((CLIENTS, NUMBER)) * 10 ** rng.uniform(-2, 3, (CLIENTS, NUMBER))
    y[:, ::7] *= 10.0 ** (power / 2)
    across = np.cross(v, np.roll(v, 1, axis=0) + 1)
    x[:, :2] = (10 * CLIP * across / np.linalg.norm(across, axis=1)[:, None])[:, None]
    y[:, :2] = [1e4, -1e4]
    return x, np.where(y < 0, -1.0, 1.0) if labels else y


WIDE = [
    *(("ADMM", loss) for loss in LOSSES),
    *(("subgradient", loss) for loss in ("squared", "logistic")),
    *(("P-ADMM", loss) for loss in ("squared", "huber", "logistic")),
]
NARROW = [("ADMM", "squared"), ("subgradient", "absolute"), ("P-ADMM", "huber")]


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("name", "loss", "dtype"),
    [(*pair, "float64") for pair in WIDE] + [(*pair, "float32") for pair in NARROW],
)
def test_one_replaced_sample_moves_a_message_by_the_sensitivity_and_no_more(name, loss, dtype):
    """The worst one moves it so far, and no two of 200 samples, outliers among them, further."""
    labels, wide = loss == "logistic", dtype == "float64"
    with jax.enable_x64(True):
        problem = problem_of(draw(1, labels=labels), loss, l2=0.5)
    exact, slack = (1e-9, 1e-9) if wide else (1e-4, 1e-4)
    with jax.enable_x64(wide):
        problem = cast(problem, dtype)
        solver = SOLVERS[name](gaussian_release(zcdp_plan(2.0, DELTA, ROUNDS), CLIP))
        state = state_of(solver, problem)
        x, y = choices(np.asarray(solver.estimate(state), np.float64), labels, 100 if wide else 12)
        v, w = (own(part) for part in sent(solver, problem, state, x, y))
        wanted = sensitivity(name, problem, 6)
        gains = solver.gains(problem, jnp.full(CLIENTS, 6, jnp.int32))
        counted_on = solver.release.sensitivity(gains, problem.sizes)
        np.testing.assert_allclose(counted_on, wanted, rtol=1e-13 if wide else 1e-6)
        worst = np.linalg.norm(w[:, 0] - w[:, 1], axis=1)
        # In P-ADMM other samples hold a model back, and so does a bounded slope.
        attained = (SIZES == 1) & (not labels) | (name != "P-ADMM")
        np.testing.assert_allclose(worst[attained], wanted[attained], rtol=exact)
        ratio = distances(w) / wanted
        assert np.all(ratio <= 1 + slack), ratio
        assert ratio.max() > 0.95
        # What is sent moves as far, but for the grid: the noise is the same.
        noise = solver.release.deviation(gains, problem.sizes, jnp.full(CLIENTS, 6, jnp.int32))
        differences = np.abs(distances(v) - ratio * wanted)
        assert np.all(differences <= np.asarray(noise) * (2e-7 if wide else 2e-3))
        if name != "P-ADMM":  # the regulariser adds nothing
            l1, l2 = (jnp.asarray(weight, dtype) for weight in (0.4, 3.0))
            _, w = sent(solver, replace(problem, l1=l1, l2=l2), state, x, y)
            np.testing.assert_allclose(distances(own(w)) / wanted, ratio, rtol=slack)


# --- how well two data sets can be told apart -----------------------------------------------------

RUNS, TURNS, LOOSE = 20_000, 6, 1e-2  # keys per data set, rounds, delta
PATH = np.array([(0, 1), (1, 2)])
ETA, WEIGHT, NORM = 0.3, 0.5, 0.8


@cache
def neighbours(worst):
    """Return features and targets of 3 clients, twice; a sample of the middle one differs.

    The worst case: its gradients are opposite in every round, whatever happens.
    """
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 2, 2))
    y = x @ np.array([1.0, -0.5]) + 0.3 * rng.standard_normal((3, 2))
    other_x, other_y = x.copy(), y.copy()
    if worst:
        x[1, 0] = other_x[1, 0] = [3.0, 4.0]
        y[1, 0], other_y[1, 0] = 1e4, -1e4
    else:
        other_x[1, 0], other_y[1, 0] = [-1.0, 0.5], 2.0
    return (x, y), (other_x, other_y)


def play(build, data, masks, seed):
    """Return the messages of many runs on one data set (runs, rounds, clients, dim)."""
    x, y = data
    graph = graphs.from_edges(3, PATH)
    with WITHOUT_OPTIMUM:
        problem = consensus_regression(graph, list(x), list(y), LOSSES["squared"][0]())
    keys = jax.random.split(jax.random.key(seed), RUNS)
    return np.asarray(_play(build, problem, keys, participation.replay(masks)))


@jax.jit
def _play(solver, problem, keys, process):
    def one(key):
        return fa.run(
            solver, problem, key, rounds=TURNS, participation=process, measure=released
        ).trace["v"]

    return jax.vmap(one)(keys)


def released(solver, problem, state):
    return {"v": solver.estimate(state)}


def log_likelihood(name, data, v, masks, multipliers, clip):
    """Return the logarithm of the density of messages, but for a constant, shape (runs,).

    The recursion on released messages, written anew: everything but the noise of the next message
    is known to whoever knows the data.
    """
    x, y = data
    laplacian = reference.laplacian(PATH, 3)
    mixing = reference.metropolis(PATH, 3)
    degree, size = np.diag(laplacian), x.shape[1]
    norm = np.linalg.norm(x, axis=2)
    last, gamma = np.zeros((2, len(v), 3, 2))
    counts, total = np.zeros(3, int), np.zeros(len(v))
    for t in range(TURNS):
        counts = counts + masks[t]
        n = np.maximum(counts, 1)
        eta = ETA / np.sqrt(n)
        slope = 2 * (np.einsum("kmp,bkp->bkm", x, last) - y)
        if clip is not None:
            slope = np.clip(slope, -clip / norm, clip / norm)
        gradient = np.einsum("kmp,bkm->bkp", x, slope) / size
        if name == "ADMM":
            gain = 1 / (1 / eta + 2 * WEIGHT * degree)
            pull = gradient + gamma + WEIGHT * np.einsum("kl,blp->bkp", laplacian, last)
            w = last - gain[:, None] * pull
        else:
            gain = eta
            w = np.einsum("kl,blp->bkp", mixing, last) - gain[:, None] * gradient
        sigma = multipliers[n - 1] * 2 * NORM * gain / size
        squares = np.sum((v[:, t] - w) ** 2, -1) / (2 * sigma**2)
        total -= np.sum(np.where(masks[t], squares, 0), -1)
        last = v[:, t]
        for a, b in PATH:
            if masks[t][a] and masks[t][b]:
                flow = WEIGHT * (last[:, a] - last[:, b])
                gamma[:, a] += flow
                gamma[:, b] -= flow
    return total


def ratios(name, release, worst, masks=None, clip=NORM):
    """Return the adversary's best statistic, the log likelihood ratio, under both data sets."""
    masks = np.ones((TURNS, 3), bool) if masks is None else masks
    schedule = power_decay(ETA, 0.5)
    solver = (
        private_networked_admm(release, rho=WEIGHT, step_size=schedule)
        if name == "ADMM"
        else private_subgradient(release, step_size=schedule)
    )
    pair = neighbours(worst)
    z = np.asarray(release.multipliers)
    found = []
    for seed, data in enumerate(pair):
        v = play(solver, data, masks, seed)
        first, second = (log_likelihood(name, one, v, masks, z, clip) for one in pair)
        found.append(first - second)
    return found


def least_epsilon(first, second, delta):
    """Return an epsilon that surely does not hold: the largest lower bound over many events.

    P(S) <= e^epsilon P'(S) + delta for S = {ratio > threshold}; both probabilities by Clopper and
    Pearson's bounds, at a level that covers all thresholds and both directions.
    """
    best, level = 0.0, 1e-3 / 160
    for more, less in ((first, second), (-second, -first)):
        for threshold in np.quantile(more, np.linspace(0.02, 0.999, 40)):
            hits, misses = (more > threshold).sum(), (less > threshold).sum()
            low = stats.beta.ppf(level, hits, len(more) - hits + 1)
            high = stats.beta.ppf(1 - level, misses + 1, len(less) - misses)
            if low > delta:
                best = max(best, math.log((low - delta) / high))
    return best


def estimated_mu(first, second):
    """Return the distance of the two laws of the ratio in standard deviations."""
    return (first.mean() - second.mean()) / math.sqrt((first.var() + second.var()) / 2)


PLANS = {
    "zcdp": zcdp_plan(4.0, LOOSE, TURNS, 0.8),
    "advanced": approximate_plan(4.0, LOOSE, TURNS, 0.9),
}


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["ADMM", "subgradient"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_best_adversary_gets_what_the_plan_says_and_not_more(name, plan):
    first, second = ratios(name, gaussian_release(plan, NORM), worst=True)
    mu = math.sqrt(2 * plan.budgets.sum())
    assert estimated_mu(first, second) == pytest.approx(mu, rel=0.04)
    # Under both laws the ratio is normal, its mean +-mu^2/2 and its deviation mu.
    for ratio, sign in ((first, 1), (second, -1)):
        assert stats.kstest((ratio - sign * mu**2 / 2) / mu, "norm").pvalue > 1e-3
    found = least_epsilon(first, second, LOOSE)
    assert found <= plan.exact_epsilon
    assert found > 0.6 * plan.exact_epsilon - 0.1


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_who_takes_part_less_often_reveals_less():
    name, plan = "ADMM", PLANS["zcdp"]
    masks = np.ones((TURNS, 3), bool)
    masks[[0, 3, 4], 1] = False  # the middle client releases three times
    masks[2, 0] = masks[4, 2] = False
    first, second = ratios(name, gaussian_release(plan, NORM), worst=True, masks=masks)
    spent = plan.spent(np.array(3))
    mu = math.sqrt(2 * float(spent.budget))
    assert mu < 0.7 * math.sqrt(2 * plan.budgets.sum())
    assert estimated_mu(first, second) == pytest.approx(mu, rel=0.05)
    assert least_epsilon(first, second, LOOSE) <= float(spent.exact_epsilon)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_the_audit_finds_broken_releases():
    name, plan = "ADMM", PLANS["zcdp"]
    release = gaussian_release(plan, NORM)
    half = replace(release, multipliers=release.multipliers / 2)
    first, second = ratios(name, half, worst=True)
    assert least_epsilon(first, second, LOOSE) > 1.2 * plan.exact_epsilon
    # Without clipping, a sample that is nothing special is found out, whatever the noise is for.
    nominal = gaussian_release(plan, None, nominal_norm=NORM)
    first, second = ratios(name, nominal, worst=False, clip=None)
    assert least_epsilon(first, second, LOOSE) > 1.2 * plan.exact_epsilon
