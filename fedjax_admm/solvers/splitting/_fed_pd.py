"""FedPD: a primal-dual method whose clients communicate only in some rounds.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

A client keeps its model x_i, its dual variable l_i and its copy c_i of the shared model. In every
round everybody works, with steps of length eta:

    x_i <- argmin_x f_i(x) + <l_i, x - c_i> + ||x - c_i||^2 / (2 eta)     from its own x_i
    l_i <- l_i + (x_i - c_i) / eta
    c_i <- x_i + eta l_i

Then, with the probability `averaging`, the same coin for all, everybody sends c_i and reads

    c_i <- prox_{eta g}((1/N) sum over all i of the c_i that was sent last)

The paper has g = 0. With an average in every round a fixed point has x_i = c_i = x and
l_i = -grad f_i(x), hence x = prox_{eta g}(x - eta grad f(x)) with f the mean: the minimiser. The
method is then FedDR with relaxation 1, whose start is the first round here, and FedDyn with
rho = 1 / eta.

Traps: with `averaging` below 1 there is NO exact fixed point, because a round without an average
moves c_i to x - eta grad f_i(x): the error ends at a floor that grows with eta and with the
differences between clients. The method assumes full participation; an absent client keeps
everything and counts with what it sent last. The estimate is the last average.

Messages: c_i goes up and the average down, both after a coin of heads. The server averages the last
c_i of all clients. Where u_i arrives in the place of c_i, the client continues with

    x_i <- x_i - (c_i - u_i) / 2,    l_i <- l_i - (c_i - u_i) / (2 eta),    c_i <- u_i

so that both ends agree, and the method stays FedDR. c_i does not vanish at a fixed point: a
compressor alone leaves an error in proportion to it, `differences` leave none.

Reference: X. Zhang, M. Hong, S. Dhople, W. Yin, Y. Liu, "FedPD: A Federated Learning Framework with
Optimal Rates and Adaptivity to Non-IID Data", arXiv:2005.11418 (2020), Algorithm 1.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm._threefry import one_loop, split
from fedjax_admm.solvers import _roles as roles


class FedPDClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    x: jax.Array  # shape=(clients, dim): model
    dual: jax.Array  # shape=(clients, dim): l, minus the gradient at x if exact
    copy: jax.Array  # shape=(clients, dim): c, of the shared model
    memory: Any  # of the local solver, stacked


@roles.pytree_dataclass
class FedPD(roles.StarSolver):
    """Primal-dual steps with averages by a coin; build it with `fed_pd`."""

    length: jax.Array = positive(  # shape=(): eta, of the steps
        argument="step", curvature=lambda largest: 1 / largest
    )
    averaging: jax.Array = positive(at_most=1)  # shape=(): probability of an average in a round
    local: roles.LocalSolver = roles.locally()
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of c_i

    replies: ClassVar[bool] = True

    def start_clients(self, problem, models, key):
        """Start at the first model, every dual variable at zero."""
        memory = self.local.memory(problem, models)
        return FedPDClients(models, jnp.zeros_like(models), models, memory), roles.RoundMessage()

    def coin(self, key) -> tuple[jax.Array, jax.Array]:
        """Return whether the round ends with an average, and the key of the local solver."""
        coin_key, key = split(key)
        return jax.random.bernoulli(one_loop(coin_key), self.averaging), key

    def client(self, problem, clients: FedPDClients, _, key):
        """Return x_i, l_i and c_i before the average."""
        centre = clients.copy - self.length * clients.dual
        weight = jnp.broadcast_to(1 / self.length, clients.x.shape[:1])
        x, memory = self.local(problem, centre, weight, clients.x, clients.memory, key)
        dual = clients.dual + (x - clients.copy) / self.length
        return FedPDClients(x, dual, x + self.length * dual, memory), roles.RoundMessage()

    def upload(self, clients: FedPDClients) -> roles.Upload:
        """Return c_i."""
        return roles.Upload((clients.copy,))

    def apply_decoded(self, clients: FedPDClients, values) -> FedPDClients:
        """Return the clients with the value as c_i, and half of the difference in x_i and l_i."""
        error = (clients.copy - values[0]) / 2
        x, dual = clients.x - error, clients.dual - error / self.length
        return clients._replace(x=x, dual=dual, copy=values[0])

    def server(self, server, received: roles.Received, info) -> jax.Array:
        """Return the average, after the prox of g."""
        return self.regularizer.prox(received.means[0], self.length)

    def reply(self, clients: FedPDClients, average) -> FedPDClients:
        """Return the clients with the average as c_i."""
        return clients._replace(copy=average)

    def client_models(self, state: roles.StarState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.x

    def client_slopes(self, state: roles.StarState) -> jax.Array:
        """Return `-l_i in df_i(x_i)` of every client, shape (clients, dim)."""
        return -state.clients.dual


def fed_pd(
    step: ArrayLike | None = None,
    *,
    averaging: ArrayLike = 1.0,
    local: roles.LocalSolver | None = None,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FedPD:
    """Build `FedPD`.

    Args:
      step: eta, the length of the steps: any for convex losses that always average; 1 / L if None,
        with the largest curvature L of the losses as it is estimated at the start. For losses that
        are not convex the theory asks for less than 0.3 / L.
      averaging: probability that a round ends with an average; below 1 fewer messages travel, and
        the error ends at a floor.
      local: how a client takes its step: `local_prox()`, or `local_gradient()`, which is taken if
        None.
      regularizer: g, of `fedjax_admm.penalties`, at the server; nothing if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    return build(FedPD, **locals())
