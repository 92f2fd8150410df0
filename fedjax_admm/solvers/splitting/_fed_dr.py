r"""FedDR: randomised Douglas-Rachford splitting, with a regulariser at the server.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

A client keeps the centre y_i and its model x_i, the server the mean of what everybody sent last.
One round of the clients who take part, eta the length of the proximal steps, alpha the relaxation:

    y_i     <- y_i + alpha (x_bar - x_i)
    x_i     <- prox_{eta f_i}(y_i)                 exactly, or by gradient steps from its own x_i
    x_hat_i <- 2 x_i - y_i                         is sent
    x_bar   <- prox_{eta g}((1/N) sum over all i of the last x_hat_i)               at the server

Before the first round everybody starts once: y_i = x^0, then x_i, x_hat_i and x_bar as above. At a
fixed point x_i = x_bar and y_i = x_bar + eta grad f_i(x_bar), so x_hat_i = x_bar - eta grad
f_i(x_bar), and x_bar = prox_{eta g} of their mean says that 0 lies in the mean of the gradients
plus dg(x_bar): the minimiser, whoever took part when. Convex losses: any eta > 0 and 0 < alpha < 2;
alpha = 2 too where they are strongly convex.

With alpha = 1 and eta = 1 / rho it is the composite FedADMM

    x_i <- prox_{f_i/rho}(z - l_i / rho),   l_i <- l_i + rho (x_i - z),
    z   <- prox_{g/rho}((1/N) sum over all i of the last x_i + l_i / rho)

under any participation: y_i = z - l_i / rho with the z that client i read last.

Traps: the mean runs over all clients, not over those who took part. Without the start of everybody,
with x_hat_i = 0 for whoever was not seen yet, the first rounds are drawn to zero. Weights w_i of
clients (of sum 1) belong in the losses, as N w_i f_i.

Messages: x_hat_i goes up, x_bar down. The server averages what it heard last of everybody; where it
reads u_i in the place of x_hat_i, the client goes on from the model that u_i belongs to,

    x_i <- (u_i + y_i) / 2

so that both ends hold the same: half of the loss is in the model, half in the dual variable, which
is x_i - y_i here. At a fixed point with u_i = x_hat_i the above stands. x_hat_i does
not vanish there: compressed alone it keeps an error in proportion to itself, coded by differences
it keeps none. The start of everybody is heard as it is.

References: Q. Tran-Dinh, N. H. Pham, D. T. Phan, L. M. Nguyen, "FedDR - Randomized Douglas-Rachford
Splitting Algorithms for Nonconvex Federated Composite Optimization", arXiv:2103.03452 (2021),
Algorithm 1; H. Wang, S. Marella, J. Anderson, "FedADMM: A Federated Primal-Dual Algorithm Allowing
Partial Participation", arXiv:2203.15104 (2022).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import OnStar, first_model
from fedjax_admm.messages import Exchange, check_exchange
from fedjax_admm.penalties import Penalty
from fedjax_admm.solvers._local import (
    LocalSolver,
    check_curvature,
    check_local,
    curvature_at_start,
)
from fedjax_admm.solvers._present import (
    Message,
    Post,
    StarSolver,
    check_regularizer,
    copies,
    exchanged,
    open_post,
)
from fedjax_admm.traffic import Traffic


@short_repr
class FedDRClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    y: jax.Array  # shape=(clients, dim): centre of the last proximal step
    x: jax.Array  # shape=(clients, dim): model
    memory: Any  # of the local solver, stacked

    def reflected(self) -> jax.Array:
        """Return x_hat = 2 x - y, shape (clients, dim): what they sent last."""
        return 2 * self.x - self.y


@short_repr
class FedDRState(NamedTuple):
    """The server and the stacked clients."""

    server: jax.Array  # shape=(dim,): x_bar
    mean: jax.Array  # shape=(dim,): of what all clients sent last
    clients: FedDRClients
    curvature: jax.Array  # shape=(): about the largest of the losses, 1 where nobody needs it
    post: Post | tuple[()] = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class FedDR(StarSolver):
    """Randomised Douglas-Rachford splitting; build it with `fed_dr`."""

    length: jax.Array | None  # shape=(): eta, of the proximal steps; 1 / curvature if None
    relaxation: jax.Array  # shape=(): alpha, between 0 and 2
    local: LocalSolver
    regularizer: Penalty  # g
    exchange: Exchange  # of x_hat_i

    requires: ClassVar[tuple[type, ...]] = (OnStar,)  # and what the local solver requires

    def init(self, problem, key) -> FedDRState:
        """Start everybody at the problem's start, with one proximal step of all."""
        start = copies(first_model(problem), problem)
        curvature = curvature_at_start(problem, start, self.local, self.length)
        clients = FedDRClients(start, start, self.local.memory(problem, start))
        clients = self._prox(problem, start, clients, key, curvature)
        sent = clients.reflected()
        mean = jnp.mean(sent, 0)
        server = self._serve(mean, curvature)
        post = open_post(self.exchange, key, (sent,), server)
        return FedDRState(server, mean, clients, curvature, post)

    def check(self, problem, rounds: int) -> None:
        """Check that the length of the steps is given, or can be found.

        Raises:
          InputError: it is None, and the problem has no gradients.
        """
        check_curvature(problem, "step", self.length)

    def step(self, problem, state: FedDRState, turn) -> FedDRState:
        """Return the state after one round."""

        def update(problem, clients, read, key):
            y = clients.y + self.relaxation * (read - clients.x)
            new = self._prox(problem, y, clients, key, state.curvature)
            sent = new.reflected()
            return new, Message((sent,), sums=sent - clients.reflected())

        def absorb(clients, values):
            return clients._replace(x=(values[0] + clients.y) / 2)

        mail = exchanged(
            problem,
            turn,
            self.exchange,
            state.post,
            state.clients,
            state.server,
            update,
            kept=(True,),
            absorb=absorb,
        )
        mean = mail.values[0]
        if self.exchange.plain:
            mean = state.mean + mail.sums / problem.num_clients
        server = self._serve(mean, state.curvature)
        return FedDRState(server, mean, mail.clients, state.curvature, mail.post)

    def estimate(self, state: FedDRState) -> jax.Array:
        """Return the server's model, shape (dim,)."""
        return state.server

    def client_models(self, state: FedDRState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.x

    def client_slopes(self, state: FedDRState) -> jax.Array:
        """Return `(y_i - x_i) / eta in df_i(x_i)` of every client, shape (clients, dim)."""
        return (state.clients.y - state.clients.x) / self._length(state.curvature)

    def traffic(self, problem) -> Traffic:
        """Return dim numbers up and dim down, and the start: dim numbers up from everybody."""
        dim = problem.start.shape[-1]
        start = problem.num_clients * dim
        return self.exchange.traffic(up=[(dim,)], down=[(dim,)], before=start)

    def _length(self, curvature: jax.Array) -> jax.Array:
        return 1 / curvature if self.length is None else self.length

    def _prox(self, problem, y, clients: FedDRClients, key, curvature) -> FedDRClients:
        weight = jnp.broadcast_to(1 / self._length(curvature), y.shape[:1])
        x, memory = self.local(problem, y, weight, clients.x, clients.memory, key, curvature)
        return FedDRClients(y, x, memory)

    def _serve(self, mean: jax.Array, curvature: jax.Array) -> jax.Array:
        return self.regularizer.prox(mean, self._length(curvature))


def fed_dr(
    step: ArrayLike | None = None,
    *,
    relaxation: ArrayLike = 1.0,
    local: LocalSolver | None = None,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> FedDR:
    """Build `FedDR`.

    Args:
      step: eta, the length of the proximal steps: any for convex losses; 1 / L if None, with the
        largest curvature L of the losses as it is estimated at the start. For losses that are not
        convex the theory asks for about 1 / (3 L).
      relaxation: alpha, at most 2; above 1 is faster on strongly convex losses.
      local: how a client takes its proximal step: `local_prox()`, or `local_gradient()`, which is
        taken if None.
      regularizer: g, of `fedjax_admm.penalties`, at the server; nothing if None.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: a number is out of range, or an object is not what it should be.
    """
    return FedDR(
        None if step is None else scalar("step", step, above=0),
        scalar("relaxation", relaxation, above=0, at_most=2),
        check_local(local),
        check_regularizer(regularizer),
        check_exchange(exchange),
    )
