"""Penalties on edges: dual prox, conjugate and value against SciPy; kinks, no edges, mistakes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from hypothesis import given, strategies as st

from fedjax_admm import InputError, penalties as edges

DIM = 3
MATRIX = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]])
FLAT = np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5]) + np.outer([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])
NULL = np.array([5.0, 2.0, -2.0])  # M FLAT = 0 along this vector
CURVED = {
    "mocha": np.eye(DIM),
    "squared": 2 * np.eye(DIM),
    "quadratic": MATRIX,
    "singular": FLAT,
}
BUILD = {
    "network_lasso": edges.network_lasso,
    "entrywise_l1": edges.entrywise_l1,
    "mocha": edges.mocha,
    "squared": edges.squared_difference,
    "quadratic": lambda: edges.quadratic_difference(MATRIX),
    "singular": lambda: edges.quadratic_difference(FLAT),
}
# Short, long, zero, on an axis, on the ball of radius 1, huge, tiny.
POINTS = np.array(
    [
        [0.3, -0.2, 0.1],
        [3.0, -4.0, 1.5],
        [0.0, 0.0, 0.0],
        [0.0, 2.0, 0.0],
        [0.6, 0.0, -0.8],
        [1e4, -2e4, 3e4],
        [1e-6, 2e-6, -1e-6],
        [-1.0, 1.0, 1.0],
    ]
)
RADII = [0.05, 1.0, 7.0]
SIGMAS = [0.02, 0.5, 30.0]

rows = st.lists(st.floats(-50, 50, width=32), min_size=DIM, max_size=DIM).map(np.array)
sizes = st.floats(2**-10, 64, width=32)


prox = jax.jit(lambda penalty, v, radius, sigma: penalty.prox_conjugate(v, radius, sigma))
conjugates = jax.jit(lambda penalty, u, radius: penalty.conjugate(u, radius))
values = jax.jit(lambda penalty, v: penalty.values(v))


def value_of(name, v):
    """phi by its definition, for one row."""
    if name == "network_lasso":
        return np.sqrt(v @ v)
    if name == "entrywise_l1":
        return np.abs(v).sum()
    return v @ CURVED[name] @ v / 2


def primal_prox(name, v, step):
    """argmin step phi(x) + |x - v|^2 / 2 in closed form, for one row."""
    if name == "network_lasso":
        length = np.sqrt(v @ v)
        return v * max(0.0, 1 - step / length) if length else v
    if name == "entrywise_l1":
        return np.sign(v) * np.maximum(np.abs(v) - step, 0)
    return np.linalg.solve(np.eye(DIM) + step * CURVED[name], v)


def found(name, v, radius, sigma, dtype=float):
    """The package's dual prox of one row."""
    row, numbers = (
        np.asarray(v, dtype)[None],
        (np.asarray([radius], dtype), np.asarray(sigma, dtype)),
    )
    return np.asarray(prox(BUILD[name](), row, *numbers), float)[0]


def conjugate_of(name, u, radius):
    return float(conjugates(BUILD[name](), np.asarray(u)[None], np.asarray([radius]))[0])


# --- against the definitions --------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILD)
def test_values_are_those_of_the_definition(name, dtype):
    seen = values(BUILD[name](), jnp.asarray(POINTS, dtype))
    assert seen.dtype == dtype
    assert seen.shape == (len(POINTS),)
    wanted = [value_of(name, v) for v in POINTS]
    np.testing.assert_allclose(seen, wanted, rtol=1e-12 if dtype == "float64" else 2e-6)


