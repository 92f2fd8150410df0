r"""FedMAvg: federated averaging for matrix factorisation, the baseline of FedMC-ADMM.

With s clients drawn, p in all, and the shared factors V of the items:

    U_i <- U_i - ( grad_U f_i(U_i, V) + lam U_i ) / c,        c = 1/2 lambda_max(V^T V)
    W_i <- W_i - ( grad_V f_i(U_i, W_i) / omega + gamma W_i ) / d_i,   from W_i = V,
                                                              d_i = 5 lambda_max(U_i^T U_i)
    V   <- mean of W_i over the drawn clients

The paper prints omega = p, with which the step is p times shorter than intended ("paper"); omega =
1 is "fair". All clients update their users in every round, or only the drawn ones. As printed, c
and d_i do not see the weights: where lam exceeds c (few items, tiny factors) the steps diverge.

Where something happens to messages, the W_i do: V <- Agg(W_i of those who are heard), and V stays
where nobody is.

Reference: S. Wang, T.-H. Chang, "Federated Matrix Factorization: Algorithm Design and Application
to Data Clustering", IEEE Transactions on Signal Processing 70 (2022) 1625-1640; as compared with by
P. Hytla et al., whose c and d_i are those of their code.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    InputError,
    count,
    flag,
    one_of,
    scalar,
)
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import FactorData
from fedjax_admm.kernels import gram_gradient
from fedjax_admm.messages import ChannelState, Exchange, Identity, check_exchange
from fedjax_admm.participation import where_active
from fedjax_admm.penalties import SquaredL2
from fedjax_admm.ratings import (
    Factors,
    FactorStart,
    check_factor_start,
    item_quadratics,
    largest_eigenvalue,
    smallest_curvature_bound,
    uniform_start,
    user_quadratics,
)
from fedjax_admm.solvers._star import Said, Upload, init_exchange
from fedjax_admm.traffic import Traffic

SETTINGS = ("fair", "paper")


@short_repr
class FedMAvgState(NamedTuple):
    """The state of FedMAvg: no copies, no duals."""

    users: jax.Array  # shape=(clients, users_per_client, rank): U_i, zero where there is no user
    items: jax.Array  # shape=(items, rank): V
    post: Any = ()  # a `Post`: what the exchange remembers

    @property
    def factors(self) -> Factors:
        """Return what predicts."""
        return Factors(self.users, self.items)


@register_dataclass
@dataclass(frozen=True, eq=False)
class FedMAvg:
    """FedMAvg; build it with `fedmavg`."""

    user_penalty: SquaredL2  # lam
    item_penalty: SquaredL2  # gamma
    start: FactorStart
    user_steps: int = field(metadata={"static": True})
    item_steps: int = field(metadata={"static": True})
    setting: str = field(metadata={"static": True})  # "fair" or "paper"
    all_users: bool = field(metadata={"static": True})
    exchange: Exchange = field(default_factory=Exchange)  # of W_i

    requires: ClassVar[tuple[type, ...]] = (FactorData,)

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(clients,)`."""
        return (problem.num_clients,)

    def init(self, problem, key) -> FedMAvgState:
        """Start at the factors of `start`."""
        users, items = self.start(problem, key)
        copies = jnp.broadcast_to(items, (problem.num_clients, *items.shape))
        post = ()
        if not self.exchange.plain:
            post = init_exchange(self.exchange, key, Said((copies,)), Upload(), items)
        return FedMAvgState(users, items, post)

    def step(self, problem, state: FedMAvgState, info) -> FedMAvgState:
        """Return the state after one round."""
        everyone = problem.by_user.everyone
        chosen = everyone if info.sampled is None else info.sampled
        active = info.active[chosen]
        users, read, post = state.users, state.items, state.post
        if not isinstance(self.exchange.down, Identity):
            read, down = self.exchange.send_down(
                info.key, post.down, read, active, problem.num_clients, info.sampled
            )
            post = post._replace(down=down)
        if self.all_users:
            users = self._fit_users(problem, everyone, users, state.items)
            own = users[chosen]
        else:
            own = self._fit_users(problem, chosen, users[chosen], read)
            own = where_active(active, own, users[chosen])
            users = users.at[chosen].set(own, unique_indices=True)
        moved = self._fit_items(problem, chosen, own, read)
        if not self.exchange.plain:
            items, box = self._send(state, info, active, moved)
            return FedMAvgState(users, items, post._replace(up=(box,)))
        total = jnp.sum(jnp.where(active[:, None, None], moved, 0), 0)
        number = jnp.sum(active).astype(total.dtype)
        mean = total / jnp.maximum(number, 1)
        return FedMAvgState(users, jnp.where(number > 0, mean, state.items))

    def _send(self, state: FedMAvgState, info, active, moved) -> tuple[jax.Array, ChannelState]:
        """Return V after messages to which something happens, and their box."""
        delivery, box = self.exchange.send_up(
            info.key, info.index, state.post.up[0], moved, active, rows=info.sampled
        )
        heavy = jnp.where(delivery.arrived, delivery.weights, 0)
        # V stays where nobody is heard.
        return self.exchange.aggregate(delivery.values, heavy, state.items[None])[0], box

    def fresh(self, problem, state: FedMAvgState) -> Factors:
        """Return factors whose users took their steps once more against V, for prediction."""
        everyone = problem.by_user.everyone
        return Factors(self._fit_users(problem, everyone, *state.factors), state.items)

    def _fit_users(self, problem, chosen, users, items) -> jax.Array:
        """Return the users' factors of some clients after their steps."""
        rate = 1 / _guarded(largest_eigenvalue(items) / 2)
        if items.ndim == 3:  # each has read its own
            rate = rate[None, :, None]
        quadratic = user_quadratics(problem, chosen, items)

        def descend(u, _):
            slope = gram_gradient(quadratic, u) + self.user_penalty.weight * u
            return u - rate * slope, None

        last, _ = jax.lax.scan(descend, jnp.moveaxis(users, -1, 0), length=self.user_steps)
        return jnp.where(problem.here[chosen][..., None], jnp.moveaxis(last, 0, -1), 0)

    def _fit_items(self, problem, chosen, users, items) -> jax.Array:
        """Return the items' factors of some clients after their steps from V."""
        rate = 1 / _guarded(5 * largest_eigenvalue(users))[None, :, None]
        share = {"fair": 1.0, "paper": 1.0 / problem.num_clients}[self.setting]
        quadratic = item_quadratics(problem, chosen, users)

        def descend(w, _):
            slope = share * gram_gradient(quadratic, w) + self.item_penalty.weight * w
            return w - rate * slope, None

        copies = jnp.broadcast_to(items, (chosen.shape[0], *items.shape[-2:]))
        first = jnp.moveaxis(copies, -1, 0)
        last, _ = jax.lax.scan(descend, first, length=self.item_steps)
        return jnp.moveaxis(last, 0, -1)

    def estimate(self, state: FedMAvgState) -> jax.Array:
        """Return the shared factors V, shape (items, rank)."""
        return state.items

    def traffic(self, problem) -> Traffic:
        """Return W up and V down; V goes to all clients where all update their users."""
        shape = (problem.num_items, self.start.rank)
        if self.all_users:
            every = problem.num_clients * math.prod(shape)
            return self.exchange.traffic(up=[shape], down=[], broadcast=every)
        return self.exchange.traffic(up=[shape], down=[shape])

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the clients that send their W."""
        return jnp.sum(active, dtype=jnp.int32)


def fedmavg(
    setting: str = "fair",
    *,
    rank: int = 5,
    user_weight: ArrayLike = 1e-6,
    item_weight: ArrayLike = 1e-6,
    user_steps: int = 10,
    item_steps: int = 10,
    start: FactorStart | None = None,
    all_users: bool = True,
    exchange: Exchange | None = None,
) -> FedMAvg:
    """Build FedMAvg.

    Args:
      setting: "fair" (omega = 1) or "paper" (omega = p).
      rank: number of components.
      user_weight: lam, of 1/2 ||U_i||^2.
      item_weight: gamma, of 1/2 ||V||^2.
      user_steps: gradient steps on U_i per round.
      item_steps: gradient steps on W_i per round.
      start: where to start; it brings its own rank.
      all_users: every client updates its users in every round, drawn or not: p messages down.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None. It compresses
        the way down only to the clients drawn, without `all_users`.

    Returns:
      The solver.

    Raises:
      InputError: the setting is unknown, a number is out of range, or something happens on the way
        down to all users.
    """
    one_of("setting", setting, SETTINGS)
    chosen = check_exchange(exchange)
    if flag("all_users", all_users) and not isinstance(chosen.down, Identity):
        raise InputError(
            "does not go with a channel down in the {exchange}: V goes to everybody in every round "
            "as it is",
            argument="all_users",
            value=all_users,
            remedy="give all_users=False, or leave the channel down out",
            others=["exchange"],
        )
    start = uniform_start(rank=rank) if start is None else start
    check_factor_start(start)
    return FedMAvg(
        SquaredL2(scalar("user_weight", user_weight, at_least=0)),
        SquaredL2(scalar("item_weight", item_weight, at_least=0)),
        start,
        count("user_steps", user_steps),
        count("item_steps", item_steps),
        setting,
        all_users,
        chosen,
    )


def _guarded(curvature: jax.Array) -> jax.Array:
    return jnp.maximum(curvature, smallest_curvature_bound(curvature.dtype))
