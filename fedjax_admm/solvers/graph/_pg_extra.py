"""PG-EXTRA: EXTRA with a regulariser that has a proximal map.

    minimise   (1 / N) sum_i f_i(x) + g(x)

over the N nodes of a graph. All f_i are convex with curvature at most L, and g is convex. With the
matrix W of Metropolis weights, row i of x the model of node i and p^0 = 0, one round is

    h = W x - s grad f(x) - p,    p^+ = p + (x - W x) / 2,    x^+ = prox_{s g}(h)

with the prox row by row. These are the iterates of the paper. The corrections p add up to 0. At a
fixed point all models are equal and -p_i - s grad f_i(x) in s dg(x). The sum over the nodes shows
that the model is a minimiser. The conditions on s, absent nodes and messages are those of `extra`.

Reference: W. Shi, Q. Ling, G. Wu, W. Yin, "A Proximal Gradient Algorithm for Decentralized
Composite Optimization", IEEE Transactions on Signal Processing 63(22), 2015,
DOI 10.1109/TSP.2015.2461520.
"""

from jax.typing import ArrayLike

from fedjax_admm._checks import build
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import Heard
from fedjax_admm.solvers.graph._extra import EXTRA, ExtraNodes


@roles.pytree_dataclass
class PGEXTRA(EXTRA):
    """EXTRA with proximal maps; build it with `pg_extra`."""

    regularizer: roles.Penalty = roles.regularized()

    def node(self, problem, nodes: ExtraNodes, heard: Heard, key) -> ExtraNodes:
        """Return x^+, the proximal map at h, and p^+."""
        h, p = super().node(problem, nodes, heard, key)
        return ExtraNodes(self.regularizer.prox(h, self.step_size), p)


def pg_extra(
    step: ArrayLike | None = None,
    regularizer: roles.Penalty | None = None,
    *,
    mixing: ArrayLike = 1.0,
    exchange: roles.Exchange | None = None,
) -> PGEXTRA:
    """Build `PGEXTRA`.

    Args:
      step: s, positive; if None, 1 / (2 L) with the curvature that is found at the start.
      regularizer: g, of `fedjax_admm.penalties`, convex; none if None.
      mixing: as `extra`.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    return build(PGEXTRA, **locals())
