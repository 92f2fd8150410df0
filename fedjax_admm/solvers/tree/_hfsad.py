r"""HFSAD: the hierarchical smoothing ADMM with the constants of its paper, for trees of any depth.

Let Omega_h bound, per coordinate, the subgradients that arrive at a node of level h from below. For
a client it is omega; for a server it is (largest number of children) Omega_child + (slope of R).
The links are exact l1 penalties with these weights. The product of the two schedules meets the
convergence condition with equality:

    r_n = Omega_h ||.||_1,   sigma_n = Omega_h / D_h sqrt(k),   mu_n = sqrt(20) D_h / sqrt(k)

D_h is half the mean number of clients below a server of the level, and 1 for a client. It makes
sigma similar at all levels. For five edge servers with fifty clients each the factors of sqrt(k)
and 1 / sqrt(k) are those of the paper: omega and sqrt(20) for the clients, and Omega_1 / 25 and 25
sqrt(20) for the edge servers.

The regularisers are SCAD penalties P with weights that add up to one per client, so that at
consensus the objective is sum_{clients} (f_n(w) + P(w)). The weight is N_l - 1 / L at each of L
edge servers, where N_l is its number of clients, and 1 at the root.

Reference: R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical
Federated Learning", section on the simulations.
"""

from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import flag, instance, number, refuse
from fedjax_admm.capabilities import OnTree, needs
from fedjax_admm.kernels import safe_norm
from fedjax_admm.messages import Exchange
from fedjax_admm.penalties import Penalty, l1, scad
from fedjax_admm.solvers.tree._hierarchical import (
    HierarchicalADMM,
    hierarchical_admm,
)
from fedjax_admm.solvers.tree._links import TreeLink, tree_link
from fedjax_admm.trees import Tree

SMOOTHING_PRODUCT = 20**0.5
"""sigma mu = sqrt(20) Omega: the smallest product for which convergence is proved."""


@needs(OnTree)
def hfsad(
    problem: Any,
    *,
    passes: int = 10,
    omega: ArrayLike | None = None,
    lam: ArrayLike = 0.1,
    gamma: ArrayLike = 2.4,
    sparse: bool = True,
    client_update: str = "prox",
    personal: bool = False,
    exchange: Exchange | None = None,
) -> HierarchicalADMM:
    """Build the published HFSAD for a problem on a tree.

    The largest |x| over a phase-retrieval problem's clients sets the links' weights, so the solver
    is made from the problem (inside a trial, too: nothing here needs concrete numbers).

    Args:
      problem: with a `tree`, and with measurement vectors `x` unless `omega` is given.
      passes: passes over clients and edge servers per round.
      omega: bound of a client's subgradients; 5 max ||x|| as printed if None. (It is no bound on
        2 (x^T w) x over the whole box: a client whose outlier makes it larger never agrees.)
      lam: lambda of SCAD.
      gamma: gamma of SCAD, above 2.
      sparse: whether servers have the SCAD regularisers at all.
      client_update: "prox" or "linearized".
      personal: whether the estimate is the clients' models instead of the cloud's.
      exchange: what happens to messages; see `hierarchical_admm`.

    Raises:
      InputError: a number is out of range, an option is unknown, or omega is missing.
    """
    flag("sparse", sparse)
    tree = problem.tree
    if omega is None:
        refuse(
            not hasattr(problem, "x"),
            "omega",
            f"must be given for {type(problem).__name__}: only phase retrieval has "
            "measurement vectors to choose it by",
        )
        omega = 5 * jnp.max(safe_norm(problem.x))
    regularizers: tuple[Any, ...] = scad_regularizers(tree, lam, gamma)
    # The slope of SCAD is at most lambda; the product with gamma is as printed.
    slopes = [jnp.max(part.weight) * part.lam * part.gamma for part in regularizers[1:]]
    clients, *servers = consensus_links(tree, omega, slopes if sparse else None)
    return hierarchical_admm(
        clients,
        servers,
        regularizers if sparse else None,
        passes=passes,
        client_update=client_update,
        personal=personal,
        exchange=exchange,
    )


def consensus_links(tree: Tree, omega: ArrayLike, slopes: Any = None) -> list[TreeLink]:
    """Return exact l1 links with schedules of one size at all levels.

    Args:
      tree: the tree.
      omega: bound of a client's subgradients, per coordinate.
      slopes: bounds of the regularisers' subgradients, one per level of servers from 1; 0 if None.

    Returns:
      The clients' link, then one per level of servers from 1.
    """
    instance("tree", tree, Tree, "a tree of fedjax_admm.trees")
    omega = number("omega", omega, above=0)
    slopes = [0.0] * (tree.depth - 1) if slopes is None else slopes
    refuse(
        len(slopes) != tree.depth - 1,
        "slopes",
        f"must hold one number per level of servers below the root ({tree.depth - 1}), "
        f"but it holds {len(slopes)}",
    )
    links = [tree_link(omega, SMOOTHING_PRODUCT, l1(omega))]
    children, below = tree.children(), tree.clients_below()
    bound = omega
    # Upwards: what arrives at a level is made of what arrives at the one below it.
    for level in range(tree.depth - 1, 0, -1):
        slope = number("slopes", slopes[level - 1], at_least=0).astype(omega.dtype)
        bound = jnp.max(children[level]).astype(omega.dtype) * bound + slope
        spread = jnp.mean(below[level], dtype=omega.dtype) / 2
        links.insert(1, tree_link(bound / spread, spread * SMOOTHING_PRODUCT, l1(bound)))
    return links


def scad_regularizers(
    tree: Tree, lam: ArrayLike = 0.1, gamma: ArrayLike = 2.4
) -> tuple[Penalty, ...]:
    """Return SCAD regularisers, one per level, whose weights add up to the number of clients.

    A server with N clients of its own has the weight N - 1 / L, where L servers below the root have
    clients; the root has 1 (and 1 more for each client of its own). Other servers have 0.

    Args:
      tree: the tree.
      lam: lambda of SCAD.
      gamma: gamma of SCAD, above 2.
    """
    instance("tree", tree, Tree, "a tree of fedjax_admm.trees")
    dtype = number("lam", lam).dtype
    own, *others = tree.sum_of_clients(jnp.ones(tree.num_clients, dtype))
    holders = sum((jnp.sum(numbers > 0, dtype=dtype) for numbers in others), jnp.zeros((), dtype))
    share = 1 / jnp.maximum(holders, 1)
    weights = [own + jnp.minimum(holders, 1)]
    weights += [jnp.where(numbers > 0, numbers - share, 0) for numbers in others]
    return tuple(scad(lam, gamma, weight[:, None]) for weight in weights)
