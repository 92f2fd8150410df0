"""The likeliest misuses of runs, solvers, problems, penalties, graphs and ratings."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import (
    graphs,
    participation,
    penalties,
    problems,
    schedules,
    solvers,
)
from tests.faults.row import Misuse

KEY = jax.random.key(0)
GRAPH = graphs.chain(3)
RNG = np.random.default_rng(0)
FEATURES = [RNG.standard_normal((4, 2)).astype(np.float32) for _ in range(3)]
TARGETS = [np.ones(4, np.float32)] * 3
ANCHORS = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]]


def network(features=FEATURES, targets=TARGETS, graph=GRAPH, **options):
    return problems.networked_regression(graph, features, targets, **options)


def run(**options):
    usual = {"solver": solvers.extra(0.1), "problem": network(), "key": KEY, "rounds": 2}
    return fa.run(**(usual | options))


def until(**options):
    usual = {"solver": solvers.extra(0.1), "problem": network(), "key": KEY, "max_rounds": 4}
    return fa.run_until(**(usual | {"residual": norm, "tolerance": 1.0} | options))


def grid(**options):
    usual = {"solver": solvers.extra, "values": jnp.array([0.1, 0.2]), "problem": network()}
    usual |= {"key": KEY, "rounds": 2, "measure": measured, "metric": "norm"}
    return fa.grid_search(**(usual | options))


def norm(solver, problem, state):
    return jnp.sum(solver.estimate(state) ** 2)


def measured(solver, problem, state):
    return {"norm": norm(solver, problem, state)}


def returning(value):
    return lambda solver, problem, state: value


def of_one(value):
    return value


def traced_rounds():
    solver, problem = solvers.extra(0.1), network()
    return jax.jit(lambda rounds: fa.run(solver, problem, KEY, rounds=rounds).estimate)(3)


def donated(tree):
    """Return arrays as they are after they were donated."""
    jax.tree.map(lambda leaf: leaf.delete(), tree)
    return tree


def localized(anchors=ANCHORS, distances=(5.0, 6.0, 7.0, 8.0), **options):
    return problems.localization(anchors, distances, **options)


def of_two(params, sample):
    return jnp.sum((params - sample) ** 2)


def other_size(params, sample):
    return jnp.vdot(params, jnp.ones(5))


def own(**options):
    data = [np.ones((3, 2)), np.ones((2, 2))]
    return problems.federated(**({"loss": of_two, "data": data, "start": jnp.zeros(2)} | options))


def in_float64(build):
    """Run a solver of float64 numbers on data in float32."""
    with jax.enable_x64(True):
        return run(solver=build())


ROWS = [
    # runs
    Misuse("rounds-traced", traced_rounds, "rounds must be known before anything is traced"),
    Misuse("rounds-float", lambda: run(rounds=2.0), "must be a whole number, but it is 2.0"),
    Misuse("rounds-negative", lambda: run(rounds=-1), "rounds must be at least 0"),
    Misuse("rounds-huge", lambda: run(rounds=2**31), "rounds must be at most 2147483647"),
    Misuse("every-zero", lambda: run(every=0), "every must be at least 1"),
    Misuse(
        "every-no-divisor",
        lambda: run(rounds=7, every=3),
        r"rounds must be a multiple of every \(3\), but it is 7; the nearest one is 6",
    ),
    Misuse("key-old-style", lambda: run(key=jax.random.PRNGKey(0)), "must be a typed key"),
    Misuse("key-batch", lambda: run(key=jax.random.split(KEY)), "use jax.vmap over keys"),
    Misuse("key-seed", lambda: run(key=0), "must be a typed key as jax.random.key makes it"),
    Misuse(
        "solver-builder",
        lambda: run(solver=solvers.extra),
        "solver must be a solver, but it is the function extra; pass what it returns",
    ),
    Misuse(
        "solver-class", lambda: run(solver=type(solvers.fsmdm())), "it is the class FSMDM; pass"
    ),
    Misuse("solver-none", lambda: run(solver=None), "solver must have the methods"),
    Misuse(
        "swapped",
        lambda: run(solver=network(), problem=solvers.extra(0.1)),
        r"solver and problem are swapped: call run\(solver, problem, key\)",
    ),
    Misuse("problem-none", lambda: run(problem=None), "needs a problem with"),
    Misuse("problem-wrong", lambda: run(solver=solvers.fsmdm()), "FSMDM needs a problem with"),
    Misuse("participation-share", lambda: run(participation=0.5), r"bernoulli\(0.5\)"),
    Misuse("participation-mask", lambda: run(participation=np.ones(3, bool)), "process"),
    Misuse("start-model", lambda: run(start=jnp.zeros((3, 2))), "must be the state of a Run"),
    Misuse("start-run", lambda: run(start=run()), "it is the Run itself; pass its .state"),
    Misuse(
        "start-of-another-solver",
        lambda: run(start=run(solver=solvers.decentralized_admm()).state),
        "start must be the state of a run of this solver on this problem",
    ),
    Misuse(
        "start-with-another-key",
        lambda: run(key=jax.random.key(1), start=run().state),
        "key must be the key of the run that is resumed",
    ),
    Misuse("start-donated", lambda: run(start=donated(run().state)), "start holds .* deleted"),
    Misuse("measure-of-one", lambda: run(measure=of_one), r"measure\(solver, problem, state\)"),
    Misuse(
        "measure-without-a-name",
        lambda: run(measure=returning(jnp.ones(()))),
        "measure must return a dict of arrays, but it returns an array; give the value a name",
    ),
    Misuse(
        "measure-called-round",
        lambda: run(measure=returning({"round": jnp.ones(())})),
        "must leave the names 'round' and 'messages' to the run, but it returns 'round'",
    ),
    Misuse(
        "residual-array",
        lambda: until(residual=returning(jnp.ones(2))),
        r"must return one floating number, but it returns an array of .* shape \(2,\)",
    ),
    Misuse("tolerance-negative", lambda: until(tolerance=-1.0), "tolerance must be at least 0"),
    Misuse("grid-scalar", lambda: grid(values=0.1), "one leading axis"),
    Misuse("grid-solver", lambda: grid(solver=solvers.extra(0.1)), "must be a function solver"),
    # numbers and choices
    Misuse("number-text", lambda: solvers.fsmdm(omega="5"), "omega must be a number, but"),
    Misuse("number-zero", lambda: schedules.sqrt_decay(0.0), "must be greater than 0"),
    Misuse("number-overflows", lambda: solvers.fed_admm(1e300), "largest number of float32"),
    Misuse("number-vanishes", lambda: solvers.fsmdm(omega=1e-50), "counts as 0 in float32"),
    Misuse("numbers", lambda: solvers.fsmdm(omega=jnp.array([1, 2])), "use jax.vmap over several"),
    Misuse("count-float", lambda: solvers.scaffold(local_steps=2.0), "must be a whole number"),
    Misuse("flag-text", lambda: solvers.fed_mc_admm(zero_dual="False"), "must be True or False"),
    Misuse("schedule-uncalled", lambda: solvers.fsmdm(mu_h=schedules.sqrt_decay), "mu_h must be a"),
    Misuse("step-vanishes-in-data", lambda: in_float64(lambda: solvers.extra(1e-60)), "1e-60"),
    Misuse("bernoulli-above-one", lambda: participation.bernoulli(1.5), "must be at most 1"),
    Misuse("drawn-none", lambda: participation.without_replacement(0), "must be at least 1"),
    Misuse(
        "drawn-many", lambda: run(participation=participation.without_replacement(9)), "at most"
    ),
    Misuse("regularizer-number", lambda: solvers.fed_prox(0.5, regularizer=0.1), "such as pen"),
    Misuse("scad-gamma", lambda: penalties.scad(1.0, 2.0), "gamma"),
    Misuse("box-turned", lambda: penalties.box(1.0, 0.0), "must not exceed"),
    # problems
    Misuse("sensors-on-a-line", lambda: localized([[0, 0], [1, 1], [2, 2], [3, 3]]), "mirror"),
    Misuse("sensors-nan", lambda: localized(np.full((4, 2), np.nan)), r"entry \(0, 0\) is nan"),
    Misuse("ranges-short", lambda: localized(distances=[1.0, 1, 1]), r"shape \(4,\), but it has"),
    Misuse("ranges-negative", lambda: localized(distances=[-1.0, 1, 1, 1]), "greater than 0"),
    Misuse("noise-number", lambda: problems.draw_localization(KEY, 1.0), "noise model such as"),
    Misuse("graph-matrix", lambda: network(graph=np.ones((3, 3))), "must be a graph"),
    Misuse("features-few", lambda: network(FEATURES[:2]), "one array per node"),
    Misuse("features-huge", lambda: network([1e19 * f for f in FEATURES]), r"1e\+15"),
    Misuse("tree-graph", lambda: solvers.consensus_links(GRAPH, 1.0), "must be a tree"),
    Misuse("own-loss-of-one", lambda: own(loss=of_one), r"must be a function loss\(params, sample"),
    Misuse("own-loss-raises", lambda: own(loss=other_size), r"loss raises .* shape \(2,\)"),
    Misuse("ratings-table", lambda: problems.matrix_completion(None, KEY), "table of ratings"),
]
