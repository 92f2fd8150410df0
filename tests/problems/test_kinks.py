"""Proximal steps on losses with kinks: cutting planes, never worse, and a count of what fails."""

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from fedjax_admm import kernels
from fedjax_admm._cutting_planes import minimize_by_planes
from fedjax_admm.problems import federated, inner_lbfgs, inner_steps

pytestmark = pytest.mark.usefixtures("x64")

DIM = 3
SIZES = (4, 12, 7, 9)


def residual(w, sample):
    return sample["y"] - jnp.vdot(sample["x"], w)


def pinball(w, sample):
    r = residual(w, sample)
    return jnp.maximum(0.8 * r, -0.2 * r)


def hinge(w, sample):
    return jnp.maximum(0.0, 1 - jnp.sign(sample["y"]) * jnp.vdot(sample["x"], w))


def lasso(w, sample):
    return residual(w, sample) ** 2 / 2 + 0.3 * jnp.sum(jnp.abs(w))


def insensitive(w, sample):
    return jnp.maximum(jnp.abs(residual(w, sample)) - 0.5, 0.0)


def network(w, sample):
    hidden = jax.nn.relu(w[:2] * sample["x"][0])
    return (hidden[0] - hidden[1] * w[2] - sample["y"]) ** 2


CONVEX = {
    pinball: lambda x, y, w: cvxpy.maximum(0.8 * (y - x @ w), -0.2 * (y - x @ w)),
    hinge: lambda x, y, w: cvxpy.pos(1 - cvxpy.multiply(np.sign(y), x @ w)),
    lasso: lambda x, y, w: cvxpy.square(y - x @ w) / 2 + 0.3 * cvxpy.norm1(w),
    insensitive: lambda x, y, w: cvxpy.pos(cvxpy.abs(y - x @ w) - 0.5),
}


def clients():
    """Return ragged clients with heavy-tailed noise."""
    rng = np.random.default_rng(0)
    model, data = rng.normal(size=DIM), []
    for size in SIZES:
        x = rng.normal(size=(size, DIM))
        data.append({"x": x, "y": x @ model + rng.standard_t(1.5, size)})
    return data


def least(loss, data, around=None, step=1.0):
    """Return the minimum of the mean of the clients' losses, by cvxpy; with a client's pull."""
    w = cvxpy.Variable(DIM)
    total = sum(cvxpy.sum(CONVEX[loss](c["x"], c["y"], w)) / len(c["y"]) for c in data) / len(data)
    if around is not None:
        total += cvxpy.sum_squares(w - around) / (2 * step)
    return cvxpy.Problem(cvxpy.Minimize(total)).solve(solver=cvxpy.CLARABEL)


def mean_loss(problem, w):
    return float(jnp.mean(problem.values(jnp.broadcast_to(w, (len(SIZES), DIM)))))


# --- cutting planes -------------------------------------------------------------------------------


