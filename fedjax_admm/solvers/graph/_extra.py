"""EXTRA: an exact first-order method for consensus over a graph.

    minimise   sum_i f_i(x)

over the nodes of a graph. All f_i are convex with curvature at most L. Let W be the matrix of
Metropolis weights, `W~ = (I + W) / 2`, row i of x the model of node i and row i of grad f(x) the
gradient of f_i there. The paper's rounds are

    x^1     = W x^0 - s grad f(x^0)
    x^(k+2) = (I + W) x^(k+1) - W~ x^k - s (grad f(x^(k+1)) - grad f(x^k))

The same iterates, from p^0 = 0, are computed here as

    x^+ = W x - s grad f(x) - p,    p^+ = p + (x - W x) / 2

with one gradient and one message to every neighbour per round. The corrections p add up to 0. At a
fixed point all models are equal and -p_i = s grad f_i(x). The sum over the nodes shows that the
model is a minimiser.

The paper requires `s < (1 + lambda_min(W)) / L`. For equal quadratic losses the exact condition is
`s < (5 + 3 lambda_min(W)) / (4 L)`; the default s = 1 / (2 L) meets it on every graph.

**Participation**: absent nodes keep x and p, and W is that of the graph of the present nodes. Fixed
points and the sum of p stay the same. Convergence is not proved, and slower than that of
`decentralized_admm`, for which it is proved.

**Messages** (`exchange`): a node sends x to all its neighbours at the beginning of a round. The
known models x^ are those that the neighbours received last; the node knows its own. They replace x
in the differences between nodes:

    x^+ = x - (x^ - W x^) - s grad f(x) - p,    p^+ = p + (x^ - W x^) / 2

The corrections therefore add up to 0 with any exchange. At a fixed point the known models agree;
with coded differences x^ = x there.

Known models that lag behind, as with coarse codes or delays, can make the method diverge. If x^ is
x of the round before and the losses have the curvature h, every eigenvalue mu of I - W must satisfy
`mu^2 < 4 s h (1 - mu / 2)`. `mixing` below 1 replaces W by (1 - mixing) I + mixing W, which makes
mu smaller. `decentralized_admm` does not need this.

An aggregator replaces W x^, with the weights of W. **The corrections then no longer add up to 0**:
every common model is a fixed point for some corrections, and the limit depends on the start and on
the path (less so for `decentralized_admm`). Nodes agree only if neighbourhoods overlap enough; on
sparse graphs a median can stop before all agree. `centred_clipping` and `norm_bounding` do not
help, because the corrections add up the changes that Byzantine nodes cause in every round.

Reference: W. Shi, Q. Ling, G. Wu, W. Yin, "EXTRA: An Exact First-Order Algorithm for Decentralized
Consensus Optimization", arXiv:1404.6264, 2015, Algorithm 1.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, positive
from fedjax_admm.capabilities import Gradients, OnGraph
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import GraphSolver, GraphState, Heard, to_neighbours


class ExtraNodes(NamedTuple):
    """What every node holds."""

    x: jax.Array  # shape=(nodes, dim): models
    p: jax.Array  # shape=(nodes, dim): corrections, which add up to zero


@roles.pytree_dataclass
class EXTRA(GraphSolver):
    """Gradient steps that agree exactly; build it with `extra`."""

    step_size: jax.Array = positive(  # shape=(): s
        argument="step", curvature=lambda largest: 1 / (2 * largest)
    )
    mixing: jax.Array = positive(at_most=1)  # shape=(): how much of W; all of it for 1
    exchange: roles.Exchange = to_neighbours()  # of x

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Gradients)
    mixes: ClassVar[bool] = True
    speaks_first: ClassVar[bool] = True

    def start_nodes(self, problem, models) -> ExtraNodes:
        """Start without corrections."""
        return ExtraNodes(models, jnp.zeros_like(models))

    def message(self, nodes: ExtraNodes) -> jax.Array:
        """Send x."""
        return nodes.x

    def node(self, problem, nodes: ExtraNodes, heard: Heard, key) -> ExtraNodes:
        """Return x^+ and p^+."""
        away = self.mixing * heard.apart
        moved = nodes.x - away - self.step_size * problem.gradients(nodes.x, key) - nodes.p
        return ExtraNodes(moved, nodes.p + away / 2)

    def estimate(self, state: GraphState) -> jax.Array:
        """Return the models, shape (nodes, dim), which agree at the limit."""
        return state.nodes.x


def extra(
    step: ArrayLike | None = None,
    *,
    mixing: ArrayLike = 1.0,
    exchange: roles.Exchange | None = None,
) -> EXTRA:
    """Build `EXTRA`.

    Args:
      step: s, positive; if None, 1 / (2 L) with the curvature that is found at the start.
      mixing: above 0 and at most 1: (1 - mixing) I + mixing W stands for W. Below 1 it stands
        messages that lag.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    return build(EXTRA, **locals())
