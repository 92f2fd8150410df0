"""Every solver that takes a problem of a user's own ends where scipy says that it must."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import fedjax_admm as fa
from fedjax_admm import certificates, solvers
from fedjax_admm.capabilities import has
from tests.builders import builders
from tests.solvers.matrix import (
    PAGE,
    ROWS,
    needed,
    problem,
    pseudo_huber,
    student_t,
    table,
    written,
)

# These take no problem of a user's own: they ask for linear models, or for ratings.
FOREIGN = ("fed_mavg", "fed_mc_admm", "p_admm")
PRECISE = fa.problems.inner_lbfgs(200, accuracy=1e-10)


def smallest(function: Any, start: np.ndarray) -> np.ndarray:
    """Return scipy's minimiser of a function of JAX, (n,) to ()."""
    both = jax.jit(jax.value_and_grad(function))

    def value_and_slope(w):
        value, slope = both(jnp.asarray(w))
        return float(value), np.asarray(slope)

    options = {"gtol": 1e-9, "maxiter": 2000}
    found = scipy.optimize.minimize(value_and_slope, start, jac=True, options=options)
    assert np.max(np.abs(value_and_slope(found.x)[1])) < 1e-6, found.message
    return found.x


def mean(task: Any, w: jax.Array) -> jax.Array:
    return jnp.mean(task.values(jnp.broadcast_to(w, (task.num_clients, w.shape[-1]))))


@cache
def optimum(loss: Any) -> np.ndarray:
    """Return the optimum of the mean; of a loss that is not convex, the one that scipy ends at."""
    task = problem(loss=loss)
    return smallest(lambda w: mean(task, w), np.zeros(4))


def of_mean(task, solver, state):
    return optimum(task.loss)


def of_mean_and_l1(task, solver, state):
    """The model is a difference of two that are not negative, which makes l1 smooth."""
    weight = solver.regularizer.weight

    def objective(parts):
        plus, minus = parts
        return mean(task, plus - minus) + weight * jnp.sum(plus + minus)

    both = jax.jit(jax.value_and_grad(objective))

    def value_and_slope(flat):
        value, slope = both(jnp.asarray(flat).reshape(2, 4))
        return float(value), np.ravel(slope)

    found = scipy.optimize.minimize(
        value_and_slope,
        np.ones(8),
        jac=True,
        bounds=[(0, None)] * 8,
        options={"ftol": 0, "gtol": 1e-9},
    )
    return found.x[:4] - found.x[4:]


def of_groups(task, solver, state):
    """Every model belongs to those whose loss it makes smallest; both have some."""
    choice = np.asarray(state.clients)
    assert set(choice) == {0, 1}
    groups = [task.take(jnp.flatnonzero(choice == k).astype(jnp.int32)) for k in (0, 1)]
    found = [smallest(lambda w, own=own: mean(own, w), np.zeros(4)) for own in groups]
    return np.stack(found)[choice]


def of_coupled(task, solver, state):
    def objective(flat):
        return certificates.gtv_objective(solver, task, flat.reshape(10, 4))

    return smallest(objective, np.zeros(40)).reshape(10, 4)


def of_heads(task, solver, state):
    """All private parts, and the shared one, of the mean."""
    number, private = task.private.shape

    def objective(flat):
        own = flat[dim:].reshape(number, private)
        return mean(task.with_private(own), flat[:dim])

    dim = task.start.shape[-1]
    found = smallest(objective, np.zeros(dim + number * private))
    rows = np.broadcast_to(found[:dim], (number, dim))
    return np.concatenate([rows, found[dim:].reshape(number, private)], -1)


def of_own(task, solver, state):
    """Each client's own loss."""
    each = [task.take(jnp.array([i], jnp.int32)) for i in range(10)]
    return np.stack([smallest(lambda w, own=own: mean(own, w), np.zeros(4)) for own in each])


TARGETS = {
    "mean": of_mean,
    "mean + l1": of_mean_and_l1,
    "groups": of_groups,
    "coupled": of_coupled,
    "own": of_own,
    "heads": of_heads,
}


OPTIONS = {"groups": {"groups": 2}, "heads": {"shared": "w"}}


def distance(name: str, loss: Any = pseudo_huber) -> float:
    row = ROWS[name]
    inner = PRECISE if row.precise else None
    task = problem(row.on, loss, optimizer=inner, **OPTIONS.get(row.minimises, {}))
    solver = row.build(task)
    run = fa.run(solver, task, jax.random.key(0), rounds=row.rounds)
    found = np.asarray(solver.estimate(run.state.solver))
    wanted = TARGETS[row.minimises](task, solver, run.state.solver)
    return float(np.max(np.abs(found - np.asarray(wanted))))


def test_every_solver_has_a_row():
    named = {name.split()[0].rstrip(",") for name in ROWS}
    assert named == set(builders(solvers, "step", "estimate", "messages"))


def test_the_page_has_the_table_of_today():
    page = PAGE.read_text("utf-8")
    assert written(page) == page, "write it anew: python -m tests.solvers.matrix"
    rows = table().splitlines()[2:]
    assert len(rows) == len(ROWS)
    assert not any("yes" in row.split("|")[3] for row in rows if "fed_mc_admm" in row)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FOREIGN)
def test_some_ask_for_what_no_loss_of_ones_own_has(name):
    row = ROWS[name]
    task = problem(row.on)
    assert not has(task, *needed(row.build(task)))
    with pytest.raises(fa.InputError, match="needs a problem with"):
        fa.run(row.build(task), task, jax.random.key(0), rounds=1)


# FedADMM stands for the others that answer by the problem's prox.
NATIVE = [
    name
    for name, row in ROWS.items()
    if name not in FOREIGN
    and row.minimises
    and (" by prox" not in name or name == "fed_admm by prox")
]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NATIVE)
def test_it_ends_at_scipys_optimum(name, x64):
    assert distance(name) < 1e-4


# One of each kind: a solver that finds the optimum above has the same steps on another loss.
NONCONVEX = ("fsmdm", "scaffold", "fed_admm", "decentralized_admm")


@pytest.mark.thorough
@pytest.mark.parametrize("name", NONCONVEX)
def test_it_ends_at_the_same_local_optimum_as_scipy(name, x64):
    assert distance(name, student_t) < 1e-4
