"""Total variation on chains and images, and trends, beyond what every row of the table promises."""

from functools import partial

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax.test_util import check_grads

import fedjax_admm.kernels as kernels
from fedjax_admm.kernels.chains._segments import end_to_end, side_by_side
from tests.reference import prox_chains as reference

tv1d = jax.jit(kernels.prox_tv1d, static_argnames="axis")
filtered = jax.jit(
    kernels.with_gap(kernels.prox_trend_filter), static_argnames=("order", "iterations", "axis")
)


# --- chains ---


@pytest.mark.thorough
@given(
    seed=st.integers(0, 2**31),
    size=st.sampled_from([2, 3, 7, 16]),
    step=st.sampled_from([0.0, 0.1, 0.5, 1.0, 4.0, 50.0]),
    whole=st.booleans(),
    weighted=st.booleans(),
)
def test_chains_fulfil_their_optimality_conditions(seed, size, step, whole, weighted):
    """With ties too: the flow over a link is at most its strength, and reaches it at a jump."""
    rng = np.random.default_rng(seed)
    v = rng.integers(-3, 4, size) * 1.0 if whole else 3 * rng.standard_normal(size)
    weights = rng.integers(0, 4, size - 1) * 0.5 if weighted else np.ones(size - 1)
    with jax.enable_x64(True):
        x = np.asarray(tv1d(jnp.asarray(v), step, jnp.asarray(weights)))
    flow = np.cumsum(x - v)
    jumps = np.where(np.abs(np.diff(x)) > 1e-9, np.diff(x), 0)
    assert flow[-1] == pytest.approx(0, abs=1e-9)
    assert np.all(np.abs(flow[:-1]) <= step * weights + 1e-9)
    np.testing.assert_allclose(
        flow[:-1] * np.sign(jumps), step * weights * np.abs(np.sign(jumps)), atol=1e-9
    )
    np.testing.assert_allclose(x, reference.prox_tv1d(v, step, weights), atol=1e-9)


@pytest.mark.thorough
def test_rows_of_a_batch_are_chains_of_their_own(x64):
    """As an axis, under vmap of several levels, and by the loop that a GPU takes."""
    rng = np.random.default_rng(7)
    v, step = jnp.asarray(rng.standard_normal((2, 3, 6))), jnp.asarray(rng.random((2, 3, 1)))
    batch = tv1d(v, step)
    expected = reference.prox_tv1d(np.asarray(v), np.asarray(step))
    np.testing.assert_allclose(batch, expected, atol=1e-12)
    mapped = jax.jit(jax.vmap(jax.vmap(kernels.prox_tv1d)))(v, step)
    np.testing.assert_allclose(mapped, batch, atol=1e-14)
    turned = tv1d(jnp.moveaxis(v, -1, 0), jnp.moveaxis(step, -1, 0), axis=0)
    np.testing.assert_allclose(jnp.moveaxis(turned, 0, -1), batch, atol=1e-14)
    chains = v.reshape(6, 6)
    strength = jnp.full((6, 6), 0.3).at[:, -1].set(0)
    for one, other in zip(
        end_to_end(chains, strength), side_by_side(chains, strength), strict=True
    ):
        np.testing.assert_allclose(one[:, :-1], other[:, :-1], atol=1e-14)


@pytest.mark.thorough
def test_a_broken_row_leaves_its_neighbours_alone(x64):
    v = jnp.asarray([[1.0, 2.0, 4.0], [jnp.nan, 0.0, 1.0], [3.0, jnp.inf, 1.0], [1.0, 2.0, 4.0]])
    found = tv1d(v, 0.5)
    assert np.all(np.isnan(found[1:3]))
    np.testing.assert_allclose(found[::3], [[1.5, 2.0, 3.5]] * 2, atol=1e-12)
    weights = jnp.asarray([[jnp.inf, 0.0]])
    np.testing.assert_allclose(tv1d(v, 0.5, weights)[0], [1.5, 1.5, 4.0], atol=1e-12)
    np.testing.assert_allclose(tv1d(v, jnp.inf)[0], np.full(3, 7 / 3), atol=1e-12)
    assert tv1d(v[:, :1], 1.0).shape == (4, 1)
    assert tv1d(v[:, :0], 1.0).shape == (4, 0)


