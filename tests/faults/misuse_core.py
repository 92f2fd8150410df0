"""Misuse of a run and of what every solver takes: numbers, schedules, processes, trees."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import fedjax_admm as fa
from fedjax_admm import graphs, participation, schedules, trees
from tests.faults.row import Misuse

KEY = jax.random.key(0)


def network() -> fa.problems.Networked:
    rng = np.random.default_rng(0)
    features = [rng.standard_normal((4, 2)) for _ in range(3)]
    return fa.problems.networked_regression(graphs.chain(3), features, [np.ones(4)] * 3)


def run(**given):
    usual = {"solver": fa.solvers.extra(0.1), "problem": network(), "key": KEY, "rounds": 2}
    return fa.run(**(usual | given))


def until(**given):
    usual = {"solver": fa.solvers.extra(0.1), "problem": network(), "key": KEY, "max_rounds": 4}
    return fa.run_until(**(usual | {"residual": norm, "tolerance": 1.0} | given))


def grid(**given):
    usual = {"solver": fa.solvers.extra, "values": jnp.array([0.1, 0.2]), "problem": network()}
    usual |= {"key": KEY, "rounds": 2, "measure": measured, "metric": "norm"}
    return fa.grid_search(**(usual | given))


def norm(solver, problem, state):
    return jnp.sum(solver.estimate(state) ** 2)


def measured(solver, problem, state):
    return {"norm": norm(solver, problem, state)}


def of_one(state):
    return {"norm": 0.0}


def traced_rounds():
    solver, problem = fa.solvers.extra(0.1), network()
    return jax.jit(lambda rounds: fa.run(solver, problem, KEY, rounds=rounds).estimate)(3)


def constant(value):
    return schedules.constant(value)


def deleted(tree):
    """Return arrays as they are after they were donated."""
    jax.tree.map(lambda leaf: leaf.delete(), tree)
    return tree


MASKED = np.ma.masked_array([1.0, 2.0], [False, True])
FRAME = pd.DataFrame({"a": ["x", "y"]})

ROWS = [
    # rounds and records
    Misuse("rounds-traced", traced_rounds, "rounds must be known before anything is traced"),
    Misuse("rounds-beyond-int32", lambda: run(rounds=2**31), "at most 2147483647"),
    Misuse("rounds-beyond-int64", lambda: run(rounds=10**30), "at most 2147483647"),
    Misuse("rounds-thousands-of-digits", lambda: run(rounds=10**5000), "of the type int"),
    Misuse("rounds-float", lambda: run(rounds=2.0), "must be a whole number, but it is 2.0"),
    Misuse("rounds-bool", lambda: run(rounds=True), "must be a whole number, but it is True"),
    Misuse("rounds-text", lambda: run(rounds="2"), "must be a whole number, but it is '2'"),
    Misuse("rounds-none", lambda: run(rounds=None), "must be a whole number, but it is None"),
    Misuse("rounds-negative", lambda: run(rounds=-1), "at least 0"),
    Misuse("rounds-days", lambda: run(rounds=np.timedelta64(3, "D")), "must be a whole number"),
    Misuse("rounds-array", lambda: run(rounds=np.array([2, 3])), "must be a whole number"),
    Misuse("every-zero", lambda: run(every=0), "every must be at least 1"),
    Misuse("every-no-divisor", lambda: run(rounds=7, every=3), "the nearest one is 6"),
    # keys
    Misuse("key-old-style", lambda: run(key=jax.random.PRNGKey(0)), "must be a typed key"),
    Misuse("key-batch", lambda: run(key=jax.random.split(KEY)), "use jax.vmap over keys"),
    Misuse("key-seed", lambda: run(key=0), "must be a typed key"),
    Misuse("key-none", lambda: run(key=None), "must be a typed key"),
    Misuse("key-numbers", lambda: run(key=np.array([0, 1], np.uint32)), "must be a typed key"),
    # what is run
    Misuse("solver-none", lambda: run(solver=None), "solver must have the methods"),
    Misuse("solver-builder", lambda: run(solver=fa.solvers.extra), "the function extra"),
    Misuse("solver-frame", lambda: run(solver=FRAME), "solver must have the methods"),
    Misuse("problem-none", lambda: run(problem=None), "needs"),
    Misuse("problem-wrong", lambda: run(solver=fa.solvers.fsmdm()), "FSMDM needs"),
    Misuse("problem-text", lambda: run(problem="network"), "needs"),
    Misuse("participation-share", lambda: run(participation=0.5), "bernoulli\\(0.5\\)"),
    Misuse("participation-mask", lambda: run(participation=np.ones(3, bool)), "process"),
    Misuse("start-model", lambda: run(start=jnp.zeros((3, 2))), "must be the state of a Run"),
    Misuse("start-run", lambda: run(start=run()), "pass its .state"),
    Misuse("start-donated", lambda: run(start=deleted(run().state)), "start holds .* deleted"),
    Misuse("start-donated-until", lambda: until(start=deleted(run().state)), "start holds"),
    Misuse("problem-donated", lambda: run(problem=deleted(network())), "problem holds .* deleted"),
    Misuse("number-donated", lambda: constant(deleted(jnp.ones(()))), "donate a copy"),
    # functions with other arguments
    Misuse("measure-of-one", lambda: run(measure=of_one), r"measure\(solver, problem, state\)"),
    Misuse("measure-text", lambda: run(measure="norm"), "must be a function measure"),
    Misuse("residual-of-one", lambda: until(residual=of_one), r"residual\(solver, problem, state"),
    Misuse("residual-none", lambda: until(residual=None), "must be a function residual"),
    Misuse("tolerance-nan", lambda: until(tolerance=float("nan")), "must be finite"),
    Misuse("tolerance-bool", lambda: until(tolerance=True), "must be a number, but it is True"),
    Misuse("tolerance-vanishes", lambda: until(tolerance=1e-50), "counts as 0 in float32"),
    Misuse("tolerance-negative", lambda: until(tolerance=-1.0), "at least 0"),
    Misuse("max-rounds-zero", lambda: until(max_rounds=0), "at least 1"),
    # grids
    Misuse("grid-scalar", lambda: grid(values=0.1), "one leading axis"),
    Misuse("grid-none", lambda: grid(values=None), "one leading axis"),
    Misuse("grid-empty", lambda: grid(values=jnp.zeros(0)), "one leading axis"),
    Misuse("grid-two-lengths", lambda: grid(values=(np.ones(2), np.ones(3))), "one leading axis"),
    Misuse("grid-solver", lambda: grid(solver=fa.solvers.extra(0.1)), "must be a function solver"),
    Misuse("grid-metric", lambda: grid(metric="error"), "metric must be one of"),
    Misuse("grid-metric-array", lambda: grid(metric=np.ones(2)), "must be the name"),
    Misuse("grid-width", lambda: grid(width=np.ones(2)), "width must be a whole number"),
    # numbers
    Misuse("number-bool", lambda: constant(True), "must be a number, but it is True"),
    Misuse("number-bool-of-numpy", lambda: constant(np.True_), "must be a number"),
    Misuse("number-text", lambda: constant("5"), "but it is '5'"),
    Misuse("number-bytes", lambda: constant(b"5"), "must be a"),
    Misuse("number-complex", lambda: constant(1j), "but it is 1j"),
    Misuse("number-complex-without-imaginary", lambda: constant(np.complex64(1)), "must be a"),
    Misuse("number-infinite", lambda: constant(np.inf), "must be finite"),
    Misuse("number-object", lambda: constant(np.array(None, object)), "must be a"),
    Misuse("number-date", lambda: constant(np.datetime64("2020-01-01")), "must be a"),
    Misuse("number-duration", lambda: constant(np.timedelta64(1, "s")), "must be a"),
    Misuse("number-masked", lambda: constant(np.ma.masked), "has masked entries"),
    Misuse("number-frame", lambda: constant(FRAME), "must be a"),
    Misuse("number-record", lambda: constant(np.zeros((), [("a", float)])), "must be a"),
    Misuse("number-key", lambda: constant(KEY), "must be a"),
    Misuse("number-ragged", lambda: constant([[1.0], [1.0, 2.0]]), "must be a"),
    Misuse("number-empty", lambda: constant([]), "must be one number"),
    Misuse("number-vanishes", lambda: constant(1e-308), "counts as 0 in float32"),
    Misuse("number-subnormal", lambda: constant(1e-40), "counts as 0 in float32"),
    Misuse("number-overflows", lambda: constant(1e300), "largest number of float32"),
    Misuse("number-whole-overflows", lambda: constant(10**50), "largest number of float32"),
    Misuse("number-beyond-floats", lambda: constant(10**400), "must be finite"),
    Misuse("number-long-double", lambda: constant(np.longdouble("1e400")), "must be finite"),
    # schedules
    Misuse("decay-scale-zero", lambda: schedules.sqrt_decay(0.0), "greater than 0"),
    Misuse("decay-power-negative", lambda: schedules.power_decay(1.0, -1.0), "at least 0"),
    Misuse("geometric-rounds-to-zero", lambda: schedules.geometric(1.0, 1e-60), "counts as 0"),
    Misuse("formula-no-function", lambda: schedules.schedule(3.0), "must be callable"),
    Misuse("formula-masked", lambda: schedules.schedule(abs, a=MASKED), "has masked entries"),
    Misuse("optax-number", lambda: schedules.from_optax(0.1), "take schedules.constant"),
    # participation
    Misuse("bernoulli-above-one", lambda: participation.bernoulli(1.5), "at most 1"),
    Misuse("bernoulli-bool", lambda: participation.bernoulli(True), "must be a number"),
    Misuse("markov-never-wakes", lambda: participation.markov_on_off(0, 0.5), "greater than 0"),
    Misuse("markov-vanishes", lambda: participation.markov_on_off(1e-50, 0.5), "counts as 0"),
    Misuse("delay-ragged", lambda: participation.round_robin([[1], [2, 3]]), "must be a number"),
    Misuse("delay-fraction", lambda: participation.round_robin(1.5), "must be a whole number"),
    Misuse("replay-none", lambda: participation.replay(None), "masks must be an array"),
    Misuse("replay-text", lambda: participation.replay("111"), "masks must be an array"),
    Misuse("replay-numbers", lambda: participation.replay(np.ones((2, 3))), "must be a bool array"),
    Misuse("replay-huge", lambda: participation.replay([[2**40]]), "up to 2147483647"),
    Misuse("drawn-none", lambda: participation.without_replacement(0), "at least 1"),
    # trees
    Misuse("tree-huge", lambda: trees.star(2**40), "at most 2147483647"),
    Misuse("tree-text", lambda: trees.from_nested("tree"), "nested"),
    Misuse("tree-of-floats", lambda: trees.from_parents([2.0, 2.0, -1.0]), "whole number"),
    # devices
    Misuse("mesh-zero", lambda: fa.device_mesh(0), "at least 1"),
    Misuse("mesh-many", lambda: fa.device_mesh(10**6), "the number of devices"),
    Misuse("mesh-devices-text", lambda: fa.device_mesh(devices="cpu"), "must be a list of devices"),
    Misuse("mesh-devices-numbers", lambda: fa.device_mesh(devices=[0]), "list of devices"),
    Misuse("mesh-none", lambda: fa.devices.spread_clients(network(), None), "must be a mesh"),
]
