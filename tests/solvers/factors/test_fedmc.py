"""Federated matrix completion: trajectories, facts, precision, traffic, mistakes."""

from functools import cache, partial
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import participation, penalties
from fedjax_admm.measures import (
    augmented_lagrangian,
    completion_residual,
    fresh_rating_error,
)
from fedjax_admm.ratings import from_arrays
from tests.bits import hangs_on_rounding
from tests.reference import fedmc as reference

ROUNDS, STEPS, BETA = 60, 5, 3.0
SIZES, ITEMS, RANK = (14, 1, 8, 10, 7), 25, 3
LEARNT, JUDGED = (150, 12, 70, 80, 60), (4, 3, 0, 5, 6)
USER_WEIGHT, ITEM_WEIGHT = 0.3, 0.2

# What both sides call a regulariser, by its weight.
PENALTIES = {
    "l2": (penalties.squared_l2, reference.L2),
    "l1": (penalties.l1, reference.L1),
    "nonneg": (lambda weight: penalties.non_negative(), lambda weight: reference.NonNegative()),
}


class Case(NamedTuple):
    """Clients as the reference takes them, and where a run starts."""

    clients: list
    judged: list
    users: list
    items: np.ndarray


def draw(seed=0):
    """Draw clients of the sizes and counts above, whatever the seed: programs are shared.

    Two items are rated by nobody, more of them nowhere at the client with one user; user 3 of the
    first client and the last user of the last one have no ratings.
    """
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0, 1, (ITEMS, RANK))
    clients, judged = [], []
    for i, size in enumerate(SIZES):
        there = np.delete(np.arange(size), {0: [3], 4: [-1]}.get(i, []))
        pairs = rng.permutation(len(there) * (ITEMS - 2))[: LEARNT[i] + JUDGED[i]]
        rows, cols = there[pairs // (ITEMS - 2)], pairs % (ITEMS - 2) + 1
        taste = rng.uniform(-1, 1, (size, RANK))
        values = (taste[rows] * truth[cols]).sum(1) + 0.3 * rng.standard_normal(len(rows))
        whole = (rows, cols, values)
        clients.append(tuple(part[: LEARNT[i]] for part in whole))
        judged.append(tuple(part[LEARNT[i] :] for part in whole))
    users = [rng.uniform(0, 1, (size, RANK)) for size in SIZES]
    return Case(clients, judged, users, rng.uniform(0, 1, (ITEMS, RANK)))


def problem_of(case):
    return fa.problems.matrix_completion_of_clients(
        case.clients,
        num_items=ITEMS,
        members=SIZES,
        held_out=case.judged,
        standardize=False,
    )


def padded(users):
    """Stack the users of all clients; where there is no user, stands a number to be ignored."""
    room = max(len(part) for part in users)
    return np.stack(
        [np.pad(part, ((0, room - len(part)), (0, 0)), constant_values=7.0) for part in users]
    )


def start_of(case):
    return fa.ratings.given_start(padded(case.users), case.items)


def solver_of(case, kinds=("l2", "l2"), weights=(USER_WEIGHT, ITEM_WEIGHT), **options):
    build = [PENALTIES[kind][0](weight) for kind, weight in zip(kinds, weights, strict=True)]
    options = {"beta": BETA, "inner_steps": STEPS, "start": start_of(case)} | options
    return fa.solvers.fed_mc_admm(user_penalty=build[0], item_penalty=build[1], **options)


def random_masks(seed=5):
    """Return masks with rounds of nobody, the first one too, and of everybody."""
    masks = np.random.default_rng(seed).random((ROUNDS, len(SIZES))) < 0.4
    masks[[0, 10, 11]] = False
    masks[[1, 20]] = True
    return masks


def everything(solver, problem, state):
    users, copies, duals = state.clients
    return {"U": users, "W": copies, "Y": duals, "V": state.items}


def factors(solver, problem, state):
    return {"U": state.clients.users, "V": state.items}


def follow(solver, problem, process, measure=everything):
    """Return what `measure` says after every round, arrays of numpy."""
    trace = fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=ROUNDS,
        participation=process,
        measure=measure,
    ).trace
    return {name: np.asarray(part) for name, part in trace.items()}


def selections(masks):
    return [np.flatnonzero(mask) for mask in masks]


