"""The private distributed subgradient method, a baseline of zCDP-NFL.

    w_k <- sum_l m_kl v_l - eta_n g_k(v_k),    v_k <- w_k + noise of sensitivity 2 c eta_n / M_k

The Metropolis weights are m_kl = 1 / (1 + max(d_k, d_l)) on edges and m_kk = 1 - sum_{l != k} m_kl;
the sum in w_k runs over the neighbours and k itself. n, g_k, c, d_k and M_k are those of
`private_networked_admm`. An absent client keeps its state, and its neighbours use its last release.

**Messages** (`exchange`): the known models v^ replace v; the ledger does not change. An aggregator
replaces the mean with the weights m_kl of all neighbours and the client itself. Models then agree
as the step falls, if neighbourhoods overlap enough. The aggregator does not preserve the mean of
all clients, so a gradient counts by how often its client is selected.

Reference: A. Nedic, A. Ozdaglar, "Distributed Subgradient Methods for Multi-Agent Optimization",
IEEE Transactions on Automatic Control 54(1), 2009, equation (3); L. Xiao, S. Boyd, S. Lall, "A
Scheme for Robust Distributed Sensor Fusion Based on Average Consensus", 2005 (the weights).
"""

from typing import ClassVar

import jax

from fedjax_admm._checks import build
from fedjax_admm.capabilities import ClippedGradients, Gradients, OnGraph
from fedjax_admm.privacy import Release
from fedjax_admm.schedules import Schedule, ScheduleLike
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import Heard, to_neighbours
from fedjax_admm.solvers.private._network import (
    PrivateClients,
    PrivateSolver,
    public_sizes,
    regulariser_sizes,
    released,
    released_gradients,
    stepped,
)


@roles.pytree_dataclass
class PrivateSubgradient(PrivateSolver):
    """Private distributed subgradient steps; build it with `private_subgradient`."""

    release: Release = released()
    step_size: Schedule = stepped()  # eta, by a client's own count of releases
    exchange: roles.Exchange = to_neighbours()  # of v, after the release

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Gradients, ClippedGradients)
    mixes: ClassVar[bool] = True

    def node(self, problem, nodes: PrivateClients, heard: Heard, key) -> PrivateClients:
        """Return w_k, and v_k, which is w_k with noise."""
        eta = self.gains(problem, nodes.releases + 1)
        gradient = released_gradients(problem, self.release, heard.known)
        w = heard.mean - eta[:, None] * gradient
        size = public_sizes(heard.mean) + eta * regulariser_sizes(problem, heard.known)
        return self.published(problem, nodes, w, eta, size, key)

    def gains(self, problem, n: jax.Array) -> jax.Array:
        """Return eta_n, by how much w_k moves per unit of the gradient, shape (clients,)."""
        return self.step_size(n)


def private_subgradient(
    release: Release, *, step_size: ScheduleLike = 0.1, exchange: roles.Exchange | None = None
) -> PrivateSubgradient:
    """Build `PrivateSubgradient`.

    **A key that serves two runs takes the noise away**: the difference of their messages shows it.
    `Run.estimate` is what was sent; `unprotected(state)` gives the models without noise.

    Args:
      release: how messages are made public: `gaussian_release(plan, clip)` or `exact_release()`.
      step_size: eta as a schedule over a client's own releases; a number stands for
        `power_decay(number, 1/2)`.
      exchange: what happens to messages after the release, `messages.exchange(...)`; nothing if
        None.
    """
    return build(PrivateSubgradient, **locals())
