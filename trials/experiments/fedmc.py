"""Experiments on federated matrix completion.

P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction Multiplier Method
for Federated Matrix Completion Problems": FedMC-ADMM against FedMAvg, the number of inner steps,
l1 regularisation; and the rank, which the paper does not vary. Beside them stands what the paper
does not compare with: biases of users and items, and alternating least squares with all data in one
place. Ratings are those of MovieLens where they are at hand, else synthetic ones of the same shape.
"""

import time
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import penalties
from fedjax_admm._checks import InputError, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._rounds import run
from fedjax_admm.direct import alternating_least_squares, damped_biases
from fedjax_admm.measures import factor_error, fresh_rating_error, rating_error
from fedjax_admm.participation import Participation, without_replacement
from fedjax_admm.problems import MatrixCompletion, matrix_completion
from fedjax_admm.ratings import SHAPES, Factors, Ratings, Shape, draw_ratings, read_ratings
from fedjax_admm.search import grid_search
from fedjax_admm.solvers import FedMCADMM, fed_mavg, fed_mc_admm, fed_mc_typical_beta
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import data_file
from fedjax_admm.trials.experiments._experiment import (
    Experiment,
    Settings,
    Sweep,
    trial_keys,
    whole,
)
from fedjax_admm.trials.experiments._methods import Method, SolverMethod, at_every_record
from fedjax_admm.trials.experiments._published import Published

FILES = {
    "ml-100k": "ml-100k/u.data",
    "ml-1m": "ml-1m/ratings.dat",
    "ml-10m": "ml-10M100K/ratings.dat",
}
"""Where the folder of a user's data holds the ratings of a shape, as MovieLens unpacks them."""