def drawn_masks(number):
    """Return who takes part in a run with `without_replacement(number)` and the key of `follow`."""
    process = participation.without_replacement(number)

    @jax.vmap
    def active(index):
        key, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), index))
        return process.draw((), index, key, (len(SIZES),))[1].active

    masks = np.asarray(active(jnp.arange(ROUNDS, dtype=jnp.int32)))
    assert (masks.sum(1) == number).all()
    return masks


def reference_run(
    case, masks, kinds=("l2", "l2"), weights=(USER_WEIGHT, ITEM_WEIGHT), beta=BETA, **options
):
    """Return the states of the reference after every round; the first one is before all rounds."""
    theirs = [PENALTIES[kind][1](weight) for kind, weight in zip(kinds, weights, strict=True)]
    return reference.fedmc_admm(
        case.clients, case.users, case.items, selections(masks), beta, STEPS, *theirs, **options
    )


def assert_same_run(trace, states, atol=1e-9):
    for name in ("V", "W", "Y"):
        wanted = np.stack([state[name] for state in states[1:]])
        np.testing.assert_allclose(trace[name], wanted, rtol=0, atol=atol, err_msg=name)
    for i, size in enumerate(SIZES):
        wanted = np.stack([state["U"][i] for state in states[1:]])
        np.testing.assert_allclose(trace["U"][:, i, :size], wanted, rtol=0, atol=atol)
        assert not trace["U"][:, i, size:].any()
    # The comparison is worth something: the run goes somewhere, up to its last rounds.
    assert np.abs(np.diff(trace["V"][-10:], axis=0)).max() > 1e-4
    assert np.abs(trace["U"][-1]).max() > 0.1


# --- trajectories against the reference ---------------------------------------------------------

RUNS = {
    "fro, l2": (("l2", "l2"), {}),
    "spec, l1, Y = 0": (("l1", "l1"), {"bound": "spec", "zero_dual": True}),
    "row, nonneg and l1": (("nonneg", "l1"), {"bound": "row"}),
}


@cache
def followed(name="fro, l2"):
    """Return a case, its run with random masks, and these; in float64."""
    case, masks = draw(), random_masks()
    kinds, options = RUNS[name]
    solver = solver_of(case, kinds, **options)
    return case, follow(solver, problem_of(case), participation.replay(masks)), masks


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", RUNS)
def test_every_iterate_is_that_of_the_reference(name):
    case, trace, masks = followed(name)
    kinds, options = RUNS[name]
    assert_same_run(trace, reference_run(case, masks, kinds, **options))
    np.testing.assert_array_equal(trace["messages"], masks.sum(1))
    for i, mask in enumerate(masks[1:], 1):
        for part in "UWY":
            moved = np.any(trace[part][i] != trace[part][i - 1], (1, 2))
            np.testing.assert_array_equal(moved, mask)


def reference_averages(case, masks, setting, all_users):
    """Return the reference's factors after every round; in one of nobody, V stays."""
    users, items, states = case.users, case.items, []
    for chosen in selections(masks):
        last = reference.fedmavg(
            case.clients,
            users,
            items,
            [chosen if len(chosen) else [0]],
            5,
            4,
            0.3,
            0.2,
            setting,
            all_users,
        )[-1]
        if len(chosen) or all_users:
            users = last["U"]
        if len(chosen):
            items = last["V"]
        states.append((users, items))
    return states


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("setting", "all_users", "number"),
    [
        ("paper", True, None),
        ("fair", False, 2),
    ],
)
def test_averaging_is_that_of_the_reference(setting, all_users, number):
    case = draw()
    solver = fa.solvers.fed_mavg(
        setting,
        user_weight=0.3,
        item_weight=0.2,
        user_steps=5,
        item_steps=4,
        start=start_of(case),
        all_users=all_users,
    )
    masks = random_masks() if number is None else drawn_masks(number)
    process = (
        participation.replay(masks) if number is None else participation.without_replacement(number)
    )
    trace = follow(solver, problem_of(case), process, factors)
    states = reference_averages(case, masks, setting, all_users)
    for i, size in enumerate(SIZES):
        wanted = np.stack([users[i] for users, _ in states])
        np.testing.assert_allclose(trace["U"][:, i, :size], wanted, rtol=0, atol=1e-9)
        assert not trace["U"][:, i, size:].any()
    wanted = np.stack([items for _, items in states])
    np.testing.assert_allclose(trace["V"], wanted, rtol=0, atol=1e-9)
    assert np.abs(np.diff(wanted[-10:], axis=0)).max() > 1e-4
    np.testing.assert_array_equal(trace["messages"], masks.sum(1))


