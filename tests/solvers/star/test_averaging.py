"""FedAvg and FedProx on quadratic clients: trajectories, biased limits, regularisers, mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, penalties
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.solvers import fed_avg, fed_prox, local_gradient, local_prox
from tests.reference import star_averaging as reference
from tests.solvers.quadratics import Quadratics, draw, minimizer, quadratics
from tests.solvers.star.quadratic_runs import (
    PRESENT,
    ROUNDS,
    START,
    WEIGHT,
    follow,
    is_the_reference,
    scaled,
)

GRADIENT = {"rate": 0.5, "steps": 5}
thorough = pytest.mark.thorough


def l1():
    return penalties.l1(WEIGHT)


METHODS = {
    "FedAvg": (
        lambda g: fed_avg(0.2, local_steps=5, regularizer=g),
        lambda *data, **options: reference.fed_avg(*data, 0.2, 5, **options),
    ),
    "FedAvg, one step": (
        lambda g: fed_avg(1.0, regularizer=g),
        lambda *data, **options: reference.fed_avg(*data, 1.0, 1, **options),
    ),
    "FedProx": (
        lambda g: fed_prox(1.0, local=local_gradient(**GRADIENT), regularizer=g),
        lambda *data, **options: reference.fed_prox(*data, 1.0, **GRADIENT, **options),
    ),
    "FedProx, exact": (
        lambda g: fed_prox(0.7, local=local_prox(), regularizer=g),
        lambda *data, **options: reference.fed_prox(*data, 0.7, **options),
    ),
}


@pytest.mark.kin(2)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "weight", "present"),
    [
        ("FedAvg", WEIGHT, "some"),
        ("FedProx", WEIGHT, "some"),
        ("FedAvg, one step", 0.0, "everybody"),
        ("FedProx", 0.0, "everybody"),
        ("FedProx, exact", WEIGHT, "some"),
    ],
)
def test_trajectory_is_the_reference(name, weight, present):
    build, loop = METHODS[name]
    trace = follow(build(l1() if weight else None), present=present).trace
    wanted = loop(*draw(), START, PRESENT[present][:ROUNDS], weight=weight)
    is_the_reference(trace, wanted)


@thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("build", "limit"),
    [
        (
            lambda: fed_avg(0.2, local_steps=5),
            lambda A, b: reference.fed_avg_limit(A, b, 0.2, 5),
        ),
        (
            lambda: fed_prox(0.7, local=local_prox()),
            lambda A, b: reference.fed_prox_limit(A, b, 0.7),
        ),
        (
            lambda: fed_prox(0.7, local=local_gradient(**GRADIENT)),
            lambda A, b: reference.fed_prox_limit(A, b, 0.7, **GRADIENT),
        ),
    ],
)
def test_ends_at_the_biased_limit(build, limit):
    model = follow(build(), rounds=600, present="everybody").estimate
    np.testing.assert_allclose(model, limit(*draw()), rtol=0, atol=6e-15)
    assert np.linalg.norm(model - minimizer()) > 0.1


@thorough
@pytest.mark.usefixtures("x64")
def test_exact_fed_prox_minimises_the_mean_of_moreau_envelopes_and_the_regulariser():
    A, b = draw()
    x = np.asarray(
        follow(
            fed_prox(0.7, local=local_prox(), regularizer=l1()), rounds=800, present="everybody"
        ).estimate
    )
    proxes = [np.linalg.solve(a + 0.7 * np.eye(5), q + 0.7 * x) for a, q in zip(A, b, strict=True)]
    slope = 0.7 * (x - np.mean(proxes, 0))
    assert np.abs(l1().optimality(jnp.asarray(x), jnp.asarray(slope))).max() < 1e-13
    assert np.any(x == 0)
    assert np.any(x != 0)


@thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_builders_without_arguments_converge_at_every_scale(factor):
    problem = scaled(factor)
    A, b = np.asarray(problem.hessians), np.asarray(problem.linear)
    one = follow(fed_avg(), problem, 1000, "everybody").estimate
    np.testing.assert_allclose(one, minimizer(), rtol=0, atol=1e-10)

    several = follow(fed_avg(local_steps=5), problem, 1000, "everybody")
    L = float(several.state.solver.curvature)
    assert 0.95 * factor < L < 1.1 * factor
    wanted = reference.fed_avg_limit(A, b, 0.2 / L, 5)
    np.testing.assert_allclose(several.estimate, wanted, rtol=0, atol=1e-10)

    tied = follow(fed_prox(), problem, 1000, "everybody").estimate
    wanted = reference.fed_prox_limit(A, b, L, 1 / (L + L), 5)
    np.testing.assert_allclose(tied, wanted, rtol=0, atol=1e-10)


@pytree_dataclass
class Guarded(Quadratics):
    """Quadratic clients of whom some hold their data back."""

    accessible: jax.Array  # shape=(clients,), bool

    def take(self, clients):
        return Guarded(**{**vars(super().take(clients)), "accessible": self.accessible[clients]})


@thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("selected", [False, True])
def test_clients_whose_data_are_not_accessible_are_not_heard(selected):
    hidden, drawn = (4, 5), jnp.array([1, 4, 7], jnp.int32)
    accessible = jnp.ones(10, bool).at[jnp.array(hidden)].set(False)
    problem = Guarded(**vars(quadratics(START)), accessible=accessible)
    active = jnp.zeros(10, bool).at[drawn].set(True)
    for solver, loop in ((build(l1()), loop) for build, loop in METHODS.values()):
        state = solver.init(problem, jax.random.key(0))
        info = fa.RoundInfo(jnp.int32(0), jax.random.key(1), active, drawn if selected else None)
        masks = np.asarray(active & accessible)[None]
        wanted = loop(*draw(), START, masks, weight=WEIGHT)["server"][0]
        found = solver.estimate(solver.step(problem, state, info))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)
        assert int(solver.messages(problem, active)) == 2


@thorough
def test_a_problem_without_access_or_graph_is_taken(dtype):
    process = participation.without_replacement(3)
    for solver in (fed_avg(0.5), fed_prox(1.0)):
        run = fa.run(solver, quadratics(), jax.random.key(0), rounds=5, participation=process)
        assert run.estimate.shape == (5,)
        assert run.estimate.dtype == dtype
        np.testing.assert_array_equal(run.trace["messages"], 3)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: fed_prox(-1.0), "penalty must be at least 0, but it is -1."),
        (
            lambda: fed_prox(0.0, local=local_prox()),
            "penalty must be greater than 0, but it is 0.",
        ),
        (lambda: fed_prox(local=3), r"local must be local_gradient\(...\), .* or local_prox\(\)"),
        (
            lambda: fed_avg(regularizer=0.1),
            r"regularizer must be a penalty such as penalties.l1\(0.1\), but it is 0.1.",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(fa.InputError, match=sentence):
        build()
