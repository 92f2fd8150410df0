"""Safe steps of private networked ADMM: the largest one, decreasing ones, what a run refuses."""

import math
import re
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs
from fedjax_admm.certificates import check_stability, largest_safe_step
from fedjax_admm.certificates._steps import LARGEST_GROWTH
from fedjax_admm.losses import _samples as sample_losses
from fedjax_admm.measures import consensus_error
from fedjax_admm.privacy import exact_release
from fedjax_admm.problems import consensus_regression
from fedjax_admm.schedules import constant, power_decay
from fedjax_admm.solvers import private_networked_admm
from tests.reference import zcdp as reference
from tests.solvers.private.cases import WITHOUT_OPTIMUM, cast, simulated

CLIENTS, DIM, LOW = 6, 2, 0.1
SHAPES = {
    "star": [(0, k) for k in range(1, CLIENTS)],
    "chain": [(k, k + 1) for k in range(CLIENTS - 1)],
    "ring and a chord": [*((k, k + 1) for k in range(CLIENTS - 1)), (0, CLIENTS - 1), (1, 4)],
}
CURVATURES = {"squared": 2.0, "huber": 1.0, "logistic": 0.25, "absolute": 0.0}


def draw(shape="star", loss="squared", seed=0, l2=0.7):
    """Return a problem with clients of different sizes and scales, its edges and its Hessians."""
    rng, edges = np.random.default_rng(seed), np.array(SHAPES[shape])
    sizes = [2, 5, 1, 4, 3, 6]
    x = [rng.uniform(0.3, 1.5) * rng.standard_normal((m, DIM)) for m in sizes]
    y = [rng.standard_normal(m) for m in sizes]
    if loss == "logistic":
        y = [np.where(part < 0, -1.0, 1.0) for part in y]
    build = getattr(sample_losses, loss)
    graph = graphs.from_edges(CLIENTS, edges, max_edges=9)
    with WITHOUT_OPTIMUM:
        problem = consensus_regression(graph, x, y, build(), l2=l2)
    ridge = 2 * l2 / CLIENTS * np.eye(DIM)
    hessians = np.array([CURVATURES[loss] / len(a) * a.T @ a + ridge for a in x])
    return problem, edges, hessians


def dense_safe_step(edges, hessians, rho):
    """Return 4 over the largest eigenvalue of the matrix that limits 4 / eta."""
    # At an infinite step the reference's matrix is 8 rho D - 3 rho L - 2 H.
    largest = np.linalg.eigvalsh(-reference.stability_matrix(edges, CLIENTS, hessians, rho, np.inf))
    return 4 / largest[-1] if largest[-1] > 0 else np.inf


def recursion(edges, hessians, rho, eta):
    """Return the matrix of a round without noise, of v and of the sum of all v but its mean."""
    clients, dim = hessians.shape[:2]
    laplacian, eye = reference.laplacian(edges, clients), np.eye(dim)
    gain = np.kron(np.diag(1 / (1 / eta + 2 * rho * np.diag(laplacian))), eye)
    block = np.zeros((clients * dim,) * 2)
    for k in range(clients):
        block[k * dim : (k + 1) * dim, k * dim : (k + 1) * dim] = hessians[k]
    spread = np.linalg.svd(np.ones((1, clients)))[2][1:]  # the directions of sum zero
    basis, pull = np.kron(spread, eye), rho * np.kron(laplacian, eye)
    models = np.hstack(
        [np.eye(clients * dim) - gain @ (block + pull), -gain @ pull @ basis.T],
    )
    sums = basis @ models
    sums[:, clients * dim :] += np.eye(len(basis))
    return np.vstack([models, sums])


@jax.jit
def distances(solver, problem, optimum):
    """Return the error of 20000 rounds; inside jit nothing is refused."""
    problem = replace(problem, optimum=optimum)
    run = fa.run(
        solver, problem, jax.random.key(0), rounds=20_000, every=1000, measure=consensus_error
    )
    return run.trace["unprotected_error"]


