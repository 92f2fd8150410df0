"""Eight simulated devices in a process of their own: bits, remainders, both axes of the mesh."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
import jax
import numpy as np
import fedjax_admm as fa
from fedjax_admm.trials import default_mesh, monte_carlo

def trial(key):
    problem_key, key = jax.random.split(key)
    problem = fa.problems.draw_localization(problem_key, fa.problems.cauchy_noise(0.5), clients=7)
    result = fa.run(
        fa.solvers.fsmdm(), problem, key, rounds=40, every=10,
        measure=fa.measures.localization_error, participation=fa.participation.bernoulli(0.7),
    )
    return {"error": result.trace["error"], "estimate": result.estimate}

def simulate(devices, chunk, clients=1):
    mesh = default_mesh(devices, clients)
    key = jax.random.key(5)
    return monte_carlo(trial, key, 37, batch=2, chunk=chunk, mesh=mesh, progress=False).arrays

usual = simulate(2, 4)
def same(arrays):
    return all(np.array_equal(arrays[name], usual[name]) for name in usual)

def close(arrays):
    return max(float(np.max(np.abs(arrays[name] - usual[name]))) for name in usual)

print(json.dumps({
    "devices": len(jax.devices()),
    "same": {f"{d}, {c}": same(simulate(d, c)) for d, c in [(2, 37), (4, 8), (8, 16), (8, 64)]},
    "one": close(simulate(1, 8)),
    "both": {f"{d}, {n}": close(simulate(d, 16, n)) for d, n in [(8, 2), (4, 4)]},
    "finite": bool(np.isfinite(usual["error"]).all()),
}))
"""


@pytest.fixture(scope="module")
def found():
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"},
    )
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout.splitlines()[-1])


@pytest.mark.bits
@pytest.mark.thorough
def test_neither_devices_nor_chunks_nor_remainders_change_a_bit(found):
    assert found["devices"] == 8
    assert found["finite"]
    assert len(found["same"]) == 4
    assert all(found["same"].values()), found["same"]


@pytest.mark.thorough
@pytest.mark.bits
def test_one_device_differs_by_rounding_only(found):
    # XLA simplifies a program for several devices in another order than one for a single device.
    assert found["one"] < 1e-3


@pytest.mark.thorough
def test_trials_and_clients_are_spread_together(found):
    assert len(found["both"]) == 2
    assert all(0 <= distance < 1e-3 for distance in found["both"].values()), found["both"]
