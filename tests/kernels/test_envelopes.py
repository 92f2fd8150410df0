"""What rows of the table do not tell of k-support norms and envelopes: where they come from."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from tests.kernels.table.vectors import LONGER


def supports(size, k):
    return [list(support) for support in combinations(range(size), k)]


def half_square_of_the_dual(u, k):
    """The largest half square of k entries, over all supports: the conjugate of the envelope."""
    return max(np.sum(u[support] ** 2) / 2 for support in supports(len(u), k))


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_k_support_norm_is_conjugate_to_the_largest_half_square(x64, k):
    """Fenchel's inequality over many points, and its equality at the gradient."""
    points = np.concatenate([LONGER, np.random.default_rng(k).standard_normal((5, 5))])
    value = jax.jit(lambda x: kernels.k_support_value(x, 1.0, k))
    values = np.asarray(value(points))
    gradients = np.asarray(jax.jit(jax.grad(lambda x: value(x).sum()))(points))
    duals = np.array([half_square_of_the_dual(u, k) for u in gradients])
    np.testing.assert_allclose(values + duals, np.sum(points * gradients, -1), atol=1e-12)
    others = np.array([half_square_of_the_dual(u, k) for u in points])
    assert np.all(values[:, None] + others >= points @ points.T - 1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 2, 3])
def test_half_the_squared_norm_is_the_cheapest_sum_over_supports(x64, k):
    """The gauge of unit balls on all supports, by cvxpy."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(k)
    v = rng.standard_normal(4)
    parts = [cvxpy.Variable(k) for _ in supports(4, k)]
    total = sum(
        np.eye(4)[:, support] @ part for support, part in zip(supports(4, k), parts, strict=True)
    )
    half = cvxpy.square(sum(cvxpy.norm(part) for part in parts)) / 2
    cvxpy.Problem(cvxpy.Minimize(half), [total == v]).solve()
    found = jax.jit(kernels.k_support_value, static_argnums=2)(v, 1.0, k)
    np.testing.assert_allclose(found, half.value, rtol=1e-6)
    problem = cvxpy.Problem(cvxpy.Minimize(half + cvxpy.sum_squares(total - v) / 1.4))
    problem.solve()
    found = jax.jit(kernels.prox_k_support, static_argnums=3)(v, 0.7, 1.0, k)
    np.testing.assert_allclose(found, total.value, atol=2e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_envelope_is_below_the_indicator_and_a_large_step_reaches_its_minimum(x64, k):
    """From the step 1 on the best of all supports is as good as the best of a search."""
    rng = np.random.default_rng(k)
    v = rng.standard_normal((10, 5))
    value = jax.jit(lambda x: kernels.top_k_envelope_value(x, k))
    prox = jax.jit(lambda x, step: kernels.prox_top_k_envelope(x, step, k))
    kept = kernels.project_top_k(jnp.asarray(v), k)
    np.testing.assert_allclose(value(kept), 0, atol=1e-15)
    assert np.all(np.asarray(value(v)) > 0)
    others = v[:, None] * rng.uniform(0, 1.1, (10, 2_000, 5))
    for step in (0.3, 0.95, 1.0, 2.0):
        tries = np.concatenate([np.asarray(prox(v, step))[:, None], others], 1)
        costs = np.asarray(value(tries)) + np.sum((tries - v[:, None]) ** 2, -1) / (2 * step)
        assert np.all(costs[:, 0] <= np.min(costs, 1) + 1e-12)


def test_the_number_of_entries_is_demanded():
    for name, weight in (("prox_k_support", {"weight": 1.0}), ("prox_top_k_envelope", {})):
        with pytest.raises(ValueError, match="from 1 to 3"):
            getattr(kernels, name)(jnp.ones(3), 0.5, k=4, **weight)
    with pytest.raises(ValueError, match="from 1 to 3"):
        kernels.k_support_value(jnp.ones(3), 1.0, 0)