def test_planes_find_the_prox_of_a_norm():
    """The prox of |w|_1 is known; the search ends where its certificate allows."""
    v, start = jnp.array([2.0, 0.3, -1.0]), jnp.array([-1.0, 1.0, 0.5])

    @jax.jit
    def nearest(step, tolerance):
        def goal(z):
            return jnp.sum(jnp.abs(z)) + jnp.sum((z - v) ** 2) / (2 * step)

        both = jax.value_and_grad(goal)
        z, reached = minimize_by_planes(both, v, step, start, both(start), tolerance, 100)
        return z, reached, goal(z) - goal(kernels.prox_l1(v, step))

    for step in (0.1, 0.5, 3.0):
        z, reached, excess = nearest(step, 1e-13)
        assert reached
        assert excess <= 1e-13
        np.testing.assert_allclose(z, kernels.prox_l1(v, step), atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("loss", CONVEX)
def test_proximal_steps_come_to_the_minimum_of_cvxpy(loss):
    data = clients()
    problem = federated(loss, data, jnp.zeros(DIM))
    points = 2 * np.random.default_rng(1).normal(size=(len(SIZES), DIM))
    nearest = jax.jit(problem.prox)
    for step in (0.1, 1.0, 10.0):
        memory = problem.prox_memory(points)
        for _ in range(10):
            z, memory = nearest(points, jnp.full(len(SIZES), step), memory)
        goals = problem.values(z) + jnp.sum((z - points) ** 2, -1) / (2 * step)
        expected = [least(loss, [c], p, step) for c, p in zip(data, points, strict=True)]
        np.testing.assert_allclose(goals, expected, rtol=1e-3)
        np.testing.assert_array_equal(memory.short, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("inner", [None, inner_steps(optax.sgd(1.0), 5)])
@pytest.mark.parametrize("loss", [pinball, network])
def test_no_proximal_step_leaves_a_client_worse(loss, inner):
    """Also where the loss is not convex, and where steps are far too long."""
    problem = federated(loss, clients(), jnp.zeros(DIM), optimizer=inner)

    @jax.jit
    @jax.vmap
    def excess(key):
        points = 2 * jax.random.normal(key, (len(SIZES), DIM))
        z = problem.lone_prox(points, jnp.full(len(SIZES), 3.0))
        return problem.values(z) + jnp.sum((z - points) ** 2, -1) / 6 - problem.values(points)

    assert np.all(excess(jax.random.split(jax.random.key(0), 50)) <= 1e-12)


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_loss_with_kinks_comes_to_its_optimum():
    """L-BFGS alone ended 36,338 times the optimum above it."""
    data = clients()
    problem = federated(pinball, data, jnp.zeros(DIM))
    solver = fa.solvers.fed_admm(3.0, local=fa.solvers.local_prox())
    result = fa.run(solver, problem, jax.random.key(0), rounds=150)
    assert result.status.unsolved == 0
    best = least(pinball, data)
    assert mean_loss(problem, result.estimate) <= (1 + 1e-3) * best


SOLVERS = {
    "FedADMM": lambda step, local: fa.solvers.fed_admm(1 / step, local=local),
    "FedDR": lambda step, local: fa.solvers.fed_dr(step, local=local),
    "FedPD": lambda step, local: fa.solvers.fed_pd(step, local=local),
    "FedDyn": lambda step, local: fa.solvers.fed_dyn(1 / step, local=local),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_come_to_the_optimum_over_two_decades(name):
    data = clients()
    problem = federated(hinge, data, jnp.zeros(DIM))

    @jax.jit
    @jax.vmap
    def ends(step):
        solver = SOLVERS[name](step, fa.solvers.local_prox())
        return fa.run(solver, problem, jax.random.key(0), rounds=300).estimate

    best = least(hinge, data)
    for model in ends(jnp.array([0.2, 2.0, 20.0])):
        assert mean_loss(problem, model) <= (1 + 1e-3) * best


def test_what_fell_short_is_counted_and_told():
    """Steps that are far too long are refused."""
    inner = inner_steps(optax.sgd(30.0), 3)
    problem = federated(pinball, clients(), jnp.ones(DIM), optimizer=inner)
    solver = fa.solvers.fed_admm(1.0, local=fa.solvers.local_prox())
    with pytest.warns(UserWarning, match=r"^\d+ proximal steps of clients fell short of their acc"):
        result = fa.run(solver, problem, jax.random.key(0), rounds=5)
    short = int(result.status.unsolved)
    assert short == np.sum(result.state.solver.clients.memory.short)
    assert 0 < short <= 5 * len(SIZES)


@pytest.mark.thorough
def test_iterations_that_are_too_few_are_counted():
    inner = inner_lbfgs(1, accuracy=1e-8)
    problem = federated(lasso, clients(), jnp.ones(DIM), optimizer=inner)
    _, memory = problem.prox(
        jnp.zeros((4, DIM)), jnp.full(4, 9.0), problem.prox_memory(problem.start[None].repeat(4, 0))
    )
    assert np.all(np.asarray(memory.short) == 1)
