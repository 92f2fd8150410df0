"""Private networked ADMM and subgradient: trajectories, fixed points, noise, budgets, precision."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fedjax_admm as fa
from fedjax_admm import InputError, participation
from fedjax_admm.measures import consensus_error, consensus_releases
from fedjax_admm.privacy import (
    approximate_plan,
    exact_release,
    gaussian_release,
    ledger,
    zcdp_plan,
)
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.schedules import constant, power_decay
from fedjax_admm.solvers import (
    private_networked_admm,
    private_subgradient,
)
from tests.reference import zcdp as reference
from tests.solvers.private.cases import (
    CLIENTS,
    DELTA,
    DIM,
    EDGES,
    EPSILON,
    EVERYBODY,
    LOSSES,
    ROUNDS,
    SIZES,
    TAU,
    GivenNoise,
    at,
    by_round,
    cast,
    close,
    draw,
    follow,
    go,
    normals,
    problem_of,
    random_masks,
    release_of,
    scales,
    simulated,
    steps,
)


def nfl_scales(data, norm, rho, eta, **plan):
    """Return the reference's deviations of private networked ADMM."""
    found = [
        [
            reference.sensitivity_nfl(norm, m, d, rho, step)
            for m, d in zip(SIZES, data.degrees, strict=True)
        ]
        for step in eta
    ]
    return scales(np.array(found), **plan)


def compare_nfl(data, loss, *, clip=True, norm=1.0, rho=0.7, eta=0.1, q=0.5, l1=0.0, l2=0.0,
                masks=EVERYBODY, room=EDGES):  # fmt: skip
    """Run both sides with the same noise and compare all of every round."""
    problem = problem_of(data, loss, l1=l1, l2=l2, room=room)
    release = GivenNoise(release_of(clip, norm), jnp.asarray(normals()))
    solver = private_networked_admm(release, rho=rho, step_size=power_decay(eta, q))
    trace = follow(solver, problem, masks)
    w, v, gamma = reference.zcdp_nfl(
        LOSSES[loss][1],
        data.x,
        data.y,
        SIZES,
        data.edges,
        steps(eta, q),
        rho,
        nfl_scales(data, norm, rho, steps(eta, q)),
        by_round(normals(), masks),
        norm if clip else None,
        l1,
        l2,
        masks,
    )
    close(trace["w"], w)
    close(trace["v"], v)
    close(trace["gamma"], gamma)
    np.testing.assert_array_equal(trace["releases"], np.cumsum(masks, 0))
    # The comparison is worth something: models move to the last, there is noise, and there are
    # duals.
    assert np.abs(np.diff(w[-20:], axis=0)).max() > 1e-3
    assert np.abs(v - w)[-1].min() > 1e-5
    assert np.abs(gamma[-1]).max() > 0.1
    return trace


# --- trajectories against the reference -----------------------------------------------------------


@pytest.mark.kin(3)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("loss", "clip", "shape"),
    [
        ("squared", True, "star"),
        ("absolute", True, "chain"),
        ("logistic", False, "random"),
        *((loss, True, "random") for loss in LOSSES),
    ],
)
def test_every_loss_on_every_graph(loss, clip, shape):
    data = draw(1, shape, labels=loss == "logistic")
    options = {"clip": clip, "norm": 0.7}
    compare_nfl(data, loss, q=0.5, masks=random_masks(), l1=0.4, l2=0.6, **options)
    compare_nfl(data, loss, q=1.0, rho=2.5, l2=1.0, **options)


