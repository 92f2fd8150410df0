"""The store: every chunk is bound to what made it, and more trials can be added."""

import os
import shutil
from platform import machine

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback

from fedjax_admm._checks import InputError
from fedjax_admm.trials.engine import Layout, _compilation, default_mesh, monte_carlo
from fedjax_admm.trials.engine._program import lower_trials
from fedjax_admm.trials.engine._trial import traced

thorough = pytest.mark.thorough
TRIALS = 16


def draw(key):
    first, second = jax.random.split(key)
    return {"a": jax.random.normal(first), "b": jnp.arange(3.0) * jax.random.uniform(second)}


def simulate(store, trial=draw, trials=TRIALS, seed=0, **options):
    options = {"batch": 2, "chunk": 4, "progress": False} | options
    return monte_carlo(trial, jax.random.key(seed), trials, store=store, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "s"
    return folder, simulate(folder)


@pytest.fixture
def folder(made, tmp_path):
    """A store of its own with four chunks of four trials."""
    return shutil.copytree(made[0], tmp_path / "s")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(folder, *words, **options):
    """Check that a store is refused in one sentence and left as it is; return the sentence."""
    before = content(folder)
    with pytest.raises(InputError) as caught:
        simulate(folder, **options)
    told = str(caught.value)
    assert all(word in told for word in words), told
    assert "\n" not in told
    assert content(folder) == before
    return told


def digest(trial, *, width=2, chunk=4, devices=1):
    key, mesh = jax.random.key(0), default_mesh(devices)
    return lower_trials(traced(trial, key), key, Layout(width, chunk), mesh).digest


def calls(trial):
    key = jax.random.key(0)
    return lower_trials(traced(trial, key), key, Layout(2, 4), default_mesh(1)).calls


# What makes the trials


LARGE = np.arange(5000, dtype=np.float32)


def with_constant(constant):
    def trial(key):
        return {"a": jnp.sum(jnp.asarray(constant)) * jax.random.normal(key)}

    return trial


def changed():
    other = LARGE.copy()
    other[1234] += 1
    return other


CHANGES = {
    "function": lambda key: {**draw(key), "a": jnp.float32(0)},
    "name": lambda key: dict(zip("cb", draw(key).values(), strict=True)),
    "order": lambda key: dict(reversed(draw(key).items())),
    "shape": lambda key: jax.tree.map(lambda array: array[None], draw(key)),
    "scalar": lambda key: jax.tree.map(lambda array: array * 1.5, draw(key)),
}


@thorough
@pytest.mark.parametrize("change", CHANGES)
def test_another_trial_function_is_refused(folder, change):
    refused(folder, "trial function", trial=CHANGES[change])


@thorough
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 1}, "its key is [0, 0], not [0, 1]"),
        ({"batch": 4}, "its width is 2, not 4"),
        ({"mesh": default_mesh(1)}, "its use of several devices is True, not False"),
        ({"compact": True}, "its compact program is False, not True"),
        ({"mesh": default_mesh(2, 2)}, "its number of devices per trial is 1, not 2"),
        ({"trials": 15}, "holds 16 trials, more than the 15 that are asked for"),
    ],
)
def test_other_circumstances_are_refused(folder, options, words):
    refused(folder, words, **options)


def test_a_compact_program_computes_the_same_trials(made):
    arrays = simulate(None, compact=True).arrays
    for name, array in made[1].arrays.items():
        np.testing.assert_allclose(arrays[name], array, rtol=1e-6)


@thorough
def test_another_precision_is_refused(folder):
    with jax.enable_x64(True):
        refused(folder, "its use of float64 is False, not True")


@thorough
@pytest.mark.parametrize("hoisted", [False, True])
def test_every_constant_counts(hoisted):
    """Large ones are not shown in a program's text, and may be hidden arguments of it."""
    usual = jax.config.jax_use_simplified_jaxpr_constants
    jax.config.update("jax_use_simplified_jaxpr_constants", hoisted)
    try:
        first = digest(with_constant(LARGE))
        assert digest(with_constant(LARGE.copy())) == first
        assert digest(with_constant(changed())) != first
        assert digest(with_constant(jnp.asarray(LARGE))) == first
        assert digest(with_constant(jnp.asarray(changed()))) != first
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", usual)


