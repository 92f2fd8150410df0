r"""Smoothing ADMM over a tree of nodes: clients, edge servers, cloud; any depth.

Node 0 is the root, p(n) the parent and C(n) the children of node n. Every node has a model w_n:

    minimise   sum_{clients} f_n(w_n) + sum_{servers} R_n(w_n) + sum_{n != 0} r_n(w_p(n) - w_n)

A link penalty r_n = omega ||.||_1 with a large omega gives consensus. MCP or SCAD give personal
models, since they do not shrink large differences. Each link is split with the copies z_n = w_n and
q_n = w_p(n), whose multipliers are Lambda_n and Gamma_n, and r_n is smoothed with mu_n. With a
node's own count k of updates, including the present one, sigma = sigma_n(k) and mu = mu_n(k), one
update of the node is

    client:  w <- Prox_f(z - Lambda / sigma; 1 / sigma)
         or  w <- project(z - (Lambda + grad f(z; mu)) / sigma)          linearised, f smoothed
    server:  w <- Prox_R(v [sigma z - Lambda + sum_{c in C} (sigma_c q_c - Gamma_c)]; v),
                                   v = 1 / (sigma + sum_c sigma_c),   sigma_c = sigma_c(k_c + 1)
    a = w + Lambda / sigma,  b = w_p + Gamma / sigma,  e = Prox_{r(.; mu)}(b - a; 2 / sigma)
    z, q <- (a + b - e) / 2, (a + b + e) / 2
    Lambda <- Lambda + sigma (w - z),   Gamma <- Gamma + sigma (w_p - q)

After every update Gamma = grad r(e; mu) and Lambda = -Gamma, so only Gamma is stored. A round has a
number of passes and then one update of the root. A pass updates all clients, at whatever level they
are, and then the servers level by level, from the deepest to the first. The root computes

    w_0 <- Prox_{R_0}(xi sum_c (sigma_c q_c - Gamma_c); xi),   xi = 1 / sum_c sigma_c

An inactive node keeps its whole state, including its count, and its parent uses its last upload.

A node uploads u = q - Gamma / sigma with the weight sigma, so the sum over the children is that of
sigma_c u_c. With an exchange it is (sum_c sigma_c) Agg_sigma(u^_c) (see `_tree`). Where u^ arrives
in the place of u, the node continues with q - (u - u^) / 2 and Gamma + sigma (u - u^) / 2.

The paper prints the root's update with a plus sign before Gamma. The Lagrangian gives the minus
sign; with a plus the iterates diverge.

Reference: R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical
Federated Learning", Algorithm 1, here for trees of any depth.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax

from fedjax_admm._checks import (
    build,
    counted,
    declared,
    flagged,
    instance,
    one_of,
    refuse,
    several,
)
from fedjax_admm.penalties import zero
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._tree import FromChildren, HierarchyState, TreeSolver, TreeUpload
from fedjax_admm.solvers.tree._client_updates import (
    CLIENT_UPDATES,
    LinearizedClients,
    ProxClients,
)
from fedjax_admm.solvers.tree._links import TreeLink, TreeNodes


class RootRegularizer(NamedTuple):
    """What regularises the servers of the first level, which is the root alone, for one model."""

    level: roles.Penalty  # of models (servers, dim)

    def value(self, x: jax.Array) -> jax.Array:
        """Return the value at a model (dim,), shape ()."""
        return self.level.value(x[None])

    def prox(self, v: jax.Array, step: jax.Array) -> jax.Array:
        """Return the proximal map of a model, shape (dim,)."""
        return self.level.prox(v[None], step)[0]


def _link(name: str, given: Any) -> TreeLink:
    instance(name, given, TreeLink, "a link as tree_link makes it")
    return given


def _links(name: str, given: Any) -> tuple[TreeLink, ...]:
    several(name, given, "links, one per level")
    return tuple(_link(f"{name}[{level}]", link) for level, link in enumerate(given))


def _regularizers(name: str, given: Any) -> tuple[roles.Penalty, ...] | None:
    if given is None:
        return None
    several(name, given, "penalties, one per level of servers")
    return tuple(roles.check_regularizer(name, each) for each in given)


def _client_update(name: str, given: Any) -> ProxClients | LinearizedClients:
    one_of(name, given, CLIENT_UPDATES)
    return CLIENT_UPDATES[given]()


@roles.pytree_dataclass
class HierarchicalADMM(TreeSolver):
    """Smoothing ADMM over a tree; `hierarchical_admm`, `consensus_admm` and `hfsad` build it."""

    clients: TreeLink = declared(_link)  # of the clients, at whatever level they hang
    servers: tuple[TreeLink, ...] = declared(_links)  # of the servers, one per level from 1
    # Of the servers, one per level, the root first.
    regularizers: tuple[roles.Penalty, ...] = declared(_regularizers)
    client_update: ProxClients | LinearizedClients = declared(_client_update)
    passes: int = counted()
    personal: bool = flagged()
    exchange: roles.Exchange = roles.exchanged()  # of q - Gamma / sigma, with weights sigma

    sums_losses: ClassVar[bool] = True  # beside the regularisers

    @property
    def regularizer(self) -> RootRegularizer:
        """Return the regulariser of the root, for one model."""
        return RootRegularizer(self.regularizers[0])

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(passes, nodes)`: clients, then the servers level by level, without the root."""
        depth = problem.tree.depth
        refuse(
            depth != len(self.regularizers),
            None,
            f"the tree's depth is {depth}, but the solver is built for "
            f"{len(self.regularizers)}; give it one link per level below the root "
            f"({depth - 1}) and one regulariser per level ({depth}).",
        )
        return super().participants(problem)

    def start_clients(self, problem, models: jax.Array) -> TreeNodes:
        """Start every copy at the first model, and every dual variable at zero."""
        nodes = self.clients.start(models)
        return nodes._replace(memory=self.client_update.memory(problem, models))

    def start_servers(self, level: int, models: jax.Array) -> TreeNodes:
        """Start every copy at the first model, and every dual variable at zero."""
        return self._link(level).start(models)

    def model(self, nodes: TreeNodes) -> jax.Array:
        """Return w."""
        return nodes.w

    def client(self, problem, clients: TreeNodes, above: jax.Array) -> TreeNodes:
        """Return the clients after an update."""
        link, counts = self.clients, clients.updates + 1
        sigma, mu = link.sigma(counts), link.mu(counts)
        w, memory = self.client_update(
            problem, clients.centre, clients.gamma, sigma, mu, clients.memory
        )
        return link.update(clients._replace(memory=memory), w, above)

    def server(
        self, level: int, servers: TreeNodes, received: FromChildren, above: jax.Array
    ) -> TreeNodes:
        """Return the servers of a level after an update."""
        link = self.servers[level - 1]
        sigma = link.sigma(servers.updates + 1)[:, None]
        v = 1 / (sigma + received.weight)
        centre = v * (sigma * servers.centre + received.total)
        return link.update(servers, self.regularizers[level].prox(centre, v), above)

    def upload(self, level: int, nodes: TreeNodes) -> TreeUpload:
        """Return u = q - Gamma / sigma, with the weight sigma."""
        return self._link(level).upload(nodes)

    def apply_decoded(self, level: int, nodes: TreeNodes, values: jax.Array) -> TreeNodes:
        """Return nodes whose upload is the value: half of the difference in q, half in Gamma."""
        return self._link(level).apply_decoded(nodes, values)

    def root(self, received: FromChildren) -> jax.Array:
        """Return w_0."""
        total, weight = received
        return self.regularizers[0].prox(total / weight, 1 / weight)[0]

    def estimate(self, state: HierarchyState) -> jax.Array:
        """Return the root's model (dim,), or the clients' (clients, dim) if `personal`."""
        return self.client_models(state) if self.personal else state.root

    def _link(self, level: int) -> TreeLink:
        """Return the link of the servers of a level; the clients stand at level 0."""
        return self.servers[level - 1] if level else self.clients


