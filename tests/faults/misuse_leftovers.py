"""Misuse that is found late: paths, other precisions, other orders of bytes, other signatures."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import certificates, graphs, privacy, problems, ratings, solvers
from tests.faults.row import Misuse

KEY = jax.random.key(0)
GRAPH = graphs.chain(3)
RNG = np.random.default_rng(0)
FEATURES = [RNG.standard_normal((4, 2)).astype(np.float32) for _ in range(3)]
TARGETS = [np.ones(4, np.float32)] * 3
USERS = [1, 2]
NO_PATH = "path must be the path of a file"


def network():
    return problems.networked_regression(GRAPH, FEATURES, TARGETS)


def gap(**given):
    solver, problem = solvers.gtv_primal_dual(network(), 0.1), network()
    state = fa.run(solver, problem, KEY, rounds=1).state.solver
    return certificates.duality_gap(solver, problem, state, **given)


def of_two(params, sample):
    return jnp.sum((params - sample) ** 2)


def own(prox):
    return problems.federated(of_two, [np.ones((3, 2))], jnp.zeros(2), prox=prox)


def four(params, step, data, size):
    return params


def five(params, step, data, size, more):
    return params


def wide(build, data=network):
    """Run a solver of float64 numbers on data in float32."""
    with jax.enable_x64(True):
        return fa.run(build(), data(), KEY, rounds=1)


def clustered(start, problem):
    return fa.run(solvers.ifca(np.ones(start)), problem, KEY, rounds=1)


def rated(users=USERS, items=USERS, values=(1.0, 2.0)):
    return ratings.from_arrays(users, items, values)


def gaussians(samples, **given):
    return graphs.gaussian_wasserstein(samples, **given)


def edges(weights):
    return graphs.from_edges(3, [(0, 1), (1, 2)], weights)


def settings(**given):
    return privacy.grid_settings(**({"step": [1.0], "clip": [1.0]} | given))


ROWS = [
    # paths
    *(
        Misuse(f"{name}-path-{kind}", lambda read=read, path=path: read(path), NO_PATH)
        for name, read in (("edges", graphs.read_edges), ("ratings", ratings.read_ratings))
        for kind, path in (
            ("none", None),
            ("number", 0),
            ("true", True),
            ("list", [(0, 1)]),
            ("array", np.ones(3)),
            ("bytes", b"a.csv"),
            ("nothing", ""),
            ("zero-byte", "a\0b"),
        )
    ),
    # columns of ratings
    Misuse("users-ragged", lambda: rated(users=[[1], [2, 3]]), r"users must have shape \(ratings,"),
    Misuse("values-ragged", lambda: rated(values=[[1.0], [2.0, 3.0]]), "values must have shape"),
    Misuse("users-masked", lambda: rated(np.ma.masked_array(USERS, [0, 1])), "has masked entries"),
    Misuse("values-complex", lambda: rated(values=[1.0, 2j]), "values must hold numbers"),
    Misuse("users-none", lambda: rated(users=None), "users must have shape"),
    # distances of nodes
    Misuse("samples-none", lambda: gaussians(None), "samples must be an array of numbers"),
    Misuse("samples-ragged", lambda: gaussians([[[1.0]], [[1.0], [2.0]]]), "array of numbers"),
    Misuse("samples-text", lambda: gaussians("a"), "samples must be an array of numbers"),
    Misuse("counts-text", lambda: gaussians(np.ones((2, 3, 1)), counts="ab"), "whole numbers"),
    # certificates
    Misuse("radius-none", lambda: gap(radius=None), "radius must be a number greater than 0"),
    Misuse("radius-text", lambda: gap(radius="1"), "radius must be a number greater than 0"),
    Misuse("radius-nan", lambda: gap(radius=np.nan), "radius must be a number greater than 0"),
    Misuse("radius-negative", lambda: gap(radius=-1.0), "radius must be a number greater than 0"),
    Misuse("radius-per-node", lambda: gap(radius=np.ones(3)), "radius must be a number greater"),
    # a user's prox
    Misuse("prox-number", lambda: own(0.1), "prox must be a function"),
    Misuse("prox-of-one", lambda: own(lambda params: params), r"prox must be a function prox\("),
    Misuse("prox-of-five", lambda: own(five), r"prox must be a function prox\("),
    # numbers that JAX does not have
    Misuse("weights-of-edges-long", lambda: edges([np.longdouble("1e400")] * 2), "finite"),
    Misuse(
        "weights-of-edges-long-array",
        lambda: edges(np.full(2, np.longdouble("1e400"))),
        "must be positive and finite",
    ),
    # numbers of float64 on data in float32
    Misuse(
        "step-vanishes-in-data", lambda: wide(lambda: solvers.extra(1e-60)), "solver has .*1e-60"
    ),
    Misuse("step-beyond-data", lambda: wide(lambda: solvers.extra(1e60)), "of float32, the dtype"),
    Misuse(
        "rho-vanishes-in-data", lambda: wide(lambda: solvers.decentralized_admm(1e-50)), "1e-50"
    ),
    # clusters
    Misuse("ifca-other-models", lambda: clustered((2, 5), network()), "models of 2 numbers"),
    Misuse("ifca-without-problem", lambda: clustered((2, 2), None), "IFCA needs"),
    # keys
    Misuse(
        "key-other-implementation",
        lambda: fa.run(
            solvers.extra(0.1),
            network(),
            jax.random.key(0, impl="rbg"),
            rounds=1,
            start=fa.run(solvers.extra(0.1), network(), KEY, rounds=1).state,
        ),
        "key must be the key of the run that is resumed",
    ),
    # plans
    Misuse(
        "plan-epsilon-tiny",
        lambda: privacy.zcdp_plan(1e-310, 1e-5, 10),
        "epsilon is too small: epsilon = 1e-310",
    ),
    Misuse(
        "plan-epsilon-beyond",
        lambda: privacy.approximate_plan(1e308, 1e-5, 10),
        "epsilon must be at most 1e\\+150 or infinite",
    ),
    Misuse(
        "plan-composition-array",
        lambda: privacy.approximate_plan(1.0, 1e-5, 10, composition=np.ones(2)),
        "composition must be one of",
    ),
    Misuse("plan-epsilon-text", lambda: privacy.approximate_plan("1", 1e-5, 10), "epsilon must be"),
    Misuse("settings-number", lambda: settings(step=0.3), "step must be a list of numbers"),
    Misuse("settings-text", lambda: settings(clip="0.3"), "clip must be a list of numbers"),
    Misuse("settings-none", lambda: settings(rho=None), "rho must be a list of numbers"),
    Misuse("settings-nan", lambda: settings(tau=[np.nan]), "tau must be finite"),
]
