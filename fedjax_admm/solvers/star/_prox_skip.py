r"""ProxSkip, or Scaffnew: gradient steps, and only sometimes a round of communication.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

Client i keeps x_i and h_i (zero at first). One round is one gradient step of everybody and one
coin, the same for all clients: heads with probability p.

    x~_i = x_i - gamma (grad f_i(x_i) - h_i)
    tails   x_i <- x~_i                                                        nobody sends
    heads   client i sends x~_i - (gamma / p) h_i, and the server answers
            x_i <- x = prox_{(gamma / p) g}(mean over i of what was sent)
            h_i <- h_i + (p / gamma) (x - x~_i)

The p of the formulas is that of the coin. A limit has h_i = grad f_i(x) and -(mean of h_i) in
dg(x): no bias, and for gamma <= 1 / L (L, mu the curvatures) the error shrinks per round by about
1 - min(gamma mu, p^2): with p = sqrt(mu / L) as many gradient steps as gradient descent needs, and
p times as many messages. With p = 1 it is the proximal gradient method. Scaffnew is the case g = 0;
there the h_i cancel, and x~_i alone may be sent. With g they must be sent: without them the limit
is another point.

**Trap.** Everybody works in every round, and there is no theory for clients that are absent. Here
absent clients keep x_i and h_i and hear nothing, and the server's mean is that of those who are
present: then the h_i no longer cancel, and the limit is not the minimiser. Where clients come and
go, take SCAFFOLD, FedDyn, FedDR or federated ADMM. Weights w_i of clients (of sum 1) belong in the
losses, as N w_i f_i.

Messages: m_i = x~_i - (gamma / p) h_i goes up and x down, both in rounds of heads. The server
averages what it hears in the round; where it reads u_i in the place of m_i, the client goes on from
the model that u_i belongs to,

    x~_i <- u_i + (gamma / p) h_i

so that, with the mean and everybody present, the h_i still add up to nothing where g = 0. m_i does
not vanish at a fixed point: compressed alone it keeps an error in proportion to itself, coded by
differences it keeps none. There are no delays: x answers what was sent in the same round.

Reference: K. Mishchenko, G. Malinovsky, S. Stich, P. Richtarik, "ProxSkip: Yes! Local Gradient
Steps Provably Lead to Communication Acceleration! Finally!", ICML 2022, arXiv:2202.09357,
Algorithms 1 and 2.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import Gradients, OnStar, first_model
from fedjax_admm.messages import Exchange, Prompt, check_exchange
from fedjax_admm.penalties import Penalty
from fedjax_admm.solvers._present import (
    Message,
    Post,
    StarSolver,
    answered,
    check_regularizer,
    copies,
    exchanged,
    largest_curvature,
    open_post,
)


@short_repr
class ProxSkipClients(NamedTuple):
    """What the clients hold, stacked; absent ones keep all of it."""

    model: jax.Array  # shape=(clients, dim): x_i
    control: jax.Array  # shape=(clients, dim): h_i


@short_repr
class ProxSkipState(NamedTuple):
    """The server's last answer and the stacked clients."""

    server: jax.Array  # shape=(dim,): x of the last round in which anybody sent
    client: ProxSkipClients
    curvature: jax.Array  # shape=(): estimated at the start where the step follows from it, else 1
    post: Post | tuple[()] = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class ProxSkip(StarSolver):
    """ProxSkip; build it with `prox_skip`."""

    step_size: jax.Array | None  # shape=(): gamma; 1 / curvature if None
    probability: jax.Array  # shape=(): p
    regularizer: Penalty  # g
    exchange: Exchange  # of x~_i - (gamma / p) h_i

    requires: ClassVar[tuple[type, ...]] = (OnStar, Gradients)

    def init(self, problem, key) -> ProxSkipState:
        """Start everybody at the problem's start, with h_i = 0."""
        server = first_model(problem)
        models, one = copies(server, problem), jnp.ones((), server.dtype)
        curvature = largest_curvature(problem, server) if self.step_size is None else one
        clients = ProxSkipClients(models, jnp.zeros_like(models))
        post = open_post(self.exchange, key, (models,), server)
        return ProxSkipState(server, clients, curvature, post)

    def step(self, problem, state: ProxSkipState, turn) -> ProxSkipState:
        """Return the state after one gradient step, and perhaps an average."""
        gamma = 1 / state.curvature if self.step_size is None else self.step_size
        stretch = gamma / self.probability
        coin_key, batch_key = jax.random.split(turn.key)
        heads = jax.random.bernoulli(coin_key, self.probability)
        turn = turn._replace(key=batch_key)

        def update(problem, client, read, key):
            slopes = problem.gradients(client.model, key)
            moved = client.model - gamma * (slopes - client.control)
            sent = moved - stretch * client.control
            return client._replace(model=moved), Message((sent,))

        def absorb(client, values):
            return client._replace(model=values[0] + stretch * client.control)

        mail = exchanged(
            problem,
            turn,
            self.exchange,
            state.post,
            state.client,
            (),
            update,
            absorb=absorb,
            talking=heads,
        )
        (sent,), number = mail.values, mail.number
        mean = sent / jnp.maximum(number, 1).astype(sent.dtype)
        average = self.regularizer.prox(mean, stretch)

        def take(client, read):
            return ProxSkipClients(read, client.control + (read - client.model) / stretch)

        client, post = answered(
            problem, turn, self.exchange, mail.post, mail.clients, average, take, talking=heads
        )
        server = jnp.where(heads & (number > 0), average, state.server)
        return ProxSkipState(server, client, state.curvature, post)

    def heard(self, turn) -> jax.Array:
        """Return who is present and talks: nobody where the coin of the round shows tails."""
        coin_key, _ = jax.random.split(jax.random.clone(turn.key))
        return turn.active & jax.random.bernoulli(coin_key, self.probability)

    def estimate(self, state: ProxSkipState) -> jax.Array:
        """Return the server's last answer, shape (dim,)."""
        return state.server

    def client_models(self, state: ProxSkipState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.client.model


def prox_skip(
    step: ArrayLike | None = None,
    *,
    probability: ArrayLike = 0.3,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> ProxSkip:
    """Build `ProxSkip`.

    Args:
      step: gamma; 1 / L if None, with L the largest curvature of the clients' losses,
        estimated at the start.
      probability: p, of a round in which clients send; best near the square root of the smallest
        over the largest curvature.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none, which is Scaffnew, if
        None.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: a number is out of range, the regulariser has no prox, or messages are delayed.
    """
    chosen = check_exchange(exchange)
    if not isinstance(chosen.delay, Prompt):
        raise InputError(
            "must not delay messages, because the server answers in the round in which it is told",
            argument="exchange",
            value=exchange,
            remedy="leave the delay out, or take fed_admm() or scaffold()",
        )
    return ProxSkip(
        None if step is None else scalar("step", step, above=0),
        scalar("probability", probability, above=0, at_most=1),
        check_regularizer(regularizer),
        chosen,
    )
