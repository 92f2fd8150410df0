"""Experiments on networked federated learning: GTV minimisation on drawn graphs.

Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via Generalized Total
Variation Minimization". Nodes of two clusters on a stochastic block model or a chain, with data on
a share of them; many features and few samples; and a star that has no clusters.

A trial draws the graph, the features and the noise once; methods differ in how many nodes' data
they see and in how strong the noise is, so that all differences are paired.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import graphs, penalties
from fedjax_admm._checks import count, default_float, number, one_of
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._rounds import run
from fedjax_admm.direct import cluster_oracle, local_models, pooled_model
from fedjax_admm.graphs import Graph
from fedjax_admm.kernels import safe_norm
from fedjax_admm.problems import Networked
from fedjax_admm.solvers import fed_avg, fed_avg_prox, ifca
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep, trial_keys
from fedjax_admm.trials.experiments._methods import Method, SolverMethod
from fedjax_admm.trials.experiments._published import Published
from fedjax_admm.trials.experiments.nfl._networks import (
    SENT,
    ByRule,
    Drawn,
    Pooled,
    View,
    Viewed,
    draw_network,
    gtv,
    gtv_solver,
    view_of,
)
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = {
    "error": "mean squared distance to the true models",
    "label_error": "mean squared error on the nodes' own data",
    **SENT,
}
PENALTIES = {
    "nLasso": penalties.network_lasso,
    "l1": penalties.entrywise_l1,
    "MOCHA": penalties.mocha,
}


def _is_code(settings: Settings) -> bool:
    one_of("variant", settings["variant"], ("paper", "code"))
    return settings["variant"] == "code"


def _two_models(labels: jax.Array) -> jax.Array:
    return jnp.array([[2.0, 2.0], [-2.0, 2.0]], default_float())[labels]


# --- stochastic block model ---


def _block_problem(settings: Settings, p_out: jax.Array, key: jax.Array) -> Drawn:
    graph_key, data_key = jax.random.split(key)
    highest = max(settings["p_out"])
    graph, labels = _two_blocks(graph_key, settings["nodes"], settings["p_in"], p_out, highest)
    return draw_network(data_key, graph, _two_models(labels), labels, settings["samples"])


def _two_blocks(
    key: jax.Array, size: int, p_in: float, p_out: Any, highest: float
) -> tuple[Graph, jax.Array]:
    """Draw the graph of two clusters and return its labels; `highest` bounds a traced p_out."""
    sizes, most = (size, size), _most_edges(size, p_in, highest)
    graph = graphs.stochastic_block_model(key, sizes, p_in, p_out, max_edges=most)
    return graph, graphs.block_labels(sizes)


def _most_edges(size: int, p_in: float, p_out: float) -> int:
    """Return the expected number of edges and 8 standard deviations, at most all pairs."""
    pairs = np.array([size * (size - 1), size * size])
    share = np.clip([p_in, p_out], 0, 1)  # who is out of range is told when graphs are drawn
    expected, variance = pairs @ share, pairs @ (share * (1 - share))
    return int(min(pairs.sum(), np.ceil(expected + 8 * np.sqrt(variance)) + 1))


def _seen_methods(
    settings: Settings, swept: jax.Array, *, views: Mapping[str, dict[str, float]], mocha: float = 1
) -> dict[str, Any]:
    """Return a method for every penalty and view; MOCHA has some times the usual coupling."""
    code, given = _is_code(settings), {"share": settings.get("share", 1.0)}
    lams = {name: settings["lam"] * (mocha if name == "MOCHA" else 1) for name in PENALTIES}
    return {
        f"{name}, {seen}": gtv(lams[name], build(), code=code, **(given | options))
        for name, build in PENALTIES.items()
        for seen, options in views.items()
    }


SHARES = {f"data on {share:g}": {"share": share} for share in (0.2, 0.4, 0.6)}
NOISES = {f"noise {noise:g}": {"noise": noise} for noise in (0.01, 0.1, 1.0)}


# --- many features, few samples ---


def _table_problem(settings: Settings, lam: jax.Array, key: jax.Array) -> Drawn:
    graph_key, truth_key, data_key = jax.random.split(key, 3)
    graph, labels = _two_blocks(graph_key, settings["nodes"], 0.5, 0.01, 0.01)
    dim = count("dim", settings["dim"])
    models = jax.random.bernoulli(truth_key, 0.5, (2, dim)).astype(default_float())
    return draw_network(data_key, graph, models[labels], labels, settings["samples"])


@pytree_dataclass
class RandomIFCA(Viewed):
    """IFCA that starts from random models of zeros and ones."""

    solver: None
    view: View
    rate: jax.Array
    dim: int = field(metadata={"static": True})

    def posed(self, problem, key, rounds):
        """Return the view, and IFCA from two models that are drawn."""
        start_key, run_key = jax.random.split(key)
        start = jax.random.bernoulli(start_key, 0.5, (2, self.dim)).astype(self.rate.dtype)
        return self.view(problem), ifca(start, self.rate), run_key


def _table_methods(settings: Settings, lam: jax.Array) -> dict[str, Any]:
    noise, samples = settings["noise"], settings["samples"]
    view = partial(view_of, noise=noise)
    rule = gtv(lam, penalties.entrywise_l1(), noise=noise)
    return {
        "GTV l1, as stated": gtv(lam, penalties.entrywise_l1(), noise=noise),
        "GTV nLasso, as stated": gtv(lam, penalties.network_lasso(), noise=noise),
        # A sum over m samples at lam is a mean at lam / m with the ratio m.
        "GTV l1, losses summed": gtv(
            lam / samples, penalties.entrywise_l1(), ratio=float(samples), noise=noise
        ),
        "GTV l1, ratio by rule": ByRule(rule.solver, rule.view),
        "GTV nLasso, ratio by rule": ByRule(
            replace(rule.solver, penalty=penalties.network_lasso()), rule.view
        ),
        "IFCA, 2 models": RandomIFCA(
            None, view(), jnp.asarray(settings["rate"], default_float()), settings["dim"]
        ),
        "cluster oracle": Pooled(view(), _oracle),
        "FedAvg (prox)": Viewed(fed_avg_prox(), view()),
        "FedAvg (gradient)": Viewed(fed_avg(settings["rate"]), view()),
        "one pooled model": Pooled(view(), _one_model),
        "local": Pooled(view(), _alone),
    }


def _oracle(problem: Networked, labels: jax.Array) -> jax.Array:
    return cluster_oracle(problem, labels, clusters=2)


def _one_model(problem: Networked, labels: jax.Array) -> jax.Array:
    return pooled_model(problem)


def _alone(problem: Networked, labels: jax.Array) -> jax.Array:
    return local_models(problem)


# --- chain ---


def _chain_problem(settings: Settings, weak: jax.Array, key: jax.Array) -> Drawn:
    size = count("nodes", settings["nodes"])
    number("weak", weak, above=0)
    weights = jnp.ones(2 * size - 1, default_float()).at[size - 1].set(weak)
    graph = replace(graphs.chain(2 * size), weights=weights)
    labels = graphs.block_labels((size, size))
    return draw_network(key, graph, _two_models(labels), labels, settings["samples"])


# --- star ---


def _star_problem(settings: Settings, factor: jax.Array, key: jax.Array) -> Drawn:
    truth_key, data_key = jax.random.split(key)
    nodes, dim = count("nodes", settings["nodes"], at_least=2), count("dim", settings["dim"])
    truth = jax.random.normal(truth_key, (nodes, dim), default_float())
    labels = jnp.zeros(nodes, jnp.int32)
    return draw_network(data_key, graphs.star(nodes), truth, labels, settings["samples"])


@pytree_dataclass
class AtCritical(Method):
    """GTV minimisation at a multiple of the star's critical coupling."""

    factor: jax.Array  # shape=()
    penalty: Any
    norm: Any  # a penalty whose dual norm tells the critical coupling

    def __call__(self, drawn, key, rounds, every):
        """Find the critical coupling, run the solver there."""
        problem, solver, key = self.posed(drawn, key, rounds)
        outcome = SolverMethod(solver, _disagreement)(problem, key, rounds, every)
        critical = jnp.broadcast_to(self.critical(problem), outcome["error"].shape)
        return {**outcome, "critical": critical}

    def posed(self, problem, key, rounds):
        """Return the view, and the solver at the multiple of the critical coupling."""
        problem = view_of()(problem)
        lam = self.factor * self.critical(problem)
        return problem, gtv_solver(lam, self.penalty), key

    def critical(self, problem):
        """Return the critical coupling of a star, shape ()."""
        slopes = problem.gradients(pooled_model(problem))[1:]  # of the leaves; node 0 is the centre
        return jnp.max(self.norm.dual_norm(slopes) / problem.graph.weights)


