r"""A model of a user's own table of ratings, learnt by clients that keep their users' ratings.

    minimise   1/p sum_i [ f_i(U_i, V) + R_i(U_i) ] + R(V)

Most ratings are learnt from, some of these choose beta, and the others judge and choose nothing.
FedMC-ADMM is compared with means and biases on this split; then it runs once more on all ratings,
for the factors that a person uses.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, default_float
from fedjax_admm._run import run
from fedjax_admm.direct import damped_biases, global_mean, item_means
from fedjax_admm.measures import factor_error, rating_error
from fedjax_admm.participation import WithoutReplacement, without_replacement
from fedjax_admm.problems import MatrixCompletion, matrix_completion
from fedjax_admm.ratings import ClientRatings, Factors, Ratings, read_ratings
from fedjax_admm.search import grid_search
from fedjax_admm.solvers import FedMCADMM, fedmc_admm, fedmc_typical_beta
from fedjax_admm.traffic import totals
from fedjax_admm.trials.solve._command import Stages, spacing
from fedjax_admm.trials.solve._work import check_work
from fedjax_admm.trials.solve.ratings._settings import AUTO, PENALTIES, RatingsSettings

GRID = (0.1, 0.23, 0.52, 1.2, 2.7, 6.1, 14.0, 32.0)  # for beta="auto", times `fedmc_typical_beta`
TRAIN = 0.8  # share of each client's ratings that is learnt from
FEDMC, FRESH = "FedMC-ADMM", "FedMC-ADMM, fresh users"
MEAN, ITEMS, BIASES = "global mean", "item means", "damped user and item biases"
KNOWN = 5  # an item needs so many ratings to be recommended
_RECORDS = 20  # of the curve, or a few more
_SWEEPS = 20  # of the biases


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
    grid: np.ndarray  # shape=(betas,): tried; one if beta was given
    grid_errors: np.ndarray  # shape=(betas,): infinite where a run failed
    errors: dict[str, float]  # method -> error
    fitted: int  # ratings that were learnt from
    validated: int  # ratings that judged


@dataclass(frozen=True)
class Verdict:
    """What the test ratings tell."""

    errors: dict[str, tuple[float, float]]  # method -> error in deviations and in stars
    curve: dict[str, np.ndarray]  # of FedMC-ADMM, each shape=(records,)
    sent: dict[str, int]  # method -> numbers up and down
    tested: int  # ratings that judged


@dataclass(frozen=True)
class FittedFactors:
    """Factors fitted to all ratings, users fresh: stars = mean + deviation * users @ items.T."""

    users: np.ndarray  # shape=(users, rank), in the order of the table
    items: np.ndarray  # shape=(items, rank)
    clients: np.ndarray  # shape=(users,), int32: whose user it is
    counts: np.ndarray  # shape=(clients,), int32: ratings of each client
    mean: float
    deviation: float

    def stars(self, user: int) -> np.ndarray:
        """Return the predictions for all items, shape (items,)."""
        return self.mean + self.deviation * (self.items @ self.users[user])


@dataclass(frozen=True)
class RatingsFit:
    """What `fit_ratings` found."""

    table: Ratings
    settings: RatingsSettings
    choice: Choice
    verdict: Verdict
    factors: FittedFactors

    @property
    def scores(self) -> dict[str, Scores]:
        """Return errors by method."""
        return {
            name: Scores(self.choice.errors.get(name), *errors, self.verdict.sent[name])
            for name, errors in self.verdict.errors.items()
        }


def read_table(path: Path, settings: RatingsSettings) -> tuple[Ratings, list[int]]:
    """Read a file of ratings, and find the positions of the users of `settings.top` in it.

    Raises:
      InputError: the file cannot be read, all ratings are equal, or a user is unknown.
    """
    user, item, rating = settings.user, settings.item, settings.rating
    table = read_ratings(path, user=user, item=item, rating=rating)
    if table.values.min() == table.values.max():
        raise InputError(
            f"{path}: ratings must differ, but all are {table.values[0]:g}; there is nothing to "
            "learn."
        )
    try:
        return table, [table.user(identity) for identity in settings.top]
    except InputError as error:
        raise error.about("top") from None


def fit_ratings(
    table: Ratings, settings: RatingsSettings, stages: Stages | None = None
) -> RatingsFit:
    """Choose beta, compare FedMC-ADMM with means and biases, and fit it to all ratings.

    With beta "auto" those of `beta_grid` are tried; the validation error after the last round
    chooses.
    Each client's test ratings are looked at once, for the errors that are reported.

    Raises:
      InputError: the settings do not fit the table, or a run leaves the range of numbers.
    """
    settings, stages = fitted_to(settings, table), stages or Stages()
    choice, verdict = _compared(table, settings, stages)
    # The first problem is gone now: each is as large as the table.
    with stages("fit to all ratings"):
        factors = _fitted(table, settings, choice.beta)
    return RatingsFit(table, settings, choice, verdict, factors)


def fitted_to(settings: RatingsSettings, table: Ratings) -> RatingsSettings:
    """Return settings with the numbers of clients that fit a table.

    Raises:
      InputError: there are fewer users than clients, or fewer clients than take part.
    """
    users, clients, sampled = table.num_users, settings.clients, settings.sampled
    clients = min(100, users) if clients is None else clients
    sampled = max(1, clients // 10) if sampled is None else sampled
    for name, number, most, told, remedy in (
        ("clients", clients, users, "users", "every client needs a user"),
        ("sampled", sampled, clients, "clients", "so many take part in a round"),
    ):
        if number > most:
            told = f"must be at most the number of {told} ({most}), but it is {number}; {remedy}"
            raise settings.mistake(told, name)
    return replace(settings, clients=clients, sampled=sampled)


def check_size(table: Ratings, settings: RatingsSettings) -> None:
    """Check that a table is completed within a day and the memory.

    Raises:
      InputError: it is not, or the settings do not fit the table.
    """
    settings = fitted_to(settings, table)
    clients, sampled = settings.clients, settings.sampled
    assert clients is not None
    assert sampled is not None
    rank, rounds, steps = float(settings.rank), settings.rounds, settings.inner_steps
    runs = 2 + (len(GRID) if settings.beta == AUTO else 1)
    turns = float(runs) * rounds * sampled / clients
    told = f"{rounds} rounds of {steps} {{inner_steps}} on {len(table)} ratings of rank "
    check_work(
        settings,
        f"{told}{settings.rank} with {clients} clients",
        "take fewer {rounds}, {clients} or {inner_steps}, or a smaller {rank}",
        steps=float(runs) * rounds * steps,
        numbers=4.0 * turns * steps * len(table) * rank,
        held=rank * (table.num_users + 2.0 * clients * table.num_items) + 6.0 * len(table),
    )


def beta_grid(problem: MatrixCompletion) -> np.ndarray:
    """Return the values of beta that are tried: `fedmc_typical_beta` times `GRID`, to 2 digits."""
    unit = fedmc_typical_beta(problem)
    return np.array([float(f"{multiple * unit:.2g}") for multiple in GRID])


def recommended(
    table: Ratings, factors: FittedFactors, users: Sequence[int], most: int
) -> list[list[int]]:
    """Return the items that users have not rated, the highest predictions first.

    Items with fewer than `KNOWN` ratings are left out: their predictions are noise. Users and items
    are positions in the table, `most` items per user.
    """
    known = _ratings_per_item(table) >= KNOWN if users else None
    lists = []
    for user in users:
        wanted = np.array(known)
        # A search for numbers of another type would copy the column.
        ends = np.array([user, user + 1], table.users.dtype)
        wanted[table.items[slice(*table.users.searchsorted(ends))]] = False
        order = np.argsort(-factors.stars(user), kind="stable")
        lists.append(order[wanted[order]][:most].tolist())
    return lists


def _compared(table: Ratings, settings: RatingsSettings, stages: Stages) -> tuple[Choice, Verdict]:
    with stages("split"):
        problem = _problem(table, settings, train=TRAIN, validation=settings.validation)
        tuning, problem = problem.tuning, replace(problem, tuning=None)
        assert tuning is not None
    with stages("choice of beta"):
        choice = _chosen(tuning, settings)
        del tuning
    with stages("run that is judged"):
        verdict = _judged(problem, settings, choice.beta)
    return choice, verdict


def _chosen(tuning: MatrixCompletion, settings: RatingsSettings) -> Choice:
    """Try every beta on the training ratings, split once more."""
    validated = _number(tuning.held_out)
    if not validated:
        raise settings.mistake(
            f"{settings.validation:g} leaves no rating to judge {{beta}} by; take a larger share, "
            "or fewer {clients}",
            "validation",
        )
    grid = beta_grid(tuning) if settings.beta == AUTO else np.array([settings.beta])
    betas, template = jnp.asarray(grid, default_float()), _solver(settings, grid[0])
    run_as = (key_of(settings, 1), _process(settings), settings.rounds)
    errors = np.asarray(validation_errors(template, betas, tuning, *run_as), float)
    _check_finite(np.isfinite(errors).any(), grid, settings)
    best = int(errors.argmin())
    baselines = {name: float(error["error"]) for name, error in _baseline_errors(tuning).items()}
    return Choice(
        beta=float(grid[best]),
        grid=grid,
        grid_errors=errors,
        errors={FEDMC: float(errors[best]), **baselines},
        fitted=_number(tuning.by_user),
        validated=validated,
    )


def _judged(problem: MatrixCompletion, settings: RatingsSettings, beta: float) -> Verdict:
    """Learn from the training ratings, and measure the errors on the test ratings."""
    solver, every = _solver(settings, beta), spacing(settings.rounds, _RECORDS)
    trace, stale, fresh = jax.device_get(
        _run(solver, problem, key_of(settings, 2), _process(settings), settings.rounds, every)
    )
    _check_finite(all(np.isfinite(trace["error"] + trace["objective"])), [beta], settings)
    sent = totals(solver.traffic(problem), trace["messages"])
    total = int(sent.up[-1] + sent.down[-1])
    errors = {FEDMC: stale, FRESH: fresh, **_baseline_errors(problem)}
    return Verdict(
        errors={
            name: (float(each["error"]), float(each["raw_error"])) for name, each in errors.items()
        },
        curve={
            "round": trace["round"],
            "training_error": trace["training_error"],
            "test_error": trace["error"],
            "objective": trace["objective"],
            "numbers_up": sent.up,
            "numbers_down": sent.down,
        },
        sent={FEDMC: total, FRESH: total, **_baseline_numbers(problem)},
        tested=_number(problem.held_out),
    )


def _fitted(table: Ratings, settings: RatingsSettings, beta: float) -> FittedFactors:
    """Learn from all ratings."""
    problem = _problem(table, settings, train=1.0)
    solver = _solver(settings, beta)
    users, items = jax.device_get(
        _final(solver, problem, key_of(settings, 3), _process(settings), settings.rounds)
    )
    _check_finite(np.isfinite(users).all() and np.isfinite(items).all(), [beta], settings)
    return FittedFactors(
        users=users,
        items=items,
        clients=np.asarray(problem.places) // problem.users_per_client,
        counts=np.asarray(problem.by_user.counts),
        mean=float(problem.mean),
        deviation=float(problem.deviation),
    )


def _problem(
    table: Ratings, settings: RatingsSettings, *, train: float, validation: float = 0.0
) -> MatrixCompletion:
    """Spread users over clients and split; whatever the shares, clients have the same users."""
    assert settings.clients is not None
    try:
        key, clients = key_of(settings, 0), settings.clients
        problem = matrix_completion(table, key, clients=clients, train=train, validation=validation)
    except InputError as error:
        if error.argument == "ratings":  # whatever the number of clients
            raise
        raise settings.mistake(f"{settings.clients}: {error}", "clients") from None
    return problem


def _process(settings: RatingsSettings) -> WithoutReplacement:
    """Return who takes part in a round; of settings that fit a table."""
    assert settings.sampled is not None
    return without_replacement(settings.sampled)


def _solver(settings: RatingsSettings, beta: float) -> FedMCADMM:
    return fedmc_admm(
        rank=settings.rank,
        beta=beta,
        user_penalty=PENALTIES[settings.penalty](settings.lam),
        item_penalty=PENALTIES[settings.penalty](settings.gamma),
        inner_steps=settings.inner_steps,
    )


def key_of(settings: RatingsSettings, purpose: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(settings.seed), purpose)


@partial(jax.jit, static_argnames="rounds")
def validation_errors(solver, betas, problem, key, process, rounds) -> jax.Array:
    """Return the validation error of every beta, shape (betas,)."""
    return grid_search(
        lambda beta: replace(solver, beta=beta),
        betas,
        problem,
        key,
        rounds=rounds,
        measure=rating_error,
        metric="error",
        participation=process,
    ).scores


@partial(jax.jit, static_argnames=("rounds", "every"))
def _run(solver, problem, key, process, rounds, every):
    """Return the trace, and the last errors with stale and with fresh users."""
    how = {"rounds": rounds, "participation": process, "every": every}
    done = run(solver, problem, key, measure=rating_error, **how)
    last = {name: done.trace[name][-1] for name in ("error", "raw_error")}
    return done.trace, last, factor_error(problem, solver.fresh(problem, done.state.solver))


@partial(jax.jit, static_argnames="rounds")
def _final(solver, problem, key, process, rounds) -> Factors:
    """Return the factors after a run; those of users fresh and in the order of the table."""
    done = run(solver, problem, key, rounds=rounds, participation=process, every=rounds)
    users, items = solver.fresh(problem, done.state.solver)
    return Factors(users.reshape(-1, users.shape[-1])[problem.places], items)


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


def _ratings_per_item(table: Ratings) -> np.ndarray:
    """Count in blocks: NumPy copies what it counts into 64-bit integers."""
    counts = np.zeros(table.num_items, np.int64)
    for start in range(0, len(table), 2**20):
        counts += np.bincount(table.items[start : start + 2**20], minlength=table.num_items)
    return counts


def _number(listed: ClientRatings) -> int:
    """Return how many ratings a list holds."""
    return int(np.asarray(listed.counts).sum())


def _check_finite(finite: Any, betas, settings: RatingsSettings) -> None:
    if not finite:
        shown = ", ".join(f"{beta:g}" for beta in betas)
        raise settings.mistake(
            f"with {{beta}} {shown} the factors are not finite after {settings.rounds} rounds; "
            "take a {beta} nearer to 1e5, or the {lam} and {gamma} that are usual"
        )
