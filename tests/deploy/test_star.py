"""Deployed stars against the simulation: the same states, whoever takes part."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chex import assert_trees_all_close

import fedjax_admm as fa
from fedjax_admm import deploy, messages, participation, solvers

CLIENTS, ROUNDS, KEY = 4, 30, jax.random.key(3)

EXCHANGES = {
    "plain": None,
    "feedback": messages.exchange(messages.error_feedback(messages.qsgd(4)), messages.qsgd(8)),
    "differences": messages.exchange(
        messages.differences(messages.top_k(2)), messages.differences(messages.top_k(2))
    ),
    "robust": messages.exchange(
        messages.differences(messages.top_k(2)), aggregator=messages.coordinate_median()
    ),
}
SOLVERS = {
    "fed_admm": solvers.fed_admm,
    "fsmdm": solvers.fsmdm,
    "scaffold": solvers.scaffold,
    "fed_dr": solvers.fed_dr,
    "prox_skip": solvers.prox_skip,
    "p_fed_me": solvers.p_fed_me,
    "apfl": solvers.apfl,
}
# `test_killed_late_and_resumed` has error feedback.
DEFAULT = [("fed_admm", "plain"), ("fsmdm", "robust")]


def loss(model, sample):
    features, target = sample
    return 0.5 * (features @ model - target) ** 2 + 0.1 * jnp.sum(jnp.sqrt(1 + model**2))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    rows = [(rng.normal(size=(6, 3)), rng.normal(size=6)) for _ in range(CLIENTS)]
    samples = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), rows)
    return fa.problems.federated(loss, samples, jnp.zeros(3), batch_size=3)


@pytest.fixture(scope="module")
def present():
    return np.random.default_rng(1).random((ROUNDS, CLIENTS)) < 0.6


def simulated(solver, problem, heard):
    return fa.run(
        solver, problem, KEY, rounds=len(heard), participation=participation.replay(heard)
    )


def stacked(clients):
    return jax.tree.map(lambda *rows: jnp.concatenate(rows), *(c.clients for c in clients))


def check_same(result, server, clients):
    """Compare the models, and what every client keeps, with those of a simulation."""
    state = result.state.solver
    assert_trees_all_close(server.estimate, server.estimate_of(state), atol=1e-6, rtol=1e-6)
    assert_trees_all_close(stacked(clients), state.clients, atol=2e-6, rtol=2e-6)


def exchanged():
    """Yield all solvers and exchanges; a few pairs stand for all by default."""
    for name in SOLVERS:
        for exchange in EXCHANGES:
            always = (name, exchange) in DEFAULT
            yield pytest.param(name, exchange, marks=() if always else pytest.mark.thorough)


@pytest.mark.parametrize(("name", "exchange"), [*exchanged()])
def test_deployed_as_simulated(name, exchange, problem, present):
    solver = SOLVERS[name](exchange=EXCHANGES[exchange])
    deployed = deploy.in_process(solver, problem, KEY, rounds=ROUNDS, present=present)
    np.testing.assert_array_equal(deployed.server.record.heard, present)
    check_same(simulated(solver, problem, present), *deployed)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("exchange", "dtype"),
    [("feedback", "float64"), ("feedback", "float32")],
    indirect=["dtype"],
)
@pytest.mark.parametrize("name", ["fed_admm", "fsmdm"])
def test_200_rounds_are_those_of_the_simulation(name, exchange, dtype, problem):
    solver = SOLVERS[name](exchange=EXCHANGES[exchange])
    problem = jax.tree.map(
        lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, problem
    )
    server, _ = deploy.in_process(solver, problem, KEY, rounds=200)
    result = fa.run(solver, problem, KEY, rounds=200)
    assert server.estimate.dtype == dtype
    difference = jnp.max(jnp.abs(server.estimate - result.estimate))
    scale = jnp.maximum(jnp.max(jnp.abs(result.estimate)), 1)
    assert difference <= {"float32": 1e-6, "float64": 1e-12}[dtype.name] * scale


@pytest.mark.thorough
def test_sensors_alone_are_the_clients_of_one_problem(x64):
    """Every machine builds its problem of its own range, and the positions are the simulation's."""
    rng = np.random.default_rng(0)
    anchors, target, start = rng.normal(size=(4, 2)) * 9, np.array([1.0, 2.0]), np.zeros(2)
    distances = np.linalg.norm(anchors - target, axis=1) + rng.normal(size=4)
    solver, options = solvers.fsmdm("tuned"), {"start": start, "offset_scale": 1.0}
    clients = [
        deploy.Client(
            solver, fa.problems.localization(anchors[[i]], distances[[i]], **options), i, 4, KEY
        )
        for i in range(4)
    ]
    server = deploy.Server(solver, jnp.asarray(start), 4, KEY)
    for client in clients:
        server.receive(client.hello())
    for i, data in server.start().items():
        server.receive(clients[i].begin(data))
    for _ in range(20):
        for client in clients:
            server.receive(client.work(server.broadcast(client.number)))
        server.close_round()
    together = fa.problems.localization(anchors, distances, **options)
    result = fa.run(solver, together, KEY, rounds=20)
    assert not np.allclose(server.estimate, start, atol=0.1)
    np.testing.assert_allclose(server.estimate, result.estimate, atol=1e-12)


