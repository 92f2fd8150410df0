"""ProxSkip, or Scaffnew: gradient steps, with communication in only some rounds.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

Client i keeps x_i and h_i (zero at first). In one round every client takes a gradient step, and one
coin for all clients shows heads with probability p.

    x~_i = x_i - gamma (grad f_i(x_i) - h_i)
    tails   x_i <- x~_i                                                        nobody sends
    heads   client i sends x~_i - (gamma / p) h_i, and the server answers
            x_i <- x = prox_{(gamma / p) g}(mean over i of what was sent)
            h_i <- h_i + (p / gamma) (x - x~_i)

A limit has h_i = grad f_i(x) and -(mean of h_i) in dg(x), so there is no bias. Let L and mu be the
largest and the smallest curvature of the losses. For gamma <= 1 / L the squared error shrinks per
round by a factor of about 1 - min(gamma mu, p^2). With p = sqrt(mu / L) the method takes as many
gradient steps as gradient descent and p times as many messages. p = 1 is the proximal gradient
method. Scaffnew has g = 0; the h_i then add up to 0, and x~_i alone may be sent. With g the h_i
must be sent, or the limit is another point.

**Full participation.** The method assumes it. Absent clients keep x_i and h_i and receive nothing,
and the mean is that of the present clients. The h_i then no longer add up to 0 without g, and the
limit is not the minimiser. Take SCAFFOLD, FedDyn, FedDR or federated ADMM instead. Weights w_i of
clients (of sum 1) belong in the losses, as N w_i f_i.

Messages: m_i = x~_i - (gamma / p) h_i goes up and x goes down, both in rounds of heads. Where u_i
arrives in the place of m_i, the client continues with x~_i <- u_i + (gamma / p) h_i. With the mean,
full participation and g = 0 the h_i therefore still add up to 0. m_i does not vanish at a fixed
point: a compressor without memory leaves an error in proportion to it, `differences` leave none.
Messages cannot be delayed, because the server answers in the same round.

Reference: K. Mishchenko, G. Malinovsky, S. Stich, P. Richtarik, "ProxSkip: Yes! Local Gradient
Steps Provably Lead to Communication Acceleration! Finally!", ICML 2022, arXiv:2202.09357,
Algorithms 1 and 2.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm._threefry import one_loop, split
from fedjax_admm.capabilities import Gradients, OnStar
from fedjax_admm.solvers import _roles as roles


class ProxSkipClients(NamedTuple):
    """What the clients hold, stacked; absent ones keep all of it."""

    model: jax.Array  # shape=(clients, dim): x_i
    control: jax.Array  # shape=(clients, dim): h_i


@roles.pytree_dataclass
class ProxSkip(roles.StarSolver):
    """ProxSkip; build it with `prox_skip`."""

    step_size: jax.Array = positive(  # shape=(): gamma
        argument="step", curvature=lambda largest: 1 / largest
    )
    probability: jax.Array = positive(at_most=1)  # shape=(): p
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged(
        prompt_alone="the server answers in the same round"
    )  # of x~_i - (gamma / p) h_i

    requires: ClassVar[tuple[type, ...]] = (OnStar, Gradients)
    replies: ClassVar[bool] = True

    @property
    def stretch(self) -> jax.Array:
        """Return gamma / p, shape ()."""
        return self.step_size / self.probability

    def start_clients(self, problem, models, key):
        """Start everybody at the first model, with h_i = 0."""
        return ProxSkipClients(models, jnp.zeros_like(models)), roles.RoundMessage((models,))

    def coin(self, key) -> tuple[jax.Array, jax.Array]:
        """Return heads, and the key of the minibatches."""
        coin_key, key = split(key)
        return jax.random.bernoulli(one_loop(coin_key), self.probability), key

    def client(self, problem, clients: ProxSkipClients, _, key):
        """Return x~_i in the place of x_i, and say x~_i - (gamma / p) h_i."""
        slopes = problem.gradients(clients.model, key)
        moved = clients.model - self.step_size * (slopes - clients.control)
        sent = moved - self.stretch * clients.control
        return clients._replace(model=moved), roles.RoundMessage((sent,))

    def apply_decoded(self, clients: ProxSkipClients, values) -> ProxSkipClients:
        """Go on from the model of which the value would have been sent."""
        return clients._replace(model=values[0] + self.stretch * clients.control)

    def server(self, server, received: roles.Received, info) -> jax.Array:
        """Return x."""
        return self.regularizer.prox(received.means[0], self.stretch)

    def reply(self, clients: ProxSkipClients, x) -> ProxSkipClients:
        """Return x and the new h_i."""
        return ProxSkipClients(x, clients.control + (x - clients.model) / self.stretch)

    def client_models(self, state: roles.StarState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.model


def prox_skip(
    step: ArrayLike | None = None,
    *,
    probability: ArrayLike = 0.3,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> ProxSkip:
    """Build `ProxSkip`.

    Args:
      step: gamma; 1 / L if None, with L the largest curvature of the clients' losses,
        estimated at the start.
      probability: p, of a round in which clients send; best near the square root of the smallest
        over the largest curvature.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none, which is Scaffnew, if
        None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    return build(ProxSkip, **locals())
