"""Experiment on networked federated learning with real data: tomorrow's temperature in Finland.

Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via Generalized Total
Variation Minimization". A node is a weather station; a row of its data is a day, with yesterday's
maximum, today's minimum and 1 as features and today's maximum as target. Stations whose rows are
distributed alike are neighbours. `fedjax-admm solve networked` does the same for any table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_admm import penalties
from fedjax_admm._checks import count, default_float, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._rounds import run
from fedjax_admm.direct import local_models, pooled_model
from fedjax_admm.graphs import Graph
from fedjax_admm.losses import TrainedLoss, least_squares
from fedjax_admm.problems import Networked
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import data_file
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep, trial_keys
from fedjax_admm.trials.experiments._methods import DirectMethod, Method, SolverMethod
from fedjax_admm.trials.experiments._published import Published
from fedjax_admm.trials.experiments.nfl._networks import SENT, gtv_solver
from fedjax_admm.trials.results import Results
from fedjax_admm.trials.tables._node_graphs import node_distances
from fedjax_admm.trials.tables._observations import Observations, read_observations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "fmi_daily_temperature_2021.csv"
_SHIPPED = Path(__file__).with_name(f"{FILE}.gz")  # CC BY 4.0, see the licence beside it
COEFFICIENTS = ("coefficient of yesterday's maximum", "coefficient of today's minimum")
SHOWN = 5.0  # the threshold of the paper's table, and of the scatter plot


@pytree_dataclass
class Stations(Networked):
    """A network that is fitted to some rows and judged on others."""

    held_out: jax.Array | None = None  # shape=(nodes, rows): weights of the validation rows, with
    # sum 1 for every node


@dataclass(frozen=True, eq=False)
class Weather:
    """All rows of all stations, and how far stations are apart."""

    observations: Observations
    heads: np.ndarray  # shape=(pairs,), int32: all pairs of stations, sorted
    tails: np.ndarray
    distances: np.ndarray  # shape=(pairs,), float64: squared 2-Wasserstein distances
    source: str


@lru_cache(maxsize=2)
def load(data: str) -> Weather:
    """Load the observations of the Finnish Meteorological Institute, or their synthetic twin."""
    path = data_file(data, (FILE,), "a file of observations")
    if data == "synthetic":
        observations, source = _twin(), "synthetic twin of 203 weather stations"
    else:
        observations = read_observations(
            path or _SHIPPED,
            node="station",
            time="date",
            target="max_temp",
            features="max_temp[-1],min_temp",
            coordinates="longitude,latitude",
        )
        source = (
            f"daily temperatures of {len(observations.nodes)} stations of the Finnish "
            "Meteorological Institute"
        )
    # Distances decide who is a neighbour: they are taken in float64, whatever the run computes in.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        distances = node_distances(observations)
    heads, tails = np.triu_indices(len(observations.nodes), 1)
    return Weather(
        observations,
        heads.astype(np.int32),
        tails.astype(np.int32),
        distances[heads, tails],
        source,
    )


def _twin() -> Observations:
    """Draw 203 stations over Finland, 27 days: colder in the north, a front that passes."""
    rng = np.random.default_rng(2021)
    places = np.stack([rng.uniform(20, 31, 203), rng.uniform(60, 70, 203)], 1)
    north = (places[:, 1] - 65) / 5
    days = np.arange(28)
    front = 3 * np.sin(2 * np.pi * (days[None] - 2 * north[:, None]) / 9)
    mean = 9 - 4 * north[:, None] + 0.1 * days + front
    high = mean + rng.normal(0, 2.2, mean.shape)
    low = high - 7 - 1.5 * rng.normal(0, 1, 203)[:, None] + rng.normal(0, 2.5, mean.shape)
    x = np.stack([high[:, :-1], low[:, 1:], np.ones_like(low[:, 1:])], -1)
    return Observations(
        nodes=tuple(f"station {i}" for i in range(203)),
        features=tuple(x),
        targets=tuple(high[:, 1:]),
        columns=("max_temp[-1]", "min_temp", "intercept"),
        coordinates=places,
        coordinate_names=("longitude", "latitude"),
        rows={"read": high.size, "incomplete": 0, "without_past": 203, "used": high[:, 1:].size},
        absent=(),
        order="file",
    )


def _describe(settings: Settings) -> str:
    return load(settings["data"]).source


def _stations(settings: Settings, threshold: jax.Array, key: jax.Array) -> Stations:
    """Split every station's rows at random; join stations within the threshold."""
    weather = load(settings["data"])
    features, targets = weather.observations.stacked()
    features = features[..., : count("features", settings["features"], at_least=2, at_most=3)]
    dtype, nodes = default_float(), len(features)
    near = weather.distances <= max(settings["threshold"])
    number("threshold", threshold, above=0)
    distances = jnp.asarray(weather.distances[near], dtype)
    weights = jnp.where(distances <= threshold, 1 / distances, 0)
    graph = Graph(
        jnp.asarray(weather.heads[near]), jnp.asarray(weather.tails[near]), weights, nodes
    )
    counts = weather.observations.counts[:, None]
    number("validation", settings["validation"], above=0, at_most=0.9)
    held = np.ceil(settings["validation"] * counts).astype(np.int32)
    present = np.arange(targets.shape[1]) < counts
    # Rows in random order, the padding last: the first ones are held out.
    order = jnp.where(present, jax.random.uniform(key, targets.shape, dtype), 2.0)
    rank = jnp.argsort(jnp.argsort(order, -1), -1)
    rank = rank.astype(jnp.int32)
    held_out = jnp.where(rank < held, jnp.asarray(1 / held, dtype), 0)
    train = jnp.where((rank >= held) & present, jnp.asarray(1 / (counts - held), dtype), 0)
    x, y = jnp.asarray(features, dtype), jnp.asarray(targets, dtype)
    local = least_squares(x, y, train)
    everyone, start = jnp.ones(nodes, bool), jnp.zeros((nodes, x.shape[-1]), dtype)
    return Stations(graph, local, everyone, start, held_out=held_out)


