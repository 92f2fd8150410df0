"""FedDR: randomised Douglas-Rachford splitting, with a regulariser at the server.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

A client keeps the centre y_i and its model x_i. One round of the clients that take part, with eta
the length of the proximal steps and alpha the relaxation:

    y_i     <- y_i + alpha (x_bar - x_i)
    x_i     <- prox_{eta f_i}(y_i)                 exactly, or by gradient steps from its own x_i
    x_hat_i <- 2 x_i - y_i                         is sent
    x_bar   <- prox_{eta g}((1/N) sum over all i of the last x_hat_i)               at the server

Before the first round every client starts once: y_i = x^0, then x_i, x_hat_i and x_bar as above. A
fixed point has x_i = x_bar and y_i = x_bar + eta grad f_i(x_bar), and x_bar = prox_{eta g} of the
mean of x_hat_i = x_bar - eta grad f_i(x_bar): the minimiser, whoever took part when. Convex losses
allow any eta > 0 and 0 < alpha < 2, strongly convex ones also alpha = 2.

With alpha = 1 and eta = 1 / rho it is the composite FedADMM, under any participation,

    x_i <- prox_{f_i/rho}(z - l_i / rho),   l_i <- l_i + rho (x_i - z),
    z   <- prox_{g/rho}((1/N) sum over all i of the last x_i + l_i / rho)

with y_i = z - l_i / rho for the z that client i read last.

Traps: the mean includes all clients, not only those that took part. With x_hat_i = 0 in the place
of the start of everybody, the first rounds are drawn to zero. Weights w_i of clients (of sum 1)
belong in the losses, as N w_i f_i.

Messages: x_hat_i goes up, x_bar down. Where u_i arrives in the place of x_hat_i, the client
continues with x_i <- (u_i + y_i) / 2, so that both ends agree: half of the error is in the model,
half in the dual variable x_i - y_i. x_hat_i does not vanish at a fixed point: a compressor alone
leaves an error in proportion to it, `differences` leave none. The first messages arrive as they
are.

References: Q. Tran-Dinh, N. H. Pham, D. T. Phan, L. M. Nguyen, "FedDR - Randomized Douglas-Rachford
Splitting Algorithms for Nonconvex Federated Composite Optimization", arXiv:2103.03452 (2021),
Algorithm 1; H. Wang, S. Marella, J. Anderson, "FedADMM: A Federated Primal-Dual Algorithm Allowing
Partial Participation", arXiv:2203.15104 (2022).
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers.splitting._estimated import EstimatedCurvature, measured
from fedjax_admm.solvers.splitting._penalty_rules import (
    GivenPenalty,
    PenaltySolver,
    Server,
    penalty_parameter,
)


class FedDRClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    y: jax.Array  # shape=(clients, dim): centre of the last proximal step
    x: jax.Array  # shape=(clients, dim): model
    memory: Any  # of the local solver, stacked
    rho: jax.Array  # shape=(clients,): 1 / eta of that step


@roles.pytree_dataclass
class FedDR(PenaltySolver):
    """Randomised Douglas-Rachford splitting; build it with `fed_dr`."""

    length: Any = penalty_parameter(  # jax.Array of shape (): eta; or a rule for 1 / eta
        "of_upload", argument="step", curvature=lambda largest: 1 / largest
    )
    relaxation: jax.Array = positive(at_most=2)  # shape=(): alpha
    local: roles.LocalSolver = roles.locally()
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of x_hat_i

    uploads_first: ClassVar[bool] = True

    @property
    def rule(self) -> Any:
        """Return the rule for 1 / eta."""
        return self.length if hasattr(self.length, "send") else GivenPenalty(1 / self.length)

    def start_clients(self, problem, models, key) -> tuple[Any, roles.RoundMessage]:
        """Start everybody with one proximal step at the first model."""
        memory = self.local.memory(problem, models)
        rho = jnp.broadcast_to(self.rule.first(), models.shape[:1]).astype(models.dtype)
        new, said = self._prox(problem, models, FedDRClients(models, models, memory, rho), key)
        return new._replace(rho=self.rule.of_upload(rho, memory, new.memory)), said

    def client(self, problem, clients: FedDRClients, received, key, /):
        """Return y_i and x_i; where eta changes, y_i first keeps the slope (y_i - x_i) / eta."""
        (x_bar, sent), (y, x, memory, before) = received, clients
        rho, memory, stretch = self.rule.read(sent, before, memory)
        if stretch is not None:
            y = x + jnp.minimum(before / rho, stretch)[:, None] * (y - x)
        y = y + self.relaxation * (x_bar - x)
        return self._prox(problem, y, FedDRClients(y, x, memory, rho), key)

    def upload(self, clients: FedDRClients) -> roles.Upload:
        """Return x_hat_i = 2 x_i - y_i; with the weight 1 / eta where it changes."""
        weights = None if self.fixed_weights else clients.rho
        return roles.Upload((2 * clients.x - clients.y,), weights)

    def apply_decoded(self, clients: FedDRClients, values) -> FedDRClients:
        """Go on from the model of which the value would have been sent."""
        return clients._replace(x=(values[0] + clients.y) / 2)

    def server(self, server: Server, received: roles.Received, info) -> Server:
        """Return x_bar, and what the rule makes of the round; info is None before the first one."""
        step = self.length if self.fixed_weights else received.num_clients / received.weight
        x_bar = self.regularizer.prox(received.means[0], step)
        return Server(
            x_bar, server.penalty if info is None else self.updated(server, received, info)
        )

    def client_models(self, state: roles.StarState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.x

    def client_slopes(self, state: roles.StarState) -> jax.Array:
        """Return `(y_i - x_i) / eta in df_i(x_i)` of every client, shape (clients, dim)."""
        clients = state.clients
        return clients.rho[:, None] * (clients.y - clients.x)

    def _prox(
        self, problem, y, clients: FedDRClients, key
    ) -> tuple[FedDRClients, roles.RoundMessage]:
        x, memory = self.local(problem, y, clients.rho, clients.x, clients.memory, key)
        return clients._replace(y=y, x=x, memory=memory), self.rule.measure(memory)


def fed_dr(
    step: ArrayLike | EstimatedCurvature | None = None,
    *,
    relaxation: ArrayLike = 1.0,
    local: roles.LocalSolver | None = None,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FedDR:
    """Build `FedDR`.

    Args:
      step: eta, the length of the proximal steps: any for convex losses; for others the theory asks
        for about 1 / (3 L). Or a rule for 1 / eta: if None it is `estimated_curvature()`, with
        eta = K / l for K local steps and a running mean l of the curvature that every client meets
        with its local steps, which also sets their length; it shrinks to 1 / l as clients take
        part. Two numbers more go up and one down. Where `local` has steps of a given length or a
        prox, it is 1 / L, with the largest curvature L of the losses as it is estimated at the
        start.
      relaxation: alpha, at most 2; above 1 is faster on strongly convex losses.
      local: how a client takes its proximal step: `local_prox()`, or `local_gradient()`, which is
        taken if None.
      regularizer: g, of `fedjax_admm.penalties`, at the server; nothing if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    step, local = measured("step", step, local, share=1.0, forgets=True)
    return build(FedDR, **locals())
