"""Rows: losses."""

import jax
import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import valued
from tests.reference import prox_losses as reference

RNG = np.random.default_rng(11)
TALL, WIDE = RNG.standard_normal((5, 3)), RNG.standard_normal((2, 3))
SINGULAR = np.outer([1.0, -2.0, 0.5, 1.5], [0.4, 1.0, -0.3])
ROW = np.array([0.6, -1.2, 0.4])
KERNEL, SIGNAL = np.array([0.7, 0.2, -0.4]), np.array([1.0, -0.5, 2.0])
TARGETS = RNG.standard_normal(5)
PSD = WIDE.T @ WIDE  # of rank two
LINEAR = np.array([0.5, -1.0, 0.3])
QUANTILES = np.array([0.2, 0.5, 0.9, 0.7, 0.35])


def wide(build, *arguments):
    """Make a factor in float64."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, build(*arguments))


def least_squares(matrix, weights=None):
    """Build the row of one matrix; its twin solves anew for every point."""
    target = TARGETS[: len(matrix)]
    known = wide(kernels.least_squares_factor, matrix, target, weights)

    def twin(v, step, factor):
        size = np.linalg.norm(factor.solution) / np.linalg.norm(known.solution)
        return reference.prox_least_squares(v, step, matrix, size * target, weights)

    return valued(
        "prox_least_squares",
        (known,),
        twin=twin,
        rescaled=lambda s: (wide(kernels.least_squares_factor, matrix, s * target, weights),),
    )


def quadratic(matrix):
    known = wide(kernels.quadratic_factor, matrix, LINEAR)

    def twin(v, step, factor):
        size = np.linalg.norm(factor.slope) / np.linalg.norm(LINEAR)
        return reference.prox_quadratic(v, step, matrix, size * LINEAR)

    return valued(
        "prox_quadratic",
        (known,),
        twin=twin,
        rescaled=lambda s: (wide(kernels.quadratic_factor, matrix, s * LINEAR),),
    )


def absolute(v, step, row, target):
    return reference.prox_interval_dual(v, step, row.reshape(1, -1), target.ravel(), [-1], [1])


def pinball(v, step, row, target, q):
    return reference.prox_interval_dual(v, step, row.reshape(1, -1), target.ravel(), [q - 1], [q])


def logistic(v, step, row, target):
    return reference.prox_logistic_loss(v, step, row.reshape(1, -1), target.ravel())


def absolute_samples(v, step, factor):
    ones = np.ones(len(factor.target))
    return reference.prox_interval_dual(v, step, factor.matrix, factor.target, -ones, ones)


def pinball_samples(v, step, factor, q):
    return reference.prox_interval_dual(v, step, factor.matrix, factor.target, q - 1, q)


def logistic_samples(v, step, factor):
    return reference.prox_logistic_loss(v, step, factor.matrix, factor.target)


def samples(matrix):
    return wide(kernels.sample_factor, matrix, TARGETS[: len(matrix)])


ROWS = [
    least_squares(TALL, np.array([1.0, 0.0, 2.0, 0.5, 3.0])),
    least_squares(WIDE),
    least_squares(SINGULAR),
    quadratic(PSD),
    quadratic(TALL.T @ TALL),
    valued("prox_least_squares_circular", (KERNEL, SIGNAL), powers=(0, 0, 1)),
    valued("prox_absolute_residual", (ROW, 0.3), twin=absolute, powers=(1, 0, 1)),
    valued("prox_pinball_residual", (ROW, 0.3, 0.2), twin=pinball, powers=(1, 0, 1, 0)),
    valued("prox_logistic_residual", (ROW, 0.3), twin=logistic),
    valued("prox_absolute_loss", (samples(TALL),), twin=absolute_samples, tolerance=1e-8),
    valued("prox_pinball_loss", (samples(TALL), QUANTILES), twin=pinball_samples, tolerance=1e-8),
    valued("prox_logistic_loss", (samples(TALL),), twin=logistic_samples, tolerance=1e-8),
]
