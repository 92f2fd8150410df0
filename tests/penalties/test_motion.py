"""Penalties of paths: their proxes against a dense solution and a search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, penalties

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("order", [1, 2])
def test_prox_of_squares_solves_the_linear_system(order):
    generator = np.random.default_rng(order)
    steps, path = generator.normal(size=(6, 2)), generator.normal(size=14)
    known = np.concatenate([np.zeros((1, 2)), np.cumsum(steps, 0)])
    penalty = penalties.motion(7, 0.7, order=order, displacements=steps)
    differences = np.diff(np.eye(7), order, axis=0)
    system = np.eye(7) + 1.3 * 0.7 * differences.T @ differences
    expected = known + np.linalg.solve(system, path.reshape(7, 2) - known)
    np.testing.assert_allclose(penalty.prox(jnp.asarray(path), 1.3), expected.ravel(), atol=1e-12)
    bend = differences @ (path.reshape(7, 2) - known)
    np.testing.assert_allclose(penalty.value(jnp.asarray(path)), 0.35 * np.sum(bend**2))


@pytest.mark.kin(1)
@pytest.mark.parametrize("order", [1, 2])
def test_prox_of_sizes_is_a_minimiser(order):
    generator = np.random.default_rng(order)
    steps, path = generator.normal(size=(6, 2)), jnp.asarray(generator.normal(size=14))
    penalty = penalties.motion_variation(7, 0.7, order=order, displacements=steps)

    def cost(x):
        return penalty.value(x) + jnp.sum((x - path) ** 2) / 2

    best = penalty.prox(path, 1.0)
    aside = (
        0.1 * jax.random.normal(jax.random.key(0), (2000, 14)) * jnp.linspace(0, 1, 2000)[:, None]
    )
    assert jnp.all(jax.vmap(cost)(best[None] + aside) >= cost(best) - 1e-6)


def test_a_path_of_constant_velocity_costs_nothing_at_its_own_times():
    times = np.array([0.0, 1.0, 1.5, 4.0, 4.2])
    path = times[:, None] * [2.0, -1.0] + [3.0, 4.0]
    penalty = penalties.motion(times, 5.0)
    assert penalty.value(jnp.asarray(path.ravel())) == pytest.approx(0, abs=1e-20)


def test_times_must_increase():
    with pytest.raises(InputError, match="times must increase, but it is"):
        penalties.motion([0.0, 2.0, 1.0], 1.0)
