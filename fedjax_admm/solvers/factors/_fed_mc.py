"""FedMC-ADMM: federated matrix completion by linearised ADMM with sampled clients.

There are p clients. Each participating client i has its users' factors U_i, a copy W_i of the
items' factors V and a dual variable Y_i. With N inner steps per block it computes

    U_i <- prox of R_i / L at ( U_i - grad_U f_i(U_i, W_i) / L ),                        N times
    W_i <- ( l W_i + beta V - grad_V f_i(U_i, W_i) / p - Y_i ) / (l + beta),             N times
    Y_i <- Y_i + beta (W_i - V)

and the server computes, over all clients, absent ones included,

    V <- prox of R / (p beta) at 1/p sum_i ( W_i + Y_i / beta )

L is an upper bound of the curvature of f_i in U, the Frobenius norm of W_i^T W_i. l is one of the
curvature in W, the norm of U_i^T U_i, divided by p. With the other block fixed the loss is one
quadratic in `rank` variables per row, so a round makes two passes over the client's ratings for
any N.

With an exchange a client sends only M_i = W_i + Y_i / beta, and V is the prox of R / (p beta) at
the aggregate of the last M_i^ that arrived. Half of the difference M_i - M_i^ is then subtracted
from W_i, and half of it, times beta, from Y_i.

On several devices (see `devices`) each device computes its own clients and sends sums of shape
(items, rank). A fixed number of drawn clients is distributed evenly: their U_i, W_i and Y_i are
moved to the device that computes them, and back.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems", Algorithm 1. Messages reveal which
items a client rated, and the dual variable is minus a gradient over p: only the ratings and U_i are
private.
"""

from dataclasses import replace
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, declared, flagged, having, one_of, option, positive
from fedjax_admm.penalties import squared_l2
from fedjax_admm.ratings import FactorStart
from fedjax_admm.ratings.quadratics import (
    CURVATURE_BOUNDS,
    copy_steps,
    curvature_bound,
    item_gradients,
    user_quadratics,
    user_steps,
)
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._factors import FactorSolver, RatingsOf, start_of, started
from fedjax_admm.solvers.factors._fed_mc_constants import FED_MC_PRESETS
from fedjax_admm.traffic import Traffic


class FedMCClients(NamedTuple):
    """What every client keeps; the server remembers the last W_i + Y_i / beta of each."""

    users: jax.Array  # shape=(clients, users_per_client, rank): U_i, zero where there is no user
    copies: jax.Array  # shape=(clients, items, rank): W_i
    duals: jax.Array  # shape=(clients, items, rank): Y_i


_check_penalty = having(
    "prox",
    kind="a penalty such as penalties.squared_l2(1e-6)",
    default=partial(squared_l2, 1e-6),
)


