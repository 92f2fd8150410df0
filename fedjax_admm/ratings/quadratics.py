r"""Quadratics of factor models of ratings per client, their curvature bounds, and steps on them.

For a client with users u_t and items w_j, the loss 1/2 sum (u_t^T w_j - M_tj)^2 is, with one block
fixed, one quadratic per row of the other (see `kernels.factor_gram`). Arrays of quadratics have the
rank (rank + 1) / 2 + rank components first, shape (components, places, rows): a place is one of the
`chosen` clients of a `MatrixCompletion`.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems", section on the local updates.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._linear_algebra import top_eigenvalue
from fedjax_admm.kernels import factor_gram, gram_gradient, gram_norm, safe_norm
from fedjax_admm.penalties import Penalty
from fedjax_admm.ratings._factors import Factors


def user_quadratics(problem, chosen: jax.Array, items: jax.Array) -> jax.Array:
    """Return the quadratics of the users, shape (components, places, users_per_client).

    `items` are the items' factors, shape (places, items, rank), or (items, rank) for shared ones.
    """
    stride = problem.num_items * (items.ndim - 2)

    def entry(place, users, columns):
        return users, place * stride + columns

    return _quadratics(problem.by_user.of(chosen), items, problem.users_per_client, entry)


def item_quadratics(problem, chosen: jax.Array, users: jax.Array) -> jax.Array:
    """Return the quadratics of the items, shape (components, places, items).

    `users` are the users' factors, shape (places, users_per_client, rank).
    """
    entry = _item_entry(problem.users_per_client)
    return _quadratics(problem.by_item.of(chosen), users, problem.num_items, entry)


def _item_entry(stride):
    def entry(place, columns, items):
        return items, place * stride + columns

    return entry


def _quadratics(ratings, factors, width, entry) -> jax.Array:
    """Collect the quadratics of the rows at every place; `entry` gives row and column."""

    def collect(ratings, own, shared):
        sums = _sums(ratings, own if shared is None else shared, width, entry)
        return jnp.moveaxis(sums, -1, 0)[..., :width]

    own, shared = (factors, None) if factors.ndim > 2 else (None, factors)
    return ratings.apart(collect, own, shared, axis=1)


def _sums(ratings, factors, width, entry) -> jax.Array:
    """Return the quadratics of the rows, shape (places, width + 1, components).

    The last row of every place collects its padding.
    """
    rank, places = factors.shape[-1], ratings.first.shape[0]
    flat = factors.reshape(-1, rank)

    def add(sums, place, users, items, values):
        row, column = entry(place, users, items)
        rows = place * (width + 1) + row
        return factor_gram(flat, rows, column, values, sums.shape[0], sums)

    zero = jnp.zeros((places * (width + 1), rank * (rank + 3) // 2), flat.dtype)
    return ratings.fold(ratings.everyone, zero, add).reshape(places, width + 1, -1)


ROWS = 512
"""Items whose steps are taken at a time: their quadratics stay in the cache."""


def copy_steps(
    problem,
    chosen: jax.Array,
    users: jax.Array,
    copies: jax.Array,
    pull: jax.Array,
    beta: jax.Array,
    bound: str,
    share: float,
    steps: int,
) -> jax.Array:
    """Take the steps of clients' copies of the items' factors, some items of a client at a time.

    `W <- (l W + pull - share (G W - b)) / (l + beta)`, with l the curvature bound times `share`.

    Args:
      problem: a `MatrixCompletion`.
      chosen: numbers of the clients, shape (places,), int32.
      users: their users' factors, shape (places, users_per_client, rank).
      copies: W, shape (places, items, rank).
      pull: likewise.
      beta: shape ().
      bound: "fro", "spec" or "row".
      share: of the loss.
      steps: number of steps.
    """
    width, entry = problem.num_items, _item_entry(problem.users_per_client)
    size = min(ROWS, width)
    parts = -(-width // size)

    def collect(ratings, own, beta):
        users, copies, pull = own
        sums, places = _sums(ratings, users, width, entry), users.shape[0]
        # A bound per row is found with the row; the others are the client's.
        general = None if bound == "row" else curvature_bound(bound, sums, users)

        def work(moved, number):
            place = number // parts
            start = jnp.minimum(number % parts * size, width - size)
            none = jnp.zeros_like(start)

            def rows(array):
                """Return some rows at a place, components first."""
                sizes = (1, size, array.shape[-1])
                return jnp.moveaxis(
                    jax.lax.dynamic_slice(array, (place, start, none), sizes)[0], 1, 0
                )

            quadratic = rows(sums)
            if general is None:
                curvature = curvature_bound(bound, quadratic, users)
            else:
                curvature = general[0, place][None]
            inverse = 1 / (share * curvature + beta)
            quadratic, towards = quadratic * (share * inverse), rows(pull) * inverse
            kept = share * curvature * inverse

            def descend(w, _):
                return kept * w + towards - gram_gradient(quadratic, w), None

            last, _ = jax.lax.scan(descend, rows(copies), length=steps)
            last = jnp.moveaxis(last, 0, 1)[None]
            return jax.lax.dynamic_update_slice(moved, last, (place, start, none)), None

        numbers = jnp.arange(places * parts, dtype=jnp.int32)
        return jax.lax.scan(work, jnp.zeros_like(copies), numbers)[0]

    own = (users, copies, pull)
    return problem.by_item.of(chosen).apart(collect, own, beta, axis=0)


def item_gradients(problem, factors: Factors) -> jax.Array:
    """Return the gradient of every client's loss in the items' factors, in one pass.

    Row j of client i is `sum over t of (u_t^T v_j - M_tj) u_t`; shape (clients, items, rank).
    """
    width, rank = problem.num_items + 1, factors.items.shape[-1]
    stride = problem.users_per_client

    def collect(ratings, own, shared):
        mine = Factors(own.users, own.items if shared is None else shared)
        flat, clients = mine.users.reshape(-1, rank), mine.users.shape[0]

        def add(sums, client, users, items, values):
            error = mine.residuals(client, users, items, values)
            terms = error[:, None] * flat[client * stride + users]
            return sums.at[client * width + items].add(terms, indices_are_sorted=True)

        zero = jnp.zeros((clients * width, rank), flat.dtype)
        sums = ratings.fold(ratings.everyone, zero, add)
        return sums.reshape(clients, width, rank)[:, :-1]

    own, shared = factors, None
    if factors.items.ndim == 2:
        own, shared = factors._replace(items=None), factors.items
    return problem.by_item.apart(collect, own, shared, axis=0)


def smallest_curvature_bound(dtype: Any) -> float:
    """Return a positive number far below any true curvature bound."""
    return 1e-12 if dtype == jnp.float64 else 1e-20


def _frobenius(quadratic: jax.Array, other: jax.Array) -> jax.Array:
    gram = gram_matrix(other)
    return safe_norm(gram.reshape(*gram.shape[:-2], -1)).reshape(1, -1, 1)


def _spectral(quadratic: jax.Array, other: jax.Array) -> jax.Array:
    return largest_eigenvalue(other).reshape(1, -1, 1)


def _per_row(quadratic: jax.Array, other: jax.Array) -> jax.Array:
    return gram_norm(quadratic)[None]


CURVATURE_BOUNDS: Mapping[str, Any] = {"fro": _frobenius, "spec": _spectral, "row": _per_row}
"""Upper bounds of the curvature of the loss in one block.

