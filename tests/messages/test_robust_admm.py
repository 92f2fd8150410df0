"""What a robust server of ADMM ends at: facts that follow from its fixed points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import messages, solvers
from tests.solvers.quadratics import Quadratics

pytestmark = pytest.mark.usefixtures("x64")
RULES = {
    "mean": lambda: messages.mean(),
    "median": lambda: messages.coordinate_median(cap=np.inf),
    "trimmed": lambda: messages.trimmed_mean(2 / 9, cap=np.inf),
    "geometric": lambda: messages.geometric_median(smoothing=1e-6, steps=200, cap=np.inf),
}
# Where the rounds end for losses h_l ||x - b_l||^2 / 2 and penalty parameters s_l.
EQUAL = {
    "mean": (0.353386, -0.378795),
    "median": (0.281211, -0.522748),
    "trimmed": (0.229018, -0.418702),
    "geometric": (0.293677, -0.506746),
}
MIXED = {  # h differs, s = 1
    "mean": (0.410565, -0.277417),
    "median": (0.281211, -0.522748),
    "trimmed": (0.304629, -0.386466),
    "geometric": (0.293677, -0.506746),
}
VOTING = {  # h differs, s = h
    "mean": (0.410565, -0.277417),
    "median": (0.454958, -0.310557),
    "trimmed": (0.370403, -0.366836),
    "geometric": (0.380311, -0.407653),
}


def clients():
    rng = np.random.default_rng(2)
    b = rng.standard_normal((9, 2))
    return b, rng.uniform(0.2, 2, (9, 1))


def ended(h, s, b, exchange, rounds=400, start=None):
    """Return the server's model, and the clients' gradients and duals, in the end."""
    bent = jnp.asarray(h)[:, :, None] * jnp.eye(2)[None]
    start = jnp.zeros(2) if start is None else jnp.asarray(start)
    problem = Quadratics(bent, jnp.asarray(h * b), start)
    solver = solvers.fed_admm(s[:, 0], local=solvers.local_prox(), exchange=exchange)
    result = fa.run(solver, problem, jax.random.key(0), rounds=rounds)
    clients = result.state.solver.clients
    return result.estimate, clients.models, problem.gradients(clients.models), clients.duals


@pytest.mark.kin(2)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("equal", EQUAL),
        pytest.param("mixed", MIXED, marks=pytest.mark.thorough),
        ("voting", VOTING),
    ],
)
def test_it_ends_where_the_derivation_says(rule, name, wanted):
    b, h = clients()
    h = np.ones_like(h) if name == "equal" else h
    s = h if name == "voting" else np.ones_like(h)
    exchange = messages.exchange(aggregator=RULES[rule]())
    model, models, slopes, duals = ended(h, s, b, exchange)
    np.testing.assert_allclose(model, wanted[rule], atol=2e-6)
    # Exact consensus, and duals that are minus the gradients: only the server's choice differs.
    np.testing.assert_allclose(models, np.broadcast_to(model, models.shape), atol=1e-7)
    np.testing.assert_allclose(duals, -slopes, atol=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("weight", [0.5, 2.0])
@pytest.mark.parametrize("rule", RULES)
def test_with_equal_curvature_it_is_the_rule_of_the_local_minimisers(rule, weight):
    b, h = clients()
    s = np.full_like(h, weight)
    exchange = messages.exchange(aggregator=RULES[rule]())
    model, *_ = ended(np.ones_like(h), s, b, exchange)
    np.testing.assert_allclose(model, EQUAL[rule], atol=2e-6)


@pytest.mark.thorough
def test_two_clients_of_eleven_that_say_anything_move_the_mean_alone():
    b, h = clients()
    b, h = np.vstack([b, np.zeros((2, 2))]), np.vstack([h, np.ones((2, 1))])
    who = np.arange(11) >= 9
    wanted = {
        "mean": (160.7, 160.2),
        "median": (0.454958, -0.310557),
        "trimmed": (0.546568, -0.099771),
        "geometric": (0.476318, -0.284008),
    }
    for rule, target in wanted.items():
        exchange = messages.exchange(
            aggregator=RULES[rule](), attack=messages.constant_message(value=1000.0, who=who)
        )
        model, *_ = ended(h, np.ones_like(h), b, exchange, rounds=2000)
        np.testing.assert_allclose(model, target, atol=0.06 if rule == "mean" else 2e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
def test_a_common_minimiser_is_where_every_rule_ends(rule):
    _, h = clients()
    b = np.broadcast_to([0.3, -0.7], (9, 2))
    model, *_ = ended(h, np.ones_like(h), b, messages.exchange(aggregator=RULES[rule]()))
    np.testing.assert_allclose(model, b[0], atol=1e-8)


@pytest.mark.thorough
def test_centred_clipping_ends_at_a_huber_rule():
    """At its fixed point clipped gradients over s add up to zero."""
    b, h = clients()
    exchange = messages.exchange(aggregator=messages.centred_clipping(0.4))
    model, *_ = ended(h, np.ones_like(h), b, exchange, rounds=3000)
    slopes = h * (np.asarray(model) - b)
    clipped = slopes * np.minimum(1, 0.4 / np.linalg.norm(slopes, axis=1, keepdims=True))
    assert np.max(np.linalg.norm(slopes, axis=1)) > 0.8
    np.testing.assert_allclose(np.sum(clipped, 0), 0, atol=1e-7)
