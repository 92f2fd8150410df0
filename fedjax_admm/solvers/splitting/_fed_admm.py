"""FedADMM: consensus ADMM on a star, exact or inexact, with partial participation.

    minimise over w   (1/N) sum_i f_i(w) + g(w)

as sum_i f_i(w_i) + N g(z) with w_i = z, duals y_i and penalty parameters rho_i. Client i of those
that take part, with the server's model z and its own previous model w_i:

    e    = a z + (1 - a) w_i                                            (relaxation; a = 1: e = z)
    w_i <- about argmin_w f_i(w) + <y_i, w - e> + rho_i/2 ||w - e||^2,  begun at z
    y_i <- y_i + rho_i (w_i - e)                                        (both dual_updates times)

It sends the change of rho_i w_i + y_i. The server:

    c <- c + (sum of what arrives) / sum_j rho_j,    z <- prox of g at c, with step N / sum_j rho_j

so that c = sum_i (rho_i w_i + y_i) / sum_i rho_i over the last uploads of ALL clients (it is
computed so, unless the participation lists the few that are drawn). A fixed point has w_i = z and
y_i = -grad f_i(z), hence 0 lies in (1/N) sum_i grad f_i(z) + dg(z). Duals of absent clients belong
to old models: the fewer take part, the more slowly the mean of ||y_i + grad f_i(z)|| vanishes.

Settings:

*  Gong, Li, Freris: dual_updates=1. Their server adds eta times the mean change of w_i + y_i / rho
   over those present, which equals the above only for eta = |S| / N, the eta of this solver. For
   g = 0 another one has limits with grad f(z) = rho (1 - |S| / (eta N)) (z - z^0), which are no
   minimisers and depend on the start. The change is relative to the client's own previous model;
   subtracting the model just received solves another problem.
*  Zhou, Li: dual_updates=k0, with `local_gradient(1 / (r + sigma), steps=...)`. Their round begins
   with the server: their x of a round is z of the round before. Their losses have weights 1/N, so
   that their sigma and pi are rho / N and y_i / N. Many dual steps amount to a gradient step of
   length 1 / rho, which needs rho > L / 2.
*  Composite FedADMM (Wang, Marella, Anderson): the regulariser. It is FedDR with step 1 / rho begun
   at its clients' prox; the relaxation a is FedDR's alpha. (Relaxing w_i toward z, as where the
   server's step precedes that of the duals, diverges.) a = 2 needs strongly convex losses.

Messages: with an exchange a client sends its upload u_i = w_i + y_i / rho_i with the weight rho_i,
and c is the mean, or another location, of the last uploads of all clients. Where u^_i arrives, the
client continues with w_i - (u_i - u^_i) / 2 and y_i - rho_i (u_i - u^_i) / 2. The papers send
changes of u_i, which vanish at a fixed point: `messages.differences` codes these.

Weights p_i of clients (of sum 1) belong in their losses, as N p_i f_i.

Reference: Y. Gong, Y. Li, N. Freris, "FedADMM: A Robust Federated Deep Learning Framework with
Adaptivity to System Heterogeneity", arXiv:2204.03529 (2022); S. Zhou, G. Y. Li, "Federated Learning
via Inexact ADMM", arXiv:2204.10607 (2022); H. Wang, S. Marella, J. Anderson, "FedADMM: A Federated
Primal-Dual Algorithm Allowing Partial Participation", arXiv:2203.15104 (2022). Relaxation: J.
Eckstein, D. Bertsekas, "On the Douglas-Rachford Splitting Method and the Proximal Point Algorithm
for Maximal Monotone Operators", Math. Program. 55 (1992).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, positive, refuse
from fedjax_admm._threefry import split
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers.splitting._estimated import measured
from fedjax_admm.solvers.splitting._penalty_rules import (
    PenaltyRule,
    PenaltySolver,
    Server,
    penalty_parameter,
)


class FedADMMClients(NamedTuple):
    """What the clients hold, stacked; inactive ones keep all of it."""

    models: jax.Array  # shape=(clients, dim): w_i
    duals: jax.Array  # shape=(clients, dim): y_i, about -grad f_i(w_i)
    rho: jax.Array  # shape=(clients,): rho_i
    memory: Any  # of the local solver


@roles.pytree_dataclass
class FedADMM(PenaltySolver):
    """Consensus ADMM on a star; build it with `fed_admm`."""

    rho: Any = penalty_parameter(  # jax.Array of shape () or (clients,), or a rule
        "mean", stacked=True, curvature=lambda largest: largest
    )
    local: roles.LocalSolver = roles.locally()
    relaxation: jax.Array = positive(at_most=2)  # shape=(): a
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of w_i + y_i / rho_i, with weights rho_i
    dual_updates: int = counted()

    def check(self, problem, rounds: int) -> None:
        """Check that rho fits the clients, and can be found where it is not given."""
        super().check(problem, rounds)
        shape = getattr(self.rule.first(), "shape", ())
        refuse(
            shape not in ((), (problem.num_clients,)),
            "rho",
            f"must have shape () or ({problem.num_clients},), but it has {shape}",
            remedy="give one number for all clients, or one per client",
        )

    def start_clients(self, problem, models, key):
        """Start every model at the first one and every dual variable at zero."""
        rho = jnp.broadcast_to(self.rule.first(), models.shape[:1]).astype(models.dtype)
        memory = self.local.memory(problem, models)
        clients = FedADMMClients(models, jnp.zeros_like(models), rho, memory)
        return clients, self.rule.measure(memory)

    def client(self, problem, clients: FedADMMClients, received, key, /):
        """Return w_i and y_i after all dual updates, begun at z."""
        z, sent = received
        w, y, before, memory = clients
        rho_i, memory, stretch = self.rule.read(sent, before, memory)
        if stretch is not None:
            y = jnp.minimum(1, stretch * rho_i / before)[:, None] * y
        clients, rho = FedADMMClients(w, y, rho_i, memory), rho_i[:, None]
        e = self.relaxation * z + (1 - self.relaxation) * w

        def once(clients, key):
            centre = e - clients.duals / rho
            w, memory = self.local(problem, centre, clients.rho, z, clients.memory, key)
            return FedADMMClients(w, clients.duals + rho * (w - e), clients.rho, memory)

        if self.dual_updates == 1:
            new = once(clients, key)
            return new, self.rule.measure(new.memory)

        def again(clients, data):
            return once(clients, jax.random.wrap_key_data(data, impl=kind)), None

        # As numbers: JAX's check of reused keys loses count of keys in nested scans under vmap.
        kind, keys = jax.random.key_impl(key), split(key, self.dual_updates)
        new, _ = jax.lax.scan(again, clients, jax.random.key_data(keys))
        return new, self.rule.measure(new.memory)

    def upload(self, clients: FedADMMClients) -> roles.Upload:
        """Return u_i = w_i + y_i / rho_i, or w_i and y_i apart, with the weight rho_i."""
        if self.looks_at_each:
            return roles.Upload((clients.models, clients.duals), clients.rho)
        (w, y, rho), weight = clients[:3], clients.rho[:, None]
        return roles.Upload((w + y / weight,), rho, (weight * w + y,))

    def apply_decoded(self, clients: FedADMMClients, values) -> FedADMMClients:
        """Return clients whose upload is the value: half of the difference in w_i, half in y_i."""
        if self.looks_at_each:
            return clients._replace(models=values[0], duals=values[1])
        rho = clients.rho[:, None]
        error = (clients.models + clients.duals / rho - values[0]) / 2
        return clients._replace(models=clients.models - error, duals=clients.duals - rho * error)

    def server(self, server: Server, received: roles.Received, info) -> Server:
        """Return z, the prox of g at c, with the rho_i that the rule makes of the round."""
        penalty = self.updated(server, received, info)
        c, step = self.rule.mean(penalty, received)
        return Server(self.regularizer.prox(c, step), penalty)

    def client_models(self, state: roles.StarState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.models

    def client_slopes(self, state: roles.StarState) -> jax.Array:
        """Return `-y_i in df_i(x_i)` of every client, shape (clients, dim)."""
        return -state.clients.duals


def fed_admm(
    rho: ArrayLike | PenaltyRule | None = None,
    *,
    local: roles.LocalSolver | None = None,
    dual_updates: int = 1,
    relaxation: ArrayLike = 1.0,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FedADMM:
    """Build `FedADMM`.

    Args:
      rho: the penalty parameter: a number, one per client (clients,), or an object that adapts it,
        `estimated_curvature(...)` or `balanced_penalty(...)`. If None it is
        `estimated_curvature(0.2)`: 0.2 l / K, with K local steps and l a running mean of the
        curvature that every client meets with its local steps, which also sets their length; it
        grows to l as clients take part. Two numbers more go up and one down. Where `local` has
        steps of a given length or a prox, it stays about the largest curvature of the losses at the
        start.
      local: how a client solves its problem; `local_gradient()`, five gradient steps, if None.
      dual_updates: solutions and steps of the dual per round, while the server's model stands
        still.
      relaxation: a, above 0 and at most 2; 1.5 to 1.8 is often faster than 1.
      regularizer: g, one of `fedjax_admm.penalties`, at the server; none if None.
      exchange: of messages, `messages.exchange(...)`; none if None. With a rho that
        adapts the server reads every model and dual variable, and there is no aggregator.
    """
    rho, local = measured("rho", rho, local, share=0.2)
    solver = build(FedADMM, **locals())
    if solver.looks_at_each:
        reason = "a {rho} that balances residuals looks at every client's model and dual variable"
        roles.check_exchange_obeys("exchange", exchange, mean_alone=reason)
    return solver
