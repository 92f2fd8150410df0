"""Low rank: a matrix as the product of two thin ones (PowerSGD).

Both ends remember a right factor Q, (n, r). Of a matrix M, (m, n),

    P = orthonormal basis of M Q,    R = M^T P,    P R^T = P P^T M arrives,    Q+ = R

P and R travel. Each message takes one step of subspace iteration from the last message's factor.
"""

from dataclasses import field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import count, refuse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.messages._channels import Link
from fedjax_admm.messages.compression._wire import Number, bits_of


class Factors(NamedTuple):
    """The code of `low_rank` for an (m, n) matrix: arrays, or their fields on the wire."""

    left: Any  # shape=(m, r): P, with orthonormal columns
    right: Any  # shape=(n, r): R


@pytree_dataclass
class LowRank(Link):
    """A product of two thin matrices; build it with `low_rank`."""

    rank: int = field(metadata={"static": True})

    @property
    def in_order(self) -> bool:
        """Return False: what arrives depends on the two factors alone."""
        return False

    def omega(self, shape):
        """Return None: it is biased."""
        return None

    def contraction(self, shape):
        """Return 1 where the rank reaches the rows, so that everything arrives; else 0.

        No constant above 0 holds for every matrix and every right factor.
        """
        return 1.0 if self._kept(shape) == shape[0] else 0.0

    def init(self, message):
        """Return the first right factor: normal numbers, the same for everybody."""
        rank = self._kept(message.shape)
        return jax.random.normal(jax.random.key(0), (message.shape[1], rank), message.dtype)

    def code(self, message, state):
        """Return the factors, from the right one that both ends remember."""
        fixed = jax.lax.stop_gradient(message)
        largest = jnp.max(jnp.abs(fixed), initial=0)
        unit = jnp.where(largest > 0, largest, 1)
        if self._kept(message.shape) == message.shape[0]:
            left = jnp.eye(message.shape[0], dtype=message.dtype)
        else:
            left = _orthonormal(_times(fixed / unit, jax.lax.stop_gradient(state)))
        return Factors(left, _times(message.T, left))

    def read(self, code, shape, dtype):
        """Return P R^T."""
        return _times(jnp.asarray(code.left, dtype), jnp.asarray(code.right, dtype).T)

    def encode(self, message, state, key):
        """Return P P^T M, and the right factor with columns of the largest entry 1.

        Of a column of zeros nothing can be learnt: there the old one stays.
        """
        code = self.code(message, state)
        right = jax.lax.stop_gradient(code.right)
        largest = jnp.max(jnp.abs(right), axis=0, keepdims=True, initial=0)
        scaled = right / jnp.where(largest > 0, largest, 1)
        arrives = self.read(code, message.shape, message.dtype)
        return arrives, jnp.where(largest > 0, scaled, state)

    def send(self, message, state, key):
        """Return the factors, and the right one for the next message."""
        return self.code(message, state), self.encode(message, state, key)[1]

    def layout(self, shape):
        """Return two matrices of numbers."""
        rank = self._kept(shape)
        return Factors(Number((shape[0], rank)), Number((shape[1], rank)))

    def bits(self, shape):
        """Return 32 r (m + n)."""
        return bits_of(self.layout(shape))

    def _kept(self, shape):
        told = f"compresses matrices, but a message has shape {shape}"
        refuse(len(shape) != 2, "low_rank", told, remedy="take another compressor")
        return min(self.rank, *shape)


def low_rank(rank: int) -> LowRank:
    r"""Build low-rank messages of matrices (PowerSGD): 32 r (m + n) bits of 32 m n.

    What arrives, P P^T M, is an orthogonal projection of the matrix M:

        ||P P^T M - M||^2 = ||M||^2 - ||P^T M||^2 <= ||M||^2 - ||M S||^2

    (Frobenius norms; S projects onto the span of Q), which says what holds:

    - It never makes a message longer, and r = m loses nothing.
    - With the first right factor, which is normal, a = r / n holds on average over the factor.
    - Of the same matrix again and again, the error never grows, and tends to that of the best
      matrix of rank r, of which a >= r / min(m, n) (where the singular values r and r + 1 differ).
    - No a > 0 holds for every matrix in a row of different ones: one may be orthogonal to what the
      last ones have left in Q. Theory that wants a contraction does not cover that; with
      `error_feedback`, what is lost comes again and turns Q.

    Zeros arrive as zeros, and Q stays. Derivatives are those at a fixed P.

    Args:
      rank: r, at least 1; at most the smaller side of a matrix is used.

    Reference: T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient
    Compression for Distributed Optimization", NeurIPS 2019, arXiv:1905.13727, algorithm 1.
    """
    return LowRank(count("rank", rank))


def _orthonormal(columns: jax.Array) -> jax.Array:
    """Return an orthonormal basis of the span of some columns, (m, r) to (m, r).

    By Gram and Schmidt, twice for every column; one that depends on those before it becomes zero.
    The platform's QR, mapped over clients and trials, can stop a program on several CPU devices.
    """
    tiny = columns.shape[0] * jnp.finfo(columns.dtype).eps

    def add(j: jax.Array, basis: jax.Array) -> jax.Array:
        column = jax.lax.dynamic_slice_in_dim(columns, j, 1, 1)
        rest = column - _times(basis, _times(basis.T, column))
        rest = rest - _times(basis, _times(basis.T, rest))
        length = jnp.linalg.norm(rest)
        free = length > tiny * jnp.linalg.norm(column)
        rest = jnp.where(free, rest / jnp.where(free, length, 1), 0)
        return jax.lax.dynamic_update_slice_in_dim(basis, rest, j, 1)

    return jax.lax.fori_loop(0, columns.shape[1], add, jnp.zeros_like(columns))


def _times(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
