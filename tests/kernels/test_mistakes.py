"""Wrong uses of kernels that shapes and static numbers give away: one clear sentence each."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels

V = jnp.asarray([0.2, 3.0, -1.0])
IMAGE = jnp.zeros((3, 3))


@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("project_l2_ball", (1.0,)),
        ("project_second_order_cone", ()),
        ("project_simplex", ()),
        ("project_top_k", (1,)),
        ("prox_group_l2", (0.1,)),
        ("prox_max", (0.1,)),
        ("prox_sum_largest", (0.1, 1.0, 2)),
        ("prox_tv1d", (0.1,)),
    ],
)
def test_an_axis_that_points_do_not_have(name, parameters, axis):
    with pytest.raises(ValueError, match=f"axis {axis}"):
        getattr(kernels, name)(V, *parameters, axis=axis)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("project_top_k", ()), ("project_sparse_simplex", ()), ("prox_sum_largest", (0.1, 1.0))],
)
def test_a_count_that_is_no_integer(name, parameters):
    with pytest.raises(TypeError, match="integer"):
        getattr(kernels, name)(V, *parameters, 1.5)


@pytest.mark.parametrize(
    ("segments", "count"), [([0, 1], 2), ([0.0, 1.0, 0.0], 2), ([0, 0, 0], 0)], ids=str
)
def test_segments_that_do_not_fit(segments, count):
    with pytest.raises(ValueError, match="segment"):
        kernels.prox_segments_l2(V, 0.1, 1.0, jnp.asarray(segments), count=count)


def test_fewer_steps_than_none():
    with pytest.raises(ValueError, match="iterations"):
        kernels.prox_tv2d_isotropic(IMAGE, 0.1, iterations=-1)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("least_squares_factor", [(4, 3), (3,)]),
        ("least_squares_factor", [(4,), (4,)]),
        ("least_squares_factor", [(4, 3), (4,), (3,)]),
        ("quadratic_factor", [(3, 3), (2,)]),
        ("quadratic_factor", [(3, 2), (3,)]),
        ("sample_factor", [(4, 3), (3,)]),
    ],
    ids=str,
)
def test_a_factor_of_parts_that_do_not_belong_together(name, shapes):
    with pytest.raises(ValueError, match=r"must (have the shape|be square)"):
        getattr(kernels, name)(*(jnp.ones(shape) for shape in shapes))


def test_a_kernel_without_a_gap():
    with pytest.raises(ValueError, match="an approximate kernel, but prox_l1 has no gap"):
        kernels.with_gap(kernels.prox_l1)


def project_twice(v, mass):
    return kernels.project_simplex(v, 2 * mass)


@pytest.mark.parametrize(
    "project",
    [partial(kernels.project_simplex, axis=0), jax.jit(kernels.project_simplex), project_twice],
    ids=["partial", "jit", "own"],
)
def test_a_projection_is_known_however_it_is_wrapped(project):
    with pytest.raises(ValueError, match="is a projection"):
        kernels.conjugate(project)


@pytest.mark.parametrize(
    "make",
    [
        kernels.conjugate,
        partial(kernels.translate, shift=1.0),
        partial(kernels.scale, factor=2.0),
        partial(kernels.precompose_diagonal, factors=2.0),
        partial(kernels.postscale, weight=2.0),
        partial(kernels.tilt, slope=1.0),
        partial(kernels.regularise, weight=1.0),
        partial(kernels.envelope_prox, smoothing=1.0),
        partial(kernels.moreau_envelope, kernels.max_value),
        partial(kernels.precompose_orthogonal, forward=jnp.flip, backward=jnp.flip),
        partial(kernels.epicompose, forward=jnp.flip, backward=jnp.flip),
        partial(kernels.separable, kernels.prox_l1),
        lambda prox: kernels.pointwise_minimum([kernels.l1_value], [prox]),
        lambda prox: kernels.proximal_average([prox], [1.0]),
        lambda prox: kernels.tree_prox(prox, {"a": V}, 0.1),
        lambda prox: kernels.tree_prox({"a": prox}, {"a": V}, 0.1),
        lambda prox: kernels.couple_pair(V, V, prox, 0.1),
        kernels.precompose_samples,
        partial(kernels.prox_spectral, IMAGE, 0.1),
    ],
)
def test_a_projection_where_a_map_with_a_step_is_wanted(make):
    """It took the step for its mass, and the result was a point of another simplex."""
    with pytest.raises(ValueError, match=r"is a projection, .* pass indicator_prox\(project_"):
        make(kernels.project_simplex)


@pytest.mark.parametrize("name", ["distance_to", "squared_distance_prox", "indicator_prox"])
def test_a_map_with_a_step_where_a_projection_is_wanted(name):
    with pytest.raises(ValueError, match=f"^{name} takes projections, .* prox_l1 is"):
        getattr(kernels, name)(kernels.prox_l1)


def test_the_indicator_of_a_set_is_the_way_of_its_projection():
    """The conjugate of the indicator of the simplex is the largest entry."""
    prox = kernels.indicator_prox(kernels.project_simplex)
    found = kernels.conjugate(prox)(V, 0.5)
    np.testing.assert_allclose(found, kernels.prox_max(V, 0.5), atol=1e-6)
    found = kernels.tree_prox(prox, {"a": V}, 0.1)["a"]
    np.testing.assert_array_equal(found, kernels.project_simplex(V))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (lambda: kernels.prox_l1(V, -0.1), r"step must be at least 0, but it is -0\.1"),
        (lambda: kernels.prox_group_l2(V, -1), "step must be at least 0, but it is -1"),
        (lambda: kernels.conjugate(kernels.prox_l1)(V, -0.1), "step must be at least 0"),
        (lambda: kernels.tree_prox(kernels.prox_l1, {"a": V}, -0.1), "step must be at least 0"),
        (lambda: kernels.postscale(kernels.prox_l1, -2.0), "weight must be at least 0"),
        (lambda: kernels.scale(kernels.prox_l1, np.nan), "factor must be a number"),
        (lambda: kernels.project_simplex(jnp.zeros((2, 0))), "at least one entry along axis -1"),
        (lambda: kernels.prox_max(jnp.zeros(0), 0.1), "at least one entry along axis -1"),
        (lambda: kernels.project_l1_ball(jnp.zeros(0), 1.0), "at least one entry along axis -1"),
        (lambda: kernels.project_stiefel(jnp.zeros((3, 0))), "at least one entry along axis -1"),
        (lambda: kernels.project_nuclear_ball(jnp.zeros((3, 0)), 1.0), "at least one entry"),
        (lambda: kernels.separable(sizes=()), "at least one map"),
        (lambda: kernels.pointwise_minimum([], []), "at least one map"),
        (lambda: kernels.proximal_average([], [])(V, 0.1), "at least one map"),
        (
            lambda: kernels.tree_prox(kernels.prox_l1, {"a": V}, {}),
            "step must be a number, an array",
        ),
    ],
)
def test_steps_weights_and_points_that_no_map_takes(found, sentence):
    with pytest.raises(ValueError, match=sentence):
        found()
