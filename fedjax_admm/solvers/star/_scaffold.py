"""SCAFFOLD: local gradient steps, corrected by control variates.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

The server keeps x and c, and client i keeps its control variate c_i. c and all c_i start at zero.
One round of the participating clients S is, with the old x and c on all right sides,

    y_i   <- x,  then K times  y_i <- y_i - eta (grad f_i(y_i) - c_i + c)
    c_i+  =  c_i - c + (x - y_i) / (K eta)                                         (option II)
          =  the mean of the K gradients
    x     <- prox_{K eta eta_g g}(x + eta_g mean over S of (y_i - x))
    c     <- c + (1/N) sum over S of (c_i+ - c_i),       c_i <- c_i+

With an optimiser (`local_optimizer`) the K steps are its own, along the same slopes, and c_i+ is
the mean of the gradients, which is what option II is for plain steps.

The division by all N clients makes c the mean of all c_i after every round.

**Limits.** At a fixed point x - y_i = K eta c for every client, and -c in dg(x) by the server's
step. Without g this gives c = 0; then c_i = grad f_i(x) and the mean of the gradients vanishes, for
any K and any participation. With g and K = 1 the limit is exact too. With g and K > 1, c_i is the
mean of gradients along the move -K eta c, which differs from the gradient at x by about (K - 1) eta
/ 2 times a Hessian times c. The bias is of the order of the rate.

**Weights** w_i of clients (of sum 1) belong in the losses, as N w_i f_i. If only the server's
average of y_i is weighted and the mean of c_i is not, the limit is the minimiser of the
*unweighted* mean.

Messages: the move y_i - x and c_i+ go up, and x and c go down. The server averages the moves that
it receives in a round, and the last control variates of all clients. Where d_i arrives in the place
of c_i+, the client continues with c_i <- d_i, so both ends agree. If g = 0 the moves vanish at a
fixed point, so a compressor without memory leaves no error of them. c_i does not vanish: a
compressor without memory leaves an error in proportion to it, `differences` leave none.

Reference: S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich, A. T. Suresh, "SCAFFOLD:
Stochastic Controlled Averaging for Federated Learning", ICML 2020, arXiv:1910.06378, Algorithm 1,
option II.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm.capabilities import Gradients, OnStar
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._local import LocalSteps, check_length_known, local_steps as steps_of


class ScaffoldServer(NamedTuple):
    """What goes down."""

    model: jax.Array  # shape=(dim,): x
    control: jax.Array  # shape=(dim,): c, the mean of those of the clients


class ScaffoldClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    control: jax.Array  # shape=(clients, dim): c_i
    memory: Any  # of the local steps


@roles.pytree_dataclass
class Scaffold(roles.StarSolver):
    """SCAFFOLD; build it with `scaffold`."""

    local: LocalSteps  # K steps, of the length eta
    server_step: jax.Array = positive()  # shape=(): eta_g
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of the moves, and of c_i

    requires: ClassVar[tuple[type, ...]] = (OnStar, Gradients)

    def start_server(self, model, num_clients) -> ScaffoldServer:
        """Start at the first model, with c = 0."""
        return ScaffoldServer(model, jnp.zeros_like(model))

    def start_clients(self, problem, models, key):
        """Start with c_i = 0; no client has moved."""
        none = jnp.zeros_like(models)
        return ScaffoldClients(none, self.local.memory(problem, models)), roles.RoundMessage(
            (none,)
        )

    def client(self, problem, own: ScaffoldClients, received: ScaffoldServer, key):
        """Return c_i+, and say y_i - x."""
        x, correction = received.model, received.control - own.control
        moved, slope, memory = self.local.descend(
            problem, x, lambda _: correction, jnp.zeros((), x.dtype), own.memory, key
        )
        return ScaffoldClients(slope - correction, memory), roles.RoundMessage((moved - x,))

    def upload(self, own: ScaffoldClients) -> roles.Upload:
        """Return c_i."""
        return roles.Upload((own.control,))

    def apply_decoded(self, own: ScaffoldClients, values) -> ScaffoldClients:
        """Take over the control variate that arrived."""
        return own._replace(control=values[1])

    def server(self, server: ScaffoldServer, received: roles.Received, info) -> ScaffoldServer:
        """Return x and c."""
        move, control = received.means
        length = self.local.length(jnp.zeros((), move.dtype)) * self.server_step
        moved = server.model + self.server_step * move
        return ScaffoldServer(self.regularizer.prox(moved, length), control)

    def model(self, server: ScaffoldServer) -> jax.Array:
        """Return x."""
        return server.model


def scaffold(
    rate: ArrayLike | None = None,
    *,
    local_steps: int = 5,
    local: LocalSteps | None = None,
    server_step: ArrayLike = 1.0,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> Scaffold:
    """Build `Scaffold`.

    Args:
      rate: eta, the length of the local steps; 0.2 / L if None, with L the largest curvature of the
        clients' losses, estimated at the start.
      local_steps: K; each has its own minibatch where the problem has them.
      local: in the place of both, the steps of the clients: `local_optimizer(...)` or
        `local_gradient(...)`.
      server_step: eta_g; 1 takes the mean of the clients' models.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None. With more than one
        local step the limit is then biased, in the order of the rate. Not with an optimiser.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    local = steps_of(rate, local_steps, 5, local)
    check_length_known(local, regularizer)
    return build(Scaffold, **locals())
