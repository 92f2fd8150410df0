"""FedMAvg: federated averaging for matrix factorisation, the baseline of FedMC-ADMM.

There are p clients, some of which are drawn per round. V holds the shared factors of the items:

    U_i <- U_i - ( grad_U f_i(U_i, V) + lam U_i ) / c,        c = 1/2 lambda_max(V^T V)
    W_i <- W_i - ( grad_V f_i(U_i, W_i) / omega + gamma W_i ) / d_i,   from W_i = V,
                                                              d_i = 5 lambda_max(U_i^T U_i)
    V   <- mean of W_i over the drawn clients

The paper of FedMC-ADMM prints omega = p, which makes the step p times shorter than intended
("paper"); omega = 1 is "fair". Either all clients or only the drawn ones update their users. As
printed, c and d_i ignore the weights lam and gamma: if lam exceeds c (few items, tiny factors) the
steps diverge. V does not change if no W_i arrives.

Reference: S. Wang, T.-H. Chang, "Federated Matrix Factorization: Algorithm Design and Application
to Data Clustering", IEEE Transactions on Signal Processing 70 (2022) 1625-1640. The form is that of
the comparison by P. Hytla et al.; c and d_i are those of their code.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, declared, flagged, option, refuse, scalar
from fedjax_admm.kernels import gram_gradient
from fedjax_admm.penalties import SquaredL2, squared_l2
from fedjax_admm.ratings import FactorStart
from fedjax_admm.ratings.quadratics import (
    item_quadratics,
    largest_eigenvalue,
    smallest_curvature_bound,
    user_quadratics,
)
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._factors import FactorSolver, RatingsOf, start_of, started
from fedjax_admm.traffic import Traffic


class FedMAvgClients(NamedTuple):
    """What every client keeps: no copies, no duals."""

    users: jax.Array  # shape=(clients, users_per_client, rank): U_i, zero where there is no user


def _squares(name: str, weight: Any) -> SquaredL2:
    return squared_l2(scalar(name, weight, at_least=0))


@roles.pytree_dataclass
class FedMAvg(FactorSolver):
    """FedMAvg; build it with `fed_mavg`."""

    setting: str = option("fair", "paper")
    user_penalty: SquaredL2 = declared(_squares, argument="user_weight")  # lam
    item_penalty: SquaredL2 = declared(_squares, argument="item_weight")  # gamma
    start: FactorStart = started()
    exchange: roles.Exchange = roles.exchanged()  # of W_i
    user_steps: int = counted()
    item_steps: int = counted()
    all_users: bool = flagged()

    def start_clients(self, problem, models, key):
        """Start the users' factors; every W_i is V."""
        return FedMAvgClients(self.first_factors(problem, key).users), roles.RoundMessage((models,))

    def step(self, problem, state: roles.StarState, info) -> roles.StarState:
        """Return the state after one round."""
        if self.all_users:  # absent ones, too
            users = self.fit_all_users(problem, state.clients.users, state.server)
            state = state._replace(clients=FedMAvgClients(users))
        return super().step(problem, state, info)

    def client(self, ratings: RatingsOf, clients: FedMAvgClients, items, key):
        """Return U_i, and say W_i."""
        if self.reads_exactly:  # all read the same
            items = items[0]
        if not self.all_users:
            clients = FedMAvgClients(self.fit_users(ratings, clients.users, items))
        return clients, roles.RoundMessage((self._fit_items(ratings, clients.users, items),))

    def server(self, items, received: roles.Received, info) -> jax.Array:
        """Return the mean of the W_i."""
        return received.means[0]

    def fit_users(self, ratings: RatingsOf, users, items) -> jax.Array:
        """Return the users' factors of some clients after their steps."""
        rate = 1 / _guarded(largest_eigenvalue(items) / 2)
        if items.ndim == 3:  # each has read its own
            rate = rate[None, :, None]
        quadratic = user_quadratics(*ratings, items)
        moved = _descend(quadratic, users, rate, 1, self.user_penalty.weight, self.user_steps)
        return jnp.where(ratings.here[..., None], moved, 0)

    def _fit_items(self, ratings: RatingsOf, users, items) -> jax.Array:
        """Return the items' factors W_i of some clients after their steps from V."""
        rate = 1 / _guarded(5 * largest_eigenvalue(users))[None, :, None]
        share = {"fair": 1.0, "paper": 1.0 / ratings.problem.num_clients}[self.setting]
        quadratic = item_quadratics(*ratings, users)
        first = jnp.broadcast_to(items, (len(users), *items.shape[-2:]))
        return _descend(quadratic, first, rate, share, self.item_penalty.weight, self.item_steps)

    def traffic(self, problem) -> Traffic:
        """Return W up and V down; V goes to all clients where all update their users."""
        sent = super().traffic(problem)
        if not self.all_users:
            return sent
        bits = None if sent.down_bits is None else 0
        return sent._replace(down=0, down_bits=bits, broadcast=problem.num_clients * sent.down)


def fed_mavg(
    setting: str = "fair",
    *,
    rank: int = 5,
    user_weight: ArrayLike = 1e-6,
    item_weight: ArrayLike = 1e-6,
    user_steps: int = 10,
    item_steps: int = 10,
    start: FactorStart | None = None,
    all_users: bool = True,
    exchange: roles.Exchange | None = None,
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
      exchange: of messages, `messages.exchange(...)`; none if None. It compresses
        the way down only to the clients drawn, without `all_users`.
    """
    start = start_of(start, rank)
    solver = build(FedMAvg, **locals())
    refuse(
        solver.all_users and not solver.reads_exactly,
        "all_users",
        "does not go with a channel down in the {exchange}: V goes to everybody in every round "
        "as it is",
        remedy="give all_users=False, or leave the channel down out",
    )
    return solver


def _descend(quadratic, first, rate, share, weight, steps: int) -> jax.Array:
    """Return factors (clients, rows, rank) after gradient steps on a quadratic per row."""

    def step(w, _):
        return w - rate * (share * gram_gradient(quadratic, w) + weight * w), None

    last, _ = jax.lax.scan(step, jnp.moveaxis(first, -1, 0), length=steps)
    return jnp.moveaxis(last, 0, -1)


def _guarded(curvature: jax.Array) -> jax.Array:
    return jnp.maximum(curvature, smallest_curvature_bound(curvature.dtype))
