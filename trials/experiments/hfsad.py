"""Experiments of the HFSAD paper: smoothing ADMM over a tree of clients, edge servers and cloud.

R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical Federated
Learning". Robust phase retrieval with 5 edge servers of 50 clients each, redrawn per trial, at two
signal-to-noise ratios; and robust regression with clients whose models differ.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from fedjax_admm import penalties, trees
from fedjax_admm._checks import count, one_of
from fedjax_admm.measures import (
    central_signal_error,
    personal_error,
    total_loss,
    tree_signal_error,
)
from fedjax_admm.participation import Participation, bernoulli, everyone
from fedjax_admm.problems import (
    PhaseRetrieval,
    clusters_of_clients,
    draw_phase_retrieval,
    draw_robust_regression,
)
from fedjax_admm.schedules import geometric, power_decay
from fedjax_admm.solvers import (
    centralized_subgradient,
    consensus_links,
    hfsad,
    hierarchical_admm,
    polyak,
    tree_link,
)
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._methods import AdaptedMethod, SolverMethod

PAPER = (
    'R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical '
    'Federated Learning"'
)
COSTS = {
    "passes": "local passes (mean over clients)",
    "numbers_up": "numbers sent towards the cloud",
    "numbers_down": "numbers sent towards the clients",
}
METRICS = {
    "error": "relative squared error",
    **COSTS,
    "disagreement": "largest entry of |client - cloud|",
}
SETTINGS = {
    "start": "spectral",
    "noise": "positive",
    "clusters": 5,
    "clients_per_cluster": 50,
    "dim": 25,
}
SNR = Sweep("snr", "SNR (dB)", (20.0, -20.0))


def _phase_problem(settings: Settings, snr: jax.Array, key: jax.Array) -> PhaseRetrieval:
    one_of("noise", settings["noise"], ("positive", "signed"))
    return draw_phase_retrieval(
        key,
        snr,
        clusters=settings["clusters"],
        clients_per_cluster=settings["clients_per_cluster"],
        dim=settings["dim"],
        signed=settings["noise"] == "signed",
        start=settings["start"],
    )


def _published(
    problem: PhaseRetrieval, changes: dict[str, Any] | None = None, **options: Any
) -> tuple[PhaseRetrieval, Any]:
    problem = replace(problem, **(changes or {}))
    return problem, hfsad(problem, **options)


def _hfsad(participation: Participation | None = None, **options: Any) -> AdaptedMethod:
    active = everyone() if participation is None else participation
    return AdaptedMethod(partial(_published, **options), tree_signal_error, active)


def _oracle_step(problem: Any) -> tuple[Any, Any]:
    scad = penalties.scad(0.1, 2.4)
    optimum = total_loss(problem, problem.truth) / problem.num_clients + scad.value(problem.truth)
    return problem, centralized_subgradient(polyak(optimum), scad)


def _comparison_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    steps = {
        "0.99^k": geometric(1.0, 0.99),
        "0.98^k": geometric(1.0, 0.98),
        "1 k^-0.5": power_decay(1.0, 0.5),
        "0.1 k^-0.5": power_decay(0.1, 0.5),
        "0.03 k^-0.5": power_decay(0.03, 0.5),
    }
    scad = penalties.scad(0.1, 2.4)
    return {
        "HFSAD 10 passes": _hfsad(passes=10),
        **{
            f"Subgradient {name}": SolverMethod(
                centralized_subgradient(step, scad), central_signal_error
            )
            for name, step in steps.items()
        },
        "Subgradient Polyak (oracle)": AdaptedMethod(_oracle_step, central_signal_error),
    }


def _pass_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    return {
        "HFSAD 1 pass": _hfsad(passes=1),
        **{f"HFSAD {passes} passes": _hfsad(passes=passes) for passes in (5, 10, 20)},
    }


def _asynchronous_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    # One function object: the methods are stacked and compiled once.
    adapt = partial(_published, passes=1)
    return {
        f"HFSAD active {probability:g}": AdaptedMethod(
            adapt, tree_signal_error, bernoulli(probability)
        )
        for probability in (0.3, 0.5, 0.7, 1.0)
    }


def _variant_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    methods = {
        "HFSAD, as published": _hfsad(),
        "no box": _hfsad(changes={"box": "none"}),
        "linearised clients": _hfsad(client_update="linearized"),
        "no SCAD": _hfsad(sparse=False),
    }
    if settings["exact_box"]:
        methods["exact box"] = _hfsad(changes={"box": "exact"})
    return methods


def _depth_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    clusters, clients = settings["clusters"], settings["clients_per_cluster"]
    regions = [[clients] * (clusters // 2), [clients] * (clusters - clusters // 2)]
    count("clusters", clusters, at_least=2)  # two regions
    shapes = {
        "depth 1, all clients at the cloud": trees.star(clusters * clients),
        "depth 2, edge servers": trees.from_counts([clients] * clusters),
        "depth 3, two regions of edge servers": trees.from_counts(regions),
    }
    return {name: _hfsad(changes={"tree": tree}) for name, tree in shapes.items()}


SERVERS = (0, 0, 0, 1, 2)
"""The cluster of each edge server in the experiment on personal models."""


def _personal_problem(settings: Settings, samples: jax.Array, key: jax.Array) -> Any:
    return draw_robust_regression(
        key,
        samples,
        servers=SERVERS,
        clients_per_server=settings["clients_per_server"],
        strangers=settings["strangers"],
        dim=settings["dim"],
        distinct=settings["distinct"],
        difference=settings["difference"],
        most_samples=int(max(settings["samples"])),
        noise=settings["noise"],
        outliers=settings["outliers"],
    )


def _linked(penalty: Any, above: Any | None = None) -> SolverMethod:
    """Tie clients with one penalty to their edge servers, and these with another to the cloud."""
    links = [tree_link(1.0, 3.0, penalty), tree_link(5.0, 3.0, penalty if above is None else above)]
    solver = hierarchical_admm(links[0], links[1:], client_update="linearized", personal=True)
    return SolverMethod(solver, personal_error)


def _one_model(problem: Any, tree: trees.Tree, apart: bool) -> tuple[Any, Any]:
    """Tie all clients of an edge server exactly, and all edge servers, or none (`apart`)."""
    clients, servers = consensus_links(tree, 2.0)
    if apart:
        servers = replace(servers, penalty=penalties.zero())
    solver = hierarchical_admm(clients, [servers], client_update="linearized", personal=True)
    return replace(problem, tree=tree), solver


def _clusters_as_servers(settings: Settings) -> trees.Tree:
    cluster = clusters_of_clients(SERVERS, settings["clients_per_server"], settings["strangers"])
    return trees.from_nested(
        [np.flatnonzero(cluster == number).tolist() for number in range(cluster.max() + 1)]
    )


def _personal_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    pooled = trees.from_counts([settings["clients_per_server"]] * len(SERVERS))
    oracle = _clusters_as_servers(settings)
    return {
        "MCP links": _linked(penalties.mcp(0.3, 6.0)),
        "SCAD links": _linked(penalties.scad(0.3, 4.0)),
        "l1 links 0.1": _linked(penalties.l1(0.1)),
        "l1 links 0.2": _linked(penalties.l1(0.2)),
        "local": _linked(penalties.zero()),
        "one model": AdaptedMethod(partial(_one_model, tree=pooled, apart=False), personal_error),
        "clusters known": AdaptedMethod(
            partial(_one_model, tree=oracle, apart=True), personal_error
        ),
    }


_experiment = partial(
    Experiment,
    paper=PAPER,
    sweep=SNR,
    problem=_phase_problem,
    metrics=METRICS,
    settings=SETTINGS,
    figure=partial(figures.cost_figure, metric="error"),
    trials=100,
    rounds=400,
    records=200,
    quick={"trials": 10, "rounds": 60},
)

EXPERIMENTS: Sequence[Experiment] = (
    _experiment(
        name="hfsad-comparison",
        usual_seconds=19,
        title="phase retrieval: HFSAD against a centralised subgradient method",
        findings=(
            "HFSAD does not beat a tuned subgradient method: that is faster and ends lower, "
            "from every start. HFSAD beats it only where its steps are too small, or where "
            "global rounds are counted although HFSAD makes ten passes in each. 100 trials, "
            "seed 2025, spectral start, mean relative error after 400 rounds at 20 dB: HFSAD "
            "4.1e-3 +- 1.0e-3 (median 1.2e-4), steps 0.98^k 6.2e-6, 0.99^k 4.2e-5, 1/sqrt(k) "
            "2.2e-4, 0.1/sqrt(k) 4.0e-4 +- 3.9e-4, 0.03/sqrt(k) 8.7e-2. At -20 dB, as printed, "
            "the noise is as large as the intensities: HFSAD 0.48 +- 0.04, steps 0.98^k 0.17 +- "
            "0.03. From near the signal (start=near, 20 dB) HFSAD is ahead of 0.99^k between "
            "rounds 50 and 200 (2.9e-4 against 1.1e-3 after 200), but not of 0.1/sqrt(k) "
            "(1.0e-5); from a random start it is still at 1.2 after 400 rounds (0.98^k: median "
            "5.6e-6). HFSAD's mean hangs on its slow trials: read the median too. Start, rounds "
            "and the subgradient method's steps are not published; they are ours. Polyak's step "
            "is told the value at the signal, which is not the optimum."
        ),
        methods=_comparison_methods,
    ),
    _experiment(
        name="hfsad-passes",
        usual_seconds=41,
        title="phase retrieval: passes of clients and edge servers per global round",
        findings=(
            "100 trials, seed 2025. More passes per round are faster per round at both ratios "
            "(20 dB, mean error after 400 rounds: 0.14, 1.5e-2, 4.1e-3 and 1.3e-3 with 1, 5, 10 "
            "and 20 passes; medians 0.11, 3.2e-3, 1.2e-4 and 6.0e-5). Per local pass, and per "
            "number sent, it is the other way round: after 400 passes the error is 0.139, "
            "0.151, 0.166 and 0.192 (each +- 0.01, on the same problems), so updating the cloud "
            "after every pass is best. At -20 dB clients with outliers never agree with their "
            "edge servers (median largest difference to the cloud 4.7 with 10 passes): the "
            "weight of the links, 5 max ||x||, is no bound on their subgradients."
        ),
        methods=_pass_methods,
    ),
    _experiment(
        name="hfsad-asynchrony",
        usual_seconds=29,
        title="phase retrieval: clients and edge servers that are active now and then",
        findings=(
            "100 trials, seed 2025, one pass per round. Absent nodes cost time: at 20 dB the "
            "error after 2000 rounds is 0.134, 0.072, 0.037 and 0.012 (+- 0.01 and less) with "
            "nodes active with probability 0.3, 0.5, 0.7 and 1. HFSAD needs a little more than "
            "1/p times as many rounds: after the same 600 local passes the error is 0.134, "
            "0.124, 0.113 and 0.095. Robust, then, and not free of loss; at -20 dB the same "
            "(0.90, 0.87, 0.84 and 0.80)."
        ),
        methods=_asynchronous_methods,
        rounds=2000,
        quick={"trials": 10, "rounds": 200},
    ),
    _experiment(
        name="hfsad-variants",
        usual_seconds=48,
        title="phase retrieval: HFSAD without the box, without SCAD, with linearised clients",
        findings=(
            "100 trials, seed 2025, 400 rounds. At 20 dB the box binds nowhere: without it "
            "every number is the same. At -20 dB it binds for clients with outliers, and hardly "
            "matters (error without it lower by 0.0005 +- 0.0004). Linearised clients need no "
            "prox and do as well (difference 0.0001 +- 0.0003 at 20 dB, -0.007 +- 0.005 at -20 "
            "dB). Without SCAD the error is higher by 0.0010 +- 0.0003 and 0.012 +- 0.002. "
            "exact_box=1 adds the exact prox on the box, dozens of times dearer than clipping: "
            "over 20 trials and 30 rounds it changes 6 trials at -20 dB, by at most 3e-5, and "
            "none at 20 dB."
        ),
        methods=_variant_methods,
        settings={**SETTINGS, "exact_box": 0},
    ),
    _experiment(
        name="hfsad-depth",
        usual_seconds=39,
        title="phase retrieval: the same clients under trees of depth 1, 2 and 3",
        findings=(
            "100 trials, seed 2025, 10 passes. Per round and per local pass edge servers help: "
            "4.1e-3 +- 1.0e-3 at 20 dB after 400 rounds, against 0.13 +- 0.01 with all clients "
            "at the cloud, because the cloud listens once per round and edge servers in every "
            "pass. But that costs ten times the traffic: for the same numbers sent the flat "
            "tree is ahead (0.132 after 400 rounds, against 0.166 after 40 with edge servers; "
            "0.86 against 0.99 at -20 dB; differences 0.034 +- 0.001 and 0.134 +- 0.007). A "
            "third level changes little (4.2e-3; 0.488 against 0.476 at -20 dB)."
        ),
        methods=_depth_methods,
    ),
    _experiment(
        name="hfsad-personalisation",
        usual_seconds=84,
        title="robust regression: personal models against the number of samples per client",
        findings=(
            "100 trials, seed 2025; five edge servers with ten clients each, two of which have "
            "another cluster's model; heavy-tailed noise. The weights were chosen on other "
            "trials. MCP links have the lowest error of all methods that do not know the "
            "clusters from 40 samples per client on (3.2e-3 against 4.6e-3 with SCAD, 5.7e-3 "
            "and 1.3e-2 with l1, 1.2e-2 local; at 80 samples 1.1e-3, 1.3e-3, 2.4e-3, 5.5e-3, "
            "3.7e-3): l1 links pull different clients together, MCP does not. With 20 samples "
            "MCP and l1 0.1 are equal (2.3e-2). With no more samples than unknowns the convex "
            "links are better (10 samples: l1 0.2 9.0e-2, MCP 0.18; 5 samples: 0.30, 0.74): MCP "
            "keeps local noise as if it were a difference. One model for all stays at 0.33. The "
            "clusters are found from 20 samples on (adjusted Rand index 0.93 with MCP and l1 "
            "0.1, 0.54 locally). A tree links clients to their edge server only: equal clients "
            "under different servers do not help each other, and with 80 samples knowing the "
            "clusters still makes the error 7 times smaller."
        ),
        methods=_personal_methods,
        sweep=Sweep("samples", "samples per client", (5.0, 10.0, 20.0, 40.0, 80.0)),
        problem=_personal_problem,
        metrics={
            "error": "relative squared error of the clients' models",
            "agreement": "adjusted Rand index of the clusters found",
            "numbers_up": COSTS["numbers_up"],
            "numbers_down": COSTS["numbers_down"],
        },
        settings={
            "clients_per_server": 10,
            "strangers": 2,
            "dim": 10,
            "distinct": 3,
            "difference": 2.0,
            "noise": 0.5,
            "outliers": 0.1,
        },
        figure=partial(figures.score_figure, metric="error", score="agreement"),
        rounds=1000,
        records=10,
        quick={"trials": 6, "rounds": 200},
    ),
)
