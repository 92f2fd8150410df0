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
from fedjax_admm.schedules import constant
from fedjax_admm.solvers import p_admm, private_networked_admm, private_subgradient
from tests.reference import graph_exchanged as exchanged, zcdp
from tests.solvers.private import cases

SOLVERS = {
    "networked_admm": partial(private_networked_admm, rho=0.1, step_size=0.1),
    "p_admm": partial(p_admm, rho=0.1),
    "subgradient": private_subgradient,
}
LEDGER = ("releases", "spent", "nominal", "tails")


def release():
    return privacy.gaussian_release(privacy.zcdp_plan(4.0, 1e-5, 64, 0.97), 1.0)


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
    np.testing.assert_allclose(plain.nodes.w, sent.nodes.w, rtol=0, atol=1e-6)
    np.testing.assert_allclose(plain.nodes.v, sent.nodes.v, rtol=0, atol=1e-6)
    assert np.all(np.any(plain.nodes.v != sent.exchange.known, 1) == np.asarray(active))


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", SOLVERS)
def test_equations_hold_where_everything_happens_to_messages(name):
    """A client goes on from what everybody knows of it, not from what it has released."""
    data, bad = cases.draw(), np.arange(cases.CLIENTS) == 5
    problem, masks = cases.problem_of(data, l2=1.0), cases.random_masks()
    way = exchange(
        messages.differences(messages.top_k(1), step=0.9),
        attack=messages.sign_flip(who=bad),
        delay=messages.fixed_delay(1),
        aggregator=messages.trimmed_mean(0.3, cap=100) if name == "subgradient" else None,
    )
    steps = {} if name == "p_admm" else {"step_size": constant(0.1)}
    solver = SOLVERS[name](privacy.exact_release(), exchange=way, **steps)
    found = go(solver, problem, len(masks), participation.replay(masks)).trace
    slopes = [
        partial(zcdp.subgradient, "squared", data.x[k, :size], data.y[k, :size])
        for k, size in enumerate(cases.SIZES)
    ]
    slopes = [partial(slope, l2=1.0, clients=cases.CLIENTS) for slope in slopes]
    heard, models = exchanged.private(name, slopes, cases.DIM, masks, bad, 0.9, data.edges)
    assert 1e-2 < np.abs(models).max() < 1e3
    np.testing.assert_allclose(found["v"], heard, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["w"], models, rtol=1e-9, atol=1e-9)


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
    with pytest.raises(
        InputError,
        match=r"up must be a channel such as qsgd\(4\), but it is",
    ):
        exchange(release())


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
    np.testing.assert_array_equal(found.estimate, found.state.solver.exchange.known)


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
