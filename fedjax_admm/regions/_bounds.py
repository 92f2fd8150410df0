r"""What a geometry of anchors allows: dilution of precision.

With u_l = ((x - a_l) / ||x - a_l||, 1), the 1 for the clock only, ranges of deviation 1 have the
information `sum_l u_l u_l^T`.

Reference: R. B. Langley, "Dilution of precision", GPS World 10(5) (1999) 52-59.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import finite_array, refuse
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm.kernels.compiling import kernel


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
      clock: whether all ranges share an unknown offset.

    Returns:
      Each of shape (...), without unit; below 2 is good, above 6 poor.

    Raises:
      InputError: a shape does not fit.
    """
    places = finite_array("anchors", anchors, (None, None))
    dim = places.shape[1]
    position = jnp.asarray(position, places.dtype)
    told = f"must have the shape (..., {dim}), but it has {position.shape}"
    refuse(position.shape[-1:] != (dim,), "position", told)
    return _dilution(places, position, clock)


@kernel
def _dilution(places: jax.Array, position: jax.Array, clock: bool) -> dict[str, jax.Array]:
    shape, dim = (*position.shape[:-1], *places.shape), places.shape[1]
    gap = position[..., None, :] - jnp.broadcast_to(places, shape)
    radius = kernels.safe_norm(gap)[..., None]
    ways = gap / jnp.maximum(radius, 1e-12)
    ways = jnp.concatenate([ways, jnp.ones_like(radius)], -1) if clock else ways
    information = jnp.einsum("...lc,...ld->...cd", ways, ways)
    squares = jnp.diagonal(positive_inverse(information), 0, -2, -1)
    found = {
        "gdop": jnp.sqrt(jnp.sum(squares, -1)),
        "pdop": jnp.sqrt(jnp.sum(squares[..., :dim], -1)),
    }
    if clock:
        found["tdop"] = jnp.sqrt(squares[..., dim])
    return found
