r"""Compressors: fewer bits for a message, at the price of an error.

A compressor is a channel that remembers nothing. It makes a code of a message, which is what
travels, and the receiver reads a message from the code. Its class says how large the error is.
Unbiased ones, with a constant omega,

    E C(x) = x,    E ||C(x) - x||^2 <= omega ||x||^2

and contractive ones, with a constant a in (0, 1],

    E ||C(x) - x||^2 <= (1 - a) ||x||^2

for a message x of d numbers, of any shape. An unbiased compressor divided by 1 + omega is
contractive with a = 1 / (1 + omega). Contractive compressors are biased: where they are used again
and again, `error_feedback` or `differences` belongs around them. Zeros arrive as zeros.

    compressor       constant                               bits of d numbers
    qsgd(s)          omega = min(d / 4 s^2, sqrt(d) / s)    32 + d (1 + ceil(log2(s + 1)))
    rand_k(k)        omega = d / k - 1, with equality       32 k (the indices follow from the key)
    natural()        omega = 1 / 8                          9 d
    top_k(k)         a = k / d                              k (32 + ceil(log2 d))
    scaled_sign()    a = ||x||_1^2 / (d ||x||_2^2) >= 1/d   32 + d
    cast(dtype)      a = 1 - u^2 in the range of the dtype  16 d

**Derivatives.** Rounding is a step function, whose derivative says nothing. `qsgd`, `natural` and
`cast` therefore have the derivative of the identity, which for the first two is that of the mean
of what arrives. `top_k`, `rand_k` and `scaled_sign` have their own, for the entries and the signs
that were sent. All are finite wherever the message is.
"""

import math
from dataclasses import field
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from fedjax_admm._checks import count, one_of
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import one_loop
from fedjax_admm.kernels import safe_norm
from fedjax_admm.messages._channels import Link
from fedjax_admm.messages.compression._wire import Flag, Half, Known, Number, Whole, bits_of, shared


