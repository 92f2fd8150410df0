"""Two clusters of clients on a tree: links that bring their means together, and links that do not.

Clients with losses `||w - b_n||^2 / 2` hang below two servers, these below the cloud. A cluster of
N clients, with its server at w_s, minimises `N ||w_s - mean||^2 / 2 + r(w_0 - w_s)`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, penalties

CENTRES = np.array([[1.5, 2.0], [-1.5, -2.0]])
SIZE, WEIGHT = 4, 0.8


def loss(model, target):
    return jnp.sum((model - target) ** 2) / 2


def loss_prox(model, step, data):
    return (model + step * data[0]) / (1 + step)


def clusters():
    noise = 0.2 * np.random.default_rng(0).standard_normal((2, SIZE, 2))
    return CENTRES[:, None] + noise


def shifts(penalty, rounds=1000):
    """Return by how much servers' models leave the means of their clusters, towards the other."""
    targets = clusters()
    problem = fa.problems.federated(
        loss,
        jnp.asarray(targets.reshape(2 * SIZE, 1, 2), jnp.float32),
        jnp.zeros(2),
        topology=fa.trees.from_counts([SIZE, SIZE]),
        prox=loss_prox,
    )
    within = fa.solvers.tree_link(2.0, 4.0, penalties.group_l2(2.0))
    across = fa.solvers.tree_link(2.0, 4.0, penalty)
    solver = fa.solvers.hierarchical_admm(within, [across])
    result = fa.run(solver, problem, jax.random.key(0), rounds=rounds)
    (servers,) = result.state.solver.servers
    means = targets.mean(1)
    towards = means[::-1] - means
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    moved = np.asarray(servers.w) - means
    np.testing.assert_allclose(
        np.linalg.norm(moved, axis=1), np.abs(np.sum(moved * towards, 1)), atol=0.02
    )
    return np.sum(moved * towards, 1)


def test_a_norm_shrinks_the_clusters_towards_each_other_by_its_weight_per_client():
    np.testing.assert_allclose(shifts(penalties.group_l2(WEIGHT)), WEIGHT / SIZE, rtol=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "build", [lambda: penalties.group_mcp(WEIGHT, 1.0), lambda: penalties.group_scad(WEIGHT, 2.5)]
)
def test_a_concave_function_of_the_norm_leaves_them_where_they_are(build):
    np.testing.assert_allclose(shifts(build()), 0, atol=1e-4)


def test_what_cannot_be_a_link_is_refused_in_a_sentence():
    with pytest.raises(InputError, match=r"^penalty must have a smoothed prox, .* but it is Gro"):
        fa.solvers.tree_link(1.0, 1.0, penalties.group_l0(1.0))
    problem = fa.problems.federated(
        loss, np.zeros((2, 1, 2)), np.zeros(2), topology=fa.graphs.chain(2)
    )
    concave = "^penalty must be a penalty of edges, .* need a convex conjugate; .* links of a tree"
    with pytest.raises(InputError, match=concave):
        fa.solvers.gtv_primal_dual(problem, 0.1, penalties.group_mcp(1.0, 2.0))
