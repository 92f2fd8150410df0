"""Robust linear regression on a tree: clients whose models may differ, with outliers in the data.

    minimise   sum_n f_n(w_n) + links,    f_n(w) = sum_i c_ni |t_ni - a_ni^T w| / sum_i c_ni

Client n has samples (a_ni, t_ni) with weights c_ni >= 0 (zero for padding). The loss is nonsmooth
and convex; a sum of moduli has no closed prox, so clients step along its smoothed gradient:

    grad f_n(w; mu) = sum_i c_ni clip((a_ni^T w - t_ni) / mu, -1, 1) a_ni / sum_i c_ni

Reference: least absolute deviations, P. J. Huber, E. M. Ronchetti, "Robust Statistics", Wiley 2009,
chapter 7; the smoothing as in R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and
Non-smooth Hierarchical Federated Learning".
"""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import trees
from fedjax_admm._checks import (
    count,
    countable,
    default_float,
    every_client,
    finite_array,
    number,
    scalar,
    several,
    squarable,
    typed_key,
    whole_numbers,
)
from fedjax_admm._host._programs import compiled_alone
from fedjax_admm._linear_algebra import top_eigenvalue
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop
from fedjax_admm.problems._client_arrays import client_rows
from fedjax_admm.trees import Tree

_HIGHEST = jax.lax.Precision.HIGHEST


@pytree_dataclass
class RobustRegression:
    """Clients with their samples, their tree, and where the search starts."""

    features: jax.Array  # shape=(clients, dim, samples): a_ni; samples last, for fast products
    targets: jax.Array  # shape=(clients, samples): t_ni
    weights: jax.Array  # shape=(clients, samples): c_ni, zero for padding; no client has none
    tree: Tree
    start: jax.Array  # shape=(dim,): first model of every node
    truth: jax.Array | None = None  # shape=(clients, dim): each client's own model, where known

    spread: ClassVar[tuple[str, ...]] = ("features", "targets", "weights", "truth")

    @property
    def num_clients(self) -> int:
        """Return the number of clients."""
        return self.features.shape[0]

    @property
    def dim(self) -> int:
        """Return the number of features."""
        return self.features.shape[1]

    def values(self, points: jax.Array) -> jax.Array:
        """Return each loss at its own point: points (clients, dim), result (clients,)."""
        return jnp.sum(self._shares() * jnp.abs(self._residuals(points)), -1)

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return a subgradient of each loss at its own point, shape (clients, dim); sign(0) = 0."""
        return self._back(jnp.sign(self._residuals(points)))

    def smoothed_gradients(self, points: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the gradient of each smoothed loss; points (clients, dim), mu (clients,)."""
        return self._back(jnp.clip(self._residuals(points) / mu[:, None], -1, 1))

    def project(self, points: jax.Array) -> jax.Array:
        """Return points (..., dim) as they are: there is no constraint."""
        return points

    def curvature(self) -> jax.Array:
        """Return the largest eigenvalue of `sum_i c a a^T / sum_i c` per client, shape (clients,).

        A smoothed loss has a gradient with this Lipschitz constant, over mu: the linearised update
        descends where sigma mu is at least half of it.
        """
        weighted = self._shares()[:, None] * self.features
        moments = jnp.einsum("nji,nki->njk", weighted, self.features, precision=_HIGHEST)
        return jax.vmap(top_eigenvalue)(moments)

    def _residuals(self, points: jax.Array) -> jax.Array:
        fitted = jnp.einsum("nji,nj->ni", self.features, points, precision=_HIGHEST)
        return fitted - self.targets

    def _back(self, slopes: jax.Array) -> jax.Array:
        """Return `sum_i share_ni slope_ni a_ni`."""
        return jnp.einsum(
            "ni,nji->nj",
            self._shares() * slopes,
            self.features,
            precision=_HIGHEST,
        )

    def _shares(self) -> jax.Array:
        return self.weights / jnp.sum(self.weights, -1, keepdims=True)


def robust_regression(
    features: Sequence[ArrayLike],
    targets: Sequence[ArrayLike],
    tree: Tree | None = None,
    *,
    weights: Sequence[ArrayLike] | None = None,
    start: ArrayLike | None = None,
    truth: ArrayLike | None = None,
) -> RobustRegression:
    """Build a robust regression problem from each client's samples.

    Args:
      features: one array (samples of that client, dim) per client; their lengths may differ.
      targets: one array (samples of that client,) per client.
      tree: of the clients; all at one server if None.
      weights: one array (samples of that client,) per client, not negative; all 1 if None.
      start: the first model, shape (dim,); zero if None.
      truth: the true model of every client, shape (clients, dim), if it is known.

    Returns:
      The problem; shorter clients are padded with samples of weight zero.
    """
    several("features", features, "one array per client")
    columns = {"targets": targets} if weights is None else {"targets": targets, "weights": weights}
    a, rest, sizes = client_rows(features, columns, len(features))
    clients, longest, dim = a.shape
    tree = trees.star(clients) if tree is None else tree
    trees.check_clients(tree, clients)
    if weights is None:
        rest.append((np.arange(longest) < sizes[:, None]).astype(a.dtype))
    t, c = rest
    number("weights", c, at_least=0)
    every_client("weights", np.any(c > 0, axis=1), "positive weight", "leave that client out")
    a, t, c = (jnp.asarray(part) for part in (a, t, c))
    squarable("features", a)
    squarable("targets", t, small=False)
    start = jnp.zeros(dim, a.dtype) if start is None else start
    start = finite_array("start", start, (dim,)).astype(a.dtype)
    if truth is not None:
        truth = finite_array("truth", truth, (clients, dim)).astype(a.dtype)
    return RobustRegression(jnp.swapaxes(a, 1, 2), t, c, tree, start, truth)