def _disagreement(solver: Any, problem: Networked, state: Any) -> dict[str, jax.Array]:
    """Return "error", here the largest distance of a node from the mean model."""
    models = solver.estimate(state)
    return {"error": jnp.max(safe_norm(models - jnp.mean(models, 0)[None]))}


def _star_methods(settings: Settings, factor: jax.Array) -> dict[str, Any]:
    factor = number("factor", factor, above=0)
    lasso, l1 = penalties.network_lasso(), penalties.entrywise_l1()
    return {
        "nLasso": AtCritical(factor, lasso, lasso),
        "l1": AtCritical(factor, l1, l1),
        "MOCHA (at nLasso's)": AtCritical(factor, penalties.mocha(), lasso),
    }


def _star_models(settings: Settings, rounds: int, key: jax.Array) -> dict[str, jax.Array]:
    """Return the first trial's models of the network lasso and the couplings, by the sweep."""
    problem_key, method_key = trial_keys(key)

    def at(factor: jax.Array) -> dict[str, jax.Array]:
        drawn = _star_problem(settings, factor, problem_key)
        method = _star_methods(settings, factor)["nLasso"]
        problem, solver, run_key = method.posed(drawn, method_key, rounds)
        return {"models": run(solver, problem, run_key, rounds=rounds).estimate, "lam": solver.lam}

    return jax.vmap(at)(jnp.asarray(settings["factor"], default_float()))


