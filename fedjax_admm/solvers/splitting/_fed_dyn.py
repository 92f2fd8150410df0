r"""FedDyn: dynamic regularisation, by which every client's minimiser becomes that of all.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

A client keeps a slope c_i, the server its model x and the mean h of all slopes; all slopes are 0 at
first. One round of those who take part, rho the weight of the penalty (the paper calls it alpha):

    w_i <- argmin_w f_i(w) - <c_i, w> + rho/2 ||w - x||^2,    exactly, or by gradient steps from x
    c_i <- c_i - rho (w_i - x)                                which is grad f_i(w_i) if exact
    h   <- h - (rho / N) sum over those of (w_i - x)          at the server
    x   <- prox_{g/rho}(mean over those of w_i - h / rho)     at the server

Clients send w_i, or c_i, from which w_i follows. h is the mean of all c_i in every round. At a
fixed point w_i = x for everybody, hence c_i = grad f_i(x), and x = prox_{g/rho}(x - h / rho) says
that -h, minus the mean of the gradients, lies in dg(x): the minimiser, whoever took part when. The
paper has g = 0. A round in which nobody takes part keeps everything. With everybody in every round
it is FedPD with the step 1 / rho that always averages. Under partial participation it differs from
FedDR: its average runs over fresh models alone.

Trap: weights w_i of clients (of sum 1) belong in the losses, as N w_i f_i. Where only the averages
of models are weighted and h is the plain mean, a fixed point still has w_i = x and h = 0: the
minimiser of the plain mean, without a word.

Messages: where something happens to them c_i goes up, and x down. The server keeps d_i, what it
heard last of everybody, and the client takes it over, c_i <- d_i, so that both ends hold the same.
What became of the model of a client is what its slope says, so

    h <- Agg over all i of d_i
    x <- prox_{g/rho}(x - Agg over those who are heard of (d_i - d_i before) / rho - h / rho)

with the aggregator Agg of the exchange, which for the mean is the above. At a fixed point with
d_i = c_i nothing changes, and Agg of the gradients vanishes where g = 0. A slope does not vanish
there: an unbiased compressor without memory changes c_i by a noise of sqrt(omega) ||c_i||, which
the next solution forgets, but the model keeps moving by about that over rho and the square root of
the number of clients; a biased one, such as the largest entries alone, stops where the mean of what
it leaves of the gradients vanishes, at another point. Coded by differences there is no error.

Reference: D. A. E. Acar, Y. Zhao, R. M. Navarro, M. Mattina, P. N. Whatmough, V. Saligrama,
"Federated Learning Based on Dynamic Regularization", arXiv:2111.04263 (2021), Algorithm 1.
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
    StarSolver,
    check_regularizer,
    copies,
    exchanged,
    open_post,
)


@short_repr
class FedDynClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    slope: jax.Array  # shape=(clients, dim): c, the gradient at the model that they sent last
    memory: Any  # of the local solver, stacked


@short_repr
class FedDynState(NamedTuple):
    """The server and the stacked clients."""

    server: jax.Array  # shape=(dim,): x
    slope: jax.Array  # shape=(dim,): h, the mean of all clients' slopes
    clients: FedDynClients
    curvature: jax.Array  # shape=(): about the largest of the losses, 1 where nobody needs it
    post: Any = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class FedDyn(StarSolver):
    """Dynamic regularisation; build it with `fed_dyn`."""

    rho: jax.Array | None  # shape=(): weight of the penalty; the curvature if None
    local: LocalSolver
    regularizer: Penalty  # g
    exchange: Exchange  # of c_i

    requires: ClassVar[tuple[type, ...]] = (OnStar,)  # and what the local solver requires

    def init(self, problem, key) -> FedDynState:
        """Start at the problem's start, every slope at zero."""
        start = first_model(problem)
        models = copies(start, problem)
        curvature = curvature_at_start(problem, models, self.local, self.rho)
        memory = self.local.memory(problem, models)
        clients = FedDynClients(jnp.zeros_like(models), memory)
        post = open_post(self.exchange, key, (clients.slope,), start)
        return FedDynState(start, jnp.zeros_like(start), clients, curvature, post)

    def check(self, problem, rounds: int) -> None:
        """Check that rho is given, or can be found.

        Raises:
          InputError: it is None, and the problem has no gradients.
        """
        check_curvature(problem, "rho", self.rho)

    def step(self, problem, state: FedDynState, turn) -> FedDynState:
        """Return the state after one round."""
        rho = state.curvature if self.rho is None else self.rho

        def update(problem, clients, x, key):
            w, memory = self.local(
                problem,
                x + clients.slope / rho,
                jnp.broadcast_to(rho, clients.slope.shape[:1]),
                x,
                clients.memory,
                key,
                state.curvature,
            )
            slope = clients.slope - rho * (w - x)
            return FedDynClients(slope, memory), Message((slope,), sums=w - x)

        mail = exchanged(
            problem,
            turn,
            self.exchange,
            state.post,
            state.clients,
            state.server,
            update,
            kept=(True,),
            absorb=lambda clients, values: clients._replace(slope=values[0]),
        )
        number = mail.number
        if self.exchange.plain:
            slope = state.slope - rho * mail.sums / problem.num_clients
            move = mail.sums / jnp.maximum(number, 1).astype(slope.dtype)
        else:
            slope = mail.values[0]
            moves = (state.post.up[0].known - mail.post.up[0].known) / rho
            none = jnp.zeros_like(state.server)[None]
            move = self.exchange.aggregate(moves, mail.arrived, none)[0]
        server = self.regularizer.prox(state.server + move - slope / rho, 1 / rho)
        server = jnp.where(number > 0, server, state.server)
        return FedDynState(server, slope, mail.clients, state.curvature, mail.post)

    def estimate(self, state: FedDynState) -> jax.Array:
        """Return the server's model, shape (dim,)."""
        return state.server


def fed_dyn(
    rho: ArrayLike | None = None,
    *,
    local: LocalSolver | None = None,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> FedDyn:
    """Build `FedDyn`.

    Args:
      rho: weight of the penalty, the paper's alpha; L if None, the largest curvature of the losses
        as it is estimated at the start.
      local: how a client solves its problem: `local_prox()`, or `local_gradient()`, which is taken
        if None.
      regularizer: g, of `fedjax_admm.penalties`, at the server; nothing if None.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: a number is out of range, or an object is not what it should be.
    """
    return FedDyn(
        None if rho is None else scalar("rho", rho, above=0),
        check_local(local),
        check_regularizer(regularizer),
        check_exchange(exchange),
    )
