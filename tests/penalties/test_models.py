"""Penalties: prox, smoothed prox and optimality against brute force; sums; mistakes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, penalties
from fedjax_admm.testing import check_penalty

GRID = np.linspace(-8, 8, 64001)
POINTS = np.array([-6.3, -2.0, -0.7, 0.0, 0.2, 1.0, 1.9, 3.1, 6.0])
# name -> (build, g on the grid without smoothing, g of a smoothed modulus)
TABLE = {
    "Zero": (penalties.zero, lambda x: 0 * x, None),
    "L1": (lambda: penalties.l1(0.8), lambda x: 0.8 * abs(x), lambda s, x: 0.8 * s),
    "MCP": (
        lambda: penalties.mcp(1.1, 1.8, 0.9),
        lambda x: 0.9 * mcp_of(abs(x), 1.1, 1.8),
        lambda s, x: 0.9 * mcp_of(s, 1.1, 1.8),
    ),
    "SCAD": (
        lambda: penalties.scad(1.1, 3.0, 0.9),
        lambda x: 0.9 * scad_of(abs(x), 1.1, 3.0),
        lambda s, x: 0.9 * scad_of(s, 1.1, 3.0),
    ),
    "CappedL1": (
        lambda: penalties.capped_l1(0.9, 1.3),
        lambda x: 0.9 * np.minimum(abs(x), 1.3),
        lambda s, x: 0.9 * np.minimum(s, 1.3),
    ),
    "ElasticNet": (
        lambda: penalties.elastic_net(0.5, 0.7),
        lambda x: 0.5 * abs(x) + 0.35 * x**2,
        lambda s, x: 0.5 * s + 0.35 * x**2,
    ),
    "SquaredL2": (lambda: penalties.squared_l2(0.7), lambda x: 0.35 * x**2, None),
    "Box": (
        lambda: penalties.box(-1.0, 2.0),
        lambda x: np.where((x >= -1) & (x <= 2), 0.0, np.inf),
        None,
    ),
    "NonNegative": (penalties.non_negative, lambda x: np.where(x >= 0, 0.0, np.inf), None),
    "L1+Box": (
        lambda: penalties.add(penalties.box(-1.0, 2.0), penalties.l1(0.8)),
        lambda x: 0.8 * abs(x) + np.where((x >= -1) & (x <= 2), 0.0, np.inf),
        None,
    ),
    "L1+SquaredL2": (
        lambda: penalties.add(penalties.squared_l2(0.7), penalties.l1(0.5)),
        lambda x: 0.5 * abs(x) + 0.35 * x**2,
        None,
    ),
    "SquaredL2+NonNegative": (
        lambda: penalties.add(penalties.non_negative(), penalties.squared_l2(0.7)),
        lambda x: 0.35 * x**2 + np.where(x >= 0, 0.0, np.inf),
        None,
    ),
}
STEPS = [0.4, 1.5, 2.6, 5.0]  # below and above the limits of MCP (2) and SCAD (2.2)


def mcp_of(t, lam, gamma):
    return np.where(t <= gamma * lam, lam * t - t**2 / (2 * gamma), gamma * lam**2 / 2)


def scad_of(t, lam, gamma):
    middle = (2 * gamma * lam * t - t**2 - lam**2) / (2 * (gamma - 1))
    outer = (gamma + 1) * lam**2 / 2
    return np.where(t <= lam, lam * t, np.where(t <= gamma * lam, middle, outer))


def excess(values, result, v, step, function):
    """How much worse `result` is than the best point of the grid."""
    best = np.min(values[None] + (GRID[None] - v[:, None]) ** 2 / (2 * step), 1)
    return function(result) + (result - v) ** 2 / (2 * step) - best


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("step", STEPS)
def test_prox_is_a_global_minimiser(name, step, dtype):
    build, function, _ = TABLE[name]
    result = jax.jit(lambda p, v, s: p.prox(v, s))(
        build(), jnp.asarray(POINTS, dtype), jnp.asarray(step, dtype)
    )
    assert result.dtype == dtype
    assert np.all(excess(function(GRID), np.asarray(result, float), POINTS, step, function) < 2e-5)


@pytest.mark.parametrize("name", TABLE)
def test_value_is_the_sum_over_entries(name):
    build, function, _ = TABLE[name]
    for points in (POINTS, np.array([0.1, 1.9])):
        np.testing.assert_allclose(
            build().value(jnp.asarray(points)), np.sum(function(points)), rtol=1e-5
        )


SUMS = {
    "GroupL2+SquaredL2": lambda: (penalties.group_l2(0.6), penalties.squared_l2(0.7)),
    "Linf+SquaredL2": lambda: (penalties.linf(0.6), penalties.squared_l2(0.7)),
    "Slope+SquaredL2": lambda: (penalties.slope([0.6, 0.4, 0.1]), penalties.squared_l2(0.7)),
    "SparseGroup+SquaredL2": lambda: (penalties.sparse_group(0.2, 0.5), penalties.squared_l2(0.7)),
    "TotalVariation+SquaredL2": lambda: (
        penalties.total_variation(0.6),
        penalties.squared_l2(0.7),
    ),
    "FusedLasso+SquaredL2": lambda: (penalties.fused_lasso(0.2, 0.6), penalties.squared_l2(0.7)),
    "Nuclear+SquaredL2": lambda: (penalties.nuclear(0.6, 1, 3), penalties.squared_l2(0.7)),
    "NonNegativeL1+GroupL2": lambda: (penalties.non_negative_l1(0.3), penalties.group_l2(0.5)),
    "NonNegativeL1+SquaredL2": lambda: (penalties.non_negative_l1(0.3), penalties.squared_l2(0.7)),
    "HuberNorm+Box": lambda: (penalties.huber_norm(0.6, 1.5), penalties.box(-1.0, 2.0)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SUMS)
def test_no_point_is_better_than_the_prox_of_a_sum(name):
    inner, outer = SUMS[name]()
    check_penalty(penalties.add(outer, inner), only="minimises")


def test_a_square_beside_a_norm_of_rows_weighs_their_entries_alike():
    sentence = "the weight of SquaredL2 beside Linf must have shape (), but it has (3,)."
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        penalties.add(penalties.squared_l2([1.0, 2.0, 3.0]), penalties.linf(1.0))


def test_weights_are_leaves():
    v = jnp.asarray([3.0, -0.5])
    shrunk = jax.vmap(lambda w: penalties.l1(w).prox(v, 1.0))(jnp.array([0.1, 1.0]))
    np.testing.assert_allclose(shrunk, [[2.9, -0.4], [2.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: penalties.l1(-1), "weight must be at least 0, but it is -1."),
        (lambda: penalties.mcp(0, 2), "lam must be greater than 0, but it is 0."),
        (lambda: penalties.group_mcp([1, 2], 2), "lam must be one number, but it has shape (2,)"),
        (
            lambda: penalties.slope([1.0, 2.0]),
            "weights must be at least 0 and must not increase, but one of them does; sort them",
        ),
        (lambda: penalties.elastic_net(np.nan, 1), "l1 must be finite, but it is nan."),
        (
            lambda: penalties.box(2, 1),
            "lower must not exceed upper, but they are 2.0 and 1.0.",
        ),
        (
            lambda: penalties.add(penalties.mcp(1, 2), penalties.box(0, 1)),
            "the prox of MCP + Box is not known; sums with a known prox are",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value).startswith(sentence)
