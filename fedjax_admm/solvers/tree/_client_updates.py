"""How clients of a tree update their models within the smoothing ADMM."""

from typing import ClassVar

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.capabilities import Projection, Prox, SmoothedGradients


@pytree_dataclass
class ProxClients:
    """Clients minimise their loss exactly: w <- Prox_f(z - Lambda / sigma; 1 / sigma)."""

    requires: ClassVar[tuple[type, ...]] = (Prox,)

    def memory(self, problem, start):
        """Return what the prox remembers before the first round."""
        return problem.prox_memory(start)

    def __call__(self, problem, z, gamma, sigma, mu, memory):
        """Return the new models, shape (clients, dim), and the memory of the prox."""
        return problem.prox(z + gamma / sigma[:, None], 1 / sigma, memory)


@pytree_dataclass
class LinearizedClients:
    """Clients step along the gradient of their smoothed loss, for losses without a prox."""

    requires: ClassVar[tuple[type, ...]] = (SmoothedGradients, Projection)

    def memory(self, problem, start):
        """Return nothing."""
        return ()

    def __call__(self, problem, z, gamma, sigma, mu, memory):
        """Return the new models, shape (clients, dim), and the memory as it is."""
        gradients = problem.smoothed_gradients(z, mu)
        return problem.project(z - (gradients - gamma) / sigma[:, None]), memory


CLIENT_UPDATES = {"prox": ProxClients, "linearized": LinearizedClients}