def hierarchical_admm(
    clients: TreeLink,
    servers: Sequence[TreeLink] = (),
    regularizers: Sequence[roles.Penalty] | None = None,
    *,
    passes: int = 1,
    client_update: str = "prox",
    personal: bool = False,
    exchange: roles.Exchange | None = None,
) -> HierarchicalADMM:
    """Build `HierarchicalADMM`.

    Args:
      clients: the clients' links.
      servers: the links of the servers, one per level from 1 (nearest the cloud first); none for
        a star.
      regularizers: of the servers, one per level, the root first; none at all if None.
      passes: passes over all levels per round.
      client_update: "prox" (the problem has a `prox`) or "linearized" (it has
        `smoothed_gradients`).
      personal: whether the estimate is the clients' models instead of the cloud's.
      exchange: of messages, `messages.exchange(...)`; none if None. A share of
        Byzantine nodes is drawn among the clients; a mask with an entry per link, the clients first
        and then the servers from level 1 on, may name servers, too. Their uploads are false, and
        the models that they send to their children are true. Delays count passes, and are the same
        for all links.
    """
    solver = build(HierarchicalADMM, **locals())
    levels = len(solver.servers) + 1
    if regularizers is None:
        return replace(solver, regularizers=(zero(),) * levels)
    refuse(
        len(solver.regularizers) != levels,
        "regularizers",
        f"must hold one per level of servers, the root included ({levels} with "
        f"{levels - 1} server links), but it holds {len(regularizers)}",
    )
    return solver


def consensus_admm(
    clients: TreeLink, regularizer: roles.Penalty | None = None, **options: Any
) -> HierarchicalADMM:
    """Build the solver for a star: flat consensus, clients and one server.

    Args:
      clients: the clients' links.
      regularizer: of the server; none if None.
      **options: as in `hierarchical_admm`.

    Returns:
      The solver, for a tree of depth 1.
    """
    checked = roles.check_regularizer("regularizer", regularizer)
    return hierarchical_admm(clients, (), (checked,), **options)
