"""Sets: what a factor holds, derivatives on boundaries and at apexes, ends of the range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels

CONES = (
    kernels.project_second_order_cone,
    kernels.project_rotated_second_order_cone,
    kernels.project_exponential_cone,
    kernels.project_dual_exponential_cone,
)
every_cone = pytest.mark.parametrize("project", CONES, ids=lambda project: project.__name__)
# Wide with dependent rows, tall and inconsistent, equal singular values, zero.
SYSTEMS = {
    "dependent rows": ([[1.0, 2.0, -1.0], [0.5, 0.0, 2.0], [1.5, 2.0, 1.0]], [1.0, -2.0, -1.0]),
    "inconsistent": ([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]], [1.0, 2.0, 3.0]),
    "equal singular values": ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [2.0, -1.0]),
    "zero": ([[0.0, 0.0]], [1.0]),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(
    "decomposition", ["lapack", pytest.param("rotations", marks=pytest.mark.thorough)]
)
def test_an_affine_factor_holds_the_least_squares_set(name, decomposition, x64):
    matrix, right = (np.array(part) for part in SYSTEMS[name])
    inverse = np.linalg.pinv(matrix)
    points = np.random.default_rng(0).standard_normal((4, matrix.shape[1]))

    @jax.jit
    def found(matrix, right, points):
        factor = kernels.affine_factor(matrix, right, decomposition)
        turned = kernels.project_affine(points.T, factor, axis=0)
        return kernels.project_affine(points, factor), turned.T

    expected = points - (points @ matrix.T - right) @ inverse.T
    for projected in found(matrix, right, points):
        np.testing.assert_allclose(projected, expected, atol=1e-13)
    at_once = jax.jit(kernels.project_affine)(points, matrix, right)
    np.testing.assert_allclose(at_once, expected, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["inconsistent", "equal singular values"])
def test_derivatives_by_the_equations_are_those_of_differences(name, x64):
    matrix, right = (jnp.array(part) for part in SYSTEMS[name])
    v = jnp.linspace(-1.0, 2.0, matrix.shape[1])

    def projected(numbers):
        parts = numbers[: matrix.size].reshape(matrix.shape), numbers[matrix.size :]
        return kernels.project_affine(v, kernels.affine_factor(*parts))

    compare_with_differences(projected, jnp.concatenate([matrix.ravel(), right]))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "shape", [(2, 3), pytest.param((3, 2), marks=pytest.mark.thorough)], ids=str
)
def test_a_graph_is_where_y_is_the_image_of_x(shape, x64):
    rng = np.random.default_rng(0)
    matrix, v = rng.standard_normal(shape), rng.standard_normal((4, sum(shape)))
    found = jax.jit(lambda a: kernels.project_graph(v, kernels.graph_factor(a)))(matrix)
    x, y = v[:, : shape[1]], v[:, shape[1] :]
    gram = np.eye(shape[1]) + matrix.T @ matrix
    expected = np.linalg.solve(gram, (x + y @ matrix).T).T
    np.testing.assert_allclose(found, np.c_[expected, expected @ matrix.T], atol=1e-13)

    def projected(numbers):
        return kernels.project_graph(v[0], kernels.graph_factor(numbers.reshape(shape)))

    compare_with_differences(projected, jnp.asarray(matrix.ravel()))


def compare_with_differences(function, here, width=1e-6):
    shifts = width * jnp.eye(here.size)
    mapped = jax.jit(jax.vmap(function))
    ahead, behind = (mapped(here[None] + side * shifts) for side in (1, -1))
    slope = jax.jit(jax.jacrev(function))(here)
    np.testing.assert_allclose(slope, ((ahead - behind) / (2 * width)).T, atol=1e-8)


@pytest.mark.thorough
@every_cone
def test_derivatives_of_cones_are_finite_on_every_boundary(project):
    """And that at a point of the cone is the identity, at the apex one of both sides."""
    entries = (0.0, -0.0, 1.0, -1.0)
    points = np.stack(np.meshgrid(entries, entries, entries), -1).reshape(-1, 3).astype(np.float32)
    points = np.concatenate([points, [[5, 3, 4], [-5, 3, 4], [1, 1, np.e], [1, -1, -(np.e**-2)]]])
    for jacobian in (jax.jacrev, jax.jacfwd):
        slopes = jax.jit(jax.vmap(jacobian(project)))(jnp.asarray(points, jnp.float32))
        assert np.all(np.isfinite(slopes))
    assert np.all(np.isfinite(project(jnp.asarray(points, jnp.float32))))


@pytest.mark.thorough
def test_the_identity_on_the_boundary_of_a_cone_and_at_its_apex():
    for project, point in (
        (kernels.project_second_order_cone, [5.0, 3.0, 4.0]),
        (kernels.project_second_order_cone, [0.0, 0.0, 0.0]),
        (kernels.project_rotated_second_order_cone, [0.0, 0.0, 0.0]),
        (kernels.project_exponential_cone, [0.0, 1.0, 1.0]),
    ):
        np.testing.assert_array_equal(jax.jit(jax.jacrev(project))(jnp.array(point)), np.eye(3))


@pytest.mark.thorough
def test_a_cone_of_one_entry_and_one_of_two():
    half_line = kernels.project_second_order_cone(jnp.array([[-2.0], [3.0]]))
    np.testing.assert_array_equal(half_line, [[0.0], [3.0]])
    quadrant = kernels.project_rotated_second_order_cone(jnp.array([[-2.0, 1.0], [3.0, 2.0]]))
    np.testing.assert_allclose(quadrant, [[0.0, 1.0], [3.0, 2.0]], atol=1e-7)
    with pytest.raises(ValueError, match="at least 2 entries"):
        kernels.project_rotated_second_order_cone(jnp.ones((2, 1)))
    with pytest.raises(ValueError, match="three entries"):
        kernels.project_exponential_cone(jnp.ones((2, 4)))


def test_exponential_cone_where_the_slope_leaves_every_range(x64):
    """`v = p - d` with p in the cone, d in the dual one and `<p, d> = 0`, wherever v is."""
    rng = np.random.default_rng(0)
    v = rng.standard_normal((2000, 3)) * 10 ** rng.uniform(-8, 8, (2000, 3))
    size = np.max(np.abs(v), 1)
    project = jax.jit(kernels.project_exponential_cone)
    p = np.asarray(project(v))
    d = p - v
    np.testing.assert_allclose(np.sum(p * d, 1) / size**2, 0, atol=1e-14)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        excess = np.where(p[:, 1] > 0, p[:, 1] * np.exp(p[:, 0] / p[:, 1]) - p[:, 2], p[:, 0])
    assert np.all(excess <= 1e-12 * size)
    # d is known to the rounding of v, and -d is as far from the polar cone, where all goes to 0.
    np.testing.assert_allclose(np.asarray(project(-d)) / size[:, None], 0, atol=1e-14)
    single = np.asarray(project(v.astype(np.float32)))
    np.testing.assert_allclose(single / size[:, None], p / size[:, None], atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(np.float16, 300.0), (np.float32, 1e25), (np.float32, 1e-25), (np.float64, 1e200)],
    ids=str,
)
def test_a_normal_is_of_any_length(dtype, size, x64):
    normal = jnp.asarray([3 * size, -4 * size], dtype)
    offset = jnp.asarray(5 * size, dtype)
    v = jnp.asarray([6.0, -8.0], dtype)  # 50 along the normal of length 5
    tolerance = 16 * float(jnp.finfo(dtype).eps)  # of numbers up to 8

    @jax.jit
    def found(v, normal, offset):
        slopes = jax.jacrev(kernels.project_halfspace, (0, 1, 2))(v, normal, offset)
        return slopes, (
            kernels.project_halfspace(v, normal, offset),
            kernels.project_hyperplane(v, normal, offset),
            kernels.project_hyperslab(v, normal, -offset, offset),
        )

    slopes, points = found(v, normal, offset)
    for point in points:
        np.testing.assert_allclose(np.asarray(point, float), [0.6, -0.8], atol=tolerance)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)


@pytest.mark.thorough
def test_a_normal_of_zero_bounds_nothing():
    v, zero = jnp.array([1.0, -2.0]), jnp.zeros(2)
    for project, offsets in (
        (kernels.project_halfspace, (-1.0,)),
        (kernels.project_hyperplane, (1.0,)),
        (kernels.project_hyperslab, (1.0, 2.0)),
    ):
        np.testing.assert_array_equal(project(v, zero, *offsets), v)
        slopes = jax.jit(jax.jacrev(project, (0, 1, 2)))
        by_point, by_normal, by_offset = slopes(v, zero, *offsets)
        np.testing.assert_array_equal(by_point, np.eye(2))
        np.testing.assert_array_equal(by_normal, np.zeros((2, 2)))
        np.testing.assert_array_equal(by_offset, np.zeros(2))


def test_offsets_may_be_infinite():
    v, normal = jnp.array([1.0, -2.0]), jnp.array([2.0, 1.0])
    np.testing.assert_array_equal(kernels.project_halfspace(v, normal, jnp.inf), v)
    np.testing.assert_array_equal(kernels.project_hyperslab(v, normal, -jnp.inf, jnp.inf), v)
    slopes = jax.jit(jax.jacrev(kernels.project_hyperslab, (0, 1)))(v, normal, -jnp.inf, jnp.inf)
    np.testing.assert_array_equal(slopes[0], np.eye(2))
    np.testing.assert_array_equal(slopes[1], np.zeros((2, 2)))


@pytest.mark.thorough
def test_spheres_at_zero_and_of_points_whose_squares_overflow():
    zero = jnp.zeros((2, 3))
    found = kernels.project_l2_sphere(zero, 2.0, axis=0)
    np.testing.assert_array_equal(found, [[2.0] * 3, [0.0] * 3])
    by_point, by_radius = jax.jit(jax.jacrev(kernels.project_l2_sphere, (0, 1)))(zero[0], 2.0)
    np.testing.assert_array_equal(by_point, np.zeros((3, 3)))
    np.testing.assert_array_equal(by_radius, [1.0, 0.0, 0.0])
    for size, dtype in ((1e30, np.float32), (1e-30, np.float32), (300.0, np.float16)):
        found = kernels.project_l2_sphere(jnp.asarray([3 * size, -4 * size], dtype), 5.0)
        np.testing.assert_allclose(np.asarray(found, float), [3.0, -4.0], rtol=2e-3)


@pytest.mark.thorough
def test_an_intersection_tells_how_far_its_sets_are():
    def below(x):
        return kernels.project_halfspace(x, jnp.array([1.0, 1.0]), 1.0)

    def ball(x):
        return kernels.project_l2_ball(x, 1.0)

    def beyond(x):
        return kernels.project_halfspace(x, jnp.array([-1.0, -1.0]), -3.0)

    points = jnp.array([[2.0, 2.0], [0.1, 0.2], [3.0, 0.0]])
    expected = [[0.5, 0.5], [0.1, 0.2], [1.0, 0.0]]

    @jax.jit
    def found(points):
        def project(x):
            return kernels.project_intersection(x, (ball, below), 60)

        told = kernels.with_gap(kernels.project_intersection)
        apart = told(points, (below, beyond), 60)[1]
        slope = jax.jacrev(project)(points[0])
        return *told(points, (ball, below), 60), jax.vmap(project)(points), apart, slope

    together, residual, mapped, apart, slope = found(points)
    np.testing.assert_allclose(together, expected, atol=1e-6)
    np.testing.assert_allclose(mapped, expected, atol=1e-6)
    np.testing.assert_allclose(residual, np.zeros(3), atol=1e-6)
    np.testing.assert_allclose(apart, np.ones(3), atol=1e-5)  # 2 / sqrt(2) away, 1 in each entry
    np.testing.assert_allclose(slope, [[0.5, -0.5], [-0.5, 0.5]], atol=1e-5)
    with pytest.raises(ValueError, match="at least one"):
        kernels.project_intersection(points, ())
