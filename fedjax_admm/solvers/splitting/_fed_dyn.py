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

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers.splitting._estimated import EstimatedCurvature, measured
from fedjax_admm.solvers.splitting._penalty_rules import (
    PenaltySolver,
    Server,
    penalty_parameter,
)


class FedDynClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    slope: jax.Array  # shape=(clients, dim): c, the gradient at the model that they sent last
    memory: Any  # of the local solver, stacked


@roles.pytree_dataclass
class FedDyn(PenaltySolver):
    """Dynamic regularisation; build it with `fed_dyn`."""

    rho: Any = penalty_parameter(  # jax.Array of shape (), or a rule
        "of_upload", curvature=lambda largest: largest
    )
    local: roles.LocalSolver = roles.locally()
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of c_i

    def start_clients(self, problem, models, key):
        """Start with every slope at zero."""
        memory = self.local.memory(problem, models)
        return FedDynClients(jnp.zeros_like(models), memory), self.rule.measure(memory)

    def client(self, problem, clients: FedDynClients, received, key, /):
        """Return c_i; w_i follows from it."""
        x, sent = received
        first = jnp.broadcast_to(self.rule.first(), x.shape[:1])
        rho, memory, _ = self.rule.read(sent, first, clients.memory)
        centre = x + clients.slope / rho[:, None]
        w, new = self.local(problem, centre, rho, x, memory, key)
        weight = self.rule.of_upload(rho, memory, new)[:, None]
        return FedDynClients(clients.slope - weight * (w - x), new), self.rule.measure(new)

    def upload(self, clients: FedDynClients) -> roles.Upload:
        """Return c_i."""
        return roles.Upload((clients.slope,))

    def apply_decoded(self, clients: FedDynClients, values) -> FedDynClients:
        """Take over the slope that arrived."""
        return clients._replace(slope=values[0])

    def server(self, server: Server, received: roles.Received, info) -> Server:
        """Return x: the mean of w_i - x is minus that of the changes of slopes over rho."""
        (h,), (change,) = received.means, received.changes()
        penalty = self.updated(server, received, info)
        rho = self.rule.of_round(server.penalty, penalty)
        x = self.regularizer.prox(server.model - (change + h) / rho, 1 / rho)
        return Server(x, penalty)


def fed_dyn(
    rho: ArrayLike | EstimatedCurvature | None = None,
    *,
    local: roles.LocalSolver | None = None,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FedDyn:
    """Build `FedDyn`.

    Args:
      rho: weight of the penalty, the paper's alpha, a number or a rule. If None it is
        `estimated_curvature()`: l / K, with K local steps and l a running mean of the curvature
        that every client meets with its local steps, which also sets their length; it grows to l as
        clients take part. One number more goes up and one down. Where `local` has steps of a given
        length or a prox, it is L, the largest curvature of the losses as it is estimated at the
        start.
      local: how a client solves its problem: `local_prox()`, or `local_gradient()`, which is taken
        if None.
      regularizer: g, of `fedjax_admm.penalties`, at the server; nothing if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    rho, local = measured("rho", rho, local, share=1.0)
    return build(FedDyn, **locals())
