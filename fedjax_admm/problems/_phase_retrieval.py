"""Robust phase retrieval: each client knows the square of one projection of a signal.

    minimise over w   sum_n f_n(w),    f_n(w) = |y_n - (x_n^T w)^2|,    |w_i| <= radius

Client n has a measurement vector `x_n` and one intensity `y_n`, in units of the signal squared. The
problem is nonsmooth, nonconvex, and blind to the sign of w.

Reference: R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical
Federated Learning", section on the simulations. The loss and a spectral start: J. C. Duchi and
F. Ruan, "Solving (most) of a set of quadratic equalities: composite optimization for robust phase
retrieval", Information and Inference 8 (2019) 471-529.
"""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels, trees
from fedjax_admm._checks import (
    count,
    countable,
    default_float,
    finite_array,
    flag,
    is_concrete,
    one_of,
    refuse,
    scalar,
    squarable,
    typed_key,
)
from fedjax_admm._host._programs import compiled_alone
from fedjax_admm._linear_algebra import top_eigenvector
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop
from fedjax_admm.trees import Tree

SIGNAL_DENSITY, VECTOR_DENSITY = 8 / 25, 20 / 25
"""Shares of entries that are not zero, in the signal and in a cluster's measurement vectors."""

NOISE_POWER = 0.9 * 2 + 0.1 * 2 * 100
"""E noise^2 times rate^2: exponential of rate 1 (nine in ten) or 1/10."""

NEAR = 0.3
"""Distance of the start "near" from the signal, relative to its length."""

# The prox of the residual, by the treatment of the box.
BOXES: dict[str, Callable[..., jax.Array]] = {
    "clip": kernels.prox_phase_residual_clipped,
    "exact": kernels.prox_phase_residual_box,
    "none": lambda v, step, x, y, radius: kernels.prox_phase_residual(v, step, x, y),
}


@pytree_dataclass
class PhaseRetrieval:
    """Clients with one intensity each, their tree, and where the search starts."""

    x: jax.Array  # shape=(clients, dim): measurement vectors
    y: jax.Array  # shape=(clients,): measured intensities; noise can make them negative
    tree: Tree
    start: jax.Array  # shape=(dim,): first model of every node; never 0, a stationary point
    radius: jax.Array  # shape=(): half the width of the box
    truth: jax.Array | None = None  # shape=(dim,): the signal, up to its sign, where it is known
    box: str = field(default="clip", metadata={"static": True})  # "clip", "exact" or "none"

    spread: ClassVar[tuple[str, ...]] = ("x", "y")

    @property
    def num_clients(self) -> int:
        """Return the number of clients."""
        return self.x.shape[0]

    @property
    def dim(self) -> int:
        """Return the length of the signal."""
        return self.x.shape[1]

    def values(self, points: jax.Array) -> jax.Array:
        """Return each `|y_n - (x_n^T w)^2|` at its own point, (clients,); the box is not in it."""
        return jnp.abs(jnp.square(jnp.sum(self.x * points, -1)) - self.y)

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return `2 sign((x^T w)^2 - y) (x^T w) x` per client at its own point, sign(0) = 0."""
        projection = jnp.sum(self.x * points, -1)
        slope = jnp.sign(jnp.square(projection) - self.y)
        return (2 * slope * projection)[:, None] * self.x

    def smoothed_gradients(self, points: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the gradient of `h_mu(y - (x^T w)^2)` per client; points (clients, dim)."""
        projection = jnp.sum(self.x * points, -1)
        slope = jnp.clip((jnp.square(projection) - self.y) / mu, -1, 1)
        return (2 * slope * projection)[:, None] * self.x

    def prox_memory(self, start: jax.Array) -> tuple[()]:
        """Return nothing: the prox is exact, or an approximation that starts anew."""
        return ()

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        """Return the prox of each loss and the memory; points (clients, dim), step (clients,).

        With `box="exact"` it is that of the loss on the box; with "clip" (exact where the box does
        not bind, an approximation where it does) the clipped prox of the loss alone; with "none"
        there is no box.
        """
        return BOXES[self.box](points, step, self.x, self.y, self.radius), memory

    def project(self, points: jax.Array) -> jax.Array:
        """Return points (..., dim) clipped to the box, if there is one."""
        return points if self.box == "none" else kernels.project_linf_ball(points, self.radius)

    def take(self, clients: jax.Array) -> "PhaseRetrieval":
        """Return the problem of some clients, (count,), int32, at one server."""
        tree = trees.star(clients.shape[0])
        return replace(self, x=self.x[clients], y=self.y[clients], tree=tree)


