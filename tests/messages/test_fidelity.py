"""Whole trajectories with something on the way, against loops over clients in NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import messages, participation, solvers
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.problems import localization
from tests.reference import aggregators, fsmdm as reference
from tests.reference.fed_admm_exchanged import fed_admm_exchanged
from tests.solvers.quadratics import CLIENTS, DIM, draw, quadratics

pytestmark = pytest.mark.usefixtures("x64")
LEVELS, ROUNDS = 4, 60


@pytree_dataclass
class Overheard:
    """A channel that also remembers the numbers that `qsgd` draws inside it."""

    channel: Any

    in_order = True

    def init(self, message):
        return self.channel.init(message), jnp.zeros_like(message)

    def encode(self, message, state, key):
        draws = jax.random.uniform(jax.random.clone(key), message.shape, message.dtype)
        arrives, inner = self.channel.encode(message, state[0], key)
        return arrives, (inner, draws)

    def bits(self, shape):
        return self.channel.bits(shape)


def drawn(solver, problem, state):
    return {
        "server": state.server.model,
        "duals": state.clients.duals,
        "draws": state.exchange.up[0].channel[1],
    }


def quantised(x, draws):
    """Return what `qsgd` leaves of a message, by its definition."""
    norm = np.sqrt(np.sum(x * x))
    if norm == 0:
        return np.zeros_like(x)
    scaled = np.abs(x) / norm * LEVELS
    below = np.minimum(np.floor(scaled), LEVELS - 1)
    return norm * np.sign(x) * (below + (draws < scaled - below)) / LEVELS


class Remainders:
    """EF14 at every client: p = x + e, c = C(p), e = p - c."""

    def __init__(self, draws):
        self.draws, self.errors = draws, np.zeros((CLIENTS, DIM))

    def __call__(self, index, client, message):
        owed = message + self.errors[client]
        sent = quantised(owed, self.draws[index, client])
        self.errors[client] = owed - sent
        return sent


class Changes:
    """EF21 at every client: c = C(x - g), g = g + step c."""

    def __init__(self, draws):
        self.draws, self.held = draws, np.zeros((CLIENTS, DIM))
        omega = min(DIM / (4 * LEVELS**2), np.sqrt(DIM) / LEVELS)
        self.step = 1 / (1 + omega)

    def __call__(self, index, client, message):
        change = quantised(message - self.held[client], self.draws[index, client])
        self.held[client] = self.held[client] + self.step * change
        return self.held[client]


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("wrap", "loop"),
    [(messages.error_feedback, Remainders), (messages.differences, Changes)],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_quantised_fed_admm_is_the_loop_over_clients(wrap, loop, asynchronous):
    """The draws are overheard; all else is computed again."""
    hessians, linear = draw()
    rho = np.linspace(0.5, 2.0, CLIENTS)
    masks = np.random.default_rng(3).random((ROUNDS, CLIENTS)) < 0.6 if asynchronous else None
    process = participation.everyone() if masks is None else participation.replay(masks)
    solver = solvers.fed_admm(
        rho,
        local=solvers.local_prox(),
        exchange=messages.exchange(Overheard(wrap(messages.qsgd(LEVELS)))),
    )
    trace = fa.run(
        solver,
        quadratics(),
        jax.random.key(4),
        rounds=ROUNDS,
        participation=process,
        measure=drawn,
    ).trace
    draws = np.asarray(trace["draws"])
    servers, duals = fed_admm_exchanged(
        hessians, linear, rounds=ROUNDS, rho=rho, arrives=loop(draws), masks=masks
    )
    np.testing.assert_allclose(trace["server"], servers, atol=1e-9, rtol=0)
    np.testing.assert_allclose(trace["duals"], duals, atol=1e-9, rtol=0)
    # Every client draws its own numbers, and new ones in every round.
    assert len(np.unique(draws[1])) > 0.9 * CLIENTS * DIM * (0.5 if asynchronous else 1)


@pytest.mark.kin(1)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_fsmdm_with_a_trimmed_mean_is_the_loop_over_clients(asynchronous):
    anchors, distances, _ = reference.cauchy_trial(2025, 3, 1.0)
    masks = np.random.default_rng(5).random((ROUNDS, 21)) < 0.4 if asynchronous else None
    process = participation.everyone() if masks is None else participation.replay(masks)
    truth = reference.fsmdm(
        anchors,
        distances,
        rounds=ROUNDS,
        masks=masks,
        location=lambda x, s: aggregators.trimmed_mean(x, s, 0.2),
        **reference.TUNED,
    )
    solver = solvers.fsmdm(
        "tuned",
        exchange=messages.exchange(aggregator=messages.trimmed_mean(0.2, cap=np.inf)),
    )
    problem = localization(anchors, distances, start=np.zeros(3))

    def states(solver, problem, state):
        held = state.clients
        return {"w": state.server, "xi": held.xi, "zeta": held.zeta, "q": held.q}

    trace = fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=ROUNDS,
        participation=process,
        measure=states,
    ).trace
    for name in ("w", "xi", "zeta", "q"):
        np.testing.assert_allclose(trace[name], truth[name], atol=1e-9, err_msg=name)
    # The rule matters: the mean ends elsewhere.
    plain = reference.fsmdm(anchors, distances, rounds=ROUNDS, masks=masks, **reference.TUNED)
    assert np.max(np.abs(plain["w"][-1] - truth["w"][-1])) > 1e-2


def test_fed_admm_with_liars_and_a_median_is_the_loop_over_clients():
    """Byzantine senders say minus what they should, and go on with what they know."""
    hessians, linear = draw()
    rho = np.linspace(0.8, 1.2, CLIENTS)
    who = np.zeros(CLIENTS, bool)
    who[[2, 5, 7]] = True
    exchange = messages.exchange(
        aggregator=messages.coordinate_median(cap=np.inf), attack=messages.sign_flip(who=who)
    )
    solver = solvers.fed_admm(rho, local=solvers.local_prox(), exchange=exchange)

    def servers_and_duals(solver, problem, state):
        return {"server": state.server.model, "duals": state.clients.duals}

    trace = fa.run(
        solver, quadratics(), jax.random.key(0), rounds=ROUNDS, measure=servers_and_duals
    ).trace
    servers, duals = fed_admm_exchanged(
        hessians,
        linear,
        rounds=ROUNDS,
        rho=rho,
        arrives=lambda index, client, message: message,
        location=aggregators.coordinate_median,
        byzantine=np.flatnonzero(who),
        lie=lambda message: -message,
    )
    np.testing.assert_allclose(trace["server"], servers, atol=1e-9, rtol=0)
    np.testing.assert_allclose(trace["duals"], duals, atol=1e-9, rtol=0)


@pytest.mark.thorough
@pytest.mark.parametrize("build", [solvers.fed_admm, solvers.fed_dr, solvers.fed_pd])
def test_what_is_not_sent_does_not_pull_at_the_models(build):
    """Gradients are bounded here: with the loss in the dual variable alone all three diverge."""
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (20, 40, 30))
    y = x @ jnp.ones(30) + 0.3 * jax.random.normal(keys[1], (20, 40))

    def loss(w, sample):
        return jnp.sqrt(1 + (sample[0] @ w - sample[1]) ** 2) - 1

    problem = fa.problems.federated(loss, (x, y), jnp.zeros(30))

    def ended(exchange):
        solver = build(1.0, exchange=exchange)
        return fa.run(solver, problem, jax.random.key(5), rounds=300).estimate

    codes = messages.exchange(messages.differences(messages.top_k(3)))
    np.testing.assert_allclose(ended(codes), ended(None), atol=1e-5)
