"""Updates of the clients' models in the smoothing ADMM over trees: a prox, or a gradient step.

    prox         w <- Prox_f(z + Gamma / sigma; 1 / sigma)
    linearised   w <- project(z - (grad f(z; mu) - Gamma) / sigma)              f smoothed with mu

The formulas are those of `_hierarchical`, whose reference they share. `centre` is z + Gamma /
sigma.
"""

from typing import ClassVar

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.capabilities import Projection, Prox, SmoothedGradients


@pytree_dataclass
class ProxClients:
    """Clients apply the prox of their loss: w <- Prox_f(z + Gamma / sigma; 1 / sigma)."""

    requires: ClassVar[tuple[type, ...]] = (Prox,)

    def memory(self, problem, start):
        """Return what the prox remembers before the first round."""
        return problem.prox_memory(start)

    def __call__(self, problem, centre, gamma, sigma, mu, memory):
        """Return the new models, shape (clients, dim), and the memory of the prox."""
        return problem.prox(centre, 1 / sigma, memory)


@pytree_dataclass
class LinearizedClients:
    """Clients step along the gradient of their smoothed loss, for losses without a prox."""

    requires: ClassVar[tuple[type, ...]] = (SmoothedGradients, Projection)

    def memory(self, problem, start):
        """Return nothing."""
        return ()

    def __call__(self, problem, centre, gamma, sigma, mu, memory):
        """Return the new models, shape (clients, dim), and the memory as it is."""
        sigma = sigma[:, None]
        gradients = problem.smoothed_gradients(centre - gamma / sigma, mu)
        return problem.project(centre - gradients / sigma), memory


CLIENT_UPDATES = {"prox": ProxClients, "linearized": LinearizedClients}