# --- facts --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
def test_duals_are_minus_the_linearised_gradients():
    case, trace, masks = followed()
    p = len(SIZES)
    for k in range(1, ROUNDS):
        for i in np.flatnonzero(masks[k]):
            users, client = trace["U"][k, i, : SIZES[i]], case.clients[i]
            old = [trace[name][k - 1] for name in "WVY"]
            iterates = reference.item_iterates(
                old[0][i], users, old[1], old[2][i], client, STEPS, BETA, p
            )
            gradient = reference.gradient_items(users, iterates[-2], client)
            curvature = np.linalg.norm(users.T @ users)
            wanted = -(gradient + curvature * (trace["W"][k, i] - iterates[-2])) / p
            np.testing.assert_allclose(trace["Y"][k, i], wanted, rtol=0, atol=1e-9)


# --- figures of merit ---------------------------------------------------------------------------


def figures(solver, problem, state):
    return {
        **fresh_rating_error(solver, problem, state),
        "lagrangian": augmented_lagrangian(solver, problem, state),
        "residual": completion_residual(solver, problem, state),
    }


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_figures_are_those_of_the_reference():
    """With l1, where some entries are zero; by the bound per row, where some rows have no data."""
    case, masks = draw(2), random_masks()
    weights = 0.5, 0.5
    solver = solver_of(case, ("l1", "l1"), weights, bound="row")
    last = fa.run(
        solver,
        problem_of(case),
        jax.random.key(0),
        rounds=ROUNDS,
        participation=participation.replay(masks),
        measure=figures,
        every=ROUNDS,
    )
    found = {name: part[0] for name, part in last.trace.items()}
    state = reference_run(case, masks, ("l1", "l1"), weights, bound="row")[-1]
    theirs = [reference.L1(weight) for weight in weights]
    users, items = state["U"], state["V"]
    fresh = reference.fresh_users(case.clients, users, items, STEPS, theirs[0], "row")
    wanted = {
        "error": reference.rmse(case.judged, users, items),
        "raw_error": reference.rmse(case.judged, users, items),
        "training_error": reference.rmse(case.clients, users, items),
        "fresh_error": reference.rmse(case.judged, fresh, items),
        "objective": reference.objective(case.clients, users, items, *theirs),
        "lagrangian": reference.lagrangian(state, case.clients, BETA, *theirs),
        "residual": np.sqrt(
            reference.lagrangian_stationarity_squared(state, case.clients, BETA, *theirs)
        ),
        "nonzero_users": np.mean([np.mean(part != 0) for part in users]),
        "nonzero_items": np.mean(items != 0),
    }
    assert set(wanted) == set(found) - {"round", "messages"}
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=name)
    assert 0.1 < wanted["nonzero_users"] < 0.9
    assert 0.1 < wanted["nonzero_items"] < 0.9
    assert wanted["fresh_error"] != pytest.approx(wanted["error"], rel=1e-3)


# --- precision ----------------------------------------------------------------------------------

LONG = 300


@cache
def medium_ratings():
    """Return 12 000 ratings of 150 items by 200 users, whole numbers from 1 to 5."""
    rng = np.random.default_rng(4)
    users, items = np.divmod(rng.permutation(200 * 150)[:12_000], 150)
    taste, traits = rng.standard_normal((200, 2)), rng.standard_normal((150, 2))
    values = 3 + (taste[users] * traits[items]).sum(1) + 0.7 * rng.standard_normal(12_000)
    return from_arrays(users, items, np.clip(np.round(values), 1, 5))


@cache
def medium_problem():
    """Return a problem of several chunks of ratings."""
    with jax.enable_x64(False):  # whatever test asks first
        problem = fa.problems.matrix_completion(medium_ratings(), jax.random.key(0), clients=20)
    assert int(problem.by_user.counts.sum()) > 8192
    return problem


def medium(problem, rounds):
    """Run from the scale and with the beta that are the default ones."""
    rng = np.random.default_rng(7)
    shape = (problem.num_clients, problem.users_per_client, 3)
    start = fa.ratings.given_start(
        2e-4 * rng.random(shape), 2e-4 * rng.random((problem.num_items, 3))
    )
    run = fa.run(
        fa.solvers.fed_mc_admm(start=start),
        problem,
        jax.random.key(1),
        rounds=rounds,
        participation=participation.without_replacement(4),
        measure=everything,
        every=60,
    )
    return problem, jax.tree.map(np.asarray, run.state.solver), jax.tree.map(np.asarray, run.trace)


