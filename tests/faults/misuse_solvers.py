"""Misuse of builders of solvers, of penalties, of certificates and of direct methods."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import (
    certificates,
    direct,
    graphs,
    losses,
    messages,
    penalties,
    problems,
    solvers,
    trees,
)
from tests.faults.row import Misuse

KEY = jax.random.key(0)
GRAPH = graphs.chain(3)
RNG = np.random.default_rng(0)
FEATURES = [RNG.standard_normal((4, 2)) for _ in range(3)]
LINK = solvers.tree_link(4.0, 2.0, penalties.l1(1.0))


def network():
    return problems.networked_regression(GRAPH, FEATURES, [np.ones(4)] * 3)


def steep(size):
    features = [size * part for part in FEATURES]
    return problems.consensus_regression(GRAPH, features, [np.ones(4)] * 3, losses.squared())


def steep_step():
    with jax.enable_x64(True):
        return certificates.largest_safe_step(steep(1e307), 1.0)


def phase():
    return problems.phase_retrieval(np.eye(2) + 1.0, np.ones(2))


def located(**given):
    anchors = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]
    return direct.locate_centrally(problems.localization(anchors, np.ones(3)), **given)


def labelled(labels):
    return direct.cluster_models(network(), labels, clusters=2)


def explained(**given):
    usual = {"graph": GRAPH, "problem": network(), "labels": [0, 0, 1], "lam": 0.1}
    return certificates.explain_clusters(**(usual | given))


def of_two(params, sample):
    return jnp.sum((params - sample) ** 2)


def extrapolated(solver, **given):
    problem = problems.federated(of_two, FEATURES, jnp.zeros(2), **given)
    return fa.run(solvers.anderson(solver), problem, KEY, rounds=1)


def attacked(**given):
    way = messages.exchange(attack=messages.constant_message(0.3, **given))
    return fa.run(solvers.extra(0.1, exchange=way), network(), KEY, rounds=1)


ROWS = [
    # numbers
    Misuse("omega-bool", lambda: solvers.fsmdm(omega=True), "must be a number, but it is True"),
    Misuse("omega-text", lambda: solvers.fsmdm(omega="5"), "omega must be a number"),
    Misuse("omega-vanishes", lambda: solvers.fsmdm(omega=1e-308), "counts as 0 in float32"),
    Misuse("local-updates-bool", lambda: solvers.fsmdm(local_updates=True), "whole number"),
    Misuse("memory-nan", lambda: solvers.anderson(solvers.extra(), memory=np.nan), "whole number"),
    Misuse("anderson-of-none", lambda: solvers.anderson(None), "must be a solver"),
    Misuse("anderson-safeguard", lambda: solvers.anderson(solvers.extra(), safeguard=0.5), "least"),
    Misuse(
        "anderson-minibatches",
        lambda: extrapolated(solvers.federated_averaging(), batch_size=2),
        "rounds that draw nothing.*without batch_size",
    ),
    Misuse("anderson-coins", lambda: extrapolated(solvers.prox_skip()), "minibatches, coins"),
    Misuse("step-complex", lambda: solvers.extra(0.1 + 0j), "must be a number"),
    Misuse("step-infinite", lambda: solvers.extra(np.inf), "must be finite"),
    Misuse("rho-beyond", lambda: solvers.fed_admm(1e300), "largest number of float32"),
    Misuse("rho-masked", lambda: solvers.decentralized_admm(np.ma.masked), "has masked entries"),
    Misuse("relaxation-two", lambda: solvers.decentralized_admm(relaxation=2.5), "relaxation"),
    Misuse("probability-vanishes", lambda: solvers.prox_skip(probability=1e-60), "counts as 0"),
    Misuse("averaging-bool", lambda: solvers.fed_pd(0.5, averaging=True), "must be a number"),
    Misuse("rate-date", lambda: solvers.scaffold(np.datetime64("2020-01-01")), "must be a number"),
    Misuse("local-steps-float", lambda: solvers.scaffold(local_steps=2.0), "whole number"),
    Misuse("ifca-start-texts", lambda: solvers.ifca([["a"]]), "start must be"),
    Misuse("ifca-start-empty", lambda: solvers.ifca([]), "start"),
    Misuse("polyak-nan", lambda: solvers.polyak(np.nan), "must be finite"),
    Misuse("penalty-period", lambda: solvers.balanced_penalty(period=0), "at least 1"),
    Misuse(
        "conditions-text",
        lambda: solvers.fsmdm_convergence_conditions("c", 1.0, 1.0, 1.0),
        "c must be a number",
    ),
    Misuse(
        "conditions-nan",
        lambda: solvers.fsmdm_convergence_conditions(1.0, np.nan, 1.0, 1.0),
        "d must be finite",
    ),
    # choices
    Misuse("preset-array", lambda: solvers.fedmc_admm(np.ones(2)), "preset must be one of"),
    Misuse("preset-none", lambda: solvers.fedmc_admm(None), "preset must be one of"),
    Misuse("bound-list", lambda: solvers.fedmc_admm(bound=["fro"]), "bound must be one of"),
    Misuse("setting-array", lambda: solvers.fedmavg(np.ones(2)), "setting must be one of"),
    Misuse("fsmdm-preset", lambda: solvers.fsmdm("best"), "preset"),
    Misuse("zero-dual-text", lambda: solvers.fedmc_admm(zero_dual="False"), "True or False"),
    Misuse("combined-none", lambda: solvers.fedmc_admm(combined=None), "True or False"),
    Misuse("all-users-number", lambda: solvers.fedmavg(all_users=0), "True or False"),
    Misuse("node-wise-text", lambda: solvers.spectral_penalty(node_wise="no"), "True or False"),
    Misuse("sparse-text", lambda: solvers.hfsad(phase(), sparse="no"), "True or False"),
    Misuse("personal-none", lambda: solvers.hfsad(phase(), personal=None), "True or False"),
    Misuse("update-unknown", lambda: solvers.hfsad(phase(), client_update="exact"), "must be one"),
    # parts that are none
    Misuse("hfsad-on-a-network", lambda: solvers.hfsad(network()), "needs|OnTree|tree"),
    Misuse(
        "gtv-rounds-none", lambda: solvers.gtv_primal_dual(network(), 0.1, rounds=None), "whole"
    ),
    Misuse(
        "gtv-penalty-of-models",
        lambda: solvers.gtv_primal_dual(network(), 0.1, penalties.l1(1.0), ratio=1.0),
        "penalty of edges",
    ),
    Misuse("gtv-nothing", lambda: solvers.gtv_primal_dual(None, 0.1), "needs"),
    Misuse("regularizer-number", lambda: solvers.fed_prox(0.5, regularizer=0.1), "such as pen"),
    Misuse("regularizer-class", lambda: solvers.fed_dr(0.5, regularizer=penalties.L1), "such as"),
    Misuse("regularizer-true", lambda: solvers.centralized_subgradient(0.1, True), "such as"),
    Misuse("regularizer-of-a-star", lambda: solvers.consensus_admm(LINK, 0.1), "such as"),
    Misuse("local-number", lambda: solvers.fed_dyn(1.0, local=0.1), "local"),
    Misuse("links-none", lambda: solvers.hierarchical_admm(None), "a link as tree_link makes it"),
    Misuse("links-one", lambda: solvers.hierarchical_admm(LINK, LINK), "must be a list of links"),
    Misuse("links-numbers", lambda: solvers.hierarchical_admm(LINK, [1.0]), "a link as tree_link"),
    Misuse("tree-none", lambda: solvers.consensus_links(None, 1.0), "must be a tree"),
    Misuse("tree-graph", lambda: solvers.scad_regularizers(GRAPH), "must be a tree"),
    Misuse(
        "slopes-many",
        lambda: solvers.consensus_links(trees.from_counts([2, 2]), 1.0, [0.1, 0.2]),
        "one number per level",
    ),
    Misuse("personal-of-number", lambda: solvers.personal(3), "must be a solver"),
    Misuse("personal-of-builder", lambda: solvers.personal(solvers.scaffold), "must be a solver"),
    # messages
    Misuse("constant-longer", lambda: attacked(value=np.ones(7)), r"\(2,\), but .* \(7,\)"),
    Misuse("constant-per-sender", lambda: attacked(value=np.ones((3, 2))), "to that of a message"),
    Misuse(
        "attack-aggregates",
        lambda: messages.exchange(aggregator=messages.mimic(0.2)),
        "aggregator must be an aggregator such as",
    ),
    Misuse("delay-cut", lambda: messages.bounded_delay(5, 0), "depth must be at least 5"),
    Misuse("delay-fixed-cut", lambda: messages.fixed_delay([1, 3], 2), "depth must be at least 3"),
    # penalties
    Misuse("l1-bool", lambda: penalties.l1(True), "must be a number"),
    Misuse("l1-infinite", lambda: penalties.l1(np.inf), "must be finite"),
    Misuse("l1-vanishes", lambda: penalties.l1(1e-60), "counts as 0"),
    Misuse("scad-gamma", lambda: penalties.scad(1.0, 2.0), "gamma"),
    Misuse("box-turned", lambda: penalties.box(1.0, 0.0), "must not exceed"),
    Misuse("box-texts", lambda: penalties.box("a", "b"), "must be a number"),
    Misuse("nuclear-rows", lambda: penalties.nuclear(1.0, 2.5, 2), "whole number"),
    Misuse("nuclear-huge", lambda: penalties.nuclear(1.0, 2**40, 2), "at most 2147483647"),
    Misuse("slope-increasing", lambda: penalties.slope([1.0, 2.0]), "weights"),
    Misuse("simplex-zero", lambda: penalties.simplex(0.0), "greater than 0"),
    Misuse("ball-nan", lambda: penalties.l2_ball(np.nan), "must be finite"),
    Misuse("sum-with-number", lambda: penalties.add(penalties.l1(1.0), 2.0), "is not known"),
    Misuse("difference-complex", lambda: penalties.quadratic_difference(np.eye(2) * 1j), "must be"),
    # certificates
    Misuse("steep-features", steep_step, "too large for their curvature"),
    Misuse("safe-step-nan", lambda: certificates.largest_safe_step(steep(1.0), np.nan), "finite"),
    Misuse("safe-step-text", lambda: certificates.largest_safe_step(steep(1.0), "1"), "a number"),
    Misuse("safe-step-nothing", lambda: certificates.largest_safe_step(None, 1.0), "needs"),
    Misuse("gap-traced", lambda: jax.jit(certificates.gap_within)(1.0), "must be a known number"),
    Misuse("gap-ragged", lambda: certificates.gap_within([[1.0], [1.0, 2.0]]), "known number"),
    Misuse("gap-negative", lambda: certificates.gap_within(-1.0), "greater than 0"),
    Misuse("explained-graph", lambda: explained(graph=None), "must be a graph"),
    Misuse("explained-labels-none", lambda: explained(labels=None), "one cluster per node"),
    Misuse("explained-labels-text", lambda: explained(labels="aab"), "one cluster per node"),
    Misuse("explained-labels-number", lambda: explained(labels=5), "one cluster per node"),
    Misuse("explained-lam-masked", lambda: explained(lam=np.ma.masked), "has masked entries"),
    Misuse("critical-graph", lambda: certificates.critical_lambda(None, network()), "a graph"),
    # direct methods
    Misuse("labels-none", lambda: labelled(None), "array of numbers"),
    Misuse("labels-floats", lambda: labelled([0.0, 0.5, 1.0]), "whole numbers"),
    Misuse("labels-outside", lambda: labelled([0, 1, 2]), "labels"),
    Misuse("labels-huge", lambda: labelled([0, 1, 2**40]), "up to 2147483647"),
    Misuse("grid-half-width-text", lambda: located(half_width="30"), "must be a number"),
    Misuse("grid-half-width-negative", lambda: located(half_width=-1.0), "greater than 0"),
    Misuse("grid-half-width-date", lambda: located(half_width=np.timedelta64(3)), "a number"),
    Misuse("grid-starts-many", lambda: located(points_per_axis=2, starts=9), "grid points"),
    Misuse("pooled-none", lambda: direct.pooled_model(None), "needs"),
    Misuse("biases-of-network", lambda: direct.damped_biases(network()), "needs"),
    Misuse("version-of-solver", lambda: fa.run(solvers.FSMDM, network(), KEY, rounds=1), "class"),
]
