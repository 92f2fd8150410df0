"""Subgradient descent with all data in one place: trajectories, steps by hand, mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, penalties, schedules, trees
from tests.reference import hfsad as reference


def step_length(rule):
    """Return the package's counterpart of a rule of the reference."""
    if rule[0] == "geo":
        return schedules.geometric(rule[1], rule[2])
    return schedules.sqrt_decay(rule[1]) if rule[0] == "sqrt" else fa.solvers.polyak(rule[1])


def scad():
    return penalties.scad(reference.SCAD_LAMBDA, reference.SCAD_GAMMA)


def model(solver, problem, state):
    return {"w": state.server.model}


# Of the methods compared here, geometric steps of ratio 0.99 amplify rounding the most, by jumps at
# the kinks of the loss. How fast they do depends on the trial: from 1e-16 to 1e-9 in 105 steps in
# trial 0 (1e-2 after 400), not within 400 in trial 2 (1e-11); Polyak's and short steps stay at
# 1e-15 in all.
@pytest.mark.kin(2)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("rule", "trial", "steps"),
    [
        (("geo", 1.0, 0.99), 0, 80),
        (("geo", 1.0, 0.99), 2, 300),
        (("geo", 1.0, 0.98), 2, 300),
        (("sqrt", 1.0), 2, 300),
        (("sqrt", 0.1), 0, 400),
        (("polyak", None), 0, 400),
    ],
)
def test_trajectory_is_the_reference(rule, trial, steps):
    x, y, truth = reference.phase_trial(0, trial)
    start = reference.spectral_start(x, y)
    if rule[0] == "polyak":
        rule = ("polyak", reference.phase_objective(truth, x, y))
    problem = fa.problems.phase_retrieval(x, y, trees.from_counts([50] * 5), start=start)
    solver = fa.solvers.centralized_subgradient(step_length(rule), scad())
    trace = fa.run(solver, problem, jax.random.key(0), rounds=steps, measure=model).trace
    wanted = reference.subgradient(x, y, start, steps, rule)
    np.testing.assert_allclose(trace["w"], wanted, rtol=0, atol=1e-9)


# --- steps by hand ------------------------------------------------------------------------------
#
# At w = (2, 1) the squared projections are 4, 4, 9 and the measurements 1, 0, 5: the losses are
# 3, 4, 4, and their subgradients (4, 0), (0, 8), (6, 6).


def by_hand(**options):
    x = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    tree = options.pop("tree", None)
    return fa.problems.phase_retrieval(
        x, np.array([1.0, 0.0, 5.0]), tree, start=[2.0, 1.0], **options
    )


def one_step(solver, problem, active, state=None):
    state = solver.init(problem, jax.random.key(0)) if state is None else state
    info = fa.RoundInfo(jnp.int32(0), jax.random.key(0), jnp.asarray(active))
    return solver.step(problem, state, info)


@pytest.mark.thorough
@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("active", "weight", "gradient"),
    [
        ([True, True, True], 0.0, [10.0, 14.0]),
        ([True, False, True], 0.0, [10.0, 6.0]),
        # The sum of those who are there is divided by all: 10 / 3 + 1 and 6 / 3 + 1.
        ([True, False, True], 1.0, [13.0, 9.0]),
        ([False, False, True], 2.0, [12.0, 12.0]),
    ],
)
def test_terms_of_absent_clients_are_left_out(active, weight, gradient):
    solver = fa.solvers.centralized_subgradient(schedules.constant(0.5), penalties.l1(weight))
    new = one_step(solver, by_hand(), active)
    wanted = np.array([2.0, 1.0]) - 0.5 * np.array(gradient) / np.linalg.norm(gradient)
    np.testing.assert_allclose(new.server.model, wanted, atol=1e-14)
    assert int(new.server.rounds) == 1


