"""APFL: each client mixes its own model with the shared one, and learns the weight.

    vbar_i = alpha_i v_i + (1 - alpha_i) w        is the personal model of client i

One round of the participating clients S has K local steps, with old values on the right sides:

    w_i     <- w  before the first step
    w_i     <- w_i - eta grad f_i(w_i)
    v_i     <- v_i - eta alpha_i grad f_i(vbar_i),    vbar_i = alpha_i v_i + (1 - alpha_i) w_i
    alpha_i <- alpha_i - eta <v_i - w_i, grad f_i(vbar_i)>    within [0, 1], in the first step alone

    w       <- mean over S of w_i                             at the server

The slopes of v_i and alpha_i are the derivatives of f_i(vbar_i). Messages are those of FedAvg; v_i
and alpha_i are never sent. Both gradients of a step have the same minibatch.

**Limits.** w is that of FedAvg, with its bias. With K = 1 a fixed point has alpha_i grad
f_i(vbar_i) = 0. Unless alpha_i = 0, a personal model converges to a stationary point of its
client's own loss, and the shared model only changes the iterates before. With K > 1 the sum of
these slopes over the K steps of a round vanishes. Since w_i moves during the round, vbar_i stays
away from a stationary point by about (1 - alpha_i) times the length of that move.

Reference: Y. Deng, M. M. Kamani, M. Mahdavi, "Adaptive Personalized Federated Learning",
arXiv:2003.13461, Algorithm 1, and its adaptive mixing weights.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, flagged, positive, ranged
from fedjax_admm.capabilities import Gradients, OnStar
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._gradients import draws


class MixingClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    models: jax.Array  # shape=(clients, dim): v_i
    weights: jax.Array  # shape=(clients,): alpha_i


@roles.pytree_dataclass
class APFL(roles.StarSolver):
    """Adaptive personalised federated learning; build it with `apfl`. The server holds w."""

    rate: jax.Array = positive(curvature=lambda largest: 0.2 / largest)  # shape=(): eta
    mixing: jax.Array = ranged(at_least=0, at_most=1)  # shape=(): alpha_i at the start
    adaptive: bool = flagged()  # whether alpha_i is learnt
    local_steps: int = counted()  # K
    exchange: roles.Exchange = roles.exchanged()  # of w_i

    requires: ClassVar[tuple[type, ...]] = (OnStar, Gradients)

    def start_clients(self, problem, models, key):
        """Start with all models at the first one, which everybody knows."""
        weights = jnp.broadcast_to(self.mixing, models.shape[:1])
        return MixingClients(models, weights), roles.RoundMessage((models,))

    def client(self, problem, own: MixingClients, model, key):
        """Return v_i and alpha_i, and say w_i."""

        def step(carry, now):
            (w, v, alpha), (draw, first) = carry, now
            slope = problem.gradients(_mixed(alpha, v, w), draw)
            moved = alpha
            if self.adaptive:
                turned = jnp.clip(alpha - self.rate * jnp.sum((v - w) * slope, -1), 0, 1)
                moved = jnp.where(first, turned, alpha)
            w = w - self.rate * problem.gradients(w, draw)
            return (w, v - self.rate * alpha[:, None] * slope, moved), None

        first = jnp.arange(self.local_steps, dtype=jnp.int32) == 0
        steps = draws(problem, key, self.local_steps), first
        (w, v, alpha), _ = jax.lax.scan(step, (model, *own), steps)
        return MixingClients(v, alpha), roles.RoundMessage((w,))

    def server(self, model, received: roles.Received, info) -> jax.Array:
        """Return the mean of w_i."""
        return received.means[0]

    def estimate(self, state: roles.StarState) -> jax.Array:
        """Return vbar_i with the server's w, shape (clients, dim)."""
        own = state.clients
        return _mixed(own.weights, own.models, state.server[None])

    def judged(self, problem, state: roles.StarState) -> tuple[Any, jax.Array]:
        """Return the problem, and the shared model w."""
        return problem, state.server


def _mixed(alpha: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
    return alpha[:, None] * v + (1 - alpha[:, None]) * w


def apfl(
    rate: ArrayLike | None = None,
    *,
    mixing: ArrayLike = 0.5,
    adaptive: bool = True,
    local_steps: int = 5,
    exchange: roles.Exchange | None = None,
) -> APFL:
    """Build `APFL`.

    Args:
      rate: eta, the length of all steps, below `2 / L` for every client; 0.2 / L if None, with L
        the largest curvature of the clients' losses, estimated at the start.
      mixing: alpha_i at the start, from 0, where the personal model is the shared one, to 1, where
        each client learns alone.
      adaptive: whether alpha_i is learnt; it stays as it is if not.
      local_steps: K per round; each has its own minibatch where the problem has them.
      exchange: of messages, `messages.exchange(...)`; none if None.

    Returns:
      The solver; its estimate is a model per client, shape (clients, dim).
    """
    return build(APFL, **locals())