@pytest.mark.thorough
def test_an_offset_costs_no_more_than_the_rounding_of_the_result():
    """Noise of size 1 about 1e5 in float32, whose spacing there is 1/128."""
    rng, size = np.random.default_rng(11), 100_000
    levels = np.repeat(3 * rng.standard_normal(size // 50), 50)
    v = (1e5 + levels + rng.standard_normal(size)).astype(np.float32)
    found = np.asarray(tv1d(jnp.asarray(v), jnp.float32(3)), np.float64)
    with jax.enable_x64(True):
        truth = np.asarray(tv1d(jnp.asarray(v, np.float64), 3.0))
        flow = np.cumsum(truth - v)
    assert np.max(np.abs(flow)) <= 3 + 1e-6  # the truth is one
    assert np.max(np.abs(found - truth)) <= 2**-7


@pytest.mark.thorough
def test_derivatives_of_chains_equal_finite_differences(x64):
    rng = np.random.default_rng(5)
    v, weights = jnp.asarray(rng.standard_normal((2, 9))), jnp.asarray(rng.random((1, 8)))
    outside = partial(check_grads, order=1, modes=["fwd", "rev"], atol=1e-6)
    outside(tv1d, (v, 0.3, weights))
    rows = jax.jit(jax.vmap(lambda row, w: kernels.prox_tv1d(row, 0.3, w), (0, None)))
    outside(rows, (v, weights[0]))

    @jax.jit
    def repeated(v):
        return jax.lax.scan(lambda x, _: (kernels.prox_tv1d(x, 0.1), None), v, length=3)[0]

    outside(repeated, (v,))


@pytest.mark.thorough
def test_derivatives_of_chains_at_the_step_zero_are_those_from_above(x64):
    """Equal neighbours are one segment; a weight of 0 parts them."""
    v = jnp.asarray([0.0, 0.0, 1.0, 5.0])
    by_step = jax.jit(jax.jacfwd(kernels.prox_tv1d, 1))
    np.testing.assert_allclose(by_step(v, 0.0), [0.5, 0.5, 0.0, -1.0], atol=1e-14)
    weights = jnp.asarray([0.0, 1.0, 1.0])
    np.testing.assert_allclose(by_step(v, 0.0, weights), [0.0, 1.0, 0.0, -1.0], atol=1e-14)


# --- images ---


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["anisotropic", "isotropic"])
@pytest.mark.parametrize("step", [0.3, 2.0])
def test_the_gap_of_an_image_bounds_what_its_steps_left(kind, step, x64):
    v = 2 * np.random.default_rng(0).standard_normal((5, 6))
    down, right = (d @ v.ravel() for d in reference.image_differences(5, 6))
    x = cp.Variable(30)
    down, right = (d @ x for d in reference.image_differences(5, 6))
    order = 1 if kind == "anisotropic" else 2
    total = cp.sum(cp.norm(cp.vstack([down, right]), order, axis=0))
    problem = cp.Problem(cp.Minimize(step * total + cp.sum_squares(x - v.ravel()) / 2))
    problem.solve(solver="CLARABEL")
    prox, value = (getattr(kernels, name) for name in (f"prox_tv2d_{kind}", f"tv2d_{kind}_value"))
    for iterations in (0, 10, 1000):
        told = jax.jit(kernels.with_gap(prox), static_argnames="iterations")
        image, gap = told(jnp.asarray(v), step, iterations=iterations)
        lacking = step * value(image) + jnp.sum((image - v) ** 2) / 2 - problem.value
        assert lacking <= gap + 1e-7
        assert jnp.linalg.norm(image.ravel() - x.value) <= np.sqrt(2 * gap) + 1e-3
    assert gap < 1e-8


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["anisotropic", "isotropic"])
def test_derivatives_of_images_equal_finite_differences(kind, x64):
    prox = jax.jit(getattr(kernels, f"prox_tv2d_{kind}"), static_argnames="iterations")
    v = jnp.asarray(np.random.default_rng(0).standard_normal((2, 4, 5)))
    check_grads(
        lambda v, step: prox(v, step, iterations=20), (v, 0.3), 1, ["fwd", "rev"], 1e-5, 1e-5, 1e-7
    )
    flat = jax.jacrev(lambda v, step: prox(v, step, iterations=20), (0, 1))(jnp.zeros((2, 2)), 0.0)
    assert all(np.all(np.isfinite(part)) for part in jax.tree.leaves(flat))


# --- trends ---


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("step", [0.3, 100.0])
def test_the_gap_of_a_trend_bounds_what_its_rounds_left(order, step, x64):
    v = np.cumsum(np.random.default_rng(0).standard_normal(30))
    x = cp.Variable(30)
    bends = np.diff(np.eye(30), order + 1, axis=0) @ x
    problem = cp.Problem(cp.Minimize(step * cp.norm1(bends) + cp.sum_squares(x - v) / 2))
    problem.solve(solver="CLARABEL")
    for iterations in (1, 20, 2000):
        trend, gap = filtered(jnp.asarray(v), step, order=order, iterations=iterations)
        lacking = step * kernels.trend_filter_value(trend, order=order) - problem.value
        assert lacking + jnp.sum((trend - v) ** 2) / 2 <= gap + 1e-6
    assert gap < 1e-8


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_trends_equal_finite_differences(order, x64):
    v = jnp.asarray(np.random.default_rng(0).standard_normal((2, 8)))
    check_grads(
        lambda v, step: filtered(v, step, order=order, iterations=30),
        (v, 0.3),
        1,
        ["fwd", "rev"],
        1e-5,
        1e-5,
        1e-7,
    )
    with jax.debug_nans(True):
        prox = partial(kernels.prox_trend_filter, order=order, iterations=5)
        jax.jit(jax.jacrev(prox, (0, 1)))(jnp.zeros(5), 0.0)


def test_a_trend_of_another_order_is_refused():
    with pytest.raises(ValueError, match="order must be 1 or 2"):
        kernels.prox_trend_filter(jnp.zeros(5), 1.0, order=0)
    with pytest.raises(ValueError, match="order must be 1 or 2"):
        kernels.trend_filter_value(jnp.zeros(5), order=3)
