"""Federated subgradient descent, such as the baseline DSRL of robust localisation.

    minimise over w   (1 / L) sum_l f_l(w) + g(w)

In round k = 1, 2, ... every active client takes one subgradient step from the server's model, an
inactive client counts with that model, and the server takes the mean over all L clients:

    v <- (1 / L) sum_l (w - eta_k u_l active_l) ,    u_l a subgradient of f_l at w
    w <- prox_{eta_k a_k g}(v) ,                     a_k the share of active clients

The factor a_k gives g the same weight relative to the losses in every round. If no client takes
part, the model does not change.

Messages: u_l goes up and w goes down. v is w minus eta_k a_k times the aggregate of the u_l that
arrive, where a_k is their share. Subgradients do not vanish at the optimum, nor do the errors of
their compression. Decreasing steps average these out for unbiased compressors and for
`error_feedback`.

Reference: R. Mirzaeifard, N. K. D. Venkategowda, S. Werner, "Robust Networked Federated Learning
for Localization", APSIPA ASC 2023, pp. 1193-1198, arXiv:2308.16737, in its federated form.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from fedjax_admm._checks import build
from fedjax_admm.capabilities import Gradients, OnStar
from fedjax_admm.schedules import Schedule, ScheduleLike, power_decay, sqrt_decay
from fedjax_admm.solvers import _roles as roles


@roles.pytree_dataclass
class FederatedSubgradient(roles.StarSolver):
    """Federated subgradient descent; build it with `fed_subgradient`."""

    # eta_k, of the global round k from 1; in units of the model per subgradient
    step_size: Schedule = roles.scheduled()
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of u_l

    requires: ClassVar[tuple[type, ...]] = (OnStar, Gradients)

    def start_clients(self, problem, models, key):
        """Start without subgradients; clients keep nothing."""
        return (), roles.RoundMessage((jnp.zeros_like(models),))

    def client(self, problem, clients, server, key):
        """Say u_l, a subgradient at the server's model."""
        return (), roles.RoundMessage((problem.gradients(server, key),))

    def server(self, server, received: roles.Received, info) -> jax.Array:
        """Return `prox_{eta_k a_k g}(w - eta_k a_k mean of u_l)`."""
        length, (total,) = self.step_size(info.index + 1), received.sums
        share = received.number.astype(total.dtype) / received.num_clients
        # A prox of length 0 may divide by it.
        share = jnp.where(received.number > 0, share, 1)
        return self.regularizer.prox(
            server - length * (total / received.num_clients), length * share
        )


def fed_subgradient(
    step_size: ScheduleLike | None = None,
    *,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FederatedSubgradient:
    """Build `FederatedSubgradient`.

    Args:
      step_size: eta_k, a schedule, an optax schedule or another function of the count, or a number,
        which stands for a constant. It has the unit of the model over that of a subgradient, so
        that another scale of the problem asks for another one; `sqrt_decay(16.0)` if None, tuned
        for localisation with 21 sensors in a cube of 60 m, where both subgradients and models are
        known. `subgradient_steps` has the others with which the method is compared there.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    step_size = sqrt_decay(16.0) if step_size is None else step_size
    return build(FederatedSubgradient, **locals())


def subgradient_steps() -> dict[str, Schedule]:
    """Return the step sizes with which the method is compared, by name: two tuned, one not.

    All are of one class, so that an experiment can stack them into one program.
    """
    return {
        "16 k^-0.5": power_decay(16.0, 0.5),
        "100 k^-1": power_decay(100.0, 1.0),
        "1 k^-0.5": power_decay(1.0, 0.5),
    }