MULTIPLES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Values of beta that are tried, in units of `fed_mc_typical_beta`."""
TUNED = "FedMC-ADMM, tuned beta"
STEPS = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
RANKS = (1.0, 2.0, 5.0, 10.0, 20.0)
METRICS = {
    "error": "test RMSE (standard deviations)",
    "fresh_error": "test RMSE, fresh users (standard deviations)",
    "raw_error": "test RMSE (units of the ratings)",
    "training_error": "training RMSE (standard deviations)",
    "objective": "training objective F",
    "nonzero_users": "entries of U that are not 0 (share)",
    "nonzero_items": "entries of V that are not 0 (share)",
    "numbers_up": "numbers sent up",
    "numbers_down": "numbers sent down",
}
COMMON = {"shape": "ml-100k", "data": "", "clients": 100, "sampled": 10}


@pytree_dataclass
class TunedMethod(Method):
    """FedMC-ADMM whose beta is chosen on ratings held out of the training ones.

    The grid is run on `problem.tuning`; the ratings by which the method is judged are read once,
    while the run with the chosen beta is measured. What the search sends does not count.
    """

    solver: FedMCADMM
    multiples: jax.Array  # shape=(values,): of `fed_mc_typical_beta`, the grid
    participation: Participation

    def __call__(self, problem, key, rounds, every):
        """Choose beta, then run and measure; "beta" is the chosen one."""

        def with_beta(beta: jax.Array) -> FedMCADMM:
            return FedMCADMM(**{**vars(self.solver), "beta": beta})

        search = grid_search(
            with_beta,
            self.multiples * fed_mc_typical_beta(problem),
            problem.tuning,
            key,
            rounds=rounds,
            measure=rating_error,
            metric="error",
            participation=self.participation,
        )
        method = SolverMethod(search.best, fresh_rating_error, self.participation)
        trace = method(problem, key, rounds, every)
        return {**trace, "beta": jnp.broadcast_to(search.best.beta, trace["error"].shape)}


@pytree_dataclass
class FactorMethod(Method):
    """A method that computes factors at once: its errors stand at every record."""

    solve: Callable[[Any, jax.Array], Factors] = field(metadata={"static": True})

    def __call__(self, problem, key, rounds, every):
        """Solve once and repeat the errors."""
        factors = self.solve(problem, key)
        return at_every_record(factor_error(problem, factors), factors.items, rounds, every)


def _biases(problem: MatrixCompletion, key: jax.Array) -> Factors:
    return damped_biases(problem)


@lru_cache
def _least_squares(rank: int) -> Callable[[MatrixCompletion, jax.Array], Factors]:
    """Return one function per rank: a new one would be compiled again."""
    return partial(alternating_least_squares, rank=rank)


@lru_cache(maxsize=2)
def load(shape: str, data: str) -> tuple[Ratings | Shape, str]:
    """Find ratings: a file, or the size of synthetic ones; and say in a few words what they are."""
    names = (FILES[shape], Path(FILES[shape]).name) if shape in FILES else ()
    path = data_file(data, names, "a file of ratings")
    if path is None:
        size = _size(shape)
        name = f" (shape of {shape})" if shape in SHAPES else ""
        return size, (
            f"synthetic, {size.ratings} ratings by {size.users} users of {size.items} items{name}"
        )
    table = read_ratings(path)
    users, items = table.num_users, table.num_items
    return table, f"{path.name}, {len(table)} ratings by {users} users of {items} items"


def _size(shape: str) -> Shape:
    if shape in SHAPES:
        return SHAPES[shape]
    try:
        return Shape(*(int(part) for part in shape.split("x")))
    except (TypeError, ValueError):
        raise InputError(
            f"must be one of {', '.join(SHAPES)} or USERSxITEMSxRATINGS, such as 1000x500x20000, "
            f"but it is {shape!r}",
            argument="shape",
            value=shape,
        ) from None


def _describe(settings: Settings) -> str:
    return load(settings["shape"], settings["data"])[1]


def _problem(settings: Settings, value: ArrayLike, key: jax.Array) -> MatrixCompletion:
    ratings, _ = load(settings["shape"], settings["data"])
    draw_key, key = jax.random.split(key)
    if isinstance(ratings, Shape):
        ratings = draw_ratings(draw_key, ratings)
    held_out = settings.get("validation", 0.0)
    return matrix_completion(ratings, key, clients=settings["clients"], validation=held_out)


def _measured(settings: Settings, solver: Any) -> SolverMethod:
    return SolverMethod(solver, fresh_rating_error, without_replacement(settings["sampled"]))


def _compared(settings: Settings, weight: ArrayLike) -> dict[str, Any]:
    rank, who = settings["rank"], without_replacement(settings["sampled"])
    squares, weights = _weighted(weight)
    multiples = number("multiples", settings["multiples"], above=0)
    solvers = {
        "FedMC-ADMM, beta 1e4 (paper)": fed_mc_admm("paper", rank=rank, **squares),
        "FedMAvg, fair": fed_mavg("fair", rank=rank, **weights),
        "FedMAvg, paper": fed_mavg("paper", rank=rank, **weights),
        "FedMAvg, fair, drawn clients only": fed_mavg(
            "fair", rank=rank, all_users=False, **weights
        ),
    }
    return {
        TUNED: TunedMethod(fed_mc_admm(rank=rank, **squares), multiples, who),
        **{name: _measured(settings, solver) for name, solver in solvers.items()},
        "user and item biases": FactorMethod(_biases),
        "ALS on all data in one place": FactorMethod(_least_squares(rank)),
    }


def _lasso(weight: ArrayLike, item_weight: ArrayLike, **options: Any) -> FedMCADMM:
    return fed_mc_admm(
        user_penalty=penalties.l1(weight), item_penalty=penalties.l1(item_weight), **options
    )


def _step_methods(settings: Settings, beta: ArrayLike) -> dict[str, Any]:
    weight, rank = settings["weight"], settings["rank"]
    return {
        f"inner steps, {steps}": _measured(
            settings, _lasso(weight, weight, beta=beta, rank=rank, inner_steps=steps)
        )
        for steps in whole("steps", settings["steps"])
    }


def _sparse_methods(settings: Settings, weight: ArrayLike) -> dict[str, Any]:
    weight = number("weight", weight, at_least=0)
    rank = settings["rank"]
    return {
        f"FedMC-ADMM, beta {beta:g}": _measured(
            settings, _lasso(weight, 10 * beta * weight, beta=beta, rank=rank)
        )
        for beta in (1e4, 1e5)
    }


def _rank_methods(settings: Settings, beta: ArrayLike) -> dict[str, Any]:
    ranks, squares, weights = whole("ranks", settings["ranks"]), *_weighted(settings["weight"])
    return {
        f"FedMC-ADMM, {rank}": _measured(settings, fed_mc_admm(rank=rank, beta=beta, **squares))
        for rank in ranks
    } | {
        f"FedMAvg fair, {rank}": _measured(settings, fed_mavg("fair", rank=rank, **weights))
        for rank in ranks
    }


def _weighted(weight: ArrayLike) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of FedMC-ADMM and of FedMAvg that set the weight of the squares."""
    square = penalties.squared_l2(weight)
    return (
        {"user_penalty": square, "item_penalty": square},
        {"user_weight": weight, "item_weight": weight},
    )


