r"""Linear chains with one scalar measurement per step: filter, smoother, and what they predict.

    s_0 ~ N(0, D^2),   s_i = F_i s_{i-1} + N(0, Q_i),   y_i = H_i s_i + N(0, 1 / g_i)

D is diagonal. The first entries of a state move by matrices A_i and noise of covariances M_i; the
others stay, or, where they are slow, decay by r_i and keep their deviation (a stationary
Gauss-Markov sequence of the first order):

    F = diag(A, 1, r),   Q = diag(M, 0, (1 - r^2) D^2)

A measurement of precision g_i = 0 is missing. The filter goes forwards,

    m = F m,  P = F P F^T + Q,    G = g / (1 + g H P H^T),   m += G P H^T e,   P -= G P H^T H P

with the innovation `e = y - H m`, and the smoother backwards on the adjoint,

    C = I - G P H^T H,   l = C^T l - G H^T e,   L = C^T L C + G H^T H,   mean = m - P l,
    covariance = P - P L P,   then   l = F^T l,   L = F^T L F

Neither inverts a matrix, so Q may be singular: static entries of the state, such as offsets of
anchors, are estimated beside the moving ones, and several measurements may share a time. The
smoother keeps what the filter predicts for one block of rows alone, and computes the block anew
from the state before it, so that its memory is linear in the rows by their results alone.

References: G. J. Bierman, "Fixed interval smoothing with discrete measurements", International
Journal of Control 18(1), 1973 (the modified Bryson-Frazier smoother); A. Griewank and A. Walther,
"Revolve", ACM Transactions on Mathematical Software 26(1), 2000 (blocks computed anew).
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._pytrees import pytree_dataclass

_BLOCK = 256  # rows


@pytree_dataclass
class Chain:
    """Steps and measurements of a linear chain."""

    deviation: jax.Array  # shape=(size,): the diagonal of D
    slow: jax.Array  # shape=(size,), bool: entries that decay; not among the moving ones
    step: jax.Array  # shape=(rows, moving, moving): A
    noise: jax.Array  # shape=(rows, moving, moving): M
    decay: jax.Array  # shape=(rows,): r
    row: jax.Array  # shape=(rows, size): H
    measured: jax.Array  # shape=(rows,): y
    precision: jax.Array  # shape=(rows,): g


@pytree_dataclass
class Smoothed:
    """What all measurements together say."""

    mean: jax.Array  # shape=(rows, size)
    covariance: jax.Array  # shape=(rows, part, part): of the first entries
    last: jax.Array  # shape=(size, size): the covariance of the whole last state


def filtered(chain: Chain) -> tuple[jax.Array, jax.Array]:
    """Return the innovations e, and their variances H P H^T without those of measurements."""

    def advance(state, inputs):
        state, (_, _, innovation, variance) = _advance(chain, state, inputs)
        return state, (innovation, variance)

    return jax.lax.scan(advance, _start(chain), _inputs(chain))[1]


def smoothed(chain: Chain, part: int) -> Smoothed:
    """Return means and covariances given all measurements.

    Args:
      chain: steps and measurements.
      part: how many first entries of the states have their covariances returned.
    """
    rows, size = chain.row.shape
    block = min(rows, _BLOCK)
    number = -(-rows // block)
    lacking = number * block - rows
    # Rows that say nothing and change nothing fill the last block.
    filled = jax.tree.map(
        lambda each, fill: jnp.concatenate(
            [each, jnp.broadcast_to(jnp.asarray(fill, each.dtype), (lacking, *each.shape[1:]))]
        ).reshape(number, block, *each.shape[1:]),
        _inputs(chain),
        (np.eye(chain.step.shape[1]), 0.0, 1.0, 0.0, 0.0, 0.0),
    )
    advance = lambda state, inputs: _advance(chain, state, inputs)  # noqa: E731
    quiet = lambda state, inputs: (advance(state, inputs)[0], None)  # noqa: E731

    def over(state, inputs):
        return jax.lax.scan(quiet, state, inputs)[0], state

    (_, last), before = jax.lax.scan(over, _start(chain), filled)

    def retreat(adjoint, given):
        slope, bend = adjoint
        (mean, ahead, innovation, variance), (step, _, decay, row, _, precision) = given
        across = ahead @ row
        gain = precision / (1 + precision * variance)
        # C^T l and C^T L C, with C = I - gain across row^T
        slope = slope - row * (gain * (across @ slope + innovation))
        found, earlier = mean - ahead @ slope, _one(slope, step.T, _factors(chain, decay))
        if not part:
            return (earlier, bend), (found, bend)
        pulled = bend @ across
        cross = gain * jnp.outer(pulled, row)
        inner = gain + gain**2 * (across @ pulled)
        bend = bend - cross - cross.T + inner * jnp.outer(row, row)
        first = ahead[:part]
        covariance = first[:, :part] - first @ bend @ first.T
        bend = _both(bend, step.T, _factors(chain, decay))
        return (earlier, (bend + bend.T) / 2), (found, (covariance + covariance.T) / 2)

    def back(adjoint, given):
        state, inputs = given
        seen = jax.lax.scan(advance, state, inputs)[1]
        return jax.lax.scan(retreat, adjoint, (seen, inputs), reverse=True)

    dtype = chain.row.dtype
    nothing = jnp.zeros(size, dtype), jnp.zeros((size, size) if part else (0, 0), dtype)
    found = jax.lax.scan(back, nothing, (before, filled), reverse=True)[1]
    mean, covariance = (each.reshape(number * block, *each.shape[2:])[:rows] for each in found)
    return Smoothed(mean, covariance, last)


def _inputs(chain: Chain) -> tuple[jax.Array, ...]:
    return chain.step, chain.noise, chain.decay, chain.row, chain.measured, chain.precision


def _start(chain: Chain) -> tuple[jax.Array, jax.Array]:
    return jnp.zeros_like(chain.deviation), jnp.diag(chain.deviation**2)


def _advance(chain: Chain, state, inputs):
    """Return the state after a row, and its prediction: m, P, e, and H P H^T."""
    mean, covariance = state
    step, noise, decay, row, measured, precision = inputs
    factors, moving = _factors(chain, decay), len(step)
    fresh = jnp.where(chain.slow, (1 - decay**2) * chain.deviation**2, 0)
    mean, covariance = _one(mean, step, factors), _both(covariance, step, factors)
    covariance = covariance.at[:moving, :moving].add(noise) + jnp.diag(fresh)
    across = covariance @ row
    innovation, variance = measured - row @ mean, row @ across
    gain = precision / (1 + precision * variance)
    after = covariance - gain * jnp.outer(across, across)
    predicted = mean, covariance, innovation, variance
    return (mean + gain * innovation * across, (after + after.T) / 2), predicted


def _factors(chain: Chain, decay: jax.Array) -> jax.Array:
    return jnp.where(chain.slow, decay, jnp.ones_like(decay))


def _one(vector: jax.Array, step: jax.Array, factors: jax.Array) -> jax.Array:
    """Return F v, where F is A for the first entries and diagonal for the others."""
    moving = len(step)
    return jnp.concatenate([step @ vector[:moving], (factors * vector)[moving:]])


def _both(matrix: jax.Array, step: jax.Array, factors: jax.Array) -> jax.Array:
    """Return F P F^T."""
    moving = len(step)
    matrix = matrix * factors[:, None] * factors[None]
    matrix = jnp.concatenate([step @ matrix[:moving], matrix[moving:]])
    return jnp.concatenate([matrix[:, :moving] @ step.T, matrix[:, moving:]], 1)