`fro` is ||W^T W||_F and `spec` ||W^T W||_2, one per client, with W the other block; `row` is
||G_t||_F, one per row, which is valid because the rows' losses are separate.
"""


def curvature_bound(name: str, quadratic: jax.Array, other: jax.Array) -> jax.Array:
    """Return an upper bound of the curvature in one block, shape (1, places or 1, rows or 1).

    It is kept above `smallest_curvature_bound`. `quadratic` is the block's, shape (components,
    places, rows), `other` the other block's factors, shape (places, its rows, rank) or without
    places.
    """
    return jnp.maximum(
        CURVATURE_BOUNDS[name](quadratic, other), smallest_curvature_bound(other.dtype)
    )


def gram_matrix(w: jax.Array) -> jax.Array:
    """Return W^T W of factors (..., rows, rank), shape (..., rank, rank)."""
    return jnp.einsum("...na,...nb->...ab", w, w, precision=jax.lax.Precision.HIGHEST)


def largest_eigenvalue(w: jax.Array) -> jax.Array:
    """Return the largest eigenvalue of W^T W for factors (..., rows, rank), shape (...,)."""
    gram = gram_matrix(w)
    flat = gram.reshape(-1, *gram.shape[-2:])
    return jax.vmap(top_eigenvalue)(flat).reshape(gram.shape[:-2])


def user_steps(
    quadratic: jax.Array,
    curvature: jax.Array,
    users: jax.Array,
    here: jax.Array,
    penalty: Penalty,
    steps: int,
) -> jax.Array:
    """Take proximal gradient steps `U <- prox of R / L at (U - (G U - b) / L)`.

    Args:
      quadratic: shape (components, places, users_per_client).
      curvature: L, broadcasts against (rank, places, users_per_client).
      users: shape (places, users_per_client, rank); zero where there is no user.
      here: bool, shape (places, users_per_client): which users there are.
      penalty: R, a function of rows (..., rank).
      steps: number of steps.
    """
    length = jnp.moveaxis(1 / curvature, 0, -1)

    def descend(u, _):
        moved = u - gram_gradient(quadratic, u) / curvature
        return jnp.moveaxis(penalty.prox(jnp.moveaxis(moved, 0, -1), length), -1, 0), None

    last, _ = jax.lax.scan(descend, jnp.moveaxis(users, -1, 0), length=steps)
    return jnp.where(here[..., None], jnp.moveaxis(last, 0, -1), 0)
