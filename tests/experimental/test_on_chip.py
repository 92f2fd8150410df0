"""FSMDM in one kernel: the interpreted body against scan and reference, and its lowering."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from fedjax_admm import messages, participation, schedules
from fedjax_admm._run import RoundState
from fedjax_admm.experimental.on_chip import _kernel as kernel, _launch as launch, run_on_chip
from fedjax_admm.experimental.on_chip._respelling import INSTRUCTIONS, operations, respelled
from fedjax_admm.kernels import prox_negative_moreau_norm, prox_range_excess
from fedjax_admm.solvers import FSMDMClients, FSMDMState
from tests.reference import fsmdm as reference

# Experimental: no family, solver or command hangs on it.
pytestmark = pytest.mark.thorough

KEY = 7
VARIABLES = ("x", "z", "g", "q", "psi", "xi", "zeta")


def draw(clients, dim, seed=3):
    return jax.jit(
        lambda key: fa.problems.draw_localization(
            key, fa.problems.cauchy_noise(1.0), clients=clients, dim=dim
        )
    )(jax.random.key(seed))


def from_the_scan(solver, problem, key, **settings):
    """The same run by `lax.scan`."""
    return fa.run(solver, problem, key, measure=servers, **settings)


def servers(solver, problem, state):
    return {"estimate": state.server}


def assert_same(mine, other, **tolerances):
    """Every array of two runs: structure, dtypes and shapes alike, numbers close."""
    assert jax.tree.structure(mine) == jax.tree.structure(other)
    for (path, a), b in zip(jax.tree.leaves_with_path(mine), jax.tree.leaves(other), strict=True):
        name = jax.tree_util.keystr(path)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), name
        if jnp.issubdtype(a.dtype, jnp.floating):
            np.testing.assert_allclose(a, b, err_msg=name, **tolerances)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)


# --- fidelity -----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("clients", "dim", "local_updates", "preset", "masked"),
    [
        (50, 3, 3, "tuned", True),
        pytest.param(5, 2, 1, "published", False, marks=pytest.mark.slow),
        pytest.param(21, 3, 3, "published", True, marks=pytest.mark.slow),
        pytest.param(128, 3, 1, "tuned", True, marks=pytest.mark.slow),
    ],
)
def test_trajectory_is_the_reference_and_the_scan(clients, dim, local_updates, preset, masked):
    rounds = 60
    problem = draw(clients, dim)
    masks = np.random.default_rng(5).random((rounds, clients)) < 0.4 if masked else None
    settings = {
        "rounds": rounds,
        "participation": participation.replay(masks) if masked else None,
    }
    solver = fa.solvers.fsmdm(preset, local_updates=local_updates)
    mine = run_on_chip(solver, problem, jax.random.key(KEY), interpret=True, **settings)
    assert_same(mine, from_the_scan(solver, problem, jax.random.key(KEY), **settings), atol=1e-10)

    # The reference lives in space: a plane is the space at height zero.
    anchors = np.pad(np.asarray(problem.anchors), ((0, 0), (0, 3 - dim)))
    truth = reference.fsmdm(
        anchors,
        problem.distances,
        rounds=rounds,
        local_updates=local_updates,
        masks=masks,
        **{"published": reference.PUBLISHED, "tuned": reference.TUNED}[preset],
    )
    np.testing.assert_allclose(mine.trace["estimate"], truth["w"][:, :dim], atol=1e-9)
    client = mine.state.solver.client
    np.testing.assert_array_equal(client.updates, truth["k"][-1])
    for name in VARIABLES:
        np.testing.assert_allclose(
            getattr(client, name), truth[name][-1, :, :dim], atol=1e-9, err_msg=name
        )


def in_the_middle(problem, index):
    """A state in which every client has done a number of updates of its own."""
    rng = np.random.default_rng(index)
    draws = (
        jnp.asarray(rng.normal(size=problem.anchors.shape), problem.anchors.dtype) for _ in range(7)
    )
    updates = jnp.arange(problem.num_clients, dtype=jnp.int32) % (index + 1)
    client = FSMDMClients(*draws, updates)
    return RoundState(jnp.int32(index), (), FSMDMState(problem.start, client))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("clients", "dim", "process", "begun"),
    [
        # The masks start in the middle of what would be a word of 32 rounds.
        (130, 2, participation.bernoulli(0.5), 5),
        pytest.param(130, 3, participation.bernoulli(0.5), 5, marks=pytest.mark.slow),
        pytest.param(1, 3, participation.everyone(), None, marks=pytest.mark.slow),
        pytest.param(128, 2, participation.everyone(), 3, marks=pytest.mark.slow),
        pytest.param(50, 3, participation.without_replacement(7), None, marks=pytest.mark.slow),
        pytest.param(300, 1, participation.everyone(), None, marks=pytest.mark.slow),
    ],
)
def test_ragged_numbers_of_clients_in_single_precision(clients, dim, process, begun):
    problem = draw(clients, dim)
    settings = {
        "rounds": 20,
        "every": 4,
        "participation": process,
        "start": None if begun is None else in_the_middle(problem, begun),
    }
    mine = run_on_chip(fa.solvers.fsmdm(), problem, jax.random.key(KEY), interpret=True, **settings)
    scan = from_the_scan(fa.solvers.fsmdm(), problem, jax.random.key(KEY), **settings)
    # Relative to the size of the room, 30 m: some hundred roundings.
    assert_same(mine, scan, rtol=1e-4, atol=2e-3)
    assert mine.trace["estimate"].shape == (5, dim)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_batch_under_jit_and_vmap_with_its_own_omegas_and_masks():
    """Problems, keys and omegas are batched; the schedules have powers and logarithms."""

    def growth(k, scale):
        return scale * jnp.sqrt(k) * (1 + 0.01 * jnp.log1p(k))

    def solver(omega):
        return fa.solvers.fsmdm(
            omega=omega,
            sigma_xi=schedules.schedule(growth, scale=0.08),
            mu_h=schedules.power_decay(100 * 3**0.5, 0.5),
        )

    problems = jax.jit(
        jax.vmap(
            lambda key: fa.problems.draw_localization(key, fa.problems.no_noise(), clients=6, dim=2)
        )
    )(jax.random.split(jax.random.key(1), 3))
    keys = jax.random.split(jax.random.key(2), 3)
    omegas = jnp.array([5.0, 10.0, 20.0])
    settings = {"rounds": 50, "every": 10, "participation": participation.markov_on_off(0.5, 0.3)}

    def batch(run, **more):
        def one(omega, problem, key):
            return run(solver(omega), problem, key, **settings, **more)

        return jax.jit(jax.vmap(one))(omegas, problems, keys)

    assert_same(batch(run_on_chip, interpret=True), batch(from_the_scan), atol=1e-9)


def imaginary_from_the_fifth_update(k):
    return jnp.sqrt(4.5 - k)


@pytest.mark.thorough
def test_single_client_and_the_first_round_that_is_not_finite():
    problem, key = draw(1, 2), jax.random.key(0)
    solver = fa.solvers.fsmdm(sigma_xi=schedules.schedule(imaginary_from_the_fifth_update))
    mine = run_on_chip(solver, problem, key, rounds=8, interpret=True)
    scan = from_the_scan(solver, problem, key, rounds=8)
    # The weight in the server's mean looks one update ahead.
    assert mine.status.nonfinite == scan.status.nonfinite == 4
    np.testing.assert_allclose(mine.trace["estimate"], scan.trace["estimate"], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.isfinite(mine.trace["estimate"]).all(1), np.arange(1, 9) < 4)


# --- derivatives and the fall-back --------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_gradients_are_those_of_the_scan():
    problem, key = draw(5, 2), jax.random.key(KEY)

    def gradients(run, **more):
        def loss(omega, distances):
            moved = dataclasses.replace(problem, distances=distances)
            end = run(fa.solvers.fsmdm(omega=omega), moved, key, rounds=8, **more)
            return jnp.sum(end.trace["estimate"] ** 2) + jnp.sum(end.state.solver.client.z)

        return jax.jit(jax.grad(loss, (0, 1)))(jnp.array(2.0), problem.distances)

    mine, scan = gradients(run_on_chip, interpret=True), gradients(from_the_scan)
    for a, b in zip(mine, scan, strict=True):
        assert np.abs(b).max() > 1e-6
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
def test_without_a_gpu_it_is_the_scan():
    problem, key = draw(6, 2), jax.random.key(KEY)
    mine = run_on_chip(fa.solvers.fsmdm(), problem, key, rounds=10, every=5)
    assert_same(
        mine, from_the_scan(fa.solvers.fsmdm(), problem, key, rounds=10, every=5), rtol=1e-6
    )


# --- lowering for CUDA --------------------------------------------------------------------------


def polynomial():
    return schedules.from_optax(optax.polynomial_schedule(200.0, 10.0, 1.5, 400))


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("clients", "process", "solver"),
    [
        (21, participation.everyone(), fa.solvers.fsmdm),
        (
            130,
            participation.bernoulli(0.5),
            lambda: fa.solvers.fsmdm(
                local_updates=3,
                sigma_psi=schedules.constant(0.01),
                mu_phi=polynomial(),
                mu_h=schedules.geometric(170.0, 0.99),
            ),
        ),
    ],
)
def test_lowers_for_cuda_to_one_kernel_per_batch(clients, process, solver):
    problem, solver = draw(clients, 3), solver()

    def one(problem, key):
        return run_on_chip(solver, problem, key, rounds=40, every=10, participation=process)

    problems = jax.tree.map(lambda leaf: jnp.stack([leaf] * 4), problem)
    traced = jax.jit(jax.vmap(one)).trace(problems, jax.random.split(jax.random.key(0), 4))
    on_gpu = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert on_gpu.count("mosaic_gpu_v2") == 1
    assert "mosaic_gpu" not in traced.lower(lowering_platforms=("cpu",)).as_text()


def lowered_for_a_gpu(problem):
    traced = jax.jit(lambda key: run_on_chip(fa.solvers.fsmdm(), problem, key, rounds=4)).trace(
        jax.random.key(0)
    )
    return traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.usefixtures("x64")
def test_double_precision_stays_with_the_scan_on_a_gpu():
    assert "mosaic_gpu" not in lowered_for_a_gpu(draw(3, 2))


def test_a_jaxlib_without_mosaic_gpu_stays_with_the_scan(monkeypatch):
    monkeypatch.setattr(launch, "mosaic_gpu", None)
    # No other test has as many clients: what was traced with the module is not found again.
    assert "mosaic_gpu" not in lowered_for_a_gpu(draw(7, 2))


# --- the pieces ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_prox_per_coordinate_is_the_kernel(dim):
    rng = np.random.default_rng(dim)
    anchor = jnp.asarray(rng.normal(size=(40, dim)))
    points = anchor + jnp.asarray(rng.normal(size=(40, dim)) * rng.choice([0, 0.1, 1, 5], (40, 1)))
    distance, step, mu = (jnp.asarray(rng.uniform(0, 2, 40)) for _ in range(3))

    @jax.jit
    def per_coordinate(points, anchor):
        rows, base = tuple(points.T), tuple(anchor.T)
        excess = kernel.prox_range_excess(rows, base, distance, step)
        moreau = kernel.prox_negative_moreau_norm(rows, base, step, mu)
        return jnp.stack(excess, 1), jnp.stack(moreau, 1)

    @jax.jit
    def kernels(points, anchor):
        excess = prox_range_excess(points, anchor, distance, step)
        return excess, prox_negative_moreau_norm(points, anchor, step, mu)

    for mine, theirs in zip(per_coordinate(points, anchor), kernels(points, anchor), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13, atol=1e-13)


def every_spelling(k, power):
    return k**power + k**-2 + jnp.log1p(k) + jnp.expm1(-k) + jnp.sqrt(k) + k**0


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "schedule",
    [
        schedules.sqrt_growth(0.3),
        schedules.power_decay(2.0, 0.7),
        schedules.geometric(2.0, 0.9),
        polynomial(),
        schedules.from_optax(optax.piecewise_constant_schedule(1.0, {3: 0.5, 6: 0.5})),
        schedules.schedule(every_spelling, power=-1.5),
    ],
    ids=["sqrt", "power", "geometric", "polynomial", "piecewise", "formula"],
)
def test_respelled_schedules_have_the_same_values(schedule):
    schedule = jax.tree.map(lambda leaf: leaf.astype(float), schedule)
    counts = jnp.arange(1, 500, dtype=jnp.int32)
    spelled = respelled(lambda schedule, counts: schedule(counts))
    used = operations(jax.make_jaxpr(spelled)(schedule, counts))
    assert used <= INSTRUCTIONS | {"integer_pow"}  # powers above 1 stay
    mine, plain = jax.jit(lambda s, counts: (spelled(s, counts), s(counts)))(schedule, counts)
    np.testing.assert_allclose(mine, plain, rtol=1e-13)


# --- refusals -----------------------------------------------------------------------------------


def running_sum(k):
    return jnp.cumsum(k)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rounds": 7, "every": 2}, "rounds must be a multiple of every"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"solver": fa.solvers.fedmavg()}, "solver must be a FSMDM"),
        ({"problem": object()}, "problem must be a Localization"),
        (
            {"solver": dataclasses.replace(fa.solvers.fsmdm(), omega=jnp.ones(3))},
            r"solver.omega must be one floating number",
        ),
        (
            {"solver": fa.solvers.fsmdm(mu_h=schedules.schedule(running_sum))},
            "mu_h must be made of elementwise arithmetic for the kernel, but it uses cumsum",
        ),
        (
            {"solver": fa.solvers.fsmdm(regularizer=fa.penalties.l1(0.1))},
            r"regularizer must be penalties.zero\(\) for the kernel, but it is a L1; use",
        ),
        (
            {"solver": fa.solvers.fsmdm(exchange=messages.exchange(messages.qsgd(4)))},
            r"exchange must be messages.exchange\(\) for the kernel, in which nothing happens",
        ),
        ({"participation": participation.replay(np.ones((3, 4), bool))}, "masks holds 3 rounds"),
    ],
)
def test_refuses_in_one_sentence(changes, sentence):
    given = {"solver": fa.solvers.fsmdm(), "problem": draw(4, 2), "rounds": 4} | changes
    solver, problem = given.pop("solver"), given.pop("problem")
    with pytest.raises(fa.InputError, match=sentence):
        run_on_chip(solver, problem, jax.random.key(0), **given)