@pytest.mark.usefixtures("x64")
def test_some_gradients_of_the_table_are_clipped_and_some_are_not():
    for loss, (_, theirs) in LOSSES.items():
        data = draw(1, labels=loss == "logistic")
        norms = [
            np.linalg.norm(reference.sample_gradient(theirs, x, y, np.zeros(DIM)))
            for k, m in enumerate(SIZES)
            for x, y in zip(data.x[k, :m], data.y[k, :m], strict=True)
        ]
        assert 3 < np.sum(np.array(norms) > 0.7) < SIZES.sum() - 3


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("loss", "clip", "shape"),
    [
        ("absolute", True, "star"),
        ("logistic", False, "chain"),
    ],
)
def test_the_subgradient_method(loss, clip, shape):
    data = draw(3, shape, labels=loss == "logistic")
    for q, l1, l2, masks in (
        (0.5, 0.4, 0.6, random_masks()),
        (1.0, 0.2, 0.0, random_masks(6)),
    ):
        problem = problem_of(data, loss, l1=l1, l2=l2)
        release = GivenNoise(release_of(clip, 0.7), jnp.asarray(normals()))
        solver = private_subgradient(release, step_size=power_decay(0.08, q))
        trace = follow(solver, problem, masks)
        eta = steps(0.08, q)
        deviations = scales(reference.sensitivity_grad(0.7, SIZES[None], eta[:, None]))
        w, v = reference.zcdp_grad(
            LOSSES[loss][1],
            data.x,
            data.y,
            SIZES,
            data.edges,
            eta,
            deviations,
            by_round(normals(), masks),
            0.7 if clip else None,
            l1,
            l2,
            masks,
        )
        close(trace["w"], w)
        close(trace["v"], v)
        np.testing.assert_array_equal(trace["releases"], np.cumsum(masks, 0))
        assert np.abs(np.diff(w[-20:], axis=0)).max() > 1e-3
        assert np.abs(v - w)[-1].min() > 1e-6


@pytest.mark.usefixtures("x64")
def test_the_noise_of_a_gaussian_release_has_the_deviations_of_the_reference():
    """Whatever the setting, the same standard normals come out, and the run follows from them.

    But for the grid of what is sent, 2^-25 deviations.
    """
    settings = [
        # epsilon, tau, norm, rho, eta, q
        (4.0, 0.97, 0.7, 0.7, 0.1, 0.5),
        (0.5, 1.0, 3.0, 0.7, 0.1, 1.0),
        (9.0, 0.9, 3.0, 4.0, 0.05, 0.0),
    ]
    data, found = draw(1), []
    problem = problem_of(data, l2=1.0)
    for epsilon, tau, norm, rho, eta, q in settings:
        release = release_of(True, norm, epsilon, tau)
        solver = private_networked_admm(release, rho=rho, step_size=power_decay(eta, q))
        trace = follow(solver, problem)
        sigma = nfl_scales(data, norm, rho, steps(eta, q), epsilon=epsilon, tau=tau)
        draws = (trace["v"] - trace["w"]) / sigma[:, :, None]
        w, v, gamma = reference.zcdp_nfl(
            "squared", data.x, data.y, SIZES, data.edges, steps(eta, q), rho, sigma, draws,
            norm, l2=1.0,
        )  # fmt: skip
        close(trace["w"], w)
        close(trace["v"], v)
        close(trace["gamma"], gamma)
        found.append(draws)
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=4e-8)
    np.testing.assert_allclose(found[2], found[0], rtol=0, atol=4e-8)
    assert stats.kstest(found[0].ravel(), "norm").pvalue > 1e-3


# --- duals, fixed points, convergence -------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("masks", [EVERYBODY, random_masks()], ids=["everybody", "some"])
def test_duals_add_up_to_zero_with_noise(dtype, masks):
    data = draw(1)
    with jax.enable_x64(True):
        problem = problem_of(data, l2=1.0)
    solver = private_networked_admm(release_of(True, 2.0, epsilon=0.3), rho=0.7, step_size=0.1)
    trace = follow(solver, cast(problem, dtype), masks)
    assert trace["gamma"].dtype == dtype
    largest = np.abs(trace["gamma"]).max()
    assert largest > 5
    assert np.abs(trace["gamma"].sum(1)).max() < 8 * np.finfo(dtype).eps * largest
    # Where everybody takes part, they are rho L times the sum of all that was sent.
    if masks is EVERYBODY:
        laplacian = reference.laplacian(data.edges, CLIENTS)
        wanted = 0.7 * laplacian @ np.cumsum(trace["v"].astype(np.float64), 0)
        close(trace["gamma"], wanted, 300 * float(np.finfo(dtype).eps))


@pytest.fixture(scope="module")
def spec_problem():
    return simulated()


def errors(solver, problem, rounds, every, process=None):
    run = fa.run(
        solver,
        problem,
        jax.random.key(2),
        rounds=rounds,
        every=every,
        measure=consensus_error,
        participation=process,
    )
    # Two quantities of one program, which may still round otherwise.
    np.testing.assert_allclose(
        run.trace["released_error"], run.trace["unprotected_error"], rtol=1e-5
    )
    return np.asarray(run.trace["unprotected_error"])


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_ridge_regression_converges_to_rounding(spec_problem):
    solver = private_networked_admm(exact_release(), rho=0.5, step_size=power_decay(0.3, 0.0))
    found = errors(solver, spec_problem, 1000, 200)
    assert found[0] < 1e-5
    assert found[-1] < 1e-12
    # Half of the clients at a time reach the same minimiser.
    half = errors(solver, spec_problem, 4000, 1000, participation.bernoulli(0.5))
    assert half[-1] < 1e-12


