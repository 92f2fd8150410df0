"""Fed-PLT: Peaceman-Rachford splitting with local training; FedSplit if clients solve exactly.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

A client keeps its model x_i and the variable z_i, both x^0 at first; the server keeps the mean of
the last z_i of all clients. One round, with s the length of the proximal steps:

    y   <- prox_{s g}((1/N) sum over all i of the last z_i)                         at the server
    x_i <- argmin_w f_i(w) + ||w - (2 y - z_i)||^2 / (2 s)    by gradient steps from its own x_i
    z_i <- z_i + 2 (x_i - y)                                  of those who take part; is sent

A fixed point has x_i = y and z_i = y - s grad f_i(y), so y = prox_{s g}(y - s grad f(y)) with f the
mean: the minimiser, whoever took part when. With an exact local solver and full participation it is
FedSplit; after a first round of all it is FedDR with relaxation 2. The estimate is the next y.

Traps: Peaceman-Rachford needs strongly convex losses; on others it may cycle. A client that
replaces z_i by what the server sent minimises something else (the mean of Moreau envelopes, as
FedProx does). One gradient step of rate r on losses of curvature L is stable only for
r < 2 / (L + 2 / s); the default rate is 1 / (L + 1 / s).

Messages: z_i goes up, y down. Where u_i arrives in the place of z_i, the client continues with
z_i <- u_i, so that both ends agree. z_i does not vanish at a fixed point: a compressor alone leaves
an error in proportion to it, `differences` leave none.

References: N. Bastianello, C. Liu, K. H. Johansson, "Enhancing Privacy in Federated Learning
through Local Training", arXiv:2403.17572 (2024), where s is called rho; R. Pathak, M. J.
Wainwright, "FedSplit: An algorithmic framework for fast federated optimization", arXiv:2005.05238
(2020).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm.solvers import _roles as roles


class FedPLTClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    x: jax.Array  # shape=(clients, dim): model
    z: jax.Array  # shape=(clients, dim): what they sent last
    memory: Any  # of the local solver, stacked


@roles.pytree_dataclass
class FedPLT(roles.StarSolver):
    """Peaceman-Rachford splitting with local training; build it with `fed_plt`."""

    length: jax.Array = positive(  # shape=(): s, of the proximal steps
        argument="step", curvature=lambda largest: 1 / largest
    )
    local: roles.LocalSolver = roles.locally()
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of z_i

    def start_server(self, model, num_clients) -> jax.Array:
        """Return the y of the first round."""
        return self.regularizer.prox(model, self.length)

    def start_clients(self, problem, models, key):
        """Start everybody at the first model."""
        return FedPLTClients(
            models, models, self.local.memory(problem, models)
        ), roles.RoundMessage()

    def client(self, problem, clients: FedPLTClients, y, key):
        """Return x_i and z_i."""
        weight = jnp.broadcast_to(1 / self.length, y.shape[:1])
        x, memory = self.local(problem, 2 * y - clients.z, weight, clients.x, clients.memory, key)
        return FedPLTClients(x, clients.z + 2 * (x - y), memory), roles.RoundMessage()

    def upload(self, clients: FedPLTClients) -> roles.Upload:
        """Return z_i."""
        return roles.Upload((clients.z,))

    def apply_decoded(self, clients: FedPLTClients, values) -> FedPLTClients:
        """Take over the z_i that arrived."""
        return clients._replace(z=values[0])

    def server(self, server, received: roles.Received, info) -> jax.Array:
        """Return the y of the next round."""
        return self.regularizer.prox(received.means[0], self.length)

    def client_models(self, state: roles.StarState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.x

    def client_slopes(self, state: roles.StarState) -> jax.Array:
        """Return `(x_i - z_i) / s in df_i(x_i)` of every client, shape (clients, dim)."""
        return (state.clients.x - state.clients.z) / self.settled(state).length


def fed_plt(
    step: ArrayLike | None = None,
    *,
    local: roles.LocalSolver | None = None,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FedPLT:
    """Build `FedPLT`.

    Args:
      step: s, the length of the proximal steps, which the paper calls rho; 1 / L if None, with the
        largest curvature L of the losses as it is estimated at the start. With exact steps and
        losses of curvature between m and L, 1 / sqrt(L m) is best.
      local: how a client solves its problem: `local_prox()`, which makes it FedSplit, or
        `local_gradient()`, which is taken if None.
      regularizer: g, of `fedjax_admm.penalties`, at the server; nothing if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    return build(FedPLT, **locals())
