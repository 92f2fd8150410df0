"""What was really released is what is spent: runs in parts, other plans, releases without noise."""

import itertools
import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs, losses, participation
from fedjax_admm.measures import consensus_releases
from fedjax_admm.privacy import (
    ACCOUNTINGS,
    NOMINAL,
    approximate_plan,
    exact_release,
    gaussian_release,
    ledger,
    tail_mass,
    zcdp_plan,
    zcdp_plan_of_budget,
)
from fedjax_admm.privacy.accountant import gaussian_budget, gaussian_epsilon
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
from tests.solvers.private.cases import WITHOUT_OPTIMUM

DELTA, KEY = 1e-5, jax.random.key(0)
SOLVERS = {
    "ADMM": partial(private_networked_admm, step_size=0.2),
    "subgradient": partial(private_subgradient, step_size=0.2),
    "P-ADMM": partial(p_admm, newton_steps=2),
}
ALL = pytest.mark.parametrize("build", SOLVERS.values(), ids=SOLVERS)


def problem_of(seed=0, clients=3):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((clients, 6, 2)), rng.standard_normal((clients, 6))
    graph = graphs.from_edges(clients, [(k, k + 1) for k in range(clients - 1)])
    with WITHOUT_OPTIMUM:
        return fa.problems.consensus_regression(graph, list(x), list(y), losses.squared(), l2=0.5)


def wanted(*parts):
    """Return the exact epsilon of multipliers, from nothing but the definition of mu."""
    return gaussian_epsilon(math.fsum(0.5 / float(z) ** 2 for part in parts for z in part), DELTA)


# --- several runs, one budget ---------------------------------------------------------------------


@pytest.mark.thorough
@ALL
def test_parts_with_other_norms_and_masks_add_up(build, dtype):
    """Every client by the multipliers of its own releases, in both precisions, and never less."""
    plans = [zcdp_plan(3.0, DELTA, 12, 0.9), zcdp_plan(9.0, DELTA, 12, 1.0)]
    problem = jax.tree.map(lambda leaf: leaf, problem_of())
    masks = np.random.default_rng(3).random((12, 3)) < 0.6
    process = participation.replay(masks)
    state = None
    for plan, norm, rounds in ((plans[0], 1.0, 5), (plans[1], 0.3, 7)):
        solver = build(gaussian_release(plan, norm))
        run = fa.run(solver, problem, KEY, rounds=rounds, participation=process, start=state)
        state = run.state
    spent = ledger(state, DELTA)
    for client in range(3):
        counts = masks[:, client].cumsum()
        used = [
            plans[int(t >= 5)].multipliers[counts[t] - 1] for t in np.flatnonzero(masks[:, client])
        ]
        true = math.fsum(0.5 / z**2 for z in used)
        # The noise is larger than planned by 25 eps of itself at most.
        eps = float(jnp.finfo(dtype).eps)
        assert true * (1 - 50 * eps) <= spent.budget[client]
        assert spent.budget[client] <= true * (1 + 40 * eps)


@pytest.mark.thorough
@ALL
def test_after_a_release_without_noise_nothing_is_left(build):
    problem, plan = problem_of(), zcdp_plan(1.0, DELTA, 4)
    first = fa.run(build(exact_release(1.0)), problem, KEY, rounds=1)
    last = fa.run(build(gaussian_release(plan, 1.0)), problem, KEY, rounds=2, start=first.state)
    for run in (first, last):
        for part in ledger(run, DELTA)[:3]:
            assert np.all(part == np.inf)
    unprotected = zcdp_plan(math.inf, DELTA, 4)
    spent = ledger(fa.run(build(gaussian_release(unprotected, 1.0)), problem, KEY, rounds=1), DELTA)
    assert np.all(spent.exact_epsilon == np.inf)


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [False, True])
def test_the_sum_never_falls_below_the_truth(wide):
    """Many releases, from very much to nearly no noise, where each addition is rounded up."""
    with jax.enable_x64(wide):
        float_ = np.float64 if wide else np.float32
        rng = np.random.default_rng(1)
        z = np.exp(rng.uniform(-5, 12, 5000))
        plan = replace(zcdp_plan(1.0, DELTA, z.size, 1.0), multipliers=z)
        with np.errstate(over="ignore"):
            release = replace(
                gaussian_release(zcdp_plan(1.0, DELTA, z.size, 1.0), 1.0),
                multipliers=jnp.asarray(plan.multipliers, float_),
                delta=jnp.asarray(1e9, float_),  # tails are not what this is about
            )
        solver = private_subgradient(release, step_size=1e-3)
        problem = problem_of()
        run = fa.run(solver, problem, KEY, rounds=z.size)
        used = np.asarray(release.used(jnp.arange(1, z.size + 1)), np.float64)
        true = math.fsum(1 / used**2)
        found = np.asarray(run.state.solver.spent, np.float64)
        assert run.state.solver.spent.dtype == float_
        assert np.all(found >= true)
        assert np.all(found <= true * (1 + (12 + 2 * z.size) * np.finfo(float_).eps))


