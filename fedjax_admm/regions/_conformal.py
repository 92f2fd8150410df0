r"""Federated conformal radii: a quantile of scores of which the server sees counts alone.

Client k holds n_k scores of past answers, such as `Ellipse.scores` of fixes whose true position is
known, or absolute residuals of ranges. It sends how many fall between the edges of a grid that all
share and that was fixed before. With N = sum_k n_k and K clients, the radius r is the least edge at
or below which `m = ceil(level (N + K))` scores lie, and infinity if there is none.

**Coverage.** Let the new score be T_k with probability (n_k + 1) / (N + K), where T_k and the n_k
scores of client k are exchangeable. Then P(new score <= r) >= level. Proof: let V be the N + K
values of all scores and all T_k together, as a multiset of each client, and q the m-th smallest of
them. Given these multisets, T_k is each of its client's n_k + 1 values alike, so that

    P(new score <= q) = sum_k (n_k + 1) / (N + K) #{v in V_k: v <= q} / (n_k + 1)
                      = #{v in V: v <= q} / (N + K) >= m / (N + K) >= level.

The m-th smallest of the N scores alone is not below q, because values are left out, and r is not
below that, because it is an edge at or above it. If all scores are exchangeable with the new one,
the same argument gives at least m / (N + 1), whatever client it comes from.

Reference: C. Lu, Y. Yu, S. P. Karimireddy, M. I. Jordan, R. Raskar, "Federated Conformal Predictors
for Distributed Uncertainty Quantification", ICML 2023, arXiv:2305.17564; V. Vovk, A. Gammerman,
G. Shafer, "Algorithmic Learning in a Random World", Springer 2005.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    finite_array,
    number,
    of_shape,
    real_array,
    rising,
)


def conformal_counts(scores: ArrayLike, edges: ArrayLike) -> jax.Array:
    """Count the scores of each client between the edges: all that a client sends.

    Args:
      scores: shape (..., samples): one client's scores, or (clients, samples); NaN is none.
      edges: shape (bins,), rising, chosen without looking at the scores.

    Returns:
      Shape (..., bins + 1), int32: entry j counts the scores above edge j - 1 and at or below edge
      j; the last one counts those above all edges.
    """
    real_array("scores", scores)
    edges = _rising(edges)
    scores = jnp.asarray(scores, edges.dtype)
    places = jnp.searchsorted(edges, scores, side="left")
    there = ~jnp.isnan(scores)
    count = len(edges) + 1
    flat, counted = places.reshape(-1, scores.shape[-1]), there.reshape(-1, scores.shape[-1])

    def counts(places: jax.Array, there: jax.Array) -> jax.Array:
        return jnp.zeros(count, jnp.int32).at[places].add(there.astype(jnp.int32))

    return jax.vmap(counts)(flat, counted).reshape(*scores.shape[:-1], count)


def conformal_radius(counts: ArrayLike, edges: ArrayLike, level: ArrayLike = 0.9) -> jax.Array:
    """Return the radius that covers a new score with at least a probability, in finite samples.

    It is the least edge with `ceil(level (N + K))` of the N scores of K clients at or below it.

    Args:
      counts: shape (clients, bins + 1), int: of `conformal_counts`; their sum is all that the
        server needs besides the number of clients.
      edges: those of the counts, shape (bins,).
      level: between 0 and 1.

    Returns:
      Shape (): an edge; infinity if the scores are too few or lie too high.

    Raises:
      InputError: the counts do not belong to the edges, or the level does not lie between 0 and 1.
    """
    edges, counts = _rising(edges), jnp.asarray(counts)
    of_shape("counts", counts, (None, len(edges) + 1))
    level = number("level", level, above=0, at_most=1).astype(edges.dtype)
    below = jnp.cumsum(jnp.sum(counts, 0))[:-1]
    values = (jnp.sum(counts) + counts.shape[0]).astype(edges.dtype)
    # Rounding must not raise a whole number to the next one.
    share = level * values * (1 - 4 * jnp.finfo(edges.dtype).eps)
    enough = below.astype(edges.dtype) >= jnp.ceil(share)
    return jnp.where(jnp.any(enough), edges[jnp.argmax(enough)], jnp.inf)


def _rising(edges: ArrayLike) -> jax.Array:
    """Check the edges of a grid."""
    array = finite_array("edges", edges, (None,))
    rising("edges", array)
    return array