def _errors(problem: Any, models: jax.Array) -> dict[str, jax.Array]:
    """Return the mean over stations of the mean squared error on held-out and training rows."""
    local = problem.local
    fitted = jnp.einsum("nmd,nd->nm", local.features, models, precision=jax.lax.Precision.HIGHEST)
    squares = (fitted - local.targets) ** 2
    per_node = {
        "error": jnp.sum(problem.held_out * squares, -1),
        "training_error": jnp.sum(local.weights * squares, -1),
    }
    return {name: jnp.mean(values) for name, values in per_node.items()}


def _measure(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    return _errors(problem, solver.estimate(state))


@pytree_dataclass
class AsPublished(Method):
    """GTV minimisation with the local training of the authors' code.

    Every node takes 5 RMSprop steps of rate 0.01 on its own loss from v_i, without the proximal
    term, and the run stops after 30 % of the rounds (300 of 1000): early stopping regularises.
    """

    solver: Any
    rate: jax.Array  # shape=()
    share: float = field(metadata={"static": True})  # of the rounds

    def __call__(self, problem, key, rounds, every):
        """Run the solver for its share of the rounds; a record stands for `every` rounds."""
        problem, solver, key = self.posed(problem, key, rounds)
        fewer, rest = max(1, round(self.share * every)), rounds % every
        last = min(fewer, max(1, round(self.share * rest))) if rest else 0
        method = SolverMethod(solver, _measure)
        return method(problem, key, rounds // every * fewer + last, fewer)

    def posed(self, problem, key, rounds):
        """Return the problem with the training of the code, from random models."""
        start_key, run_key = jax.random.split(key)
        local, dim = problem.local, problem.dim
        bound = dim**-0.5
        start = jax.random.uniform(
            start_key, problem.start.shape, problem.start.dtype, -bound, bound
        )
        trained = TrainedLoss(
            local.features,
            local.targets,
            local.weights,
            start,
            self.rate,
            jnp.zeros_like(self.rate),
            _squared_error,
            _rmsprop,
            5,
            1000,
            False,
        )
        return replace(problem, local=trained, start=start), self.solver, run_key


def _squared_error(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return (jnp.dot(x, w, precision=jax.lax.Precision.HIGHEST) - y) ** 2


def _rmsprop(rate: Any) -> optax.GradientTransformation:
    return optax.rmsprop(rate, decay=0.99, eps=1e-8, eps_in_sqrt=False)


def _methods(settings: Settings, threshold: jax.Array) -> dict[str, Any]:
    lasso, l1 = penalties.network_lasso(), penalties.entrywise_l1()
    return {
        "local": DirectMethod(local_models, _errors),
        "one pooled model": DirectMethod(pooled_model, _errors),
        "GTV nLasso 0.05": SolverMethod(gtv_solver(0.05, lasso), _measure),
        "GTV nLasso 0.5": SolverMethod(gtv_solver(0.5, lasso), _measure),
        "GTV nLasso 5": SolverMethod(gtv_solver(5.0, lasso), _measure),
        "GTV l1 0.5": SolverMethod(gtv_solver(0.5, l1), _measure),
        "GTV l1 0.5, inexact": AsPublished(
            gtv_solver(0.5, l1, 0.45), jnp.asarray(0.01, default_float()), 0.3
        ),
    }


def _models(settings: Settings, rounds: int, key: jax.Array) -> dict[str, jax.Array]:
    """Return the first trial's models, local ones and those of GTV at 1/2, for the scatter plot."""
    threshold = jnp.asarray(_shown(settings["threshold"]), default_float())
    problem_key, method_key = trial_keys(key)
    problem = _stations(settings, threshold, problem_key)
    method = gtv_solver(0.5, penalties.network_lasso())
    coupled = run(method, problem, method_key, rounds=rounds).estimate
    return {"local": problem.minimizers(), "coupled": coupled, "threshold": threshold}


def _shown(thresholds: Sequence[float]) -> float:
    return min(thresholds, key=lambda value: abs(value - SHOWN))


def weather_figure(results: Results) -> "Figure":
    """Draw the validation error against the threshold, and the models at lambda 0 and 1/2."""
    return figures.sweep_and_scatter_figure(
        results,
        metric="error",
        clouds={
            "lambda = 0 (local)": results.detail("local", 2),
            f"lambda = 1/2, threshold {float(results.detail('threshold')):g}": results.detail(
                "coupled", 2
            ),
        },
        names=COEFFICIENTS,
    )


def _models_figure(results: Results) -> "Figure":
    """Draw the stations' models, coupled ones on the left, with colours by their density."""
    models = {"lambda = 1/2": "coupled", "lambda = 0": "local"}
    clouds = {title: results.detail(name, 2) for title, name in models.items()}
    return figures.printed_clouds(results, clouds=clouds, names=COEFFICIENTS, dense="stations")


_COUPLED = {"lambda = 1/2, nLasso": "GTV nLasso 0.5", "lambda = 1/2, l1": "GTV l1 0.5"}
_ERROR: Any = {"metric": "error", "bands": "deviations", "methods": _COUPLED}
PRINTED = Published(
    figures={
        "figure-8": partial(figures.printed_figure, panels=[_ERROR]),
        "table-3": partial(
            figures.printed_table,
            rows=_COUPLED | {"lambda = 1/2, inexact": "GTV l1 0.5, inexact", "lambda = 0": "local"},
            metrics={"error": 1.0},
            printed={each: ["5.16 (0.15)"] for each in _COUPLED} | {"lambda = 0": ["6.59 (0.19)"]},
            at=SHOWN,
        ),
        "figure-9": _models_figure,
    },
    changes={"trials": 5},
)

EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        **texts(__file__)["nfl-weather"],
        sweep=Sweep(
            "threshold",
            "largest squared distance of neighbours (°C²)",
            (1.0, 2.0, 5.0, 10.0, 20.0, 30.0),
        ),
        problem=_stations,
        methods=_methods,
        metrics={
            "error": "validation error (°C²)",
            "training_error": "training error (°C²)",
            **SENT,
        },
        settings={"features": 3, "validation": 0.33, "data": ""},
        figure=weather_figure,
        published=PRINTED,
        shown=(
            *("local", "one pooled model", "GTV nLasso 0.05", "GTV nLasso 0.5", "GTV nLasso 5"),
            "GTV l1 0.5",
        ),
        rounds=1000,
        quick={"trials": 2, "rounds": 100},
        data=_describe,
        details=_models,
    ),
)
