"""Every elementwise kernel through one suite: twin, symmetry, dtype, batching, derivatives."""

import inspect
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedjax_admm.kernels import project_box, prox_smoothed_abs, smoothed_abs, soft_threshold
from tests.kernels.cases import ELEMENTWISE, PENALTIES, SIMPLE, SMOOTHED, Case
from tests.reference import kernels as reference

TWINS = {
    "prox_l1": reference.soft_threshold,
    "mcp_value": reference.mcp,
    "scad_value": reference.scad,
}


def twin(case: Case):
    return TWINS.get(case.name) or getattr(reference, case.name)


@pytest.mark.parametrize("case", SIMPLE + PENALTIES, ids=str)
def test_equals_twin_on_a_grid_with_its_kinks(case, x64):
    points = case.points()
    got = case.kernel(jnp.asarray(points), *case.parameters)
    np.testing.assert_allclose(got, twin(case)(points, *case.parameters), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", SMOOTHED, ids=str)
def test_smoothed_equals_brute_force(case, x64):
    # An even count leaves out v = 0; golden sections resolve a minimiser to 1e-7 at best.
    points = case.points(count=20)
    got = jax.jit(case.kernel)(jnp.asarray(points), *case.parameters)
    expected = twin(case)(points, *case.parameters)
    np.testing.assert_allclose(got, expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize("case", SIMPLE + PENALTIES, ids=str)
def test_float32_is_as_near_as_float32_allows(case):
    points = case.points().astype(np.float32)
    got = case.kernel(jnp.asarray(points), *case.parameters)
    expected = twin(case)(points, *np.float32(case.parameters))
    # Close to a regime limit the map is steep: 1 / (1 - step / gamma) multiplies the rounding.
    tolerance = 2e-2 if case.parameters[0] in (2.999, 2.499) else 1e-5
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", [c for c in ELEMENTWISE if c.odd], ids=str)
def test_odd(case, x64):
    points = jnp.asarray([*np.linspace(0.1, 9, 41), *np.resize(case.special_points, 7)])
    kernel = jax.jit(case.kernel)
    np.testing.assert_array_equal(
        kernel(-points, *case.parameters), -kernel(points, *case.parameters)
    )
    assert kernel(jnp.zeros(()), *case.parameters) == 0


@cache
def batched(kernel):
    return jax.jit(jax.vmap(kernel))


@pytest.mark.parametrize("case", ELEMENTWISE + PENALTIES, ids=str)
def test_keeps_dtype_and_numbers_under_jit_vmap_and_array_parameters(case, dtype):
    kernel = case.kernel
    points = jnp.asarray(np.linspace(-4.1, 4.2, 12), dtype)
    numbers = jax.jit(lambda v: kernel(v, *case.parameters))(points)
    assert numbers.dtype == dtype
    assert numbers.shape == points.shape

    # Not bit for bit: a compiled program may contract products and sums.
    close = {"rtol": 1e-9, "atol": 1e-11} if dtype == "float64" else {"rtol": 2e-3, "atol": 2e-5}
    arrays = [jnp.asarray(p, dtype) for p in case.parameters]
    traced = jax.jit(kernel)
    scalars = jnp.stack([traced(point, *arrays) for point in points])
    np.testing.assert_allclose(scalars, numbers, **close)

    each = batched(kernel)(points, *(jnp.full_like(points, p) for p in case.parameters))
    assert each.dtype == dtype
    np.testing.assert_allclose(each, numbers, **close)
    if case in SIMPLE:
        table = kernel(points[:, None], *(jnp.full((1, 12), p, dtype) for p in arrays))
        np.testing.assert_allclose(table, jnp.stack([numbers] * 12, axis=1), **close)


@cache
def derivatives(kernel):
    """Reverse mode by every argument, and the forward Jacobian: compiled once for all cases."""
    count = len(inspect.signature(kernel).parameters)

    def both(points, *parameters):
        gradient = jax.grad(kernel, argnums=tuple(range(count)))
        reverse = jax.vmap(gradient, (0, *(None for _ in parameters)))(points, *parameters)
        return reverse, jax.jacfwd(kernel)(points, *parameters)

    return jax.jit(both)


@pytest.mark.parametrize("case", ELEMENTWISE + PENALTIES, ids=str)
def test_derivatives_are_finite_at_every_kink(case, dtype):
    points = jnp.asarray(np.resize(case.special_points, 7), dtype)
    arrays = tuple(jnp.asarray(p, dtype) for p in case.parameters)
    reverse, jacobian = derivatives(case.kernel)(points, *arrays)
    for derivative in (*reverse, jacobian):
        assert jnp.all(jnp.isfinite(derivative)), (points, derivative)
    np.testing.assert_allclose(jnp.diagonal(jacobian), reverse[0], rtol=1e-4)


@cache
def elementwise_gradient(kernel):
    count = len(inspect.signature(kernel).parameters)
    return jax.jit(jax.grad(lambda *a: jnp.sum(kernel(*a)), argnums=tuple(range(count))))


@pytest.mark.parametrize("case", ELEMENTWISE + PENALTIES, ids=str)
def test_derivatives_equal_finite_differences_away_from_kinks(case, x64):
    width = 1e-6
    grid = np.linspace(-8.3, 8.3, 24)
    kinks = np.abs(case.special_points)
    # Compared away from the kinks only; the grid keeps its size, so that one program serves all.
    away = np.min(np.abs(np.abs(grid)[:, None] - kinks), axis=1) > 1e-3
    points = jnp.asarray(grid)
    arguments = (points, *(jnp.full_like(points, p) for p in case.parameters))
    kernel = jax.jit(case.kernel)
    everything = tuple(range(len(arguments)))
    exact = elementwise_gradient(case.kernel)(*arguments)
    # A parameter that sits on a limit of its regime has a one-sided derivative only.
    on_limit = case.parameters[:1] in [(2.999,), (2.499,)] or case.jumps or 0.0 in case.parameters
    on_limit = on_limit or (
        case.name.startswith("prox_smoothed_") and case.parameters[0] in (1.5, 2.0)
    )
    for position in [0] if on_limit else everything:
        lower, upper = list(arguments), list(arguments)
        lower[position] = arguments[position] - width
        upper[position] = arguments[position] + width
        numerical = (kernel(*upper) - kernel(*lower)) / (2 * width)
        # Where a numerical slope is huge the pair straddles a jump that depends on parameters.
        smooth = away & (np.abs(numerical) < 1e4)
        np.testing.assert_allclose(
            exact[position][smooth], numerical[smooth], rtol=1e-5, atol=1e-7, err_msg=str(position)
        )


REAL = st.floats(-20, 20, allow_nan=False)


@pytest.mark.parametrize(
    "case", [c for c in SIMPLE if c.nonexpansive and c.name != "smoothed_abs"], ids=str
)
@given(a=REAL, b=REAL)
def test_convex_maps_are_firmly_nonexpansive(case, a, b):
    with jax.enable_x64(True):
        images = case.kernel(jnp.asarray([a, b]), *case.parameters)
    gap = float(images[0] - images[1])
    assert gap**2 <= gap * (a - b) + 1e-9


@pytest.mark.parametrize("case", [c for c in ELEMENTWISE if c.name != "smoothed_abs"], ids=str)
def test_monotone(case, x64):
    """Any proximal map, of a nonconvex function too, is nondecreasing."""
    special = np.resize(case.special_points, 7)
    points = jnp.asarray(np.sort(np.concatenate([np.linspace(-9, 9, 301), special])))
    images = np.asarray(jax.jit(case.kernel)(points, *case.parameters))
    assert np.all(np.diff(images) >= -1e-9)


def test_projections_are_idempotent_and_stay_inside(dtype):
    points = jnp.asarray(np.linspace(-5, 5, 41), dtype)
    for case in SIMPLE:
        if case.name in ("project_box", "project_linf_ball"):
            once = case.kernel(points, *case.parameters)
            np.testing.assert_array_equal(case.kernel(once, *case.parameters), once)
            assert jnp.min(once) >= -1.5
            assert jnp.max(once) <= 2


def test_box_takes_infinite_bounds(x64):
    points = jnp.asarray([-2.0, 3.0])
    np.testing.assert_array_equal(project_box(points, 0.0, jnp.inf), [0.0, 3.0])


def test_smoothed_abs_lies_above_by_half_mu_at_most(dtype):
    points = jnp.asarray(np.linspace(-3, 3, 61), dtype)
    for mu in (1e-30, 1e-3, 0.5, 2.0):
        excess = smoothed_abs(points, mu) - jnp.abs(points)
        assert jnp.min(excess) >= -1e-6
        assert jnp.max(excess) <= 0.5 * mu * (1 + 1e-6)
        slope = jax.vmap(jax.grad(smoothed_abs), (0, None))(points, mu)
        np.testing.assert_allclose(slope, np.clip(points / mu, -1, 1), atol=1e-6)


def test_smoothed_abs_map_tends_to_the_soft_threshold(x64):
    points = jnp.asarray(np.linspace(-3, 3, 61))
    np.testing.assert_allclose(
        prox_smoothed_abs(points, 0.7, 1e-13), soft_threshold(points, 0.7), atol=1e-12
    )