@thorough
def test_a_key_that_a_trial_closes_over_counts():
    def closed(key):
        def trial(_):
            return {"a": jax.random.normal(key)}

        return trial

    with jax.debug_key_reuse(False):  # which knows no keys that functions close over
        first, second = (digest(closed(jax.random.key(seed))) for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize(
    "name",
    [
        "<lambda>",
        pytest.param("a}\n  func.func private @b(", marks=thorough),
    ],
)
def test_what_is_computed_in_a_function_counts_whatever_it_is_called(name):
    """Names that are no words, such as "<lambda>", stand in quotation marks in a program's text."""

    def power(exponent):
        def inner(number):
            return number**exponent  # no constant in the program tells the exponent

        inner.__name__ = name
        inner = jax.jit(inner)
        return lambda key: {"a": inner(jax.random.key_data(key)[0])}

    assert digest(power(2)) != digest(power(3))


NUMBER = jax.ShapeDtypeStruct((), jnp.float32)
CALLS = {
    "pure_callback": lambda **how: jax.pure_callback(np.sin, NUMBER, jnp.float32(0), **how),
    "io_callback": lambda **how: io_callback(np.sin, NUMBER, jnp.float32(0)),
    "buffer_callback": lambda **how: buffer_callback(print, NUMBER, **how)(jnp.float32(0)),
    "ffi_call": lambda **how: jax.ffi.ffi_call("anything", NUMBER, **how)(jnp.float32(0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_calls_other_code_cannot_be_told_apart(name):
    def trial(key):
        return {"a": jax.jit(lambda: CALLS[name](vmap_method="sequential"))()}

    assert calls(trial) == name
    assert not calls(lambda key: jax.debug.print("{}", key) or draw(key))


def test_what_calls_other_code_is_not_stored(tmp_path):
    trial = lambda key: {"a": CALLS["pure_callback"](vmap_method="sequential")}  # noqa: E731
    with pytest.raises(InputError, match=r"calls code outside of JAX \(pure_callback\)"):
        simulate(tmp_path / "s", trial=trial)
    assert not (tmp_path / "s").exists()


def test_what_compiles_otherwise_is_not_mixed_in(folder, monkeypatch, tmp_path):
    """Options that are read when a process begins, and another processor."""
    usual = os.environ.get("XLA_FLAGS", "")
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", f"--xla_dump_to=a {usual} --xla_dump_hlo_as_text")
        assert simulate(folder).computed == 0
        patch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math")
        refused(folder, "its value of XLA_FLAGS is ", ", not --xla_cpu_enable_fast_math=true")
    with monkeypatch.context() as patch:
        patch.setattr(_compilation, "CPUINFO", tmp_path / "cpuinfo")
        (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx2 smep fma\nflags\t: more\n")
        refused(folder, "its processor's instruction set is ", f", not {machine()} avx2 fma")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        refused(folder, "its jax_disable_most_optimizations is False, not True")
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.thorough
def test_the_digest_is_of_the_trial_at_its_width():
    def twice(key):  # with functions inside, some of them the same
        one, two = (jax.random.normal(each) for each in jax.random.split(key))
        return {"a": jnp.where(one > 0, one, two), "b": jnp.where(two > 0, two, one)}

    usual = digest(twice)
    assert digest(twice, chunk=8) == digest(twice, devices=2) == usual
    assert digest(twice, width=1) != usual
    # The program is traced anew, and shares no longer what it shared.
    jax.clear_caches()
    assert digest(twice) == usual


# More trials


@pytest.mark.bits
def test_trials_can_be_added(folder, made):
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    grown = simulate(folder, trials=27, chunk=8)
    assert grown.computed == 11
    whole = simulate(None, trials=27)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(grown.arrays[name], array)
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert before.items() <= after.items()
    assert sorted(after.keys() - before.keys()) == ["000016-000024.npz", "000024-000027.npz"]


@pytest.mark.bits
def test_the_width_is_read_from_the_chunks(folder, made):
    grown = simulate(folder, trials=20, batch="auto", chunk=None)
    assert (grown.layout.width, grown.computed) == (2, 4)
    assert grown.program == made[1].program
