r"""What a geometry of anchors allows: the Cramer-Rao bound and dilution of precision.

With u_l = ((x - a_l) / ||x - a_l||, 1), the 1 for the clock only, normal ranges have the
information

    I = sum_l u_l u_l^T / (sigma_l^2 + tau_l^2)

tau_l is the standard deviation of the prior of an anchor's offset: with one range per anchor, the
Schur complement `1 / sigma^2 - (1 / sigma^2)^2 / (1 / sigma^2 + 1 / tau^2)` is `1 / (sigma^2 +
tau^2)`. The clock is a nuisance too. The bound is the block of the positions of I^{-1}.

Reference: S. M. Kay, "Fundamentals of Statistical Signal Processing: Estimation Theory",
Prentice Hall 1993, sections 3.7 and 3.9; R. B. Langley, "Dilution of precision", GPS World 10(5)
(1999) 52-59.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import InputError, finite_array, number, real_array
from fedjax_admm._linear_algebra import positive_inverse


def cramer_rao(
    anchors: ArrayLike,
    position: ArrayLike,
    sigma: ArrayLike = 1.0,
    *,
    offset_scale: ArrayLike | None = None,
    clock: bool = False,
) -> jax.Array:
    """Return the least covariance of an unbiased position from one normal range per anchor.

    Cauchy errors of scale g have half the information of normal ones of deviation g: give
    `sigma = sqrt(2) g`. Of n ranges per anchor without offsets, give `sigma / sqrt(n)`.

    Args:
      anchors: shape (clients, dim), metres.
      position: shape (..., dim), metres.
      sigma: standard deviation of ranges, a number or one per client, metres.
      offset_scale: that of the offsets of anchors, likewise; offsets are known if None.
      clock: whether all ranges share an unknown offset.

    Returns:
      Shape (..., dim, dim), square metres; not finite where ranges do not determine a position.

    Raises:
      InputError: a deviation is not positive, or a shape does not fit.
    """
    variance = number("sigma", sigma, above=0) ** 2
    if offset_scale is not None:
        variance = variance + number("offset_scale", offset_scale, above=0) ** 2
    ways, dim = _ways(anchors, position, clock)
    variance = jnp.broadcast_to(variance.astype(ways.dtype), (ways.shape[-2],))
    return _inverse(ways, 1 / variance)[..., :dim, :dim]


def dilution(
    anchors: ArrayLike, position: ArrayLike, *, clock: bool = False
) -> dict[str, jax.Array]:
    """Return the dilution of precision: the error of a position per error of the ranges.

    With `Q = (sum_l u_l u_l^T)^{-1}`: "gdop" is `sqrt(trace Q)`, "pdop" that of its positions, and
    "tdop", with a clock only, that of the clock. Ranges of deviation sigma give a position with a
    root mean square error of at least `pdop sigma`.

    Args:
      anchors: shape (clients, dim), metres.
      position: shape (..., dim), metres.
      clock: as in `cramer_rao`.

    Returns:
      Each of shape (...), without unit; below 2 is good, above 6 poor.

    Raises:
      InputError: a shape does not fit.
    """
    ways, dim = _ways(anchors, position, clock)
    squares = jnp.diagonal(_inverse(ways, jnp.ones(ways.shape[-2], ways.dtype)), 0, -2, -1)
    found = {
        "gdop": jnp.sqrt(jnp.sum(squares, -1)),
        "pdop": jnp.sqrt(jnp.sum(squares[..., :dim], -1)),
    }
    if clock:
        found["tdop"] = jnp.sqrt(squares[..., dim])
    return found


def _ways(anchors: ArrayLike, position: ArrayLike, clock: bool) -> tuple[jax.Array, int]:
    """Return u of every position and anchor, shape (..., clients, columns), and dim."""
    places = finite_array("anchors", anchors, (None, None))
    dim = places.shape[1]
    real_array("position", position)
    position = jnp.asarray(position, places.dtype)
    if position.shape[-1:] != (dim,):
        raise InputError(
            f"must have the shape (..., {dim}), but it has {position.shape}",
            argument="position",
            value=position,
        )
    shape = (*position.shape[:-1], *places.shape)
    gap = position[..., None, :] - jnp.broadcast_to(places, shape)
    radius = kernels.safe_norm(gap)[..., None]
    ways = gap / jnp.maximum(radius, 1e-12)
    return (jnp.concatenate([ways, jnp.ones_like(radius)], -1) if clock else ways), dim


def _inverse(ways: jax.Array, precision: jax.Array) -> jax.Array:
    return positive_inverse(jnp.einsum("...lc,...ld,l->...cd", ways, ways, precision))
