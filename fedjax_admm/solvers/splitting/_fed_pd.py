r"""FedPD: a primal-dual method whose clients talk only in some rounds.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

A client keeps its model x_i, its dual variable l_i and its copy c_i of the shared model. A round is
one of EVERYBODY, eta the length of the steps:

    x_i <- argmin_x f_i(x) + <l_i, x - c_i> + ||x - c_i||^2 / (2 eta)     from its own x_i
    l_i <- l_i + (x_i - c_i) / eta
    c_i <- x_i + eta l_i

and then a coin that all can see: with the probability `averaging` everybody sends c_i and reads

    c_i <- prox_{eta g}((1/N) sum over all i of the c_i that was sent last)

In other rounds nothing travels. The paper has g = 0. With an average in every round a fixed point
has x_i = c_i = x and l_i = -grad f_i(x), hence x = prox_{eta g}(x - eta grad f(x)) with f the mean:
the minimiser. It is then FedDR with relaxation 1, whose start is the first round here, and FedDyn
with rho = 1 / eta.

Traps: a round without an average leaves the minimiser for c_i = x - eta grad f_i(x), so that with
`averaging` below 1 there is NO exact fixed point: the error ends at a floor that grows with eta and
with the differences between clients. The method is for everybody in every round. Whoever is absent
here keeps everything, and counts in averages with what it sent last; its own copy is then an old
one. The estimate is the last average.

Messages: c_i goes up and the average down, both at the end of a round with heads. The server
averages what it heard last of everybody; where it reads u_i in the place of c_i, the client goes on
with the model and the dual variable that u_i belongs to, each with half of the loss,

    x_i <- x_i - (c_i - u_i) / 2,    l_i <- l_i - (c_i - u_i) / (2 eta),    c_i <- u_i

so that both ends hold the same, and it stays FedDR. c_i does not vanish at a fixed point:
compressed alone it keeps an error in proportion to itself, coded by differences it keeps none.

Reference: X. Zhang, M. Hong, S. Dhople, W. Yin, Y. Liu, "FedPD: A Federated Learning Framework with
Optimal Rates and Adaptivity to Non-IID Data", arXiv:2005.11418 (2020), Algorithm 1.
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
    answered,
    check_regularizer,
    copies,
    exchanged,
    open_post,
)


@short_repr
class FedPDClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    x: jax.Array  # shape=(clients, dim): model
    dual: jax.Array  # shape=(clients, dim): l, minus the gradient at x if exact
    copy: jax.Array  # shape=(clients, dim): c, of the shared model
    sent: jax.Array  # shape=(clients, dim): the c that was sent last
    memory: Any  # of the local solver, stacked


@short_repr
class FedPDState(NamedTuple):
    """The server and the stacked clients."""

    server: jax.Array  # shape=(dim,): the last average, after the prox of g
    mean: jax.Array  # shape=(dim,): of what all clients sent last
    clients: FedPDClients
    curvature: jax.Array  # shape=(): about the largest of the losses, 1 where nobody needs it
    post: Post | tuple[()] = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class FedPD(StarSolver):
    """Primal-dual steps with averages by a coin; build it with `fed_pd`."""

    length: jax.Array | None  # shape=(): eta, of the steps; 1 / curvature if None
    averaging: jax.Array  # shape=(): probability of an average in a round
    local: LocalSolver
    regularizer: Penalty  # g
    exchange: Exchange  # of c_i

    requires: ClassVar[tuple[type, ...]] = (OnStar,)  # and what the local solver requires

    def init(self, problem, key) -> FedPDState:
        """Start at the problem's start, every dual variable at zero."""
        start = first_model(problem)
        models = copies(start, problem)
        curvature = curvature_at_start(problem, models, self.local, self.length)
        memory = self.local.memory(problem, models)
        clients = FedPDClients(models, jnp.zeros_like(models), models, models, memory)
        post = open_post(self.exchange, key, (models,), start)
        return FedPDState(start, start, clients, curvature, post)

    def check(self, problem, rounds: int) -> None:
        """Check that the length of the steps is given, or can be found.

        Raises:
          InputError: it is None, and the problem has no gradients.
        """
        check_curvature(problem, "step", self.length)

    def step(self, problem, state: FedPDState, turn) -> FedPDState:
        """Return the state after one round, with or without an average."""
        coin_key, local_key = jax.random.split(turn.key)
        coin = jax.random.bernoulli(coin_key, self.averaging)
        length = 1 / state.curvature if self.length is None else self.length

        def update(problem, clients, read, key):
            x, memory = self.local(
                problem,
                clients.copy - length * clients.dual,
                jnp.broadcast_to(1 / length, clients.x.shape[:1]),
                clients.x,
                clients.memory,
                key,
                state.curvature,
            )
            dual = clients.dual + (x - clients.copy) / length
            copy = x + length * dual
            sent = jnp.where(coin, copy, clients.sent)
            message = Message((sent,), sums=sent - clients.sent)
            return FedPDClients(x, dual, copy, sent, memory), message

        def absorb(clients, values):
            lost = (clients.copy - values[0]) / 2
            x, dual = clients.x - lost, clients.dual - lost / length
            return clients._replace(x=x, dual=dual, copy=values[0], sent=values[0])

        turn = turn._replace(key=local_key)
        mail = exchanged(
            problem,
            turn,
            self.exchange,
            state.post,
            state.clients,
            (),
            update,
            kept=(True,),
            absorb=absorb,
            talking=coin,
        )
        mean = mail.values[0]
        if self.exchange.plain:
            mean = state.mean + mail.sums / problem.num_clients
        average = self.regularizer.prox(mean, length)
        server = jnp.where(coin & jnp.any(turn.active), average, state.server)
        clients, post = answered(
            problem,
            turn,
            self.exchange,
            mail.post,
            mail.clients,
            server,
            lambda clients, read: clients._replace(copy=read),
            talking=coin,
        )
        return FedPDState(server, mean, clients, state.curvature, post)

    def estimate(self, state: FedPDState) -> jax.Array:
        """Return the last average, shape (dim,)."""
        return state.server

    def client_models(self, state: FedPDState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.x

    def client_slopes(self, state: FedPDState) -> jax.Array:
        """Return `-l_i in df_i(x_i)` of every client, shape (clients, dim)."""
        return -state.clients.dual

    def heard(self, turn) -> jax.Array:
        """Return who talks in a round, shape (clients,): nobody without an average."""
        coin_key, _ = jax.random.split(jax.random.clone(turn.key))
        return turn.active & jax.random.bernoulli(coin_key, self.averaging)


def fed_pd(
    step: ArrayLike | None = None,
    *,
    averaging: ArrayLike = 1.0,
    local: LocalSolver | None = None,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
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
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: a number is out of range, or an object is not what it should be.
    """
    return FedPD(
        None if step is None else scalar("step", step, above=0),
        scalar("averaging", averaging, above=0, at_most=1),
        check_local(local),
        check_regularizer(regularizer),
        check_exchange(exchange),
    )
