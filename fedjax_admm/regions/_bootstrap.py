r"""Bootstrap of a robust fit: refits of ranges that are drawn anew, all in one `vmap`.

    d*_lti = ||x_t - a_l|| + c_t + b_l + e*_lti / w_lti,   m*_l = b_l + normal / sqrt(p_l)

at the fit, with the standardised residuals z_i = w_i r_i and their leverages h_i:

    parametric    e* = s normal, s = 1.4826 median |z_i| / sqrt(1 - h_i); or a given noise
    residual      e* drawn from the z_i / sqrt(1 - h_i) with replacement, each with a random sign

Errors are taken to be symmetric around 0. Every replicate starts at the fit, so that replicates do
not visit other modes: `profile` shows those.

Reference: B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman and Hall 1993,
chapters 6, 9 and 13.
"""

from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import count, number, one_of, typed_key
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.losses import SampleLoss
from fedjax_admm.problems import Localization, RangeLocalization, RangeNoise
from fedjax_admm.regions._covariance import free_offsets, leverages
from fedjax_admm.regions._ellipses import Ellipse, ellipse
from fedjax_admm.regions._refine import Fit, descended
from fedjax_admm.regions._terms import Terms, checked_loss, lone, rows_of, terms_of

_MAD_TO_DEVIATION = 1.4826  # median absolute residual -> standard deviation of a normal
_DEGREES = 3.0  # of freedom of the multivariate t whose scatter shapes the ellipse
_REWEIGHTINGS = 20


@pytree_dataclass
class Replicates:
    """Positions and offsets of the replicates of a fit."""

    centre: jax.Array  # shape=(dim,), or (times, dim): the fit, metres
    positions: jax.Array  # shape=(replicates, dim), or (replicates, times, dim), metres
    offsets: jax.Array  # shape=(replicates, clients), metres

    def ellipse(self, level: ArrayLike = 0.9) -> Ellipse:
        """Return the ellipse around the fit that holds a share of the replicates.

        Its shape is the scatter of a multivariate t with 3 degrees of freedom, which few replicates
        far away do not change. Reference: J. T. Kent, D. E. Tyler, "Redescending M-estimates of
        multivariate location and scatter", Annals of Statistics 19(4) (1991).
        """
        gaps = self.positions - self.centre[None]
        dim = gaps.shape[-1]

        def squares(matrix):
            scaled = jnp.einsum("...ij,r...j->r...i", positive_inverse(matrix), gaps)
            return jnp.sum(gaps * scaled, -1)

        def reweight(matrix, _):
            weights = (_DEGREES + dim) / (_DEGREES + squares(matrix))
            return _scatter(gaps, weights), None

        first = _scatter(gaps, jnp.ones_like(gaps[..., 0]))
        matrix, _ = jax.lax.scan(reweight, first, length=_REWEIGHTINGS)
        level = number("level", level, above=0, at_most=1)
        threshold = jnp.quantile(squares(matrix), level.astype(gaps.dtype), axis=0)
        return ellipse(self.centre, matrix, level, threshold=threshold)

    def intervals(self, level: ArrayLike = 0.9) -> tuple[jax.Array, jax.Array]:
        """Return the ends of the percentile interval of each coordinate, of the centre's shape."""
        level = number("level", level, above=0, at_most=1).astype(self.centre.dtype)
        low, high = (jnp.quantile(self.positions, (1 + s * level) / 2, axis=0) for s in (-1, 1))
        return low, high


