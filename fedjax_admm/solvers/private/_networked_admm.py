"""zCDP-NFL: private networked ADMM for nonsmooth objectives.

    minimise   sum_k f_k(w_k)   subject to w_k = w_l on every edge of a graph

Client k has d_k neighbours l and M_k samples. It keeps its model w_k to itself and sends v_k, which
is w_k with noise. Let n be its own count of releases, g_k a subgradient of f_k in which each
sample's gradient is clipped to the norm c, and `a_k = 1 / (1 / eta_n + 2 rho d_k)`. From a public
start and gamma_k = 0, one round is

    w_k     <- v_k - a_k ( g_k(v_k) + gamma_k + rho sum_l (v_k - v_l) )
    v_k     <- w_k + noise of sensitivity 2 c a_k / M_k             (sent to all neighbours)
    gamma_k <- gamma_k + rho sum_l (v_k - v_l)

The first line minimises the linearised augmented Lagrangian. The dual variables are stored as flows
u on the edges, gamma_k = (D^T u)_k and u <- u + rho D v, so they always add up to 0.

An absent client keeps its state, and its neighbours use its last release. A flow changes only if
both ends of its edge are present. The fixed points stay the same: all w_k equal the minimiser, and
-gamma_k is in the subdifferential of f_k there.

**Messages** (`exchange`): the known models v^ replace v at both ends of an edge; the ledger does
not change. There is no aggregator: the dual variables are sums of flows, by which a Byzantine node
would move its neighbours without bound.

Reference: F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated
Learning for Nonsmooth Objectives", Algorithm 1, with the signs of the augmented Lagrangian.
"""

from typing import ClassVar

import jax
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm.capabilities import ClippedGradients, Gradients, OnGraph
from fedjax_admm.certificates import check_stability
from fedjax_admm.privacy import Release
from fedjax_admm.schedules import Schedule, ScheduleLike
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import Heard
from fedjax_admm.solvers.private._network import (
    DualFlows,
    PrivateClients,
    public_sizes,
    regulariser_sizes,
    released,
    released_gradients,
    stepped,
    without_mean,
)


@roles.pytree_dataclass
class PrivateNetworkedADMM(DualFlows):
    """zCDP-NFL; build it with `private_networked_admm`."""

    release: Release = released()
    rho: jax.Array = positive()  # shape=(): weight of the constraints
    step_size: Schedule = stepped()  # eta, by a client's own count of releases
    exchange: roles.Exchange = without_mean()  # of v, after the release

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Gradients, ClippedGradients)

    def check(self, problem, rounds: int) -> None:
        """Check that the noise is planned for so many rounds, and that the steps are stable."""
        super().check(problem, rounds)
        check_stability(problem, self.rho, self.step_size, rounds, self.release.clip is not None)

    def node(self, problem, nodes: PrivateClients, heard: Heard, key) -> PrivateClients:
        """Return w_k, and v_k, which is w_k with noise."""
        v, pull = heard.known, heard.gathered
        gain = self.gains(problem, nodes.releases + 1)
        gradient = released_gradients(problem, self.release, v)
        w = v - gain[:, None] * (gradient + pull)
        size = public_sizes(v) + gain * (public_sizes(pull) + regulariser_sizes(problem, v))
        return self.published(problem, nodes, w, gain, size, key)

    def gains(self, problem, n: jax.Array) -> jax.Array:
        """Return a_k, by how much w_k moves per unit of the gradient, shape (clients,)."""
        eta = self.step_size(n)
        return eta / (1 + 2 * eta * self.rho * problem.graph.degrees.astype(eta.dtype))


def private_networked_admm(
    release: Release,
    *,
    rho: ArrayLike = 1.0,
    step_size: ScheduleLike = 1.0,
    exchange: roles.Exchange | None = None,
) -> PrivateNetworkedADMM:
    """Build `PrivateNetworkedADMM`.

    **A key that serves two runs takes the noise away**: the difference of their messages shows it.
    `Run.estimate` is what was sent; `unprotected(state)` gives the models without noise.

    Args:
      release: how messages are made public: `gaussian_release(plan, clip)` or `exact_release()`.
      rho: weight of the constraints, positive.
      step_size: eta as a schedule over a client's own releases, such as `power_decay(eta, q)` with
        q 0, 1/2 or 1; a number stands for `power_decay(number, 1/2)`.
      exchange: what happens to messages after the release, `messages.exchange(...)` without an
        aggregator; nothing if None.
    """
    return build(PrivateNetworkedADMM, **locals())