def phase_retrieval(
    x: ArrayLike,
    y: ArrayLike,
    tree: Tree | None = None,
    *,
    start: ArrayLike | None = None,
    radius: ArrayLike = 5.0,
    box: str = "clip",
    truth: ArrayLike | None = None,
) -> PhaseRetrieval:
    """Build a phase-retrieval problem from measurements.

    Args:
      x: measurement vectors, shape (clients, dim).
      y: intensities, shape (clients,).
      tree: of the clients; all at one server if None.
      start: the first model, shape (dim,), not zero; `spectral_start` if None.
      radius: every |w_i| is at most this.
      box: how the prox treats the box: "clip", "exact" (dearer) or "none".
      truth: the signal, shape (dim,), if it is known.
    """
    x = finite_array("x", x, (None, None))
    clients, dim = x.shape
    y = finite_array("y", y, (clients,)).astype(x.dtype)
    squarable("y", y, small=False)
    squarable("x", x)
    if is_concrete(x):  # the spectral start has products of y and two of x
        squarable("x^2", jnp.square(x), small=False)
    tree = trees.star(clients) if tree is None else tree
    trees.check_clients(tree, clients)
    one_of("box", box, BOXES)
    start = spectral_start(x, y) if start is None else finite_array("start", start, (dim,))
    zero = is_concrete(start) and not np.any(np.asarray(start))
    told = "must not be zero, where every loss is stationary (a spectral one is, where x or y are)"
    refuse(zero, "start", told, remedy="give another one")
    radius = scalar("radius", radius, above=0).astype(x.dtype)
    if truth is not None:
        truth = finite_array("truth", truth, (dim,)).astype(x.dtype)
    return PhaseRetrieval(x, y, tree, start.astype(x.dtype), radius, truth, box)


