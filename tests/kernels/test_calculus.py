"""Maps made of maps: against the functions that they minimise, and by identities."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import kernels
from fedjax_admm.testing import check_prox

SHIFT = np.array([0.3, -1.1, 0.8])
FACTORS = np.array([2.0, -0.7, 0.4])
ROTATION = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
WIDE = 1.5 * ROTATION[:2]  # two rows: Q Q^T = 2.25 I
POINTS = np.random.default_rng(5).standard_normal((4, 3)) * np.array([[0.2], [1.0], [3.0], [6.0]])


def like(x, matrix):
    return jnp.asarray(matrix, x.dtype)


def apply(matrix, x):
    return jnp.matmul(x, like(x, matrix).T, precision=jax.lax.Precision.HIGHEST)


def norm(x):
    return kernels.safe_norm(x, -1)


def ball(x, radius=1.0):
    return kernels.project_l2_ball(x, radius)


def half_square(x):
    return 0.5 * x * x


def shrink_half_square(v, step):
    return v / (1 + step)


def two_points(x):
    """Project onto the set {-1, 1}, which is not convex."""
    return jnp.where(x >= 0, jnp.ones_like(x), -jnp.ones_like(x))


def blocks_value(x):
    return jnp.sum(jnp.abs(x[..., :1]), -1) + norm(x[..., 1:])


def wide_value(x):
    return norm(apply(WIDE, x))


def line(x):
    """The range of L x = (x, x, x), on which copies agree."""
    return jnp.broadcast_to(jnp.mean(x, -1, keepdims=True), x.shape)


# What each is, and its value.
CASES = {
    "translate": (
        kernels.translate(kernels.prox_l1, SHIFT),
        lambda x: jnp.sum(jnp.abs(x - like(x, SHIFT)), -1),
    ),
    "scale": (kernels.scale(kernels.prox_group_l2, -2.5), lambda x: norm(2.5 * x)),
    "precompose_diagonal": (
        kernels.precompose_diagonal(kernels.prox_l1, FACTORS, SHIFT),
        lambda x: jnp.sum(jnp.abs(like(x, FACTORS) * x + like(x, SHIFT)), -1),
    ),
    "postscale": (kernels.postscale(kernels.prox_group_l2, 0.7), lambda x: 0.7 * norm(x)),
    "tilt": (
        kernels.tilt(kernels.prox_group_l2, SHIFT),
        lambda x: norm(x) + jnp.sum(like(x, SHIFT) * x, -1),
    ),
    "regularise": (
        kernels.regularise(kernels.prox_group_l2, 0.6, SHIFT),
        lambda x: norm(x) + 0.3 * jnp.sum((x - like(x, SHIFT)) ** 2, -1),
    ),
    "precompose_orthogonal, a rotation": (
        kernels.precompose_orthogonal(
            kernels.prox_l1, partial(apply, ROTATION), partial(apply, ROTATION.T)
        ),
        lambda x: jnp.sum(jnp.abs(apply(ROTATION, x)), -1),
    ),
    "precompose_orthogonal, wide": (
        kernels.precompose_orthogonal(
            kernels.prox_group_l2, partial(apply, WIDE), partial(apply, WIDE.T), 2.25
        ),
        wide_value,
    ),
    "separable": (
        kernels.separable(kernels.prox_l1, kernels.prox_group_l2, sizes=(1, 2)),
        blocks_value,
    ),
    "distance_prox": (kernels.distance_prox(ball), kernels.distance_to(ball)),
    "distance_prox, not convex": (
        kernels.distance_prox(lambda x: two_points(x[..., None])[..., 0], axis=-1),
        lambda x: norm(x - two_points(x)),
    ),
    "squared_distance_prox": (
        kernels.squared_distance_prox(ball),
        kernels.squared_distance_to(ball),
    ),
    "envelope_prox": (
        kernels.envelope_prox(kernels.prox_l1, 0.5),
        lambda x: jnp.where(jnp.abs(x) <= 0.5, x * x, jnp.abs(x) - 0.25),
    ),
    "conjugate": (kernels.conjugate(shrink_half_square), half_square),
    "pointwise_minimum, entry by entry": (
        kernels.pointwise_minimum(
            (lambda x: jnp.abs(x - 1), lambda x: 0.3 + 2 * jnp.abs(x + 2)),
            (
                kernels.translate(kernels.prox_l1, 1.0),
                kernels.translate(kernels.postscale(kernels.prox_l1, 2.0), -2.0),
            ),
        ),
        lambda x: jnp.minimum(jnp.abs(x - 1), 0.3 + 2 * jnp.abs(x + 2)),
    ),
    "pointwise_minimum, of vectors": (
        kernels.pointwise_minimum(
            (norm, lambda x: 0.2 + jnp.sum(half_square(x), -1)),
            (kernels.prox_group_l2, shrink_half_square),
        ),
        lambda x: jnp.minimum(norm(x), 0.2 + jnp.sum(half_square(x), -1)),
    ),
}
EVERY = pytest.mark.parametrize("name", CASES)


@pytest.mark.kin(8)
@EVERY
def test_no_point_is_better(name):
    prox, value = CASES[name]
    check_prox(prox, value, points=POINTS, steps=(0.4, 5.0), only="minimises")


@pytest.mark.thorough
@EVERY
def test_made_maps_are_fit_for_others_code(name):
    """Derivatives, kinks and range, as of a kernel."""
    prox, value = CASES[name]
    kinks = (0.3, 0.8, 1.1) if name == "translate" else (0.4, 0.5, 0.9)
    checks = ("derivatives", "kinks", "range")
    check_prox(prox, value, points=POINTS, kinks=kinks, only=checks)


# --- conjugate and envelope ---

PAIRS = {
    "l1": (kernels.prox_l1, lambda v, _: jnp.clip(v, -1, 1)),
    "norm": (kernels.prox_group_l2, lambda v, _: kernels.project_l2_ball(v, 1.0)),
    "ball": (lambda v, _: kernels.project_l2_ball(v, 1.0), kernels.prox_group_l2),
    "square": (shrink_half_square, shrink_half_square),
    "zero": (lambda v, _: v, lambda v, _: jnp.zeros_like(v)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_conjugates_of_known_functions(name, dtype):
    """At steps from 0 to the end of the range; the derivatives too, in point and step."""
    prox, expected = PAIRS[name]
    points = jnp.asarray(POINTS, dtype)

    def slopes(map_of, v, step):
        return jax.jvp(map_of, (v, step), (jnp.ones_like(v), jnp.zeros_like(step)))[1], jax.jvp(
            map_of, (v, step), (jnp.zeros_like(v), jnp.ones_like(step))
        )[1]

    tolerance = 20 * float(jnp.finfo(dtype).eps)
    close = partial(np.testing.assert_allclose, rtol=tolerance, atol=6 * tolerance)
    made = kernels.conjugate(prox)
    both = jax.jit(lambda v, s: (made(v, s), slopes(made, v, s)))
    known = jax.jit(lambda v, s: (expected(v, s), slopes(expected, v, s)))
    for step in (0.0, 1e-37, 1e-12, 0.7, 1e12, 1e25):
        step = jnp.asarray(step, dtype)
        (got, slopes_got), (true, slopes_true) = both(points, step), known(points, step)
        close(got, true)
        close(slopes_got[0], slopes_true[0])
        # Outside of a ball the rounding of u = (v - x) / step is in its derivative.
        slack = 1 + 1 / step if name == "norm" and step > jnp.finfo(dtype).eps ** 2 else 1
        close(slopes_got[1], slopes_true[1], atol=6 * tolerance * float(slack))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_conjugate_of_half_precision_points_is_computed_in_float32(dtype):
    points = jnp.asarray(POINTS, dtype)
    found = kernels.conjugate(kernels.prox_l1)(points, 1e-6)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, jnp.clip(points, -1, 1))


def test_a_conjugate_has_the_derivatives_by_its_parameters(x64):
    """g = w |x|: its conjugate projects onto [-w, w]."""
    made = kernels.conjugate(kernels.prox_l1)
    points = jnp.asarray([-3.0, -0.2, 0.4, 2.0])

    @jax.jit
    def slopes(step):
        forward = jax.jacfwd(made, (1, 2))(points, step, 1.5)
        return forward, jax.jacrev(made, (1, 2))(points, step, 1.5)

    for step in (0.0, 1e-9, 2.0):
        for by_step, by_weight in slopes(step):
            np.testing.assert_allclose(by_step, np.zeros(4), atol=1e-12)
            np.testing.assert_allclose(by_weight, [-1, 0, 0, 1], atol=1e-12)


def test_averages_with_the_point_keep_their_digits_at_large_steps():
    """As a point plus a share of the way to the set both were 0 or of the wrong sign."""
    v, step = jnp.float32(7.3), jnp.float32(1e8)
    smoothed = kernels.envelope_prox(kernels.prox_l1, 0.3)
    np.testing.assert_allclose(smoothed(v, step), 7.3 * 0.3 / (0.3 + 1e8), rtol=1e-6)
    near = kernels.squared_distance_prox(lambda x: 0 * x)
    np.testing.assert_allclose(near(v, step), 7.3 / (1 + 1e8), rtol=1e-6)


def test_the_envelope_of_the_modulus_is_hubers_function(x64):
    """Its values, its gradient, its curvature through the map, and its slope in the step."""
    envelope = kernels.moreau_envelope(jnp.abs, kernels.prox_l1)
    points, step = jnp.asarray([-3.0, -0.5, 0.2, 0.0, 4.0]), 0.4
    size = np.abs(points)
    inside = size <= step
    np.testing.assert_allclose(
        envelope(points, step), np.where(inside, points**2 / (2 * step), size - step / 2)
    )

    @jax.jit
    def slopes(step):
        slope, curvature = jax.grad(envelope), jax.hessian(envelope)
        by_step = jax.jacfwd(envelope, 1)(points, step)
        return (
            jax.vmap(slope, (0, None))(points, step),
            jax.vmap(curvature, (0, None))(points, step),
            by_step,
        )

    slope, curvature, by_step = slopes(step)
    np.testing.assert_allclose(slope, np.clip(points / step, -1, 1), atol=1e-15)
    np.testing.assert_allclose(curvature, inside / step)
    np.testing.assert_allclose(by_step, np.where(inside, -(points**2) / (2 * step**2), -0.5))
    # At the step 0 it is the function, and its slope there is the limit.
    slope, _, by_step = slopes(0.0)
    np.testing.assert_array_equal(envelope(points, 0.0), size)
    np.testing.assert_array_equal(slope, np.sign(points))
    np.testing.assert_array_equal(by_step, -0.5 * np.sign(points) ** 2)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(3, 3), (3,), ()])
def test_an_envelope_has_the_shape_of_its_function(shape):
    points = jnp.ones(shape)
    entrywise = kernels.moreau_envelope(jnp.abs, kernels.prox_l1)
    assert entrywise(points, 0.5).shape == shape
    if shape:
        envelope = kernels.moreau_envelope(norm, kernels.prox_group_l2)
        assert envelope(points, 0.5).shape == shape[:-1]
    if len(shape) == 2:
        first = kernels.moreau_envelope(
            lambda x: kernels.safe_norm(x, 0),
            lambda v, s: kernels.prox_group_l2(v, s, axis=0),
            axis=0,
        )
        np.testing.assert_allclose(first(points, 0.5), np.full(3, np.sqrt(3) - 0.25), rtol=1e-6)


# --- the others, by what they are ---


@pytest.mark.thorough
def test_numbers_of_a_made_map_can_be_learnt_from_zero(x64):
    """Derivatives by shift, factor, weight and slope are finite, and right, at 0."""
    points = jnp.asarray([-2.0, 0.0, 3.0])

    def slope(make, number):
        return jax.jacobian(lambda w: make(w)(points, 0.5))(number)

    np.testing.assert_allclose(
        slope(lambda w: kernels.postscale(kernels.prox_l1, w), 0.0), [0.5, 0, -0.5]
    )
    np.testing.assert_allclose(
        slope(lambda w: kernels.tilt(kernels.prox_l1, w), 0.0)[::2], [-0.5, -0.5]
    )
    np.testing.assert_allclose(
        slope(lambda w: kernels.regularise(kernels.prox_l1, w), 0.0)[::2], [0.75, -1.25]
    )
    np.testing.assert_array_equal(kernels.scale(kernels.prox_l1, 0.0)(points, 0.5), points)
    assert np.all(np.isfinite(slope(lambda w: kernels.scale(kernels.prox_l1, w), 0.0)))


@pytest.mark.thorough
def test_the_proximal_average_averages_envelopes(x64):
    """Its envelope's gradient, (v - Prox(v)) / step, is the average of theirs."""
    weights = np.array([1.0, 3.0])
    made = kernels.proximal_average([kernels.prox_l1, shrink_half_square], weights)
    points, step = jnp.asarray(POINTS), 0.8
    envelopes = [
        kernels.moreau_envelope(jnp.abs, kernels.prox_l1),
        kernels.moreau_envelope(half_square, shrink_half_square),
    ]
    mean = sum(
        share * jax.grad(lambda v, e=e: jnp.sum(e(v, step)))(points)
        for share, e in zip((0.25, 0.75), envelopes, strict=True)
    )
    np.testing.assert_allclose((points - made(points, step)) / step, mean, atol=1e-12)


