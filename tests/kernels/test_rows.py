"""Row kernels (geometry, groups, phase) and the coupled pair."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from tests.compiling import OPTIMIZED
from tests.reference import kernels as reference

ANCHOR = np.array([1.0, -2.0, 0.5])
DIRECTION = np.array([2.0, -1.0, 2.0]) / 3.0


def on_ray(radius):
    return ANCHOR + radius * DIRECTION


def rotation(dim=3):
    return np.linalg.qr(np.random.default_rng(7).normal(size=(dim, dim)))[0]


# --- range excess ---


@pytest.mark.kin(10)
@pytest.mark.parametrize("step", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("radius", [0.0, 1e-9, 1.0, 1.5, 1.5 + 1e-12, 2.0, 2.1, 4.0, 5.5, 9.0])
def test_range_excess_equals_twin_and_beats_the_radius_grid(radius, step, x64):
    point, distance = on_ray(radius), 1.5
    got = kernels.prox_range_excess(jnp.asarray(point), ANCHOR, distance, step)
    np.testing.assert_allclose(
        got, reference.prox_range_excess(point, ANCHOR, distance, step), atol=1e-12
    )
    if step > 0:

        def objective(r):
            return 2 * step * np.maximum(0, r - distance) + (r - radius) ** 2 / 2

        _, least = reference.global_minimum(objective, 0.0, 10.0, seeds=[distance])
        assert objective(np.linalg.norm(got - ANCHOR)) <= least + 1e-12


def test_range_excess_returns_points_in_range_bit_for_bit(dtype):
    points = jnp.asarray(np.random.default_rng(7).normal(size=(50, 3)), dtype)
    got = kernels.prox_range_excess(points, jnp.zeros(3, dtype)[None], 10.0, 3.0)
    np.testing.assert_array_equal(got, points)


def test_range_excess_treats_a_negative_range_as_zero(x64):
    got = kernels.prox_range_excess(jnp.asarray(on_ray(3.0)), ANCHOR, -2.0, 5.0)
    np.testing.assert_allclose(got, ANCHOR, atol=1e-12)


# --- negative Moreau envelope ---


@pytest.mark.kin(10)
@pytest.mark.parametrize(
    ("step", "mu"), [(0.5, 2.0), (1.0, 1.0), (2.0, 0.5), (1.9, 2.0), (0.0, 1.0)]
)
@pytest.mark.parametrize("radius", [0.0, 1e-8, 0.1, 0.5, 1.5, 1.5 + 1e-12, 3.0])
def test_negative_moreau_equals_twin_and_beats_the_radius_grid(radius, step, mu, x64):
    centre = on_ray(radius)
    got = kernels.prox_negative_moreau_norm(jnp.asarray(centre), ANCHOR, step, mu)
    expected = reference.prox_negative_moreau_norm(centre, ANCHOR, step, mu)
    np.testing.assert_allclose(got, expected, atol=2e-7 if radius == 1e-8 else 1e-11)
    # At radius 0 with mu < step the anchor is returned by convention: stationary, not minimal.
    if step > 0 and (radius > 0 or mu >= step):

        def objective(r):
            return -step * reference.norm_envelope(np.abs(r), mu) + (r - radius) ** 2 / 2

        _, least = reference.global_minimum(objective, -9.0, 9.0)
        assert objective(float((got - ANCHOR) @ DIRECTION)) <= least + 1e-11


def test_negative_moreau_returns_the_anchor_where_no_direction_is_distinguished(dtype):
    anchor = jnp.asarray(ANCHOR, dtype)
    for step, mu in [(1.0, 1.0), (3.0, 1.0)]:
        np.testing.assert_array_equal(
            kernels.prox_negative_moreau_norm(anchor, anchor, step, mu), anchor
        )


# --- both on batches ---


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["prox_range_excess", "prox_negative_moreau_norm"])
def test_localization_rows_are_independent_and_equivariant(name, dtype):
    kernel = getattr(kernels, name)
    points, anchors = np.random.default_rng(7).normal(size=(2, 5, 4, 3)) * 2
    first, second = np.random.default_rng(7).uniform(0.2, 2.0, (2, 5, 4))
    points, anchors, first, second = (
        jnp.asarray(a, dtype) for a in (points, anchors, first, second)
    )
    batch = kernel(points, anchors, first, second)
    assert batch.dtype == dtype
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    twin = getattr(reference, name)
    for index in np.ndindex(5, 4):
        expected = twin(*(np.float64(a[index]) for a in (points, anchors, first, second)))
        np.testing.assert_allclose(batch[index], expected, rtol=tolerance, atol=tolerance)
    mapped = jax.jit(jax.vmap(jax.vmap(kernel)))(points, anchors, first, second)
    np.testing.assert_allclose(mapped, batch, rtol=tolerance, atol=tolerance)
    # Python numbers and a shared anchor broadcast.
    shared = kernel(points[0], anchors[0, :1], 0.5, 0.7)
    assert shared.dtype == dtype
    expected = kernel(points[0], anchors[0, :1], first[0] * 0 + 0.5, second[0] * 0 + 0.7)
    np.testing.assert_allclose(shared, expected, rtol=1e-6)

    turn, shift = jnp.asarray(rotation(), dtype), jnp.asarray([3.0, -1.0, 2.0], dtype)
    moved = kernel(
        points @ turn + shift[None, None], anchors @ turn + shift[None, None], first, second
    )
    np.testing.assert_allclose(
        moved, batch @ turn + shift[None, None], rtol=tolerance, atol=tolerance
    )


# --- groups and balls ---


def test_ball_keeps_inner_points_bit_for_bit_and_is_idempotent(dtype):
    rows = jnp.asarray(np.random.default_rng(7).normal(size=(200, 5)), dtype)
    once = kernels.project_l2_ball(rows, 2.0)
    inside = np.linalg.norm(rows, axis=-1) < 2
    np.testing.assert_array_equal(once[inside], rows[inside])
    assert np.max(np.linalg.norm(once, axis=-1)) <= 2 * (1 + 4 * jnp.finfo(dtype).eps)
    np.testing.assert_allclose(kernels.project_l2_ball(once, 2.0), once, rtol=1e-6)
    assert not jnp.any(kernels.project_l2_ball(rows, 0.0))


# --- phase retrieval ---


@pytest.mark.kin(10)
@pytest.mark.parametrize("reach", [0.0, 0.3, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 2.5])
@pytest.mark.parametrize("y", [-2.0, 0.0, 1e-12, 0.5, 4.0])
def test_phase_map_equals_twin_and_beats_the_grid(reach, y, x64):
    """``reach = 2 step ||x||**2`` is the limit of convexity at 1."""
    x = np.array([1.0, -2.0, 0.5])
    squared = x @ x
    step = reach / (2 * squared)
    for projection in (-5.0, -1.0, -1e-9, 0.0, 0.3, np.sqrt(max(y, 0)), 2.0, 6.0):
        point = np.array([2.0, 1.0, 0.0]) + x * projection / squared
        got = np.asarray(kernels.prox_phase_residual(jnp.asarray(point), step, jnp.asarray(x), y))
        u0, u = x @ point, x @ got
        np.testing.assert_allclose(got - point, x * (u - u0) / squared, atol=1e-12)
        if reach > 0:

            def objective(u, u0=u0):
                return reach * np.abs(y - u**2) + (u - u0) ** 2

            root = np.sqrt(max(y, 0.0))
            best, least = reference.global_minimum(objective, -9.0, 9.0, seeds=[root, -root])
            assert objective(u) <= least + 1e-9
            if abs(reach - 1) > 1e-6 and (u0 != 0 or reach < 1) and abs(u0) > 1e-6:
                assert u == pytest.approx(best, abs=2e-4)
                expected = reference.prox_phase_residual(point, step, x, y)
                np.testing.assert_allclose(got, expected, atol=1e-9)
        else:
            np.testing.assert_allclose(got, point, atol=1e-12)


def test_phase_map_conventions(dtype):
    zero, x = jnp.zeros(3, dtype), jnp.asarray([1.0, 2.0, 2.0], dtype)
    # Both signs minimise: + is taken. In the convex regime 0 is a fixed point.
    assert x @ kernels.prox_phase_residual(zero, 1.0, x, 4.0) == pytest.approx(2.0)
    np.testing.assert_array_equal(kernels.prox_phase_residual(zero, 1e-3, x, 4.0), zero)
    np.testing.assert_array_equal(kernels.prox_phase_residual(x, 1.0, zero, 4.0), x)
    # On the intensity nothing moves.
    np.testing.assert_allclose(kernels.prox_phase_residual(x, 0.5, x, 81.0), x, rtol=1e-6)


# --- derivatives of all row kernels ---

SAFE_ROWS = [
    # name, first argument, the others: every kink, zero vectors and both sides of each limit
    *[
        ("prox_range_excess", on_ray(radius), (ANCHOR, distance, 0.5))
        for radius in (0.0, 1.5, 2.5)
        for distance in (0.0, 1.5)
    ],
    *[
        ("prox_negative_moreau_norm", on_ray(radius), (ANCHOR, step, mu))
        for radius in (0.0, 1.5)
        for step, mu in ((0.5, 2.0), (2.0, 2.0), (2.0, 0.5), (0.0, 1.0))
    ],
    *[
        ("prox_phase_residual", u * DIRECTION, (step, scale * DIRECTION, y))
        for u in (0.0, 2.0)
        for step in (0.0, 0.2, 0.5, 1.0)
        for scale in (0.0, 1.0)
        for y in (-1.0, 0.0, 4.0)
    ],
    ("safe_norm", np.zeros(3), ()),
    ("safe_ratio", np.zeros(3), (np.zeros(3),)),
    ("safe_ratio", np.ones(3), (np.array([0.0, 1.0, -2.0]),)),
]


@pytest.mark.bits
@pytest.mark.parametrize("name", sorted({row[0] for row in SAFE_ROWS}))
def test_jacobians_of_row_kernels_are_finite_everywhere(name, dtype):
    rows = [(v, *rest) for kernel, v, rest in SAFE_ROWS if kernel == name]
    everything = tuple(range(len(rows[0])))
    kernel = getattr(kernels, name)
    reverse = jax.jit(jax.jacrev(kernel, argnums=everything))
    forward = jax.jit(jax.jacfwd(kernel, argnums=everything))
    for row in rows:
        arguments = [jnp.asarray(a, dtype) for a in row]
        for left, right in zip(reverse(*arguments), forward(*arguments), strict=True):
            assert jnp.all(jnp.isfinite(left) & jnp.isfinite(right)), row
            # On the sphere of the ranges rounding decides which one-sided derivative is taken.
            if OPTIMIZED or name != "prox_range_excess":
                np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5, err_msg=str(row))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("prox_range_excess", (on_ray(1.0), ANCHOR, 1.5, 0.5)),
        ("prox_range_excess", (on_ray(2.0), ANCHOR, 1.5, 0.5)),
        ("prox_range_excess", (on_ray(4.0), ANCHOR, 1.5, 0.5)),
        ("prox_negative_moreau_norm", (on_ray(0.0), ANCHOR, 0.5, 2.0)),
        ("prox_negative_moreau_norm", (on_ray(1.0), ANCHOR, 0.5, 2.0)),
        ("prox_negative_moreau_norm", (on_ray(2.0), ANCHOR, 0.5, 2.0)),
        ("prox_negative_moreau_norm", (on_ray(1.0), ANCHOR, 2.0, 1.0)),
        ("prox_phase_residual", (np.array([0.3, 1.0, -0.2]), 0.2, DIRECTION, 4.0)),
        ("prox_phase_residual", (np.array([0.0, 3.0, 0.0]), 0.2, DIRECTION, 0.8)),
        ("prox_phase_residual", (np.array([0.3, 1.0, -0.2]), 1.2, DIRECTION, 4.0)),
        ("prox_phase_residual", (np.array([0.3, 1.0, -0.2]), 0.2, DIRECTION, -1.0)),
        ("safe_norm", (2 * DIRECTION,)),
        ("safe_ratio", (DIRECTION, 2.0 + DIRECTION)),
    ],
)
def test_jacobians_of_row_kernels_equal_finite_differences(name, arguments, x64):
    kernel = jax.jit(getattr(kernels, name))
    arguments = [jnp.asarray(a, jnp.float64) for a in arguments]
    exact = jax.jit(jax.jacrev(kernel, argnums=tuple(range(len(arguments)))))(*arguments)
    for position, argument in enumerate(arguments):
        for index in np.ndindex(argument.shape):
            lower, upper = list(arguments), list(arguments)
            lower[position] = argument.at[index].add(-1e-6)
            upper[position] = argument.at[index].add(1e-6)
            numerical = (kernel(*upper) - kernel(*lower)) / 2e-6
            np.testing.assert_allclose(exact[position][(..., *index)], numerical, atol=1e-7)


# --- the coupled pair ---


@pytest.mark.parametrize(
    ("prox", "penalty"),
    [
        (lambda v, s: kernels.prox_l1(v, s, 1.3), lambda e: 1.3 * np.abs(e)),
        (
            lambda v, s: kernels.prox_smoothed_abs(v, s, 1.3, 0.4),
            lambda e: 1.3 * reference.huber_above(e, 0.4),
        ),
        (
            lambda v, s: kernels.prox_mcp(v, s, 1.0, 2.0),
            lambda e: reference.mcp(e, 1.0, 2.0),
        ),
    ],
    ids=["l1", "smoothed", "mcp beyond its regime"],
)
@pytest.mark.parametrize("step", [0.2, 0.9, 3.0])
def test_coupled_pair_minimises_jointly(prox, penalty, step, x64):
    a, b = jnp.asarray(np.random.default_rng(7).normal(size=(2, 8)) * 2)
    z, q = kernels.couple_pair(a, b, prox, step)

    def objective(z, q, a, b):
        return step * penalty(q - z) + ((z - a) ** 2 + (q - b) ** 2) / 2

    grid = np.linspace(-8, 8, 401)
    for i in range(8):
        least = np.min(objective(grid[:, None], grid[None, :], float(a[i]), float(b[i])))
        assert float(objective(z[i], q[i], a[i], b[i])) <= least + 1e-12
    np.testing.assert_allclose(z + q, a + b, atol=1e-12)


# --- safe ---


def test_safe_norm_and_ratio(dtype):
    rows = jnp.asarray([[0.0, 0.0], [3.0, -4.0]], dtype)
    np.testing.assert_array_equal(kernels.safe_norm(rows), [0.0, 5.0])
    assert kernels.safe_norm(rows, axis=0, keepdims=True).shape == (1, 2)
    assert kernels.safe_norm(rows).dtype == dtype
    np.testing.assert_array_equal(jax.grad(lambda v: kernels.safe_norm(v))(rows[0]), [0.0, 0.0])
    ratio = kernels.safe_ratio(rows[1], jnp.asarray([0.0, 2.0], dtype))
    np.testing.assert_array_equal(ratio, [0.0, -2.0])
    assert ratio.dtype == dtype
