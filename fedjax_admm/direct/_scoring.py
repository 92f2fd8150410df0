r"""The likelihood of a chain's innovations, maximised by the method of scoring.

theta (logarithms of intensities, the scale c and the common offset m) descends

    sum_i  beta log(S_i) / 2 + huber(e_i / sqrt(S_i)) - log prior(theta),
    S_i = H_i P_i H_i^T + sigma_i^2

of the innovations e_i up to 12 deviations, with beta = E[z huber'(z)] of a standard normal z, which
makes sigma right for normal errors. A step solves A d = -gradient with Fisher's information

    A = beta sum_i (de_i de_i^T / S_i + dlog(S_i) dlog(S_i)^T / 2) + precision of the prior,

whose derivatives are carried along the filter. An entry of theta whose steps alternate halves them.
Between the steps of theta the path makes Gauss-Newton steps, each one pass of the smoother with the
weights `min(1, 1.345 sigma / |residual|)`, and 0 beyond 5 sigma. c and m are found so, and not as
states beside the path: the mode of path and scale together is biased, as ranges around a path that
shrinks towards its anchors have a smaller variance.

References: F. C. Schweppe, "Evaluation of likelihood functions for Gaussian signals", IEEE
Transactions on Information Theory 11(1), 1965; N. K. Gupta and R. K. Mehra, "Computational aspects
of maximum likelihood estimation", IEEE Transactions on Automatic Control 19(6), 1974; B. M. Bell,
"The iterated Kalman smoother as a Gauss-Newton method", SIAM J. Optimization 4(3), 1994; P. J.
Huber, "Robust Statistics", 1981, sections 6.4 and 7.8.
"""

import jax
import jax.numpy as jnp

from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm.direct._chains import smoothed
from fedjax_admm.direct._ranging import (
    CONSISTENT,
    TUNING,
    Rows,
    chain_of,
    evidence_of,
    huber_weights,
    innovations,
    prior_precisions,
)

_MOST = 12.0  # deviations of an innovation
_ROUNDS, _SETTLING = 40, 3  # steps at most, and steps of the path before the first of theta
_DECREMENT = 0.05  # nats: what a last step gains


def scored(rows: Rows, states, first, lower, upper):
    """Return theta, states, the evidence of the ranges, and the number of steps.

    Args:
      rows: ranges.
      states: where the path starts, shape (rows, size).
      first: where theta starts, and the middle of the priors of logarithms.
      lower: bounds of theta.
      upper: bounds of theta.
    """
    offsets, scale, own = rows.free
    free = jnp.ones_like(first).at[-2].set(scale).at[-1].set(offsets)
    free = free.at[rows.names.index("scale_spread")].set(own)
    infinite = jnp.full((), jnp.inf, first.dtype)

    def going(carry):
        *_, gain, step = carry
        return (step < _ROUNDS) & (gain > _DECREMENT)

    def advance(carry):
        theta, states, _, before, pace, _, step = carry
        early = step < _SETTLING
        weights = huber_weights(rows, states, theta, step > 1)
        states = smoothed(chain_of(rows, states, theta, weights), 0).mean
        weights = huber_weights(rows, states, theta, step > 1)
        change, gain, evidence = _step(rows, states, theta, weights, first, lower, upper, free)
        change = jnp.where(early, 0, change)
        pace = jnp.where(change * before < 0, pace / 2, jnp.minimum(1.5 * pace, 1))
        theta = jnp.clip(theta + pace * change, lower, upper)
        return theta, states, evidence, change, pace, jnp.where(early, infinite, gain), step + 1

    start = first, states, -infinite, jnp.zeros_like(first), jnp.ones_like(first), infinite
    found = jax.lax.while_loop(going, advance, (*start, jnp.zeros((), jnp.int32)))
    return *found[:3], found[-1]


def _step(rows, states, theta, weights, first, lower, upper, free):
    """Return a step of theta, by how much it lowers the cost, and the evidence before it."""

    def seen(theta):
        innovation, variance = innovations(rows, states, theta, weights)
        pair = jnp.stack([innovation, jnp.log(variance)])
        return pair, pair

    slopes, (innovation, logs) = jax.jacfwd(seen, has_aux=True)(theta)
    counts = (weights > 0)[:, None].astype(theta.dtype)
    variance, root = jnp.exp(logs), jnp.exp(logs / 2)
    size = innovation / root
    slope = jnp.where(jnp.abs(size) < _MOST, jnp.clip(size, -TUNING, TUNING), 0)
    along, wide = counts * slopes[0] / root[:, None], counts * slopes[1]
    gradient = slope @ along + (CONSISTENT - size * slope) / 2 @ wide
    precision = prior_precisions(rows, theta)
    gradient = gradient + precision * (theta - first)
    bend = CONSISTENT * (along.T @ along + wide.T @ wide / 2) + jnp.diag(precision)
    stuck = ((theta <= lower) & (gradient > 0)) | ((theta >= upper) & (gradient < 0))
    loose = jnp.where(stuck, 0, free)
    gradient = loose * gradient
    scaling = jnp.diagonal(bend) ** -0.5
    bend = bend * loose[:, None] * loose[None] + jnp.diag((1 - loose) * jnp.diagonal(bend))
    inverse = positive_inverse(bend * scaling[:, None] * scaling[None])
    change = -scaling * (inverse @ (scaling * gradient))
    gain = -gradient @ change / 2
    change = change.at[:-2].set(jnp.clip(change[:-2], -1, 1))
    return change, gain, evidence_of(rows, innovation, variance)
