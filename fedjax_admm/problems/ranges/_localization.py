"""Range localisation: sensors that know their own place and one noisy distance to a target.

    minimise over w   sum_l f_l(w),    f_l(w) = | ||w - a_l|| - d_l |

Client l is a sensor at `a_l` with one range `d_l > 0`; positions and ranges are in metres. The
problem is nonsmooth and nonconvex, and each `f_l` is a difference of convex functions:

    f_l = Gamma_l - phi_l
    Gamma_l(x) = 2 max(0, ||x - a_l|| - d_l),   phi_l(x) = ||x - a_l|| - d_l

Reference: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
Localization", arXiv:2503.09497 (2025), equations (3)-(8). No factor 1/L is used.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import (
    InputError,
    finite_array,
    is_concrete,
    number,
    real_array,
    refuse,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.problems.ranges._measured import RangeLocalization, measured_ranges


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


# Squares of lengths stay within float32, and those of differences too.
_FARTHEST = 1e15


def localization(
    anchors: ArrayLike,
    distances: ArrayLike,
    *,
    start: ArrayLike | None = None,
    target: ArrayLike | None = None,
    sigma: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    offset_scale: ArrayLike | None = None,
    offset_centre: ArrayLike | None = None,
    offset_bounds: tuple[ArrayLike, ArrayLike] | None = None,
    clock: bool = False,
    path: bool = False,
) -> Localization | RangeLocalization:
    """Build a localisation problem from measurements, `d = scale (||x - a|| + c + b) + noise`.

    With one range of every sensor and none of the options the problem is that of the paper, a
    `Localization`; otherwise it is a `RangeLocalization`, whose clients find their offsets b
    themselves and tell them to nobody. Its losses are `weight / sigma |residual|` and
    `(b - centre)^2 / (2 offset_scale^2)`, all divided by one number that makes their mean slope at
    a sensor 1: minimisers stay, and slopes are those for which constants of solvers were chosen.

    Args:
      anchors: sensor positions, shape (clients, dim), metres. They must span space; sensors in one
        plane need a `start` on the target's side of it. One sensor with a `start` is a client of a
        deployment: its losses are not divided, because only all clients have a mean slope.
      distances: measured ranges, shape (clients,), metres, positive; (clients, ranges) of sensors
        with several ranges; (clients, times) or (clients, times, ranges) with `path`. NaN is a
        range that is missing.
      start: the first guess, shape (dim,), or (times, dim) of a path; the mean of the sensors if
        None.
      target: the true position, shape (dim,), or (times, dim) of a path, if it is known.
      sigma: scale of the errors, metres: a number, one per client, or one per range; 1 if None.
      weight: of ranges besides, likewise.
      scale: known factor of ranges, a number or one per client; 1 if None.
      offset_scale: standard deviation of the prior of offsets, metres, a number or one per client.
        With neither it nor bounds there are no offsets.
      offset_centre: mean of that prior, metres; 0 if None.
      offset_bounds: `(lower, upper)` of offsets, metres: `(0, inf)` for the detours of blocked
        paths; `(-inf, inf)` without a prior.
      clock: whether all ranges of a time share an unknown offset c, as those of a target whose
        clock is not synchronous do. The model has a further entry for it, and ranges may be
        negative. Differences of ranges to a common anchor are such ranges: its own is 0.
      path: whether there is a position for each of several times.
    """
    anchors = finite_array("anchors", anchors, (None, None))
    real_array("distances", distances)
    for name, numbers in (("anchors", anchors), ("distances", distances)):
        if not is_concrete(numbers):
            continue
        largest = np.nanmax(np.abs(np.asarray(numbers, np.float64)), initial=0)
        told = f"must not exceed {_FARTHEST:g} m, but the largest entry is {largest:g}"
        remedy = "give lengths in a larger unit"
        refuse(_FARTHEST < largest < np.inf, name, told, remedy=remedy)
    clients, dim = anchors.shape
    told = f"must hold at least one sensor, but its shape is {anchors.shape}"
    refuse(not anchors.size, "anchors", told)
    options = (sigma, weight, scale, offset_scale, offset_bounds)
    lone = offset_centre is not None and offset_scale is None
    refuse(lone, "offset_centre", "is the mean of a prior, and goes with {offset_scale} only")
    missing = is_concrete(distances) and np.any(np.isnan(np.asarray(distances, np.float64)))
    plain = not (clock or path or missing or np.ndim(distances) > 1)
    if plain and all(option is None for option in options):
        distances = finite_array("distances", distances, (clients,)).astype(anchors.dtype)
        number("distances", distances, above=0)
        first = jnp.mean(anchors, 0) if start is None else finite_array("start", start, (dim,))
        _check_spread(anchors, first, start is not None)
        if target is not None:
            target = finite_array("target", target, (dim,)).astype(anchors.dtype)
        return Localization(anchors, distances, first.astype(anchors.dtype), target)
    problem = measured_ranges(
        anchors,
        distances,
        start=start,
        target=target,
        sigma=sigma,
        weight=weight,
        scale=scale,
        offset_scale=offset_scale,
        offset_centre=offset_centre,
        offset_bounds=offset_bounds,
        clock=clock,
        path=path,
    )
    _check_spread(anchors, problem.start[:dim], start is not None)
    return problem


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
    alone = len(places) == 1 and own_start  # in a deployment: the others have the other ranges
    if rank == dim or alone:
        return
    if rank == dim - 1:
        toward = np.asarray(start, np.float64) - places[0]
        beside = np.vstack([offsets, toward])
        if own_start and np.linalg.matrix_rank(beside, tol=rounding * np.sqrt(beside.size)) == dim:
            return
        told = "must span space, but a target and its mirror image fit them alike"
        remedy = "add a sensor beside the others, or give {start} on the target's side of them"
    else:
        told = f"must span space, but {len(places)} sensors of rank {rank} fit a circle of targets"
        remedy = "add sensors at other places"
    raise InputError(told, "anchors", remedy)
