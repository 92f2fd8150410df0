"""A key serves once: what a second use reveals, what is refused, and what cannot be seen."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs, key_reuse_allowed, losses, participation
from fedjax_admm._run._key_uses import key_use
from fedjax_admm._run._noise import hides
from fedjax_admm.privacy import exact_release, gaussian_release, zcdp_plan
from fedjax_admm.solvers import private_networked_admm, private_subgradient
from fedjax_admm.solvers.wrappers._personal import Personal
from tests.solvers.private.cases import WITHOUT_OPTIMUM

DELTA = 1e-5
REUSED = "key must be used once, but a private run of this process has used it from round"


@pytest.fixture(autouse=True)
def keys_serve_again():
    """Have keys watched here, as they are for users."""


@pytest.fixture
def key(request):
    """A key that no other test has used."""
    return jax.random.key(abs(hash(request.node.nodeid)) % 2**31)


def problem_of(seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((3, 5, 2)), rng.standard_normal((3, 5))
    graph = graphs.from_edges(3, [(0, 1), (1, 2)])
    with WITHOUT_OPTIMUM:
        return fa.problems.consensus_regression(graph, list(x), list(y), losses.squared(), l2=0.5)


def solver_of(clip=50.0, step=0.1):
    return private_subgradient(gaussian_release(zcdp_plan(2.0, DELTA, 20), clip), step_size=step)


def use(key, solver=None, problem=None, process=None, start=None, rounds=10, total=False):
    """Return the use that a run would make of its key, without the run."""
    solver, problem = solver or solver_of(), problem or problem_of()
    return key_use(solver, problem, key, process or participation.everyone(), start, rounds, total)


def state_at(index, value=0.0):
    """Return as much of a run's state as is looked at."""
    return fa.RoundState(jnp.int32(index), (), jnp.full(2, value))


def test_what_is_refused_and_what_repeats(key):
    """By the records alone: nothing is compiled."""
    use(key).remember(state_at(10))
    assert use(key, rounds=20) is not None  # the same, for longer
    for other in (
        {"solver": solver_of(clip=100.0)},
        {"solver": solver_of(step=0.2)},
        {"solver": private_networked_admm(solver_of().release)},
        {
            "solver": Personal(solver_of(), rate=jnp.ones(()), steps=1)
        },  # or one of one's own around it
        {"problem": problem_of(1)},
        {"process": participation.bernoulli(0.5)},
    ):
        with pytest.raises(InputError, match=f"{REUSED} 1 on for something else"):
            use(key, **other)
        assert use(jax.random.fold_in(key, 1), **other) is not None
        with key_reuse_allowed():
            assert use(key, **other) is None
    silent = replace(solver_of(), release=exact_release(50.0))
    assert not hides(silent)  # there is no noise to take away


def test_two_continuations_of_one_state_are_refused(key):
    first, middle = use(key), state_at(10)
    first.remember(middle)
    on = use(key, start=middle)
    on.remember(state_at(20, 1.0))
    # Rounds 11 to 20 once more, from the beginning or from the same state: the same messages.
    assert use(key, rounds=20).course == on.course
    assert use(key, start=middle).course == on.course
    with pytest.raises(InputError, match=f"{REUSED} 11 on"):
        use(key, start=middle, solver=solver_of(clip=1.0))
    with pytest.raises(InputError, match=f"{REUSED} 11 on"):
        use(key, start=state_at(10, 7.0))  # another past
    with pytest.raises(InputError, match=f"{REUSED} 11 on"):
        use(key, start=state_at(10, 7.0), rounds=30, total=True)
    # After round 20 nothing has been used: there another solver may go on.
    assert use(key, start=state_at(20, 1.0), solver=solver_of(clip=1.0)) is not None


def test_what_is_traced_is_not_seen(key):
    use(key).remember(state_at(10))
    other, problem = solver_of(clip=100.0), problem_of()
    seen = []

    def traced(key, solver):
        seen.append(use(key, solver=solver, problem=problem))
        return 0

    jax.jit(lambda k: traced(k, other))(key)
    jax.vmap(lambda clip: traced(key, replace(other, release=replace(other.release, norm=clip))))(
        jnp.ones(2)
    )
    assert seen == [None, None]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "build", [private_subgradient, private_networked_admm], ids=["subgradient", "ADMM"]
)
def test_two_norms_under_one_key_show_the_model_without_noise(key, build, x64):
    """With norms that clip nobody, 2 v - v' is w, to the grid to which messages are rounded."""
    problem = problem_of()
    solvers = [build(gaussian_release(zcdp_plan(2.0, DELTA, 5), c)) for c in (50.0, 100.0)]
    with key_reuse_allowed():
        v, twice = (fa.run(solver, problem, key, rounds=1) for solver in solvers)
    w = solvers[0].unprotected(v.state.solver)
    noise = np.abs(v.estimate - w)
    assert noise.min() > 1e-2
    assert np.all(np.abs(2 * v.estimate - twice.estimate - w) < 1e-4 * noise.max())
    # Where keys are watched, the second run does not happen.
    fa.run(solvers[0], problem, key, rounds=1)
    with pytest.raises(InputError) as caught:
        fa.run(solvers[1], problem, key, rounds=1)
    assert str(caught.value) == (
        f"{REUSED} 1 on for something else: the difference of the two runs' messages shows what "
        "the noise hides; take another, as jax.random.split gives; for synthetic data there is "
        "fedjax_admm.key_reuse_allowed."
    )


@pytest.mark.thorough
def test_runs_remember_their_states(key):
    problem, solver, other = problem_of(), solver_of(), solver_of(clip=1.0)
    whole = fa.run(solver, problem, key, rounds=8)
    half = fa.run(solver, problem, key, rounds=4)
    rest = fa.run(solver, problem, key, rounds=4, start=half.state)
    np.testing.assert_array_equal(whole.estimate, rest.estimate)
    with pytest.raises(InputError, match=f"{REUSED} 5 on"):
        fa.run(other, problem, key, rounds=1, start=half.state)
    on = fa.run(other, problem, key, rounds=4, start=whole.state)
    assert int(on.state.index) == 12
    with pytest.raises(InputError, match=f"{REUSED} 9 on"):
        fa.run(solver, problem, key, rounds=12)
    saved = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), half.state)
    fa.run(solver, problem, key, rounds=4, start=saved)  # through a file


@pytest.mark.thorough
def test_a_run_that_failed_has_used_nothing(key):
    def no_dict(solver, problem, state):
        return state.nodes.v

    with pytest.raises(InputError, match="measure must return a dict"):
        fa.run(solver_of(), problem_of(), key, rounds=1, measure=no_dict)
    fa.run(solver_of(clip=2.0), problem_of(), key, rounds=1)


@pytest.mark.thorough
def test_run_until_uses_what_it_ran(key):
    def never(solver, problem, state):
        return {"distance": jnp.sum(state.nodes.v**2) + 1}

    arguments = (problem_of(), key)
    fa.run_until(solver_of(), *arguments, residual=never, tolerance=0.0, max_rounds=3)
    with pytest.raises(InputError, match=f"{REUSED} 1 on"):
        fa.run(solver_of(clip=2.0), *arguments, rounds=1)
