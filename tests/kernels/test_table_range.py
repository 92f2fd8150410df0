"""Every proximal map and projection in single and half precision, row by row of the table."""

from functools import partial

import jax
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from fedjax_admm.testing import check_prox
from tests.kernels.table import ROWS, WITH_VALUE

pytestmark = pytest.mark.thorough

SCALES = [
    (np.float32, 1e-30),
    (np.float32, 1.0),
    (np.float32, 1e30),
    (np.float16, 1e-3),
    (np.float16, 5e3),
]


@pytest.mark.parametrize("row", [row for row in ROWS if row.scaled(1.0)], ids=str)
def test_the_range_of_the_dtype_is_the_range_of_the_kernel(row):
    """A point as large as its dtype has it, with step and parameters that fit, against the twin."""
    for dtype, scale in SCALES:
        factor, parameters = row.scaled(scale)
        step = row.steps[0] * factor
        if not float(np.finfo(dtype).tiny) < step < float(np.finfo(dtype).max):
            continue  # the step is no number of this dtype
        points = (row.points * scale).astype(dtype)
        found = np.asarray(row.image(points, step, parameters, dtype), np.float64)
        cast = jax.tree.map(
            lambda part, dtype=dtype: (
                np.asarray(part, dtype) if np.asarray(part).dtype.kind == "f" else part
            ),
            parameters,
        )
        expected = row.expected(points, np.asarray(step, dtype), cast)
        largest = max(float(np.max(np.abs(row.points))), 1)
        tolerance = 64 * float(np.finfo(dtype).eps) * largest * scale
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=f"{scale:g}")


@pytest.mark.parametrize("row", [row for row in WITH_VALUE if not row.scaled(1.0)], ids=str)
def test_results_are_finite_at_the_ends_of_the_range(row):
    """Where no scaling is known there is no twin out there."""
    check_prox(
        row.prox, row.penalty, *row.parameters, points=row.points, steps=row.steps, only="range"
    )


# What each parameter after the point may be: positive, in [0, 1], more than 1, of either sign.
DRAWN = {
    "prox_elastic_net": "+++",
    "prox_pinball": "+q",
    "prox_squared_l2": "++",
    "prox_smoothed_abs": "+++",
    "prox_linear": "+-",
    "prox_huber": "++",
    "prox_logistic": "+",
    "prox_poisson": "++",
    "prox_log_barrier": "++",
    "prox_bernoulli": "+q",
    "prox_kl": "++",
    "prox_mcp": "+++",
    "prox_scad": "++>",
    "prox_smoothed_mcp": "++++",
    "prox_smoothed_scad": "++>+",
    "prox_l0": "++",
    "prox_l_half": "++",
    "prox_l_two_thirds": "++",
    "prox_log_sum": "+++",
    "prox_geman": "+++",
    "prox_exponential_type": "+++",
    "prox_capped_l1": "+++",
    "prox_capped_quadratic": "+++",
}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", DRAWN)
def test_products_of_parameters_stay_within_the_range(name, dtype, x64):
    """Against float64, with parameters of any size: their products are out of a half's range."""
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    share = 1.0 if dtype == "float16" else 0.45
    low, high = share * np.log(float(info.tiny)), share * np.log(float(info.max))
    size = partial(rng.uniform, low, high, 2000)
    signs = rng.choice([-1, 1], 2000)
    draws = {
        "+": lambda: np.exp(size()),
        "-": lambda: signs * np.exp(size()),
        "q": lambda: rng.uniform(0, 1, 2000),
        ">": lambda: 1.05 + np.exp(size()),
    }
    numbers = [draws[kind]().astype(dtype) for kind in "-" + DRAWN[name]]
    mapped = jax.jit(getattr(kernels, name))
    found = np.asarray(mapped(*numbers), np.float64)
    expected = np.asarray(mapped(*(part.astype(np.float64) for part in numbers)))
    largest = np.maximum(np.abs(numbers[0].astype(np.float64)), np.abs(expected))
    within = np.abs(expected) < float(info.max)
    off = np.abs(found - expected) > 16 * float(info.eps) * largest + 4 * float(info.tiny)
    assert not np.any(off & within), [part[off & within][:3] for part in (*numbers, found)]
