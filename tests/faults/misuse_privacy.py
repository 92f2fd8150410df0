"""Misuse of what privacy rests on: keys, budgets, units, plans, releases and ledgers."""

import contextvars
import functools
import itertools
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import graphs, losses, participation, privacy
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
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


def release_of(clip=1.0, epsilon=2.0, rounds=6):
    return privacy.gaussian_release(privacy.zcdp_plan(epsilon, DELTA, rounds), clip)


def solver_of(clip=1.0, epsilon=2.0, **options):
    return private_subgradient(release_of(clip, epsilon), **options)


def nominal(build=private_subgradient):
    plan = privacy.zcdp_plan(2.0, DELTA, 6)
    return build(privacy.gaussian_release(plan, None, nominal_norm=1.0))


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


def changed_sample():
    problem = problem_of()
    return replace(problem, targets=problem.targets.at[0, 0].set(9.0))


@watched
def two_continuations(key):
    state = go(key=key).state
    go(key=key, start=state)
    go(solver_of(2.0), key=key, start=state)


@watched
def continuation_beside_the_whole(key):
    state = go(key=key).state
    go(key=key, rounds=2)
    go(solver_of(2.0), key=key, start=state)


@watched
def whole_after_another_continuation(key):
    state = go(key=key).state
    go(solver_of(2.0), key=key, start=state)
    go(key=key, rounds=2)


@watched
def edited_state(key):
    state = go(key=key).state
    go(key=key, start=state)
    nodes = state.solver.nodes
    models = state.solver._replace(nodes=nodes._replace(v=nodes.v + 1))
    go(key=key, start=state._replace(solver=models))


@watched
def rewound_state(key):
    state = go(key=key, rounds=2).state
    go(key=key, start=state._replace(index=jnp.int32(0)))


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


def with_another_key():
    go(key=fresh(), start=go().state)


def trace_without(*names):
    def call():
        trace = {
            "spent": np.ones(2),
            "releases": np.ones(2, np.int32),
            "nominal": np.zeros(2, bool),
            "tails": np.zeros(2),
        }
        for name in names:
            del trace[name]
        privacy.ledger(trace, DELTA)

    return call


def ledger_of_a_run(delta=DELTA, **options):
    return lambda: privacy.ledger(go(rounds=0), delta, **options)


