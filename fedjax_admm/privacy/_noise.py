r"""Normal noise whose tails go as far as a guarantee needs, in float32 as in float64.

A normal number from 32 random bits ends at 5.4 deviations: what lies beyond is impossible under one
data set and possible under its neighbour, whatever epsilon. Here a number takes 96 bits in float32
and 128 in float64. One bit is the sign; the others are a whole number N below 2^B, B = 95 or 127,
and the number is the quantile of `(N + 1/2) / 2^(B + 1)`, the mass of what is larger.

    |Z| = Q( (N + 1/2) / 2^(B + 1) ),   Q the inverse of  z -> P(Z > z)

Masses near 0 and, for the smallest numbers, near 1/2 keep the relative precision of the dtype: the
integer or its complement becomes a floating-point number, whichever is small.

**What is true of it.** N is uniform, so that a true normal number and this one can be drawn
together: this one is the quantile of the middle of the interval of masses, 2^-(B+1) wide, in which
the true one's lies, plus rounding. Within

    radius = 9.66 (float32), 9.87 (float64) deviations

these intervals are narrower than the rounding of the mass itself (2^-24 or 2^-53 of it), and both
numbers agree to 6e-7 (float32) or 1e-15 (float64) of themselves. Beyond the radius, where a true
one is with probability 2^-71 or 2^-74, the steps become coarse. The largest |Z| are 11.3 and 13.1.
By construction P(Z) = P(-Z), and no value has more mass than the normal numbers around it that it
stands for.

**What is not true of it.** Its values are floating-point numbers, not all real ones, and so are
sums with it: which numbers can occur depends on what they are added to, and whoever looks at last
bits may learn more than the density tells. `on_grid` takes the last bits away.

Reference: M. Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution",
Applied Statistics 37(3), 1988 (the quantiles); J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw,
"Parallel Random Numbers: As Easy as 1, 2, 3", 2011 (Threefry, by which words are drawn);
I. Mironov, "On Significance of the Least Significant Bits for Differential Privacy", 2012.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import refuse
from fedjax_admm._threefry import hashed, is_threefry, one_loop

# The part of delta that the sampler's tail may add to it.
TAIL_SHARE = 0.01


class _Precision(NamedTuple):
    """How a number of some dtype is drawn."""

    words: int  # of 32 random bits
    radius: float  # of |Z|, within which masses have the precision of the dtype
    # Numerators and denominators, from the constant on, for numbers below about 1.44, up to a
    # mass of exp(-25), and beyond.
    centre: tuple[tuple[float, ...], tuple[float, ...]]
    middle: tuple[tuple[float, ...], tuple[float, ...]]
    tail: tuple[tuple[float, ...], tuple[float, ...]]


_PRECISIONS = {
    "float32": _Precision(
        3,
        9.66,
        ((3.3871327179, 50.434271938, 159.29113202, 59.109374720),
         (1.0, 17.895169469, 78.757757664, 67.187563600)),
        ((1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103),
         (1.0, 0.73700164250, 0.12021132975)),
        ((6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997),
         (1.0, 0.24197894225, 0.012258202635)),
    ),
    "float64": _Precision(
        4,
        9.87,
        ((3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
          1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
          3.3430575583588128105e4, 2.5090809287301226727e3),
         (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
          2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
          5.2264952788528545610e3)),
        ((1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
          3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
          2.27238449892691845833e-2, 7.74545014278341407640e-4),
         (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
          1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
          1.05075007164441684324e-9)),
        ((6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
          2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
          2.71155556874348757815e-5, 2.01033439929228813265e-7),
         (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
          7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
          2.04426310338993978564e-15)),
    ),
}  # fmt: skip
# Twice the mass above which a number is in the centre, out of 2^31.
_CENTRE = int(0.15 * 2**31)


def standard_normal(
    key: jax.Array, shape: tuple[int, ...], dtype: jax.typing.DTypeLike
) -> jax.Array:
    """Draw independent standard normal numbers.

    Args:
      key: a typed key of any kind; whoever knows it knows the numbers.
      shape: of the result, of fewer than 2^30 numbers: the words are counted in 32 bits.
      dtype: float32 or float64.
    """
    precision = _PRECISIONS[checked_dtype("dtype", dtype)]
    told = f"must have fewer than 2^30 numbers, but it is {shape}: the noise would begin again"
    refuse(math.prod(shape) >= 2**30, "shape", told, remedy="take fewer clients")
    count = precision.words * math.prod(shape)
    words = threefry(_pair(key), jax.lax.iota(jnp.uint32, count))
    return normal_of_words(words.reshape(precision.words, *shape), dtype)


def _pair(key: jax.Array) -> jax.Array:
    """Return two words that follow from a key of any kind, and from all of it.

    Threefry's own bits are such words. Those of other generators are not under `jax.vmap`: there
    the first key of a batch decides for all. Their words are enciphered one after the other.
    """
    words = jax.random.key_data(key)
    if is_threefry(key):
        return jax.random.bits(one_loop(key), (2,), jnp.uint32)
    words = jnp.pad(words, (0, -len(words) % 2)).reshape(-1, 2)
    pair = jnp.zeros(2, jnp.uint32)
    for part in words:
        pair = threefry(part, pair)
    return pair


def threefry(pair: jax.Array, count: jax.Array) -> jax.Array:
    """Return the words of `jax.extend.random.threefry_2x32`, all twenty rounds in one loop.

    JAX's own is a loop of five turns over all words on a CPU: a quarter of a private round of 50
    clients was that loop's cost beside its arithmetic.

    Args:
      pair: shape (2,), uint32.
      count: shape (words,), uint32.
    """
    half = jnp.pad(count, (0, len(count) % 2)).reshape(2, -1)
    return jnp.concatenate(hashed(pair, *half))[: len(count)]


def normal_of_words(words: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Return the normal numbers that random bits stand for.

    Returns:
      Shape (...,).
    """
    dtype = jnp.dtype(dtype)
    precision = _PRECISIONS[dtype.name]
    # Highest bits first: what is below the precision of the sum is rounded to nearest.
    top = words[0] & jnp.uint32(2**31 - 1)
    central = top >= _CENTRE
    turned = jnp.where(central, jnp.uint32(2**32 - 1), jnp.uint32(0))
    parts = [(top ^ turned) & jnp.uint32(2**31 - 1), *(word ^ turned for word in words[1:])]
    mass = (parts[-1].astype(dtype) + 0.5) * 2.0 ** -(32 * len(parts) - 1)
    for place, part in enumerate(parts[-2::-1], start=2):
        mass += part.astype(dtype) * 2.0 ** -(32 * (len(parts) - place + 1) - 1)
    # Half of it is the mass beyond the number, or for central ones that between 0 and the number.
    half = mass / 2
    squared = 0.180625 - half * half
    inner = half * _rational(precision.centre, squared)
    root = jnp.sqrt(-jnp.log(half))
    outer = jnp.where(
        root <= 5, _rational(precision.middle, root - 1.6), _rational(precision.tail, root - 5)
    )
    size = jnp.where(central, inner, outer)
    return jnp.where(words[0] >> 31 == 0, size, -size)


