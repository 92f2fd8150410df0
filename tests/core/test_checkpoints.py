"""Runs in files: the same bits after a kill, every type kept, other runs and damage refused."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError
from tests.core.checkpointed import BLOCK, EVERY, ROUNDS, begin, call, objective

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole():
    return begin()


@pytest.mark.thorough
@pytest.mark.bits
def test_a_killed_process_goes_on_to_the_same_bits(tmp_path, whole, capsys):
    path = tmp_path / "run.npz"
    program = f"from tests.core.checkpointed import begin_and_die; begin_and_die({str(path)!r})"
    died = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL
    there = fa.load(path, like=begin(rounds=0))
    done = int(there.state.index)
    assert done == 2 * BLOCK
    chex.assert_trees_all_equal(begin(path), whole)
    assert capsys.readouterr().err == f"{path} goes on after {done} of {ROUNDS} rounds.\n"
    chex.assert_trees_all_equal(begin(path), whole)
    assert "nothing is computed" in capsys.readouterr().err


@pytest.mark.bits
def test_more_rounds_than_before_are_those_of_one_run(tmp_path, whole):
    part = begin(tmp_path / "run.npz", rounds=ROUNDS - 5 * EVERY)
    assert int(part.state.index) == ROUNDS - 5 * EVERY
    chex.assert_trees_all_equal(begin(tmp_path / "run.npz"), whole)
    with pytest.raises(InputError, match=f"rounds must be at least {ROUNDS}"):
        begin(tmp_path / "run.npz", rounds=EVERY)


def test_a_file_of_another_run_is_refused(tmp_path):
    solver, problem, key = call()
    run = partial(fa.run, rounds=4, checkpoint=tmp_path / "run.npz")
    run(solver, problem, key)
    other = call(seed=1)[1]
    for arguments, options, part in [
        ((solver, problem, jax.random.key(4)), {}, "key differs"),
        ((solver, other, key), {}, "problem differs"),
        ((fa.solvers.scaffold(0.2, local_steps=2), problem, key), {}, "solver differs"),
        ((solver, problem, key), {"measure": objective}, "program .* differs"),
        ((fa.solvers.fed_admm(), other, key), {"every": 2}, "program .* and problem differ"),
    ]:
        with pytest.raises(InputError, match=f"is of another, whose {part}"):
            run(*arguments, **options)
    fa.save(problem.start, tmp_path / "run.npz")
    with pytest.raises(InputError, match=r"must be a file of this run, but .* by something else"):
        run(solver, problem, key)


def made_by(weight, power):
    def loss(params, sample):
        return weight * jnp.sum((params - sample) ** power)

    return fa.problems.federated(loss, np.ones((2, 3)), jnp.zeros(()))


def test_functions_are_told_apart_by_their_code_and_what_they_close_over(tmp_path):
    solver, key = fa.solvers.fed_avg(0.1), jax.random.key(0)
    run = partial(fa.run, rounds=2, checkpoint=tmp_path / "run.npz")
    first = run(solver, made_by(1.0, 2), key)
    chex.assert_trees_all_equal(run(solver, made_by(1.0, 2), key), first)
    for other in (made_by(2.0, 2), made_by(1.0, 4)):
        with pytest.raises(InputError, match=r"whose program .* differs"):
            run(solver, other, key)


def test_a_checkpoint_is_refused_where_it_cannot_be_written(tmp_path):
    solver, problem, key = call()
    with pytest.raises(
        InputError,
        match="checkpoint needs rounds that are computed, but this run is",
    ):
        jax.vmap(lambda k: fa.run(solver, problem, k, rounds=2, checkpoint=tmp_path / "x"))(
            jax.random.split(key, 2)
        )
    with pytest.raises(InputError, match="checkpoint_every must be at least 6"):
        fa.run(
            *(solver, problem, key),
            rounds=6,
            every=3,
            checkpoint=tmp_path / "x",
            checkpoint_every=3,
        )


TREE = {
    "bfloat16": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3) / 3,
    "float8": jnp.array([0.5, -2.0], jnp.float8_e4m3fn),
    "int4": jnp.array([-8, 7], jnp.int4),
    "key": jax.random.key(7),
    "keys": jax.random.split(jax.random.key(8, impl="rbg"), (2, 3)),
    "nothing": jnp.zeros((0, 3)),
    "numpy": np.arange(3, dtype=np.int8),
    "bool": jnp.array(True),
    "complex": jnp.array([1 + 2j]),
    "tuple": (jnp.nan, jnp.uint32(2**32 - 1)),
}


def test_every_type_is_kept_to_the_bits(tmp_path):
    path = tmp_path / "tree.npz"
    fa.save(TREE, path)
    assert list(tmp_path.iterdir()) == [path]
    back = fa.load(path, like=TREE)
    assert jax.tree.structure(back) == jax.tree.structure(TREE)
    for there, leaf in zip(jax.tree.leaves(back), jax.tree.leaves(TREE), strict=True):
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            assert there.dtype == leaf.dtype
            there, leaf = jax.random.key_data(there), jax.random.key_data(leaf)
        assert isinstance(there, np.ndarray) == isinstance(leaf, np.ndarray)
        there, leaf = np.asarray(there), np.asarray(leaf)
        assert (there.dtype, there.tobytes()) == (leaf.dtype, leaf.tobytes())


@pytest.mark.thorough
def test_a_batch_of_runs_is_saved_whole(tmp_path):
    def batch(rounds):
        solver, problem, _ = call()
        keys = jax.random.split(jax.random.key(0), 3)
        return jax.vmap(lambda k: fa.run(solver, problem, k, rounds=rounds, measure=objective))(
            keys
        )

    runs = batch(4)
    fa.save(runs, tmp_path / "runs.npz")
    chex.assert_trees_all_equal(fa.load(tmp_path / "runs.npz", like=batch(0)), runs)


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ({"a": jnp.zeros(3)}, r"\['a'\] float32\[2\] where \['a'\] float32\[3\] is expected"),
        ({"a": jnp.zeros(2, jnp.bfloat16)}, "where .* bfloat16.* is expected"),
        ({"b": jnp.zeros(2)}, r"holds \['a'\] .* where \['b'\]"),
        ({"a": jnp.zeros(2), "b": 0.0}, r"holds nothing where \['b'\] .* is expected"),
        ({}, r"holds \['a'\] .* where nothing is expected"),
    ],
)
def test_another_structure_is_named(tmp_path, like, words):
    fa.save({"a": jnp.zeros(2)}, tmp_path / "x.npz")
    with pytest.raises(InputError, match=words):
        fa.load(tmp_path / "x.npz", like=like)


def test_what_is_damaged_missing_or_no_array_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    fa.save({"a": jnp.arange(100.0)}, path)
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), 97):
        changed = content.copy()
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            back = fa.load(path, like={"a": jnp.zeros(100)})
        except InputError:
            continue
        np.testing.assert_array_equal(back["a"], np.arange(100.0))
    np.savez(path, a=np.arange(3))
    with pytest.raises(InputError, match="fedjax-admm has not written it"):
        fa.load(path, like={"a": jnp.zeros(3)})
    with pytest.raises(InputError, match="does not exist"):
        fa.load(tmp_path / "y.npz", like=())


def test_what_is_no_array_is_taken_from_like(tmp_path):
    fa.save({"a": jnp.ones(2), "f": jnp.sin, "n": 3}, tmp_path / "x.npz")
    back = fa.load(tmp_path / "x.npz", like={"a": jnp.zeros(2), "f": jnp.cos, "n": 0})
    assert back["f"] is jnp.cos
    assert back["n"] == 3
