"""Range localisation: sensors that know their own place and one noisy distance to a target.

    minimise over w   sum_l f_l(w),    f_l(w) = | ||w - a_l|| - d_l |

Client l is a sensor at `a_l` with one range `d_l > 0`; positions and ranges are in metres. The
problem is nonsmooth and nonconvex, and each `f_l` is a difference of convex functions:

    f_l = Gamma_l - phi_l
    Gamma_l(x) = 2 max(0, ||x - a_l|| - d_l),   phi_l(x) = ||x - a_l|| - d_l

Reference: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
Localization", arXiv:2503.09497 (2025), equations (3)-(8). No factor 1/L is used.
"""

import inspect
from functools import partial
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import (
    InputError,
    build,
    count,
    declared,
    default_float,
    finite_array,
    is_concrete,
    number,
    one_line,
    positive,
    real_array,
    scalar,
    typed_key,
)
from fedjax_admm._pytrees import pytree_dataclass

MINIMUM_RANGE = 1e-3
"""Metres; drawn ranges below it are raised to it (for d <= 0, f is ||w - a|| plus a constant)."""


@pytree_dataclass
class Localization:
    """Sensors, their ranges, and where the search starts."""

    anchors: jax.Array  # shape=(clients, dim): sensor positions, metres
    distances: jax.Array  # shape=(clients,): measured ranges, metres, positive
    start: jax.Array  # shape=(dim,): the server's first guess, metres
    target: jax.Array | None = None  # shape=(dim,): the true position, where it is known

    spread: ClassVar[tuple[str, ...]] = ("anchors", "distances")

    @property
    def num_clients(self) -> int:
        """Return the number of sensors."""
        return self.anchors.shape[0]

    @property
    def dim(self) -> int:
        """Return the dimension of space."""
        return self.anchors.shape[1]

    def residuals(self, position: jax.Array) -> jax.Array:
        """Return `||w - a_l|| - d_l` in metres, shape (clients,), for one position (dim,)."""
        return kernels.safe_norm(position[None, :] - self.anchors) - self.distances

    def values(self, points: jax.Array) -> jax.Array:
        """Return each `f_l` at its own point, metres: (clients, dim) to (clients,)."""
        return jnp.abs(kernels.safe_norm(points - self.anchors) - self.distances)

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return one subgradient of each `f_l` at its own point.

        Args:
          points: shape (clients, dim), one point per client.
          key: not used: a client has one range.

        Returns:
          Shape (clients, dim): `sign(||x - a|| - d) (x - a) / max(||x - a||, 1e-12)`, zero at
          the sensor itself and on the sphere.
        """
        offset = points - self.anchors
        distance = kernels.safe_norm(offset)
        slope = jnp.sign(distance - self.distances) / jnp.maximum(distance, 1e-12)
        return slope[:, None] * offset

    def prox_convex_part(self, points: jax.Array, step: jax.Array) -> jax.Array:
        """Return the prox of each `Gamma_l`; points (clients, dim), step (clients,)."""
        # Metres are far from the ends of the range: `localization` looks after that.
        return kernels.prox_range_excess(points, self.anchors, self.distances, step, scaled=False)

    def prox_concave_part(self, points: jax.Array, step: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the prox of minus the Moreau envelope of each `phi_l`, for `step < mu`.

        Points (clients, dim), step and mu (clients,).
        """
        return kernels.prox_negative_moreau_norm(points, self.anchors, step, mu, scaled=False)


_NOT_NEGATIVE = partial(number, at_least=0)


class RangeNoise(Protocol):
    """How true distances become measured ranges."""

    def __call__(self, key: jax.Array, distances: jax.Array) -> jax.Array:
        """Return noisy ranges of the shape of `distances`, not yet clipped."""
        ...


@pytree_dataclass
class NoNoise:
    """Exact ranges."""

    def __call__(self, key, distances):
        """Return the distances."""
        return distances


@pytree_dataclass
class GaussianNoise:
    """Ranges with independent normal errors."""

    deviation: jax.Array = declared(_NOT_NEGATIVE)  # shape=(): standard deviation, metres

    def __call__(self, key, distances):
        """Return `d + deviation * normal`."""
        return distances + self.deviation * jax.random.normal(key, distances.shape, distances.dtype)


@pytree_dataclass
class CauchyNoise:
    """Ranges with independent Cauchy errors: no mean, heavy tails."""

    scale: jax.Array = declared(_NOT_NEGATIVE)  # shape=(): half the interquartile range, metres

    def __call__(self, key, distances):
        """Return `d + scale * cauchy`."""
        return distances + self.scale * jax.random.cauchy(key, distances.shape, distances.dtype)


@pytree_dataclass
class OutlierNoise:
    """Exact ranges, except that each is replaced by a uniform one with some probability."""

    probability: jax.Array = declared(partial(number, at_least=0, at_most=1))  # shape=()
    largest: jax.Array = positive(stacked=True)  # shape=(), metres: of the range of an outlier

    def __call__(self, key, distances):
        """Return outliers where a uniform draw is below the probability.

        The draws do not depend on the probability, so a larger one only adds outliers.
        """
        choice_key, range_key = jax.random.split(key)
        moved = jax.random.uniform(choice_key, distances.shape, distances.dtype) < self.probability
        outlier = self.largest * jax.random.uniform(range_key, distances.shape, distances.dtype)
        return jnp.where(moved, outlier, distances)


def no_noise() -> NoNoise:
    """Exact ranges."""
    return NoNoise()


def gaussian_noise(deviation: ArrayLike) -> GaussianNoise:
    """Ranges with independent normal errors of a standard deviation in metres."""
    return build(GaussianNoise, **locals())