def spectral_start(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return a model of about the right direction and length, from an eigenvector.

    With t = clip(y, 0, 3 median(y)) and D diagonal, D_m = (mean x_m^2)^(-1/2): u = D times the top
    eigenvector of D (mean t x x^T) D, scaled by sqrt(median(y) / median((x^T u)^2)). Entries of
    the signal that no client sees stay 0. Where a median is not positive, the mean of |y|, or of
    (x^T u)^2, stands in.

    Args:
      x: measurement vectors, shape (clients, dim).
      y: intensities, shape (clients,).

    Returns:
      Shape (dim,).
    """
    level = _median_or_mean(y, jnp.abs(y))
    # With a trace of the plain moment, so that intensities that are all negative still give one.
    tiny = jnp.finfo(x.dtype).eps * level
    trimmed = jnp.clip(y, tiny, 3 * level)
    power = jnp.mean(x * x, 0)
    scale = jnp.where(power > 0, jax.lax.rsqrt(jnp.where(power > 0, power, 1)), 0)
    scaled = x * scale[None]
    moment = jnp.matmul((trimmed[:, None] * scaled).T, scaled, precision=jax.lax.Precision.HIGHEST)
    direction = scale * top_eigenvector(moment)
    squares = jnp.square(x @ direction)
    return direction * jnp.sqrt(kernels.safe_ratio(level, _median_or_mean(squares, squares)))


def _median_or_mean(values: jax.Array, positive: jax.Array) -> jax.Array:
    """Return the median of `values`, or the mean of `positive` where that is not positive."""
    median = jnp.median(values)
    return jnp.where(median > 0, median, jnp.mean(positive))


def _random_start(key, x, y, truth):
    return jax.random.normal(key, truth.shape, truth.dtype)


def _near_start(key, x, y, truth):
    direction = jax.random.normal(key, truth.shape, truth.dtype)
    length = NEAR * kernels.safe_norm(truth)
    return truth + length * direction / kernels.safe_norm(direction)


STARTS = {
    "spectral": lambda key, x, y, truth: spectral_start(x, y),
    "random": _random_start,
    "near": _near_start,
}
"""Where a drawn problem starts: from the data, at N(0, I), or close to the signal."""


def draw_phase_retrieval(
    key: jax.Array,
    snr: ArrayLike = 20.0,
    *,
    clusters: int = 5,
    clients_per_cluster: int = 50,
    dim: int = 25,
    signed: bool = False,
    start: str = "spectral",
) -> PhaseRetrieval:
    """Draw a random problem on a tree with one edge server per cluster.

    The signal has 8 of 25 entries standard normal, the others zero. Measurement vectors are
    standard normal, with 20 of 25 entries kept, the same ones within a cluster. The noise of
    y = (x^T w)^2 + noise is exponential, with ten times the mean for one client in ten, scaled so
    that mean (x^T w)^2 / E noise^2 is the SNR. (As in the paper, this compares the noise with the
    projection and not with its square.)

    Args:
      key: a typed key. With the same key, all SNRs share everything but the size of the noise.
      snr: in dB; the paper prints -20, and 20 separates methods.
      clusters: number of edge servers.
      clients_per_cluster: clients of each.
      dim: length of the signal.
      signed: whether every noise gets a random sign; it is positive otherwise.
      start: "spectral", "random" or "near", as `STARTS` has them.

    Returns:
      The problem; the box has the radius 5 and is clipped to.
    """
    typed_key(key)
    flag("signed", signed)
    clusters = count("clusters", clusters)
    clients_per_cluster = count("clients_per_cluster", clients_per_cluster)
    dim = count("dim", dim)
    countable(clusters=clusters, clients_per_cluster=clients_per_cluster)
    snr = scalar("snr", snr)
    one_of("start", start, STARTS)
    shape = clusters, clients_per_cluster, dim
    return _drawn(key, snr, shape=shape, signed=signed, start=start)


@compiled_alone
def _drawn(key, snr, *, shape: tuple[int, int, int], signed: bool, start: str) -> PhaseRetrieval:
    (clusters, clients_per_cluster, dim), dtype = shape, default_float()
    key = one_loop(key)
    signal_key, support_key, vector_key, mask_key, noise_key, start_key = jax.random.split(key, 6)
    support = _places(support_key, 1, dim, SIGNAL_DENSITY)[0]
    truth = jnp.where(support, jax.random.normal(signal_key, (dim,), dtype), 0)
    mask = _places(mask_key, clusters, dim, VECTOR_DENSITY)
    x = jnp.where(mask[:, None], jax.random.normal(vector_key, shape, dtype), 0).reshape(-1, dim)
    projection = jnp.square(x @ truth)
    # A draw in which no client sees the signal has noise of the size of 1.
    power = jnp.mean(projection)
    power = jnp.where(power > 0, power, 1)
    rate = jnp.sqrt(NOISE_POWER / power) * 10 ** (snr.astype(dtype) / 20)
    y = projection + _noise(noise_key, projection.shape, dtype, signed) / rate
    tree = trees.from_counts([clients_per_cluster] * clusters)
    first = STARTS[start](start_key, x, y, truth)
    return PhaseRetrieval(x, y, tree, first, jnp.asarray(5, dtype), truth)


def _places(key: jax.Array, rows: int, dim: int, share: float) -> jax.Array:
    """Choose the same number of random places in each row: bool, shape (rows, dim)."""
    ranks = jnp.argsort(jax.random.uniform(key, (rows, dim)))
    return ranks < max(1, round(share * dim))


def _noise(key: jax.Array, shape: tuple[int, ...], dtype, signed: bool) -> jax.Array:
    """Draw noise for rate 1: exponential, ten times as large for one client in ten."""
    size_key, outlier_key, sign_key = jax.random.split(key, 3)
    common = jax.random.uniform(outlier_key, shape, dtype) < 0.9
    noise = jax.random.exponential(size_key, shape, dtype) * jnp.where(common, 1, 10)
    if not signed:
        return noise
    return jnp.where(jax.random.bernoulli(sign_key, shape=shape), noise, -noise)