def clusters_of_clients(
    servers: Sequence[int], clients_per_server: int, strangers: int
) -> np.ndarray:
    """Return the cluster of every client, as `draw_robust_regression` has them.

    Args:
      servers: the cluster of each edge server, from 0.
      clients_per_server: clients of each.
      strangers: how many of them, the last ones, belong to the next cluster (after the last
        cluster comes the first).

    Returns:
      Shape (clients,), int.
    """
    home = np.asarray(whole_numbers("servers", servers))
    per_server = count("clients_per_server", clients_per_server)
    countable(servers=home.size, clients_per_server=per_server)
    strangers = count("strangers", strangers, at_least=0, at_most=per_server)
    stranger = np.arange(per_server) >= per_server - strangers
    return np.where(stranger, (home[:, None] + 1) % (home.max() + 1), home[:, None]).ravel()


def draw_robust_regression(
    key: jax.Array,
    samples: ArrayLike,
    *,
    servers: Sequence[int] = (0, 0, 0, 1, 2),
    clients_per_server: int = 10,
    strangers: int = 2,
    dim: int = 10,
    distinct: int = 3,
    difference: ArrayLike = 2.0,
    most_samples: int = 80,
    noise: ArrayLike = 0.5,
    outliers: ArrayLike = 0.1,
) -> RobustRegression:
    """Draw clients of several clusters, each cluster with a model of its own.

    Edge server e belongs to cluster `servers[e]`, and so do its clients, except for its last
    `strangers`, which belong to the next cluster. A cluster's model is a common standard normal
    one, moved up or down by `difference` in `distinct` random entries of its own. Features are
    standard normal, the noise is Laplace, and a share of the targets has ten times the noise.

    Args:
      key: a typed key. With the same key, more samples only add to those that were there.
      samples: samples per client, at most `most_samples`; a leaf, so it can be vmapped.
      servers: the cluster of each edge server, from 0.
      clients_per_server: clients of each.
      strangers: how many of them belong elsewhere.
      dim: number of features.
      distinct: in how many entries a cluster's model differs from the common one.
      difference: by how much.
      most_samples: the size of the arrays.
      noise: scale of the noise (its mean modulus), in units of the targets.
      outliers: share of targets with ten times the noise.

    Returns:
      The problem, on a tree with one edge server per entry of `servers`.
    """
    typed_key(key)
    dim, most_samples = count("dim", dim), count("most_samples", most_samples)
    distinct = count("distinct", distinct, at_least=0, at_most=dim)
    difference = scalar("difference", difference, at_least=0)
    samples = scalar("samples", samples, at_least=1, at_most=most_samples)
    noise = scalar("noise", noise, at_least=0)
    outliers = scalar("outliers", outliers, at_least=0, at_most=1)
    cluster = clusters_of_clients(servers, clients_per_server, strangers)
    return _drawn(
        *(key, samples, difference, noise, outliers),
        cluster=tuple(cluster.tolist()),
        servers=len(servers),
        dim=dim,
        distinct=distinct,
        most_samples=most_samples,
    )


@compiled_alone
def _drawn(
    key, samples, difference, noise, outliers, *, cluster, servers, dim, distinct, most_samples
) -> RobustRegression:
    key, cluster, dtype = one_loop(key), np.array(cluster), default_float()
    clusters = int(cluster.max()) + 1
    shape = (cluster.size, most_samples)
    model_key, place_key, sign_key, feature_key, noise_key, outlier_key = jax.random.split(key, 6)
    moved = jnp.argsort(jax.random.uniform(place_key, (clusters, dim))) < distinct
    signs = jax.random.rademacher(sign_key, (clusters, dim), dtype)
    common = jax.random.normal(model_key, (1, dim), dtype)
    truth = (common + jnp.where(moved, difference.astype(dtype) * signs, 0))[cluster]
    features = jax.random.normal(feature_key, (cluster.size, dim, most_samples), dtype)
    errors = noise.astype(dtype) * jax.random.laplace(noise_key, shape, dtype)
    outlying = jax.random.uniform(outlier_key, shape, dtype) < outliers.astype(dtype)
    exact = jnp.einsum("nji,nj->ni", features, truth, precision=_HIGHEST)
    targets = exact + jnp.where(outlying, 10, 1) * errors
    present = jnp.arange(most_samples, dtype=dtype) < samples.astype(dtype)
    weights = jnp.broadcast_to(present.astype(dtype), shape)
    tree = trees.from_counts([cluster.size // servers] * servers)
    return RobustRegression(features, targets, weights, tree, jnp.zeros(dim, dtype), truth)