def _rational(parts: tuple[tuple[float, ...], tuple[float, ...]], x: jax.Array) -> jax.Array:
    numerator, denominator = (_polynomial(part, x) for part in parts)
    return numerator / denominator


def _polynomial(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def checked_dtype(name: str, dtype: jax.typing.DTypeLike) -> str:
    """Return the name of a dtype in which noise can be drawn."""
    kind = jnp.dtype(dtype).name
    told = "must be float32 or float64 where messages are private"
    refuse(kind not in _PRECISIONS, name, f"{told}, but it is {kind}, too coarse for noise")
    return kind


def tail_mass(multipliers: np.ndarray) -> float:
    r"""Return how much the sampler's tails can add to delta, for each entry of a message.

    Let A be the event that all numbers of a run are within the radius, where they are as good as
    true ones. Given the messages before, a sample moves the next one by at most 1 / z_n deviations.
    What is released under one data set with numbers within the radius, and under the neighbour not,
    needs an entry beyond `radius - 1 / z_n`:

        P(S) <= e^epsilon P'(S) + delta + entries sum_n 4 Q(radius - 1 / z_n),   Q(z) = P(Z > z)

    of which this is the sum. It holds for whichever epsilon and delta true normal noise has.

    Args:
      multipliers: z_n, float64; those that are 0 add no noise and are not counted.
    """
    radius = min(precision.radius for precision in _PRECISIONS.values())
    z = np.asarray(multipliers, np.float64)
    return float(sum(2 * math.erfc((radius - 1 / one) / math.sqrt(2)) for one in z[z > 0]))


def tails_of(inverses: jax.Array) -> jax.Array:
    """Return what a release adds to `tail_mass`, for each 1 / z_n; rounded up by a thousandth."""
    radius = min(precision.radius for precision in _PRECISIONS.values())
    return 2.002 * jax.scipy.special.erfc((radius - inverses) / math.sqrt(2))


def on_grid(messages: jax.Array, deviation: jax.Array) -> jax.Array:
    """Round messages to a grid that does not depend on them: its width is a power of two.

    That of float32 messages is between 2^-12 and 2^-11 of the deviation of their noise, that of
    float64 ones between 2^-26 and 2^-25. Rounding is after noise: it costs no privacy, and in
    float32 an error of 2.5e-4 deviations at most, 2e-8 of the noise's variance.
    Where numbers of the dtype are farther apart than the grid, nothing changes.

    Args:
      messages: any shape.
      deviation: of the noise, broadcasts with them; where it is 0 nothing is rounded.

    Returns:
      The shape of the messages; their derivative is that of the messages.
    """
    limits = jnp.finfo(messages.dtype)
    bits = (limits.nmant - 1) // 2  # half of the digits: 11 or 25
    # A number without its digits is a power of two.
    whole = jnp.int32 if limits.bits == 32 else jnp.int64
    one = jax.lax.bitcast_convert_type(deviation, whole)
    exponent = jax.lax.shift_right_logical(one, jnp.asarray(limits.nmant, whole)) - bits
    usable = exponent > 0
    width = jax.lax.bitcast_convert_type(
        jnp.where(usable, exponent, 1) << limits.nmant, messages.dtype
    )
    coarse = usable & (jnp.abs(messages) < width * 2.0 ** (limits.nmant - 1))
    inside = jax.lax.stop_gradient(jnp.where(coarse, messages, 0))
    # Both differences are exact.
    return messages + (jnp.round(inside / width) * width - inside)