# --- as published ---


def _star_figure(results: Results) -> "Figure":
    """Draw the nodes' models, a panel per coupling."""
    couplings = zip(results.detail("lam", 1), results.sweep, strict=True)
    titles = [f"lambda {lam:.3g}, {factor:g} x critical" for lam, factor in couplings]
    clouds = dict(zip(titles, results.detail("models", 3), strict=True))
    return figures.printed_clouds(results, clouds=clouds, names=("first entry", "second entry"))


def _star_drawing(results: Results) -> "Figure":
    """Draw the graph."""
    figure = figures.blank_figure(5, 5)
    axes = figure.subplots()
    nodes = results.config["settings"]["nodes"]
    angles = 2 * np.pi * np.arange(nodes) / (nodes - 1)
    places = np.stack([np.cos(angles), np.sin(angles)], 1)
    places[0] = 0  # the centre
    graphs.star(nodes).plot(positions=places, axes=axes)
    axes.axis("off")
    return figures.finish(figure, results)


def _by_penalty(views: Iterable[str], prefix: str = "") -> partial:
    """Return what draws a panel per penalty, with a curve for each of some views."""
    look = {"metric": "error", "bands": "deviations", "log": "y"}
    panels = [
        {**look, "title": each, "methods": {view: f"{each}, {prefix}{view}" for view in views}}
        for each in PENALTIES
    ]
    return partial(figures.printed_figure, panels=panels, labels=LABELS, sharey=True)


