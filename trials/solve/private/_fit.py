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

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import default_float
from fedjax_admm._run._rounds import run
from fedjax_admm.measures import consensus_gap, total_loss
from fedjax_admm.privacy import (
    Plan,
    Spent,
    approximate_plan,
    gaussian_release,
    ledger,
    zcdp_plan,
)
from fedjax_admm.problems import ConsensusRegression, consensus_regression
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
from fedjax_admm.trials.solve._solution import spacing
from fedjax_admm.trials.solve.private._settings import (
    LOSSES,
    P_ADMM,
    SUBGRADIENT,
    PrivateSettings,
)
from fedjax_admm.trials.tables._node_graphs import NodeGraph
from fedjax_admm.trials.tables._observations import Observations

SPENT = ("budget", "epsilon", "exact_epsilon")
_RECORDS = 100  # of the curves, or a few more
_NO_CLIP = 1e30  # clips nothing, in the same program as any other norm; float32 holds its products


@dataclass(frozen=True)
class PrivateFit:
    """What `fit_private` found. Only what is said to be public may leave the machine."""

    settings: PrivateSettings
    observations: Observations = field(repr=False)
    network: NodeGraph
    plan: Plan
    released: np.ndarray  # shape=(clients, dim), public: the last messages
    noise: np.ndarray  # shape=(clients,), public: standard deviation of the noise in their entries
    releases: np.ndarray  # shape=(clients,), public: how often each has sent
    spent: Spent  # shape=(clients,), public: after the last round
    curve: dict[str, np.ndarray]  # each shape=(records,), public
    private: np.ndarray = field(repr=False)  # shape=(clients, dim): models without noise
    evaluation: dict[str, np.ndarray] | None  # each shape=(records,): not protected
    optimal_value: float | None  # of the objective: not protected
    shortfall: dict[str, float] | None  # as `shortfall` returns it: not protected


