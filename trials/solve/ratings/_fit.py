r"""A model of a user's own table of ratings, learnt by clients that keep their users' ratings.

    minimise   1/p sum_i [ f_i(U_i, V) + R_i(U_i) ] + R(V)

Most ratings are learnt from, some of these choose beta, and the others judge and choose nothing.
FedMC-ADMM is compared with means and biases on this split; then it runs once more on all ratings,
for the factors that a person uses.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems".
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import penalties
from fedjax_admm._checks import InputError, count, default_float
from fedjax_admm._run import run
from fedjax_admm.direct import damped_biases, global_mean, item_means
from fedjax_admm.measures import factor_error, rating_error
from fedjax_admm.participation import WithoutReplacement, without_replacement
from fedjax_admm.problems import MatrixCompletion, matrix_completion
from fedjax_admm.ratings import ClientRatings, Factors, Ratings, read_ratings
from fedjax_admm.search import grid_search
from fedjax_admm.solvers import FedMCADMM, fedmc_admm, typical_beta
from fedjax_admm.traffic import totals

PENALTIES: dict[str, Callable[[float], Any]] = {
    "l2": penalties.squared_l2,
    "l1": penalties.l1,
    "nonnegative": lambda weight: penalties.add(
        penalties.squared_l2(weight), penalties.non_negative()
    ),
}
GRID = (0.1, 0.23, 0.52, 1.2, 2.7, 6.1, 14.0, 32.0)  # for beta="auto", times `typical_beta`
TRAIN = 0.8  # share of each client's ratings that is learnt from
FEDMC, FRESH = "FedMC-ADMM", "FedMC-ADMM, fresh users"
MEAN, ITEMS, BIASES = "global mean", "item means", "damped user and item biases"
KNOWN = 5  # an item needs so many ratings to be recommended
_RECORDS = 20  # of the curve, or a few more
_SWEEPS = 20  # of the biases


@dataclass(frozen=True)
class RatingsSettings:
    """The options of `solve ratings` that decide about numbers; checked when they are made."""

    clients: int | None = None  # 100, or the number of users if that is smaller
    sampled: int | None = None  # per round; a tenth of the clients
    rank: int = 5
    rounds: int = 400
    inner_steps: int = 10
    penalty: str = "l2"
    lam: float = 1e-6  # weight of the users' penalty
    gamma: float = 1e-6  # weight of the items'
    beta: float | Literal["auto"] = "auto"
    validation: float = 0.1  # share of what is learnt from that judges beta
    seed: int = 2025

    def __post_init__(self):
        """Check what does not depend on data.

        Raises:
          InputError: a number is out of range, or a name unknown.
        """
        for name in ("clients", "sampled"):
            if getattr(self, name) is not None:
                count(f"--{name}", getattr(self, name))
        for name in ("rank", "rounds", "inner_steps"):
            count(f"--{name.replace('_', '-')}", getattr(self, name))
        count("--seed", self.seed, at_least=0, at_most=2**32 - 1)
        if self.penalty not in PENALTIES:
            known = ", ".join(PENALTIES)
            raise InputError(f"--penalty must be one of {known}, but it is {self.penalty!r}.")
        for name in ("lam", "gamma"):
            weight = getattr(self, name)
            if not 0 <= weight <= 1e30:
                raise InputError(f"--{name} must lie between 0 and 1e30, but it is {weight:g}.")
        if not 0 < self.validation < 1:
            raise InputError(
                f"--validation must lie between 0 and 1, but it is {self.validation:g}."
            )
        if self.beta != "auto" and not 1e-30 <= self.beta <= 1e30:
            raise InputError(
                f"--beta must lie between 1e-30 and 1e30, but it is {self.beta:g}; useful ones are "
                "about 1e5."
            )

    def on(self, table: Ratings) -> "RatingsSettings":
        """Return the settings with the numbers of clients that fit a table.

        Raises:
          InputError: there are fewer users than clients, or fewer clients than take part.
        """
        clients = min(100, table.num_users) if self.clients is None else self.clients
        if clients > table.num_users:
            raise InputError(
                f"--clients must be at most the number of users ({table.num_users}), but it is "
                f"{clients}; every client needs a user."
            )
        sampled = max(1, clients // 10) if self.sampled is None else self.sampled
        if sampled > clients:
            raise InputError(
                f"--sampled must be at most the number of clients ({clients}), but it is "
                f"{sampled}; so many take part in a round."
            )
        return replace(self, clients=clients, sampled=sampled)

    @property
    def process(self) -> WithoutReplacement:
        """Return who takes part in a round; of settings that fit a table."""
        assert self.sampled is not None
        return without_replacement(self.sampled)

    def solver(self, beta: float) -> FedMCADMM:
        """Return FedMC-ADMM with these settings."""
        return fedmc_admm(
            rank=self.rank,
            beta=beta,
            user_penalty=PENALTIES[self.penalty](self.lam),
            item_penalty=PENALTIES[self.penalty](self.gamma),
            inner_steps=self.inner_steps,
        )


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

    settings: RatingsSettings
    choice: Choice
    verdict: Verdict
    factors: FittedFactors
    seconds: dict[str, float]  # stage -> time, compiling included

    @property
    def scores(self) -> dict[str, Scores]:
        """Return errors by method."""
        return {
            name: Scores(self.choice.errors.get(name), *errors, self.verdict.sent[name])
            for name, errors in self.verdict.errors.items()
        }


def read_beta(text: str) -> float | Literal["auto"]:
    """Read the option --beta.

    Raises:
      InputError: it is neither a number nor "auto".
    """
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--beta must be a positive number or auto, but it is {text!r}.") from None


def read_table(
    path: Path,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    top: Sequence[int] = (),
) -> tuple[Ratings, list[int]]:
    """Read a file of ratings, and find the users that --top names.

    Args:
      path: the file.
      user: column of the users' numbers, as in `read_ratings`.
      item: column of the items' numbers.
      rating: column of the ratings.
      top: numbers of users.

    Returns:
      The table, and the positions of the users.

    Raises:
      InputError: the file cannot be read, all ratings are equal, or a user is unknown.
    """
    try:
        table = read_ratings(path, user=user, item=item, rating=rating)
    except InputError as error:
        # The columns are keywords there, options here.
        raise InputError(re.sub(r"\b(user|item|rating)=(?=[,. ]|$)", r"--\1", str(error))) from None
    if table.values.min() == table.values.max():
        raise InputError(
            f"{path}: ratings must differ, but all are {table.values[0]:g}; there is nothing to "
            "learn."
        )
    try:
        return table, [table.user(identity) for identity in top]
    except InputError as error:
        raise InputError(f"--top: {error}") from None


def fit_ratings(
    table: Ratings, settings: RatingsSettings, tell: Callable[[str], None] = lambda _: None
) -> RatingsFit:
    """Choose beta, compare FedMC-ADMM with means and biases, and fit it to all ratings.

    With beta "auto" those of `beta_grid` are tried; the validation error after the last round
    chooses.
    Each client's test ratings are looked at once, for the errors that are reported.

    Args:
      table: the ratings.
      settings: of the method.
      tell: is given the name of every stage as it begins.

    Returns:
      Errors and factors.

    Raises:
      InputError: the settings do not fit the table, or a run leaves the range of numbers.
    """
    settings = settings.on(table)
    clock = _Clock(tell)
    choice, verdict = _compared(table, settings, clock)
    # The first problem is gone now: each is as large as the table.
    with clock.stage("fit to all ratings"):
        factors = _fitted(table, settings, choice.beta)
    return RatingsFit(settings, choice, verdict, factors, clock.seconds)


def beta_grid(problem: MatrixCompletion) -> np.ndarray:
    """Return the values of beta that are tried: `GRID` times `typical_beta`, to two digits."""
    unit = typical_beta(problem)
    return np.array([float(f"{multiple * unit:.2g}") for multiple in GRID])


def recommended(
    table: Ratings, factors: FittedFactors, users: Sequence[int], most: int
) -> list[list[int]]:
    """Return the items that users have not rated, the highest predictions first.

    Args:
      table: the ratings.
      factors: fitted to them.
      users: positions in the table.
      most: how many items per user at most.

    Returns:
      Per user, positions of items with at least `KNOWN` ratings: those of others are noise.
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


