"""The loop over rounds: traces, resumption, status, grids and gradients."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, schedules
from tests.bits import same_bits

KEY = 7


def problem(key=0, noise=None):
    return fa.problems.draw_localization(
        jax.random.key(key), noise or fa.problems.cauchy_noise(1.0)
    )


def final_error(solver, problem, rounds=50, key=KEY):
    estimate = fa.run(solver, problem, jax.random.key(key), rounds=rounds).estimate
    return jnp.linalg.norm(estimate - problem.target)


def gap(solver, problem, state):
    """Residual for run_until: the largest distance between the clients and the server."""
    return jnp.max(jnp.abs(state.clients.x - state.server[None]))


def server(solver, problem, state):
    return {"w": state.server}


def test_trace_has_rounds_counts_and_measures():
    result = fa.run(
        fa.solvers.fsmdm(),
        problem(),
        jax.random.key(KEY),
        rounds=12,
        every=4,
        measure=fa.measures.localization_error,
        participation=participation.replay(np.tile(np.arange(21) < 5, (12, 1))),
    )
    np.testing.assert_array_equal(result.trace["round"], [4, 8, 12])
    np.testing.assert_array_equal(result.trace["messages"], [20, 20, 20])
    assert result.trace["error"].shape == (3,)
    assert int(result.state.index) == 12
    expected = np.linalg.norm(result.estimate - problem().target)
    np.testing.assert_allclose(result.trace["error"][-1], expected, rtol=1e-6)


def test_every_only_thins_the_record():
    runs = [
        fa.run(
            fa.solvers.fsmdm(), problem(), jax.random.key(KEY), rounds=12, every=e, measure=server
        )
        for e in (1, 4)
    ]
    same_bits(runs[0].state, runs[1].state)
    same_bits(runs[0].trace["w"][3::4], runs[1].trace["w"])


@pytest.mark.bits
@pytest.mark.kin(1)
@pytest.mark.parametrize(
    "process",
    [
        participation.markov_on_off(0.2, 0.3),
        participation.round_robin(4, 0.1),
        participation.everyone(),
        participation.bernoulli(0.4),
        participation.without_replacement(5),
    ],
    ids=lambda process: type(process).__name__,
)
def test_two_halves_are_the_whole_bit_for_bit(process):
    arguments = (fa.solvers.fsmdm(local_updates=2), problem(), jax.random.key(KEY))
    whole = fa.run(*arguments, rounds=40, participation=process, measure=server)
    first = fa.run(*arguments, rounds=20, participation=process, measure=server)
    second = fa.run(*arguments, rounds=20, participation=process, measure=server, start=first.state)
    same_bits(second.state, whole.state)
    joined = np.concatenate([first.trace["w"], second.trace["w"]])
    same_bits(joined, whole.trace["w"])
    np.testing.assert_array_equal(second.trace["round"], np.arange(21, 41))


def test_stacked_solver_is_a_grid():
    solvers = [fa.solvers.fsmdm(omega=omega) for omega in (5.0, 50.0)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *solvers)
    place = problem()
    errors = jax.vmap(lambda solver: final_error(solver, place))(stacked)
    np.testing.assert_allclose(errors, [final_error(s, place) for s in solvers], rtol=2e-4)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_gradient_of_the_final_error_matches_finite_differences():
    places = jax.vmap(
        lambda key: fa.problems.draw_localization(key, fa.problems.cauchy_noise(1.0))
    )(jax.random.split(jax.random.key(3), 4))

    def root_mean_square(log_beta, power):
        mu_h = schedules.power_decay(jnp.exp(log_beta), power)
        solver = fa.solvers.fsmdm("tuned", mu_h=mu_h)
        errors = jax.vmap(lambda place: final_error(solver, place, rounds=60))(places)
        return jnp.sqrt(jnp.mean(errors**2))

    point = (jnp.array(6.5), jnp.array(0.45))
    gradient = jax.grad(root_mean_square, (0, 1))(*point)
    step = 1e-6
    for i in range(2):
        ahead = [value + step * (i == j) for j, value in enumerate(point)]
        behind = [value - step * (i == j) for j, value in enumerate(point)]
        numerical = (root_mean_square(*ahead) - root_mean_square(*behind)) / (2 * step)
        assert abs(numerical) > 1e-3
        np.testing.assert_allclose(gradient[i], numerical, rtol=1e-4)


def test_a_batch_of_keys_is_a_monte_carlo_batch():
    keys = jax.random.split(jax.random.key(0), 5)
    place, process = problem(), participation.bernoulli(0.5)

    def estimate(key):
        return fa.run(fa.solvers.fsmdm(), place, key, rounds=20, participation=process).estimate

    batch = jax.vmap(estimate)(keys)
    for key, one in zip(keys, batch, strict=True):
        np.testing.assert_allclose(estimate(key), one, atol=1e-4)
    assert len({tuple(np.asarray(row)) for row in batch}) == 5


class TestRunUntil:
    def test_stops_where_the_residual_is_small(self):
        place = problem()
        result = fa.run_until(
            fa.solvers.fsmdm("tuned"),
            place,
            jax.random.key(KEY),
            residual=gap,
            tolerance=0.5,
            max_rounds=2000,
        )
        stopped = int(result.status.converged)
        assert 1 < stopped < 2000
        trace = fa.run(
            fa.solvers.fsmdm("tuned"),
            place,
            jax.random.key(KEY),
            rounds=stopped,
            measure=gap_measure,
        ).trace["gap"]
        assert trace[-1] <= 0.5
        assert np.all(trace[:-1] > 0.5)
        same_bits(result.trace["residual"][-1], trace[-1])
        np.testing.assert_array_equal(result.trace["messages"], [21 * stopped])

    def test_every_lane_stops_on_its_own(self):
        place = problem()

        def stop(tolerance):
            return fa.run_until(
                fa.solvers.fsmdm("tuned"),
                place,
                jax.random.key(KEY),
                residual=gap,
                tolerance=tolerance,
                max_rounds=1500,
            )

        tolerances = jnp.array([4.0, 1.0, 1e-9])
        lanes = jax.vmap(stop)(tolerances)
        alone = [stop(tolerance) for tolerance in tolerances]
        converged = [int(one.status.converged) for one in alone]
        np.testing.assert_array_equal(lanes.status.converged, converged)
        assert 0 < converged[0] < converged[1]
        assert converged[2] == 0
        np.testing.assert_array_equal(lanes.state.index[2], 1500)
        np.testing.assert_allclose(
            lanes.estimate, np.stack([one.estimate for one in alone]), atol=1e-3
        )

    def test_resumes(self):
        arguments = (fa.solvers.fsmdm("tuned"), problem(), jax.random.key(KEY))
        options = {"residual": gap, "tolerance": 0.5, "max_rounds": 2000}
        whole = fa.run_until(*arguments, **options)
        part = fa.run(*arguments, rounds=10)
        rest = fa.run_until(*arguments, **options, start=part.state)
        same_bits(rest.state, whole.state)
        again = fa.run_until(*arguments, **options, start=whole.state)
        chex.assert_trees_all_equal(whole.state, again.state)
        assert int(again.status.converged) == int(whole.status.converged)
        assert int(again.trace["messages"][0]) == 0


def gap_measure(solver, problem, state):
    return {"gap": gap(solver, problem, state)}


def test_first_nonfinite_round_is_told_and_nothing_raises():
    place = problem()
    bad = fa.schedule(lambda k, at: jnp.where(k == at, jnp.nan, 1.0), at=7.0)
    result = fa.run(
        fa.solvers.fed_subgradient(bad), place, jax.random.key(KEY), rounds=10, measure=server
    )
    assert int(result.status.nonfinite) == 7
    assert np.isfinite(result.trace["w"][:6]).all()
    assert np.isnan(result.trace["w"][6:]).all()
    until = fa.run_until(
        fa.solvers.fed_subgradient(bad),
        place,
        jax.random.key(KEY),
        residual=constant_residual,
        tolerance=0.5,
        max_rounds=100,
    )
    assert int(until.status.nonfinite) == int(until.state.index) == 7


def constant_residual(solver, problem, state):
    return jnp.ones(())


def test_solver_numbers_follow_the_dtype_of_the_problem():
    place = problem()
    with jax.enable_x64(True):
        solver = fa.solvers.fsmdm()
        assert solver.omega.dtype == jnp.float64
        result = fa.run(solver, place, jax.random.key(KEY), rounds=3)
    assert result.estimate.dtype == jnp.float32


MISTAKES = {
    "masks holds 4 rounds, but the run needs 5": {
        "rounds": 5,
        "participation": participation.replay(np.ones((4, 21), bool)),
    },
    "masks must have shape (any, 21), but it has (5, 20).": {
        "rounds": 5,
        "participation": participation.replay(np.ones((5, 20), bool)),
    },
    "probability must have shape () or (21,), but it has (3,).": {
        "rounds": 5,
        "participation": participation.bernoulli(np.full(3, 0.5)),
    },
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_mistakes_get_a_sentence(sentence):
    with pytest.raises(fa.InputError) as caught:
        fa.run(fa.solvers.fsmdm(), problem(), jax.random.key(0), **MISTAKES[sentence])
    assert str(caught.value).startswith(sentence)


def test_replay_resumed_past_its_end_is_refused():
    process = participation.replay(np.ones((10, 21), bool))
    arguments = (fa.solvers.fsmdm(), problem(), jax.random.key(0))
    first = fa.run(*arguments, rounds=10, participation=process)
    with pytest.raises(fa.InputError, match="masks holds 10 rounds, but the run needs 11"):
        fa.run(*arguments, rounds=1, participation=process, start=first.state)


def test_calls_that_are_repeated_are_checked_for_what_changes():
    """The same arrays, going on: masks that last for some of the rounds, and another key."""
    process = participation.replay(np.ones((5, 21), bool))
    arguments, key = (fa.solvers.fsmdm(), problem()), jax.random.key(0)
    run = partial(fa.run, *arguments, rounds=1, participation=process)
    done = first = run(key)
    for _ in range(4):
        done = run(key, start=done.state)
    with pytest.raises(fa.InputError, match="masks holds 5 rounds, but the run needs 6"):
        run(key, start=done.state)
    with pytest.raises(fa.InputError, match="key must be the key of the run that is resumed"):
        run(jax.random.key(1), start=done.state)
    second = run(key, start=first.state)  # not the last state
    assert int(second.state.index) == 2
    second.state.solver.server.delete()
    with pytest.raises(fa.InputError, match=r"start holds an array of shape \(3,\) that"):
        run(key, start=second.state)
    with pytest.raises(fa.InputError, match="a typed key"):
        run(jnp.zeros(2, jnp.uint32))


@pytest.mark.thorough
def test_a_state_that_was_made_by_hand_takes_the_key_of_the_run():
    arguments = (fa.solvers.fsmdm(), problem())
    first = fa.run(*arguments, jax.random.key(0), rounds=1)
    state = first.state._replace(fingerprint=None)
    second = fa.run(*arguments, jax.random.key(0), rounds=1, start=state)
    assert int(second.state.fingerprint) == int(first.state.fingerprint)
