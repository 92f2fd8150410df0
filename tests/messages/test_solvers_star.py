"""Exchanges around the star's solvers, with quadratic losses whose minimiser is known."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import messages, participation, penalties
from fedjax_admm.messages import Exchange, differences, exchange, qsgd, top_k
from fedjax_admm.solvers import (
    balanced_penalty,
    fed_admm,
    fed_dr,
    fed_dyn,
    fed_pd,
    fed_plt,
    fed_subgradient,
    ifca,
    local_prox,
    prox_skip,
    scaffold,
)
from tests.messages.loud import Loud
from tests.solvers.quadratics import CLIENTS, DIM, draw, minimizer, quadratics

MODELS = np.random.default_rng(3).standard_normal((3, DIM))
L1 = 0.01


def loud() -> Exchange:
    return Exchange(up=Loud(), down=Loud())


def by(build, *args, **settings):
    """Return a builder that is given an exchange and a regulariser."""
    return lambda exchange=None, weight=0.0: build(
        *args, exchange=exchange, regularizer=penalties.l1(weight), **settings
    )


BUILDERS = {
    "adaptive": by(fed_admm, balanced_penalty(period=3, ratio=1.5)),
    "fed_dr": by(fed_dr),
    "fed_dyn": by(fed_dyn),
    "fed_pd": by(fed_pd, averaging=0.6),
    "fed_plt": by(fed_plt),
    "prox_skip": by(prox_skip),
    "scaffold": by(scaffold),
    "fed_subgradient": by(fed_subgradient, 0.1),
    "ifca": by(ifca, MODELS),
}
DRAWS = {
    "everyone": None,
    "bernoulli": participation.bernoulli(0.2),
    "drawn": participation.without_replacement(2),
}
EXACT = {
    "fed_dr": by(fed_dr, local=local_prox()),
    "fed_dyn": by(fed_dyn, local=local_prox()),
    "fed_pd": by(fed_pd, local=local_prox()),
    "fed_plt": by(fed_plt, local=local_prox()),
    "prox_skip": by(prox_skip),
    "scaffold": by(scaffold),
}
CODED = {
    "largest": lambda: exchange(differences(top_k(2))),
    "both ways": lambda: exchange(differences(qsgd(4)), differences(qsgd(4))),
}


def estimate(solver, problem, state):
    return {"estimate": solver.estimate(state)}


def run(solver, rounds=30, draws=None, start=None, problem=None):
    return fa.run(
        solver,
        quadratics() if problem is None else problem,
        jax.random.key(1),
        rounds=rounds,
        participation=draws,
        measure=estimate,
        start=start,
    )


def check_loud(name, draws, weight=0.0, rounds=30):
    """Assert that a channel that changes nothing does; return how many spoke, and the state."""
    plain = run(BUILDERS[name](None, weight), rounds, DRAWS[draws])
    found = run(BUILDERS[name](loud(), weight), rounds, DRAWS[draws])
    # FedDR with its default rule amplifies rounding a hundred times in thirty rounds.
    chex.assert_trees_all_close(found.trace, plain.trace, rtol=0, atol=1e-10)
    memory = found.state.solver.exchange
    for box in memory.up:
        assert int(jnp.sum(box.channel)) == int(jnp.sum(plain.trace["messages"]))
    for links in memory.down:
        np.testing.assert_array_equal(links, memory.up[0].channel)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", ["fed_subgradient", *sorted(BUILDERS)])
def test_a_state_keeps_its_shapes(name):
    """Even where clients are gathered, messages wait, and links and aggregators remember."""
    solver, problem = BUILDERS[name](loud()), quadratics()
    info = fa.protocol.RoundInfo(
        jnp.int32(0),
        jax.random.key(2),
        jnp.arange(CLIENTS) < 2,
        sampled=jnp.arange(2, dtype=jnp.int32),
    )
    state = jax.eval_shape(solver.init, problem, jax.random.key(1))
    after = jax.eval_shape(solver.step, problem, state, info)
    chex.assert_trees_all_equal_shapes_and_dtypes(after, state)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "draws"), [*((name, "bernoulli") for name in BUILDERS), ("fed_dyn", "drawn")]
)
def test_a_loud_channel_gives_the_plain_trajectory(name, draws):
    check_loud(name, draws, L1)


@pytest.mark.parametrize("name", BUILDERS)
def test_bits_are_those_of_the_channels(name):
    problem, counted = quadratics(), BUILDERS[name](loud()).traffic(quadratics())
    plain = BUILDERS[name]().traffic(problem)
    assert (counted.up, counted.down, counted.before) == (plain.up, plain.down, plain.before)
    wanted = {
        "scaffold": (14, 14),
        "ifca": (7 + 32, 7),
        "adaptive": (14, 7 + 32),
        "fed_dr": (7 + 2 * 32, 7 + 32),
        "fed_dyn": (7 + 32, 7 + 32),
    }
    assert (counted.up_bits, counted.down_bits) == wanted.get(name, (7, 7))


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "coded"), [("fed_dyn", "largest"), ("prox_skip", "largest"), ("scaffold", "both ways")]
)
def test_coded_differences_end_at_the_minimiser(name, coded):
    absent = None if name == "prox_skip" else participation.bernoulli(0.5)
    found = run(EXACT[name](CODED[coded]()), 1500, absent)
    np.testing.assert_allclose(found.estimate, minimizer(), rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["fed_dyn"])
def test_late_and_lost_messages_do_not_move_the_limit(name):
    waits = messages.lossy(0.2, messages.bounded_delay(3))
    found = run(EXACT[name](exchange(delay=waits)), 1500, participation.bernoulli(0.5))
    np.testing.assert_allclose(found.estimate, minimizer(), rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_fed_pd_stays_fed_dr_under_compression():
    # The first round of the one is the start of the other, which arrives as it is.
    one = run(fed_pd(0.8, local=local_prox(), exchange=loud()), 41)
    other = run(fed_dr(0.8, local=local_prox(), exchange=loud()), 40)
    np.testing.assert_allclose(
        one.trace["estimate"][1:], other.trace["estimate"], rtol=0, atol=1e-12
    )
    found = run(fed_pd(0.8, exchange=exchange(qsgd(2))), 5).state.solver
    told = found.clients.x + 0.8 * found.clients.dual
    np.testing.assert_allclose(told, found.exchange.up[0].known, rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_h_add_up_to_nothing_when_messages_are_compressed():
    found = run(prox_skip(probability=1.0, exchange=exchange(qsgd(2))), 3)
    clients = found.state.solver.clients
    assert float(jnp.max(jnp.abs(clients.control))) > 1e-3
    np.testing.assert_allclose(jnp.sum(clients.control, 0), 0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["adaptive", "fed_dr", "fed_dyn", "fed_plt", "scaffold"])
def test_both_ends_hold_the_same(name):
    noisy = exchange(qsgd(2), qsgd(2))
    found = run(BUILDERS[name](noisy), 20, participation.bernoulli(0.5)).state.solver
    held = {
        "adaptive": lambda s: s.clients.duals,
        "fed_dr": lambda s: 2 * s.clients.x - s.clients.y,
        "fed_dyn": lambda s: s.clients.slope,
        "fed_plt": lambda s: s.clients.z,
        "scaffold": lambda s: s.clients.control,
    }[name](found)
    np.testing.assert_allclose(held, found.exchange.up[-1].known, rtol=0, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["prox_skip"])
def test_absent_clients_keep_their_links(name):
    solver, problem = BUILDERS[name](CODED["both ways"]()), quadratics()
    present = np.arange(CLIENTS) % 3 == 0
    masks = participation.replay(np.broadcast_to(present, (20, CLIENTS)))
    before = solver.init(problem, jax.random.key(1)).exchange
    after = run(solver, 20, masks).state.solver.exchange
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        if new.shape[:1] == (CLIENTS,):
            np.testing.assert_array_equal(new[~present], old[~present])
    for old, new in zip(before.up, after.up, strict=True):
        assert np.all(np.any(np.asarray(new.known != old.known)[present], -1))


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_late_gradient_counts_for_the_model_of_its_choice():
    """IFCA against a loop over nodes, with every message two rounds late."""
    rate, late, rounds = 0.3, 2, 12
    solver = ifca(MODELS, rate, exchange=exchange(delay=messages.fixed_delay(late)))
    found = run(solver, rounds)
    (hessians, linear), models, waiting = draw(), MODELS.copy(), []
    for _ in range(rounds):
        losses = [
            [m @ a @ m / 2 - b @ m for m in models] for a, b in zip(hessians, linear, strict=True)
        ]
        choice = np.argmin(losses, 1)
        slopes = [hessians[i] @ models[j] - linear[i] for i, j in enumerate(choice)]
        waiting.append((choice, slopes))
        if len(waiting) > late:
            for j, slope in zip(*waiting.pop(0), strict=True):
                models[j] = models[j] - rate / CLIENTS * slope
    np.testing.assert_allclose(found.state.solver.server, models, rtol=0, atol=1e-12)
