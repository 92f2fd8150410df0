"""The incidence of a graph: differences along edges, divergence at nodes, degrees."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import fedjax_admm.kernels as kernels
from tests.reference import kernels as reference


def random_graph(rng, num_nodes, edges):
    """Draw edges by increasing head; loops and parallel edges too, which the kernels allow."""
    heads = np.sort(rng.integers(0, num_nodes, edges)).astype(np.int32)
    return heads, rng.integers(0, num_nodes, edges).astype(np.int32)


@partial(jax.jit, static_argnames="num_nodes")
def everything(w, u, heads, tails, present, num_nodes):
    return (
        kernels.edge_difference(w, heads, tails),
        kernels.node_divergence(u, heads, tails, num_nodes),
        kernels.degrees(heads, tails, num_nodes),
        kernels.degrees(heads, tails, num_nodes, present),
    )


@pytest.mark.parametrize(
    ("num_nodes", "edges", "trailing"), [(1, 3, ()), (7, 12, (3,)), (12, 7, (2, 2)), (5, 40, ())]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_kernels_equal_their_twins(num_nodes, edges, trailing, seed):
    """On whole numbers, where sums are exact in any order."""
    rng = np.random.default_rng(seed)
    heads, tails = random_graph(rng, num_nodes, edges)
    w = rng.integers(-9, 10, (num_nodes, *trailing)).astype(np.float32)
    u = rng.integers(-9, 10, (edges, *trailing)).astype(np.float32)
    present = rng.random(edges) < 0.5
    wanted = (
        reference.edge_difference(w, heads, tails),
        reference.node_divergence(u, heads, tails, num_nodes),
        reference.degrees(heads, tails, num_nodes),
        reference.degrees(heads, tails, num_nodes, present),
    )
    found = everything(w, u, heads, tails, present, num_nodes)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [part.dtype for part in found[2:]] == [jnp.int32, jnp.int32]


def test_difference_and_divergence_are_adjoint(dtype):
    rng = np.random.default_rng(1)
    heads, tails = random_graph(rng, 40, 200)
    w = jnp.asarray(rng.standard_normal((40, 5)), dtype)
    u = jnp.asarray(rng.standard_normal((200, 5)), dtype)
    difference = kernels.edge_difference(w, heads, tails)
    divergence = kernels.node_divergence(u, heads, tails, 40)
    assert difference.dtype == divergence.dtype == dtype
    size = float(jnp.sum(jnp.abs(u * difference)))
    gap = float(jnp.sum(u * difference)) - float(jnp.sum(w * divergence))
    assert abs(gap) <= 8 * jnp.finfo(dtype).eps * size
    # What differentiation takes for the adjoint is the same map.
    _, pullback = jax.vjp(lambda w: kernels.edge_difference(w, heads, tails), w)
    tolerance = 64 * jnp.finfo(dtype).eps
    np.testing.assert_allclose(pullback(u)[0], divergence, atol=tolerance)
    _, pullback = jax.vjp(lambda u: kernels.node_divergence(u, heads, tails, 40), u)
    np.testing.assert_array_equal(pullback(w)[0], difference)


def test_the_matrices_are_those_of_an_incidence(dtype):
    """D of the path 0 - 1 - 2 and an edge 0 - 2; D^T D is the Laplacian."""
    heads, tails = jnp.array([0, 0, 1]), jnp.array([1, 2, 2])
    eye = jnp.eye(3, dtype=dtype)
    incidence = kernels.edge_difference(eye, heads, tails)
    np.testing.assert_array_equal(incidence, [[1, -1, 0], [1, 0, -1], [0, 1, -1]])
    np.testing.assert_array_equal(kernels.node_divergence(eye, heads, tails, 3), incidence.T)
    laplacian = kernels.node_divergence(incidence, heads, tails, 3)
    np.testing.assert_array_equal(jnp.diagonal(laplacian), kernels.degrees(heads, tails, 3))
    np.testing.assert_array_equal(laplacian, 3 * np.eye(3) - 1)


@pytest.mark.parametrize("num_nodes", [1, 4])
def test_no_edges(num_nodes, dtype):
    none = jnp.zeros(0, jnp.int32)
    w = jnp.ones((num_nodes, 2), dtype)
    difference = kernels.edge_difference(w, none, none)
    assert difference.shape == (0, 2)
    np.testing.assert_array_equal(
        kernels.node_divergence(difference, none, none, num_nodes), np.zeros((num_nodes, 2))
    )
    np.testing.assert_array_equal(kernels.degrees(none, none, num_nodes), np.zeros(num_nodes))
