"""Values of convex functions of one number, against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import fedjax_admm.kernels as kernels

VALUES = [
    ("l1_value", (), lambda x: np.abs(x)),
    ("elastic_net_value", (1.2, 0.8), lambda x, a, b: a * np.abs(x) + b / 2 * x**2),
    ("pinball_value", (0.25,), lambda x, q: np.where(x < 0, (q - 1) * x, q * x)),
    ("sum_positive_value", (), lambda x: np.where(x > 0, x, 0)),
    ("linear_value", (-1.7,), lambda x, a: a * x),
    ("squared_l2_value", (3.0,), lambda x, w: w / 2 * x**2),
    ("huber_value", (0.8,), lambda x, d: scipy.special.huber(d, x)),
    ("huber_value", (0.0,), lambda x, d: 0 * x),
    ("hinge_value", (), lambda x: np.where(x < 1, 1 - x, 0)),
    ("squared_hinge_value", (), lambda x: np.where(x < 1, 1 - x, 0) ** 2),
    ("logistic_value", (), lambda x: np.log1p(np.exp(-x))),
    ("cross_entropy_value", (0.3,), lambda x, t: np.log1p(np.exp(x)) - t * x),
    ("poisson_value", (3.0,), lambda x, y: np.where(x < 0, np.inf, x - scipy.special.xlogy(y, x))),
    ("poisson_value", (0.0,), lambda x, y: np.where(x < 0, np.inf, x)),
    ("log_barrier_value", (0.7,), lambda x, w: np.where(x > 0, -w * np.log(np.abs(x)), np.inf)),
    ("log_barrier_value", (0.0,), lambda x, w: np.where(x < 0, np.inf, 0)),
    ("kl_value", (1.3,), lambda x, y: scipy.special.kl_div(x, y)),
    ("kl_value", (0.0,), lambda x, y: scipy.special.kl_div(x, y)),
    ("entropy_value", (), lambda x: -scipy.special.entr(x)),
    ("non_negative_l1_value", (), lambda x: np.where(x < 0, np.inf, x)),
    ("non_negative_squared_l2_value", (3.0,), lambda x, w: np.where(x < 0, np.inf, w / 2 * x**2)),
    (
        "box_l1_value",
        (1.5, -1.0, 2.0),
        lambda x, a, low, high: np.where((x < low) | (x > high), np.inf, a * np.abs(x)),
    ),
    (
        "box_squared_l2_value",
        (1.5, -1.0, 2.0),
        lambda x, a, low, high: np.where((x < low) | (x > high), np.inf, a / 2 * x**2),
    ),
]


@pytest.mark.kin(6)
@pytest.mark.parametrize(
    ("name", "parameters", "wanted"),
    VALUES,
    ids=[f"{name}{numbers}" for name, numbers, _ in VALUES],
)
def test_values_are_those_of_the_definition(name, parameters, wanted, dtype):
    value = getattr(kernels, name)
    x = np.array([-7.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 30.0, np.nan])
    points = jnp.asarray(x, dtype)
    with np.errstate(all="ignore"):
        expected = wanted(x, *parameters)

    def sloped(points):
        found, pull = jax.vjp(lambda x: value(x, *parameters), points)
        return found, *pull(jnp.ones_like(points))

    found, slopes = jax.jit(sloped)(points)
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found[:-1], expected[:-1], rtol=tolerance)
    assert np.all(np.isfinite(slopes[:-1]))
    assert np.isnan(found[-1])


def test_huber_is_the_envelope_of_the_absolute_value(x64):
    points = jnp.linspace(-4.0, 4.0, 33)
    nearest = kernels.prox_l1(points, 0.8)
    envelope = 0.8 * kernels.l1_value(nearest) + (nearest - points) ** 2 / 2
    np.testing.assert_allclose(kernels.huber_value(points, 0.8), envelope, atol=1e-12)
