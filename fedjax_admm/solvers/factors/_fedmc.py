r"""FedMC-ADMM: federated matrix completion by linearised ADMM with sampled clients.

Each client i that takes part, with N inner steps per block, its copy W_i of the items' factors V,
its dual variable Y_i and p clients in all:

    U_i <- prox of R_i / L at ( U_i - grad_U f_i(U_i, W_i) / L ),                        N times
    W_i <- ( l W_i + beta V - grad_V f_i(U_i, W_i) / p - Y_i ) / (l + beta),             N times
    Y_i <- Y_i + beta (W_i - V)

and the server, over all clients whether they took part or not,

    V <- prox of R / (p beta) at 1/p sum_i ( W_i + Y_i / beta )

with L an upper bound of the curvature of f_i in U (the Frobenius norm of W_i^T W_i), l one in W
over p (that of U_i^T U_i). With the other block fixed the loss is one r x r quadratic per row:
two passes over the client's ratings per round, however large N.

A client may send W_i + Y_i / beta alone, and does where something happens to messages: with M_i^
what is left of it on its way, as the server heard it last,

    V <- prox of R / (p beta) at Agg_i(M_i^)

and half of the loss W_i + Y_i / beta - M_i^ is taken from W_i, half of it, times beta, from Y_i at
honest clients, so that both ends hold the same. These are matrices, one per client.

Over devices (see `devices`) each works for its own clients, and sums of (items, rank) are what
they exchange. Where a fixed number is drawn, the drawn clients are dealt out evenly instead: their
U_i, W_i and Y_i travel to the device that works for them, and back.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems", Algorithm 1. What is sent reveals which
items a client rated, and the dual variable is its gradient: nothing is private but ratings and U_i.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import penalties
from fedjax_admm._checks import (
    InputError,
    count,
    flag,
    one_line,
    one_of,
    scalar,
)
from fedjax_admm._linear_algebra import compensated_sum
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import FactorData
from fedjax_admm.messages import Exchange, at_rows, check_exchange, put_rows
from fedjax_admm.participation import where_active
from fedjax_admm.penalties import Penalty
from fedjax_admm.ratings import (
    CURVATURE_BOUNDS,
    Factors,
    FactorStart,
    check_factor_start,
    copy_steps,
    curvature_bound,
    item_gradients,
    uniform_start,
    user_quadratics,
    user_steps,
)
from fedjax_admm.solvers._star import ExchangeState, Said, Upload, init_exchange
from fedjax_admm.solvers.factors._fedmc_constants import FEDMC_PRESETS
from fedjax_admm.traffic import Traffic


@short_repr
class FedMCClients(NamedTuple):
    """What every client keeps; the server keeps the last W and Y that it was sent."""

    users: jax.Array  # shape=(clients, users_per_client, rank): U_i, zero where there is no user
    copies: jax.Array  # shape=(clients, items, rank): W_i
    duals: jax.Array  # shape=(clients, items, rank): Y_i


@short_repr
class FedMCState(NamedTuple):
    """The state of FedMC-ADMM."""

    clients: FedMCClients
    items: jax.Array  # shape=(items, rank): V
    total: tuple[jax.Array, jax.Array]  # each shape=(items, rank): sum of W_i + Y_i / beta over
    # all clients, and what rounding has cut off: a plain running sum would drift
    post: Any = ()  # Post: what the exchange remembers; the sum then stays what it was

    @property
    def factors(self) -> Factors:
        """Return what predicts: each client's own U_i, possibly stale, and the shared V."""
        return Factors(self.clients.users, self.items)


