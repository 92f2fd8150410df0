"""The table through which every solver goes: a new one adds an entry, or a test fails."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import fedjax_admm as fa
from fedjax_admm import graphs, losses, penalties, privacy, schedules, trees
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.problems import (
    ConsensusRegression,
    Networked,
    consensus_regression,
    networked_regression,
    networked_training,
)
from fedjax_admm.solvers import (
    apfl,
    centralized_subgradient,
    consensus_admm,
    decentralized_admm,
    ditto,
    extra,
    fed_admm,
    fed_avg,
    fed_avg_prox,
    fed_dr,
    fed_dyn,
    fed_mavg,
    fed_mc_admm,
    fed_pd,
    fed_plt,
    fed_prox,
    fed_subgradient,
    fsmdm,
    gtv,
    gtv_primal_dual,
    hfsad,
    hierarchical_admm,
    ifca,
    local_gradient,
    local_optimizer,
    p_admm,
    p_fed_me,
    personal,
    pg_extra,
    private_networked_admm,
    private_subgradient,
    prox_skip,
    scaffold,
    server_yogi,
)

ADAM = optax.adam(0.1)


def models(problem: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of estimates here: a model of three numbers, for all or per client."""
    return (3,), (problem.num_clients, 3)


@dataclass(frozen=True)
class Case:
    """A solver, a problem that it can solve, and what of its state belongs to each client."""

    builder: Callable[..., Any]  # of `fedjax_admm.solvers`
    built: Callable[[Callable[..., Any]], Any]  # builder -> solver
    problem: Callable[[], Any]
    clients: Callable[[Any], Any]  # state -> pytree stacked over the last axis of the mask: the
    # clients, or all nodes of a tree that have a parent
    shapes: Callable[[Any], tuple[tuple[int, ...], ...]] = models  # problem -> what an estimate's
    # shape may be

    def solver(self) -> Any:
        """Return the solver."""
        return self.built(self.builder)


def localization() -> fa.problems.Localization:
    return fa.problems.draw_localization(
        jax.random.key(11), fa.problems.cauchy_noise(1.0), clients=6
    )


def phase(tree: trees.Tree) -> fa.problems.PhaseRetrieval:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((tree.num_clients, 3))
    y = (x @ np.array([1.0, -2.0, 0.5])) ** 2 + 0.1
    return fa.problems.phase_retrieval(x, y, tree, start=np.array([0.5, -1.0, 1.0]))


def regression(tree: trees.Tree) -> fa.problems.RobustRegression:
    rng = np.random.default_rng(6)
    x = [rng.standard_normal((2 + n, 3)) for n in range(tree.num_clients)]
    y = [a @ rng.standard_normal(3) for a in x]
    return fa.problems.robust_regression(x, y, tree, start=np.array([0.5, -1.0, 1.0]))


def two_levels() -> fa.problems.PhaseRetrieval:
    return phase(trees.from_counts([1, 3]))


def consensus(weight: float) -> Any:
    return fa.solvers.tree_link(4.0, 2.0, penalties.l1(weight))


def own_loss(params: Any, sample: Any) -> jax.Array:
    x, y = sample
    return jnp.log1p((jnp.vdot(x, params["body"]) + params["head"] - y) ** 2)


def error_below_one(params: Any, sample: Any) -> jax.Array:
    x, y = sample
    return jnp.abs(jnp.vdot(x, params["body"]) + params["head"] - y) < 1


def with_heads() -> fa.problems.Federated:
    """Clients with 4, 2, 4, 3 and 4 samples, a shared model of two numbers and one of their own."""
    _, x, y = network_data()
    sizes = (4, 2, 4, 3, 4)
    data = [(x[k, :size, :2], y[k, :size]) for k, size in enumerate(sizes)]
    start = {"body": jnp.array([0.5, -1.0]), "head": jnp.ones(())}
    return fa.problems.federated(
        own_loss, data, start, batch_size=2, shared="body", score=error_below_one
    )


def nodes_below_the_root(state: Any) -> Any:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), state.clients, *state.servers)


def models_and_corrections(state: Any) -> jax.Array:
    """Return both of EXTRA's nodes in one: without present neighbours no correction changes."""
    return jnp.concatenate(state.nodes, -1)


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


