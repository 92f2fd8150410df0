"""Wrong uses of kernels that shapes and static numbers give away: one clear sentence each."""

import jax.numpy as jnp
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
        ("prox_sum_largest", (0.1, 2)),
        ("prox_tv1d", (0.1,)),
    ],
)
def test_an_axis_that_points_do_not_have(name, parameters, axis):
    with pytest.raises(ValueError, match=f"axis {axis}"):
        getattr(kernels, name)(V, *parameters, axis=axis)


@pytest.mark.parametrize("name", ["project_l2_ball", "prox_group_l2", "prox_tv1d"])
def test_a_number_is_no_vector(name):
    with pytest.raises(ValueError, match="axis -1"):
        getattr(kernels, name)(3.0, 1.0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("project_top_k", ()), ("project_sparse_simplex", ()), ("prox_sum_largest", (0.1,))],
)
def test_a_count_that_is_no_integer(name, parameters):
    with pytest.raises(TypeError, match="integer"):
        getattr(kernels, name)(V, *parameters, 1.5)


@pytest.mark.parametrize(
    ("segments", "count"), [([0, 1], 2), ([0.0, 1.0, 0.0], 2), ([0, 0, 0], 0)], ids=str
)
def test_segments_that_do_not_fit(segments, count):
    with pytest.raises(ValueError, match="segment"):
        kernels.prox_segments_l2(V, 0.1, jnp.asarray(segments), count=count)


def test_fewer_steps_than_none():
    with pytest.raises(ValueError, match="iterations"):
        kernels.prox_tv2d_isotropic(IMAGE, 0.1, iterations=-1)


@pytest.mark.parametrize("name", ["prox_l1", "prox_group_l2", "prox_tv1d", "prox_max"])
def test_complex_numbers(name):
    with pytest.raises(TypeError, match="real"):
        getattr(kernels, name)(V.astype(jnp.complex64), 0.1)


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