class _Clock:
    """Tells stages as they begin, and keeps how long they took."""

    def __init__(self, tell: Callable[[str], None]):
        self.seconds: dict[str, float] = {}
        self._tell = tell

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        self._tell(name)
        start = perf_counter()
        yield
        self.seconds[name] = perf_counter() - start


def _compared(table: Ratings, settings: RatingsSettings, clock: _Clock) -> tuple[Choice, Verdict]:
    with clock.stage("split"):
        problem = _problem(table, settings, train=TRAIN, validation=settings.validation)
        tuning, problem = problem.tuning, replace(problem, tuning=None)
        assert tuning is not None
    with clock.stage("choice of beta"):
        choice = _chosen(tuning, settings)
        del tuning
    with clock.stage("run that is judged"):
        verdict = _judged(problem, settings, choice.beta)
    return choice, verdict


def _chosen(tuning: MatrixCompletion, settings: RatingsSettings) -> Choice:
    """Try every beta on the training ratings, split once more."""
    validated = _number(tuning.held_out)
    if not validated:
        raise InputError(
            f"--validation {settings.validation:g} leaves no rating to judge --beta by; take a "
            "larger share, or fewer --clients."
        )
    grid = beta_grid(tuning) if settings.beta == "auto" else np.array([settings.beta])
    betas, template = jnp.asarray(grid, default_float()), settings.solver(grid[0])
    scores = _search(template, betas, tuning, _key(settings, 1), settings.process, settings.rounds)
    errors = np.asarray(scores, float)
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
    solver, every = settings.solver(beta), _spacing(settings.rounds)
    trace, stale, fresh = jax.device_get(
        _run(solver, problem, _key(settings, 2), settings.process, settings.rounds, every)
    )
    _check_finite(all(np.isfinite(trace["error"] + trace["objective"])), [beta], settings)
    sent = totals(solver.traffic(problem), trace["messages"])
    total = int(sent.up[-1] + sent.down[-1])
    errors = {FEDMC: stale, FRESH: fresh, **_baseline_errors(problem)}
    return Verdict(
        errors={
            name: (float(error["error"]), float(error["raw_error"]))
            for name, error in errors.items()
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
    solver = settings.solver(beta)
    users, items = jax.device_get(
        _final(solver, problem, _key(settings, 3), settings.process, settings.rounds)
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
        problem = matrix_completion(
            table,
            _key(settings, 0),
            clients=settings.clients,
            train=train,
            validation=validation,
        )
    except InputError as error:
        raise InputError(f"--clients {settings.clients}: {error}") from None
    if not np.isfinite(problem.deviation):
        raise InputError(
            f"the ratings must be smaller: their standard deviation is {problem.deviation} in "
            "float32; divide them all by a large number."
        )
    return problem


def _key(settings: RatingsSettings, purpose: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(settings.seed), purpose)


@partial(jax.jit, static_argnames="rounds")
def _search(solver, betas, problem, key, process, rounds) -> jax.Array:
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
    done = run(
        solver,
        problem,
        key,
        rounds=rounds,
        participation=process,
        measure=rating_error,
        every=every,
    )
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


def _spacing(rounds: int) -> int:
    """Return the largest divisor of the rounds that leaves at least `_RECORDS` records."""
    return max(n for n in range(1, max(rounds // _RECORDS, 1) + 1) if rounds % n == 0)


def _check_finite(finite: Any, betas, settings: RatingsSettings) -> None:
    if not finite:
        shown = ", ".join(f"{beta:g}" for beta in betas)
        raise InputError(
            f"with --beta {shown} the factors are not finite after {settings.rounds} rounds; take "
            "a --beta nearer to 1e5, or the --lam and --gamma that are usual."
        )
