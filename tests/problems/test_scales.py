"""Data of any size end in numbers, in a status that says otherwise, or in a sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import graphs, losses, problems, solvers

pytestmark = pytest.mark.thorough

GRAPH = graphs.chain(3)
RNG = np.random.default_rng(0)
FEATURES, TARGETS = RNG.uniform(-1, 1, (3, 4, 2)), RNG.uniform(-1, 1, (3, 4))
SCALES = {
    True: (1e-310, 1e-200, 1e-160, 1e160, 1e200, 1e308),
    False: (1e-45, 1e-38, 1e-20, 1e19, 1e30, 3e38),
}


def scaled(values, scale):
    """Return numbers up to the scale in the dtype of the session."""
    return (np.asarray(values, np.float64) * scale).astype(jnp.result_type(float))


def square(params, sample):
    return jnp.sum((params - sample) ** 2)


def completed(scale):
    client = np.array([0, 0, 1]), np.array([0, 1, 1]), scaled([0.25, 0.5, 1.0], scale)
    return problems.matrix_completion_of_clients(clients=[client, client], num_items=2)


FAMILIES = {
    "localization": (
        lambda s: problems.localization(
            scaled([[0, 0], [1, 0], [0, 1]], s), scaled([0.5, 0.6, 0.7], s)
        ),
        lambda problem: solvers.fsmdm(),
    ),
    "networked": (
        lambda s: problems.networked_regression(
            GRAPH, [*scaled(FEATURES, s)], [*scaled(TARGETS, s)]
        ),
        lambda problem: solvers.gtv_primal_dual(problem, 0.1),
    ),
    "logistic": (
        lambda s: problems.networked_logistic(
            GRAPH, [*scaled(FEATURES, s)], [np.array([0, 1, 1, 0])] * 3
        ),
        lambda problem: solvers.gtv_primal_dual(problem, 0.1),
    ),
    "consensus": (
        lambda s: problems.consensus_regression(
            GRAPH, [*scaled(FEATURES, s)], [*scaled(TARGETS, s)], losses.squared()
        ),
        lambda problem: solvers.extra(),
    ),
    "phase": (
        lambda s: problems.phase_retrieval(scaled([[0.1, 0.2], [1, 0.3]], s), scaled([1, 0.5], s)),
        solvers.hfsad,
    ),
    "robust": (
        lambda s: problems.robust_regression([*scaled(FEATURES, s)], [*scaled(TARGETS, s)]),
        solvers.hfsad,
    ),
    "federated": (
        lambda s: problems.federated(square, [scaled(np.ones((3, 2)), s)] * 2, jnp.zeros(2)),
        lambda problem: solvers.scaffold(),
    ),
    "completion": (completed, lambda problem: solvers.fed_mc_admm()),
}


def outcome(make, build, scale):
    """Return a run on data of a size, or the sentence that refuses them."""
    try:
        problem = make(scale)
        return fa.run(build(problem), problem, jax.random.key(0), rounds=10)
    except fa.InputError as told:
        return str(told)


@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("name", FAMILIES)
def test_data_of_any_size(name, wide):
    with jax.enable_x64(wide):
        for scale in SCALES[wide]:
            found = outcome(*FAMILIES[name], scale)
            if isinstance(found, str):
                assert "\n" not in found
                continue
            finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found.estimate))
            assert finite or found.status.nonfinite > 0, scale
