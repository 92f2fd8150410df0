"""pFedMe: personal models are proximal points of a shared one, which minimises Moreau envelopes.

    minimise over w   (1/N) sum_i F_i(w),
                      F_i(w) = min_theta f_i(theta) + lambda ||theta - w||^2 / 2

F_i is the Moreau envelope of f_i with step 1 / lambda. Its gradient is lambda (w - theta_i(w)) with
theta_i(w) = prox_{f_i / lambda}(w). One round of the participating clients S is

    w_i     <- w,  then R times   theta_i <- about prox_{f_i / lambda}(w_i),  begun at theta_i
                                  w_i     <- w_i - eta lambda (w_i - theta_i)
    w       <- (1 - beta) w + beta mean over S of w_i                         at the server

The personal model of client i is theta_i. The paper leaves open where the approximation of theta_i
begins. Here it begins at the last theta_i, so a fixed point has the exact theta_i for any number of
steps. In the paper absent clients work too, but the server does not use their results. Here they do
not work, which does not change w. Every local step has its own minibatch if the problem has them.

**Limits.** If f_i is convex with curvature at most L, the curvature of F_i is at most
lambda L / (lambda + L). With R = 1 and full participation the limit is the minimiser of the mean of
F_i. With R > 1 it is biased if clients differ, as that of FedAvg on F_i.

Reference: C. T. Dinh, N. H. Tran, T. D. Nguyen, "Personalized Federated Learning with Moreau
Envelopes", NeurIPS 2020, arXiv:2006.08848, Algorithm 1.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, positive
from fedjax_admm._threefry import split
from fedjax_admm.capabilities import at_state
from fedjax_admm.solvers import _roles as roles


class PersonalClients(NamedTuple):
    """What the clients keep, stacked; inactive ones keep all of it."""

    models: jax.Array  # shape=(clients, dim): theta_i
    memory: Any  # of the local solvers


@roles.pytree_dataclass
class PersonalizedMoreau(roles.StarSolver):
    """pFedMe; build it with `p_fed_me`. The server holds w."""

    penalty: jax.Array = positive(curvature=lambda largest: largest)  # shape=(): lambda
    rate: jax.Array = positive(curvature=lambda largest: 0.5 / largest)  # shape=(): eta
    server_step: jax.Array = positive()  # shape=(): beta
    local_steps: int = counted()  # R
    local: roles.LocalSolver = roles.locally()  # for theta_i
    exchange: roles.Exchange = roles.exchanged()  # of w_i

    def start_clients(self, problem, models, key):
        """Start with all models at the first one, which everybody knows."""
        return PersonalClients(models, self.local.memory(problem, models)), roles.RoundMessage(
            (models,)
        )

    def client(self, problem, own: PersonalClients, model, key):
        """Return theta_i, and say w_i."""
        weight = jnp.broadcast_to(self.penalty, model.shape[:1])

        def step(carry, key):
            w, theta, memory = carry
            theta, memory = self.local(problem, w, weight, theta, memory, key)
            return (w - self.rate * self.penalty * (w - theta), theta, memory), None

        keys = split(key, self.local_steps)
        (w, theta, memory), _ = jax.lax.scan(step, (model, own.models, own.memory), keys)
        return PersonalClients(theta, memory), roles.RoundMessage((w,))

    def server(self, model, received: roles.Received, info) -> jax.Array:
        """Return w."""
        return model + self.server_step * (received.means[0] - model)

    def estimate(self, state: roles.StarState) -> jax.Array:
        """Return theta_i, shape (clients, dim)."""
        return state.clients.models

    def judged(self, problem, state: roles.StarState) -> tuple[Any, jax.Array]:
        """Return the problem, and the shared model w."""
        return at_state(problem, state), state.server


def p_fed_me(
    penalty: ArrayLike | None = None,
    rate: ArrayLike | None = None,
    *,
    server_step: ArrayLike = 1.0,
    local_steps: int = 5,
    local: roles.LocalSolver | None = None,
    exchange: roles.Exchange | None = None,
) -> PersonalizedMoreau:
    """Build `PersonalizedMoreau`.

    Args:
      penalty: lambda: a large one holds personal models near the shared one. The largest curvature
        L of the clients' losses, estimated at the start, if None.
      rate: eta, of the steps of the shared model along lambda (w_i - theta_i); below 2 / L where
        the losses are convex; 0.5 / L if None.
      server_step: beta; 1 takes the mean of the clients' w_i.
      local_steps: R: so many times per round a client finds theta_i and moves w_i.
      local: how a client finds theta_i, `local_gradient(...)`, `local_optimizer(...)` or
        `local_prox()`; five gradient steps if None.
      exchange: of messages, `messages.exchange(...)`; none if None.

    Returns:
      The solver; its estimate is a model per client, shape (clients, dim).
    """
    return build(PersonalizedMoreau, **locals())