@pytest.mark.parametrize("name", BUILD)
@given(v=rows, radius=sizes, sigma=sizes)
def test_moreau_identity(name, v, radius, sigma, dtype):
    """v = prox of the conjugate + sigma prox of r phi / sigma at v / sigma."""
    v = np.asarray(v, dtype).astype(float)
    dual = found(name, v, radius, sigma, dtype)
    primal = primal_prox(name, v / sigma, radius / sigma)
    scale = 1 + np.abs(v).max()
    tolerance = 3e-13 if dtype == "float64" else 3e-6
    np.testing.assert_allclose(dual + sigma * primal, v, atol=tolerance * scale)


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.usefixtures("x64")
def test_conjugate_is_the_supremum(name):
    """sup_v <u, v> - r phi(v), over a dense grid and then by SciPy."""
    rng = np.random.default_rng(1)
    axis = np.linspace(-6, 6, 31)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, DIM)
    costs = np.array([value_of(name, v) for v in grid])
    for radius in (0.5, 2.0):
        for u in rng.standard_normal((6, DIM)) * 0.7 * radius:
            if name == "singular":
                u = FLAT @ u / 4
            value = conjugate_of(name, u, radius)
            seen = grid @ u - radius * costs
            if np.isinf(value):  # the supremum grows along a ray
                far = grid[seen.argmax()]
                assert seen.max() > 0
                assert 100 * far @ u - radius * value_of(name, 100 * far) > 99 * seen.max()
                continue
            assert value >= seen.max() - 1e-12
            best = scipy.optimize.minimize(
                lambda v, u=u, radius=radius: radius * value_of(name, v) - u @ v,
                grid[seen.argmax()],
                options={"gtol": 1e-9},
            )
            assert value == pytest.approx(-best.fun, abs=1e-8)


@pytest.mark.usefixtures("x64")
def test_conjugate_is_infinite_where_no_flow_may_be():
    inside, outside = np.array([0.6, 0.0, -0.8]), np.array([0.601, 0.0, -0.8])
    assert conjugate_of("network_lasso", inside, 1.0) == 0
    assert conjugate_of("network_lasso", outside, 1.0) == np.inf
    cube = np.array([1.0, -1.0, 0.2])
    assert conjugate_of("entrywise_l1", cube, 1.0) == 0
    assert conjugate_of("entrywise_l1", 1.001 * cube, 1.0) == np.inf
    assert conjugate_of("network_lasso", cube, 1.0) == np.inf
    assert conjugate_of("singular", NULL, 1.0) == np.inf
    assert conjugate_of("singular", FLAT @ cube + 1e-6 * NULL, 1.0) == np.inf
    assert np.isfinite(conjugate_of("singular", FLAT @ cube, 1.0))


@pytest.mark.parametrize("name", BUILD)
def test_flows_of_the_prox_have_a_finite_conjugate(name, dtype):
    """Rounding never makes a flow infeasible, in either precision."""
    penalty = BUILD[name]()
    for radius, sigma in itertools.product(RADII, SIGMAS):
        radii, step = np.full(len(POINTS), radius, dtype), np.asarray(sigma, dtype)
        flow = prox(penalty, POINTS.astype(dtype), radii, step)
        assert np.all(np.isfinite(conjugates(penalty, flow, radii)))
        if name in ("network_lasso", "entrywise_l1"):  # projections
            again = prox(penalty, flow, radii, step)
            np.testing.assert_allclose(again, flow, rtol=4 * jnp.finfo(dtype).eps)


# --- kinks, empty edges, precision, transformations ---------------------------------------------


@pytest.mark.parametrize("name", BUILD)
def test_an_edge_that_is_not_there_carries_no_flow(name, dtype):
    penalty, sigma = BUILD[name](), jnp.asarray(0.5, dtype)
    v, none = POINTS.astype(dtype), np.zeros(len(POINTS), dtype)
    flow = prox(penalty, v, none, sigma)
    np.testing.assert_array_equal(flow, np.zeros_like(POINTS))
    np.testing.assert_array_equal(conjugates(penalty, flow, none), 0)
    # Any other flow is infeasible there.
    assert np.all(np.isinf(conjugates(penalty, v[3:5], none[:2])))


