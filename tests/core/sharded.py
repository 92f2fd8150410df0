"""Families of problems for the tests of sharding; run as a program, it needs 8 devices.

It compares 6 clients on 4 and on 8 devices with one device, in float64, and prints JSON.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec

import fedjax_admm as fa
from fedjax_admm import graphs, losses, participation, privacy, trees
from fedjax_admm.devices import device_mesh
from fedjax_admm.problems import draw_consensus_regression, networked_regression
from fedjax_admm.solvers import gtv_primal_dual, private_networked_admm

DIM, ROUNDS = 3, 4


class Family(NamedTuple):
    """A problem with any number of clients, its solver, and who takes part."""

    build: Callable[[int], tuple[Any, Any]]  # clients -> solver, problem
    clients: Callable[[Any], Any]  # state -> what has a row per client, node or edge
    process: Any


def fsmdm(clients):
    problem = fa.problems.draw_localization(
        jax.random.key(1), fa.problems.cauchy_noise(1.0), clients=clients
    )
    return fa.solvers.fsmdm(), problem


def hfsad(clients):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((clients, DIM))
    y = (x @ np.array([1.0, -2.0, 0.5])) ** 2 + 0.1
    tree = trees.from_counts([2, clients - 2])
    problem = fa.problems.phase_retrieval(x, y, tree, start=np.array([0.5, -1.0, 1.0]))
    return fa.solvers.hfsad(problem), problem


def ring(clients):
    """Return a ring: as many edges as nodes."""
    return graphs.from_edges(clients, [(i, (i + 1) % clients) for i in range(clients)], 0.5)


def gtv(clients):
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((clients, 4, DIM)), rng.standard_normal((clients, 4))
    problem = networked_regression(ring(clients), list(x), list(y))
    return gtv_primal_dual(problem, 0.3, ratio=1.0), problem


def zcdp(clients):
    problem = draw_consensus_regression(
        jax.random.key(3), ring(clients), losses.squared(), samples=4, dim=DIM, l2=1.0
    )
    release = privacy.gaussian_release(privacy.zcdp_plan(8.0, 1e-3, ROUNDS, 0.9), clip=2.0)
    return private_networked_admm(release, rho=0.05, step_size=0.1), problem


def fedmc(clients):
    """Return clients with 1, 2, ... users, each of whom rates some of 11 items."""
    rng = np.random.default_rng(3)
    data = []
    for i in range(clients):
        pairs = rng.permutation((i + 1) * 11)[: 5 * (i + 1)]
        data.append((pairs // 11, pairs % 11, rng.standard_normal(pairs.size)))
    problem = fa.problems.matrix_completion_of_clients(data, num_items=11, standardize=False)
    start = fa.ratings.uniform_start(1.0, rank=2)
    return fa.solvers.fed_mc_admm(beta=2.0, inner_steps=2, start=start), problem


SOME = participation.bernoulli(0.6)

FAMILIES = {
    "FSMDM": Family(fsmdm, lambda state: state.clients, SOME),
    "HFSAD": Family(hfsad, lambda state: state.clients, SOME),
    "GTV": Family(gtv, lambda state: (state.nodes, state.edges), SOME),
    "zCDP-NFL": Family(zcdp, lambda state: (state.nodes, state.edges), SOME),
    "FedMC": Family(fedmc, lambda state: state.clients, SOME),
    "FedMC, drawn": Family(
        fedmc, lambda state: state.clients, participation.without_replacement(3)
    ),
}


def difference(wanted, got):
    """Return the largest difference of two pytrees, relative to the largest entry of a leaf."""
    pairs = zip(jax.tree.leaves(wanted), jax.tree.leaves(got), strict=True)
    return max(
        float(np.max(np.abs(a - b)) / max(1e-30, np.max(np.abs(a))))
        for a, b in ((np.asarray(x, float), np.asarray(y, float)) for x, y in pairs)
    )


def compare(family, clients=6):
    """Return the difference of a batch as `monte_carlo` runs it, on 2 x 4 devices."""
    solver, problem = family.build(clients)
    keys = jax.random.split(jax.random.key(0), 4)

    def trial(key):
        result = fa.run(solver, problem, key, rounds=ROUNDS, participation=family.process)
        return result.estimate, family.clients(result.state.solver)

    def batch(keys):
        return jax.lax.map(trial, keys, batch_size=2)

    wanted = jax.jit(batch)(keys)
    spread = PartitionSpec("trials")
    both = jax.shard_map(
        batch,
        mesh=device_mesh(2, 4),
        in_specs=spread,
        out_specs=spread,
        axis_names={"trials"},
        check_vma=False,
    )
    return difference(wanted, jax.jit(both)(keys))


def compare_one(family, clients=6):
    """Return the difference of one run on more devices than there are clients."""
    solver, problem = family.build(clients)

    def go():
        key = jax.random.key(1)
        return fa.run(solver, problem, key, rounds=ROUNDS, participation=family.process).estimate

    wanted = go()
    with jax.set_mesh(device_mesh(clients=8)):
        return difference(wanted, go())


def refusal():
    """Return what is said where two axes are left to the partitioner."""
    solver, problem = fsmdm(6)
    with jax.set_mesh(device_mesh(2, 4)):
        try:
            fa.run(solver, problem, jax.random.key(0), rounds=1)
        except fa.InputError as error:
            return str(error)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_rank_promotion", "raise")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    batches = {name: compare(family) for name, family in FAMILIES.items() if name != "FedMC"}
    runs = {f"{name}, one": compare_one(FAMILIES[name]) for name in ("GTV", "FedMC")}
    print(json.dumps({"refusal": refusal(), "differences": batches | runs}))