def gap_and_spread(data, loss, models, clip, l2):
    """Return the clipped objective's gradient at the mean, and how far models are from it."""
    mean = models.mean(0)
    gradient = sum(
        reference.subgradient(
            loss, data.x[k, :m], data.y[k, :m], mean, clip, l2=l2, clients=CLIENTS
        )
        for k, m in enumerate(SIZES)
    )
    return np.linalg.norm(gradient), np.abs(models - mean).max()


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_with_clipping_the_clipped_problem_is_solved(loss):
    """Its gradient vanishes, and that of the problem without clipping does not."""
    data = draw(8, labels=loss == "logistic")
    problem, clip = problem_of(data, loss, l2=0.5), 0.5
    solver = private_networked_admm(exact_release(clip), rho=0.5, step_size=constant(0.2))
    models = np.asarray(fa.run(solver, problem, jax.random.key(0), rounds=4000).estimate)
    gradient, spread = gap_and_spread(data, LOSSES[loss][1], models, clip, 0.5)
    assert gradient < 1e-11
    assert spread < 1e-11
    assert gap_and_spread(data, LOSSES[loss][1], models, None, 0.5)[0] > 0.05


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_with_clipping_least_absolute_deviation_is_weighted():
    """The objective comes near the least value of sum_k 1/M_k sum_j min(1, c/||x||) |r_j|."""
    import cvxpy

    data, clip = draw(8), 0.8
    rows = [(k, j) for k, m in enumerate(SIZES) for j in range(m)]
    x, y = (np.array([part[place] for place in rows]) for part in (data.x, data.y))
    norms = np.linalg.norm(x, axis=1)
    scale = np.minimum(1, clip / np.where(norms, norms, 1)) / SIZES[[k for k, _ in rows]]
    model = cvxpy.Variable(DIM)
    task = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(scale, cvxpy.abs(x @ model - y)))))
    least = task.solve()
    solver = private_networked_admm(exact_release(clip), rho=0.5, step_size=power_decay(3.0, 1.0))
    models = fa.run(solver, problem_of(data, "absolute"), jax.random.key(0), rounds=4000).estimate
    mean = np.asarray(models).mean(0)
    value = np.sum(scale * np.abs(x @ mean - y))
    start = np.sum(scale * np.abs(y))
    assert value - least < 1e-3 * (start - least)
    plain = np.linalg.norm(model.value - mean)
    assert plain < 0.02


# --- noise ----------------------------------------------------------------------------------------

SOLVERS = {
    "ADMM": lambda release: private_networked_admm(release, rho=0.7, step_size=0.1),
    "subgradient": lambda release: private_subgradient(release, step_size=0.1),
}


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("build", "plan"),
    [(SOLVERS["ADMM"], zcdp_plan), (SOLVERS["subgradient"], approximate_plan)],
    ids=SOLVERS,
)
def test_an_infinite_epsilon_is_no_noise_at_all(build, plan):
    problem = problem_of(draw(1))
    free = gaussian_release(plan(math.inf, DELTA, ROUNDS), 0.7)
    np.testing.assert_array_equal(free.multipliers, 0)
    found = follow(build(free), problem, random_masks())
    wanted = follow(build(exact_release(0.7)), problem, random_masks())
    # A message is computed beside its model, and adding no noise is another program than adding
    # none: on some processors they differ by a few units in the last place of the largest entry.
    np.testing.assert_allclose(
        found["v"], found["w"], rtol=0, atol=1e-14 * np.abs(found["w"]).max()
    )
    for name in wanted.keys() - {"releases"}:
        size = np.max(np.abs(wanted[name]), where=np.isfinite(wanted[name]), initial=0)
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=1e-14 * size)
    assert np.abs(found["v"][-1]).max() > 0.1


