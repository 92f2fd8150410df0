"""Clients over devices: the same numbers, spread state, and nothing at all without a mesh."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import fedjax_admm as fa
from fedjax_admm import graphs
from fedjax_admm._run._scan import scan_rounds
from fedjax_admm.devices import device_mesh, over_clients, spread_clients
from tests.compiling import flags
from tests.core.sharded import FAMILIES, ROUNDS, difference

CLIENTS = 8
KEY = 2


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


def two_devices():
    return jax.set_mesh(device_mesh(clients=2))


def compiled_run(family, solver, problem):
    """Return the program of a run and its result, compiled once."""
    key = jax.random.key(KEY)
    whole = jax.jit(partial(scan_rounds, rounds=ROUNDS, measure=None, every=1))
    lowered = whole.lower(solver, problem, key, family.process, None)
    program = lowered.compile()
    return program, program(solver, problem, key, family.process, None)


@pytest.mark.kin(1)
def test_two_devices_find_the_same_and_hold_half_each(family):
    solver, problem = family.build(CLIENTS)
    alone = fa.run(
        solver, problem, jax.random.key(KEY), rounds=ROUNDS, participation=family.process
    )
    with two_devices():
        program, spread = compiled_run(family, solver, problem)
    wanted, got = (family.clients(run.state.solver) for run in (alone, spread))
    assert difference(wanted, got) < 1e-5
    assert difference(alone.estimate, spread.estimate) < 1e-5
    assert difference(alone.trace, spread.trace) == 0
    leaves = jax.tree.leaves(got)
    assert leaves
    for leaf in leaves:
        assert leaf.shape[0] == CLIENTS
        assert leaf.addressable_shards[0].data.shape[0] == CLIENTS // 2
    # What the loop over rounds carries, problem included, has no axis of all clients. It carries
    # most; a sum over edges may be a loop too, in programs that are compiled quickly.
    loops = re.findall(r"= \((.*?)\) while\(", program.as_text())
    carried = max(loops, key=lambda loop: loop.count("["))
    floats = re.findall(r"f32\[([\d,]+)\]", carried)
    assert any(shape.startswith(f"{CLIENTS // 2},") for shape in floats)
    assert not any(shape.split(",")[0] == str(CLIENTS) for shape in floats)


@pytest.mark.thorough
def test_uneven_clients_on_many_devices():
    """In a process of its own: devices are counted once per process."""
    many = f"{flags()} --xla_force_host_platform_device_count=8"
    answer = subprocess.run(
        [sys.executable, "-m", "tests.core.sharded"],
        env={**os.environ, "XLA_FLAGS": many, "JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout.splitlines()[-1])
    assert len(told["differences"]) == 7
    assert max(told["differences"].values()) < 1e-12, told
    assert "mesh must have size 1" in told["refusal"]


@pytest.mark.thorough
def test_without_a_mesh_nothing_is_constrained(family):
    solver, problem = family.build(CLIENTS)

    def go(key):
        return fa.run(solver, problem, key, rounds=1, participation=family.process).estimate

    key = jax.random.key(KEY)
    assert over_clients(problem) is problem
    with jax.set_mesh(device_mesh(trials=2)):
        assert over_clients(problem) is problem
    plain = str(jax.make_jaxpr(go)(key))
    assert "sharding_constraint" not in plain
    assert "shard_map" not in plain
    with two_devices():
        assert "sharding_constraint" in str(jax.make_jaxpr(go)(key))


@pytest.mark.kin(1)
def test_what_is_declared_has_a_row_per_client(family):
    problem = family.build(CLIENTS)[1]
    placed = spread_clients(problem, device_mesh(clients=2))
    assert jax.tree.structure(placed) == jax.tree.structure(problem)
    rows = [
        leaf for leaf in jax.tree.leaves(placed) if leaf.sharding.spec == PartitionSpec("clients")
    ]
    assert len(rows) >= 2
    assert {leaf.shape[0] for leaf in rows} == {CLIENTS}


@pytest.mark.thorough
def test_the_same_gradients():
    solver, problem = FAMILIES["GTV"].build(CLIENTS)

    @jax.jit
    def slope(solver):
        def loss(solver):
            process = FAMILIES["GTV"].process
            run = fa.run(solver, problem, jax.random.key(KEY), rounds=2, participation=process)
            return jnp.sum(run.estimate**2)

        return jax.grad(loss)(solver)

    alone = slope(solver)
    with two_devices():
        spread = slope(solver)
    alone, spread = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(part)])
        for part in (alone, spread)
    )
    assert np.any(alone != 0)
    np.testing.assert_allclose(spread, alone, rtol=1e-4, atol=1e-5 * np.max(np.abs(alone)))


@pytest.mark.thorough
def test_a_placed_problem_is_not_gathered():
    solver, problem = FAMILIES["GTV"].build(CLIENTS)
    mesh = device_mesh(clients=2)
    with jax.set_mesh(mesh):
        program, _ = compiled_run(FAMILIES["GTV"], solver, spread_clients(problem, mesh))
    alone = jax.tree.leaves(problem)
    whole = sum(leaf.nbytes for leaf in alone if leaf.ndim > 1)
    assert program.memory_analysis().argument_size_in_bytes < whole


def test_uneven_rows_are_not_placed():
    problem = FAMILIES["FSMDM"].build(5)[1]
    with pytest.raises(fa.InputError, match="rows that 2 devices divide"):
        spread_clients(problem, device_mesh(clients=2))
    padded = graphs.pad(graphs.chain(4), 4)
    assert spread_clients(padded, device_mesh(clients=2)).num_edges == 4
