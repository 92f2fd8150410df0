"""The likeliest misuses of private solvers: keys, budgets, plans, releases and ledgers."""

import contextvars
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import graphs, losses, participation, privacy
from fedjax_admm.solvers import private_subgradient
from tests.faults.row import Misuse

DELTA = 1e-5
_NUMBERS = itertools.count(90_000)


@functools.cache
def problem_of(seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3))
    loss = losses.squared()
    return fa.problems.consensus_regression(
        graphs.from_edges(2, [(0, 1)]), list(x), list(y), loss, l2=0.5
    )


def release_of(clip=1.0):
    return privacy.gaussian_release(privacy.zcdp_plan(2.0, DELTA, 6), clip)


def solver_of(clip=1.0):
    return private_subgradient(release_of(clip))


def nominal():
    plan = privacy.zcdp_plan(2.0, DELTA, 6)
    return private_subgradient(privacy.gaussian_release(plan, None, nominal_norm=1.0))


def fresh():
    return jax.random.key(next(_NUMBERS))


def go(solver=None, problem=None, key=None, rounds=1, **options):
    key = fresh() if key is None else key
    return fa.run(solver or solver_of(), problem or problem_of(), key, rounds=rounds, **options)


def watched(call):
    """Decorate a call that gets a new key: keys are watched in it, as they are for users."""
    return lambda: contextvars.Context().run(lambda: call(fresh()))


def after_one_run(**second):
    """Return a call: a run, and with its key another one, whose arguments are made by functions."""

    @watched
    def call(key):
        go(key=key)
        go(key=key, **{name: make() for name, make in second.items()})

    return call


@watched
def two_continuations(key):
    state = go(key=key).state
    go(key=key, start=state)
    go(solver_of(2.0), key=key, start=state)


@watched
def run_until_after_run(key):
    def size(solver, problem, state):
        return jnp.sum(state.nodes.v**2)

    go(key=key)
    fa.run_until(solver_of(2.0), problem_of(), key, residual=size, tolerance=0.0, max_rounds=2)


def resumed(first, second, **options):
    """Return a call of a run, and of another that goes on from its state."""

    def call():
        key = fresh()
        state = go(first(), key=key, **options).state
        go(second(), key=key, start=state)

    return call


REUSED = "key must be used once, but a private run of this process has used it from round"
UNITS = "start must be the state of a run whose gradients were"
LEDGER = "released must be a Run of a private solver, its state, or a trace with"
ROWS = [
    # One key, two courses of events.
    Misuse("two-norms", after_one_run(solver=lambda: solver_of(2.0)), f"{REUSED} 1 on"),
    Misuse("two-data-sets", after_one_run(problem=lambda: problem_of(1)), f"{REUSED} 1 on"),
    Misuse(
        "two-participations",
        after_one_run(participation=lambda: participation.bernoulli(0.5)),
        f"{REUSED} 1 on",
    ),
    Misuse("two-continuations", two_continuations, f"{REUSED} 2 on"),
    Misuse("run-until-after-run", run_until_after_run, f"{REUSED} 1 on"),
    # Units and plans that do not go together.
    Misuse(
        "clipped-then-nominal", resumed(solver_of, nominal), f"{UNITS} not clipped, as those of"
    ),
    Misuse(
        "past-the-plan-in-two-parts",
        resumed(solver_of, solver_of, rounds=6),
        "rounds must be at most 6, for which the noise is planned, but it is 7",
    ),
    # Ledgers of what nobody has spent.
    Misuse(
        "ledger-of-another-solver",
        lambda: privacy.ledger(
            fa.run(
                fa.solvers.fsmdm(),
                fa.problems.draw_localization(jax.random.key(0), fa.problems.cauchy_noise(1.0)),
                jax.random.key(0),
                rounds=0,
            ),
            DELTA,
        ),
        LEDGER,
    ),
    Misuse(
        "ledger-at-delta-0",
        lambda: privacy.ledger(go(rounds=0), 0.0),
        "delta must be greater",
    ),
    # Noise that is none.
    Misuse(
        "a-plan-for-a-release",
        lambda: private_subgradient(privacy.zcdp_plan(1.0, DELTA, 2)),
        "release must be gaussian_release",
    ),
    Misuse(
        "no-norm",
        lambda: privacy.gaussian_release(privacy.zcdp_plan(1.0, DELTA, 2), None),
        "clip must be a positive number; or clip=None with nominal_norm",
    ),
    Misuse("a-negative-norm", lambda: release_of(-1.0), "clip must be"),
    Misuse("epsilon-0", lambda: privacy.zcdp_plan(0.0, DELTA, 2), "epsilon must be"),
    Misuse("delta-2", lambda: privacy.zcdp_plan(1.0, 2.0, 2), "delta must be less than 1"),
    Misuse(
        "more-than-planned",
        lambda: privacy.zcdp_plan(1.0, DELTA, 2).spent([3]),
        "releases must be between 0 and 2, the planned number, but there is 3",
    ),
]
