"""Runs whose client data stay on the host: the numbers of a run with all data held at once."""

import threading

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, participation, solvers
from fedjax_admm.problems import federated, streamed

SIZES = (5, 9, 3, 7, 4, 6, 9, 8, 5, 7, 3, 6)
FOUR = participation.without_replacement(4)


def loss(params, sample):
    return (sample["x"] @ params["w"] + params["b"] - sample["y"]) ** 2


def near(params, sample):
    return (loss(params, sample) < 1).astype(sample["y"].dtype)


def clients(sizes=SIZES):
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=(n, 3)), "y": rng.normal(size=n)} for n in sizes]


def start():
    return {"w": jnp.zeros(3), "b": jnp.zeros(())}


def both(data=None, **options):
    """Return the problem with data held at once, and with data on the host."""
    data = clients() if data is None else data
    options = {"score": near, "held_out": data[0]} | options
    return [federated(loss, each, start(), **options) for each in (data, streamed(data))]


def ran(problem, solver, drawn=FOUR, rounds=12, **options):
    return fa.run(solver, problem, jax.random.key(1), rounds=rounds, participation=drawn, **options)


def assert_same(first, second):
    chex.assert_trees_all_equal_shapes_and_dtypes(first, second)
    chex.assert_trees_all_close(first, second, rtol=1e-9, atol=1e-11)


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("solver", "options"),
    [
        (solvers.fed_avg(local_steps=3), {"batch_size": 4}),
        (solvers.scaffold(), {"batch_size": 4, "weights": "samples"}),
        (solvers.fed_admm(), {"batch_size": 4}),
        (solvers.fed_dr(), {}),  # every client sends before the first round
    ],
    ids=["fed_avg", "scaffold", "fed_admm", "fed_dr"],
)
def test_the_numbers_are_those_of_data_held_at_once(x64, solver, options):
    measure = fa.measures.accuracy
    held, stream = (ran(p, solver, measure=measure, every=3) for p in both(**options))
    assert_same(held, stream)
    assert solver.traffic(both()[1]) == solver.traffic(both()[0])


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    "drawn",
    [participation.bernoulli(0.3), participation.round_robin(5)],
    ids=["bernoulli", "round_robin"],
)
def test_rounds_may_have_different_numbers_of_clients(x64, drawn):
    solver = solvers.scaffold(0.05, local_steps=2)
    held, stream = (ran(problem, solver, drawn) for problem in both())
    assert_same(held, stream)


def moving(params, sample, state, key):
    noise = jax.random.normal(key, (), state.dtype)
    return loss(params, sample) + noise * params["b"], 0.9 * state + 0.1 * sample["y"]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.thorough
def test_states_of_losses_are_those_of_the_clients_drawn(x64, average):
    options = {"state": np.zeros(()), "average_state": average, "batch_size": 4}
    problems = [federated(moving, d, start(), **options) for d in (clients(), streamed(clients()))]
    for drawn in (FOUR, participation.bernoulli(0.3)):
        assert_same(*(ran(p, solvers.scaffold(0.05, local_steps=2), drawn) for p in problems))


def objective_and_model(solver, problem, state):
    return {**fa.measures.objective(solver, problem, state), "model": solver.estimate(state)}


@pytest.mark.thorough
def test_a_measure_of_all_clients_reads_them_in_groups(x64, monkeypatch):
    monkeypatch.setattr("fedjax_admm.problems._streamed._AT_ONCE", 5)
    solver = solvers.fed_avg(0.05)
    held, stream = (ran(p, solver, measure=objective_and_model, every=6) for p in both())
    assert_same(held, stream)


def test_a_run_until_a_residual_is_small(x64):
    def until(problem):
        return fa.run_until(
            solvers.fed_avg(0.2, local_steps=5),
            problem,
            jax.random.key(1),
            residual=fa.measures.stationarity,
            tolerance=0.3,
            max_rounds=40,
            every=2,
        )

    held, stream = map(until, both())
    assert int(stream.status.converged) > 0
    assert_same(held, stream)


