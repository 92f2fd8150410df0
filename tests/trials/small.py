"""A problem, a solver and an experiment small enough to check by hand."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.traffic import Traffic
from fedjax_admm.trials.experiments import DirectMethod, Experiment, SolverMethod, Sweep

FAULT_ROUND = 7
CLIENTS, DIM = 5, 2


class Consensus(NamedTuple):
    """Clients that hold a point each; the answer is the mean."""

    points: jax.Array  # shape=(clients, dim)
    faulty: jax.Array  # shape=(), bool: the solver's numbers turn NaN in round FAULT_ROUND


class Points(Protocol):
    """What the solver needs."""

    points: jax.Array


@pytree_dataclass
class Averaging:
    """Moves a share of the way to the mean in each round; fails on command."""

    rate: jax.Array  # shape=()
    fails: jax.Array  # shape=(): 1 if it obeys `faulty`

    requires = (Points,)

    def participants(self, problem):
        return (problem.points.shape[0],)

    def init(self, problem, key):
        return jnp.zeros_like(problem.points[0])

    def step(self, problem, state, info):
        state = state + self.rate * (jnp.mean(problem.points, 0) - state)
        broken = problem.faulty & (self.fails > 0) & (info.index + 1 >= FAULT_ROUND)
        return jnp.where(broken, jnp.nan, state)

    def estimate(self, state):
        return state

    def traffic(self, problem):
        return Traffic(up=problem.points.shape[1] + 1, down=problem.points.shape[1])

    def messages(self, problem, active):
        return jnp.sum(active, dtype=jnp.int32)


def distance(solver, problem, state):
    """Measure the largest coordinate's distance from the mean."""
    return {"error": jnp.max(jnp.abs(state - jnp.mean(problem.points, 0)))}


def mean_of(problem):
    return jnp.mean(problem.points, 0)


def exact_distance(problem, answer):
    return {"error": jnp.max(jnp.abs(answer - jnp.mean(problem.points, 0)))}


def _problem(settings, value, key):
    point_key, fault_key = jax.random.split(key)
    points = jax.random.normal(point_key, (settings["clients"], DIM))
    return Consensus(points, jax.random.uniform(fault_key) < value)


def _methods(settings, value):
    rate = jnp.asarray(settings["rate"], jnp.zeros(()).dtype)
    return {
        "steady": SolverMethod(Averaging(rate, jnp.zeros_like(rate)), distance),
        "fragile": SolverMethod(Averaging(rate, jnp.ones_like(rate)), distance),
        "exact": DirectMethod(mean_of, exact_distance),
    }


def _figure(results):
    figure = Figure()
    figure.subplots().plot(results.rounds, results.values("steady", "error")[0].mean(0))
    return figure


EXPERIMENT = Experiment(
    name="consensus",
    title="distance from the mean",
    paper="a test",
    findings="It works.",
    sweep=Sweep("share", "share of faulty trials", (0.0, 0.4, 1.0)),
    problem=_problem,
    methods=_methods,
    metrics={"error": "distance", "numbers_up": "sent up", "numbers_down": "sent down"},
    settings={"clients": CLIENTS, "rate": 0.25},
    figure=_figure,
    trials=30,
    rounds=20,
    records=10,
)