@pytest.mark.usefixtures("x64")
def test_steps_count_the_rounds_in_which_a_client_takes_part():
    solver = fa.solvers.centralized_subgradient(schedules.power_decay(0.5, 1.0))
    problem = by_hand()
    state = one_step(solver, problem, [False] * 3)
    np.testing.assert_array_equal(state.server.model, [2.0, 1.0])
    state = one_step(solver, problem, [True, False, False], state)
    np.testing.assert_allclose(state.server.model, [1.5, 1.0], atol=1e-14)
    assert int(state.server.rounds) == 1


@pytest.mark.usefixtures("x64")
def test_polyak_step_reaches_for_the_optimum():
    """F = 11 / 3 and g = (10, 14) / 3, so that with F* = 1 the step is (8 / 3) / ||g||."""
    new = one_step(
        fa.solvers.centralized_subgradient(fa.solvers.polyak(1.0)), by_hand(), [True] * 3
    )
    gradient = np.array([10.0, 14.0]) / 3
    wanted = np.array([2.0, 1.0]) - (8 / 3) * gradient / (gradient @ gradient)
    np.testing.assert_allclose(new.server.model, wanted, atol=1e-14)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("optimum", [11 / 3 + 1e-12, 4.0])
def test_polyak_step_has_no_length_at_the_optimum_or_below(optimum):
    new = one_step(
        fa.solvers.centralized_subgradient(fa.solvers.polyak(optimum)), by_hand(), [True] * 3
    )
    np.testing.assert_array_equal(new.server.model, [2.0, 1.0])


def test_at_an_exact_signal_no_rule_moves(dtype):
    """All subgradients are zero there, and 0 / 0 is taken for 0."""
    x, truth = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 2.0]]), np.array([2.0, -1.0])
    problem = fa.problems.phase_retrieval(x, (x @ truth) ** 2, start=truth)
    for rule in (fa.solvers.polyak(0.0), schedules.geometric(1.0, 0.9)):
        solver = fa.solvers.centralized_subgradient(rule)
        estimate = fa.run(solver, problem, jax.random.key(0), rounds=5).estimate
        assert estimate.dtype == dtype
        np.testing.assert_array_equal(estimate, truth)


@pytest.mark.parametrize(
    ("tree", "active", "count"),
    [
        (None, [True, False, True], 2),
        (None, [False] * 3, 0),
        ([2, 1], [True, False, True], 4),
        ([[1], [1, 1]], [True, True, True], 8),
    ],
    ids=["star", "star, nobody", "depth 2", "depth 3"],
)
def test_messages_counted_by_hand(tree, active, count):
    """One for each active client and one for each server below the root."""
    problem = by_hand(tree=None if tree is None else trees.from_counts(tree))
    solver = fa.solvers.centralized_subgradient(schedules.constant(0.5))
    found = solver.messages(problem, jnp.asarray(active))
    assert found.shape == ()
    assert found.dtype == jnp.int32
    assert int(found) == count
    assert solver.traffic(problem) == fa.Traffic(2, 2)
    process = participation.replay(np.array([active] * 2))
    result = fa.run(solver, problem, jax.random.key(0), rounds=2, participation=process)
    np.testing.assert_array_equal(result.trace["messages"], [count, count])


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (
            lambda: fa.solvers.centralized_subgradient("0.1"),
            "step_length must be a schedule, a function of a count or a number, but it is '0.1'.",
        ),
        (lambda: fa.solvers.polyak("F"), "optimum must be a number, but it is 'F'."),
        (lambda: fa.solvers.polyak(np.inf), "optimum must be finite, but it is inf."),
        (
            lambda: fa.run(
                fa.solvers.centralized_subgradient(schedules.constant(1.0)),
                fa.problems.localization(np.eye(3), np.ones(3), start=np.zeros(3)),
                jax.random.key(0),
                rounds=1,
            ),
            "CentralizedSubgradient needs a problem with tree (OnTree), and project (Projection), "
            "which Localization lacks; problems.federated, phase_retrieval and robust_regression "
            "have them.",
        ),
    ],
)
def test_mistakes_get_a_sentence(mistake, sentence):
    with pytest.raises(fa.InputError) as caught:
        mistake()
    assert str(caught.value) == sentence
