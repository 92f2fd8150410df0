"""Every solver obeys the protocol where everything happens to its messages that it takes."""

import jax
import pytest

import fedjax_admm as fa
from fedjax_admm import messages
from fedjax_admm.messages._exchange import ChannelState
from fedjax_admm.testing import check_solver
from tests.bits import TOLERANCE
from tests.solvers.conformance import SOLVERS

NO_DOWN = {"down": "must have no channel down, because nodes of a graph have no server"}
NO_AGGREGATOR = {"aggregator": "must have no aggregator but the mean, because"}
# What a solver does not take, and what it says then.
REFUSED = {
    "FedADMM, balanced": NO_AGGREGATOR,
    "GTVPrimalDual": NO_DOWN | NO_AGGREGATOR,
    "DecentralizedADMM": NO_DOWN,
    "EXTRA": NO_DOWN,
    "PG-EXTRA": NO_DOWN,
    "ProxSkip": {"delay": "must not delay messages, because the server answers in the same round"},
    "Personal": {"down": "must let models reach the clients as they are"},
    "Ditto": {"down": "must let models reach the clients as they are"},
    "PrivateNetworkedADMM": NO_DOWN | NO_AGGREGATOR,
    "PrivateSubgradient": NO_DOWN,
    "PADMM": NO_DOWN | NO_AGGREGATOR,
}
# A server that solves for all models takes no exchange.
WITHOUT = ("GTVSplitting",)
NAMES = [name for name in SOLVERS if name not in WITHOUT]
# What clients keep and move in every round of theirs: what is known of them waits for messages.
CLIENTS = {
    "FedPD": lambda state: (state.clients.x, state.clients.dual),
    "PrivateNetworkedADMM": lambda state: (state.nodes.w, state.nodes.releases),
    "PrivateSubgradient": lambda state: (state.nodes.w, state.nodes.releases),
    "PADMM": lambda state: (state.nodes.w, state.nodes.releases),
}
# Whose handling of an exchange is code of its own, and others' by what these share with them.
CHOREOGRAPHIES = (
    *("FSMDM", "HFSAD, 2 passes", "GTVPrimalDual", "DecentralizedADMM"),
    *("EXTRA", "SCAFFOLD", "FedADMM", "FedMCADMM", "PrivateNetworkedADMM"),
)
EXAMPLES = {
    "absent": CHOREOGRAPHIES,
    "traces": ("EXTRA",),
    "gradients": ("FSMDM",),
    "resumes": ("SCAFFOLD", "GTVPrimalDual", "PrivateNetworkedADMM"),
}


def parts():
    """Return a part of every kind, all of them with numbers or a memory."""
    return {
        "up": messages.differences(messages.top_k(2), step=0.9),
        "down": messages.cast("bfloat16"),
        "aggregator": messages.coordinate_median(),
        "attack": messages.stale_replay(0.2, 2),
        "delay": messages.bounded_delay(2, in_order=True),
    }


def solver(name, exchange):
    if name == "Personal":
        return fa.solvers.personal(
            fa.solvers.scaffold(0.1, local_steps=2, exchange=exchange), 0.3, steps=2
        )
    if name == "Ditto":
        return fa.solvers.ditto(fa.solvers.scaffold(0.1, local_steps=2, exchange=exchange))
    case = SOLVERS[name]
    return case.built(lambda *given, **more: case.builder(*given, exchange=exchange, **more))


def busy(name):
    taken = {part: value for part, value in parts().items() if part not in REFUSED.get(name, {})}
    return solver(name, messages.exchange(**taken))


def kept(name, clients):
    """Return what of a state belongs to clients: what they keep, and their links' memory."""
    own = CLIENTS.get(name, SOLVERS[name].clients)

    def of(state):
        found = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, ChannelState))
        boxes = [box for box in found if isinstance(box, ChannelState)]
        # Where the ends of edges send, or levels of a tree, links are no clients'.
        return own(state), [box.channel for box in boxes if box.byzantine.shape == (clients,)]

    return of


@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name, found in REFUSED.items() for part in found]
)
def test_what_a_solver_does_not_take_is_told(name, part):
    with pytest.raises(fa.InputError, match=REFUSED[name][part]):
        solver(name, messages.exchange(**{part: parts()[part]}))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "only"), [(name, only) for only, names in EXAMPLES.items() for name in names]
)
def test_solver_with_an_exchange(name, only):
    case = SOLVERS[name]
    problem, sends = case.problem(), busy(name)
    check_solver(
        sends,
        problem,
        clients=kept(name, sends.participants(problem)[-1]),
        bits=TOLERANCE,
        only=only,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_every_solver_keeps_its_dtype_with_all_that_it_takes(name):
    """Traced, not compiled: what arrives has the structure, shapes and dtype of what was sent."""
    problem, sends = SOLVERS[name].problem(), busy(name)
    plain, found = (
        jax.eval_shape(lambda key, s=solver: fa.run(s, problem, key, rounds=2), jax.random.key(0))
        for solver in (SOLVERS[name].solver(), sends)
    )
    assert found.estimate == plain.estimate
    assert jax.tree.leaves(found.state, is_leaf=lambda part: isinstance(part, ChannelState)) != (
        jax.tree.leaves(plain.state)
    )
