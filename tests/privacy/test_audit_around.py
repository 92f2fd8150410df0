"""An audit of whatever stands around a private solver: refused, or within the sensitivity.

Messages with noise are put in the place of those that a release would draw, the same for all data:
what everybody knows is then fixed, and one sample is replaced by others. The next message without
noise may move by the sensitivity of its release, for which noise is drawn, and nothing else that
anybody gets may move at all.
"""

import inspect
from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs, messages, solvers
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.messages import exchange
from fedjax_admm.privacy import GaussianRelease, exact_release, gaussian_release, ledger, zcdp_plan
from fedjax_admm.problems import with_loss
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers.wrappers._ditto import Ditto
from fedjax_admm.solvers.wrappers._personal import Personal
from tests.messages.conformance import AGGREGATORS, ATTACKS, CHANNELS, DELAYS
from tests.privacy.test_audit import choices, distances, own
from tests.solvers.private.cases import CLIENTS, DELTA, DIM, cast, draw, problem_of

ROUNDS, CLIP = 3, 0.7
PRIVATE = ("p_admm", "private_networked_admm", "private_subgradient")
WRAPPERS = {"ditto": Ditto, "personal": Personal}
WAITS = np.random.default_rng(0).integers(0, 3, (ROUNDS, CLIENTS))
TABLES = {"up": CHANNELS, "aggregator": AGGREGATORS, "attack": ATTACKS, "delay": DELAYS}
# One of each builder; what is said of every client by itself fits other numbers of clients.
EXCHANGES = {
    f"{kind}, {case.builder.__name__}": lambda kind=kind, case=case: exchange(**{kind: case.part()})
    for kind, table in TABLES.items()
    for case in reversed(table.values())
    if not case.options.get("senders") and case.builder is not messages.replay_delays
} | {
    "delay, fixed_delay": lambda: exchange(delay=messages.fixed_delay(list(WAITS[0]))),
    "delay, replay_delays": lambda: exchange(delay=messages.replay_delays(WAITS)),
    "down": lambda: exchange(down=messages.qsgd(4)),
    "all": lambda: exchange(
        messages.error_feedback(messages.top_k(2)),
        attack=messages.a_little_is_enough(0.3),
        delay=messages.bounded_delay(2),
    ),
}


@pytree_dataclass
class Given:
    """A Gaussian release that sends what is given, whatever the data are."""

    inner: GaussianRelease
    sent: jax.Array  # shape=(rounds, clients, dim)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, key, messages, gains, sizes, n):
        return self.sent[n - 1, jnp.arange(n.size)]


def given(dim=DIM, clients=CLIENTS):
    drawn = np.random.default_rng(3).standard_normal((ROUNDS, clients, dim))
    plan = zcdp_plan(2.0, DELTA, ROUNDS)
    return Given(gaussian_release(plan, CLIP), jnp.asarray(drawn))


def built(name, release=None, **more):
    step = {"rho": 0.7} if name == "p_admm" else {"step_size": 0.3}
    return getattr(solvers, name)(release or given(), **step, **more)


def parts_of(solver, state):
    """Return models without noise, numbers of releases, and all that others get or can read."""
    wraps = hasattr(solver, "solver")
    inside = state["inner"] if isinstance(state, dict) else state.inner if wraps else state
    others = inside._replace(nodes=inside.nodes._replace(w=()))
    return inside.nodes.w, inside.nodes.releases, (solver.estimate(state), others)


@jax.jit
def follow(solver, problem, x, y):
    """Return `parts_of` for every client, choice of its first sample, and round."""

    def one(k, x, y):
        other = replaced(problem, k, x, y)
        first = solver.init(other, jax.random.key(0))

        def step(state, index):
            active = (jnp.arange(problem.num_clients) % 4 != 1) | (index > 0)
            info = RoundInfo(index, jax.random.fold_in(jax.random.key(1), index), active)
            state = solver.step(other, state, info)
            return state, parts_of(solver, state)

        return jax.lax.scan(step, first, jnp.arange(ROUNDS, dtype=jnp.int32))[1]

    places = jnp.arange(problem.num_clients, dtype=jnp.int32)
    return jax.vmap(jax.vmap(one, (None, 0, 0)))(places, x, y)


def replaced(problem, k, x, y):
    """Return the problem with another first sample of a client."""
    if not hasattr(problem, "features"):
        samples = problem.data.samples
        new = {"x": samples["x"].at[k, 0].set(x), "y": samples["y"].at[k, 0].set(y)}
        return replace(problem, data=replace(problem.data, samples=new))
    features, targets = problem.features.at[k, 0].set(x), problem.targets.at[k, 0].set(y)
    other = replace(problem, features=features, targets=targets)
    return with_loss(other, problem.loss, l1=problem.l1, l2=problem.l2)


def audit(solver, problem, x, y):
    """Check that messages move by their sensitivity at most, and that all else is fixed."""
    inner = getattr(solver, "solver", solver)
    w, counts, others = follow(solver, problem, x, y)
    ratios = []
    for n in range(ROUNDS):
        gains = inner.gains(problem, jnp.maximum(counts[0, 0, n], 1))
        wanted = inner.release.sensitivity(gains, problem.sizes)
        ratios.append(distances(own(np.asarray(w[:, :, n]))) / wanted)
    leaves = [key_data(leaf) for leaf in jax.tree.leaves(others)]
    assert all(np.all(leaf == leaf[:1, :1]) for leaf in leaves)
    assert 0.5 < np.max(ratios) <= 1 + 1e-9


