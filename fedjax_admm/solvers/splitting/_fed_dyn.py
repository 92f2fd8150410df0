"""FedDyn: dynamic regularisation, which makes every client's minimiser that of all.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

Client i keeps a slope c_i; the server keeps its model x and the mean h of all slopes. All slopes
start at 0. One round of the clients that take part, with the weight rho (the paper's alpha):

    w_i <- argmin_w f_i(w) - <c_i, w> + rho/2 ||w - x||^2,    exactly, or by gradient steps from x
    c_i <- c_i - rho (w_i - x)                                which is grad f_i(w_i) if exact
    h   <- h - (rho / N) sum over those of (w_i - x)          at the server
    x   <- prox_{g/rho}(mean over those of w_i - h / rho)     at the server

Clients send w_i, or c_i, from which w_i follows. h is always the mean of all c_i. A fixed point has
w_i = x and c_i = grad f_i(x) for every client, and x = prox_{g/rho}(x - h / rho) says that -h lies
in dg(x): x is the minimiser, whoever took part when. The paper has g = 0. If no client takes part,
nothing changes. With everybody in every round it is FedPD with the step 1 / rho and an average in
every round. Under partial participation it differs from FedDR, whose average includes old models.

Trap: weights w_i of clients (of sum 1) belong in the losses, as N w_i f_i. If only the averages of
models are weighted, h stays the plain mean and the limit is the minimiser of the plain mean.

Messages: with an exchange, c_i goes up and x down. The server keeps d_i, the last slope that it
received from each client, and the client continues from it, c_i <- d_i. The server computes

    h <- Agg over all i of d_i
    x <- prox_{g/rho}(x - Agg over those received of (d_i - d_i before) / rho - h / rho)

which for the mean is the above. Slopes do not vanish at a fixed point: an unbiased compressor
without memory keeps the model moving by about sqrt(omega) ||c_i|| / (rho sqrt(N)), and a biased one
converges to another point. `differences` keep no error.

Reference: D. A. E. Acar, Y. Zhao, R. M. Navarro, M. Mattina, P. N. Whatmough, V. Saligrama,
"Federated Learning Based on Dynamic Regularization", arXiv:2111.04263 (2021), Algorithm 1.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers.splitting._probing import Probed, ProbedServer, probing


class FedDynClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    slope: jax.Array  # shape=(clients, dim): c, the gradient at the model that they sent last
    memory: Any  # of the local solver, stacked


@roles.pytree_dataclass
class FedDyn(roles.StarSolver):
    """Dynamic regularisation; build it with `fed_dyn`."""

    rho: jax.Array = positive(curvature=lambda largest: largest)  # shape=()
    local: roles.LocalSolver = roles.locally()
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of c_i

    hears_changes: ClassVar[bool] = True

    def start_clients(self, problem, models, key):
        """Start with every slope at zero."""
        memory = self.local.memory(problem, models)
        return FedDynClients(jnp.zeros_like(models), memory), roles.Said()

    def client(self, problem, clients: FedDynClients, x, key, /):
        """Return c_i; w_i follows from it."""
        centre = x + clients.slope / self.rho
        weight = jnp.broadcast_to(self.rho, x.shape[:1])
        w, memory = self.local(problem, centre, weight, x, clients.memory, key)
        return FedDynClients(clients.slope - self.rho * (w - x), memory), roles.Said()

    def upload(self, clients: FedDynClients) -> roles.Upload:
        """Return c_i."""
        return roles.Upload((clients.slope,))

    def apply_decoded(self, clients: FedDynClients, values) -> FedDynClients:
        """Take over the slope that arrived."""
        return clients._replace(slope=values[0])

    def server(self, server, received: roles.Received, info) -> Any:
        """Return x: the mean of w_i - x is minus that of the changes of slopes over rho."""
        (h,), (change,) = received.means, received.changes
        return self.regularizer.prox(server - (change + h) / self.rho, 1 / self.rho)


@roles.pytree_dataclass
class ProbedFedDyn(Probed, FedDyn):
    """FedDyn whose rho follows the curvature that clients meet: `_probing` has the formulas."""

    share: ClassVar[float] = 1.0

    def start_clients(self, problem, models, key):
        """Start as FedDyn does."""
        clients, _ = super().start_clients(problem, models, key)
        return clients, self.said(clients.memory)

    def client(self, problem, clients: FedDynClients, received, key):
        """Return c_i with the rho of the l that was read, and say l_i."""
        x, curvature = received
        rho, memory = self.penalty(curvature), self.read(clients.memory, curvature)
        centre = x + clients.slope / rho[:, None]
        w, new = self.local(problem, centre, rho, x, memory, key)
        weight = self.first_weight(rho, new, memory.calls)
        slope = clients.slope - weight[:, None] * (w - x)
        return FedDynClients(slope, new), self.said(new)

    def server(self, server: ProbedServer, received: roles.Received, info) -> ProbedServer:
        """Return x and l; in the first round, that of the clients is the rho of the new l."""
        (h,), (change,) = received.means, received.changes
        new = self.heard(server, received)
        rho = self.penalty(jnp.where(server.rounds == 0, new.curvature, server.curvature)[0])
        return new._replace(model=self.regularizer.prox(server.model - (change + h) / rho, 1 / rho))


def fed_dyn(
    rho: ArrayLike | None = None,
    *,
    local: roles.LocalSolver | None = None,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FedDyn:
    """Build `FedDyn`.

    Args:
      rho: weight of the penalty, the paper's alpha. If None it is l / K, with K local steps and l a
        running mean of the curvature that every client meets with its local steps, which also sets
        their length; it grows to l as clients take part. One number more goes up and one down.
        Where `local` has steps of a given length or a prox, it is L, the largest curvature of the
        losses as it is estimated at the start.
      local: how a client solves its problem: `local_prox()`, or `local_gradient()`, which is taken
        if None.
      regularizer: g, of `fedjax_admm.penalties`, at the server; nothing if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    probes = probing(local) if rho is None else None
    kind = FedDyn if probes is None else ProbedFedDyn
    local = local if probes is None else probes
    return build(kind, **locals())
