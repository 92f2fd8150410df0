"""Every penalty: its prox minimises, its certificate holds, dtypes stay, derivatives are finite."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import penalties
from tests.builders import builders

# Rows long and short; entries on kinks, far away and at zero.
POINTS = np.array(
    [[-6.3, -2.0, -0.7], [0.0, 0.2, 1.0], [1.9, 3.1, 6.0], [0.0, 0.0, 0.0], [0.05, -0.02, 0.01]]
)
STEPS = (0.4, 5.0)


@dataclass(frozen=True)
class Case:
    """A penalty of models."""

    build: Callable[[], Any]
    convex: bool = True
    bounded: bool = False  # whether it is infinite somewhere
    smooths: bool = True  # whether its modulus can be smoothed


MODELS = {
    "zero": Case(penalties.zero),
    "l1": Case(lambda: penalties.l1(0.8)),
    "group_l2": Case(lambda: penalties.group_l2(0.6)),
    "mcp": Case(lambda: penalties.mcp(1.1, 1.8, 0.9), convex=False),
    "scad": Case(lambda: penalties.scad(1.1, 3.0, 0.9), convex=False),
    "elastic_net": Case(lambda: penalties.elastic_net(0.5, 0.7)),
    "squared_l2": Case(lambda: penalties.squared_l2(0.7)),
    "box": Case(lambda: penalties.box(-1.0, 2.0), bounded=True),
    "non_negative": Case(penalties.non_negative, bounded=True),
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


@jax.jit
def prox(penalty, points, step):
    return penalty.prox(points, step)


def costs(penalty, found, points, step):
    """Return the objective of the prox of every row."""
    rows = jax.vmap(lambda row: penalty.value(row[None]))(found)
    return np.asarray(rows + jnp.sum((found - points) ** 2, -1) / (2 * step))


@pytest.mark.parametrize("step", STEPS)
def test_no_point_that_was_tried_is_better_than_the_prox(case, step, x64):
    penalty, points = case.build(), jnp.asarray(POINTS)
    found = prox(penalty, points, step)
    best = costs(penalty, found, points, step)
    assert np.all(np.isfinite(best))
    rng = np.random.default_rng(0)
    others = [points, 0 * points, -points, *(scale * points for scale in (0.1, 0.5, 0.9, 1.1))]
    others += [
        found + scale * rng.standard_normal(POINTS.shape)
        for scale in (1e-4, 1e-2, 1.0)
        for _ in range(50)
    ]
    for other in others:
        assert np.all(costs(penalty, jnp.asarray(other), points, step) >= best - 1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_the_certificate_holds_at_the_prox_and_not_beside_it(case, step, x64):
    penalty, points = case.build(), jnp.asarray(POINTS)
    found = prox(penalty, points, step)
    there = penalty.optimality(found, (found - points) / step)
    np.testing.assert_allclose(there, 0, atol=1e-9)
    beside = found + 0.013
    assert np.all(penalty.optimality(beside, (beside - points) / step) > 1e-4)


def test_the_table_knows_what_can_be_smoothed(case):
    assert hasattr(case.build(), "smoothed_prox") == case.smooths


@pytest.mark.parametrize("name", [name for name, case in MODELS.items() if case.smooths])
def test_a_little_smoothing_changes_the_prox_a_little(name, x64):
    """Smoothing with mu changes a modulus by mu / 2 at most, and the objective by few mu."""
    penalty, points = MODELS[name].build(), jnp.asarray(POINTS)
    exact = prox(penalty, points, 0.4)
    for mu in (1e-3, 1e-6):
        found = penalty.smoothed_prox(points, 0.4, mu)
        assert found.shape == points.shape
        excess = costs(penalty, found, points, 0.4) - costs(penalty, exact, points, 0.4)
        assert np.all(excess >= -1e-12)
        assert np.all(excess <= 3 * mu)
    wide = penalty.smoothed_prox(points, 0.4, 1e3)
    assert np.all(np.isfinite(wide))
    # So much smoothing leaves a parabola, whose prox never passes zero.
    np.testing.assert_array_equal(np.sign(wide) * np.sign(points) < 0, False)


def test_results_have_the_dtype_of_the_point(case, dtype):
    penalty, points = case.build(), jnp.asarray(POINTS, dtype)
    found = {"prox": penalty.prox(points, jnp.asarray(0.4, dtype)), "value": penalty.value(points)}
    found["optimality"] = penalty.optimality(points, points)
    if case.smooths:
        numbers = jnp.asarray([0.4, 0.1], dtype)
        found["smoothed"] = penalty.smoothed_prox(points, *numbers)
    assert {part.dtype for part in found.values()} == {dtype}
    assert found["prox"].shape == points.shape
    assert found["value"].shape == ()


def test_the_same_under_jit_and_vmap(case):
    penalty, points = case.build(), jnp.asarray(POINTS)
    alone = penalty.prox(points, 0.4)
    np.testing.assert_allclose(prox(penalty, points, 0.4), alone, rtol=1e-6, atol=1e-7)
    by_row = jax.jit(jax.vmap(lambda row: penalty.prox(row, 0.4)))(points)
    np.testing.assert_allclose(by_row, alone, rtol=1e-6, atol=1e-7)
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, 1.1 * leaf]), penalty)
    mapped = jax.jit(jax.vmap(lambda p: p.prox(points, 0.4), axis_size=2))(twice)
    other = jax.tree.map(lambda leaf: 1.1 * leaf, penalty)
    wanted = jnp.stack([alone, other.prox(points, 0.4)])
    np.testing.assert_allclose(mapped, wanted, rtol=1e-6, atol=1e-7)


def test_derivatives_are_finite_at_the_kinks(case, dtype):
    kinks = jnp.asarray([[-2.0, -1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]], dtype)
    step, mu = jnp.asarray(1.0, dtype), jnp.asarray(0.3, dtype)

    def total(penalty, points, step):
        return jnp.sum(penalty.prox(points, step))

    def smoothed(penalty, points, step):
        return jnp.sum(penalty.smoothed_prox(points, step, mu))

    def value(penalty, points, step):
        return penalty.value(points)

    penalty = case.build()
    functions = [total]
    functions += [smoothed] if case.smooths else []
    functions += [] if case.bounded else [value]
    for function in functions:
        slopes = jax.jit(jax.grad(function, (0, 1, 2)))(penalty, kinks, step)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))


@pytest.mark.parametrize("name", [name for name, case in MODELS.items() if case.convex])
def test_convex_ones_have_a_prox_that_brings_points_together(name, x64):
    penalty, points = MODELS[name].build(), jnp.asarray(POINTS)
    moved = points + 0.3 * jnp.asarray(np.random.default_rng(4).standard_normal(POINTS.shape))
    for step in STEPS:
        apart = jnp.linalg.norm(prox(penalty, points, step) - prox(penalty, moved, step))
        assert apart <= jnp.linalg.norm(points - moved) * (1 + 1e-12)


# --- of edges -------------------------------------------------------------------------------------


@pytest.fixture(params=EDGES)
def edge_penalty(request):
    return EDGES[request.param]


@jax.jit
def dual_prox(penalty, points, radius, sigma):
    return penalty.prox_conjugate(points, radius, sigma)


def test_the_dual_prox_obeys_fenchel_and_young(edge_penalty, x64):
    """p is the prox of v if x = (v - p) / sigma and p meet r phi(x) + r phi*(p / r) = <x, p>."""
    penalty, points, radius = edge_penalty(), jnp.asarray(POINTS), jnp.asarray(RADII)
    for sigma in (0.02, 0.5, 30.0):
        flow = dual_prox(penalty, points, radius, jnp.asarray(sigma))
        difference = (points - flow) / sigma
        both = radius * penalty.values(difference) + penalty.conjugate(flow, radius)
        np.testing.assert_allclose(both, jnp.sum(difference * flow, -1), rtol=1e-9, atol=1e-9)


def test_an_edge_that_is_not_there_carries_no_flow(edge_penalty):
    flow = dual_prox(edge_penalty(), jnp.asarray(POINTS), jnp.zeros(5), jnp.asarray(0.5))
    np.testing.assert_array_equal(flow, np.zeros_like(flow))
    none = edge_penalty().conjugate(jnp.zeros((5, 3)), jnp.zeros(5))
    np.testing.assert_array_equal(none, np.zeros(5))


def test_flows_have_the_dtype_of_the_point(edge_penalty, dtype):
    # A run casts the numbers of a penalty to the dtype of its problem.
    penalty = jax.tree.map(lambda leaf: leaf.astype(dtype), edge_penalty())
    points, radius = jnp.asarray(POINTS, dtype), jnp.asarray(RADII, dtype)
    flow = penalty.prox_conjugate(points, radius, jnp.asarray(0.5, dtype))
    parts = (flow, penalty.values(points), penalty.conjugate(flow, radius))
    assert {part.dtype for part in parts} == {dtype}
    assert [part.shape for part in parts] == [(5, 3), (5,), (5,)]


def test_edges_are_the_same_under_jit_and_vmap(edge_penalty):
    penalty, points, radius = edge_penalty(), jnp.asarray(POINTS), jnp.asarray(RADII)
    sigma = jnp.asarray(0.5)
    alone = penalty.prox_conjugate(points, radius, sigma)
    np.testing.assert_allclose(
        dual_prox(penalty, points, radius, sigma), alone, rtol=1e-6, atol=1e-7
    )
    sigmas = jnp.asarray([0.5, 2.0])
    both = jax.jit(jax.vmap(lambda s: penalty.prox_conjugate(points, radius, s)))(sigmas)
    wanted = jnp.stack([penalty.prox_conjugate(points, radius, s) for s in sigmas])
    np.testing.assert_allclose(both, wanted, rtol=1e-5, atol=1e-6)


def test_derivatives_of_edges_are_finite_at_the_kinks(edge_penalty, dtype):
    penalty = jax.tree.map(lambda leaf: leaf.astype(dtype), edge_penalty())
    points, radius = jnp.asarray(POINTS, dtype), jnp.asarray(RADII, dtype)

    def total(penalty, points, radius, sigma):
        flow = penalty.prox_conjugate(points, radius, sigma)
        return jnp.sum(flow) + jnp.sum(penalty.values(points))

    arguments = (penalty, points, radius, jnp.asarray(0.5, dtype))
    slopes = jax.jit(jax.grad(total, (0, 1, 2, 3)))(*arguments)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))
