"""What FedDR, FedPD, FedDyn and Fed-PLT share: defaults, drawn clients, empty rounds, mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.solvers import fed_dr, fed_dyn, fed_pd, fed_plt, local_prox
from fedjax_admm.solvers._local import FallingGradient
from tests.solvers.quadratics import Quadratics, minimizer, quadratics
from tests.solvers.splitting.paths import ORIGIN, everybody, finish, path, scaled

BUILDERS = {"fed_dr": fed_dr, "fed_pd": fed_pd, "fed_dyn": fed_dyn, "fed_plt": fed_plt}


@pytest.fixture(params=BUILDERS)
def build(request):
    return BUILDERS[request.param]


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
def test_needs_no_arguments_at_any_scale(build):
    for factor in (1.0, 1e3, 1e-3):
        found = path(build(), everybody(200), problem=scaled(factor))
        np.testing.assert_allclose(found[-1], minimizer(), atol=1e-11)


@pytree_dataclass
class Absolute(Quadratics):
    """`f_i(x) = sum_j |x_j - b_ij|`, whose mean is least at the medians."""

    def values(self, points):
        return jnp.sum(jnp.abs(points - self.linear), -1)

    def gradients(self, points, key=None):
        return jnp.sign(points - self.linear)


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
def test_gradient_steps_end_at_the_optimum_of_kinked_losses(build):
    given = quadratics()
    problem = Absolute(given.hessians, given.linear, given.start)
    found = path(build(), everybody(500), ORIGIN, problem)[-1]
    centres = np.asarray(given.linear)
    least = np.abs(np.median(centres, 0) - centres).sum()
    assert np.abs(found - centres).sum() <= least * 1.001


@pytest.mark.usefixtures("x64")
def test_steps_shorten_where_they_overshoot():
    given, rng = quadratics(), np.random.default_rng(0)
    local = FallingGradient(curvature=jnp.ones(()), steps=4)
    centre, weight = rng.normal(size=(2, 10, 5)), rng.uniform(0.5, 2, 10)
    kinked = Absolute(given.hessians, given.linear, given.start)
    for problem, smooth in ((kinked, False), (given, True)):
        w, counts = np.zeros((10, 5)), np.zeros(10)
        found, memory = jnp.asarray(w), local.memory(problem, jnp.asarray(w))
        for one in centre:  # two rounds
            before = np.zeros((10, 5))
            for _ in range(4):
                pull = weight[:, None] * (w - one)
                slope = np.asarray(problem.gradients(jnp.asarray(w))) + pull
                counts += (slope * before).sum(1) < 0
                w, before = w - (slope.T / ((1 + weight) * np.sqrt(1 + counts))).T, slope
            given_weight, key = jnp.asarray(weight), jax.random.key(0)
            found, memory = local(problem, one, given_weight, found, memory, key)
        np.testing.assert_allclose(found, w, atol=1e-12)
        np.testing.assert_array_equal(memory.own, counts)
        assert np.all(counts == 0) == smooth


@pytree_dataclass
class ProxAlone:
    """Clients without gradients."""

    inner: Quadratics
    start: jax.Array

    @property
    def num_clients(self):
        return self.inner.num_clients

    def prox_memory(self, start):
        return self.inner.prox_memory(start)

    def prox(self, points, step, memory):
        return self.inner.prox(points, step, memory)


def test_a_length_that_cannot_be_found_is_asked_for(build):
    problem = ProxAlone(quadratics(), jnp.zeros(5))
    argument = "rho" if build is fed_dyn else "step"
    sentence = f"{argument} is to be found from gradients, which ProxAlone lacks; give it"
    with pytest.raises(fa.InputError, match=sentence):
        finish(build(local=local_prox()), everybody(), problem=problem)


@pytest.mark.thorough
def test_a_problem_without_gradients_is_solved_by_its_prox(build):
    problem = ProxAlone(quadratics(), jnp.zeros(5))
    found = finish(build(1.0, local=local_prox()), everybody(200), problem=problem).estimate
    np.testing.assert_allclose(found, minimizer(), atol=1e-4)


def test_mistakes_get_a_sentence():
    for builder, argument in (
        (fed_dr, "step"),
        (fed_pd, "step"),
        (fed_dyn, "rho"),
        (fed_plt, "step"),
    ):
        with pytest.raises(fa.InputError, match=f"{argument} must be greater than 0"):
            builder(0.0)
        with pytest.raises(fa.InputError, match="local must be local_gradient"):
            builder(local=local_prox)
        with pytest.raises(fa.InputError, match="regularizer must be a penalty"):
            builder(regularizer=0.1)
    with pytest.raises(fa.InputError, match="relaxation must be at most 2"):
        fed_dr(relaxation=2.2)
    with pytest.raises(fa.InputError, match="averaging must be at most 1"):
        fed_pd(averaging=1.5)
    with pytest.raises(fa.InputError, match="averaging must be greater than 0"):
        fed_pd(averaging=0)