@pytest.mark.bits
def test_it_goes_on_to_the_same_bits(tmp_path):
    problem, solver = both()[1], solvers.scaffold(0.05, local_steps=2)
    whole = ran(problem, solver)
    part = ran(problem, solver, rounds=5)
    more = ran(problem, solver, rounds=7, start=part.state)
    chex.assert_trees_all_equal((more.state, more.estimate), (whole.state, whole.estimate))
    path = {"checkpoint": tmp_path / "run.npz", "checkpoint_every": 4}
    ran(problem, solver, rounds=8, **path)
    chex.assert_trees_all_equal(ran(problem, solver, **path), whole)
    assert ran(problem, solver, rounds=0).trace["round"].shape == (0,)


def test_only_the_clients_drawn_are_read_ahead_by_another_thread(tmp_path, x64):
    data, read, threads = clients([6] * 40), [], set()

    def client(number):
        read.append(number)
        threads.add(threading.current_thread())
        return data[number]

    problem = federated(loss, streamed(client, prefetch=2), start(), sizes=[6] * 40)
    read.clear(), threads.clear()
    result = ran(problem, solvers.fed_avg(0.05), rounds=5)
    assert len(read) == 5 * 4
    assert threading.current_thread() not in threads
    np.save(tmp_path / "x.npy", np.stack([one["x"] for one in data]))
    np.save(tmp_path / "y.npy", np.stack([one["y"] for one in data]))
    maps = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"}
    for prefetch in (0, 1):
        mapped = federated(loss, streamed(maps, prefetch=prefetch), start())
        assert_same(ran(mapped, solvers.fed_avg(0.05), rounds=5), result)


def test_changes_in_a_memory_map_of_its_own_are_kept(tmp_path, x64):
    """Memory is given back after reading, but not where the map holds what no file has."""
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    copy = np.load(tmp_path / "x.npy", mmap_mode="c")
    copy[:] = 2
    problem = federated(lambda w, sample: w * sample, streamed(copy), jnp.ones(()))
    np.testing.assert_array_equal(problem.values(jnp.ones((2, 1))), [2, 2])
    np.testing.assert_array_equal(copy, np.full((2, 3), 2.0))


MISTAKES = {
    "sizes": (
        lambda: federated(loss, streamed(lambda _: clients()[0]), start(), sizes=[5, 4]).values(
            jnp.zeros((2, 4))
        ),
        r"^data must hold float64\[4, 3\] and float64\[4\] of client 1, as of client 0, "
        r"but it holds float64\[5, 3\] and float64\[5\]\.$",
    ),
    "first size": (
        lambda: federated(loss, streamed(lambda _: clients()[0]), start(), sizes=[4, 4]),
        r"^sizes must hold 5 for client 0, but it is 4\.$",
    ),
    "mask": (
        lambda: federated(loss, streamed(clients()), start(), mask=np.ones((12, 9), bool)),
        r"^mask is not for streamed arrays, all of which count\.$",
    ),
    "stacked": (
        lambda: federated(loss, streamed(np.ones(3)), start()),
        r"data must be arrays with the leading axes \(clients, samples\), equally long",
    ),
    "in a program": (
        lambda: jax.jit(both()[1].values)(jnp.zeros((12, 4))),
        r"^data is streamed from the host, so that a program has the samples of the clients that a "
        r"round draws, but those of all are asked for; compute it outside of jax.jit, ",
    ),
    "traced": (
        lambda: jax.vmap(lambda rate: ran(both()[1], solvers.fed_avg(rate)))(jnp.ones(2)),
        "data is streamed from the host while rounds are computed, but this run is",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_a_sentence(mistake, x64):
    call, sentence = MISTAKES[mistake]
    with pytest.raises(InputError, match=sentence):
        call()