def test_copies_that_have_to_agree_are_averaged(x64):
    """g of one number, its image under x -> (x, x, x): infinite where copies differ."""
    made = kernels.epicompose(
        kernels.prox_l1,
        lambda x: jnp.repeat(x, 3, -1),
        lambda y: jnp.sum(y, -1, keepdims=True),
        3.0,
    )
    points, step = jnp.asarray(POINTS), 0.9
    found = np.asarray(made(points, step))
    np.testing.assert_allclose(found, line(found), atol=1e-14)
    grid = np.linspace(-8, 8, 40001)
    costs = np.abs(grid) + np.sum((grid[:, None, None] - POINTS) ** 2, -1).T / (2 * step)
    np.testing.assert_allclose(found[:, 0], grid[np.argmin(costs, -1)], atol=4e-4)


@pytest.mark.thorough
def test_blocks_are_arrays_or_parts_of_one(x64):
    parts = (jnp.asarray(POINTS[:, :1]), jnp.asarray(POINTS[0]), jnp.asarray(2.0))
    made = kernels.separable(kernels.prox_group_l2, kernels.prox_elastic_net, kernels.prox_l1)
    found = made(parts, (0.3, 0.5, 0.7), (), (1.0, 2.0), ())
    assert isinstance(found, tuple)
    expected = (
        kernels.prox_group_l2(parts[0], 0.3),
        kernels.prox_elastic_net(parts[1], 0.5, 1.0, 2.0),
        kernels.prox_l1(parts[2], 0.7),
    )
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    rows = kernels.separable(kernels.prox_l1, lambda v, _: v, sizes=(1, 3), axis=0)
    found = rows(jnp.asarray(POINTS), 0.3)
    np.testing.assert_array_equal(found[1:], POINTS[1:])
    np.testing.assert_array_equal(found[:1], kernels.prox_l1(jnp.asarray(POINTS[:1]), 0.3))


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="sizes is needed for each of 2 maps, but there are 3"):
        kernels.separable(kernels.prox_l1, kernels.prox_l1, sizes=(1, 1, 1))
    made = kernels.separable(kernels.prox_l1, kernels.prox_l1, sizes=(1, 1))
    with pytest.raises(ValueError, match="2 entries along axis -1, but the points have 3"):
        made(jnp.ones(3), 1.0)
    with pytest.raises(ValueError, match="one of parameters"):
        made(jnp.ones(2), 1.0, (), (), ())
    with pytest.raises(ValueError, match="one of values"):
        kernels.pointwise_minimum((jnp.abs,), (kernels.prox_l1, kernels.prox_l1))
    with pytest.raises(ValueError, match="one of weights"):
        kernels.proximal_average([kernels.prox_l1], np.ones(2))(jnp.ones(2), 1.0)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PAIRS)
def test_second_derivatives_of_envelopes_are_those_of_differences(name, x64):
    prox, _ = PAIRS[name]
    envelope = kernels.moreau_envelope(lambda x: 0.0 * jnp.sum(x, -1), prox)
    slope = jax.grad(lambda v: jnp.sum(envelope(v, 0.6)))
    points = jnp.asarray(POINTS) + 0.0137
    direction = jnp.asarray(np.random.default_rng(8).standard_normal(POINTS.shape))
    bent = jax.jvp(slope, (points,), (direction,))[1]
    width = 1e-6
    ahead, behind = (slope(points + s * width * direction) for s in (1, -1))
    np.testing.assert_allclose(bent, (ahead - behind) / (2 * width), atol=1e-6)