@pytest.mark.parametrize("z", [0.0, 1e-30, 1e-10, 1.0, 1e10, 1e30, math.nan, -1.0])
def test_costs_of_extreme_multipliers_are_never_too_small(z):
    release = replace(gaussian_release(zcdp_plan(1.0, DELTA, 1), 1.0), multipliers=jnp.float32([z]))
    cost = float(release.costs(jnp.int32([1]))[0])
    used = float(release.used(jnp.int32([1]))[0])
    true = 1 / used**2 if z > 0 else math.inf
    assert cost >= min(true, 3.4e38)
    assert cost <= (max(true * (1 + 2e-6), 1.2e-38) if true < 3.4e38 else math.inf)
    assert float(release.costs(jnp.int32([2]))[0]) == math.inf  # beyond the plan


@pytest.mark.kin(4)
@pytest.mark.parametrize("wide", [(False, False), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("rounds", [1, 12, 300])
def test_a_plan_that_is_followed_to_its_end_spends_no_more_than_it_was_made_for(rounds, wide):
    """The noise may be in float64 where the data are not; with tau < 1, two ledgers are bounds."""
    session, data = wide
    with jax.enable_x64(data):
        problem = problem_of()
    for epsilon, tau in itertools.product((0.01, 0.7, 1.0), (0.97, 1.0)):
        budget = gaussian_budget(epsilon, DELTA)
        plans = [
            zcdp_plan(epsilon, DELTA, rounds, tau),
            zcdp_plan_of_budget(budget, DELTA, rounds, tau),
            approximate_plan(epsilon, DELTA, rounds, tau, composition="advanced"),
            approximate_plan(epsilon, DELTA, rounds, tau, composition="basic"),
        ]
        assert math.fsum(plans[1].budgets) <= budget
        for place, plan in enumerate(plans):
            assert plan.epsilon == epsilon or place == 1
            assert float(plan.spent(rounds).epsilon) <= plan.epsilon
            with jax.enable_x64(session):
                solver = private_subgradient(gaussian_release(plan, 1.0), step_size=0.1)
            with jax.enable_x64(data), fa.key_reuse_allowed():
                run = fa.run(solver, problem, KEY, rounds=rounds)
            spent = ledger(run, DELTA, accounting=plan.accounting)
            assert np.all(spent.budget <= math.fsum(plan.budgets))
            assert np.all(spent.exact_epsilon <= plan.exact_epsilon)
            if place == 1:
                assert np.all(spent.exact_epsilon <= epsilon)
            if tau == 1 or plan.accounting == "zcdp":
                assert np.all(spent.epsilon <= plan.epsilon)
                assert np.all(spent.epsilon >= plan.epsilon * (1 - 1e-4))


# --- what a ledger reads --------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_run_its_states_and_its_trace_tell_the_same():
    plan = zcdp_plan(2.0, DELTA, 5)
    problem = replace(problem_of(), optimum=jnp.ones(2))
    solver = private_subgradient(gaussian_release(plan, 1.0), step_size=0.1)
    run = fa.run(solver, problem, KEY, rounds=5, measure=consensus_releases)
    trace = ledger(run.trace, DELTA)
    for given in (run, run.state, run.state.solver):
        for found, recorded in zip(ledger(given, DELTA)[:3], trace[:3], strict=True):
            assert recorded.shape == (5, 3)
            np.testing.assert_array_equal(found, recorded[-1])
    planned = plan.spent(run.trace["releases"])
    for found, expected in zip(trace[:3], planned[:3], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.thorough
def test_without_clipping_every_epsilon_is_nominal():
    plan = zcdp_plan(2.0, DELTA, 2)
    release = gaussian_release(plan, None, nominal_norm=1.0)
    run = fa.run(private_subgradient(release, step_size=0.1), problem_of(), KEY, rounds=1)
    assert ledger(run, DELTA).label == NOMINAL


def synthetic(multipliers):
    spent = np.array([math.fsum(1 / np.asarray(multipliers) ** 2)])
    return {
        "spent": spent,
        "releases": np.array([len(multipliers)], np.int32),
        "nominal": np.array([False]),
        "tails": np.zeros(1),
    }


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("tau", [0.9, 1.0])
def test_the_sum_bounds_every_accounting(accounting, tau):
    """It is the plan's where that is tight, and never below it; nor below what is exact."""
    numbers = (0.5, DELTA, 60, tau)
    plan = (
        zcdp_plan(*numbers)
        if accounting == "zcdp"
        else approximate_plan(*numbers, composition=accounting)
    )
    spent = ledger(synthetic(plan.multipliers), DELTA, accounting=accounting)
    found, claimed = float(spent.epsilon[0]), plan.epsilon
    assert found >= claimed * (1 - 1e-12)
    loose = {"zcdp": 1e-9, "advanced": 1e-3, "basic": 0.9 if tau < 1 else 1e-9}[accounting]
    assert found <= claimed * (1 + loose)
    assert float(spent.exact_epsilon[0]) <= found
    # With hardly any noise the classical formulas claim nothing that holds.
    little = ledger(synthetic([0.02]), DELTA, accounting=accounting)
    assert float(little.epsilon[0]) >= float(little.exact_epsilon[0]) > 1000


def test_what_is_no_private_run_has_no_ledger():
    with pytest.raises(InputError, match="released must be a Run of a private solver, its state"):
        ledger(fa.RoundState(jnp.int32(0), (), KEY), DELTA)


def test_a_delta_that_the_noise_cannot_honour_is_refused():
    """The plan was made for another; the noise ends at some 11 deviations, or 13."""
    trace = {**synthetic([1.0, 2.0]), "tails": np.array([1e-12])}
    assert ledger(trace, 1e-9).exact_epsilon > 0
    with pytest.raises(
        InputError,
        match=r"delta must be at least 1\.1e-10, which the tails of the",
    ):
        ledger(trace, 1e-11)
    # Where there was no noise, there is nothing to be honoured.
    ledger({**trace, "spent": np.array([np.inf])}, 1e-11)


@pytest.mark.thorough
def test_the_state_adds_up_what_tails_may_do(x64):
    with jax.enable_x64(x64):
        plan = zcdp_plan(4.0, DELTA, 6)
        solver = private_subgradient(gaussian_release(plan, 1.0), step_size=0.1)
        run = fa.run(solver, problem_of(), jax.random.key(77), rounds=6)
        wanted = 2 * tail_mass(plan.multipliers)
        assert np.all(run.state.solver.tails >= wanted)
        assert np.all(run.state.solver.tails <= 1.01 * wanted)
        ledger(run, DELTA)
        with pytest.raises(InputError, match="which the tails of the noise need"):
            ledger(run, wanted)
        # A release whose multipliers were exchanged is refused, or told by what it did.
        loud = replace(solver.release, multipliers=solver.release.multipliers * 0 + 0.15)
        with pytest.raises(InputError, match="which its tails exceed"):
            fa.run(replace(solver, release=loud), problem_of(), jax.random.key(78), rounds=6)
        loud = replace(loud, delta=loud.delta * 0 + 1e9)
        more = fa.run(replace(solver, release=loud), problem_of(), jax.random.key(78), rounds=6)
        with pytest.raises(InputError, match="which the tails of the noise need"):
            ledger(more, DELTA)


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.thorough
@ALL
def test_clipped_and_nominal_releases_do_not_add_up(build):
    problem, plan = problem_of(), zcdp_plan(1.0, DELTA, 4)
    clipped = build(gaussian_release(plan, 1.0))
    nominal = build(gaussian_release(plan, None, nominal_norm=1.0))
    state = fa.run(clipped, problem, KEY, rounds=1).state
    with pytest.raises(InputError) as caught:
        fa.run(nominal, problem, KEY, rounds=1, start=state)
    assert str(caught.value) == (
        "start must be the state of a run whose gradients were not clipped, as those of this "
        "solver are, but those of client 0 were clipped: what they have spent does not add up; "
        "begin anew, with start=None."
    )
    # Before anything was sent, and where everything is lost, there is nothing to add up.
    nothing = fa.run(clipped, problem, KEY, rounds=0).state
    fa.run(nominal, problem, KEY, rounds=1, start=nothing)
    lost = fa.run(build(exact_release()), problem, KEY, rounds=1).state
    fa.run(clipped, problem, KEY, rounds=1, start=lost)


# --- what a user reads ----------------------------------------------------------------------------