def key_data(leaf):
    typed = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if typed else leaf)


def samples(number=24):
    x, y = choices(np.asarray(given().sent[-2]), False, 100)
    return jnp.asarray(x[:, :number]), jnp.asarray(y[:, :number])


# --- exchanges ------------------------------------------------------------------------------------


def refused(name, exchanged):
    """Return whether an exchange is refused; what is not must pass the audit."""
    loss = "huber" if name == "p_admm" else "squared"
    problem = cast(problem_of(draw(1), loss, l2=0.5), "float64")
    try:
        solver = cast(built(name, exchange=EXCHANGES[exchanged]()), "float64")
        solver.check(problem, ROUNDS)
        x, y = choices(np.asarray(solver.release.sent[-2]), False, 100)
        audit(solver, problem, jnp.asarray(x[:, :24]), jnp.asarray(y[:, :24]))
    except InputError:
        return True
    return False


def test_the_audit_knows_every_private_solver_and_every_wrapper():
    first = {
        name: next(iter(inspect.signature(getattr(solvers, name)).parameters), "")
        for name in solvers.__all__
        if inspect.isfunction(getattr(solvers, name)) and not name.startswith("fed_mc_")
    }
    assert {name for name, argument in first.items() if argument == "release"} == set(PRIVATE)
    assert {name for name, argument in first.items() if argument == "solver"} == set(WRAPPERS)


@pytest.mark.usefixtures("x64")
def test_what_happens_to_messages_keeps_the_sensitivity():
    assert not refused("private_subgradient", "up, error_feedback")


# All private solvers send by one harness: one has every exchange, the others these.
OF_ALL = ("up, qsgd", "aggregator, krum", "down", "all")


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "exchanged"),
    [
        (name, exchanged)
        for name in PRIVATE
        for exchanged in (EXCHANGES if name == "private_subgradient" else OF_ALL)
    ],
)
def test_every_exchange_is_refused_or_keeps_the_sensitivity(name, exchanged):
    told = refused(name, exchanged)
    # Of what needs no mean, no matrices and no channel down, nothing is refused.
    assert told or exchanged != "down"
    assert not told or exchanged.startswith(("down", "aggregator")) or "low_rank" in exchanged


# --- wrappers -------------------------------------------------------------------------------------


@pytree_dataclass
class Mean:
    """A wrapper that publishes the mean of what was sent, and leaves the rest to what is inside."""

    solver: Any

    def __getattr__(self, name):
        return getattr(self.solver, name)

    def init(self, problem, key):
        return {"inner": self.solver.init(problem, key)}

    def step(self, problem, state, info):
        return {"inner": self.solver.step(problem, state["inner"], info)}

    def estimate(self, state):
        return jnp.mean(self.solver.estimate(state["inner"]), 0)


@pytree_dataclass
class ProvenMean(Mean):
    """The same, with the word that its sensitivity is that of the solver inside."""

    noisy: bool = field(default=True, metadata={"static": True})


@pytree_dataclass
class Hidden(Mean):
    """The same, with the solver as a static field."""

    solver: Any = field(metadata={"static": True})


def heads():
    """Return clients whose models have a part of their own, and samples for the first of each."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((3, 200, 2)), rng.standard_normal((3, 200))
    problem = fa.problems.federated(
        lambda p, sample: (sample["x"] @ p["body"] + p["head"] - sample["y"]) ** 2,
        {"x": x, "y": y},
        {"body": jnp.zeros(2), "head": jnp.zeros(())},
        topology=graphs.chain(3),
        shared="body",
    )
    others = np.concatenate([rng.standard_normal((3, 4)), [[1e4, -1e4]] * 3], 1)
    return problem, jnp.asarray(rng.standard_normal((3, 6, 2))), jnp.asarray(others)


def inside():
    return built("private_subgradient", given(2, 3))


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("private", PRIVATE)
def test_every_wrapper_refuses_every_private_solver(name, private):
    build, kind = getattr(solvers, name), WRAPPERS[name].__name__
    noisy = built(private)
    for solver in (noisy, replace(noisy, release=exact_release(1.0)), Mean(noisy)):
        with pytest.raises(InputError, match=f"^solver must not be private inside {kind}, because"):
            build(solver)


def test_a_run_refuses_what_no_builder_has_seen():
    problem = heads()[0]
    for wrong in (Mean(inside()), Hidden(inside()), Personal(inside(), rate=jnp.ones(()), steps=1)):
        with pytest.raises(InputError, match=f"be private inside {type(wrong).__name__}, because"):
            fa.run(wrong, problem, jax.random.key(0), rounds=1)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_the_audit_finds_what_wrappers_lose():
    """Past the builders, which refuse parts of a model's own."""
    audit(ProvenMean(inside()), *heads())
    with pytest.raises(AssertionError):
        audit(Personal(inside(), rate=jnp.asarray(0.1), steps=5), *heads())


@pytest.mark.thorough
def test_the_ledger_looks_inside():
    problem, key = heads()[0], jax.random.key(31)
    plain, around = (
        fa.run(solver, problem, key, rounds=2) for solver in (inside(), ProvenMean(inside()))
    )
    for found, wanted in zip(ledger(around, DELTA)[:3], ledger(plain, DELTA)[:3], strict=True):
        np.testing.assert_array_equal(found, wanted)