@pytest.mark.parametrize(
    "channel",
    [
        *(
            pytest.param(channel, marks=pytest.mark.thorough)
            for channel in (messages.identity(), messages.top_k(2), messages.cast("bfloat16"))
        ),
        messages.differences(messages.qsgd(1)),
    ],
    ids=str,
)
def test_the_bytes_are_those_that_traffic_counts(channel, problem):
    solver = solvers.fed_admm(exchange=messages.exchange(channel))
    server, clients = deploy.in_process(solver, problem, KEY, rounds=3)
    traffic = solver.traffic(problem)
    bits = 32 * traffic.up if traffic.up_bits is None else traffic.up_bits
    assert server.bytes_up == 3 * CLIENTS * -(-bits // 8)
    check_same(simulated(solver, problem, np.ones((3, CLIENTS), bool)), server, clients)


def test_killed_late_and_resumed(problem, tmp_path):
    """A client dies with its work unsent, another is late, the server starts anew from its file."""
    solver = SOLVERS["scaffold"](exchange=EXCHANGES["feedback"])

    def client(number):
        return deploy.Client(solver, problem.take(jnp.array([number])), number, CLIENTS, KEY)

    server, clients = deploy.in_process(solver, problem, KEY, rounds=0)
    for index in range(8):
        messages_up = [c.work(server.broadcast(c.number)) for c in clients]
        for c, data in zip(clients, messages_up, strict=True):
            late = index == 2 and c.number == 1
            dies = index in (3, 4) and c.number == 0
            if not (late or dies):
                server.receive(data, c.number)
            if dies:
                c.save(tmp_path / "client")
                clients[0] = client(0)
                clients[0].resume(tmp_path / "client")
        server.close_round()
        if index == 2:
            with pytest.raises(deploy.MessageError, match="of round 2, but round 3 is open"):
                server.receive(messages_up[1], 1)
        if index == 5:
            server.save(tmp_path / "server")
            server = deploy.Server(solver, jnp.zeros(3), CLIENTS, KEY)
            server.resume(tmp_path / "server")
    for c in clients:
        c.finish(server.broadcast(c.number))
    server.record.save(tmp_path / "record")
    heard = deploy.Record.load(tmp_path / "record").heard
    assert heard.sum() == 8 * CLIENTS - 3
    check_same(simulated(solver, problem, heard), server, clients)


@pytest.mark.parametrize("kind", ["rbg", "unsafe_rbg"])
def test_keys_whose_numbers_depend_on_the_batch_are_refused(kind, problem):
    """The first client would draw other minibatches alone than among all."""
    key = jax.random.key(3, impl=kind)
    refused = pytest.raises(fa.InputError, match=f"^key must .* of the kind {kind} .*threefry2x32")
    with refused:
        deploy.Study.of(solvers.fed_admm(), problem, key)
    with refused:
        deploy.Study(
            solver=solvers.fed_admm(),
            model=jnp.zeros(3),
            num_clients=CLIENTS,
            key=key,
            problem=lambda number: problem.take(jnp.array([number])),
        )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("solver", "fed_admm", "solver must be a solver with one server"),
        ("solver", solvers.extra(), "topology must be a graph of"),
        ("model", "zeros", "model must be an array of numbers"),
        ("model", jnp.zeros((2, 3)), "model must have shape"),
        ("model", jnp.full(3, jnp.nan), "model must be finite"),
        ("num_clients", 2.5, "num_clients must be a whole number"),
        ("num_clients", 0, "num_clients must be at least 1"),
        ("key", 7, "key must be a typed key"),
        ("problem", 3, r"problem must be a function problem\(number\), but it is 3"),
        ("problem", lambda: None, r"problem must be a function problem\(number\)"),
        ("everybody", "all", r"everybody must be a function everybody\(\), but it is 'all'"),
        ("topology", "tree", "topology must be None for a solver with one server"),
    ],
)
def test_the_fields_of_a_study_are_checked(field, value, words, problem):
    with pytest.raises(fa.InputError, match=words) as caught:
        replace(deploy.Study.of(solvers.fed_admm(), problem, KEY), **{field: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("solver", "topology"),
    [(solvers.fed_admm(), None), (solvers.extra(), fa.graphs.from_edges(CLIENTS, [(0, 1)]))],
)
def test_what_a_study_calls_a_problem_is_one(solver, topology):
    fields = {"model": jnp.zeros(3), "num_clients": CLIENTS, "key": KEY, "topology": topology}
    for wrong in (None, 3, "data", jnp.zeros(3)):
        study = deploy.Study(solver=solver, problem=lambda number, x=wrong: x, **fields)
        with pytest.raises(fa.InputError, match="problem"):
            study.client(0)


def test_what_cannot_be_deployed_says_why(problem):
    each = solvers.fed_admm(rho=jnp.ones(CLIENTS))
    with pytest.raises(fa.InputError, match=r"rho must have shape \(\) or \(1,\)"):
        deploy.Client(each, problem.take(jnp.array([0])), 0, CLIENTS, KEY)
    with pytest.raises(fa.InputError, match="a solver with one server"):
        deploy.Server(solvers.extra(), jnp.zeros(2), 3, KEY)
    attacked = messages.exchange(attack=messages.sign_flip(0.2))
    with pytest.raises(fa.InputError, match="neither an attack nor a delay"):
        deploy.Server(solvers.fed_admm(exchange=attacked), jnp.zeros(2), 3, KEY)