@roles.pytree_dataclass
class FedMCADMM(FactorSolver):
    """FedMC-ADMM; build it with `fed_mc_admm`."""

    beta: jax.Array = positive()  # shape=(): weight of the constraint W_i = V
    user_penalty: roles.Penalty = declared(_check_penalty)  # R_i
    item_penalty: roles.Penalty = declared(_check_penalty)  # R
    start: FactorStart = started()
    exchange: roles.Exchange = roles.exchanged()  # of W_i + Y_i / beta
    inner_steps: int = counted()  # N
    bound: str = option(*CURVATURE_BOUNDS)  # "fro", "spec" or "row"
    zero_dual: bool = flagged()
    combined: bool = flagged()  # whether clients send W_i + Y_i / beta only

    compensates: ClassVar[bool] = True  # a plain running sum would drift

    def start_clients(self, problem, models, key):
        """Start all copies at V, and the duals at minus the gradient or at zero."""
        factors, duals = self.first_factors(problem, key), jnp.zeros_like(models)
        if not self.zero_dual:
            duals = -item_gradients(problem, factors) / problem.num_clients
        return FedMCClients(factors.users, models, duals), roles.RoundMessage()

    def client(self, ratings: RatingsOf, clients: FedMCClients, items, key):
        """Return U_i, W_i and Y_i after N steps of each block."""
        users = self.fit_users(ratings, clients.users, clients.copies)
        pull, share = self.beta * items - clients.duals, 1.0 / ratings.problem.num_clients
        copies = copy_steps(
            *ratings, users, clients.copies, pull, self.beta, self.bound, share, self.inner_steps
        )
        return FedMCClients(
            users, copies, clients.duals + self.beta * (copies - items)
        ), roles.RoundMessage()

    def upload(self, clients: FedMCClients) -> roles.Upload:
        """Return W_i + Y_i / beta."""
        return roles.Upload((clients.copies + clients.duals / self.beta,))

    def apply_decoded(self, clients: FedMCClients, values) -> FedMCClients:
        """Return clients whose upload is the value: half of the difference in W_i, half in Y_i."""
        lost = (clients.copies + clients.duals / self.beta - values[0]) / 2
        return clients._replace(
            copies=clients.copies - lost, duals=clients.duals - self.beta * lost
        )

    def serves(self, number) -> bool:
        """Return that the server takes a step in rounds of nobody, too: V follows from M_i."""
        return True

    def server(self, items, received: roles.Received, info) -> jax.Array:
        """Return V."""
        return self.item_penalty.prox(received.means[0], 1 / (received.num_clients * self.beta))

    def fit_users(self, ratings: RatingsOf, users, items) -> jax.Array:
        """Return the users' factors of some clients after N steps."""
        quadratic = user_quadratics(*ratings, items)
        curvature = curvature_bound(self.bound, quadratic, items)
        return user_steps(
            quadratic, curvature, users, ratings.here, self.user_penalty, self.inner_steps
        )

    def traffic(self, problem) -> Traffic:
        """Return V down, W and Y (or their combination) up; once before, Y where it is not zero."""
        sent = super().traffic(problem)
        before = 0 if self.zero_dual else problem.num_clients * sent.up
        return sent._replace(up=sent.up if self.combined else 2 * sent.up, before=before)


def fed_mc_admm(
    preset: str = "default",
    *,
    rank: int = 5,
    beta: ArrayLike | None = None,
    user_penalty: roles.Penalty | None = None,
    item_penalty: roles.Penalty | None = None,
    inner_steps: int = 10,
    bound: str = "fro",
    start: FactorStart | None = None,
    zero_dual: bool = False,
    combined: bool = False,
    exchange: roles.Exchange | None = None,
) -> FedMCADMM:
    """Build FedMC-ADMM.

    Presets: "paper" takes beta = 1e4, as the authors' code; "default" takes beta = 1e5, which is
    better on MovieLens 100K with 100 clients (`fed_mc_typical_beta` carries it over to other
    tables). Both start from entries uniform on [0, 2e-4], to which these belong (see
    `uniform_start`), with squares of weight 1e-6 as regularisers. The paper's condition for
    convergence asks for a beta that is larger by many orders of magnitude (`fed_mc_theory_beta`).

    Args:
      preset: where the numbers come from that are not given.
      rank: number of components.
      beta: weight of the constraint that copies equal V.
      user_penalty: R_i, any penalty with a prox; a function of the rows of U_i.
      item_penalty: R, likewise.
      inner_steps: N, gradient steps per block.
      bound: of the curvature: "fro", "spec" or "row" (`ratings.quadratics.CURVATURE_BOUNDS`).
      start: where to start; it brings its own rank.
      zero_dual: start with Y_i = 0 instead of minus the gradient, which all clients would have to
        send before the first round.
      combined: clients send W_i + Y_i / beta in one array; the iterates are the same.
      exchange: of messages, `messages.exchange(...)`; none if None. Clients then
        send the one array, whatever `combined` says. Y_i before the first round arrives as it is.
    """
    one_of("preset", preset, FED_MC_PRESETS)
    beta, start = FED_MC_PRESETS[preset] if beta is None else beta, start_of(start, rank)
    solver = build(FedMCADMM, **locals())
    return replace(solver, combined=solver.combined or not solver.exchange.plain)