REUSED = "key must be used once, but a private run of this process has used it from round"
UNITS = "start must be the state of a run whose gradients were"
LEDGER = "released must be a Run of a private solver, its state, or a trace with"
ROWS = [
    # One key, two courses of events.
    Misuse("two-norms", after_one_run(solver=lambda: solver_of(2.0)), f"{REUSED} 1 on"),
    Misuse("two-plans", after_one_run(solver=lambda: solver_of(epsilon=1.0)), f"{REUSED} 1 on"),
    Misuse("two-steps", after_one_run(solver=lambda: solver_of(step_size=0.3)), f"{REUSED} 1 on"),
    Misuse(
        "two-methods",
        after_one_run(solver=lambda: private_networked_admm(release_of())),
        f"{REUSED} 1 on",
    ),
    Misuse("two-units", after_one_run(solver=nominal), f"{REUSED} 1 on"),
    Misuse("two-data-sets", after_one_run(problem=lambda: problem_of(1)), f"{REUSED} 1 on"),
    Misuse("one-sample-changed", after_one_run(problem=changed_sample), f"{REUSED} 1 on"),
    Misuse(
        "two-participations",
        after_one_run(participation=lambda: participation.bernoulli(0.5)),
        f"{REUSED} 1 on",
    ),
    Misuse("two-continuations", two_continuations, f"{REUSED} 2 on"),
    Misuse("a-continuation-beside-the-whole", continuation_beside_the_whole, f"{REUSED} 2 on"),
    Misuse(
        "the-whole-after-another-continuation", whole_after_another_continuation, f"{REUSED} 2 on"
    ),
    Misuse("an-edited-state", edited_state, f"{REUSED} 2 on"),
    Misuse("a-state-turned-back", rewound_state, f"{REUSED} 1 on"),
    Misuse("run-until-after-run", run_until_after_run, f"{REUSED} 1 on"),
    Misuse("another-key-for-the-rest", with_another_key, "key must be the key of the run that is"),
    # Units and plans that do not go together.
    Misuse(
        "clipped-then-nominal", resumed(solver_of, nominal), f"{UNITS} not clipped, as those of"
    ),
    Misuse("nominal-then-clipped", resumed(nominal, solver_of), f"{UNITS} clipped, as those of"),
    Misuse(
        "units-of-admm",
        resumed(
            lambda: private_networked_admm(release_of()), lambda: nominal(private_networked_admm)
        ),
        UNITS,
    ),
    Misuse(
        "units-of-p-admm",
        resumed(lambda: nominal(p_admm), lambda: p_admm(release_of())),
        UNITS,
    ),
    Misuse(
        "state-of-another-private-solver",
        resumed(lambda: private_networked_admm(release_of()), solver_of),
        "start must be the state of a run of this solver on this problem",
    ),
    Misuse(
        "past-the-plan-in-two-parts",
        resumed(solver_of, solver_of, rounds=6),
        "rounds must be at most 6, for which the noise is planned, but it is 7",
    ),
    Misuse(
        "a-shorter-plan-for-the-rest",
        resumed(solver_of, lambda: private_subgradient(release_of(rounds=2)), rounds=3),
        "rounds must be at most 2, for which the noise is planned, but it is 4",
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
        "ledger-of-a-plan", lambda: privacy.ledger(privacy.zcdp_plan(1.0, DELTA, 2), DELTA), LEDGER
    ),
    Misuse("ledger-of-numbers", lambda: privacy.ledger(np.ones(3), DELTA), LEDGER),
    Misuse("ledger-of-nothing", lambda: privacy.ledger(None, DELTA), LEDGER),
    Misuse("ledger-of-releases-alone", trace_without("spent", "nominal"), LEDGER),
    Misuse("ledger-without-its-unit", trace_without("nominal"), LEDGER),
    Misuse(
        "ledger-inside-jit",
        lambda: jax.jit(
            lambda spent: privacy.ledger(
                {
                    "spent": spent,
                    "releases": np.ones(2, np.int32),
                    "nominal": np.zeros(2, bool),
                    "tails": np.zeros(2),
                },
                DELTA,
            )
        )(np.ones(2, np.float32)),
        "released must be known on the host, but it is traced",
    ),
    Misuse("ledger-without-its-tails", trace_without("tails"), LEDGER),
    Misuse("ledger-at-delta-0", ledger_of_a_run(0.0), "delta must be greater than 0"),
    Misuse("ledger-at-delta-1", ledger_of_a_run(1.0), "delta must be less than 1"),
    Misuse("ledger-at-delta-nan", ledger_of_a_run(math.nan), "delta must be a number"),
    Misuse(
        "ledger-by-a-plan-for-delta",
        lambda: privacy.ledger(go(rounds=0), privacy.zcdp_plan(1.0, DELTA, 2)),
        "delta must be a number",
    ),
    Misuse(
        "ledger-by-an-unknown-accounting",
        ledger_of_a_run(accounting="renyi"),
        "accounting must be one of zcdp, advanced, basic, but it is 'renyi'",
    ),
    # Noise that is none.
    Misuse(
        "a-plan-for-a-release",
        lambda: private_subgradient(privacy.zcdp_plan(1.0, DELTA, 2)),
        "release must be gaussian_release",
    ),
    Misuse("a-number-for-a-release", lambda: p_admm(1.0), "release must be gaussian_release"),
    Misuse(
        "a-builder-for-a-release",
        lambda: private_networked_admm(privacy.gaussian_release),
        "release must be gaussian_release",
    ),
    Misuse(
        "a-class-for-a-release",
        lambda: private_networked_admm(privacy.GaussianRelease),
        "release must be gaussian_release",
    ),
    Misuse(
        "no-norm",
        lambda: privacy.gaussian_release(privacy.zcdp_plan(1.0, DELTA, 2), None),
        "clip must be a positive number; or clip=None with nominal_norm",
    ),
    Misuse(
        "two-kinds-of-norm",
        lambda: privacy.gaussian_release(privacy.zcdp_plan(1.0, DELTA, 2), 1.0, nominal_norm=1.0),
        "clip must be a positive number; or clip=None with nominal_norm",
    ),
    Misuse("a-norm-of-nan", lambda: release_of(math.nan), "clip must be"),
    Misuse("a-negative-norm", lambda: release_of(-1.0), "clip must be"),
    Misuse("an-infinite-norm", lambda: release_of(math.inf), "clip must be"),
    Misuse(
        "an-epsilon-for-a-plan",
        lambda: privacy.gaussian_release(1.0, 1.0),
        "plan must be a Plan such as zcdp_plan makes",
    ),
    Misuse("epsilon-nan", lambda: privacy.zcdp_plan(math.nan, DELTA, 2), "epsilon must be"),
    Misuse("epsilon-0", lambda: privacy.zcdp_plan(0.0, DELTA, 2), "epsilon must be"),
    Misuse("delta-2", lambda: privacy.zcdp_plan(1.0, 2.0, 2), "delta must be less than 1"),
    Misuse("tau-above-1", lambda: privacy.zcdp_plan(1.0, DELTA, 2, 1.5), "tau must be at most 1"),
    Misuse("rounds-that-are-no-whole-number", lambda: privacy.zcdp_plan(1.0, DELTA, 2.5), "rounds"),
    Misuse(
        "an-unknown-composition",
        lambda: privacy.approximate_plan(1.0, DELTA, 2, composition="zcdp"),
        "composition must be one of 'advanced' and 'basic', but it is 'zcdp'.",
    ),
    Misuse(
        "more-than-planned",
        lambda: privacy.zcdp_plan(1.0, DELTA, 2).spent([3]),
        "releases must be between 0 and 2, the planned number, but there is 3",
    ),
    Misuse(
        "less-than-nothing",
        lambda: privacy.zcdp_plan(1.0, DELTA, 2).spent([-1]),
        "releases must be between 0 and 2, .* but there is -1",
    ),
    Misuse(
        "no-settings-to-tune",
        lambda: privacy.tune_private(lambda _: None, [], problem_of, jax.random.key(0)),
        "settings must hold at least one setting",
    ),
]
