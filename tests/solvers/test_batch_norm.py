"""A network with batch norm and dropout: as accurate as central training, and kept over a kill."""

import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from tests.solvers.batch_norm import arguments, program

ROOT = Path(__file__).parents[2]
METHODS = ("fed_avg", "scaffold", "fed_admm")
pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def plain():
    """As users have it: a page relies on the promotion of ranks."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@cache
def central(rate):
    """Return the best accuracy of 100 epochs at one place, seen after every second one."""
    names = program()
    whole = [jax.tree.map(lambda *parts: np.concatenate(parts), *names["data"])]
    problem = fa.problems.federated(
        names["loss"], whole, names["start"], batch_size=32, **names["options"]
    )
    falling = optax.linear_schedule(1.0, 0.02, 100)
    local = fa.solvers.local_optimizer(optax.sgd(rate), steps=1200 // 32, rate=falling)
    run = fa.run(
        fa.solvers.fed_avg(local=local),
        problem,
        jax.random.key(1),
        rounds=100,
        every=2,
        measure=fa.measures.accuracy,
    )
    return float(jnp.max(run.trace["accuracy"]))


def test_two_methods_are_within_half_a_point_of_central_training():
    runs = [program()["train"](*arguments(method)) for method in METHODS]
    best = np.array([float(jnp.max(run.trace["accuracy"])) for run in runs])
    assert np.sum(best >= max(map(central, (0.1, 0.3))) - 0.005) >= 2
    assert np.all(best > 0.96)


@pytest.mark.bits
def test_a_killed_process_goes_on_to_the_same_bits(tmp_path):
    """One method stands for all: what is kept is the harness's."""
    method = "scaffold"
    options = {"rounds": 400, "checkpoint_every": 80}
    path = tmp_path / "run.npz"
    script = "from tests.solvers.batch_norm import train_and_die; "
    script += f"train_and_die({method!r}, {str(path)!r}, **{options!r})"
    died = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL
    train = program()["train"]
    begun = train(*arguments(method), rounds=0)
    assert int(fa.load(path, like=begun).state.index) == 160
    again = train(*arguments(method), checkpoint=path, **options)
    chex.assert_trees_all_equal(again, train(*arguments(method), rounds=400))
