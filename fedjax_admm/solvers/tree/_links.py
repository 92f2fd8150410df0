"""Links of a tree: the penalties between nodes and their parents in the smoothing ADMM over trees.

A link has the smoothed penalty `r(.; mu)`, the node's model w, its parent's model w_p, the copies
z = w and q = w_p, and the multiplier Gamma of w_p = q. One update of the link is

    a = w - Gamma / sigma,  b = w_p + Gamma / sigma,  e = Prox_{r(.; mu)}(b - a; 2 / sigma)
    z, q <- (a + b - e) / 2, (a + b + e) / 2,    Gamma <- Gamma + sigma (w_p - q)

The multiplier of z = w is -Gamma. Inserting q into the last formula gives the same update as

    Gamma+ = sigma (b - a - e) / 2,    z = w + (Gamma+ - Gamma) / sigma,    q = w_p + w - z

The copies are needed in two sums only, with the sigma of the next update: z + Gamma / sigma, where
the node's next update starts, and sigma q - Gamma, which the parent adds up. These are stored in
the place of the copies. The node sends its parent the upload u = q - Gamma / sigma with the weight
sigma. Where u^ arrives in the place of u, the node continues with

    q <- q - (u - u^) / 2,    Gamma <- Gamma + sigma (u - u^) / 2

so that its upload is u^ and both ends of the link agree.

Reference: R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical
Federated Learning", Algorithm 1.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import one_line, refuse
from fedjax_admm.lanes import computed_once
from fedjax_admm.penalties import SmoothablePenalty
from fedjax_admm.schedules import Schedule, ScheduleLike, as_schedule, sqrt_decay, sqrt_growth
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._tree import TreeUpload


class TreeNodes(NamedTuple):
    """What the clients, or the servers of one level, hold, stacked; inactive ones keep all."""

    w: jax.Array  # shape=(nodes, dim): models
    centre: jax.Array  # shape=(nodes, dim): z + gamma / sigma, with sigma of the next update
    message: jax.Array  # shape=(nodes, dim): sigma q - gamma, likewise
    gamma: jax.Array  # shape=(nodes, dim): duals of w_p = q, and minus those of w = z
    updates: jax.Array  # shape=(nodes,), int32: updates done
    memory: Any = ()  # of the clients' inexact prox, stacked; () of an exact one, and of servers


@roles.pytree_dataclass
class TreeLink:
    """How nodes are tied to their parents; build it with `tree_link`."""

    sigma: Schedule  # penalty parameter of w = z and w_p = q, of the node's own count
    mu: Schedule  # smoothing of the penalty, in units of the model
    penalty: SmoothablePenalty  # on the difference to the parent's model

    def start(self, models: jax.Array) -> TreeNodes:
        """Return nodes before the first update: every copy is the model, every dual is zero."""
        counts = jnp.zeros(len(models), jnp.int32)
        sigma = self.sigma(counts + 1)[:, None]
        return TreeNodes(models, models, sigma * models, jnp.zeros_like(models), counts)

    def copies(self, nodes: TreeNodes) -> tuple[jax.Array, jax.Array]:
        """Return z and q, the copies of the models and of their parents' models."""
        sigma = self.sigma(nodes.updates + 1)[:, None]
        return nodes.centre - nodes.gamma / sigma, (nodes.message + nodes.gamma) / sigma

    def upload(self, nodes: TreeNodes) -> TreeUpload:
        """Return u = q - Gamma / sigma, with the weight sigma."""
        weights = self.sigma(nodes.updates + 1)
        return TreeUpload(nodes.message / weights[:, None], weights, nodes.message)

    def apply_decoded(self, nodes: TreeNodes, values: jax.Array) -> TreeNodes:
        """Return nodes whose upload is the value: half of the difference in q, half in Gamma."""
        sigma = self.sigma(nodes.updates + 1)[:, None]
        error = (nodes.message / sigma - values) / 2
        return nodes._replace(
            centre=nodes.centre + error,
            message=nodes.message - 2 * sigma * error,
            gamma=nodes.gamma + sigma * error,
        )

    def update(self, nodes: TreeNodes, models: jax.Array, parents: jax.Array) -> TreeNodes:
        """Return the nodes after an update, given their new models and their parents'."""
        counts = nodes.updates + 1
        sigma, mu = self.sigma(counts)[:, None], self.mu(counts)[:, None]
        after = self.sigma(counts + 1)[:, None]
        step, next_step = 1 / sigma, 1 / after
        models = computed_once(models)
        difference = parents - models + 2 * nodes.gamma * step
        e = self.penalty.smoothed_prox(difference, 2 * step, mu)
        gamma = computed_once(sigma * (difference - e) / 2)
        move = (gamma - nodes.gamma) * step
        centre, message = models + move + gamma * next_step, after * (parents - move) - gamma
        return TreeNodes(models, centre, message, gamma, counts, nodes.memory)


def tree_link(sigma: ScheduleLike, mu: ScheduleLike, penalty: SmoothablePenalty) -> TreeLink:
    """Build a `TreeLink`.

    Args:
      sigma: the penalty parameter, a schedule of the node's own count of updates from 1, an optax
        schedule or another function of the count; a number c means c sqrt(k).
      mu: the smoothing, likewise; a number alpha means alpha / sqrt(k). The convergence proof
        asks for alpha c >= sqrt(20) times the largest subgradient that arrives from below.
      penalty: on the difference to the parent's model: `penalties.l1(omega)` for consensus (omega
        above the subgradients that arrive from below), `penalties.mcp` or `penalties.scad` for
        personal models, `penalties.group_mcp` or `penalties.group_scad` for clusters (models are
        equal, or neither is moved), `penalties.zero()` to cut the nodes off.
    """
    refuse(
        not hasattr(penalty, "smoothed_prox"),
        "penalty",
        "must have a smoothed prox, as penalties.l1, mcp and scad do, but it is "
        f"{one_line(penalty)}",
    )
    return TreeLink(
        as_schedule("sigma", sigma, sqrt_growth, above=0),
        as_schedule("mu", mu, sqrt_decay, above=0),
        penalty,
    )