@cache
def narrow():
    return medium(medium_problem(), LONG)


@cache
def wide():
    """Run on the very same numbers in float64."""
    with jax.enable_x64(True):

        def widened(leaf):
            wider = jnp.float64 if leaf.dtype == jnp.float32 else leaf.dtype
            return leaf.astype(wider)

        return medium(jax.tree.map(widened, medium_problem()), 60)


def deviation(low, high):
    low, high = (np.asarray(part, np.float64) for part in (low, high))
    return np.linalg.norm(low - high) / np.linalg.norm(high)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_several_chunks_of_ratings_against_the_reference():
    problem, _, trace = wide()
    # What the blocks hold, client by client, as the reference takes it.
    listed = jax.tree.map(np.asarray, problem.by_item)
    clients = []
    for first, count in zip(listed.first, listed.counts, strict=True):
        parts = (listed.users, listed.items, listed.values)
        clients.append(tuple(part[first:].ravel()[:count] for part in parts))
    state = {name: trace[name][0] for name in "UVWY"}
    solver = fa.solvers.fed_mc_admm(
        start=fa.ratings.given_start(state["U"], state["V"]), inner_steps=3
    )
    after = fa.run(solver, problem, jax.random.key(0), rounds=2, measure=everything, every=2).trace
    users = [
        part[:size] for part, size in zip(state["U"], np.asarray(problem.members), strict=True)
    ]
    everybody, small = range(len(clients)), reference.L2(1e-6)
    wanted = reference.fedmc_admm(
        clients, users, state["V"], [everybody] * 2, 1e5, 3, small, small
    )[-1]
    for name in "VWY":
        assert deviation(after[name][0], wanted[name]) < 1e-10
    for part, theirs in zip(after["U"][0], wanted["U"], strict=True):
        assert deviation(part[: len(theirs)], theirs) < 1e-10


@hangs_on_rounding
def test_the_servers_sum_does_not_drift():
    _, last, _ = narrow()
    total = np.sum(last.exchange.sums + last.exchange.lost, 0, dtype=np.float64)
    copies, duals = (np.asarray(part, np.float64) for part in last.clients[1:])
    # A plain running sum is off by 3e-7 here, and by 1e-6 after 3000 rounds.
    assert deviation(total, (copies + duals / 1e5).sum(0)) < 1e-7


# --- traffic ------------------------------------------------------------------------------------


def test_traffic_of_the_paper():
    problem = SimpleNamespace(num_clients=100, num_items=1682)
    size = 1682 * 5
    for options, before, up in [
        ({}, 100 * size, 168_200),
        ({"combined": True}, 100 * size, 84_100),
        ({"zero_dual": True}, 0, 168_200),
        ({"zero_dual": True, "combined": True}, 0, 84_100),
    ]:
        sent = fa.traffic.totals(fa.solvers.fed_mc_admm(**options).traffic(problem), [10, 10, 10])
        np.testing.assert_array_equal(sent.down, [84_100, 168_200, 252_300])
        np.testing.assert_array_equal(sent.up, before + up * np.array([1, 2, 3]))
    for all_users, down in ((True, 841_000), (False, 84_100)):
        traffic = fa.solvers.fed_mavg(all_users=all_users).traffic(problem)
        sent = fa.traffic.totals(traffic, [10, 10, 10], [1, 2, 3])
        np.testing.assert_array_equal(sent.down, down * np.array([1, 2, 3]))
        np.testing.assert_array_equal(sent.up, 84_100 * np.array([1, 2, 3]))
    with pytest.raises(ValueError, match=r"^rounds must be given"):
        fa.traffic.totals(fa.solvers.fed_mavg().traffic(problem), [10])