# --- budgets --------------------------------------------------------------------------------------


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("build", SOLVERS.values(), ids=SOLVERS)
def test_no_release_beyond_the_plan(build):
    problem = problem_of(draw(1), l2=1.0)
    solver = build(gaussian_release(zcdp_plan(1.0, DELTA, ROUNDS), 0.7))
    key = jax.random.key(0)
    with pytest.raises(InputError) as caught:
        fa.run(solver, problem, key, rounds=ROUNDS + 1)
    assert str(caught.value) == (
        "rounds must be at most 64, for which the noise is planned, but it is 65; make a plan for "
        "65 rounds."
    )
    # Neither in two parts, nor inside a transformation.
    part = go(solver, problem)
    with pytest.raises(InputError, match="rounds must be at most 64, for which"):
        fa.run(solver, problem, key, rounds=1, start=part.state)
    with pytest.raises(InputError, match="rounds must be at most 64, for which"):
        jax.vmap(lambda key: fa.run(solver, problem, key, rounds=65).estimate)(key[None])
    # Whoever steps by hand gets NaN where a client has released as often as planned.
    state = part.state.solver
    counts = jnp.where(jnp.arange(CLIENTS, dtype=jnp.int32) == 2, ROUNDS, 5)
    state = state._replace(nodes=state.nodes._replace(releases=counts))
    info = RoundInfo(jnp.array(5, jnp.int32), key, jnp.ones(CLIENTS, bool))
    sent = np.isnan(solver.estimate(jax.jit(solver.step)(problem, state, info)))
    np.testing.assert_array_equal(sent, np.arange(CLIENTS)[:, None] == np.full((1, DIM), 2))


@pytest.mark.usefixtures("x64")
def test_what_every_client_has_spent():
    masks = random_masks()
    problem = replace(problem_of(draw(1), l2=1.0), optimum=jnp.ones(DIM))
    plan = zcdp_plan(EPSILON, DELTA, ROUNDS, TAU)
    trace = fa.run(
        SOLVERS["ADMM"](gaussian_release(plan, 0.7)),
        problem,
        jax.random.key(0),
        rounds=ROUNDS,
        participation=participation.replay(masks),
        measure=consensus_releases,
    ).trace
    measured = {"unprotected_error", "released_error", "releases", "spent", "nominal", "tails"}
    assert set(trace) == {*measured, "round", "messages"}
    counts = np.cumsum(masks, 0)
    np.testing.assert_array_equal(trace["releases"], counts)
    spent = ledger(trace, DELTA)
    total = reference.classical_budget(EPSILON, DELTA)
    budgets = reference.budgets(total, ROUNDS, TAU)
    wanted = np.append(0.0, np.cumsum(budgets))[counts]
    np.testing.assert_allclose(spent.budget, wanted, rtol=1e-12, atol=0)
    assert np.all(spent.budget <= plan.spent(counts).budget)
    some = [(5, 0), (30, 4), (ROUNDS - 1, 8)]
    for place in some:
        epsilon = reference.classical_epsilon(wanted[place], DELTA)
        exact = reference.exact_epsilon(wanted[place], DELTA) if wanted[place] else 0.0
        assert spent.epsilon[place] == pytest.approx(epsilon, rel=1e-12)
        assert spent.exact_epsilon[place] == pytest.approx(exact, rel=1e-9)
    assert spent.budget[-1].max() < total
    assert np.ptp(spent.budget[-1]) > 0.05 * total
    # Traffic: whoever takes part sends to all its neighbours.
    sent = (masks * draw(1).degrees).sum(1)
    np.testing.assert_array_equal(trace["messages"], sent)


# --- precision and transformations ----------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.kin(1)
def test_the_state_tells_the_deviation_with_its_room_for_rounding(dtype):
    """Models that are far larger than their noise, whose rounding decides how much there is."""
    with jax.enable_x64(True):
        problem = problem_of(draw(1), l2=1.0)
    problem, size = cast(problem, dtype), 0.1 / np.finfo(dtype).eps
    solver, key = private_subgradient(release_of(True, 1.0), step_size=0.1), jax.random.key(3)
    solver = cast(solver, dtype)
    start = fa.run(solver, problem, key, rounds=0).state
    large = jnp.full((CLIENTS, DIM), size, dtype)
    start = at(start, large)
    assert not start.solver.deviation.any()
    state = fa.run(solver, problem, key, rounds=1, start=start).state.solver
    n = jnp.ones(CLIENTS, jnp.int32)
    gains = jnp.broadcast_to(solver.gains(problem, n), (CLIENTS,))
    bare = solver.release.deviation(gains, problem.sizes, n)
    assert (state.deviation > 2 * bare).all()
    drawn = (state.nodes.v - state.nodes.w) / state.deviation[:, None]
    assert 0.6 < float(jnp.std(drawn)) < 1.4
