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

from fedjax_admm import measures, penalties, problems, solvers, trees
from fedjax_admm._checks import count, one_of
from fedjax_admm.participation import bernoulli
from fedjax_admm.schedules import geometric, power_decay
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._methods import AdaptedMethod, SolverMethod
from fedjax_admm.trials.experiments._published import Published

SENT = {
    "numbers_up": "numbers sent towards the cloud",
    "numbers_down": "numbers sent towards the clients",
}
METRICS = {
    "error": "relative squared error",
    "passes": "local passes (mean over clients)",
    **SENT,
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
PRINTED_SNR = -20.0


def _phase_problem(settings: Settings, snr: jax.Array, key: jax.Array) -> problems.PhaseRetrieval:
    one_of("noise", settings["noise"], ("positive", "signed"))
    return problems.draw_phase_retrieval(
        key,
        snr,
        signed=settings["noise"] == "signed",
        **{name: settings[name] for name in ("start", "clusters", "clients_per_cluster", "dim")},
    )


def _published(
    problem: problems.PhaseRetrieval, changes: dict[str, Any] | None = None, **options: Any
) -> tuple[problems.PhaseRetrieval, Any]:
    problem = replace(problem, **(changes or {}))
    return problem, solvers.hfsad(problem, **options)


def _hfsad(**options: Any) -> AdaptedMethod:
    return AdaptedMethod(partial(_published, **options), measures.tree_signal_error)


def _oracle_step(problem: Any) -> tuple[Any, Any]:
    scad = penalties.scad(0.1, 2.4)
    optimum = measures.total_loss(problem, problem.truth) / problem.num_clients + scad.value(
        problem.truth
    )
    return problem, solvers.centralized_subgradient(solvers.polyak(optimum), scad)


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
                solvers.centralized_subgradient(step, scad), measures.central_signal_error
            )
            for name, step in steps.items()
        },
        "Subgradient Polyak (oracle)": AdaptedMethod(_oracle_step, measures.central_signal_error),
    }


def _pass_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    names = {"1 pass": 1, "5 passes": 5, "10 passes": 10, "20 passes": 20}
    return {f"HFSAD {name}": _hfsad(passes=passes) for name, passes in names.items()}