def optimum_of(problem):
    x, y = np.asarray(problem.features), np.asarray(problem.targets)
    sizes = np.asarray(problem.sizes)[:, None]
    matrix = 2 * np.einsum("kmp,kmq->pq", x / sizes[:, :, None], x)
    right = 2 * np.einsum("kmp,km->p", x, y / sizes)
    return jnp.asarray(np.linalg.solve(matrix + 2 * float(problem.l2) * np.eye(DIM), right))


plain = partial(private_networked_admm, exact_release())


# --- the largest safe step ------------------------------------------------------------------------


@pytest.mark.kin(5)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("loss", CURVATURES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_largest_safe_step_is_that_of_the_dense_matrix(shape, loss):
    problem, edges, hessians = draw(shape, loss, l2=0.7)
    assert problem.loss.largest_curvature() == CURVATURES[loss]
    finite = 0
    for rho in (1e-3, 0.05, LOW, 0.4, 2.0, 50.0):
        wanted = dense_safe_step(edges, hessians, rho)
        found = largest_safe_step(problem, rho)
        assert found == pytest.approx(wanted, rel=1e-9)
        if math.isfinite(wanted):
            finite += 1
            least = [
                np.linalg.eigvalsh(
                    reference.stability_matrix(edges, CLIENTS, hessians, rho, found * factor)
                )[0]
                for factor in (1 - 1e-6, 1 + 1e-6)
            ]
            assert least[0] > 0 > least[1]
    assert finite >= (2 if loss == "absolute" else 3)
    assert math.isinf(largest_safe_step(problem, 50.0))


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_large_network_by_its_dense_matrix():
    """50 clients with 8 numbers each: more than the steps of Lanczos' method."""
    problem = simulated()
    x = np.asarray(problem.features)
    hessians = 2 / 50 * np.einsum("kmp,kmq->kpq", x, x) + 2 / 50 * np.eye(8)
    edges = np.stack([problem.graph.heads, problem.graph.tails], 1)
    for rho in (0.01, 0.5, 1.0, 3.0):
        matrix = reference.stability_matrix(edges, 50, hessians, rho, np.inf)
        largest = np.linalg.eigvalsh(-matrix)[-1]
        wanted = 4 / largest if largest > 0 else np.inf
        assert largest_safe_step(problem, rho) == pytest.approx(wanted, rel=1e-7)


def test_data_in_float32():
    with jax.enable_x64(True):
        problem, edges, hessians = draw("chain")
    narrow = cast(problem, np.float32)
    wanted = dense_safe_step(edges, hessians, LOW)
    assert largest_safe_step(narrow, LOW) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", SHAPES)
def test_an_eigenvalue_is_minus_one_at_the_largest_safe_step(shape):
    problem, edges, hessians = draw(shape)
    for rho in (0.02, LOW, 0.3):
        safe = largest_safe_step(problem, rho)
        at, below, above = (
            np.linalg.eigvals(recursion(edges, hessians, rho, safe * factor))
            for factor in (1, 0.999, 1.001)
        )
        assert np.abs(at + 1).min() < 1e-7
        assert np.abs(below).max() < 1
        worst = above[np.abs(above).argmax()]
        assert abs(worst.imag) < 1e-9
        assert worst.real < -1


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", SHAPES)
def test_runs_converge_below_it_and_diverge_above_it(shape):
    problem, edges, hessians = draw(shape)
    optimum = optimum_of(problem)
    safe = largest_safe_step(problem, LOW)
    below, above = (
        np.asarray(distances(plain(rho=LOW, step_size=constant(safe * factor)), problem, optimum))
        for factor in (0.999, 1.001)
    )
    assert below[-1] < 1e-8 * CLIENTS
    # Beyond it, errors grow as the largest eigenvalue says.
    rate = np.abs(np.linalg.eigvals(recursion(edges, hessians, LOW, safe * 1.001))).max()
    assert above[-1] > 100 * CLIENTS
    assert np.log(above[-1] / above[-2]) == pytest.approx(2000 * np.log(rate), rel=1e-3)


@pytest.mark.usefixtures("x64")
def test_where_every_step_is_safe_the_largest_runs_converge():
    problem, edges, hessians = draw("ring and a chord")
    rho = 3.0
    assert math.isinf(largest_safe_step(problem, rho))
    for step in (1.0, 1e3, 1e6):
        assert np.abs(np.linalg.eigvals(recursion(edges, hessians, rho, step))).max() < 1
    solver = plain(rho=rho, step_size=constant(1e6))
    solver.check(problem, 20_000)
    assert distances(solver, problem, optimum_of(problem))[-1] < 1e-20


@pytest.mark.usefixtures("x64")
def test_no_mode_grows_faster_than_documented():
    """By at most m - 1, m the largest eigenvalue of (1/eta + 2 rho D)^-1 (H + 2 rho L)."""
    tight = []
    for shape in SHAPES:
        for seed in range(5):
            _, edges, hessians = draw(shape, seed=seed)
            laplacian = reference.laplacian(edges, CLIENTS)
            for rho in (0.01, 0.1, 0.5, 2.0):
                for step in (0.1, 1.0, 10.0, 1000.0):
                    gain = np.repeat(1 / (1 / step + 2 * rho * np.diag(laplacian)), DIM)
                    matrix = 2 * rho * np.kron(laplacian, np.eye(DIM))
                    for k in range(CLIENTS):
                        block = slice(k * DIM, (k + 1) * DIM)
                        matrix[block, block] += hessians[k]
                    root = np.sqrt(gain)
                    m = np.linalg.eigvalsh(root[:, None] * matrix * root)[-1]
                    radius = np.abs(np.linalg.eigvals(recursion(edges, hessians, rho, step))).max()
                    assert radius <= max(1, m - 1) * (1 + 1e-9)
                    if radius > 1.1:
                        tight.append(math.log(radius) / math.log(m - 1))
    assert len(tight) > 20
    assert max(tight) > 0.95


# --- what a run refuses ---------------------------------------------------------------------------


def refused(solver, problem, rounds=100):
    """Return the sentence with which a run refuses a solver, or None; nothing is compiled then."""
    try:
        solver.check(problem, rounds)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.usefixtures("x64")
def test_a_constant_unsafe_step_is_refused():
    problem, _, _ = draw()
    safe = largest_safe_step(problem, LOW)
    solver = plain(rho=LOW, step_size=constant(1.01 * safe))
    with pytest.raises(InputError) as caught:
        fa.run(solver, problem, jax.random.key(0), rounds=100)
    assert str(caught.value) == (
        f"step_size must become safe, but it is {1.01 * safe:.3g} at release 100, and the largest "
        f"safe step is {safe:.3g} for rho = 0.1; take less, or a larger rho."
    )
    assert refused(plain(rho=LOW, step_size=constant(0.99 * safe)), problem) is None
    # What the sentence says helps.
    named = float(re.search(r"safe step is ([0-9.e+-]+) for", str(caught.value)).group(1))
    assert refused(plain(rho=LOW, step_size=constant(0.99 * named)), problem) is None
    assert refused(plain(rho=10 * LOW, step_size=constant(1.01 * safe)), problem) is None
    # Clipping bounds how fast errors grow, but not for how long.
    clipped = private_networked_admm(exact_release(1.0), rho=LOW, step_size=constant(1.01 * safe))
    assert refused(clipped, problem) == str(caught.value)
    assert refused(plain(rho=LOW, step_size=constant(1.01 * safe)), problem, rounds=0) is None


@pytest.mark.usefixtures("x64")
def test_a_step_that_decreases_too_slowly_is_refused_without_clipping():
    problem, _, _ = draw()
    safe = largest_safe_step(problem, LOW)
    slow = power_decay(6 * safe, 0.5)  # safe from the 36th release on
    sentence = refused(plain(rho=LOW, step_size=slow), problem)
    found = re.fullmatch(
        r"step_size is unsafe for 35 releases, in which errors grow by ([0-9.e+]+); "
        rf"the largest safe step is {safe:.3g} for rho = 0\.1; "
        r"take less, or a larger rho\.",
        sentence,
    )
    assert float(found.group(1)) > LARGEST_GROWTH
    clipped = private_networked_admm(exact_release(1.0), rho=LOW, step_size=slow)
    assert refused(clipped, problem) is None
    # It must be safe in the end all the same.
    assert "step_size must become safe" in refused(clipped, problem, rounds=30)
    # Quickly decreasing ones need no clipping.
    assert refused(plain(rho=LOW, step_size=power_decay(6 * safe, 2.0)), problem) is None


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("rounds", [100, 3000])
def test_what_is_let_pass_does_not_blow_up(rounds):
    """Without clipping: no error grows beyond the largest growth, by whatever road."""
    problem, _, _ = draw("chain")
    optimum, safe, passed = optimum_of(problem), largest_safe_step(problem, LOW), 0

    @partial(jax.jit, static_argnames="rounds")
    def errors(solver, rounds):
        fixed = replace(problem, optimum=optimum)
        run = fa.run(solver, fixed, jax.random.key(0), rounds=rounds, measure=consensus_error)
        return jnp.sqrt(run.trace["unprotected_error"] / CLIENTS)

    for q in (0.005, 0.02, 0.1, 0.5, 1.0):
        for factor in (1.04, 1.5, 3.0, 8.0, 40.0):
            solver = plain(rho=LOW, step_size=power_decay(factor * safe, q))
            if refused(solver, problem, rounds) is None:
                passed += 1
                assert errors(solver, rounds).max() <= LARGEST_GROWTH, (q, factor)
    assert 8 <= passed < 25


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_the_step_of_the_published_rates_passes_and_converges():
    """3/n with rho 1/2 begins above the largest safe step, without clipping."""
    ridge = simulated()
    assert 0.4 < largest_safe_step(ridge, 0.5) < 1
    solver = plain(rho=0.5, step_size=power_decay(3.0, 1.0))
    elastic = replace(ridge, l1=jnp.array(0.05))
    deviation = replace(ridge, loss=sample_losses.absolute(), l2=jnp.array(0.0))
    for problem in (ridge, elastic, deviation):
        assert refused(solver, problem, 3200) is None
    trace = fa.run(
        solver, ridge, jax.random.key(0), rounds=400, every=100, measure=consensus_error
    ).trace
    assert trace["unprotected_error"][0] < 50
    assert trace["unprotected_error"][-1] < 1e-7


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_what_is_traced_is_not_looked_at():
    problem, _, _ = draw()
    step = constant(10 * largest_safe_step(problem, LOW))
    key, rounds = jax.random.key(0), 3

    def estimate(solver, problem):
        return fa.run(solver, problem, key, rounds=rounds).estimate

    solver = plain(rho=LOW, step_size=step)
    with pytest.raises(InputError, match="step_size must become safe"):
        estimate(solver, problem)
    wanted = jax.jit(estimate)(solver, problem)
    assert np.all(np.isfinite(wanted))
    for axes in ((0, None), (None, 0)):
        stacked = [
            jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), part) if axis == 0 else part
            for part, axis in zip((solver, problem), axes, strict=True)
        ]
        found = jax.vmap(estimate, axes)(*stacked)
        np.testing.assert_allclose(found[1], wanted, rtol=1e-12)
    # Nor is a stack of numbers.
    check_stability(problem, jnp.array([LOW, LOW]), step, 10, clipped=False)
