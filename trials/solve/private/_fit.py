r"""A linear model of a user's own table, learnt by clients that protect each of their samples.

    minimise   sum_k 1/M_k sum_j loss(x_kj^T w_k, y_kj) + l1 ||w||_1 + l2 ||w||^2
    subject to w_k = w_l on every edge of a connected graph

Every client sends its model with normal noise to its neighbours, once per round. The noise follows
a plan that knows no data; `Plan.statement` says what is guaranteed to whom. All clients run on one
machine here, so its user sees everything: the guarantee is about what others get, the messages.

Nothing is scaled: columns are used as they are in the file. Whoever scales them before must use
public numbers, since means and deviations of private data are not protected by any plan.

Reference: F. Gauthier, C. Gratton, N. K. D. Venkategowda, S. Werner, "Private Networked Federated
Learning for Nonsmooth Objectives".
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import losses
from fedjax_admm._checks import InputError, count, default_float
from fedjax_admm._run import run
from fedjax_admm.graphs import Graph
from fedjax_admm.measures import consensus_gap
from fedjax_admm.privacy import (
    GaussianRelease,
    Plan,
    Spent,
    approximate_plan,
    gaussian_release,
    zcdp_plan,
)
from fedjax_admm.problems import ConsensusRegression, consensus_regression
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
from fedjax_admm.trials.solve.private._input import reworded
from fedjax_admm.trials.tables import Observations

ADMM, SUBGRADIENT, P_ADMM = "zcdp-nfl", "subgradient", "p-admm"
# Method -> its numbers where they are not given: they did well on drawn data of unit scale.
METHODS: dict[str, dict[str, float]] = {
    ADMM: {"rho": 3.0, "step": 1.0, "power": 0.5},
    SUBGRADIENT: {"step": 0.3, "power": 0.5},
    P_ADMM: {"rho": 3.0},
}
LOSSES: dict[str, Callable[[Any], Any]] = {
    "squared": lambda _: losses.squared(),
    "absolute": lambda _: losses.absolute(),
    "huber": losses.huber,
    "logistic": lambda _: losses.logistic(),
}
ACCOUNTINGS = ("zcdp", "advanced", "basic")
_RECORDS = 100  # of the curves, or a few more


@dataclass(frozen=True)
class PrivateSettings:
    """The options of `solve private` that decide about numbers; checked when they are made."""

    epsilon: float  # of the whole run; infinity for no noise
    clip: float | None  # norm to which gradients of samples are clipped; None guarantees nothing
    nominal_norm: float | None = None  # takes the place of `clip` in the noise where that is None
    delta: float = 1e-5
    rounds: int = 200
    tau: float = 0.985  # each release has 1 / tau of the budget of the one before it
    accounting: str = "zcdp"
    method: str = ADMM
    loss: str = "squared"
    huber_threshold: float | None = None
    l1: float = 0.0  # weight of ||w||_1
    l2: float = 1.0  # weight of ||w||^2
    rho: float | None = None  # weight of the constraints
    step: float | None = None  # of the first release
    power: float | None = None  # the step of release n is step / n^power

    def __post_init__(self) -> None:
        """Check what does not depend on data.

        Raises:
          InputError: a number is out of range, a name unknown, or options do not go together.
        """
        for name, known in (("accounting", ACCOUNTINGS), ("method", METHODS), ("loss", LOSSES)):
            if getattr(self, name) not in known:
                raise InputError(
                    f"--{name} must be one of {', '.join(known)}, but it is "
                    f"{getattr(self, name)!r}."
                )
        count("--rounds", self.rounds)
        if not self.epsilon > 0:
            raise InputError(
                f"--epsilon must be positive, or inf for no noise, but it is {self.epsilon:g}."
            )
        if not 0 < self.delta < 1:
            raise InputError(f"--delta must lie between 0 and 1, but it is {self.delta:g}.")
        if not 0 < self.tau <= 1:
            raise InputError(f"--tau must be above 0 and at most 1, but it is {self.tau:g}.")
        for name in ("clip", "nominal_norm", "rho", "step", "huber_threshold"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise InputError(f"{_option(name)} must be positive and finite, but it is {value}.")
        for name in ("l1", "l2"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(
                    f"--{name} must be finite and not negative, but it is {getattr(self, name):g}."
                )
        if self.power is not None and not 0 <= self.power <= 1:
            raise InputError(f"--power must lie between 0 and 1, but it is {self.power:g}.")
        self._check_together()

    def _check_together(self) -> None:
        if self.clipped and self.nominal_norm is not None:
            raise InputError("--nominal-norm goes with --clip none only; leave it out.")
        if not self.clipped and self.nominal_norm is None and self.epsilon < np.inf:
            raise InputError(
                "--clip none needs --nominal-norm, the number that takes the place of the clipping "
                "norm in the noise; it guarantees nothing."
            )
        if self.loss != "huber" and self.huber_threshold is not None:
            raise InputError("--huber-threshold goes with --loss huber only; leave it out.")
        for name in ("rho", "step", "power"):
            if getattr(self, name) is not None and name not in METHODS[self.method]:
                raise InputError(f"--method {self.method} has no --{name}; leave it out.")
        if self.method == P_ADMM and self.loss == "absolute":
            raise InputError(
                "--method p-admm needs a smooth loss, but --loss is absolute; take --loss huber, "
                "or --method zcdp-nfl."
            )
        if self.method == P_ADMM and self.l1 != 0:
            raise InputError(
                f"--method p-admm needs --l1 0, but it is {self.l1:g}; take --method zcdp-nfl."
            )

    def complete(self) -> "PrivateSettings":
        """Return the settings with all numbers that the method and the loss have."""
        defaults = dict(METHODS[self.method])
        if self.loss == "huber":
            defaults["huber_threshold"] = 1.0
        missing = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return replace(self, **missing)

    @property
    def clipped(self) -> bool:
        """Return whether gradients are clipped: without that, no epsilon is guaranteed."""
        return self.clip is not None

    def plan(self) -> Plan:
        """Return the noise of all releases."""
        numbers = (self.epsilon, self.delta, self.rounds, self.tau)
        if self.accounting == "zcdp":
            return zcdp_plan(*numbers)
        return approximate_plan(*numbers, composition=self.accounting)

    def release(self, plan: Plan) -> GaussianRelease:
        """Return how messages are made public.

        Raises:
          InputError: the noise of the first releases is beyond the range of numbers.
        """
        dtype = default_float()
        if plan.multipliers.max() > np.finfo(dtype).max:
            raise InputError(
                f"--tau {self.tau:g} is too small for {self.rounds} rounds: the noise of the first "
                f"ones is beyond the range of {dtype}; take a larger --tau."
            )
        if self.clipped:
            return gaussian_release(plan, self.clip)
        # Without noise no norm counts.
        return gaussian_release(plan, None, nominal_norm=self.nominal_norm or 1.0)

    def solver(self, release: GaussianRelease) -> Any:
        """Return the method; of settings that are complete."""
        if self.method == P_ADMM:
            assert self.rho is not None
            return p_admm(release, rho=self.rho)
        assert self.step is not None
        assert self.power is not None
        steps = power_decay(self.step, self.power)
        if self.method == SUBGRADIENT:
            return private_subgradient(release, step_size=steps)
        assert self.rho is not None
        return private_networked_admm(release, rho=self.rho, step_size=steps)


@dataclass(frozen=True)
class PrivateFit:
    """What `fit_private` found. Only what is said to be public may leave the machine."""

    settings: PrivateSettings
    plan: Plan
    released: np.ndarray  # shape=(clients, dim), public: the last messages
    noise: np.ndarray  # shape=(clients,), public: standard deviation of the noise in their entries
    releases: np.ndarray  # shape=(clients,), public: how often each has sent
    spent: Spent  # shape=(clients,), public: after the last round
    curve: dict[str, np.ndarray]  # each shape=(records,), public
    private: np.ndarray = field(repr=False)  # shape=(clients, dim): models without noise
    evaluation: dict[str, np.ndarray] | None  # each shape=(records,): not protected
    optimal_value: float | None  # of the objective: not protected


def read_clip(text: str | None) -> float | None:
    """Read the option --clip: a number, or "none".

    Raises:
      InputError: it is missing, or neither.
    """
    if text is None:
        raise InputError(
            "--clip must be given: the norm to which the gradient of every sample is clipped, "
            "chosen without looking at the data; --clip none clips nothing and guarantees nothing."
        )
    if text.strip().lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--clip must be a positive number or none, but it is {text!r}.") from None


def noise_key(seed: int | None) -> jax.Array:
    """Return the key of the noise: of 64 bits from the operating system, or of a seed.

    Whoever knows the key can take the noise away: it is kept nowhere.

    Raises:
      InputError: the seed is out of range.
    """
    if seed is not None:
        return jax.random.key(count("--seed", seed, at_least=0, at_most=2**32 - 1))
    words = np.array([secrets.randbits(32) for _ in range(2)], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def fit_private(
    observations: Observations,
    graph: Graph,
    settings: PrivateSettings,
    key: jax.Array,
    *,
    evaluate: bool = False,
) -> PrivateFit:
    """Run a private method on the samples of all clients.

    The check of the step looks at the data before the run, and its sentence names the largest safe
    step: who publishes that a run was refused, or the sentence, is not covered by the guarantee.

    Args:
      observations: of the clients.
      graph: of the clients, connected.
      settings: of the run.
      key: of the noise, as `noise_key` makes it.
      evaluate: also compare with the minimiser of the unclipped objective on all data, which is not
        protected.

    Returns:
      Models, what was spent, and curves.

    Raises:
      InputError: the step is not stable, or the models leave the range of numbers.
    """
    settings = settings.complete()
    plan = settings.plan()
    solver = settings.solver(settings.release(plan))
    problem = consensus_regression(
        graph,
        observations.features,
        observations.targets,
        LOSSES[settings.loss](settings.huber_threshold),
        l1=settings.l1,
        l2=settings.l2,
    )
    try:
        done = run(
            solver,
            problem,
            key,
            rounds=settings.rounds,
            measure=evaluated if evaluate else public,
            every=_spacing(settings.rounds),
        )
    except InputError as error:
        raise InputError(reworded(str(error), _OPTIONS_NOT_ARGUMENTS)) from None
    trace, state = jax.device_get((done.trace, done.state.solver))
    released, private = solver.released(state), solver.estimate(state)
    if not all(np.isfinite(seen).all() for seen in (released, private, trace["disagreement"])):
        smaller = "a larger --rho" if settings.method == P_ADMM else "a smaller --step"
        raise InputError(
            f"the models leave the range of {released.dtype}; take {smaller} or a larger --tau, or "
            "bring the columns to a common scale by public numbers."
        )
    noise = np.asarray(_noise(solver, problem, jnp.asarray(trace["releases"])), np.float64)
    most = plan.spent(trace["releases"].max(1), clipped=settings.clipped)
    return PrivateFit(
        settings=settings,
        plan=plan,
        released=np.asarray(released),
        noise=noise[-1],
        releases=np.asarray(state.releases),
        spent=plan.spent(state.releases, clipped=settings.clipped),
        curve={
            "round": trace["round"],
            "disagreement": trace["disagreement"],
            "noise": np.sqrt(problem.dim * np.mean(noise**2, 1)),
            "budget": most.budget,
            "epsilon": most.epsilon,
            "exact_epsilon": most.exact_epsilon,
        },
        private=np.asarray(private),
        evaluation={name: trace[name] for name in EVALUATED} if evaluate else None,
        optimal_value=float(problem.objective(problem.optimum)) if evaluate else None,
    )


EVALUATED = ("error", "released_error", "gap")


def public(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure what everybody who gets the messages can.

    Returns:
      "releases", how often every client has sent, (clients,); "disagreement", the root mean square
      distance of the released models from their mean, ().
    """
    models = solver.released(state)
    apart = models - jnp.mean(models, 0, keepdims=True)
    return {
        "releases": state.releases,
        "disagreement": jnp.sqrt(jnp.mean(jnp.sum(apart**2, -1))),
    }


def evaluated(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure as `public`, and the errors of `consensus_gap`, which are not protected."""
    return {**public(solver, problem, state), **consensus_gap(solver, problem, state)}


@jax.jit
def _noise(solver: Any, problem: ConsensusRegression, releases: jax.Array) -> jax.Array:
    """Return the deviation of the noise in a client's release of each number, of equal shape."""

    def one(n):
        release = solver.release
        return release.multipliers[n - 1] * release.sensitivity(
            solver.gains(problem, n), problem.sizes
        )

    return jax.vmap(one)(releases)


def _spacing(rounds: int) -> int:
    """Return the largest divisor of the rounds that leaves at least `_RECORDS` records."""
    return max(n for n in range(1, max(rounds // _RECORDS, 1) + 1) if rounds % n == 0)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# What the solvers call otherwise than the options here.
_OPTIONS_NOT_ARGUMENTS = {r"\bstep_size\b": "--step", r"\ba larger rho\b": "a larger --rho"}
