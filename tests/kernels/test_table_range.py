"""Every proximal map and projection in single and half precision, row by row of the table."""

import jax
import numpy as np
import pytest

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


@pytest.mark.parametrize("row", [row for row in ROWS if row.scaled], ids=str)
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


@pytest.mark.parametrize("row", [row for row in WITH_VALUE if not row.scaled], ids=str)
def test_results_are_finite_at_the_ends_of_the_range(row):
    """Where no scaling is known there is no twin out there."""
    check_prox(
        row.prox, row.penalty, *row.parameters, points=row.points, steps=row.steps, only="range"
    )