@pytree_dataclass
class TrainedStar:
    """A problem of one's own: clients at one server, whose prox is inexact."""

    local: losses.TrainedLoss
    tree: trees.Tree
    start: jax.Array  # shape=(dim,)

    @property
    def num_clients(self) -> int:
        return self.tree.num_clients

    def prox_memory(self, start: jax.Array) -> Any:
        return self.local.prox_memory(start)

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        return self.local.prox(points, step, memory)


def trained_star() -> TrainedStar:
    local = trained_network().local
    assert isinstance(local, losses.TrainedLoss)
    return TrainedStar(local, trees.star(5), local.start[0])


def completion() -> fa.problems.MatrixCompletion:
    """Clients of 2, 1 and 3 users; one user has no ratings, and an item is rated by nobody."""
    clients = [
        ([0, 0, 1, 1], [0, 1, 1, 2], [1.0, -1.0, 0.5, 2.0]),
        ([0, 0], [3, 0], [2.0, 0.0]),
        ([2, 0, 0, 2], [2, 1, 0, 3], [0.25, 1.0, 0.75, -0.5]),
    ]
    clients = [tuple(np.array(part) for part in client) for client in clients]
    return fa.problems.matrix_completion_of_clients(clients, num_items=5, standardize=False)


def first_factors() -> Any:
    rng = np.random.default_rng(3)
    return fa.ratings.given_start(rng.uniform(0, 1, (3, 3, 2)), rng.uniform(0, 1, (5, 2)))


def item_factors(problem: fa.problems.MatrixCompletion) -> tuple[tuple[int, ...], ...]:
    return ((problem.num_items, 2),)


def completing(build: Any, user_penalty: Any, item_penalty: Any, **options: Any) -> Any:
    return build(
        beta=2.0,
        user_penalty=user_penalty,
        item_penalty=item_penalty,
        inner_steps=3,
        start=first_factors(),
        **options,
    )


def agreeing() -> ConsensusRegression:
    """Clients with 4, 2, 4, 3 and 4 samples."""
    graph, x, y = network_data()
    sizes = (4, 2, 4, 3, 4)
    return consensus_regression(
        graph,
        [part[:size] for part, size in zip(x, sizes, strict=True)],
        [part[:size] for part, size in zip(y, sizes, strict=True)],
        losses.squared(),
        l2=1.0,
    )


def noisy() -> privacy.GaussianRelease:
    return privacy.gaussian_release(privacy.zcdp_plan(8.0, 1e-3, 8, 0.9), clip=2.0)


def but_memory(state):
    """Return what moves in every round of a client: overshoots of its gradient steps need not."""
    return state.clients._replace(memory=())