def _timed(methods: Callable[[Settings, Any], dict[str, Any]], swept: str) -> Callable:
    """Return what times a round of every method, at the last value of the sweep."""

    def seconds(settings: Settings, rounds: int, key: jax.Array) -> dict[str, jax.Array]:
        problem_key, method_key = trial_keys(key)
        value = settings[swept][-1]
        problem = jax.jit(lambda key: _problem(settings, value, key))(problem_key)
        return {
            name: jnp.asarray(_round_time(method, problem, method_key, min(rounds, 50)))
            for name, method in methods(settings, value).items()
            if not isinstance(method, FactorMethod)
        }

    return seconds


def _round_time(method: Any, problem: MatrixCompletion, key: jax.Array, rounds: int) -> float:
    """Return the median of three runs, evaluation and compiling left out, in seconds per round."""

    @jax.jit
    def last(problem, key):
        return run(
            method.solver, problem, key, rounds=rounds, participation=method.participation
        ).estimate

    jax.block_until_ready(last(problem, key))
    times = []
    for _ in range(3):
        clock = time.perf_counter()
        jax.block_until_ready(last(problem, key))
        times.append(time.perf_counter() - clock)
    return float(np.median(times)) / rounds


_TIME = {"against": "seconds"}
PRINTED_PAIR = {"FedMC-ADMM": "FedMC-ADMM, beta 1e4 (paper)", "FedMAvg": "FedMAvg, paper"}


def _printed_pair(settings: Settings, weight: ArrayLike) -> dict[str, Any]:
    methods = _compared({**settings, "multiples": MULTIPLES}, weight)
    return {name: methods[name] for name in PRINTED_PAIR.values()}


def _printed(
    number: int, *metrics: str, legend_title: str = "", look: dict[str, Any], **changes: Any
) -> Published:
    """Return a figure of the paper: the objective, the test error and others, two in a row."""
    panels = [{"metric": each, **look} for each in ("objective", "error", *metrics)]
    draw = partial(figures.printed_figure, panels=panels, legend_title=legend_title, columns=2)
    return Published(figures={f"figure-{number}": draw}, changes=changes)


TEXTS = texts(__file__)
_experiment = partial(
    Experiment,
    problem=_problem,
    metrics=METRICS,
    rounds=100,
    quick={"trials": 1, "rounds": 40},
    data=_describe,
)

EXPERIMENTS = (
    _experiment(
        **TEXTS["fedmc-comparison"],
        sweep=Sweep("weight", "weight of the squares", (1e-6,)),
        methods=_compared,
        metrics={**METRICS, "beta": "chosen beta"},
        figure=figures.progress_figure,
        shown=(
            *(TUNED, "FedMC-ADMM, beta 1e4 (paper)", "FedMAvg, fair", "FedMAvg, paper"),
            *("user and item biases", "ALS on all data in one place"),
        ),
        settings={**COMMON, "rank": 5, "validation": 0.1, "multiples": MULTIPLES},
        records=25,
        details=_timed(_compared, "weight"),
        published=_printed(
            2,
            look={"methods": PRINTED_PAIR, "against": "rounds"},
            settings={**COMMON, "shape": "ml-1m", "rank": 5},
            methods=_printed_pair,
            details=None,
        ),
    ),
    _experiment(
        **TEXTS["fedmc-inner-steps"],
        sweep=Sweep("beta", "beta", (1e4, 1e5)),
        methods=_step_methods,
        figure=partial(
            figures.ladder_figure,
            metrics=("error", "fresh_error", "objective"),
            label="inner steps per block",
        ),
        settings={**COMMON, "rank": 5, "weight": 1e-6, "steps": STEPS},
        records=25,
        published=_printed(
            3,
            legend_title="inner steps N",
            look={"methods": {f"{n:g}": f"inner steps, {n:g}" for n in STEPS}} | _TIME,
            sweep=Sweep("beta", "beta", (1e4,)),
            details=_timed(_step_methods, "beta"),
        ),
    ),
    _experiment(
        **TEXTS["fedmc-regularisation"],
        sweep=Sweep("weight", "lambda", (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
        methods=_sparse_methods,
        figure=partial(
            figures.panels_figure,
            metrics=("error", "objective", "nonzero_users", "nonzero_items"),
        ),
        settings={**COMMON, "rank": 5},
        published=_printed(
            4,
            *("nonzero_users", "nonzero_items"),
            legend_title="lambda",
            look={"methods": ["FedMC-ADMM, beta 10000"], "each": True} | _TIME,
            records=25,
            details=_timed(_sparse_methods, "weight"),
        ),
    ),
    _experiment(
        **TEXTS["fedmc-rank"],
        sweep=Sweep("beta", "beta of FedMC-ADMM", (1e5,)),
        methods=_rank_methods,
        figure=partial(
            figures.ladder_figure,
            metrics=("error", "fresh_error", "training_error"),
            label="rank",
        ),
        settings={**COMMON, "ranks": RANKS, "weight": 1e-6},
    ),
)
