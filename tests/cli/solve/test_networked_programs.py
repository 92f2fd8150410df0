"""Traced programs that later processes read: the same bits, and no trace of what is there."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm.trials.solve.networked import _programs as programs
from fedjax_admm.trials.solve.networked._programs import kept

traces = []


def new_function():
    """Return a function that JAX has not traced yet, of the same name every time."""

    @partial(jax.jit, static_argnames="power")
    def raised(point, others, *, power):
        traces.append(power)
        return {"sum": jnp.sum(point**power) + others[0], "twice": (2 * others[1],)}

    return raised


def arguments(size=3):
    return jnp.linspace(0, 1, size), (0.5, np.arange(4))


def in_new_process(size=3, power=2):
    """Call the function as a process does that has traced nothing."""
    traces.clear()
    return kept(new_function())(*arguments(size), power=power)


@pytest.fixture
def folder(tmp_path):
    """The folder of traced programs in a cache of the test's own."""
    used = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path / "traced"
    jax.config.update("jax_compilation_cache_dir", used)


def test_a_second_process_traces_nothing(folder):
    direct = new_function()(*arguments(), power=2)
    first = in_new_process()
    assert traces == [2]
    second = in_new_process()
    assert traces == []
    chex.assert_trees_all_equal(direct, first, second)
    chex.assert_trees_all_equal_shapes_and_dtypes(direct, first, second)


def test_what_tracing_depends_on_names_the_file(folder, monkeypatch):
    in_new_process()
    in_new_process(size=4)
    in_new_process(power=3)
    with jax.numpy_dtype_promotion("standard"):
        in_new_process()
    monkeypatch.setattr(programs, "code_digest", lambda: "changed")
    in_new_process()
    assert traces
    assert len(list(folder.iterdir())) == 5


def test_a_broken_file_is_written_anew(folder):
    wanted = in_new_process()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for broken in (b"", whole[:-1], whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]):
        file.write_bytes(broken)
        chex.assert_trees_all_equal(in_new_process(), wanted)
        assert traces
        in_new_process()
        assert not traces


def test_a_folder_that_cannot_be_written_is_left(folder):
    folder.write_text("a file")
    assert in_new_process()["twice"][0].tolist() == [0, 2, 4, 6]
    assert folder.read_text() == "a file"


def test_nothing_is_kept_where_compiled_programs_are_not(folder):
    jax.config.update("jax_compilation_cache_dir", None)
    assert in_new_process()["twice"][0].tolist() == [0, 2, 4, 6]
    assert traces
    assert not folder.exists()