def bootstrap(
    problem: Localization | RangeLocalization,
    fit: Fit,
    key: jax.Array,
    loss: SampleLoss | None = None,
    *,
    replicates: int = 1000,
    kind: Literal["parametric", "residual"] = "parametric",
    noise: RangeNoise | None = None,
    steps: int = 10,
) -> Replicates:
    """Draw the ranges anew at a fit many times, and refit each from there.

    Args:
      problem: of which the fit is.
      fit: of `refine` with the same loss.
      key: a typed key.
      loss: as in `refine`.
      replicates: how many.
      kind: of errors: "parametric" or "residual".
      noise: of the parametric one, from distances in metres, such as `problems.cauchy_noise(1.0)`;
        normal errors of the scale of the residuals if None.
      steps: of each refit.

    Returns:
      The replicates; those with offsets draw the centres of their priors anew too.

    Raises:
      InputError: the kind is another one, or the key is none.
    """
    typed_key(key)
    one_of("kind", kind, ("parametric", "residual"))
    replicates, steps = count("replicates", replicates), count("steps", steps)
    terms = terms_of(problem)
    loss = checked_loss(loss, terms.anchors.dtype)
    rows = rows_of(problem, fit.model)
    residuals = terms.residuals(rows, fit.offsets)
    measured = terms.weights > 0
    units = jnp.where(measured, 1 / jnp.where(measured, terms.weights, 1), 0)
    exact = jnp.where(measured, terms.ranges + residuals * units, 0)
    _, ways = terms.lengths(rows)
    free = free_offsets(terms, loss, residuals, fit.offsets)
    errors = residuals / jnp.sqrt(1 - leverages(terms, loss, residuals, ways, free))
    draw = _parametric if kind == "parametric" else _residual

    def refit(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        error_key, prior_key = jax.random.split(key)
        if noise is not None and kind == "parametric":
            ranges = jnp.where(measured, noise(error_key, exact), 0)
        else:
            ranges = exact + units * draw(error_key, errors, measured)
        drawn = replace(terms, ranges=ranges, prior=_redrawn(terms, fit.offsets, prior_key))
        return descended(drawn, loss, rows, fit.offsets, steps)

    models, offsets = jax.vmap(refit)(jax.random.split(key, replicates))
    dim = terms.anchors.shape[1]
    return Replicates(lone(rows[:, :dim], 0), lone(models[..., :dim], 1), offsets)


def scale_of(errors: jax.Array, measured: jax.Array) -> jax.Array:
    """Return 1.4826 times the median absolute error of the ranges that there are, shape ()."""
    middle = jnp.nanmedian(jnp.where(measured, jnp.abs(errors), jnp.nan))
    return _MAD_TO_DEVIATION * middle


def _parametric(key: jax.Array, errors: jax.Array, measured: jax.Array) -> jax.Array:
    normal = jax.random.normal(key, errors.shape, errors.dtype)
    return scale_of(errors, measured) * normal


def _residual(key: jax.Array, errors: jax.Array, measured: jax.Array) -> jax.Array:
    place_key, sign_key = jax.random.split(key)
    flat = errors.reshape(-1)
    there = jnp.argsort(~measured.reshape(-1), stable=True)
    places = jax.random.randint(place_key, errors.shape, 0, jnp.sum(measured, dtype=jnp.int32))
    return flat[there[places]] * jax.random.rademacher(sign_key, errors.shape, errors.dtype)


def _redrawn(terms: Terms, offsets: jax.Array, key: jax.Array) -> Any:
    """Return the prior of offsets with its centre drawn anew around the fit."""
    prior = terms.prior
    if prior is None:
        return None
    known = prior.precision > 0
    deviation = jnp.where(known, jnp.where(known, prior.precision, 1) ** -0.5, 0)
    normal = jax.random.normal(key, offsets.shape, offsets.dtype)
    return replace(prior, centre=offsets + deviation * normal)


def _scatter(gaps: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the weighted mean of outer products, with a ridge of rounding."""
    matrix = jnp.einsum("r...i,r...j,r...->...ij", gaps, gaps, weights) / len(gaps)
    tiny = 10 * jnp.finfo(gaps.dtype).eps * jnp.trace(matrix, axis1=-2, axis2=-1)
    tiny += jnp.finfo(gaps.dtype).tiny ** 0.5
    eye = jnp.broadcast_to(jnp.eye(gaps.shape[-1], dtype=gaps.dtype), matrix.shape)
    return matrix + tiny[..., None, None] * eye