class Compressor(Link, Protocol):
    """A channel that remembers nothing, and whose code can be written as bytes."""

    def omega(self, shape: tuple[int, ...]) -> float | None:
        """Return the constant of an unbiased compressor for messages of a shape.

        None says that it is biased.
        """
        ...

    def contraction(self, shape: tuple[int, ...]) -> float:
        """Return the constant a of a contractive one, for every message of a shape.

        Of an unbiased one: that of it divided by 1 + omega. 0 says that there is none.
        """
        omega = self.omega(shape)
        return 0.0 if omega is None else 1 / (1 + omega)

    def code(self, message: jax.Array, key: jax.Array) -> Any:
        """Return what travels: a pytree of arrays.

        Args:
          message: of one sender, any shape.
          key: a typed key, for this message alone.
        """
        ...

    def read(self, code: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        """Return the message, of a shape and dtype, that the receiver reads."""
        ...

    def layout(self, shape: tuple[int, ...]) -> Any:
        """Return what the arrays of the code are on the wire: fields of `to_bytes`."""
        ...

    @property
    def in_order(self) -> bool:
        """Return False: every message stands for itself."""
        return False

    def init(self, message: jax.Array) -> Any:
        """Remember nothing."""
        return ()

    def encode(self, message: jax.Array, state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        """Return what is read from the code."""
        return self.read(self.code(message, key), message.shape, message.dtype), state

    def bits(self, shape: tuple[int, ...]) -> int:
        """Return how many bits the code of a message has."""
        return bits_of(self.layout(shape))


class Rounding(Compressor, Protocol):
    """A compressor that rounds, and has the derivative of the identity."""

    def encode(self, message, state, key):
        """Return what is read from the code, plus a zero that has a derivative."""
        fixed = jax.lax.stop_gradient(message)
        arrives = self.read(self.code(fixed, key), message.shape, message.dtype)
        return arrives + (message - fixed), state


class Levels(NamedTuple):
    """The code of `qsgd`: arrays, or their fields on the wire."""

    norm: Any  # shape=()
    negative: Any  # of the shape of the message, bool
    level: Any  # likewise, int32, from 0 to s


@pytree_dataclass
class QSGD(Rounding):
    """Stochastic rounding to levels of the norm; build it with `qsgd`."""

    levels: int = field(metadata={"static": True})

    def omega(self, shape):
        """Return min(d / 4 s^2, sqrt(d) / s)."""
        dim = math.prod(shape)
        return min(dim / (4 * self.levels**2), math.sqrt(dim) / self.levels)

    def code(self, message, key):
        """Return the norm, and signs and levels of all entries."""
        numbers = message.ravel()
        norm = safe_norm(numbers)
        # Any number above all entries keeps it unbiased, where the norm itself is out of range.
        finite = jnp.isfinite(jnp.max(jnp.abs(numbers), initial=0))
        norm = jnp.where(finite, jnp.minimum(norm, jnp.finfo(message.dtype).max), norm)
        quarter = norm / 4  # whose reciprocal is in range, too, for compilers that multiply by it
        ratio = jnp.abs(message) / 4 / jnp.where(quarter > 0, quarter, 1)
        scaled = ratio * self.levels
        below = jnp.minimum(jnp.floor(scaled), self.levels - 1)
        up = jax.random.uniform(one_loop(key), message.shape, message.dtype) < scaled - below
        return Levels(norm, message < 0, (below + up.astype(below.dtype)).astype(jnp.int32))

    def read(self, code, shape, dtype):
        """Return norm x sign x level / s."""
        size = jnp.asarray(code.norm, dtype) * (jnp.asarray(code.level, dtype) / self.levels)
        return jnp.where(code.negative, -size, size)

    def layout(self, shape):
        """Return a number, signs, and levels of ceil(log2(s + 1)) bits."""
        return Levels(Number(()), Flag(shape), Whole(shape, self.levels.bit_length()))


def qsgd(levels: int) -> QSGD:
    r"""Build stochastic quantisation (QSGD): unbiased.

    With t = |x_i| s / ||x|| and l = min(floor(t), s - 1), an entry arrives as

        ||x|| sign(x_i) q_i / s,    q_i = l + 1 with probability t - l, else l

    The squared error is ||x||^2 / s^2 sum_i p_i (1 - p_i) on average, p_i = t - l, of which follows
    omega = min(d / 4 s^2, sqrt(d) / s). (The paper has d / s^2; with |x_i| = ||x|| / (2 s), as in
    s = 4 and 64 equal entries, the constant here is attained.) A vector with one entry arrives as
    it is. A norm beyond the largest number of the dtype is replaced by that number.

    The draws are `jax.random.uniform(key, message.shape, message.dtype)`, and q_i = l + 1 where
    they are below t - l.

    Args:
      levels: s, at least 1.

    Reference: D. Alistarh, D. Grubic, J. Li, R. Tomioka, M. Vojnovic, "QSGD:
    Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS 2017,
    arXiv:1610.02132, section 3.1 and lemma 3.1.
    """
    return QSGD(count("levels", levels, at_most=2**24))


class Powers(NamedTuple):
    """The code of `natural`: arrays, or their fields on the wire."""

    negative: Any  # of the shape of the message, bool
    exponent: Any  # likewise, int32: 0 for zero, 255 for what is not finite, else that of
    # the power of two plus 127


_BIAS, _LARGEST, _NOT_FINITE = 127, 254, 255


@pytree_dataclass
class Natural(Rounding):
    """Stochastic rounding to powers of two; build it with `natural`."""

    def omega(self, shape):
        """Return 1 / 8."""
        return 0.125

    def code(self, message, key):
        """Return signs and exponents of 8 bits."""
        size = jnp.abs(message)
        half, above = jnp.frexp(size)  # |x| = half 2^above, half in [1/2, 1)
        # Below the smallest power, the one below it is zero.
        small = size < 2.0 ** (1 - _BIAS)
        part = jnp.where(small, size * 2.0 ** (_BIAS - 1), 2 * half - 1)
        exponent = jnp.where(small, 0, above - 1 + _BIAS)
        up = jax.random.uniform(one_loop(key), message.shape, message.dtype) < part
        exponent = jnp.minimum(exponent + up.astype(exponent.dtype), _LARGEST)
        exponent = jnp.where(jnp.isfinite(message), exponent, _NOT_FINITE)
        return Powers(message < 0, exponent.astype(jnp.int32))

    def read(self, code, shape, dtype):
        """Return the powers of two."""
        exponent = jnp.asarray(code.exponent)
        size = jnp.ldexp(jnp.ones((), dtype), exponent - _BIAS)
        size = jnp.where(exponent > 0, size, 0)
        size = jnp.where(exponent == _NOT_FINITE, jnp.nan, size)
        return jnp.where(code.negative, -size, size)

    def layout(self, shape):
        """Return signs, and exponents of 8 bits."""
        return Powers(Flag(shape), Whole(shape, 8))


def natural() -> Natural:
    r"""Build natural compression, a sign and an exponent of every entry: unbiased.

    An entry with |x_i| in [2^e, 2^(e+1)) arrives as sign(x_i) 2^(e+1) with probability
    |x_i| 2^-e - 1, else as sign(x_i) 2^e. With m = |x_i| 2^-e, the relative squared error is
    (2 - m) (m - 1) / m^2 on average, which is largest, 1/8, at m = 4/3: omega = 1/8.

    An exponent has 8 bits. What is below 2^-126 arrives as 2^-126 or as 0: unbiased, but with a
    larger relative error. What is above 2^127 arrives as 2^127: biased, and smaller than it was.
    What is not finite arrives as NaN.

    The draws are `jax.random.uniform(key, message.shape, message.dtype)`; where they are below the
    probability, the larger power is sent.

    Reference: S. Horvath, C.-Y. Ho, L. Horvath, A. N. Sahu, M. Canini, P. Richtarik, "Natural
    Compression for Distributed Deep Learning", arXiv:1905.10988.
    """
    return Natural()


class Signs(NamedTuple):
    """The code of `scaled_sign`: arrays, or their fields on the wire."""

    scale: Any  # shape=(): the mean magnitude
    negative: Any  # of the shape of the message, bool


@pytree_dataclass
class ScaledSign(Compressor):
    """Signs times the mean magnitude; build it with `scaled_sign`."""

    def omega(self, shape):
        """Return None: it is biased."""
        return None

    def contraction(self, shape):
        """Return 1 / d, attained where one entry alone is not zero."""
        return 1 / max(math.prod(shape), 1)

    def code(self, message, key):
        """Return the mean magnitude and the signs; that of zero is +."""
        share = jnp.abs(message) / max(message.size, 1)  # the sum stays within the dtype's range
        return Signs(jnp.sum(share), message < 0)

    def read(self, code, shape, dtype):
        """Return the signs times the mean magnitude."""
        scale = jnp.broadcast_to(jnp.asarray(code.scale, dtype), shape)
        return jnp.where(code.negative, -scale, scale)

    def layout(self, shape):
        """Return a number and signs."""
        return Signs(Number(()), Flag(shape))


def scaled_sign() -> ScaledSign:
    r"""Build signs times the mean magnitude, one bit per entry: contractive.

        C(x) = (||x||_1 / d) sign(x),    sign(0) = +1

    The squared error is (1 - a) ||x||^2 with a = ||x||_1^2 / (d ||x||_2^2), exactly; that is 1 / d
    at worst, and 2 / pi for many normal entries.

    Reference: S. P. Karimireddy, Q. Rebjock, S. U. Stich, M. Jaggi, "Error Feedback Fixes SignSGD
    and other Gradient Compression Schemes", ICML 2019, arXiv:1901.09847, lemma 8.
    """
    return ScaledSign()


class Entries(NamedTuple):
    """The code of `top_k` and `rand_k`: arrays, or their fields on the wire."""

    places: Any  # shape=(k,), int32, in the message as one vector
    value: Any  # shape=(k,)


@pytree_dataclass
class TopK(Compressor):
    """The largest entries; build it with `top_k`."""

    entries: int = field(metadata={"static": True})

    def omega(self, shape):
        """Return None: it is biased."""
        return None

    def contraction(self, shape):
        """Return k / d."""
        dim = math.prod(shape)
        return min(self.entries, dim) / max(dim, 1)

    def code(self, message, key):
        """Return the k entries of largest magnitude, ties to the lowest index."""
        flat = message.ravel()
        if self.entries >= flat.size:
            return Entries(jnp.arange(flat.size, dtype=jnp.int32), flat)
        _, index = jax.lax.top_k(jax.lax.stop_gradient(jnp.abs(flat)), self.entries)
        return Entries(index.astype(jnp.int32), flat[index])

    def read(self, code, shape, dtype):
        """Return these entries, and zeros."""
        return _with_zeros(code, shape, dtype)

    def layout(self, shape):
        """Return indices of ceil(log2 d) bits, if not all are sent, and numbers."""
        dim = math.prod(shape)
        if self.entries >= dim:
            return Entries(Known(lambda key: jnp.arange(dim, dtype=jnp.int32)), Number((dim,)))
        sent = (self.entries,)
        return Entries(Whole(sent, (dim - 1).bit_length()), Number(sent))


def top_k(k: int) -> TopK:
    r"""Build the k entries of largest magnitude, ties to the lowest index: contractive.

    The others arrive as zero, so that a = k / d, attained where all magnitudes are equal. Where a
    message has at most k entries, all are sent, without their indices.

    Args:
      k: at least 1.

    Reference: S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with Memory", NeurIPS 2018,
    arXiv:1809.07599, lemma A.1.
    """
    return TopK(count("k", k))


@pytree_dataclass
class RandK(Compressor):
    """Entries drawn at random; build it with `rand_k`."""

    entries: int = field(metadata={"static": True})

    def omega(self, shape):
        """Return d / k - 1."""
        dim = math.prod(shape)
        return max(dim / self.entries - 1, 0.0)

    def code(self, message, key):
        """Return k entries drawn without replacement, times d / k."""
        flat = message.ravel()
        index = self._drawn(key, flat.size)
        return Entries(index, flat[index] * (flat.size / max(index.size, 1)))

    def read(self, code, shape, dtype):
        """Return these entries, and zeros."""
        return _with_zeros(code, shape, dtype)

    def layout(self, shape):
        """Return indices that both ends draw, and numbers."""
        dim = math.prod(shape)
        drawn = Known(lambda key: self._drawn(shared(key), dim))
        return Entries(drawn, Number((min(self.entries, dim),)))

    def _drawn(self, key, dim):
        if self.entries >= dim:
            return jnp.arange(dim, dtype=jnp.int32)
        # Several times faster than a permutation. Equal numbers favour low indices; from a random
        # place on, that favours none.
        order, start = jax.random.split(one_loop(key))
        numbers = jax.random.uniform(order, (dim,), jnp.float32)
        first = jax.random.randint(start, (), 0, dim, jnp.int32)
        return (jax.lax.top_k(numbers, self.entries)[1].astype(jnp.int32) + first) % dim


def rand_k(k: int) -> RandK:
    r"""Build k entries drawn at random without replacement, times d / k: unbiased.

    The others arrive as zero, so that omega = d / k - 1, with equality for every message. Both ends
    draw the indices from the key of the message, and only the values travel. Where a message has at
    most k entries, all are sent. A value that leaves the range of the dtype when it is multiplied
    by d / k is infinite.

    Args:
      k: at least 1.

    Reference: S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with Memory", NeurIPS 2018,
    arXiv:1809.07599; J. Konecny, P. Richtarik, "Randomized Distributed Mean Estimation: Accuracy
    vs. Communication", arXiv:1611.07555 (the factor d / k).
    """
    return RandK(count("k", k))


CASTS = ("float16", "bfloat16")
"""Numbers of 16 bits that `cast` knows."""


@pytree_dataclass
class Cast(Rounding):
    """Numbers of 16 bits; build it with `cast`."""

    dtype: str = field(metadata={"static": True})

    def omega(self, shape):
        """Return None: rounding to the nearest is biased."""
        return None

    def contraction(self, shape):
        """Return 1 - u^2, u the largest relative error of a rounding, in the normal range."""
        return 1 - (float(jnp.finfo(self.dtype).eps) / 2) ** 2

    def code(self, message, key):
        """Return the nearest numbers; what is too large is the largest."""
        kind = jnp.finfo(self.dtype)
        largest = float(kind.max)
        clipped = jnp.where(jnp.isfinite(message), jnp.clip(message, -largest, largest), message)
        # Compilers may leave out a conversion there and back, but not these roundings.
        rounded = jax.lax.reduce_precision(clipped, kind.nexp, kind.nmant)
        step = float(kind.smallest_subnormal)
        if step >= jnp.finfo(message.dtype).smallest_normal:
            small = jnp.abs(clipped) < float(kind.smallest_normal)
            below = jnp.where(small, clipped, 0)
            rounded = jnp.where(small, jnp.round(below / step) * step, rounded)
        return rounded.astype(self.dtype)

    def read(self, code, shape, dtype):
        """Return the numbers in another precision."""
        return jnp.asarray(code).astype(dtype)

    def layout(self, shape):
        """Return numbers of 16 bits."""
        return Half(shape, self.dtype)


def cast(dtype: str) -> Cast:
    r"""Build a rounding to the nearest number of 16 bits: contractive, nearly exact.

    An entry in the normal range arrives with a relative error of at most u = 2^-11 (float16, from
    6.1e-5 to 65504) or 2^-8 (bfloat16, from 1.2e-38 to 3.4e38), so that a = 1 - u^2. Larger ones
    arrive as the largest number. Smaller ones arrive with an absolute error of at most 3e-8
    (float16), or vanish in single precision (bfloat16): of them a does not hold. What is not finite
    stays so.

    Args:
      dtype: "float16", which is more precise, or "bfloat16", which has the range of float32.

    Reference: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 2002,
    theorem 2.2.
    """
    one_of("dtype", dtype, CASTS)
    return Cast(dtype)


def _with_zeros(code: Entries, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return a message of zeros, but for some entries."""
    zeros = jnp.zeros(math.prod(shape), dtype)
    return zeros.at[jnp.asarray(code.places)].set(jnp.asarray(code.value, dtype)).reshape(shape)
