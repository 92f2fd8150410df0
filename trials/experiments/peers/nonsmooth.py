r"""The solvers of the field on losses with kinks: least absolute deviations and quantiles.

Three tasks on the same data, y = <x, w_k> + noise with a model w_k = w + shift u_k per client:

    LAD       mean of |y - <x, w>|
    MCP       the same plus sum_i P(w_i) at the server, P the minimax concave penalty
    quantile  twice the pinball loss for the quantile 0.9

The mean loss over all samples is minimised (clients weigh by their numbers of samples). The error
is the objective's excess over the least there is, as a share of that: `F / F* - 1`, where F* is
found by 3000 iterations of ADMM on all samples together (it agrees with linear programming to
about 1e-6). What is below 1e-6 counts as that, and "below" says where a method found less than the
reference by more. Some clients are drawn in every round, the same ones for all methods.

Data. A client has from 5 to 40 samples, features N(m_k, 1) around means of its own and a constant
one, and noise of Student's distribution with 2 degrees of freedom, scaled by 0.5. A quarter of the
entries of w are 1 or -1, the others 0; u_k is normal with covariance I / dim.

Methods. "prox" stands for clients that solve their proximal problem by five passes of dual
coordinate ascent, begun where the last round's ended (`_pinball`); a pass counts as a gradient of
every sample. "steps" stands for five subgradient steps. FSMDM and consensus ADMM use the prox, the
subgradient method and ProxSkip take one subgradient per round.

Tuning. Every method has 12 settings; `python benchmarks/tune.py nonsmooth-benchmark`
takes the one with the smallest mean error after the last round, on problems of other seeds.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm import solvers
from fedjax_admm._checks import count, default_float, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.penalties import Penalty, l1, mcp
from fedjax_admm.problems import Federated
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments import _tuning
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._tuning import (
    ONLY,
    STEPS,
    Setting,
    between,
    relaxed,
    with_prox,
    with_steps,
)
from fedjax_admm.trials.experiments.peers import _pinball
from fedjax_admm.trials.experiments.peers._roster import (
    PeerMethod,
    Recipe,
    peer_methods,
    tuned_places,
)
from fedjax_admm.trials.experiments.peers._splits import draw_sizes

TASKS = {"LAD": 0, "MCP": 1, "quantile": 2}
"""Task -> its place among the stacked problems."""
QUANTILES = (0.5, 0.5, 0.9)
FAMILY = "pinball"
FLOOR = 1e-6
_REFERENCE_STEPS = 3000


# --- problems ---


@pytree_dataclass
class Regression(Federated):
    """A task, and by what it is judged."""

    _: KW_ONLY
    penalty: Penalty  # at the server
    least: jax.Array  # shape=(): the least objective, about

    def objective(self, w: jax.Array) -> jax.Array:
        """Return the mean loss of all samples plus the penalty, at a model (dim,), shape ()."""
        rows = jnp.broadcast_to(w, (self.num_clients, w.shape[0]))
        return jnp.mean(self.values(rows)) + self.penalty.value(w)


def penalty_of(task: str, settings: Settings) -> Callable[[Any], Penalty]:
    """Return what the server of a task adds: factor -> penalty, one of weight 0 for most."""
    lam = number("lam", settings["lam"], above=0)
    gamma = number("gamma", settings["gamma"], above=0)
    used = jnp.asarray(float(task == "MCP"), lam.dtype)
    return lambda factor: mcp(lam, gamma, factor * used)


def draw_problem(
    settings: Settings, shift: Any, key: jax.Array, *, tuning: bool = False
) -> dict[str, Regression]:
    """Draw the clients' data and the three tasks on them, stacked.

    Tuning problems are drawn alike, with other keys.
    """
    shift = number("shift", shift, at_least=0)
    clients, dim = count("clients", settings["clients"]), count("dim", settings["dim"])
    count("drawn", settings["drawn"], at_most=clients)
    smallest = count("smallest", settings["smallest"])
    largest = count("largest", settings["largest"], at_least=smallest)
    dtype = default_float()
    size_key, model_key, mean_key, x_key, noise_key = jax.random.split(key, 5)
    sizes = draw_sizes(size_key, clients, smallest, largest)
    there = jnp.arange(largest, dtype=jnp.int32)[None] < sizes[:, None]

    signs = jnp.where(jnp.arange(dim) % 2 == 0, 1, -1)
    truth = jnp.where(jnp.arange(dim) < -(-dim // 4), signs, 0).astype(dtype)
    away = jax.random.normal(model_key, (clients, dim), dtype) / dim**0.5
    models = truth[None] + shift.astype(dtype) * away
    means = 0.5 * jax.random.normal(mean_key, (clients, 1, dim - 1), dtype)
    x = means + jax.random.normal(x_key, (clients, largest, dim - 1), dtype)
    x = jnp.concatenate([x, jnp.ones((clients, largest, 1), dtype)], -1)
    bell_key, tail_key = jax.random.split(noise_key)
    noise = _pinball.heavy_noise(bell_key, tail_key, (clients * largest,))
    y = jnp.einsum("csd,cd->cs", x, models, precision="highest") + noise.reshape(clients, largest)

    def of(tau: jax.Array, penalty: Penalty) -> Regression:
        found = _pinball.minimize_together(x, y, tau, there, penalty, _REFERENCE_STEPS)
        more = {"weights": "samples", "mask": there}
        problem = _pinball.pinball_problem(x, y, tau, STEPS, **more)
        task = Regression(**vars(problem), penalty=penalty, least=jnp.zeros((), dtype))
        return Regression(**{**vars(task), "least": task.objective(found)})

    penalties = [penalty_of(task, settings)(1.0) for task in TASKS]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *penalties)
    return {FAMILY: jax.vmap(of)(jnp.asarray(QUANTILES, dtype), stacked)}


def tasks_of(problems: dict[str, Regression], task: str) -> Regression:
    """Return the problems of a task among those drawn for tuning, stacked (trials, ...)."""
    return jax.tree.map(lambda leaf: leaf[:, TASKS[task]], problems[FAMILY])


def measure(solver: Any, problem: Regression, state: Any) -> dict[str, jax.Array]:
    """Return "error", the excess of the objective as a share of the least one."""
    excess = problem.objective(solver.estimate(state)) / problem.least - 1
    return {"error": jnp.maximum(excess, FLOOR), "below": (excess < -FLOOR).astype(excess.dtype)}


# --- methods ---


_SMOOTHING = 0.1  # of a link at the first update, in units of the model


def _consensus(setting: Setting, regularizer: Penalty) -> Any:
    link = solvers.tree_link(setting.first, _SMOOTHING, l1(setting.second))
    return solvers.consensus_admm(link, regularizer)


_PENALTIES = between(0.3, 100, 12)
_LENGTHS = between(0.03, 10, 12)
_RATES = (0.001, 0.003, 0.01, 0.03)
_RELAXED = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LINKS = (0.1, 0.3, 1.0, 3.0), (1.0, 3.0, 10.0)
_SOME = (1.0, 3.0, 10.0)
RECIPES = {
    "FedADMM, prox": Recipe(relaxed(solvers.fed_admm), _RELAXED, (1.0, 1.6)),
    "FedDR, prox": Recipe(
        relaxed(solvers.fed_dr), tuple(1 / rho for rho in _RELAXED), (1.0, 1.6), STEPS, STEPS
    ),
    "FedPD, prox": Recipe(with_prox(solvers.fed_pd), _LENGTHS, ONLY),
    "FedDyn, prox": Recipe(with_prox(solvers.fed_dyn), _PENALTIES, ONLY),
    "Fed-PLT, prox": Recipe(with_prox(solvers.fed_plt), _LENGTHS, ONLY),
    "FedProx, prox": Recipe(with_prox(solvers.fed_prox), _PENALTIES, ONLY),
    "FSMDM, prox": Recipe(partial(_tuning.smoothing, beta=_SMOOTHING), *_LINKS, sums=True),
    "consensus ADMM, prox": Recipe(_consensus, *_LINKS, sums=True),
    "FedADMM, steps": Recipe(with_steps(solvers.fed_admm), _SOME, _RATES),
    "FedDyn, steps": Recipe(with_steps(solvers.fed_dyn), _SOME, _RATES),
    "FedProx, steps": Recipe(with_steps(solvers.fed_prox), _SOME, _RATES),
    "SCAFFOLD, steps": Recipe(_tuning.with_variates, (1.0, 2.0, 4.0), _RATES),
    "FedAvg, steps": Recipe(_tuning.averaging, between(0.0003, 0.1, 12), ONLY),
    "ProxSkip, steps": Recipe(_tuning.skipping, (0.3, 0.6, 1.0), (0.03, 0.1, 0.3, 1.0), 1),
    "subgradient, steps": Recipe(
        _tuning.subgradient, (3.0, 10.0, 30.0, 100.0), (0.5, 0.75, 1.0), 1
    ),
}
"""Method -> how it is built, and the settings that are tried."""


def recipes(task: str) -> dict[str, Recipe]:
    """Return the methods of a task, the same for all."""
    return RECIPES


TUNED = tuned_places("nonsmooth-benchmark")


def _methods(settings: Settings, shift: Any) -> dict[str, PeerMethod]:
    methods = {}
    for task, place in TASKS.items():
        kind = (settings, shift, penalty_of(task, settings), FAMILY, place, measure)
        methods |= peer_methods(task, RECIPES, TUNED, *kind)
    return methods


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["nonsmooth-benchmark"],
        sweep=Sweep("shift", "how far the clients' models lie apart", (0.0, 1.0)),
        problem=draw_problem,
        figure=partial(figures.peers_figure, metric="error", swept=False),
        shown=(
            *("FedDyn, prox", "FedDyn, steps", "FedADMM, prox", "FedADMM, steps"),
            *("SCAFFOLD, steps", "subgradient, steps"),
        ),
        methods=_methods,
        metrics={
            "error": "relative excess of the objective",
            "below": "share of trials below the reference",
            "gradients": "gradients of single samples, all clients",
        },
        settings={
            "clients": 100,
            "drawn": 10,
            "smallest": 5,
            "largest": 40,
            "dim": 20,
            "lam": 0.1,
            "gamma": 3.0,
        },
        rounds=1000,
        records=25,
        quick={"trials": 2, "rounds": 50},
    ),
)