def cauchy_noise(scale: ArrayLike) -> CauchyNoise:
    """Ranges with independent Cauchy errors; the scale (metres) is half the interquartile range."""
    return build(CauchyNoise, **locals())


def outlier_noise(probability: ArrayLike, largest: ArrayLike = 60 * 3**0.5) -> OutlierNoise:
    """Exact ranges, each replaced with some probability by a uniform one on [0, largest] metres.

    The default largest range is the diagonal of the cube of the paper.
    """
    return build(OutlierNoise, **locals())


# Squares of lengths stay within float32, and those of differences too.
_FARTHEST = 1e15


def localization(
    anchors: ArrayLike,
    distances: ArrayLike,
    *,
    start: ArrayLike | None = None,
    target: ArrayLike | None = None,
) -> Localization:
    """Build a localisation problem from measurements.

    Args:
      anchors: sensor positions, shape (clients, dim), metres. They must span space; sensors in one
        plane need a `start` on the target's side of it.
      distances: measured ranges, shape (clients,), metres, positive.
      start: the first guess, shape (dim,); the mean of the sensors if None.
      target: the true position, shape (dim,), if it is known.
    """
    anchors = finite_array("anchors", anchors, (None, None))
    real_array("distances", distances)
    for name, numbers in (("anchors", anchors), ("distances", distances)):
        if not is_concrete(numbers):
            continue
        largest = np.max(np.abs(np.asarray(numbers, np.float64)), initial=0)
        if largest > _FARTHEST:
            raise InputError(
                f"must not exceed {_FARTHEST:g} m, but the largest entry is {largest:g}",
                argument=name,
                value=numbers,
                remedy="give lengths in a larger unit",
            )
    clients, dim = anchors.shape
    if clients == 0 or dim == 0:
        raise InputError(
            f"must hold at least one sensor, but its shape is {anchors.shape}",
            argument="anchors",
            value=anchors,
        )
    distances = finite_array("distances", distances, (clients,)).astype(anchors.dtype)
    number("distances", distances, above=0)
    first = jnp.mean(anchors, 0) if start is None else finite_array("start", start, (dim,))
    _check_spread(anchors, first, start is not None)
    if target is not None:
        target = finite_array("target", target, (dim,)).astype(anchors.dtype)
    return Localization(anchors, distances, first.astype(anchors.dtype), target)


def _check_spread(anchors: jax.Array, start: jax.Array, own_start: bool) -> None:
    """Check that ranges to the sensors determine the target.

    Sensors in one plane (or on one line of a plane) leave two mirror images, between which a given
    start decides.
    """
    if not is_concrete((anchors, start)):
        return
    places = np.asarray(anchors, np.float64)
    dim = places.shape[1]
    offsets = places - places[0]
    # Ignore offsets below the rounding of the places.
    rounding = 4 * float(jnp.finfo(anchors.dtype).eps) * max(float(np.max(np.abs(places))), 1e-300)
    rank = int(np.linalg.matrix_rank(offsets, tol=rounding * np.sqrt(places.size)))
    if rank == dim:
        return
    if rank == dim - 1:
        toward = np.asarray(start, np.float64) - places[0]
        beside = np.vstack([offsets, toward])
        if own_start and np.linalg.matrix_rank(beside, tol=rounding * np.sqrt(beside.size)) == dim:
            return
        words = "must span space, but a target and its mirror image fit them alike"
        remedy = "add a sensor beside the others, or give {start} on the target's side of them"
    else:
        words = (
            f"must span space, but {len(places)} sensors of rank {rank} in {dim} dimensions fit "
        )
        words += "a whole circle of targets alike"
        remedy = "add sensors at other places"
    raise InputError(words, argument="anchors", value=anchors, remedy=remedy, others=["start"])


def draw_localization(
    key: jax.Array,
    noise: RangeNoise,
    *,
    clients: int = 21,
    dim: int = 3,
    half_width: ArrayLike = 30.0,
) -> Localization:
    """Draw a random problem: sensors and target uniform in a cube around the origin.

    Args:
      key: a typed key. Geometry and noise have keys of their own: with the same key, two noises
        (or two strengths of one noise) share the geometry.
      noise: how distances become ranges, e.g. `cauchy_noise(1.0)`.
      clients: number of sensors.
      dim: dimension of space.
      half_width: half the edge of the cube, metres.

    Returns:
      A problem that starts at the centre of the cube, with ranges of at least `MINIMUM_RANGE`.
    """
    typed_key(key)
    _check_noise(noise)
    clients, dim = count("clients", clients), count("dim", dim)
    half_width = scalar("half_width", half_width, above=0)
    anchor_key, target_key, noise_key = jax.random.split(key, 3)
    dtype = default_float()
    half = half_width.astype(dtype)
    anchors = half * jax.random.uniform(anchor_key, (clients, dim), dtype, -1, 1)
    target = half * jax.random.uniform(target_key, (dim,), dtype, -1, 1)
    exact = kernels.safe_norm(target[None, :] - anchors)
    distances = jnp.maximum(noise(noise_key, exact), MINIMUM_RANGE)
    return Localization(anchors, distances, jnp.zeros(dim, dtype), target)


def _check_noise(noise: Any) -> None:
    """Check that a noise model can be called as one, and is not the builder of one."""
    try:
        inspect.signature(noise).bind("key", "distances")
    except TypeError:
        raise InputError(
            f"must be a noise model such as cauchy_noise(1.0), but it is {one_line(noise)}",
            argument="noise",
            value=noise,
        ) from None
