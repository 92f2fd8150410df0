"""The table through which every solver goes: a new solver adds one line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import fedjax_admm as fa
from fedjax_admm import edge_penalties, graphs, penalties, schedules, trees
from fedjax_admm.problems.networked import Networked, networked_regression, networked_training
from fedjax_admm.solvers.averaging import federated_averaging, federated_proximal_averaging
from fedjax_admm.solvers.gtv import gtv_primal_dual
from fedjax_admm.solvers.ifca import ifca


@dataclass(frozen=True)
class Case:
    """A solver, a problem that it can solve, and what of its state belongs to each client."""

    solver: Callable[[], Any]
    problem: Callable[[], Any]
    clients: Callable[[Any], Any]  # state -> pytree stacked over the last axis of the mask: the
    # clients, or all nodes of a tree that have a parent
    dear: bool = False  # seconds to compile a gradient: the float64 one only in the slow run


def localization() -> fa.RangeLocalization:
    return fa.draw_localization(jax.random.key(11), fa.cauchy_noise(1.0), clients=6)


def phase(tree: trees.Tree) -> fa.PhaseRetrieval:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((tree.num_clients, 3))
    y = (x @ np.array([1.0, -2.0, 0.5])) ** 2 + 0.1
    return fa.phase_retrieval(x, y, tree, start=np.array([0.5, -1.0, 1.0]))


def regression(tree: trees.Tree) -> fa.RobustRegression:
    rng = np.random.default_rng(6)
    x = [rng.standard_normal((2 + n, 3)) for n in range(tree.num_clients)]
    y = [a @ rng.standard_normal(3) for a in x]
    return fa.robust_regression(x, y, tree, start=np.array([0.5, -1.0, 1.0]))


def two_levels() -> fa.PhaseRetrieval:
    return phase(trees.from_counts([1, 3]))


def consensus(weight: float) -> fa.Link:
    return fa.link(4.0, 2.0, penalties.l1(weight))


def nodes_below_the_root(state: Any) -> Any:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), state.clients, *state.servers)


def network_data() -> tuple[graphs.Graph, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((5, 4, 3))
    y = np.einsum("nmd,nd->nm", x, rng.standard_normal((5, 3)))
    heads, tails = (jnp.asarray(ends, jnp.int32) for ends in ([0, 0, 1, 2, 3], [1, 2, 2, 3, 4]))
    return graphs.Graph(heads, tails, jnp.array([1.0, 0.5, 2.0, 0.1, 1.0]), 5), x, y


def network() -> Networked:
    graph, x, y = network_data()
    return networked_regression(graph, list(x), list(y))


def squared_error(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return (jnp.vdot(x, w) - y) ** 2


def trained_network() -> Networked:
    start = np.random.default_rng(9).standard_normal((5, 3))
    return networked_training(
        *network_data(), squared_error, start, optimizer=optax.adam, rate=0.02, steps=3
    )


SOLVERS = {
    "FSMDM": Case(lambda: fa.fsmdm(), localization, lambda state: state.client),
    "FSMDM tuned, 3 local": Case(
        lambda: fa.fsmdm("tuned", local_updates=3), localization, lambda state: state.client
    ),
    "FederatedSubgradient": Case(
        lambda: fa.federated_subgradient(), localization, lambda state: ()
    ),
    "FederatedSubgradient 100/k": Case(
        lambda: fa.federated_subgradient(schedules.power_decay(100.0, 1.0)),
        localization,
        lambda state: (),
    ),
    "HFSAD, 2 passes": Case(
        lambda: fa.hfsad(two_levels(), passes=2), two_levels, nodes_below_the_root, dear=True
    ),
    "HierarchicalADMM, star": Case(
        lambda: fa.consensus_admm(consensus(5.0)),
        lambda: phase(trees.star(4)),
        nodes_below_the_root,
    ),
    "HierarchicalADMM, depth 3, linearised, personal": Case(
        lambda: fa.hierarchical_admm(
            fa.link(4.0, 2.0, penalties.mcp(1.0, 2.5)),
            [consensus(20.0), consensus(10.0)],
            client_update="linearized",
            personal=True,
        ),
        lambda: regression(trees.from_nested([[[0, 1], 2], 3])),
        nodes_below_the_root,
        dear=True,
    ),
    "CentralizedSubgradient": Case(
        lambda: fa.centralized_subgradient(schedules.geometric(1.0, 0.9)),
        two_levels,
        lambda state: (),
    ),
    "GTVPrimalDual": Case(
        lambda: gtv_primal_dual(network(), 0.3, ratio=1.0), network, lambda state: state.nodes
    ),
    "GTVPrimalDual, MOCHA, trained": Case(
        lambda: gtv_primal_dual(trained_network(), 0.3, edge_penalties.mocha(), ratio=1.0),
        trained_network,
        lambda state: state.nodes,
    ),
    "FederatedAveraging, 3 local steps": Case(
        lambda: federated_averaging(0.1, local_steps=3), network, lambda state: ()
    ),
    "FederatedAveraging, prox": Case(
        lambda: federated_proximal_averaging(), network, lambda state: ()
    ),
    "IFCA": Case(
        lambda: ifca([[0.5, -1.0, 1.0], [-0.5, 1.0, 0.3]], 0.3), network, lambda state: ()
    ),
}
