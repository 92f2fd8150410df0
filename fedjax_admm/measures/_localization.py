"""Measures of localisation: the distance to the target, and whether a region covers it."""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm.capabilities import KnownTarget
from fedjax_admm.kernels import safe_norm
from fedjax_admm.measures._shared import measure

FAILURE_DISTANCE = 3.0
"""Metres: a localisation further off than this has met a local minimum (or very noisy ranges)."""


@measure(KnownTarget)
def localization_error(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure the distance of the estimate to the target of a localisation problem.

    Returns:
      "error": `||w - target||` in metres, which is the root mean square over clients, because
      all of them hold the server's w; "failure": 1 where it exceeds `FAILURE_DISTANCE`, else 0
      (NaN where the error is); both shape ().
    """
    return position_error(problem, solver.estimate(state))


@measure(KnownTarget)
def position_error(problem: Any, position: jax.Array) -> dict[str, jax.Array]:
    """Return "error" and "failure", as `localization_error` does, for a position (dim,)."""
    error = safe_norm(position - problem.target)
    failure = (error > FAILURE_DISTANCE).astype(error.dtype)
    return {"error": error, "failure": jnp.where(jnp.isnan(error), error, failure)}


@measure(KnownTarget)
def region_coverage(problem: Any, region: Any) -> dict[str, jax.Array]:
    """Measure whether a region holds the target; its mean over trials is the coverage.

    Args:
      problem: with a target, shape (dim,), or (times, dim) of a path.
      region: with `contains(points)` and `radius()`, such as `regions.ellipse(...)`.

    Returns:
      "covered": 1 where the region contains the target, else 0; of a path the share of times;
      "radius": that of the region, metres, of a path the mean; both shape ().
    """
    radius = region.radius()
    covered = region.contains(problem.target).astype(radius.dtype)
    return {"covered": jnp.mean(covered), "radius": jnp.mean(radius)}
