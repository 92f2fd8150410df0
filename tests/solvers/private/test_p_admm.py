"""P-ADMM: trajectories, exact minimisation in every round, fixed points, noise, what is refused."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs, participation
from fedjax_admm.measures import consensus_error
from fedjax_admm.privacy import exact_release, gaussian_release, zcdp_plan
from fedjax_admm.problems import consensus_regression
from fedjax_admm.solvers import p_admm
from tests.reference import zcdp as reference
from tests.solvers.private.cases import (
    CLIENTS,
    DELTA,
    EVERYBODY,
    LOSSES,
    SIZES,
    WITHOUT_OPTIMUM,
    GivenNoise,
    by_round,
    close,
    draw,
    follow,
    normals,
    problem_of,
    random_masks,
    release_of,
    scales,
    simulated,
)


def deviations(data, norm, rho, l2):
    """Return the reference's deviations, the same sensitivity in all rounds."""
    found = [
        reference.sensitivity_p_admm(norm, m, d, rho, l2, CLIENTS)
        for m, d in zip(SIZES, data.degrees, strict=True)
    ]
    return scales(np.array([found]))


def compare(data, *, clip, norm=1.0, rho=0.7, l2=1.0, masks=EVERYBODY, rtol=1e-9, **options):
    """Run both sides with the same noise and compare all of every round."""
    release = GivenNoise(release_of(clip, norm), jnp.asarray(normals()))
    trace = follow(p_admm(release, rho=rho, **options), problem_of(data, l2=l2), masks)
    w, v, gamma = reference.p_admm(
        data.x,
        data.y,
        SIZES,
        data.edges,
        rho,
        deviations(data, norm, rho, l2),
        by_round(normals(), masks),
        norm if clip else None,
        l2,
        masks,
    )
    close(trace["w"], w, rtol)
    close(trace["v"], v, rtol)
    close(trace["gamma"], gamma, rtol)
    np.testing.assert_array_equal(trace["releases"], np.cumsum(masks, 0))
    assert np.abs(np.diff(w[-20:], axis=0)).max() > 1e-3
    assert np.abs(v - w)[-1].min() > 1e-5
    assert np.abs(gamma[-1]).max() > 0.1


# --- trajectories against the reference -----------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_one_newton_step_is_exact_without_clipping():
    compare(draw(1, "chain"), clip=False, newton_steps=1, rtol=1e-11)
    compare(draw(2), clip=False, newton_steps=1, rtol=1e-11, masks=random_masks(), l2=0.3)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_with_clipping():
    compare(draw(1, "star"), clip=True)
    compare(draw(2), clip=True, masks=random_masks(), l2=0.3, norm=0.5)
    compare(draw(3, "chain"), clip=True, rho=3.0, norm=3.0)


# --- the minimiser of every round -----------------------------------------------------------------


def residuals(problem, release, rho, trace):
    """Return how far every w of a run of everybody is from minimal, over the sensitivity.

    The function that w minimises is strongly convex: a gradient of norm r there says that w is at
    most r / modulus off. Shape (rounds, clients).
    """
    clients = problem.num_clients
    adjacency = np.zeros((clients, clients))
    heads, tails = (np.asarray(ends)[problem.graph.present] for ends in
                    (problem.graph.heads, problem.graph.tails))  # fmt: skip
    adjacency[heads, tails] = adjacency[tails, heads] = 1
    degree = adjacency.sum(1)
    before = {name: np.concatenate([part[:1] * 0, part[:-1]]) for name, part in trace.items()}
    around = before["v"] * degree[:, None] + adjacency @ before["v"]
    of_models = problem.gradients
    if release.clip is not None:
        of_models = partial(problem.clipped_gradients, clip=release.clip)
    gradients = jax.jit(jax.vmap(of_models))(trace["w"])
    weight = 2 * rho * degree[:, None]
    slack = gradients + before["gamma"] - rho * around + weight * trace["w"]
    gain = 1 / (weight[:, 0] + 2 * float(problem.l2) / clients)
    return (
        np.linalg.norm(slack, axis=-1)
        * gain
        / np.asarray(2 * float(release.clip) * gain / np.asarray(problem.sizes))
    )


