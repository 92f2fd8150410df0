"""Range localisation with random sensors, targets and errors."""

from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import (
    build,
    count,
    declared,
    default_float,
    function_of,
    number,
    one_line,
    positive,
    refuse,
    scalar,
    shapes_of,
    typed_key,
)
from fedjax_admm._host._programs import compiled_alone
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop, split
from fedjax_admm.problems.ranges._localization import Localization

MINIMUM_RANGE = 1e-3
"""Metres; drawn ranges below it are raised to it (for d <= 0, f is ||w - a|| plus a constant)."""

_NOISE = "a noise model such as cauchy_noise(1.0)"

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
        return distances + self.deviation * jax.random.normal(
            one_loop(key), distances.shape, distances.dtype
        )


@pytree_dataclass
class CauchyNoise:
    """Ranges with independent Cauchy errors: no mean, heavy tails."""

    scale: jax.Array = declared(_NOT_NEGATIVE)  # shape=(): half the interquartile range, metres

    def __call__(self, key, distances):
        """Return `d + scale * cauchy`."""
        return distances + self.scale * jax.random.cauchy(
            one_loop(key), distances.shape, distances.dtype
        )


@pytree_dataclass
class OutlierNoise:
    """Exact ranges, except that each is replaced by a uniform one with some probability."""

    probability: jax.Array = declared(partial(number, at_least=0, at_most=1))  # shape=()
    largest: jax.Array = positive(stacked=True)  # shape=(), metres: of the range of an outlier

    def __call__(self, key, distances):
        """Return outliers where a uniform draw is below the probability.

        The draws do not depend on the probability, so a larger one only adds outliers.
        """
        choice_key, range_key = jax.random.split(one_loop(key))
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
      noise: how distances become ranges, e.g. `cauchy_noise(1.0)`, or a function
        `noise(key, distances) -> ranges` of one's own, both of shape (clients,), metres, such as
        `lambda key, d: d + jax.random.laplace(key, d.shape)`.
      clients: number of sensors.
      dim: dimension of space.
      half_width: half the edge of the cube, metres.

    Returns:
      A problem that starts at the centre of the cube, with ranges of at least `MINIMUM_RANGE`.

    Raises:
      InputError: the noise returns another shape, or draws by something else than its key.
    """
    typed_key(key)
    function_of("noise", noise, "key", "distances", kind=_NOISE)
    clients, dim = count("clients", clients), count("dim", dim)
    half_width = scalar("half_width", half_width, above=0)
    _check_noise(noise, clients)
    return _drawn(key, noise, half_width, clients=clients, dim=dim)


def _check_noise(noise: RangeNoise, clients: int) -> None:
    """Check that a noise of a user's own keeps the shape, and draws by its key.

    Numbers of another generator, such as NumPy's, would be drawn once and be a constant of the
    program: they differ from one trace to the next, or are arrays that no key decides.
    """
    if isinstance(noise, NoNoise | GaussianNoise | CauchyNoise | OutlierNoise):
        return
    key, exact = jax.random.key(0), jnp.zeros(clients, default_float())
    result = shapes_of("noise", noise, {"a key": key, f"{clients} distances": exact})
    wrong = getattr(result, "shape", None) != exact.shape or result.dtype.kind != "f"
    told = f"must return ranges of the shape {exact.shape}, but it returns {one_line(result)}"
    refuse(wrong, "noise", told)
    # Each trace is of a function of its own: JAX keeps those that it knows.
    traced = [jax.make_jaxpr(lambda *given: noise(*given))(key, exact) for _ in range(2)]
    first, texts = traced[0], [f"{each} {each.consts}" for each in traced]
    _, (by_key, _) = dce_jaxpr(first.jaxpr, [True])
    drawn = any(map(np.ndim, first.consts)) or "random_" in texts[0]
    refuse(
        texts[0] != texts[1] or (drawn and not by_key),
        "noise",
        "draws the same errors in every trial, because they do not come from its key",
        remedy="draw them by jax.random with the key, as jax.random.laplace(key, distances.shape)",
    )


@compiled_alone
def _drawn(key, noise, half_width, *, clients: int, dim: int) -> Localization:
    anchor_key, target_key, noise_key = split(key, 3)
    dtype = default_float()
    half = half_width.astype(dtype)
    anchors = half * jax.random.uniform(one_loop(anchor_key), (clients, dim), dtype, -1, 1)
    target = half * jax.random.uniform(one_loop(target_key), (dim,), dtype, -1, 1)
    exact = kernels.safe_norm(target[None, :] - anchors)
    distances = jnp.maximum(noise(noise_key, exact), MINIMUM_RANGE)
    return Localization(anchors, distances, jnp.zeros(dim, dtype), target)
