"""FSMDM: trajectories, invariants, presets, mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, schedules
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.solvers import FSMDM_PRESETS, fsmdm_convergence_conditions
from tests.reference import fsmdm as reference, star_averaging as star
from tests.solvers.quadratics import Quadratics, draw

CONSTANTS = {"published": reference.PUBLISHED, "tuned": reference.TUNED}


def problem_of(anchors, distances, target=None):
    return fa.problems.localization(
        anchors, distances, start=np.zeros(anchors.shape[1]), target=target
    )


def whole_state(solver, problem, state):
    held = state.clients._asdict()
    assert held.pop("xi") == ()  # it is -zeta, as nothing changes messages
    return {"server": state.server, **held, "xi": -held["zeta"]}


def run_cases(solver, cases, rounds, measure, every=1):
    """Run one solver on a batch of given trials; arrays (trial, record, ...)."""
    anchors, distances, targets = (jnp.asarray(part) for part in cases)

    def one(a, d, x):
        problem = fa.problems.Localization(a, d, jnp.zeros(3, a.dtype), x)
        return fa.run(
            solver, problem, jax.random.key(0), rounds=rounds, measure=measure, every=every
        ).trace

    return jax.jit(lambda *parts: jax.lax.map(lambda p: one(*p), parts, batch_size=50))(
        anchors, distances, targets
    )


@pytest.mark.kin(2)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("preset", CONSTANTS)
@pytest.mark.parametrize("local_updates", [1, 3])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_trajectory_of_every_variable_is_the_reference(preset, local_updates, asynchronous):
    rounds = 60
    anchors, distances, _ = reference.cauchy_trial(2025, 3, 1.0)
    masks = None
    process = participation.everyone()
    if asynchronous:
        masks = np.random.default_rng(5).random((rounds, 21)) < 0.4
        process = participation.replay(masks)
    truth = reference.fsmdm(
        anchors,
        distances,
        rounds=rounds,
        local_updates=local_updates,
        masks=masks,
        **CONSTANTS[preset],
    )
    trace = fa.run(
        fa.solvers.fsmdm(preset, local_updates=local_updates),
        problem_of(anchors, distances),
        jax.random.key(0),
        rounds=rounds,
        participation=process,
        measure=whole_state,
    ).trace
    np.testing.assert_array_equal(trace["updates"], truth["k"])
    pairs = {"server": "w"} | {name: name for name in ("x", "z", "g", "q", "psi", "xi", "zeta")}
    for mine, theirs in pairs.items():
        np.testing.assert_allclose(trace[mine], truth[theirs], atol=1e-9, err_msg=mine)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_trajectory_with_a_regulariser_is_the_reference():
    rounds, weight = 60, 3.0
    anchors, distances, _ = reference.cauchy_trial(2025, 3, 1.0)
    masks = np.random.default_rng(5).random((rounds, 21)) < 0.4
    truth = reference.fsmdm(
        anchors, distances, rounds=rounds, masks=masks, l1=weight, **reference.TUNED
    )
    trace = fa.run(
        fa.solvers.fsmdm("tuned", regularizer=fa.penalties.l1(weight)),
        problem_of(anchors, distances),
        jax.random.key(0),
        rounds=rounds,
        participation=participation.replay(masks),
        measure=whole_state,
    ).trace
    np.testing.assert_allclose(trace["server"], truth["w"], rtol=0, atol=1e-9)
    for name in ("x", "q", "zeta"):
        np.testing.assert_allclose(trace[name], truth[name], rtol=0, atol=1e-9, err_msg=name)
    plain = reference.fsmdm(anchors, distances, rounds=rounds, masks=masks, **reference.TUNED)
    assert np.abs(truth["w"] - plain["w"]).max() > 1e-2


@pytree_dataclass
class Convex(Quadratics):
    """Quadratic losses as differences of convex functions: less nothing."""

    def prox_convex_part(self, points, step):
        return self.prox(points, step, ())[0]

    def prox_concave_part(self, points, step, mu):
        return points

    def take(self, clients):
        return Convex(self.hessians[clients], self.linear[clients], self.start)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "process", [participation.everyone(), participation.without_replacement(4)]
)
def test_a_problem_of_ones_own_with_a_regulariser(process):
    """The regulariser is added to the sum of the ten losses: 0.5 there is 0.05 with their mean."""
    problem = Convex(*map(jnp.asarray, draw()), jnp.zeros(5))
    regularizer = fa.penalties.l1(0.5)
    solver = fa.solvers.fsmdm(c=0.1, alpha=20, d=0.1, beta=0.1, omega=5, regularizer=regularizer)
    found = fa.run(solver, problem, jax.random.key(0), rounds=3000, participation=process).estimate
    np.testing.assert_allclose(found, star.lasso(*draw(), 0.05), rtol=0, atol=5e-4)
    np.testing.assert_array_equal(found == 0, [True, False, True, False, False])


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("preset", CONSTANTS)
@pytest.mark.parametrize("local_updates", [1, 3])
def test_duals_are_the_gradients_that_the_optimality_conditions_say(preset, local_updates):
    anchors, distances, _ = reference.outlier_trial(2025, 1, 0.2)
    solver = fa.solvers.fsmdm(preset, local_updates=local_updates)
    trace = fa.run(
        solver,
        problem_of(anchors, distances),
        jax.random.key(0),
        rounds=100,
        participation=participation.bernoulli(0.6),
        measure=whole_state,
    ).trace
    trace = {name: np.asarray(value) for name, value in trace.items()}
    has_acted = trace["updates"] > 0
    root = np.sqrt(np.maximum(trace["updates"], 1))[..., None]
    mu_h, mu_phi = CONSTANTS[preset]["beta"] / root, CONSTANTS[preset]["alpha"] / root
    omega = CONSTANTS[preset]["omega"]

    slope = np.clip((trace["q"] - trace["g"]) / mu_h, -1, 1)
    np.testing.assert_allclose(trace["xi"], -omega * slope, atol=1e-9)
    assert np.abs(trace["xi"]).max() <= omega * (1 + 1e-12)

    offset = trace["z"] - anchors[None]
    length = np.linalg.norm(offset, axis=-1, keepdims=True)
    envelope = np.where(has_acted[..., None], -offset / np.maximum(length, mu_phi), 0)
    np.testing.assert_allclose(trace["psi"], envelope, atol=1e-9)
    assert np.linalg.norm(trace["psi"], axis=-1).max() <= 1 + 1e-12


def largest_gaps(solver, problem, state):
    client = state.clients
    return {
        "link": jnp.max(jnp.abs(client.x - state.server[None])),
        "split": jnp.max(jnp.abs(client.x - client.z)),
        "dual_sum": jnp.max(jnp.abs(jnp.sum(client.zeta, 0))),
    }


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_consensus_gap_is_the_smoothing_over_omega():
    """At a quasi-stationary point x - w = mu_h xi / omega, so the gap is at most mu_h / omega."""
    cases = reference.stack_trials(reference.cauchy_trial, 2025, 20, 1.0)
    trace = run_cases(fa.solvers.fsmdm(), cases, 1000, largest_gaps)
    gap = np.median(trace["link"], axis=0)
    bound = 100 * np.sqrt(3) / 10 / np.sqrt(np.arange(1, 1001))
    np.testing.assert_allclose(gap[[299, 999]], bound[[299, 999]], rtol=0.03)
    # KKT: the copies of the concave part agree and the duals of the link sum to zero.
    assert np.median(trace["split"], axis=0)[-1] < 1e-3
    assert np.median(trace["dual_sum"], axis=0)[-1] < 0.03


def test_presets_and_conditions():
    published, tuned = FSMDM_PRESETS["published"], FSMDM_PRESETS["tuned"]
    for preset in (published, tuned):
        constants = {name: preset[name] for name in ("c", "d", "alpha", "beta")}
        assert all(fsmdm_convergence_conditions(**constants).values())
    assert published["alpha"] * published["c"] == pytest.approx(np.sqrt(1.5), rel=1e-12)
    assert published["beta"] * published["d"] == pytest.approx(np.sqrt(180), rel=1e-12)
    assert tuned["beta"] * tuned["d"] == pytest.approx(np.sqrt(180), rel=1e-12)
    weak = fsmdm_convergence_conditions(c=0.007, d=0.01, alpha=173.0, beta=173.0)
    assert weak == {"beta d >= sqrt(80)": False, "alpha c >= sqrt(3/2)": False}
    for name in ("published", "tuned"):
        solver = fa.solvers.fsmdm(name)
        assert float(solver.sigma_xi.scale) == pytest.approx(CONSTANTS[name]["d"], rel=1e-6)
        assert float(solver.mu_h.scale) == pytest.approx(CONSTANTS[name]["beta"], rel=1e-6)
        assert float(solver.omega) == CONSTANTS[name]["omega"]


@pytest.mark.thorough
def test_a_schedule_replaces_a_constant():
    problem = fa.problems.draw_localization(jax.random.key(0), fa.problems.cauchy_noise(1.0))
    beta = FSMDM_PRESETS["published"]["beta"]
    same = fa.solvers.fsmdm(mu_h=schedules.power_decay(beta, 0.5))
    other = fa.solvers.fsmdm(mu_h=schedules.power_decay(beta, 0.9))
    estimates = [
        np.asarray(fa.run(s, problem, jax.random.key(0), rounds=30).estimate)
        for s in (fa.solvers.fsmdm(), same, other)
    ]
    np.testing.assert_allclose(estimates[0], estimates[1], atol=1e-3)
    assert np.abs(estimates[0] - estimates[2]).max() > 0.05


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"preset": "best"}, "preset must be one of 'published' and 'tuned', but it is 'best'."),
        ({"omega": -1}, "omega must be greater than 0, but it is -1."),
        ({"c": 0.001}, "alpha * c must exceed 1 (the paper asks for sqrt(3/2)), but alpha is"),
        ({"local_updates": 0}, "local_updates must be at least 1, but it is 0."),
        (
            {"beta": 3.0, "mu_h": schedules.sqrt_decay(3.0)},
            "beta is 3.0, but the schedule that it would make is given too; leave one of",
        ),
    ],
)
def test_mistakes_get_a_sentence(arguments, sentence):
    with pytest.raises(fa.InputError) as caught:
        fa.solvers.fsmdm(**arguments)
    assert str(caught.value).startswith(sentence)
