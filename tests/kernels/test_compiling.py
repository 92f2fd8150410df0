"""Kernels outside of `jax.jit`: compiled once, checked before, kept no longer than needed."""

import gc
import inspect
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
import fedjax_admm.kernels as kernels
from tests.bits import same_bits
from tests.kernels.calls import EVENTS, MAPS, call_of

ROW = jnp.ones((4, 3))


def test_all_maps_are_here():
    assert {name for name in kernels.__all__ if name.startswith(("prox_", "project_"))} == {*MAPS}


@pytest.mark.kin(12)
@pytest.mark.parametrize("name", MAPS)
def test_a_second_call_traces_and_compiles_nothing_and_has_the_bits_of_a_jitted_one(name):
    kernel, (v, *rest) = call_of(name)
    once = kernel(v, *rest)
    traced = len(EVENTS)
    again = kernel(v, *rest)
    assert len(EVENTS) == traced, EVENTS[traced:]
    jax.tree.map(np.testing.assert_array_equal, again, once)
    inside = jax.jit(lambda v: kernel(v, *rest))(v)
    same_bits(inside, once)
    text = str(jax.make_jaxpr(lambda v: kernel(v, *rest))(v))
    assert f"name={name}" not in text, "a call is left in the program of another"


@pytest.mark.thorough
@pytest.mark.parametrize("name", MAPS)
def test_derivatives_are_those_under_an_outer_jit(name):
    """Up to rounding: outside, the map and its derivative are two programs, which XLA rounds."""
    kernel, (v, *rest) = call_of(name)

    def slope(v):
        return jax.grad(lambda v: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(kernel(v, *rest))))(
            v
        )

    for found, wanted in zip(*map(jax.tree.leaves, (slope(v), jax.jit(slope)(v))), strict=True):
        largest = np.max(np.abs(np.nan_to_num(wanted)), initial=1e-30)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * largest + 2e-7)


def test_a_kernel_looks_like_its_function():
    for name in kernels.__all__:
        kernel = getattr(kernels, name)
        assert inspect.isfunction(kernel)
        assert (kernel.__name__, bool(kernel.__doc__)) == (name, True)
        assert "Annotated" not in str(inspect.signature(kernel))
        assert (*inspect.signature(kernel).parameters,) == (
            *inspect.signature(inspect.unwrap(kernel)).parameters,
        )


@pytest.mark.parametrize(
    "use",
    [
        lambda prox: kernels.conjugate(prox)(ROW, 0.5),
        lambda prox: kernels.prox_spectral(ROW, 0.5, prox),
        lambda prox: kernels.project_intersection(ROW, [lambda v: prox(v, 0.5)], 2),
    ],
    ids=["conjugate", "prox_spectral", "project_intersection"],
)
def test_a_function_given_to_a_kernel_is_not_kept(use):
    """The program was made for it, and goes with it."""

    def prox(v, step):
        return kernels.prox_l1(v, step)

    use(prox)
    gone = weakref.ref(prox)
    del prox
    gc.collect()
    assert gone() is None


OUT_OF_RANGE = [
    ("project_l2_ball", (-1.0,), r"radius must be at least 0, but it is -1\.0"),
    ("project_linf_ball", (-1,), "radius must be at least 0"),
    ("project_box", (1.0, -1.0), r"upper must be at least lower, but it is -1\.0 and lower is 1"),
    ("prox_nuclear", (0.1, -1.0), "weight must be at least 0"),
    ("prox_pinball", (0.1, 1.5), "quantile must be from 0 to 1"),
    ("prox_scad", (0.1, 1.0, 1.0), "gamma must be greater than 1"),
    ("prox_slope", (0.1, np.arange(3.0)), "weights must be in falling order"),
    ("prox_slope", (0.1, np.array([1.0, 0.0, -2.0])), r"weights must be at least 0, .* -2\.0"),
    ("prox_range_excess", (jnp.zeros((1, 3)), 1.0, -0.5), "step must be at least 0"),
]


@pytest.mark.parametrize(("name", "numbers", "sentence"), OUT_OF_RANGE)
def test_numbers_out_of_range_are_refused_and_traced_ones_give_nan(name, numbers, sentence):
    """The ball of the radius -1 gave a reflected point, crossed bounds gave one of them."""
    kernel = getattr(kernels, name)
    with pytest.raises(ValueError, match=sentence):
        kernel(ROW, *numbers)
    found = jax.jit(kernel)(ROW, *(jnp.asarray(number, jnp.float32) for number in numbers))
    assert jnp.all(jnp.isnan(found))


@pytest.mark.parametrize(
    ("name", "shape", "more"),
    [
        ("prox_slope", (4, 0), (0.1, np.zeros(0))),
        ("project_permutahedron", (0,), (np.zeros(0),)),
        ("project_birkhoff", (0, 0), ()),
        ("project_transport", (0, 3), (1.0, 1.0)),
        ("project_hankel", (0, 3), ()),
        ("project_box_section", (0,), (0.0, 1.0, np.zeros(0), 0.0)),
        ("prox_least_squares_circular", (0,), (0.1, np.zeros(0), np.zeros(0))),
        ("prox_sum_largest", (2, 0), (0.1, 1.0, 1)),
    ],
)
def test_an_empty_array_comes_back_empty(name, shape, more):
    assert getattr(kernels, name)(jnp.zeros(shape), *more).shape == shape


def test_arrays_made_in_float64_are_computed_with_in_float64_outside():
    """A kernel raised a raw TypeError, or returned float32; so did a region."""
    with jax.enable_x64(True):
        v = jnp.linspace(-2.0, 3.0, 6)
        region = fa.regions.ellipse(v[:2], jnp.eye(2) * v[-1])
        wanted = kernels.prox_logistic(v, 0.3), kernels.project_simplex(v)
        inside = region.contains(v[1:3])
    found = kernels.prox_logistic(v, 0.3), kernels.project_simplex(v)
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
    assert found[0].dtype == np.float64
    assert region.contains(v[1:3]) == inside
