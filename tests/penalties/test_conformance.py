"""Every penalty: its prox minimises, its certificate holds, dtypes stay, derivatives are finite."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm.testing import check_penalty
from tests.builders import builders

# Rows long and short; entries on kinks, far away and at zero.
POINTS = np.array(
    [[-6.3, -2.0, -0.7], [0.0, 0.2, 1.0], [1.9, 3.1, 6.0], [0.0, 0.0, 0.0], [0.05, -0.02, 0.01]]
)


# Two rows that are matrices of two rows and three columns, and one with equal singular values.
MATRICES = np.array(
    [[3.0, -1.0, 0.5, 2.0, 0.1, -4.0], [0.1, 0.2, -0.1, 0.0, 0.3, 0.1], [1.0, 0, 0, 0, 1, 0]]
)


@dataclass(frozen=True)
class Case:
    """A penalty of models."""

    build: Callable[[], Any]
    convex: bool = True
    smooths: bool = True  # whether its modulus can be smoothed
    points: np.ndarray = field(default_factory=lambda: POINTS)


MODELS = {
    "zero": Case(penalties.zero),
    "l1": Case(lambda: penalties.l1(0.8)),
    "group_l2": Case(lambda: penalties.group_l2(0.6)),
    "mcp": Case(lambda: penalties.mcp(1.1, 1.8, 0.9), convex=False),
    "scad": Case(lambda: penalties.scad(1.1, 3.0, 0.9), convex=False),
    "elastic_net": Case(lambda: penalties.elastic_net(0.5, 0.7)),
    "squared_l2": Case(lambda: penalties.squared_l2(0.7)),
    "box": Case(lambda: penalties.box(-1.0, 2.0)),
    "non_negative": Case(penalties.non_negative),
    "non_negative_l1": Case(lambda: penalties.non_negative_l1(0.8)),
    "huber_norm": Case(lambda: penalties.huber_norm(0.8, 1.5)),
    "l0": Case(lambda: penalties.l0(0.9), convex=False, smooths=False, points=4 * POINTS),
    "log_sum": Case(lambda: penalties.log_sum(0.9, 0.7), convex=False, smooths=False),
    "capped_l1": Case(lambda: penalties.capped_l1(0.9, 1.3), convex=False),
    "sparse_group": Case(lambda: penalties.sparse_group(0.4, 0.6), smooths=False),
    "group_mcp": Case(lambda: penalties.group_mcp(1.1, 1.8, 0.9), convex=False),
    "group_scad": Case(lambda: penalties.group_scad(1.1, 3.0, 0.9), convex=False),
    "group_l0": Case(lambda: penalties.group_l0(0.9), convex=False, smooths=False),
    "slope": Case(lambda: penalties.slope([0.9, 0.5, 0.2]), smooths=False),
    "linf": Case(lambda: penalties.linf(0.8), smooths=False),
    "simplex": Case(lambda: penalties.simplex(2.0), smooths=False),
    "l1_ball": Case(lambda: penalties.l1_ball(2.5)),
    "l2_ball": Case(lambda: penalties.l2_ball(2.5)),
    "total_variation": Case(lambda: penalties.total_variation(0.6), smooths=False),
    "fused_lasso": Case(lambda: penalties.fused_lasso(0.3, 0.6), smooths=False),
    "nuclear": Case(lambda: penalties.nuclear(0.6, 2, 3), smooths=False, points=MATRICES),
    "add": Case(lambda: penalties.add(penalties.group_l2(0.6), penalties.l1(0.4)), smooths=False),
}
EDGES = {
    "network_lasso": penalties.network_lasso,
    "entrywise_l1": penalties.entrywise_l1,
    "mocha": penalties.mocha,
    "squared_difference": penalties.squared_difference,
    "quadratic_difference": lambda: penalties.quadratic_difference(
        [[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]]
    ),
}
RADII = np.array([0.05, 1.0, 7.0, 0.0, 0.3])  # the fourth edge is not there


def test_every_penalty_is_in_a_table():
    assert set(builders(penalties, "value", "prox", "optimality")) == set(MODELS)
    assert set(builders(penalties, "values", "conjugate", "prox_conjugate")) == set(EDGES)
    known = set(MODELS) | set(EDGES)
    assert set(builders(penalties, "prox")) | set(builders(penalties, "prox_conjugate")) == known


# --- of models ------------------------------------------------------------------------------------


@pytest.fixture(params=MODELS)
def case(request):
    return MODELS[request.param]


def test_the_certificate_holds_at_the_prox_and_nowhere_else(case):
    check_penalty(case.build(), points=case.points, convex=case.convex, only="certificate")


@pytest.mark.thorough
def test_penalty(case):
    """At short and long steps too; what else is checked the kernels prove of themselves."""
    check_penalty(
        case.build(),
        points=case.points,
        steps=(0.01, 0.4, 40.0),
        convex=case.convex,
        only=("dtype", "minimises", "certificate", "smoothed", "derivatives"),
    )


def test_the_table_knows_what_can_be_smoothed(case):
    assert hasattr(case.build(), "smoothed_prox") == case.smooths


@pytest.mark.thorough
def test_every_row_may_have_a_step_of_its_own(case):
    """Solvers on trees ask for the prox at steps of shape (nodes, 1)."""
    penalty, points = case.build(), case.points.astype(np.float32)
    steps = np.linspace(0.3, 3.0, len(points), dtype=np.float32)
    found = prox(penalty, points, steps[:, None])
    wanted = [prox(penalty, row, step) for row, step in zip(points, steps, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    if case.smooths:
        mu = np.full((len(points), 1), 0.2, np.float32)
        smoothed = np.asarray(smoothed_prox(penalty, points, steps[:, None], mu))
        last = smoothed_prox(penalty, points[-1], steps[-1], mu[0, 0])
        np.testing.assert_allclose(smoothed[-1], last, rtol=1e-5, atol=1e-6)


# --- of edges -------------------------------------------------------------------------------------


@pytest.fixture(params=EDGES)
def edge_penalty(request):
    return EDGES[request.param]


@jax.jit
def prox(penalty, points, step):
    return penalty.prox(points, step)


@jax.jit
def smoothed_prox(penalty, points, step, mu):
    return penalty.smoothed_prox(points, step, mu)


@jax.jit
def parts_of(penalty, points, radius, sigma):
    flow = penalty.prox_conjugate(points, radius, sigma)
    return flow, penalty.values(points), penalty.conjugate(flow, radius)


@jax.jit
def dual_prox(penalty, points, radius, sigma):
    return penalty.prox_conjugate(points, radius, sigma)


def test_the_dual_prox_obeys_fenchel_and_young(edge_penalty, x64):
    """p is the prox of v if x = (v - p) / sigma and p meet r phi(x) + r phi*(p / r) = <x, p>."""
    penalty, points, radius = edge_penalty(), POINTS, RADII
    for sigma in (0.02, 0.5, 30.0):
        flow, _, conjugate = map(np.asarray, parts_of(penalty, points, radius, sigma))
        difference = (points - flow) / sigma
        _, values, _ = parts_of(penalty, difference, radius, sigma)
        both = radius * values + conjugate
        np.testing.assert_allclose(both, np.sum(difference * flow, -1), rtol=1e-9, atol=1e-9)


def test_flows_have_the_dtype_of_the_point(edge_penalty, dtype):
    # A run casts the numbers of a penalty to the dtype of its problem.
    penalty = jax.tree.map(lambda leaf: leaf.astype(dtype), edge_penalty())
    points, radius = jnp.asarray(POINTS, dtype), jnp.asarray(RADII, dtype)
    parts = jax.eval_shape(parts_of, penalty, points, radius, jnp.asarray(0.5, dtype))
    assert {part.dtype for part in parts} == {dtype}
    assert [part.shape for part in parts] == [(5, 3), (5,), (5,)]


@pytest.mark.thorough
def test_edges_are_the_same_under_jit_and_vmap(edge_penalty):
    penalty, points, radius = edge_penalty(), jnp.asarray(POINTS), jnp.asarray(RADII)
    sigma = jnp.asarray(0.5)
    alone = penalty.prox_conjugate(points, radius, sigma)
    np.testing.assert_allclose(
        dual_prox(penalty, points, radius, sigma), alone, rtol=1e-6, atol=1e-7
    )
    sigmas = np.array([0.5, 2.0], np.float32)
    both = jax.jit(jax.vmap(lambda s: penalty.prox_conjugate(points, radius, s)))(sigmas)
    wanted = np.stack([dual_prox(penalty, points, radius, s) for s in sigmas])
    np.testing.assert_allclose(both, wanted, rtol=1e-5, atol=1e-6)
