r"""A model of a user's own table of ratings, learnt by clients that keep their users' ratings.

    minimise   1/p sum_i [ f_i(U_i, V) + R_i(U_i) ] + R(V)

Most ratings are learnt from, some of these choose beta, and the others judge and choose nothing.
FedMC-ADMM is compared with means and biases on this split. What the choosing ratings tell to be
better, FedMC-ADMM or biases, is then fitted to all ratings, for the factors that a person uses.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems".
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._run._results import RoundState
from fedjax_admm.direct import damped_biases, global_mean, item_means
from fedjax_admm.measures import factor_error
from fedjax_admm.problems import MatrixCompletion, matrix_completion
from fedjax_admm.ratings import Ratings, read_ratings
from fedjax_admm.ratings.blocks import ClientRatings
from fedjax_admm.solvers import FedMCADMM, fed_mc_admm, fed_mc_typical_beta
from fedjax_admm.traffic import totals
from fedjax_admm.trials.solve._solution import Stages, rounded
from fedjax_admm.trials.solve.ratings._rounds import (
    advanced,
    fresh_factors,
    records_every,
    workers,
)
from fedjax_admm.trials.solve.ratings._search import Trials, search, stages as search_stages
from fedjax_admm.trials.solve.ratings._settings import AUTO, PENALTIES, RatingsSettings

GRID = (0.1, 0.23, 0.52, 1.2, 2.7, 6.1, 14.0, 32.0)  # for beta="auto", times `fed_mc_typical_beta`
TRAIN = 0.8  # share of each client's ratings that is learnt from
FEDMC, FRESH = "FedMC-ADMM", "FedMC-ADMM, fresh users"
MEAN, ITEMS, BIASES = "global mean", "item means", "damped user and item biases"
CURVE = ("round", "training_error", "test_error", "objective", "numbers_up", "numbers_down")
KNOWN = 5  # an item needs so many ratings to be recommended
RECOMMENDED = 10  # items that a user is told
INNER_STEPS = 10  # per block of a client in a round
_SWEEPS = 20  # of the biases
_MORE = 4  # the fit to all ratings takes a fourth of the rounds more
_ROOMY = 2 * 10**7  # ratings


class Scores(NamedTuple):
    """Root mean square errors of a method, and what it sends."""

    validation: float | None  # on the ratings that choose beta, in standard deviations
    test: float  # likewise, on the ratings that choose nothing
    stars: float  # the same in the units of the file
    sent: int  # numbers up and down


@dataclass(frozen=True)
class Choice:
    """What the validation ratings tell."""

    beta: float
    grid: np.ndarray  # shape=(betas,): tried, ascending; one if beta was given
    grid_errors: np.ndarray  # shape=(betas,): after the last round run; infinite where that failed
    grid_rounds: np.ndarray  # shape=(betas,): how many were run
    errors: dict[str, float]  # method -> error
    fitted: int  # ratings that were learnt from
    validated: int  # ratings that judged
    model: str  # what is fitted to all ratings: FEDMC or BIASES


@dataclass(frozen=True)
class FittedFactors:
    """Factors fitted to all ratings: stars = mean + deviation * users @ items.T.

    Those of FedMC-ADMM with fresh users, or biases: (b, 1) of users, (1, c) of items.
    """

    users: np.ndarray  # shape=(users, rank), in the order of the table
    items: np.ndarray  # shape=(items, rank)
    clients: np.ndarray  # shape=(users,), int32: whose user it is
    counts: np.ndarray  # shape=(clients,), int32: ratings of each client
    mean: float
    deviation: float

    def stars(self, user: int) -> np.ndarray:
        """Return the predictions for all items, shape (items,)."""
        return self.mean + self.deviation * (self.items @ self.users[user])

    def of_pairs(self, places: np.ndarray) -> np.ndarray:
        """Return the predictions for places of users and items (pairs, 2); NaN where one is -1."""
        products = np.sum(self.users[places[:, 0]] * self.items[places[:, 1]], 1)
        known = (places >= 0).all(1)
        return np.where(known, self.mean + self.deviation * products, np.nan)


@dataclass(frozen=True)
class RatingsFit:
    """What `fit_ratings` found."""

    table: Ratings
    settings: RatingsSettings
    choice: Choice
    scores: dict[str, Scores]  # by methods
    curve: dict[str, np.ndarray]  # of FedMC-ADMM, each shape=(records,)
    tested: int  # ratings that judged
    factors: FittedFactors


def read_table(path: Path, settings: RatingsSettings) -> tuple[Ratings, list[int]]:
    """Read a file of ratings, and find the positions of the users of `settings.top` in it."""
    columns = {name: getattr(settings, name) for name in ("user", "item", "rating")}
    table = read_ratings(path, **columns)
    if table.values.min() == table.values.max():
        told = f"{path}: ratings must differ, but all are {table.values[0]:g}"
        raise InputError(told, remedy="there is nothing to learn")
    try:
        return table, [table.user(identity) for identity in settings.top or ()]
    except InputError as error:
        raise error.about("top") from None


def fit_ratings(
    table: Ratings, settings: RatingsSettings, stages: Stages | None = None
) -> RatingsFit:
    """Choose beta, compare FedMC-ADMM with means and biases, and fit the better to all ratings.

    With beta "auto" those of `beta_grid` are searched; the validation error chooses, among them
    and, with model "auto", between FedMC-ADMM and biases. Each client's test ratings are looked at
    once, for the errors that are reported. The fit to all ratings goes on from the judged run for
    a quarter of its rounds.
    """
    settings, stages = fitted_to(settings, table), stages or Stages()
    with stages("split"):
        problem = _problem(table, settings, train=TRAIN, validation=settings.validation)
        tuning, problem = problem.tuning, replace(problem, tuning=None)
        assert tuning is not None
    with stages("choice of beta"):
        choice = _chosen(tuning, settings)
        del tuning
    with stages("run that is judged"):
        scores, curve, tested, state = _judged(problem, settings, choice)
        # It is gone before the next one: each is as large as the table.
        del problem
    with stages("fit to all ratings"):
        factors = _fitted(table, settings, choice, state)
    return RatingsFit(table, settings, choice, scores, curve, tested, factors)


def fitted_to(settings: RatingsSettings, table: Ratings) -> RatingsSettings:
    """Return settings with the numbers of clients that fit a table."""
    users = table.num_users
    clients = settings.clients or min(100, users)
    sampled = settings.sampled or max(1, clients // 10)
    limits = (("clients", clients, users, "users"), ("sampled", sampled, clients, "clients"))
    for name, number, most, kind in limits:
        if number > most:
            told = f"must be at most the number of {kind} ({most}), but it is {number}; take fewer"
            raise settings.mistake(told, name)
    return replace(settings, clients=clients, sampled=sampled)


def check_size(table: Ratings, settings: RatingsSettings) -> None:
    """Check that the settings fit a table, and its factors into memory."""
    rank, clients = settings.rank, fitted_to(settings, table).clients
    assert clients is not None
    numbers = float(rank) * (table.num_users + 2.0 * clients * table.num_items) + 6.0 * len(table)
    what = f"a model of {len(table)} ratings of {{rank}} {rank} with {clients} {{clients}}"
    settings.check_memory(what, numbers, "take fewer {clients}, or a smaller {rank}")


def beta_grid(problem: MatrixCompletion) -> np.ndarray:
    """Return the values of beta that are tried: `fed_mc_typical_beta` times `GRID`, to 2 digits."""
    return rounded(np.array(GRID) * fed_mc_typical_beta(problem), 2)


def recommended(
    table: Ratings, factors: FittedFactors, users: Sequence[int], most: int = RECOMMENDED
) -> list[list[int]]:
    """Return the items that users have not rated, the highest predictions first.

    Items with fewer than `KNOWN` ratings are left out: their predictions are noise. Users and items
    are positions in the table, `most` items per user.
    """
    known, lists = np.bincount(table.items, minlength=table.num_items) >= KNOWN, []
    for user in users:
        unrated = known.copy()
        # A search for numbers of another type would copy the column.
        ends = np.array([user, user + 1], table.users.dtype)
        unrated[table.items[slice(*table.users.searchsorted(ends))]] = False
        order = np.argsort(-factors.stars(user), kind="stable")
        lists.append(order[unrated[order]][:most].tolist())
    return lists


def _chosen(tuning: MatrixCompletion, settings: RatingsSettings) -> Choice:
    """Search a beta on the training ratings, split once more."""
    validated = _number(tuning.held_out)
    if not validated:
        told = f"{settings.validation:g} leaves no rating to judge {{beta}} by; take a larger share"
        raise settings.mistake(f"{told}, or fewer {{clients}}", "validation")
    grid = beta_grid(tuning) if settings.beta == AUTO else np.array([settings.beta])
    with workers() as pool:
        baselines = pool.submit(_baseline_errors, tuning)
        trials = validation_errors(tuning, settings, grid, pool)
        errors = {name: float(error["error"]) for name, error in baselines.result().items()}
    best = trials.best(settings.rounds)
    _check_finite(bool(best), grid, settings)
    tried, errors = trials.rounds > 0, {FEDMC: float(trials.errors[best[0]]), **errors}
    model = {"fedmc": FEDMC, "biases": BIASES}.get(settings.model)
    return Choice(
        beta=float(grid[best[0]]),
        grid=grid[tried],
        grid_errors=trials.errors[tried],
        grid_rounds=trials.rounds[tried],
        errors=errors,
        fitted=_number(tuning.by_user),
        validated=validated,
        model=model or min((FEDMC, BIASES), key=lambda name: errors[name]),
    )


def validation_errors(
    problem: MatrixCompletion, settings: RatingsSettings, grid: np.ndarray, pool: Executor
) -> Trials:
    """Return what a search of the grid tells; several values are run at a time."""
    runs: dict[int, RoundState] = {}

    def error_after(place: int, rounds: int) -> float:
        solver, key = _solver(settings, grid[place]), key_of(settings, 1)
        records, runs[place] = advanced(
            solver, problem, key, settings, rounds, runs.pop(place, None), watched=False
        )
        return records[-1]["error"]

    def look(places: Sequence[int], rounds: int) -> list[float]:
        return list(pool.map(lambda place: error_after(place, rounds), places))

    return search(len(grid), search_stages(settings.rounds, records_every(settings)), look)


def _judged(
    problem: MatrixCompletion, settings: RatingsSettings, choice: Choice
) -> tuple[dict[str, Scores], dict[str, np.ndarray], int, RoundState]:
    """Learn from the training ratings, and measure the errors on the test ratings."""
    solver = _solver(settings, choice.beta)
    with workers() as pool:
        baselines = pool.submit(_baseline_errors, problem)
        key = key_of(settings, 2)
        records, state = advanced(solver, problem, key, settings, settings.rounds, watched=True)
        _, fresh = jax.device_get(fresh_factors(solver, problem, state))
        errors = {FEDMC: records[-1], FRESH: fresh, **baselines.result()}
    trace = {name: np.stack([record[name] for record in records]) for name in records[0]}
    _check_finite(np.isfinite(trace["error"] + trace["objective"]).all(), [choice.beta], settings)
    sent = totals(solver.traffic(problem), trace["messages"])
    trace |= {"test_error": trace["error"], "numbers_up": sent.up, "numbers_down": sent.down}
    own = dict.fromkeys((FEDMC, FRESH), int(sent.up[-1] + sent.down[-1]))
    numbers = own | _baseline_numbers(problem)
    scores = {
        name: Scores(
            choice.errors.get(name), float(each["error"]), float(each["raw_error"]), numbers[name]
        )
        for name, each in errors.items()
    }
    return scores, {name: trace[name] for name in CURVE}, _number(problem.held_out), state


def _fitted(
    table: Ratings, settings: RatingsSettings, choice: Choice, state: RoundState
) -> FittedFactors:
    """Learn from all ratings: biases, or FedMC-ADMM from the state of a run on most of them."""
    problem = _problem(table, settings, train=1.0)
    if choice.model == BIASES:
        fitted = damped_biases(problem, sweeps=_SWEEPS)
    else:
        solver, rounds = _solver(settings, choice.beta), settings.rounds
        key, every = key_of(settings, 2), records_every(settings)
        rounds += -(-rounds // (_MORE * every)) * every
        _, state = advanced(solver, problem, key, settings, rounds, state, watched=False)
        fitted, _ = fresh_factors(solver, problem, state)
    places = np.asarray(problem.places)
    users, items = (np.asarray(part) for part in fitted)
    users = users.reshape(-1, users.shape[-1])[places]
    finite = np.isfinite(users).all() and np.isfinite(items).all()
    _check_finite(finite, [choice.beta], settings)
    return FittedFactors(
        users=users,
        items=items,
        clients=places // problem.users_per_client,
        counts=np.asarray(problem.by_user.counts),
        mean=float(problem.mean),
        deviation=float(problem.deviation),
    )


def _problem(
    table: Ratings, settings: RatingsSettings, *, train: float, validation: float = 0.0
) -> MatrixCompletion:
    """Spread users over clients and split; whatever the shares, clients have the same users."""
    assert settings.clients is not None
    # One shape is compiled once. A large table has rather no room to spare.
    how = {"train": train, "validation": validation, "room": len(table) <= _ROOMY}
    try:
        return matrix_completion(table, key_of(settings, 0), clients=settings.clients, **how)
    except InputError as error:
        if error.argument == "ratings":  # whatever the number of clients
            raise
        raise settings.mistake(f"{settings.clients}: {error}", "clients") from None


def _solver(settings: RatingsSettings, beta: float) -> FedMCADMM:
    return fed_mc_admm(
        rank=settings.rank,
        beta=beta,
        user_penalty=PENALTIES[settings.penalty](settings.lam),
        item_penalty=PENALTIES[settings.penalty](settings.gamma),
        inner_steps=INNER_STEPS,
    )


def key_of(settings: RatingsSettings, purpose: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(settings.seed), purpose)


@jax.jit
def _baselines(problem) -> list[dict[str, jax.Array]]:
    fits = (damped_biases(problem, sweeps=_SWEEPS), item_means(problem), global_mean(problem))
    return [factor_error(problem, factors) for factors in fits]


def _baseline_errors(problem: MatrixCompletion) -> dict[str, dict[str, Any]]:
    """Return the errors of every baseline on the ratings that a problem holds out."""
    return dict(zip((BIASES, ITEMS, MEAN), jax.device_get(_baselines(problem)), strict=True))


def _baseline_numbers(problem: MatrixCompletion) -> dict[str, int]:
    """Return what clients and server would send for the baselines, with everybody in each turn.

    Sum and number of ratings go up and their mean comes down: in all, or per item. For biases, the
    numbers of ratings per item go up once; in each sweep sums per item go up, biases come down.
    """
    mean = 3 * problem.num_clients
    per_item = problem.num_clients * problem.num_items
    return {BIASES: mean + (2 * _SWEEPS + 1) * per_item, ITEMS: mean + 3 * per_item, MEAN: mean}


def _number(listed: ClientRatings) -> int:
    """Return how many ratings a list holds."""
    return int(np.asarray(listed.counts).sum())


def _check_finite(finite: Any, betas: Iterable[float], settings: RatingsSettings) -> None:
    if not finite:
        told = f"with {{beta}} {', '.join(f'{beta:g}' for beta in betas)} the factors are not "
        told += f"finite after {settings.rounds} rounds; take a {{beta}} nearer to 1e5, or the "
        raise settings.mistake(told + "{lam} and {gamma} that are usual")
