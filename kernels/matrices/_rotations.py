"""Eigenvalues and singular values by Jacobi's rotations: sums and products only.

LAPACK's routines, as JAX 0.10 calls them on a CPU, can wait for ever when several devices of one
process decompose batches at once. Rotations run anywhere, in batches, with the same bits whatever
stands beside a matrix in its batch; they cost several times as much as LAPACK for large matrices.
"""

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._loops import scan, while_loop
from fedjax_admm.kernels._safe import unit_of

# Quadratic convergence needs few sweeps; equal eigenvalues of a large matrix need more.
_SWEEPS = 10


def rotate_symmetric(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues, in no order, and eigenvectors of symmetric matrices, without derivative.

    Each round rotates n / 2 disjoint pairs of rows and columns so that their common entries vanish;
    n - 1 rounds, with the pairs of a round-robin tournament, make one sweep over all pairs.
    """
    size = matrix.shape[-1]
    vectors = jnp.broadcast_to(jnp.eye(size, dtype=matrix.dtype), matrix.shape)
    if size == 1:
        return matrix[..., 0], vectors
    # Squares of entries near 1 stay within the range.
    scale = unit_of(jnp.max(jnp.abs(matrix), axis=(-2, -1), keepdims=True, initial=0))
    matrix = matrix / scale
    even = size + size % 2  # an odd matrix gets a row and a column of zeros: rotations leave them
    room = [(0, 0)] * (matrix.ndim - 2) + [(0, even - size)] * 2
    half = even // 2
    negligible = jnp.finfo(matrix.dtype).eps * jnp.sqrt(jnp.sum(matrix**2, (-2, -1)))[..., None]

    def rotate(carry, _):
        a, v, busy = carry
        left, right = a[..., :half, :], a[..., half:, :]
        a_ll = jnp.diagonal(left[..., :half], axis1=-2, axis2=-1)
        a_lr = jnp.diagonal(left[..., half:], axis1=-2, axis2=-1)
        a_rr = jnp.diagonal(right[..., half:], axis1=-2, axis2=-1)
        # Rotating by rounding errors would stir up the eigenspaces of equal eigenvalues.
        a_lr = jnp.where(jnp.abs(a_lr) <= negligible, 0, a_lr)
        cosine, sine = _rotation(a_ll, a_lr, a_rr)
        rows = _mix(left, right, cosine[..., None], sine[..., None], -2)
        a = _mix(rows[..., :half], rows[..., half:], cosine[..., None, :], sine[..., None, :], -1)
        v = _mix(v[..., :half], v[..., half:], cosine[..., None, :], sine[..., None, :], -1)
        # The next pairs of the tournament stand at places i and half + i again.
        return (_turn(_turn(a, -2), -1), _turn(v, -1), busy | jnp.any(a_lr != 0)), None

    first = (jnp.pad(matrix, room), jnp.pad(vectors, [*room[:-2], (0, 0), room[-1]]))
    a, v = _swept(rotate, first, even - 1, _SWEEPS + size // 8 if even > 2 else 1)
    # After whole sweeps every row is back at its place: the one of zeros is the last.
    return jnp.diagonal(a, axis1=-2, axis2=-1)[..., :size] * scale[..., 0], v[..., :size]


def rotate_tall(matrix: Array) -> tuple[Array, Array, Array]:
    """Return left vectors, falling singular values and right vectors, for (..., m, n), m >= n."""
    # Squares of entries near 1 stay within the range.
    scale = unit_of(jnp.max(jnp.abs(matrix), axis=(-2, -1), keepdims=True, initial=0))
    rows, right = _orthogonal_rows((matrix / scale).mT)  # what is added up lies side by side
    values = jnp.sqrt(jnp.sum(rows * rows, -1))
    order = jnp.argsort(-values, axis=-1)
    values = jnp.take_along_axis(values, order, -1)
    rows = jnp.take_along_axis(rows, order[..., None], -2)
    right = jnp.take_along_axis(right, order[..., None], -2)
    left = rows / jnp.where(values == 0, 1, values)[..., None]
    return left.mT, values * scale[..., 0], right.mT


def _orthogonal_rows(matrix):
    """Rotate rows of wide matrices until they are orthogonal; return them and the rotations."""
    size = matrix.shape[-2]
    vectors = jnp.broadcast_to(jnp.eye(size, dtype=matrix.dtype), (*matrix.shape[:-2], size, size))
    if size == 1:
        return matrix, vectors
    even = size + size % 2
    room = [(0, 0)] * (matrix.ndim - 2) + [(0, even - size), (0, 0)]
    half = even // 2
    rounding = jnp.finfo(matrix.dtype).eps * matrix.shape[-1] ** 0.5

    def rotate(carry, _):
        a, v, busy = carry
        above, below = a[..., :half, :], a[..., half:, :]
        first, second = jnp.sum(above * above, -1), jnp.sum(below * below, -1)
        common = jnp.sum(above * below, -1)
        negligible = rounding * jnp.sqrt(first) * jnp.sqrt(second)
        common = jnp.where(jnp.abs(common) <= negligible, 0, common)
        cosine, sine = _rotation(first, common, second)
        cosine, sine = cosine[..., None], sine[..., None]
        a = _mix(above, below, cosine, sine, -2)
        v = _mix(v[..., :half, :], v[..., half:, :], cosine, sine, -2)
        return (_turn(a, -2), _turn(v, -2), busy | jnp.any(common != 0)), None

    first = (jnp.pad(matrix, room), jnp.pad(vectors, room))
    a, v = _swept(rotate, first, even - 1, _SWEEPS + size // 8)
    return a[..., :size, :], v[..., :size, :]


def _swept(rotate, first, rounds, limit):
    """Sweep until a whole sweep has rotated nothing, or to the limit.

    More sweeps would not change a bit: a matrix that is done waits for the others of its batch.
    """

    def goes_on(carry):
        return carry[2] & (carry[3] < limit)

    def sweep(carry):
        a, v, _, done = carry
        (a, v, busy), _ = scan(rotate, (a, v, jnp.bool_(False)), length=rounds)
        return a, v, busy, done + 1

    a, v, _, _ = while_loop(goes_on, sweep, (*first, jnp.bool_(True), jnp.int32(0)))
    return a, v


def _turn(table: Array, axis: int) -> Array:
    """Seat the players of the next round: the first stays, the others move on in a circle.

    Joined pieces are copied several times faster than entries are gathered one by one.
    """
    size = table.shape[axis]
    half = size // 2
    if half == 1:
        return table

    def seats(start, stop):
        return jax.lax.slice_in_dim(table, start, stop, axis=axis)

    top = [seats(0, 1), seats(half, half + 1), seats(1, half - 1)]
    return jnp.concatenate([*top, seats(half + 1, size), seats(half - 1, half)], axis)


def _rotation(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Return cosine and sine of the smaller angle that makes [[a, b], [b, c]] diagonal."""
    zero = b == 0
    theta = (c - a) / (2 * jnp.where(zero, 1, b))
    sign = jnp.where(theta >= 0, 1, -1).astype(a.dtype)
    tangent = jnp.where(zero, 0, sign / (jnp.abs(theta) + jnp.hypot(theta, 1)))
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    return cosine, tangent * cosine


def _mix(left, right, cosine, sine, axis):
    """Rotate pairs of rows or columns."""
    return jnp.concatenate([cosine * left - sine * right, sine * left + cosine * right], axis)