LABELS = {"error": "MSE (40)"}
ROWS = {"Algorithm 1": "GTV l1, as stated", "IFCA": "IFCA, 2 models", "FedAvg": "FedAvg (prox)"}
TABLE = partial(
    figures.printed_table,
    rows=ROWS,
    metrics={"error": 1.0},
    printed=dict(zip(ROWS, (["8.74e-07"], ["8.04e-07"], ["117.09"]), strict=True)),
    labels=LABELS,
)

TEXTS = texts(__file__)
_experiment = partial(
    Experiment,
    metrics=METRICS,
    figure=partial(figures.families_figure, metric="error"),
    rounds=2000,
    records=10,
    quick={"trials": 2, "rounds": 200},
)
_BLOCKS = {"nodes": 100, "samples": 5, "p_in": 0.5, "lam": 0.01, "variant": "paper"}
_SHARES_AND_NOISES = {
    **SHARES,
    **{f"0.6, {name}": {"share": 0.6, **noise} for name, noise in NOISES.items()},
}
P_OUT = Sweep(
    "p_out",
    "probability of an edge between clusters",
    (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6),
)
FACTOR = Sweep("factor", "coupling over its critical value", (0.5, 0.9, 0.99, 1.01, 1.1, 2.0))
PRINTED_FACTORS = (0.03, 0.1, 0.3, 0.9, 1.01, 2.0)

EXPERIMENTS: Sequence[Experiment] = (
    _experiment(
        **TEXTS["nfl-sbm-noiseless"],
        sweep=P_OUT,
        problem=_block_problem,
        methods=partial(_seen_methods, views=SHARES),
        settings=_BLOCKS,
        rounds=3000,
        published=Published(figures={"figure-2": _by_penalty(SHARES)}),
    ),
    _experiment(
        **TEXTS["nfl-sbm-noise"],
        sweep=P_OUT,
        problem=_block_problem,
        methods=partial(_seen_methods, views=NOISES),
        settings={**_BLOCKS, "share": 0.6},
        published=Published(figures={"figure-3": _by_penalty(NOISES)}),
    ),
    _experiment(
        **TEXTS["nfl-table1"],
        sweep=Sweep("lam", "coupling lambda", (0.01,)),
        problem=_table_problem,
        methods=_table_methods,
        metrics={**METRICS, "models_in_use": "models in use"},
        settings={"nodes": 50, "dim": 100, "samples": 10, "noise": 1e-3, "rate": 0.1},
        figure=partial(figures.methods_figure, metrics=("error", "label_error")),
        rounds=1000,
        published=Published(figures={"table-1": TABLE}),
    ),
    _experiment(
        **TEXTS["nfl-chain"],
        sweep=Sweep(
            "weak", "weight of the edge between clusters", tuple(i / 10 for i in range(1, 10))
        ),
        problem=_chain_problem,
        methods=partial(_seen_methods, views=_SHARES_AND_NOISES, mocha=0.5),
        settings={"nodes": 100, "samples": 5, "lam": 0.1, "variant": "paper"},
        published=Published(
            figures={"figure-4": _by_penalty(SHARES), "figure-5": _by_penalty(NOISES, "0.6, ")},
            changes={"trials": 5},
        ),
    ),
    _experiment(
        **TEXTS["nfl-star"],
        sweep=FACTOR,
        problem=_star_problem,
        methods=_star_methods,
        metrics={
            "error": "largest distance of a node from the mean model",
            "critical": "critical coupling",
            **SENT,
        },
        settings={"nodes": 50, "samples": 5, "dim": 2},
        rounds=1000,
        published=Published(
            figures={"figure-6": _star_drawing, "figure-7": _star_figure},
            changes={"details": _star_models, "sweep": replace(FACTOR, values=PRINTED_FACTORS)},
        ),
    ),
)