@pytest.fixture(scope="module")
def spec_problem():
    return simulated()


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_every_model_of_a_run_is_the_minimiser(spec_problem):
    """A setting of the experiments, with the steps of Newton's method that one gets unasked."""
    release = gaussian_release(zcdp_plan(8.0, DELTA, 200, 0.97), 2.8)
    trace = follow(p_admm(release, rho=5.0), spec_problem, np.ones((200, 50), bool))
    assert residuals(spec_problem, release, 5.0, trace).max() < 1e-9


HARD = 40  # clients


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("loss", ["huber", "logistic"])
def test_the_minimiser_is_found_however_much_is_clipped(loss):
    """Clients with short and long samples; little and much weight of the constraints."""
    rng, samples, dim = np.random.default_rng(0), 6, 3
    lengths = 5 * np.exp(1.2 * rng.standard_normal((HARD, samples, 1)))
    x = lengths * rng.standard_normal((HARD, samples, dim))
    y = 10 * rng.standard_normal((HARD, samples))
    if loss == "logistic":
        y = np.sign(y)
    with WITHOUT_OPTIMUM:
        problem = consensus_regression(
            graphs.chain(HARD), list(x), list(y), LOSSES[loss][0](), l2=1.0
        )
    everybody = np.ones((6, HARD), bool)
    for clip in (0.05, 0.5, 10.0):
        for rho in (0.01, 0.1, 1.0, 10.0):
            release = gaussian_release(zcdp_plan(50.0, DELTA, 6), clip)
            trace = follow(p_admm(release, rho=rho), problem, everybody)
            found = residuals(problem, release, rho, trace)
            assert found.max() < 1e-8, (clip, rho)


# --- duals, fixed points, convergence -------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_ridge_regression_converges_to_rounding(spec_problem):
    run = fa.run(
        p_admm(exact_release(), rho=2.0, newton_steps=1),
        spec_problem,
        jax.random.key(2),
        rounds=1200,
        every=1200,
        measure=consensus_error,
        participation=participation.bernoulli(0.5),
    )
    assert float(run.trace["unprotected_error"][0]) < 1e-25


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_with_clipping_the_clipped_problem_is_solved():
    data, clip = draw(8), 0.5
    solver = p_admm(exact_release(clip), rho=0.3, newton_steps=15)
    models = fa.run(solver, problem_of(data, l2=0.5), jax.random.key(0), rounds=3000).estimate
    mean = np.asarray(models).mean(0)

    def slope(clip):
        return np.linalg.norm(
            sum(
                reference.subgradient(
                    "squared", data.x[k, :m], data.y[k, :m], mean, clip, l2=0.5, clients=CLIENTS
                )
                for k, m in enumerate(SIZES)
            )
        )

    np.testing.assert_allclose(models, mean[None].repeat(CLIENTS, 0), rtol=0, atol=1e-10)
    assert slope(clip) < 1e-10
    assert slope(None) > 0.05


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
def test_what_it_cannot_solve():
    key, solver = jax.random.key(0), p_admm(exact_release(1.0))
    with pytest.raises(InputError) as caught:
        fa.run(solver, problem_of(draw(1), "absolute", l2=1.0), key, rounds=2)
    assert str(caught.value) == (
        "loss must be smooth for P-ADMM, but it is Absolute; use private_networked_admm."
    )
    with pytest.raises(InputError) as caught:
        fa.run(solver, problem_of(draw(1), l1=0.25, l2=1.0), key, rounds=2)
    assert str(caught.value) == (
        "l1 must be 0 for P-ADMM, but it is 0.25; use private_networked_admm."
    )


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: p_admm(exact_release(), rho=0.0), "rho must be greater than 0, but it is 0."),
        (
            lambda: p_admm(exact_release(), rho=[1.0, 2.0]),
            "rho must be one number, but it has shape (2,); use jax.vmap over several.",
        ),
        (
            lambda: p_admm(exact_release(), newton_steps=0),
            "newton_steps must be at least 1, but it is 0.",
        ),
        (
            lambda: p_admm(exact_release),
            "release must be gaussian_release(plan, clip) or exact_release(), but it is <function "
            "exact_release at",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value).startswith(sentence)