def noise_key(seed: int | None) -> jax.Array:
    """Return the key of the noise: of 64 bits from the operating system, or of a seed.

    Whoever knows the key can take the noise away: it is kept nowhere.
    """
    if seed is not None:
        return jax.random.key(seed)
    words = np.array([secrets.randbits(32) for _ in range(2)], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def plan_of(settings: PrivateSettings) -> Plan:
    """Return the noise of all releases."""
    numbers = (settings.epsilon, settings.delta, settings.rounds, settings.tau)
    if settings.accounting == "zcdp":
        plan = zcdp_plan(*numbers)
    else:
        plan = approximate_plan(*numbers, composition=settings.accounting)
    if plan.multipliers.max() > np.finfo(default_float()).max / 2:
        told = (
            f"{settings.tau:g} is too small for {settings.rounds} rounds: the noise of the first "
        )
        told += f"ones is beyond the range of {default_float()}; take a larger {{tau}}"
        raise settings.mistake(told, "tau")
    return plan


def solver_of(settings: PrivateSettings, plan: Plan) -> Any:
    """Return the method with its releases; of settings that are complete."""
    given = vars(settings)
    release = gaussian_release(plan, given["clip"])
    if settings.method == P_ADMM:
        return p_admm(release, rho=given["rho"])
    steps = power_decay(given["step"], given["power"])
    if settings.method == SUBGRADIENT:
        return private_subgradient(release, step_size=steps)
    return private_networked_admm(release, rho=given["rho"], step_size=steps)


def fit_private(
    observations: Observations, network: NodeGraph, settings: PrivateSettings, key: jax.Array
) -> PrivateFit:
    """Run a private method on the samples of all clients, whose graph is connected.

    The check of the step looks at the data before the run, and its sentence names the largest safe
    step: who publishes that a run was refused, or the sentence, is not covered by the guarantee.
    With `settings.evaluate` the models are compared with the minimiser of the unclipped objective
    on all data, too, which is not protected.
    """
    settings, evaluate = settings.complete(), settings.evaluate
    plan = plan_of(settings)
    solver = solver_of(settings, plan)
    data, loss = (observations.features, observations.targets), LOSSES[settings.loss]()
    problem = consensus_regression(network.graph, *data, loss, l1=settings.l1, l2=settings.l2)
    done = _done(solver, problem, key, settings)
    trace, state = jax.device_get((done.trace, done.state.solver))
    released, private = solver.estimate(state), solver.unprotected(state)
    if not all(np.isfinite(seen).all() for seen in (released, private, trace["disagreement"])):
        smaller = "a larger {rho}" if settings.method == P_ADMM else "a smaller {step}"
        told = (
            f"the models leave the range of {released.dtype}; take {smaller} or a larger {{tau}}, "
        )
        raise settings.mistake(told + "or bring the columns to a common scale by public numbers")
    noise = trace["deviation"].astype(np.float64)
    spent = spent_by(plan, trace)
    return PrivateFit(
        settings=settings,
        observations=observations,
        network=network,
        plan=plan,
        released=np.asarray(released),
        noise=noise[-1],
        releases=np.asarray(state.releases),
        spent=spent._replace(**{name: getattr(spent, name)[-1] for name in SPENT}),
        curve={
            "round": trace["round"],
            "disagreement": trace["disagreement"],
            "noise": np.sqrt(problem.dim * np.mean(noise**2, 1)),
            **{name: getattr(spent, name).max(1) for name in SPENT},
        },
        private=np.asarray(private),
        evaluation={name: trace[name] for name in EVALUATED} if evaluate else None,
        optimal_value=float(total_loss(problem, problem.optimum)) if evaluate else None,
        shortfall=shortfall(problem, settings, released, key) if evaluate else None,
    )


def _done(solver: Any, problem: ConsensusRegression, key: jax.Array, settings: PrivateSettings):
    """Return the run of a solver."""
    rounds, measure = settings.rounds, evaluated if settings.evaluate else public
    every = spacing(rounds, _RECORDS)
    return run(solver, problem, key, rounds=rounds, measure=measure, every=every)


def shortfall(
    problem: ConsensusRegression, settings: PrivateSettings, released: np.ndarray, key: jax.Array
) -> dict[str, float]:
    """Return what keeps the released models from the minimiser w_c of the unclipped objective.

    Runs of as many rounds without noise are made, one with the clipping norm and one that clips
    nothing. With r(a, b) the root mean square over clients of `||a_k - b_k||`, and the models w of
    the first, w' of the second, and v that were released,

        rounds    min(r(w', w_c), r(w, w_c))
        clipping  r(w, w_c) - rounds
        noise     r(v, w),

    so that r(v, w_c) is at most their sum. Clipping may help: early steps may be too long without.

    Returns:
      These three; "clipped", the share of the samples whose gradient at w is longer than the norm;
      "minimiser", the length of w_c. None of them is protected.
    """
    silent = [replace(settings, epsilon=math.inf, clip=norm) for norm in (settings.clip, _NO_CLIP)]
    models = []
    for i, each in enumerate(silent):
        solver = solver_of(each, plan_of(each))
        done = _done(solver, problem, jax.random.fold_in(key, i), each)
        models.append(np.asarray(solver.unprotected(done.state.solver), np.float64))
    best = np.asarray(problem.optimum, np.float64)
    ends = [_apart(each, best) for each in models]
    rounds = float(np.fmin.reduce(ends))
    ended = jnp.asarray(models[0], problem.features.dtype)
    return {
        "clipped": clipped_share(problem, ended, settings.clip),
        "clipping": ends[0] - rounds,
        "rounds": rounds,
        "noise": _apart(released, models[0]),
        "minimiser": float(np.linalg.norm(best)),
    }


def clipped_share(problem: ConsensusRegression, models: jax.Array, clip: float) -> float:
    """Return the share of all samples whose gradient `|s_j| ||x_kj||` is longer than a norm."""
    slopes = problem.slopes(problem.predictions(models))
    lengths = jnp.abs(slopes) * jnp.linalg.norm(problem.features, axis=-1)  # zero for padding
    return float(jnp.sum(lengths > clip) / jnp.sum(problem.sizes))


def _apart(models: np.ndarray, others: np.ndarray) -> float:
    """Return the root mean square of the distances of models, shape (clients, dim)."""
    return float(np.sqrt(np.mean(np.sum((models - others) ** 2, -1))))


def spent_by(plan: Plan, trace: Mapping[str, np.ndarray]) -> Spent:
    """Return what has been spent, shape (records, clients), as the ledger of the run has it.

    Only what classical mechanisms claim is the plan's, which the run has followed: the ledger has
    a bound of it.
    """
    spent = ledger(trace, plan.delta)
    if plan.accounting == "zcdp":
        return spent
    claimed = plan.spent(trace["releases"]).epsilon
    return spent._replace(epsilon=np.maximum(claimed, spent.exact_epsilon))


EVALUATED = ("unprotected_error", "released_error", "gap")


def public(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure what everybody who gets the messages can.

    Returns:
      "releases", how often every client has sent, "spent", "nominal" and "tails" for the ledger,
      (clients,); "deviation", that of the noise in what every client sent last, (clients,);
      "disagreement", the root mean square distance of the released models from their mean, ().
    """
    models = solver.estimate(state)
    apart = models - jnp.mean(models, 0, keepdims=True)
    names = ("releases", "spent", "nominal", "tails", "deviation")
    seen = {name: getattr(state, name) for name in names}
    return {**seen, "disagreement": jnp.sqrt(jnp.mean(jnp.sum(apart**2, -1)))}


def evaluated(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
    """Measure as `public`, and the errors of `consensus_gap`, which are not protected."""
    return {**public(solver, problem, state), **consensus_gap(solver, problem, state)}
