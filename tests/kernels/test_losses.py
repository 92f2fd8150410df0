"""Losses with a factor: many steps and shapes of one factor, memory, and inexact maps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import linprog

import fedjax_admm.kernels as kernels
from tests.reference import prox_losses as reference

RNG = np.random.default_rng(21)
MATRIX, TARGET = RNG.standard_normal((7, 4)), RNG.standard_normal(7)
POINTS = RNG.standard_normal((5, 4))


@pytest.mark.parametrize("rows", [7, 3])
def test_one_factor_serves_every_step(rows, x64):
    """From 0 to steps that overflow times the spectrum, each point with a step of its own."""
    matrix, target = MATRIX[:rows], TARGET[:rows]
    factor = kernels.least_squares_factor(matrix, target)
    prox = jax.jit(kernels.prox_least_squares)
    steps = np.array([0.0, 1e-12, 0.3, 1e5, 1e300])
    found = np.asarray(prox(jnp.asarray(POINTS), jnp.asarray(steps)[:, None], factor))
    np.testing.assert_array_equal(found[0], POINTS[0])
    for k in (1, 2, 3):
        expected = reference.prox_least_squares(POINTS[k : k + 1], steps[k], matrix, target)
        np.testing.assert_allclose(found[k], expected[0], rtol=1e-9)
    # At last the nearest of the points that are best.
    nearest = POINTS[4] - np.linalg.pinv(matrix) @ (matrix @ POINTS[4] - target)
    np.testing.assert_allclose(found[4], nearest, rtol=1e-11)


@pytest.mark.thorough
def test_factors_made_inside_jit_equal_those_made_outside(x64):
    inside = jax.jit(kernels.least_squares_factor)(MATRIX, TARGET)
    outside = kernels.least_squares_factor(MATRIX, TARGET)
    maps = [kernels.prox_least_squares(jnp.asarray(POINTS), 0.7, f) for f in (inside, outside)]
    np.testing.assert_allclose(*maps, rtol=1e-11)
    at_once = kernels.prox_least_squares(jnp.asarray(POINTS), 0.7, MATRIX, TARGET)
    np.testing.assert_allclose(at_once, maps[1], rtol=1e-11)
    inside = jax.jit(kernels.quadratic_factor)(MATRIX.T @ MATRIX, TARGET[:4])
    outside = kernels.quadratic_factor(MATRIX.T @ MATRIX, TARGET[:4])
    maps = [kernels.prox_quadratic(jnp.asarray(POINTS), 0.7, f) for f in (inside, outside)]
    np.testing.assert_allclose(*maps, rtol=1e-11)


def test_a_batch_of_factors_is_mapped_over(x64):
    matrices, targets = RNG.standard_normal((3, 6, 4)), RNG.standard_normal((3, 6))
    factors = kernels.least_squares_factor(matrices, targets)
    found = jax.vmap(kernels.prox_least_squares, (0, None, 0))(
        jnp.asarray(POINTS[:3]), 0.4, factors
    )
    for k in range(3):
        expected = reference.prox_least_squares(POINTS[k : k + 1], 0.4, matrices[k], targets[k])
        np.testing.assert_allclose(found[k], expected[0], rtol=1e-10)


@pytest.mark.thorough
def test_coordinates_may_lie_along_another_axis(x64):
    factor = kernels.least_squares_factor(MATRIX, TARGET)
    along = kernels.prox_least_squares(jnp.asarray(POINTS), 0.4, factor)
    across = kernels.prox_least_squares(jnp.asarray(POINTS.T), 0.4, factor, axis=0)
    np.testing.assert_allclose(across.T, along, rtol=1e-12)
    assert kernels.least_squares_value(across, factor, axis=0).shape == (5,)


@pytest.mark.thorough
def test_values_are_those_of_the_data(x64):
    rest = POINTS @ MATRIX.T - TARGET
    squares = kernels.least_squares_factor(MATRIX, TARGET)
    samples = kernels.sample_factor(MATRIX, TARGET)
    x = jnp.asarray(POINTS)
    np.testing.assert_allclose(
        kernels.least_squares_value(x, squares), 0.5 * np.sum(rest**2, -1), rtol=1e-12
    )
    np.testing.assert_allclose(
        kernels.absolute_loss_value(x, samples), np.sum(np.abs(rest), -1), rtol=1e-12
    )
    np.testing.assert_allclose(
        kernels.pinball_loss_value(x, samples, 0.3),
        np.sum(np.maximum(0.3 * rest, -0.7 * rest), -1),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        kernels.logistic_loss_value(x, samples), np.sum(np.log1p(np.exp(-rest)), -1), rtol=1e-12
    )
    matrix, linear = MATRIX.T @ MATRIX, TARGET[:4]
    quadratic = kernels.quadratic_factor(matrix, linear)
    np.testing.assert_allclose(
        kernels.quadratic_value(x, quadratic),
        [0.5 * p @ matrix @ p + linear @ p for p in POINTS],
        rtol=1e-11,
    )


def test_a_quadratic_that_is_not_convex_is_refused():
    with pytest.raises(ValueError, match="no negative eigenvalue, but the least one is -1"):
        kernels.quadratic_factor(np.diag([1.0, -1.0]), np.zeros(2))


@pytest.mark.thorough
def test_half_precision_points_keep_the_digits_of_their_factor():
    factor = kernels.least_squares_factor(MATRIX.astype(np.float32), TARGET.astype(np.float32))
    points = jnp.asarray(POINTS, jnp.bfloat16)
    found = kernels.prox_least_squares(points, 0.5, factor)
    wide = kernels.prox_least_squares(points.astype(jnp.float32), 0.5, factor)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found, wide.astype(jnp.bfloat16))


@pytest.mark.thorough
def test_images_are_convolved_along_both_axes(x64):
    kernel, target, image = RNG.standard_normal((3, 4, 5))
    matrix = np.array(
        [
            np.roll(kernel[::-1, ::-1], (i + 1, j + 1), (0, 1)).ravel()
            for i in range(4)
            for j in range(5)
        ]
    )
    expected = reference.prox_least_squares(image.reshape(1, -1), 0.6, matrix, target.ravel())
    found = kernels.prox_least_squares_circular(jnp.asarray(image), 0.6, kernel, target, (-2, -1))
    np.testing.assert_allclose(found.ravel(), expected[0], rtol=1e-10, atol=1e-12)


def test_a_sample_of_no_features_moves_nothing():
    points = jnp.asarray(POINTS, jnp.float32)
    for prox, more in (
        (kernels.prox_absolute_residual, ()),
        (kernels.prox_pinball_residual, (0.3,)),
        (kernels.prox_logistic_residual, ()),
    ):
        np.testing.assert_array_equal(jax.jit(prox)(points, 2.0, np.zeros(4), 1.0, *more), points)


@pytest.mark.thorough
def test_slopes_of_an_earlier_call_are_a_memory(x64):
    """A call that starts at its own slopes has nothing to do; without rounds it tells so."""
    factor = kernels.sample_factor(MATRIX, TARGET)
    prox = jax.jit(kernels.with_gap(kernels.prox_absolute_loss), static_argnames="rounds")
    points = jnp.asarray(POINTS)
    point, dual, residual = prox(points, 0.5, factor)
    assert np.max(residual) < 1e-13
    assert np.max(np.abs(dual)) <= 1 + 1e-12
    np.testing.assert_allclose(points - 0.5 * dual @ MATRIX, point, atol=1e-12)
    again = prox(points, 0.5, factor, dual, rounds=0)
    np.testing.assert_allclose(again.point, point, atol=1e-12)
    assert np.max(prox(points, 0.5, factor, rounds=0).residual) > 1e-2


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(40, 10), (10, 40), (60, 60)], ids=str)
@pytest.mark.parametrize("step", [1e-2, 1.0, 30.0])
def test_many_samples_against_a_solver_of_cones(shape, step, x64):
    import cvxpy as cp

    rng = np.random.default_rng(4)
    matrix, target = rng.standard_normal(shape), 2 * rng.standard_normal(shape[0])
    point = rng.standard_normal(shape[1])
    x = cp.Variable(shape[1])
    rest = matrix @ x - target
    cost = cp.sum(cp.maximum(0.3 * rest, -0.7 * rest)) * step + 0.5 * cp.sum_squares(x - point)
    cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    factor = kernels.sample_factor(matrix, target)
    told = jax.jit(kernels.with_gap(kernels.prox_pinball_loss))
    found = told(jnp.asarray(point), step, factor, 0.3)
    assert found.residual < 1e-12
    np.testing.assert_allclose(found.point, x.value, atol=1e-5)


def at_a_large_step(name, matrix, target, point, step):
    """Solve in float64: at last the map of moduli is the vertex at which the loss is least."""
    if name == "logistic":
        return reference.prox_logistic_loss(point[None], step, matrix, target)[0]
    above, below = (1, 1) if name == "absolute" else (0.3, 0.7)
    rows, eye = len(matrix), np.eye(len(matrix))
    cost = np.concatenate([above * np.ones(rows), below * np.ones(rows), 0 * point])
    bounds = [(0, None)] * (2 * rows) + [(None, None)] * len(point)
    found = linprog(cost, A_eq=np.hstack([-eye, eye, matrix]), b_eq=target, bounds=bounds)
    met = np.argsort(np.abs(matrix @ found.x[2 * rows :] - target))[: len(point)]
    return np.linalg.solve(matrix[met], target[met])


@pytest.mark.kin(3)
@pytest.mark.parametrize("name", ["absolute", "pinball", "logistic"])
@pytest.mark.parametrize(("dtype", "step"), [(np.float32, 1e6), (np.float64, 1e8)])
def test_losses_of_samples_at_large_steps(name, dtype, step):
    rng = np.random.default_rng(2)
    matrix, target, point = (
        rng.standard_normal(shape).astype(dtype) for shape in ((8, 5), 8, (1, 5))
    )
    wide = (np.float64(part) for part in (matrix, target, point[0]))
    expected = at_a_large_step(name, *wide, step)
    with jax.enable_x64(dtype == np.float64):
        factor = kernels.sample_factor(matrix, target)
        prox = kernels.with_gap(getattr(kernels, f"prox_{name}_loss"))
        more = (dtype(0.3),) if name == "pinball" else ()
        found, _, residual = jax.jit(prox)(point, dtype(step), factor, *more)
    tolerance = 1e-5 if dtype == np.float32 else 1e-7 if name == "logistic" else 1e-12
    np.testing.assert_allclose(found[0], expected, atol=tolerance * np.max(np.abs(expected)))
    assert np.asarray(residual) < 1e3 * np.finfo(dtype).eps


@pytest.mark.parametrize(("rows", "columns", "points"), [(0, 5, 2), (4, 0, 2), (4, 5, 0)])
def test_losses_without_samples_coordinates_or_points_leave_the_points(rows, columns, points):
    factor = kernels.sample_factor(jnp.zeros((rows, columns)), jnp.ones(rows))
    point = jnp.ones((points, columns))
    np.testing.assert_array_equal(kernels.prox_absolute_loss(point, 2.0, factor), point)


@pytest.mark.thorough
def test_losses_of_samples_are_differentiated_by_their_data(x64):
    """By matrix and target, against differences, where the factor is made anew."""

    def total(matrix, target, step):
        factor = kernels.sample_factor(matrix, target)
        found = kernels.prox_pinball_loss(jnp.asarray(POINTS), step, factor, 0.3)
        return jnp.sum(jnp.cos(found))

    there = jax.jit(total)
    at = (jnp.asarray(MATRIX), jnp.asarray(TARGET), jnp.asarray(0.4))
    slopes = jax.grad(total, (0, 1, 2))(*at)
    for place in range(3):
        move = RNG.standard_normal(at[place].shape)
        ends = []
        for sign in (1, -1):
            moved = list(at)
            moved[place] = at[place] + sign * 1e-6 * move
            ends.append(float(there(*moved)))
        slope = float(jnp.sum(slopes[place] * move))
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


# --- inexact maps ---


def squares(x, matrix, target):
    return 0.5 * jnp.sum((matrix @ x - target) ** 2)


@pytest.mark.thorough
def test_an_inexact_map_approaches_the_exact_one_from_its_memory(x64):
    matrix, target, point = jnp.asarray(MATRIX), jnp.asarray(TARGET), jnp.asarray(POINTS[0])
    made = kernels.inexact_prox(squares, optax.sgd(0.05), 40)
    expected = reference.prox_least_squares(POINTS[:1], 0.5, MATRIX, TARGET)[0]
    prox = jax.jit(made.prox)
    memory, errors = made.init(point), []
    for _ in range(4):
        x, memory = prox(point, 0.5, memory, matrix, target)
        errors.append(np.max(np.abs(x - expected)))
    assert errors[0] > 2 * errors[1] or errors[0] < 1e-12
    assert errors[-1] < 1e-8
    # It is differentiable through its steps, and with a length it stops.
    slope = jax.jacobian(lambda v: made.prox(v, 0.5, memory, matrix, target)[0])(point)
    exact = np.linalg.inv(np.eye(4) + 0.5 * MATRIX.T @ MATRIX)
    np.testing.assert_allclose(slope, exact, atol=2e-2)
    early, _ = made.prox(point, 0.5, made.init(point), matrix, target, enough=1e9)
    np.testing.assert_array_equal(early, point)


def test_an_inexact_map_takes_trees_and_any_optimiser():
    """An optimiser of two functions, without optax; a tree of two leaves."""

    class Descent:
        def init(self, params):
            return jnp.int32(0)

        def update(self, updates, state, params):
            return jax.tree.map(lambda g: -0.2 * g, updates), state + 1

    point = {"a": jnp.ones(3), "b": jnp.asarray(2.0)}
    made = kernels.inexact_prox(
        lambda x: sum(jnp.sum(leaf**2) / 2 for leaf in jax.tree.leaves(x)), Descent(), 30
    )
    x, memory = made.prox(point, 0.5, made.init(point), enough=1e-9)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b / 1.5, rtol=1e-5), x, point)
    assert memory.optimizer <= 30
