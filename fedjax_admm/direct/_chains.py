r"""Linear chains with one scalar measurement per step: filter, smoother, and what they predict.

    s_0 ~ N(m_0, P_0),   s_i = F_i s_{i-1} + N(0, Q_i),   y_i = H_i s_i + N(0, 1 / g_i)

A measurement of precision g_i = 0 is missing. The filter goes forwards,

    m = F m,  P = F P F^T + Q,    G = g / (1 + g H P H^T),   m += G P H^T e,   P -= G P H^T H P

with the innovation `e = y - H m`, and the smoother backwards on the adjoint,

    C = I - G P H^T H,   l = C^T l - G H^T e,   L = C^T L C + G H^T H,   mean = m - P l,
    covariance = P - P L P,   then   l = F^T l,   L = F^T L F

Neither inverts a matrix, so Q may be singular: static entries of the state, such as offsets of
anchors, are estimated beside the moving ones, and several measurements may share a time.

Reference: G. J. Bierman, "Fixed interval smoothing with discrete measurements", International
Journal of Control 18(1), 1973 (the modified Bryson-Frazier smoother).
"""

import jax
import jax.numpy as jnp

from fedjax_admm._pytrees import pytree_dataclass


@pytree_dataclass
class Chain:
    """Steps and measurements of a linear chain."""

    mean: jax.Array  # shape=(size,): m_0
    covariance: jax.Array  # shape=(size, size): P_0
    step: jax.Array  # shape=(rows, size, size): F
    noise: jax.Array  # shape=(rows, size, size): Q
    row: jax.Array  # shape=(rows, size): H
    measured: jax.Array  # shape=(rows,): y
    precision: jax.Array  # shape=(rows,): g


@pytree_dataclass
class Predictions:
    """What the filter expects of every step before it sees its measurement."""

    mean: jax.Array  # shape=(rows, size): m
    covariance: jax.Array  # shape=(rows, size, size): P
    innovation: jax.Array  # shape=(rows,): e
    variance: jax.Array  # shape=(rows,): H P H^T, without that of the measurement


def filtered(chain: Chain) -> Predictions:
    """Return the predictions of the filter."""

    def advance(state, inputs):
        mean, covariance = state
        step, noise, row, measured, precision = inputs
        mean, covariance = step @ mean, step @ covariance @ step.T + noise
        across = covariance @ row
        innovation, variance = measured - row @ mean, row @ across
        gain = precision / (1 + precision * variance)
        after = covariance - gain * jnp.outer(across, across)
        predicted = Predictions(mean, covariance, innovation, variance)
        return (mean + gain * innovation * across, (after + after.T) / 2), predicted

    inputs = chain.step, chain.noise, chain.row, chain.measured, chain.precision
    return jax.lax.scan(advance, (chain.mean, chain.covariance), inputs)[1]


def smoothed(chain: Chain) -> tuple[jax.Array, jax.Array]:
    """Return the mean (rows, size) and the covariance (rows, size, size) given all measurements."""
    size = len(chain.mean)
    seen = filtered(chain)

    def retreat(adjoint, inputs):
        slope, bend = adjoint
        ahead, step, row, precision = inputs
        across = ahead.covariance @ row
        gain = precision / (1 + precision * ahead.variance)
        # C^T l and C^T L C, with C = I - gain across row^T
        slope = slope - row * (gain * (across @ slope + ahead.innovation))
        pulled = bend @ across
        cross = gain * jnp.outer(pulled, row)
        inner = gain + gain**2 * (across @ pulled)
        bend = bend - cross - cross.T + inner * jnp.outer(row, row)
        mean = ahead.mean - ahead.covariance @ slope
        covariance = ahead.covariance - ahead.covariance @ bend @ ahead.covariance
        return (step.T @ slope, step.T @ bend @ step), (mean, (covariance + covariance.T) / 2)

    start = jnp.zeros_like(chain.mean), jnp.zeros((size, size), chain.mean.dtype)
    inputs = seen, chain.step, chain.row, chain.precision
    return jax.lax.scan(retreat, start, inputs, reverse=True)[1]
