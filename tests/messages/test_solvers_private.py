"""Messages of private solvers: after the release, so that the ledger is the same."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs, messages, participation, privacy
from fedjax_admm.messages import exchange
from fedjax_admm.problems import consensus_regression
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
from tests.solvers.private import cases

SOLVERS = {
    "networked_admm": partial(private_networked_admm, rho=0.1, step_size=0.1),
    "p_admm": partial(p_admm, rho=0.1),
    "subgradient": private_subgradient,
}
LEDGER = ("releases", "spent", "nominal", "tails")


def release():
    return privacy.gaussian_release(privacy.zcdp_plan(4.0, 1e-5, 64, 0.97), 1.0)


def loud():
    """Return an exchange that changes nothing and is not plain."""
    return exchange(delay=messages.replay_delays(np.zeros((1, cases.CLIENTS), np.int32)))


def tampered():
    """Return an exchange in which everything happens that may."""
    return exchange(
        messages.qsgd(4),
        attack=messages.sign_flip(0.3),
        delay=messages.bounded_delay(2),
    )


def seen(solver, problem, state):
    known = {"v": solver.estimate(state), "w": solver.unprotected(state)}
    return known | {name: getattr(state, name) for name in LEDGER}


def go(solver, problem, rounds=20, part=None, **options):
    with fa.key_reuse_allowed():
        return fa.run(
            solver,
            problem,
            jax.random.key(3),
            rounds=rounds,
            participation=part,
            measure=seen,
            **options,
        )


@pytest.mark.thorough
def test_the_ledger_does_not_ask_what_happens_to_messages():
    """One round of subgradients, in which two of three clients send."""
    problem, active = cases.problem_of(cases.draw()), jnp.arange(cases.CLIENTS) % 3 > 0

    def once(solver):
        info = RoundInfo(jnp.int32(0), jax.random.key(1), active)
        return solver.step(problem, solver.init(problem, jax.random.key(0)), info)

    @jax.jit
    def steps(solvers):
        return [once(solver) for solver in solvers]

    coded = exchange(messages.natural(), attack=messages.sign_flip(0.3))
    plain, sent = steps([private_subgradient(release(), exchange=way) for way in (None, coded)])
    for name in LEDGER:
        np.testing.assert_allclose(getattr(plain, name), getattr(sent, name), rtol=1e-6)
    assert float(jnp.max(plain.spent)) > 0
    np.testing.assert_allclose(plain.w, sent.w, rtol=0, atol=1e-6)
    assert np.all(np.any(plain.v != sent.v, 1) == np.asarray(active))


def test_mistakes_are_told():
    for make in SOLVERS.values():
        with pytest.raises(InputError, match=r"cannot come before the noise.*with exchange="):
            make(messages.qsgd(4))
        with pytest.raises(InputError, match="cannot come before the noise"):
            make(tampered())
        with pytest.raises(InputError, match="must have no channel down"):
            make(release(), exchange=exchange(down=messages.qsgd(4)))
    for name in ("networked_admm", "p_admm"):
        with pytest.raises(InputError, match="no client takes a mean of models; leave the agg"):
            SOLVERS[name](release(), exchange=exchange(aggregator=messages.coordinate_median()))
    with pytest.raises(InputError, match="must not be a release"):
        exchange(release())


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", SOLVERS)
def test_what_changes_nothing_changes_nothing(name):
    problem, part = cases.problem_of(cases.draw()), participation.bernoulli(0.5)
    wanted = go(SOLVERS[name](release()), problem, part=part).trace
    with jax.debug_key_reuse(True):
        found = go(SOLVERS[name](release(), exchange=loud()), problem, part=part).trace
    for key, values in wanted.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", SOLVERS)
def test_the_ledger_is_the_same_in_all_rounds(name):
    problem, part = cases.problem_of(cases.draw()), participation.bernoulli(0.5)
    wanted, found = (
        go(SOLVERS[name](release(), exchange=way), problem, part=part) for way in (None, tampered())
    )
    for key in LEDGER:
        # The same arithmetic in another program: it may round otherwise.
        np.testing.assert_allclose(found.trace[key], wanted.trace[key], rtol=1e-12)
    assert np.abs(wanted.estimate - found.estimate).max() > 1e-3
    state = found.state.solver
    clients = getattr(state, "clients", state)
    np.testing.assert_array_equal(found.estimate, clients.post.known)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_duals_add_up_to_zero_whatever_happens_on_the_way():
    problem = cases.problem_of(cases.draw())
    solver = SOLVERS["networked_admm"](release(), exchange=tampered())
    state = go(solver, problem, part=participation.bernoulli(0.5)).state.solver
    duals = np.asarray(solver.duals(problem, state))
    assert np.abs(duals).max() > 1e-2
    np.testing.assert_allclose(duals.sum(0), 0, atol=1e-10)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_coded_differences_end_where_plain_messages_do():
    problem = cases.problem_of(cases.draw(), l2=1.0)
    coded = exchange(messages.differences(messages.natural()))
    make = partial(p_admm, privacy.exact_release(), rho=0.1)
    wanted, found = (go(make(exchange=way), problem, 1500).estimate for way in (None, coded))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_robust_subgradients_survive_liars():
    """Everybody hears everybody, and two of twelve say something else."""
    rng, number = np.random.default_rng(3), 12
    edges = [(i, j) for i in range(number) for j in range(i + 1, number)]
    x = rng.standard_normal((number, 10, 2))
    y = x @ np.array([1.0, -1.0]) + 0.1 * rng.standard_normal((number, 10))
    with cases.WITHOUT_OPTIMUM:
        graph = graphs.from_edges(number, edges)
        problem = consensus_regression(graph, list(x), list(y), fa.losses.squared())
    who = np.arange(number) % 7 == 2
    errors = {}
    for name, rule in {"mean": messages.mean(), "median": messages.coordinate_median()}.items():
        way = exchange(aggregator=rule, attack=messages.constant_message(value=100.0, who=who))
        solver = private_subgradient(privacy.exact_release(), step_size=1.0, exchange=way)
        found = np.asarray(go(solver, problem, 300).estimate)[~who]
        errors[name] = np.abs(found - np.array([[1.0, -1.0]])).max()
    assert errors["median"] < 0.2
    assert errors["mean"] > 1