SOLVERS = {
    "FSMDM": Case(fsmdm, lambda build: build(), localization, lambda state: state.clients),
    "FederatedSubgradient": Case(
        fed_subgradient,
        lambda build: build(),
        localization,
        lambda state: (),
    ),
    "HFSAD, 2 passes": Case(
        hfsad,
        lambda build: build(two_levels(), passes=2),
        two_levels,
        nodes_below_the_root,
    ),
    "HierarchicalADMM, star": Case(
        consensus_admm,
        lambda build: build(consensus(5.0)),
        lambda: phase(trees.star(4)),
        nodes_below_the_root,
    ),
    "HierarchicalADMM, depth 3, linearised, personal": Case(
        hierarchical_admm,
        lambda build: build(
            fa.solvers.tree_link(4.0, 2.0, penalties.mcp(1.0, 2.5)),
            [consensus(20.0), consensus(10.0)],
            client_update="linearized",
            personal=True,
        ),
        lambda: regression(trees.from_nested([[[0, 1], 2], 3])),
        nodes_below_the_root,
    ),
    "CentralizedSubgradient": Case(
        centralized_subgradient,
        lambda build: build(schedules.geometric(1.0, 0.9)),
        two_levels,
        lambda state: (),
    ),
    "GTVPrimalDual": Case(
        gtv_primal_dual,
        lambda build: build(network(), 0.3, ratio=1.0),
        network,
        lambda state: state.nodes,
    ),
    "GTVSplitting": Case(
        gtv,
        lambda build: build(network(), 0.3),
        network,
        lambda state: state.answers,
    ),
    "DecentralizedADMM": Case(
        decentralized_admm,
        lambda build: build(0.5, relaxation=1.2),
        network,
        lambda state: state.nodes,
    ),
    "EXTRA": Case(
        extra,
        lambda build: build(0.1),
        network,
        models_and_corrections,
    ),
    "PG-EXTRA": Case(
        pg_extra,
        lambda build: build(regularizer=penalties.l1(0.1)),
        network,
        models_and_corrections,
    ),
    "FederatedAveraging, 3 local steps": Case(
        fed_avg,
        lambda build: build(0.1, local_steps=3),
        network,
        lambda state: (),
    ),
    "FederatedAveraging, optimisers": Case(
        fed_avg,
        lambda build: build(
            local=local_optimizer(ADAM, steps=2, keep=True), server_optimizer=server_yogi(0.1)
        ),
        network,
        lambda state: state.clients,
    ),
    "FederatedAveraging, prox": Case(
        fed_avg_prox,
        lambda build: build(),
        network,
        lambda state: (),
    ),
    "FedProx": Case(
        fed_prox,
        lambda build: build(0.5, local=local_gradient(0.2, steps=3)),
        network,
        lambda state: (),
    ),
    "SCAFFOLD": Case(
        scaffold,
        lambda build: build(local_steps=2),
        network,
        lambda state: state.clients,
    ),
    "ProxSkip": Case(
        prox_skip,
        lambda build: build(probability=0.6),
        network,
        # With tails the controls stay as they are.
        lambda state: state.clients.model,
    ),
    "FedDR": Case(
        fed_dr,
        lambda build: build(0.5),
        network,
        lambda state: state.clients[:2],  # 1 / eta stays
    ),
    "FedDyn": Case(fed_dyn, lambda build: build(2.0), network, but_memory),
    "FedPD": Case(fed_pd, lambda build: build(0.5), network, but_memory),
    "FedPLT": Case(fed_plt, lambda build: build(0.5), network, but_memory),
    "IFCA": Case(
        ifca,
        lambda build: build([[0.5, -1.0, 1.0], [-0.5, 1.0, 0.3]], 0.3),
        network,
        lambda state: (),
    ),
    "FedADMM": Case(
        fed_admm,
        lambda build: build(0.5, regularizer=penalties.l1(0.01)),
        network,
        lambda state: (state.clients.models, state.clients.duals),
    ),
    "FedADMM, balanced": Case(
        fed_admm,
        lambda build: build(fa.solvers.balanced_penalty(), relaxation=1.2),
        network,
        lambda state: (state.clients.models, state.clients.duals),
    ),
    "FedMCADMM": Case(
        fed_mc_admm,
        lambda build: completing(build, penalties.squared_l2(0.1), penalties.squared_l2(0.2)),
        completion,
        lambda state: state.clients,
        shapes=item_factors,
    ),
    "FedMAvg, drawn users": Case(
        fed_mavg,
        lambda build: build(user_steps=3, item_steps=2, start=first_factors(), all_users=False),
        completion,
        lambda state: state.clients.users,
        shapes=item_factors,
    ),
    "Personal": Case(
        personal,
        lambda build: build(scaffold(0.1, local_steps=2), 0.3, steps=2),
        with_heads,
        lambda state: (state.private, state.inner.clients),
    ),
    "Ditto": Case(
        ditto,
        lambda build: build(scaffold(0.1, local_steps=2), local=local_optimizer(ADAM, steps=2)),
        network,
        lambda state: (state.models, state.inner.clients),
    ),
    "PFedMe": Case(
        p_fed_me,
        lambda build: build(0.5, local_steps=2),
        network,
        but_memory,
    ),
    "APFL": Case(
        apfl,
        lambda build: build(0.1, local_steps=2),
        network,
        # The first weights stay as they are until a model differs from the shared one.
        lambda state: state.clients.models,
    ),
    "PrivateNetworkedADMM": Case(
        private_networked_admm,
        lambda build: build(noisy(), rho=0.5, step_size=0.3),
        agreeing,
        lambda state: state.nodes[:4],  # what is fixed by the plan or the unit may stay
    ),
    "PrivateSubgradient": Case(
        private_subgradient,
        lambda build: build(noisy(), step_size=0.1),
        agreeing,
        lambda state: state.nodes[:4],
    ),
    "PADMM": Case(
        p_admm,
        lambda build: build(noisy(), rho=0.5, newton_steps=4),
        agreeing,
        lambda state: state.nodes[:4],  # what is fixed by the plan or the unit may stay
    ),
}