# --- convergence --------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_runs_until_stationary():
    """The small case of the specification: two of five clients drawn, squares, beta = 20."""
    case = draw()
    problem = problem_of(case)
    weights = (0.05, 0.05)
    solver = solver_of(case, weights=weights, beta=20.0)
    theirs = [reference.L2(weight) for weight in weights]
    run = partial(
        fa.run_until,
        solver,
        problem,
        jax.random.key(0),
        residual=completion_residual,
        participation=participation.without_replacement(2),
        every=100,
        max_rounds=10_000,
    )

    def squared(state):
        users = [part[:size] for part, size in zip(state.clients.users, SIZES, strict=True)]
        return reference.stationarity_squared(case.clients, users, state.items, *theirs)

    first = reference.stationarity_squared(case.clients, case.users, case.items, *theirs)
    early = run(tolerance=1.0)
    late = run(tolerance=0.1)
    assert 0 < int(early.status.converged) < int(late.status.converged)
    assert float(late.trace["residual"][0]) <= 0.1
    assert int(late.trace["messages"][0]) == 2 * int(late.status.converged)
    found = [squared(jax.tree.map(np.asarray, end.state.solver)) for end in (early, late)]
    assert found[0] < first / 50
    assert found[1] < first / 2000
    users, copies, duals = late.state.solver.clients
    items = late.state.solver.items
    assert np.abs(copies - items[None]).max() < 2e-3
    for i, client in enumerate(case.clients):
        gradient = reference.gradient_items(np.asarray(users[i, : SIZES[i]]), items, client)
        np.testing.assert_allclose(duals[i], -gradient / len(SIZES), rtol=0, atol=2e-3)
        assert np.linalg.norm(gradient) > 0.3  # it is no zero
    asked = float(fa.solvers.fed_mc_theory_beta(solver, problem, late.state.solver, 2))
    curvature = [np.linalg.norm(part.T @ part) for part in np.asarray(users)]
    wanted = 8 * (8 + STEPS) * max(curvature) ** 2 / (2 / 5 * 5 * min(curvature))
    assert asked == pytest.approx(wanted, rel=1e-9)
    assert asked > 100 * 20.0  # the run converged all the same


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "arguments", "sentence"),
    [
        (
            fa.solvers.fed_mc_admm,
            {"preset": "best"},
            "preset must be one of 'paper' and 'default', but it is 'be",
        ),
        (
            fa.solvers.fed_mc_admm,
            {"bound": "max"},
            "bound must be one of 'fro', 'spec' and 'row', but it is 'max'.",
        ),
        (fa.solvers.fed_mc_admm, {"beta": 0}, "beta must be greater than 0, but it is 0."),
        (fa.solvers.fed_mc_admm, {"beta": np.nan}, "beta must be finite, but it is nan."),
        (
            fa.solvers.fed_mc_admm,
            {"inner_steps": 0},
            "inner_steps must be at least 1, but it is 0.",
        ),
        (
            fa.solvers.fed_mavg,
            {"setting": "good"},
            "setting must be one of 'fair' and 'paper', but it is 'good'.",
        ),
        (fa.solvers.fed_mavg, {"user_weight": -1}, "user_weight must be at least 0, but it is -1."),
        (
            fa.ratings.given_start,
            {"users": np.zeros((2, 2, 3)), "items": np.zeros((4, 2))},
            "users must have shape (any, any, 2), but it has (2, 2, 3).",
        ),
        (
            fa.ratings.given_start,
            {"users": np.zeros((2, 2, 2)), "items": np.full((4, 2), np.nan)},
            "items must be finite, but entry (0, 0) is nan;",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, arguments, sentence):
    with pytest.raises(fa.InputError) as caught:
        build(**arguments)
    assert str(caught.value).startswith(sentence)


def test_presets():
    assert [float(fa.solvers.fed_mc_admm(name).beta) for name in ("default", "paper")] == [1e5, 1e4]
    solver = fa.solvers.fed_mc_admm("paper", rank=7)
    assert solver.start.rank == 7
    scales = [solver.user_penalty.weight, solver.item_penalty.weight]
    np.testing.assert_allclose(scales, 1e-6)
    np.testing.assert_allclose([solver.start.user_scale, solver.start.item_scale], 2e-4)


# --- published comparison: MovieLens 100K -------------------------------------------------------


@pytest.mark.parametrize("build", [fa.solvers.fed_mc_admm, fa.solvers.fed_mavg])
@pytest.mark.parametrize(
    ("users", "items"),
    [((1, 14, 3), (25, 3)), ((5, 1, 3), (25, 3)), ((5, 13, 3), (25, 3)), ((5, 14, 3), (1, 3))],
)
def test_a_start_of_another_shape_is_told(build, users, items):
    solver = build(start=fa.ratings.given_start(np.zeros(users), np.zeros(items)))
    with pytest.raises(fa.InputError, match=r"start.(users|items) must have shape"):
        fa.run(solver, problem_of(draw()), jax.random.key(0), rounds=1)


def test_a_typical_beta_is_carried_over_from_movielens():
    problem = problem_of(draw())
    assert fa.solvers.fed_mc_typical_beta(problem) == pytest.approx(
        1e5 * (40 / 943) * (100 / 5) ** 2
    )