@pytest.mark.parametrize("name", BUILD)
def test_gradients_are_finite_at_kinks(name, dtype):
    penalty, sigma = BUILD[name](), jnp.asarray(0.5, dtype)
    v = jnp.asarray(POINTS, dtype)

    def total(penalty, v, radius, sigma):
        flow = penalty.prox_conjugate(v, radius, sigma)
        return jnp.sum(flow * jnp.arange(1.0, DIM + 1, dtype=dtype)[None]) + jnp.sum(
            penalty.values(v)
        )

    slopes = jax.jit(jax.grad(total, (0, 1, 2, 3)))
    for radius in (0.0, 1.0, 1e-20, 1e6):
        gradient = slopes(penalty, v, np.full(len(v), radius, dtype), sigma)
        for leaf in jax.tree.leaves(gradient):
            assert leaf.dtype == dtype
            assert np.all(np.isfinite(leaf))
    # The conjugate of what is there, at no flow at all.
    flows, radii = jnp.zeros((1, DIM), dtype), jnp.asarray([0.0], dtype)
    slope = jax.jit(jax.grad(lambda u, r: jnp.sum(penalty.conjugate(u, r)), (0, 1)))(flows, radii)
    for leaf in jax.tree.leaves(slope):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.usefixtures("x64")
def test_gradients_are_those_of_differences(name):
    v, radius, sigma = POINTS[1], np.array(1.3), np.array(0.7)
    penalty = BUILD[name]()

    @jax.jit
    def total(v, radius, sigma):
        flow = penalty.prox_conjugate(v[None], radius[None], sigma)[0]
        return flow @ jnp.asarray([1.0, -0.5, 2.0])

    gradient = jax.tree.map(np.asarray, jax.jit(jax.grad(total, (0, 1, 2)))(v, radius, sigma))
    step = 1e-6
    for i in range(DIM):
        shift = step * np.eye(DIM)[i]
        slope = (total(v + shift, radius, sigma) - total(v - shift, radius, sigma)) / (2 * step)
        assert gradient[0][i] == pytest.approx(float(slope), abs=1e-8)
    slope = (total(v, radius + step, sigma) - total(v, radius - step, sigma)) / (2 * step)
    assert gradient[1] == pytest.approx(float(slope), abs=1e-8)
    slope = (total(v, radius, sigma + step) - total(v, radius, sigma - step)) / (2 * step)
    assert gradient[2] == pytest.approx(float(slope), abs=1e-8)


@pytest.mark.kin(1)
def test_a_singular_matrix_ignores_its_null_space(dtype):
    penalty = edges.quadratic_difference(FLAT)
    v = jnp.asarray(NULL[None], dtype)
    flow = penalty.prox_conjugate(v, jnp.ones(1, dtype), jnp.asarray(0.1, dtype))
    np.testing.assert_allclose(flow, 0, atol=1e-13 if dtype == "float64" else 1e-5)
    assert penalty.values(v)[0] == pytest.approx(0, abs=1e-10)
    nothing = edges.quadratic_difference(np.zeros((2, 2)))
    assert nothing.values(jnp.ones((1, 2), dtype))[0] == 0
    stays = nothing.prox_conjugate(
        jnp.ones((1, 2), dtype), jnp.ones(1, dtype), jnp.asarray(1, dtype)
    )
    np.testing.assert_array_equal(stays, 0)


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.ones((2, 3)), r"matrix must have shape \(2, 2\), but it has \(2, 3\)\."),
        (
            [[1.0, 2.0], [0.0, 1.0]],
            r"matrix must be symmetric, but it is not; use \(M \+ M.T\) / 2",
        ),
        ([[1.0, 2.0], [2.0, 1.0]], "positive semidefinite, but it has the eigenvalue -1"),
        (-np.eye(2), "positive semidefinite, but it has the eigenvalue -1"),
        ([[1.0, 0.0], [0.0, np.nan]], r"matrix must be finite, but entry \(1, 1\) is nan"),
    ],
)
def test_matrices_that_are_no_penalty(matrix, sentence):
    with pytest.raises(InputError, match=sentence):
        edges.quadratic_difference(matrix)


def test_rounding_of_a_matrix_is_forgiven():
    """X^T X in float32 is symmetric and positive semidefinite to rounding."""
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
    gram = x.T @ x
    gram[0, 1] *= 1 + 2e-7
    penalty = edges.quadratic_difference(gram)
    assert np.sum(np.asarray(penalty.spectrum) > 0) == 2
    assert np.all(np.asarray(penalty.spectrum) >= 0)
