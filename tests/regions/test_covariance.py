"""Covariances against dense matrices by automatic differentiation, and against Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from tests.regions.drawn import COVARIANCE, LOSSES, REFINE, drawn, prior_of, terms_of

pytestmark = pytest.mark.usefixtures("x64")


def dense(problem, fit, loss, kind):
    """Return H^{-1} G H^{-1} of positions, clocks and offsets, with every matrix written out."""
    size, dim, columns = fit.model.size, problem.dim, problem.columns
    anchors, times, ranges, weights = (jnp.array(x) for x in zip(*terms_of(problem), strict=True))
    centre, precision = prior_of(problem)
    bend = loss.curvature(0.0 * ranges, 0.0 * ranges)

    def residuals(model):
        rows, offsets = model[:size].reshape(-1, columns)[times], model[size:][anchors]
        radius = jnp.linalg.norm(rows[:, :dim] - problem.anchors[anchors], axis=-1)
        return weights * (radius + jnp.sum(rows[:, dim:], 1) + offsets - ranges)

    def objective(model):
        z = residuals(model)
        prior = jnp.sum(precision * (model[size:] - centre) ** 2) / 2
        return jnp.sum(loss.value(z, 0.0 * z) / bend) + prior

    model = jnp.concatenate([fit.model, fit.offsets])
    known = size if problem.offsets is None else len(model)
    written = jax.jit(
        lambda m: (residuals(m), jax.jacobian(residuals)(m), jax.hessian(objective)(m))
    )
    z, jacobian, hessian = map(np.asarray, written(model))
    jacobian, hessian = jacobian[:, :known], hessian[:known, :known]
    slopes = np.asarray(loss.slope(z, 0.0 * z) / bend)
    prior = np.diag(np.concatenate([np.zeros(size), precision])[:known])
    weighted = jacobian * (slopes / z)[:, None]
    inverse = np.linalg.inv(jacobian.T @ weighted + prior)
    leverage = np.einsum("ni,ij,nj->n", weighted, inverse, jacobian)
    degrees = len(z) - np.sum(leverage)
    variances = slopes**2 / (1 - leverage)
    if kind == "information":
        variances = np.full_like(z, np.sum(slopes**2) / degrees)
    middle = (jacobian.T * variances) @ jacobian + prior
    whole = np.linalg.inv(hessian)
    return whole @ middle @ whole, degrees


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "options", "loss"),
    [
        ("sandwich", {"offset_scale": 1.0, "clock": True}, "soft l1"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (
                ("information", {"offset_scale": 1.0}, "squared"),
                ("information", {}, "soft l1"),
            )
        ),
    ],
)
def test_blocks_are_those_of_dense_matrices(kind, options, loss):
    problem, _ = drawn(**options)
    fit = REFINE(problem, problem.start, LOSSES[loss](), steps=60)
    found = COVARIANCE(problem, fit, LOSSES[loss](), kind=kind)
    whole, degrees = dense(problem, fit, LOSSES[loss](), kind)
    for time in range(problem.times):
        here = slice(time * problem.columns, time * problem.columns + problem.dim)
        np.testing.assert_allclose(found.position[time], whole[here, here], rtol=1e-9)
    if problem.offsets is not None:
        np.testing.assert_allclose(found.offsets, whole[-6:, -6:], rtol=1e-9)
    np.testing.assert_allclose(found.degrees, degrees, rtol=1e-9)


@pytest.mark.thorough
def test_both_kinds_are_the_spread_of_fits():
    """Normal errors, 30 anchors: both mean covariances are those of 600 fits, within a fifth."""
    problem = fa.problems.draw_localization(
        jax.random.key(4), fa.problems.no_noise(), clients=30, dim=2
    )
    loss = fa.losses.huber(1.345)

    def trial(key):
        noise = jax.random.normal(key, (30,))
        ranges = fa.problems.Localization(
            problem.anchors, problem.distances + noise, problem.target
        )
        fit = REFINE(ranges, problem.target, loss, steps=15)
        kinds = ("sandwich", "information")
        spread = [COVARIANCE(ranges, fit, loss, kind=kind).position for kind in kinds]
        return fit.position, jnp.stack(spread)

    places, spreads = jax.jit(jax.vmap(trial))(jax.random.split(jax.random.key(1), 600))
    empirical = np.cov(np.asarray(places).T)
    scale = np.linalg.norm(empirical)
    for mean in np.mean(spreads, 0):
        np.testing.assert_allclose(mean, empirical, rtol=0, atol=0.2 * scale)


def test_unknown_positions_have_large_covariances():
    """A single range leaves a direction that no range determines."""
    anchors = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], np.float32)
    ranges = np.array([[5.0, 5.0], [8.0, np.nan], [7.0, np.nan]], np.float32)
    problem = fa.problems.localization(anchors, ranges, path=True)
    found = COVARIANCE(problem, REFINE(problem, problem.start)).position
    assert found.dtype == np.float32
    variances = np.linalg.eigvalsh(np.asarray(found))
    assert np.all(np.isfinite(found))
    assert variances[1, 1] > 1e4 * max(variances[0, 1], 1)