@register_dataclass
@dataclass(frozen=True, eq=False)
class FedMCADMM:
    """FedMC-ADMM; build it with `fedmc_admm`."""

    beta: jax.Array  # shape=(): weight of the constraint W_i = V
    user_penalty: Penalty  # R_i
    item_penalty: Penalty  # R
    start: FactorStart
    inner_steps: int = field(metadata={"static": True})  # N
    bound: str = field(metadata={"static": True})  # "fro", "spec" or "row"
    zero_dual: bool = field(metadata={"static": True})
    combined: bool = field(metadata={"static": True})  # whether clients send W + Y / beta only
    exchange: Exchange = field(default_factory=Exchange)  # of W + Y / beta

    requires: ClassVar[tuple[type, ...]] = (FactorData,)

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(clients,)`."""
        return (problem.num_clients,)

    def init(self, problem, key) -> FedMCState:
        """Start all copies at V, and the duals at minus the gradient or at zero."""
        users, items = factors = self.start(problem, key)
        copies = jnp.broadcast_to(items, (problem.num_clients, *items.shape))
        duals = jnp.zeros_like(copies)
        if not self.zero_dual:
            duals = -item_gradients(problem, factors) / problem.num_clients
        clients = FedMCClients(users, copies, duals)
        uploads = copies + duals / self.beta
        total = jnp.sum(uploads, 0)
        post = ()
        if not self.exchange.plain:
            post = init_exchange(self.exchange, key, Said(), Upload((uploads,)), items)
        return FedMCState(clients, items, (total, jnp.zeros_like(total)), post)

    def step(self, problem, state: FedMCState, info) -> FedMCState:
        """Return the state after one round."""
        everyone = info.sampled is None
        chosen = problem.by_user.everyone if everyone else info.sampled
        # Over devices, gathered rows would leave them: everybody's stay where they are.
        old = state.clients
        if not everyone:
            old = jax.tree.map(lambda array: array[chosen], state.clients)
        read, down = state.items[None], ()
        if not self.exchange.plain:
            present = at_rows(info.sampled, info.active)
            read, down = self.exchange.send_down(
                info.key, state.post.down, state.items, present, problem.num_clients, info.sampled
            )
        users = self._users(problem, chosen, old.users, old.copies)
        copies = self._copies(problem, chosen, users, old, read)
        new = FedMCClients(users, copies, old.duals + self.beta * (copies - read))
        if not self.exchange.plain:
            return self._send(problem, state, info, new, down)
        if everyone:
            new = where_active(info.active, new, old)
        change = (new.copies - old.copies) + (new.duals - old.duals) / self.beta
        total = compensated_sum(state.total, jnp.sum(change, 0))
        clients = new
        if not everyone:
            clients = jax.tree.map(
                lambda array, rows: array.at[chosen].set(rows, unique_indices=True),
                state.clients,
                new,
            )
        mean = (total[0] + total[1]) / problem.num_clients
        return FedMCState(clients, self._items(problem, mean), total)

    def _send(self, problem, state: FedMCState, info, new: FedMCClients, down) -> FedMCState:
        """Return the state after messages to which something happens."""
        rows = info.sampled
        present = at_rows(rows, info.active)
        uploads = new.copies + new.duals / self.beta
        delivery, box = self.exchange.send_up(
            info.key, info.index, state.post.up[0], uploads, present, rows=rows
        )
        lost = (uploads - delivery.coded) / 2
        taken = new._replace(copies=new.copies - lost, duals=new.duals - self.beta * lost)
        new = where_active(delivery.bad, new, taken)
        clients = put_rows(rows, present, new, state.clients)
        last = self.exchange.aggregate(box.known, box.weights, box.last)
        post = ExchangeState((box._replace(last=last),), down)
        return FedMCState(clients, self._items(problem, last[0]), state.total, post)

    def _items(self, problem, mean: jax.Array) -> jax.Array:
        """Return V, given the mean of what the clients sent last."""
        return self.item_penalty.prox(mean, 1 / (problem.num_clients * self.beta))

    def fresh(self, problem, state: FedMCState) -> Factors:
        """Return factors whose users took N more steps against the shared V, for prediction."""
        everyone = problem.by_user.everyone
        return Factors(self._users(problem, everyone, *state.factors), state.items)

    def _users(self, problem, chosen, users, items) -> jax.Array:
        """Return the users' factors of some clients after N steps with the items' fixed."""
        quadratic = user_quadratics(problem, chosen, items)
        curvature = curvature_bound(self.bound, quadratic, items)
        here = problem.here[chosen]
        return user_steps(quadratic, curvature, users, here, self.user_penalty, self.inner_steps)

    def _copies(self, problem, chosen, users, old: FedMCClients, items) -> jax.Array:
        """Return the copies of some clients after N steps with their users fixed.

        V, `items`, has shape (1, items, rank), or (clients, items, rank) if each read its own.
        """
        pull = self.beta * items - old.duals
        share, steps = 1.0 / problem.num_clients, self.inner_steps
        return copy_steps(
            problem, chosen, users, old.copies, pull, self.beta, self.bound, share, steps
        )

    def estimate(self, state: FedMCState) -> jax.Array:
        """Return the shared factors V, shape (items, rank)."""
        return state.items

    def traffic(self, problem) -> Traffic:
        """Return V down, W and Y (or their combination) up; once before, Y where it is not zero."""
        shape = (problem.num_items, self.start.rank)
        return self.exchange.traffic(
            up=[shape] if self.combined else [shape, shape],
            down=[shape],
            before=0 if self.zero_dual else problem.num_clients * math.prod(shape),
        )

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the clients that take part."""
        return jnp.sum(active, dtype=jnp.int32)


def fedmc_admm(
    preset: str = "default",
    *,
    rank: int = 5,
    beta: ArrayLike | None = None,
    user_penalty: Penalty | None = None,
    item_penalty: Penalty | None = None,
    inner_steps: int = 10,
    bound: str = "fro",
    start: FactorStart | None = None,
    zero_dual: bool = False,
    combined: bool = False,
    exchange: Exchange | None = None,
) -> FedMCADMM:
    """Build FedMC-ADMM.

    Presets: "paper" takes beta = 1e4, as the authors' code; "default" takes beta = 1e5, which is
    better on MovieLens 100K with 100 clients (`fedmc_typical_beta` carries it over to other
    tables). Both start from entries uniform on [0, 2e-4], to which these belong (see
    `uniform_start`), with squares of weight 1e-6 as regularisers. The paper's condition for
    convergence asks for a beta that is larger by many orders of magnitude (`fedmc_theory_beta`).

    Args:
      preset: where the numbers come from that are not given.
      rank: number of components.
      beta: weight of the constraint that copies equal V.
      user_penalty: R_i, any penalty with a prox; a function of the rows of U_i.
      item_penalty: R, likewise.
      inner_steps: N, gradient steps per block.
      bound: of the curvature: "fro", "spec" or "row" (`ratings.CURVATURE_BOUNDS`).
      start: where to start; it brings its own rank.
      zero_dual: start with Y_i = 0 instead of minus the gradient, which all clients would have to
        send before the first round.
      combined: clients send W_i + Y_i / beta in one array; the iterates are the same.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None. Clients then
        send the one array, whatever `combined` says. Y_i before the first round arrives as it is.

    Returns:
      The solver.

    Raises:
      InputError: the preset or the bound is unknown, or a number is out of range.
    """
    one_of("preset", preset, FEDMC_PRESETS)
    one_of("bound", bound, CURVATURE_BOUNDS)
    small = penalties.squared_l2(1e-6)
    user_penalty = small if user_penalty is None else user_penalty
    item_penalty = small if item_penalty is None else item_penalty
    for name, penalty in (("user_penalty", user_penalty), ("item_penalty", item_penalty)):
        if isinstance(penalty, type) or not hasattr(penalty, "prox"):
            raise InputError(
                "must be a penalty such as penalties.squared_l2(1e-6), but it is "
                f"{one_line(penalty)}",
                argument=name,
                value=penalty,
            )
    start = uniform_start(rank=rank) if start is None else start
    check_factor_start(start)
    chosen = check_exchange(exchange)
    return FedMCADMM(
        scalar("beta", FEDMC_PRESETS[preset] if beta is None else beta, above=0),
        user_penalty,
        item_penalty,
        start,
        count("inner_steps", inner_steps),
        bound,
        flag("zero_dual", zero_dual),
        flag("combined", combined) or not chosen.plain,
        chosen,
    )