def _asynchronous_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    # One function object: the methods are stacked and compiled once.
    adapt = partial(_published, passes=1)
    return {
        f"HFSAD active {probability:g}": AdaptedMethod(
            adapt, measures.tree_signal_error, bernoulli(probability)
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
PERSONAL = {
    "clients_per_server": 10,
    "strangers": 2,
    "dim": 10,
    "distinct": 3,
    "difference": 2.0,
    "noise": 0.5,
    "outliers": 0.1,
}


def _personal_problem(settings: Settings, samples: jax.Array, key: jax.Array) -> Any:
    return problems.draw_robust_regression(
        key,
        samples,
        servers=SERVERS,
        most_samples=int(max(settings["samples"])),
        **{name: settings[name] for name in PERSONAL},
    )


_personal = partial(solvers.hierarchical_admm, client_update="linearized", personal=True)


def _linked(penalty: Any) -> SolverMethod:
    """Tie clients to their edge servers, and these to the cloud."""
    clients, servers = (solvers.tree_link(sigma, 3.0, penalty) for sigma in (1.0, 5.0))
    return SolverMethod(_personal(clients, [servers]), measures.personal_error)


def _one_model(problem: Any, tree: trees.Tree, apart: bool) -> tuple[Any, Any]:
    """Tie all clients of an edge server exactly, and all edge servers, or none (`apart`)."""
    clients, servers = solvers.consensus_links(tree, 2.0)
    if apart:
        servers = replace(servers, penalty=penalties.zero())
    return replace(problem, tree=tree), _personal(clients, [servers])


def _exactly(tree: trees.Tree, apart: bool) -> AdaptedMethod:
    adapt = partial(_one_model, tree=tree, apart=apart)
    return AdaptedMethod(adapt, measures.personal_error)


def _clusters_as_servers(settings: Settings) -> trees.Tree:
    clients, strangers = settings["clients_per_server"], settings["strangers"]
    cluster = problems.clusters_of_clients(SERVERS, clients, strangers)
    return trees.from_nested(
        [np.flatnonzero(cluster == number).tolist() for number in range(cluster.max() + 1)]
    )


def _personal_methods(settings: Settings, swept: jax.Array) -> dict[str, Any]:
    pooled = trees.from_counts([settings["clients_per_server"]] * len(SERVERS))
    return {
        "MCP links": _linked(penalties.mcp(0.3, 6.0)),
        "SCAD links": _linked(penalties.scad(0.3, 4.0)),
        "l1 links 0.1": _linked(penalties.l1(0.1)),
        "l1 links 0.2": _linked(penalties.l1(0.2)),
        "local": _linked(penalties.zero()),
        "one model": _exactly(pooled, apart=False),
        "clusters known": _exactly(_clusters_as_servers(settings), apart=True),
    }


def _printed(number: int, methods: dict[str, str], legend_title: str = "") -> Published:
    """Return a figure of the paper, and how far its clients are from consensus there."""
    panel = {"against": "rounds", "at": PRINTED_SNR, "title": f"SNR {PRINTED_SNR:g} dB"}
    trees = {label: name for label, name in methods.items() if name.startswith("HFSAD")}
    shown = {
        f"figure-{number}": {**panel, "metric": "error", "methods": methods, "log": "y"},
        f"figure-{number}-consensus": {**panel, "metric": "disagreement", "methods": trees},
    }
    draw = partial(figures.printed_figure, legend_title=legend_title)
    return Published(
        figures={name: partial(draw, panels=[each]) for name, each in shown.items()},
        changes={"sweep": replace(SNR, values=(PRINTED_SNR,))},
    )


TEXTS = texts(__file__)
_experiment = partial(
    Experiment,
    sweep=SNR,
    problem=_phase_problem,
    metrics=METRICS,
    settings=SETTINGS,
    figure=partial(figures.cost_figure, metric="error"),
    rounds=400,
    records=200,
    quick={"trials": 10, "rounds": 60},
)

EXPERIMENTS: Sequence[Experiment] = (
    _experiment(
        **TEXTS["hfsad-comparison"],
        methods=_comparison_methods,
        shown=(
            *("HFSAD 10 passes", "Subgradient 0.99^k", "Subgradient 0.98^k"),
            *("Subgradient 1 k^-0.5", "Subgradient 0.1 k^-0.5", "Subgradient Polyak (oracle)"),
        ),
        published=_printed(
            1, {"HFSAD": "HFSAD 10 passes", "Sub, steps 0.98^k (ours)": "Subgradient 0.98^k"}
        ),
    ),
    _experiment(
        **TEXTS["hfsad-passes"],
        methods=_pass_methods,
        published=_printed(
            2,
            {f"{n}": f"HFSAD {n} pass{'es' * (n > 1)}" for n in (1, 5, 10, 20)},
            "local updates per round",
        ),
    ),
    _experiment(
        **TEXTS["hfsad-asynchrony"],
        methods=_asynchronous_methods,
        rounds=2000,
        quick={"trials": 10, "rounds": 200},
        published=_printed(
            3,
            {f"{p:g}": f"HFSAD active {p:g}" for p in (0.3, 0.5, 0.7, 1.0)},
            "probability of taking part",
        ),
    ),
    _experiment(
        **TEXTS["hfsad-variants"],
        methods=_variant_methods,
        figure=partial(figures.paired_figure, metric="error"),
        settings={**SETTINGS, "exact_box": 0},
    ),
    _experiment(**TEXTS["hfsad-depth"], methods=_depth_methods),
    _experiment(
        **TEXTS["hfsad-personalisation"],
        methods=_personal_methods,
        sweep=Sweep("samples", "samples per client", (5.0, 10.0, 20.0, 40.0, 80.0)),
        problem=_personal_problem,
        metrics={
            "error": "relative squared error of the clients' models",
            "agreement": "adjusted Rand index of the clusters found",
            **SENT,
        },
        settings=PERSONAL,
        shown=("MCP links", "SCAD links", "l1 links 0.1", "local", "one model", "clusters known"),
        figure=partial(
            figures.panels_figure, metrics=("error", "agreement"), logarithmic=("error",)
        ),
        rounds=1000,
        records=10,
        quick={"trials": 6, "rounds": 200},
    ),
)
