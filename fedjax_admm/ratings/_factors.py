"""Factor models of ratings, and where a solver starts with them."""

from dataclasses import field
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import count, finite_array, having, of_shape, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import factor_residual


class Factors(NamedTuple):
    """A model of ratings: user t of a client rates item j with `u_t^T v_j`, standardised."""

    users: jax.Array  # shape=(clients, users_per_client, rank)
    items: jax.Array  # shape=(items, rank), shared; or (clients, items, rank), each client's own

    def residuals(self, client, users, items, values) -> jax.Array:
        """Return prediction minus value for ratings of clients' users, shape (ratings,)."""
        rank = self.items.shape[-1]
        own = self.items.shape[-2] * (self.items.ndim - 2)
        return factor_residual(
            self.users.reshape(-1, rank),
            self.items.reshape(-1, rank),
            client * self.users.shape[1] + users,
            client * own + items,
            values,
        )


class FactorStart(Protocol):
    """The start of a solver: `start(problem, key) -> Factors`, with a static `rank`."""

    @property
    def rank(self) -> int: ...  # number of components

    def __call__(self, problem: Any, key: jax.Array) -> Factors: ...


@pytree_dataclass
class UniformStart:
    """Entries uniform from 0 to a scale."""

    user_scale: jax.Array  # shape=()
    item_scale: jax.Array  # shape=()
    rank: int = field(metadata={"static": True})

    def __call__(self, problem, key):
        """Draw both factors."""
        user_key, item_key = jax.random.split(key)
        dtype = problem.by_user.values.dtype
        shape = (problem.num_clients, problem.users_per_client, self.rank)
        users = self.user_scale * jax.random.uniform(user_key, shape, dtype)
        shape = (problem.num_items, self.rank)
        items = self.item_scale * jax.random.uniform(item_key, shape, dtype)
        return Factors(jnp.where(problem.here[..., None], users, 0), items)


@pytree_dataclass
class GivenStart:
    """Factors that are given."""

    users: jax.Array  # shape=(clients, users_per_client, rank)
    items: jax.Array  # shape=(items, rank)

    @property
    def rank(self) -> int:
        """Return the number of components."""
        return self.items.shape[-1]

    def __call__(self, problem, key):
        """Return them; rows of absent users become zero."""
        users = (problem.num_clients, problem.users_per_client, self.rank)
        items = (problem.num_items, self.rank)
        of_shape("start.users", self.users, users)
        of_shape("start.items", self.items, items)
        return Factors(jnp.where(problem.here[..., None], self.users, 0), self.items)


def uniform_start(
    scale: ArrayLike = 2e-4, *, rank: int = 5, item_scale: ArrayLike | None = None
) -> UniformStart:
    """Start from entries uniform on [0, scale].

    Scale and beta belong together: c times the users' scale, 1 / c times the items' one, c^2 times
    beta, lam / c^2 and c^2 gamma (l2; lam / c and c gamma for l1) is the same run.

    Args:
      scale: of the users' factors, and of the items'.
      rank: number of components.
      item_scale: of the items' factors, if it is another.
    """
    scale = scalar("scale", scale, at_least=0)
    items = scale if item_scale is None else scalar("item_scale", item_scale, at_least=0)
    return UniformStart(scale, items, count("rank", rank))


def given_start(users: ArrayLike, items: ArrayLike) -> GivenStart:
    """Start from given factors, shapes (clients, users_per_client, rank) and (items, rank)."""
    items = finite_array("items", items, (None, None))
    count("rank", items.shape[1])
    return GivenStart(finite_array("users", users, (None, None, items.shape[1])), items)


check_factor_start = partial(
    having("__call__", "rank", kind="what uniform_start or given_start returns"), "start"
)
"""Check that a solver's start is one."""
