"""Robust fits: against a dense loop, against SciPy, and at bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import fedjax_admm as fa
from fedjax_admm import regions
from tests.regions.drawn import LOSSES, REFINE, drawn, prior_of, terms_of

pytestmark = pytest.mark.usefixtures("x64")


def loop(problem, steps, threshold):
    """Return positions and offsets after steps of soft l1, with dense matrices."""
    anchors, terms = np.asarray(problem.anchors), terms_of(problem)
    centre, precision = prior_of(problem)
    rows = np.asarray(problem.start).reshape(-1, problem.columns).copy()
    (times, columns), clients = rows.shape, len(anchors)
    offsets, damping = centre.copy(), 0.0

    def residual(rows, offsets, anchor, time, distance):
        radius = np.linalg.norm(rows[time, : problem.dim] - anchors[anchor])
        clock = rows[time, problem.dim] if columns > problem.dim else 0
        return radius + clock + offsets[anchor] - distance

    def objective(rows, offsets):
        total = np.sum(precision * (offsets - centre) ** 2) / 2
        for anchor, time, distance, weight in terms:
            z = weight * residual(rows, offsets, anchor, time, distance)
            total += threshold**2 * (np.sqrt(1 + (z / threshold) ** 2) - 1)
        return total

    cost = objective(rows, offsets)
    for _ in range(steps):
        size = times * columns
        hessian = np.zeros((size + clients, size + clients))
        gradient = np.zeros(size + clients)
        gradient[size:] = precision * (offsets - centre)
        hessian[size:, size:] = np.diag(precision)
        for anchor, time, distance, weight in terms:
            gap = rows[time, : problem.dim] - anchors[anchor]
            row = np.zeros(size + clients)
            row[time * columns : time * columns + problem.dim] = gap / np.linalg.norm(gap)
            row[time * columns + problem.dim : (time + 1) * columns] = 1
            row[size + anchor] = 1
            z = weight * residual(rows, offsets, anchor, time, distance)
            bend = 1 / np.sqrt(1 + (z / threshold) ** 2)
            hessian += weight**2 * bend * np.outer(row, row)
            gradient += weight * bend * z * row
        # Positions of one time are damped together, offsets by themselves.
        damped = np.kron(np.eye(times), np.ones((columns, columns)))
        hessian[:size, :size] *= 1 + damping * damped
        hessian[size:, size:] *= 1 + damping * np.eye(clients)
        move = np.linalg.solve(hessian, gradient)
        new_rows, new_offsets = rows - move[:size].reshape(rows.shape), offsets - move[size:]
        new_cost = objective(new_rows, new_offsets)
        if new_cost <= cost:
            rows, offsets, cost, damping = new_rows, new_offsets, new_cost, damping / 4
        else:
            damping = max(8 * damping, 1e-3)
    return rows, offsets


@pytest.mark.parametrize("clock", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_steps_are_those_of_a_dense_loop(clock):
    problem, _ = drawn(clock=clock, offset_scale=1.0)
    rows, offsets = loop(problem, 6, 0.7)
    fit = REFINE(problem, problem.start, regions.soft_l1(0.7), steps=6)
    np.testing.assert_allclose(fit.model.reshape(rows.shape), rows, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fit.offsets, offsets, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(fit.position, fit.model.reshape(rows.shape)[:, :2])


@pytest.mark.parametrize(
    ("loss", "dim"),
    [
        ("cauchy", 3),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (("cauchy", 2), ("huber", 2), ("huber", 3), ("soft l1", 2))
        ),
    ],
)
def test_fits_are_those_of_scipy(loss, dim):
    problem, target = drawn(dim=dim, clients=8, times=1, seed=3)
    terms, anchors = terms_of(problem), np.asarray(problem.anchors)
    fit = REFINE(problem, target, LOSSES[loss](), steps=100)

    def residuals(place):
        return [w * (np.linalg.norm(place - anchors[a]) - d) for a, _, d, w in terms]

    expected = least_squares(
        residuals,
        target[0],
        loss=loss.replace(" ", "_"),
        f_scale=float(LOSSES[loss]().threshold),
        **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15),
    )
    assert fit.position.shape == (dim,)
    np.testing.assert_allclose(fit.position, expected.x, rtol=0, atol=1e-6)


@pytest.mark.thorough
def test_offsets_stop_at_their_bounds():
    problem, _ = drawn(offset_scale=2.0, offset_bounds=(0.5, 1.0))
    fit = REFINE(problem, problem.start, steps=200)
    size = problem.start.size

    def objective(model):
        rows, offsets = model[:size].reshape(-1, 2), model[size:]
        total = jnp.sum(problem.offsets.precision * problem.unit * offsets**2) / 2
        for anchor, time, distance, weight in terms_of(problem):
            radius = jnp.linalg.norm(rows[time] - problem.anchors[anchor])
            z = weight * (radius + offsets[anchor] - distance)
            total += jnp.sqrt(1 + z**2) - 1
        return total

    slopes = jax.grad(objective)(jnp.concatenate([fit.model, fit.offsets]))
    np.testing.assert_allclose(slopes[:size], 0, atol=1e-6)
    low, high = fit.offsets == 0.5, fit.offsets == 1.0
    assert np.any(low)
    assert np.any(high)
    assert np.any(~(low | high))
    assert np.all(slopes[size:][low] > 0)
    assert np.all(slopes[size:][high] < 0)
    np.testing.assert_allclose(slopes[size:][~(low | high)], 0, atol=1e-6)


@pytest.mark.thorough
def test_a_batch_is_its_problems():
    keys = jax.random.split(jax.random.key(0), 3)
    noise = fa.problems.cauchy_noise(0.5)

    def located(key):
        problem = fa.problems.draw_localization(key, noise, clients=9)
        return REFINE(problem, problem.target).position

    together = jax.jit(jax.vmap(located))(keys)
    apart = jnp.stack([located(key) for key in keys])
    np.testing.assert_allclose(together, apart, rtol=0, atol=1e-7)


def test_a_loss_without_curvature_is_refused():
    problem, _ = drawn()
    with pytest.raises(fa.InputError, match="must be curved at 0"):
        regions.refine(problem, problem.start, fa.losses.absolute())
    with pytest.raises(
        fa.InputError,
        match=r"problem must be a problem of problems\.localization, but it",
    ):
        regions.refine(3, problem.start)


@pytest.mark.parametrize("loss", ["soft l1", "cauchy"])
def test_derivatives_of_losses(loss):
    loss, z = LOSSES[loss](), jnp.linspace(-6.0, 6.0, 25)

    def value(z):
        return loss.value(z, jnp.zeros_like(z))

    np.testing.assert_allclose(loss.slope(z, 0 * z), jax.vmap(jax.grad(value))(z), atol=1e-12)
    bent = jax.vmap(jax.grad(jax.grad(value)))(z)
    np.testing.assert_allclose(loss.curvature(z, 0 * z), bent, atol=1e-12)
