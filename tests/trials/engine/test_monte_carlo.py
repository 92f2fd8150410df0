"""The engine: the width decides the bits, and nothing else does."""

import shutil
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm._host._files import digest_of
from fedjax_admm._host._memory import container_room
from fedjax_admm._host._store import LOCK, Chunks, locked
from fedjax_admm.trials.engine import (
    _layout as layout,
    _program,
    compile_trials,
    computed,
    default_mesh,
    loop_bytes,
    monte_carlo,
    planned,
)
from fedjax_admm.trials.engine._layout import plan
from fedjax_admm.trials.engine._trial import traced

KEY_SEED = 11
TRIALS, WIDTH = 50, 4
STATE = 3  # numbers carried by the loop of `walk`


def walk(key):
    """A trial with draws, a loop and rounding: sums whose order a compiler could change."""

    def step(state, noise):
        state = jnp.tanh(0.9 * state + noise)
        return state, jnp.linalg.norm(state)

    noise = jax.random.uniform(key, (12, STATE), minval=-1.0)
    state, trace = jax.lax.scan(step, jnp.zeros(STATE), noise)
    return {"final": state, "trace": trace}


def key():
    return jax.random.key(KEY_SEED)


def simulate(trials=TRIALS, trial=walk, **options):
    options = {"batch": WIDTH, "mesh": default_mesh(1), "progress": False} | options
    return monte_carlo(trial, key(), trials, **options)


@pytest.fixture(scope="module")
def reference():
    return simulate(chunk=TRIALS).arrays


@pytest.mark.bits
@pytest.mark.parametrize(("chunk", "devices"), [(7, 1), (8, 2), (None, 2)])
def test_chunks_and_devices_change_no_bit(reference, chunk, devices):
    arrays = simulate(chunk=chunk, mesh=default_mesh(devices)).arrays
    chex.assert_trees_all_equal(arrays, reference)


def test_another_width_differs_by_rounding_only(reference):
    arrays = simulate(batch=64).arrays
    chex.assert_trees_all_close(arrays, reference, rtol=2e-6, atol=2e-6)


def test_the_key_of_trial_t_is_the_key_folded_with_t(reference):
    def data(trial_key):
        return {"data": jax.random.key_data(trial_key)}

    seen = simulate(trial=data, chunk=8).arrays["data"]
    expected = [jax.random.key_data(jax.random.fold_in(key(), t)) for t in range(TRIALS)]
    np.testing.assert_array_equal(seen, np.stack(expected))


@pytest.mark.parametrize("kind", ["rbg", "unsafe_rbg"])
def test_a_trial_of_keys_whose_numbers_depend_on_the_batch_is_refused(kind):
    """Trial 5 of such a key would differ between the widths 4 and 8."""
    drawn = jax.random.key(KEY_SEED, impl=kind)
    refused = f"^key must .* of the kind {kind} .*threefry2x32"
    with pytest.raises(InputError, match=refused):
        monte_carlo(walk, drawn, 8, batch=4, progress=False)
    with pytest.raises(InputError, match=refused):
        compile_trials(walk, drawn, 8, batch=4, mesh=default_mesh(1))


def test_padding_is_invisible_and_types_are_kept():
    def trial(trial_key):
        return {"whole": jnp.int32(7), "flag": jnp.bool_(True), "row": jnp.zeros((2, 1, 3))}

    arrays = simulate(5, trial=trial, chunk=3, mesh=default_mesh(2)).arrays
    assert {name: (value.shape, value.dtype.name) for name, value in arrays.items()} == {
        "whole": ((5,), "int32"),
        "flag": ((5,), "bool"),
        "row": ((5, 2, 1, 3), "float32"),
    }
    assert arrays["flag"].all()


def test_one_trace_and_one_program_for_all_chunks():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: (
            compiled.append(event)
            if event == "/jax/core/compile/backend_compile_duration"
            else None
        )
    )
    chex.clear_trace_counter()
    counted = chex.assert_max_traces(walk, n=1)
    simulate(40, trial=counted, chunk=8)
    first = len(compiled)
    # Another number of chunks, the last one padded: one more program, however many chunks.
    chex.clear_trace_counter()
    counted = chex.assert_max_traces(walk, n=1)
    simulate(43, trial=counted, chunk=8)
    assert first >= 1
    assert len(compiled) - first == 1


# The width

SIZE = 1000


def nested(trial_key):
    """The outer loop carries SIZE floats and a counter; the inner one carries 3 SIZE floats."""

    def inner(carry, _):
        return carry * 0.5, None

    def outer(carry, _):
        state, count = carry
        wide, _ = jax.lax.scan(inner, jnp.tile(state, 3), length=2)
        return (wide[:SIZE], count + 1), None

    (state, _), _ = jax.lax.scan(
        outer, (jnp.ones(SIZE), jnp.zeros((), jnp.int32)), length=3, unroll=1
    )
    return {"state": state}


def flat(trial_key):
    state, _ = jax.lax.scan(lambda carry, _: (carry + 1, None), jnp.zeros(SIZE), length=3)
    return {"state": state}


def waiting(trial_key):
    return {
        "state": jax.lax.while_loop(
            lambda carry: carry[0] < 3, lambda carry: carry + 1, jnp.zeros(SIZE)
        )
    }


def loopless(trial_key):
    return {"state": jnp.zeros(SIZE)}


@pytest.mark.parametrize(
    ("trial", "expected"),
    [(nested, 12 * SIZE), (flat, 4 * SIZE), (waiting, 4 * SIZE), (loopless, 0)],
)
def test_the_largest_loop_is_found(trial, expected):
    assert loop_bytes(trial, key()) == expected


@pytest.mark.parametrize(
    ("trials", "devices", "cache", "width"),
    [
        (1000, 1, 4 * SIZE * 25, 25),
        (1000, 2, 1, 1),
        (10, 1, 10**9, 10),
        (11, 2, 10**9, 6),
    ],
)
def test_the_width_fits_the_cache_and_the_trials(monkeypatch, trials, devices, cache, width):
    monkeypatch.setattr(layout, "CACHE_BYTES", cache)
    monkeypatch.setattr(layout, "LANE_BYTES", 0)
    chosen = plan(traced(flat, key()).program, trials, devices=devices)
    assert chosen.width == width
    assert chosen.chunk % (width * devices) == 0


@pytest.mark.parametrize(
    ("trials", "devices", "lanes", "width"),
    [
        (1000, 1, 4 * SIZE * 100, 64),  # 1024 trials in all, where 96 would compute 1056
        (1000, 1, 10**9, 112),  # 9 of them for 1008 trials; 128 would compute 1024
        (100, 2, 10**9, 32),  # two of 32 on each; 48 would compute 96 there
        (15, 1, 10**9, 15),  # too few for lanes, and all of them fit the cache
        (1000, 1, 4 * SIZE * 15, 10),  # too large for lanes
    ],
)
def test_lanes_are_whole_and_few_trials_are_wasted(monkeypatch, trials, devices, lanes, width):
    monkeypatch.setattr(layout, "CACHE_BYTES", 4 * SIZE * (10 if trials > 100 else 100))
    monkeypatch.setattr(layout, "LANE_BYTES", lanes)
    assert plan(traced(flat, key()).program, trials, devices=devices).width == width


def test_lanes_change_no_more_than_the_last_bits(monkeypatch):
    def trial(key):
        start = jax.random.normal(key, (5, 3))
        shrink = jnp.arange(1.0, 6.0)[:, None]

        def turn(x, _):
            return x - jnp.sin(x) / shrink + jnp.sum(x, 0, keepdims=True) / 50, jnp.sum(x)

        last, sums = jax.lax.scan(turn, start, length=20)
        return {"last": last, "sums": sums}

    found = monte_carlo(trial, key(), 40, batch=16, progress=False).arrays
    again = monte_carlo(trial, key(), 40, batch=16, chunk=16, progress=False).arrays
    monkeypatch.delattr("fedjax_admm.trials.engine._program.lanes")  # fewer than 16 do without
    plain = monte_carlo(trial, key(), 40, batch=15, progress=False).arrays
    for name, array in plain.items():
        np.testing.assert_array_equal(found[name], again[name])
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


# Mistakes


def mesh(axes):
    kinds = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=kinds)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trials": 0}, ("trials", "at least 1", "0")),
        ({"batch": "large"}, ("batch", "'auto'", "'large'")),
        ({"axes": {"clients": 2}}, ("mesh", "'trials'", "clients")),
        ({"axes": {"trials": 1, "models": 2}}, ("mesh", "size 1", "models")),
    ],
)
def test_a_mistake_is_told_in_one_sentence(options, words):
    options = dict(options)
    if "axes" in options:
        options["mesh"] = mesh(options.pop("axes"))
    with pytest.raises(InputError) as caught:
        simulate(**options)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert message.endswith(".")


def test_a_traced_call_and_a_store_that_is_a_number_are_refused():
    with pytest.raises(InputError, match="monte_carlo computes at once, but this call is traced"):
        jax.jit(lambda: simulate(4).arrays)()
    with pytest.raises(InputError, match="store must be a folder"):
        simulate(4, store=3)


def test_a_mesh_needs_devices_that_are_there():
    with pytest.raises(InputError, match=r"^devices must be at most 2 here.* 3\.$"):
        default_mesh(3)


# Memory


def wide(trial_key):
    """A trial with a megabyte of state and a kilobyte of results."""
    state = jax.random.uniform(trial_key, (512, 512))
    state, _ = jax.lax.scan(lambda carry, _: (jnp.sin(carry @ carry), None), state, length=2)
    return {"row": state[0, :256]}


def small_memory(size):
    return pytest.raises(InputError, match=rf"^{size}.* of every device, but .* on cpu; give .*\.$")


def test_too_little_memory_is_told_before_anything_runs(tmp_path):
    store = tmp_path / "chunks"
    with small_memory("one trial needs [0-9.]+ MiB") as caught:
        simulate(trial=wide, store=store, batch="auto", memory=2**20)
    assert "1.0 MiB are allowed" in str(caught.value)
    assert "more devices per trial" in str(caught.value)
    assert not list(tmp_path.rglob("*"))


def test_a_width_or_a_chunk_that_is_given_is_not_changed():
    with small_memory("a micro-batch of 4 trials needs"):
        simulate(trial=wide, batch=4, chunk=4, memory=2**22)
    with small_memory("a chunk of 4000 trials needs"):
        simulate(4000, trial=wide, batch=1, chunk=4000, memory=2**22)


def test_memory_bounds_the_chunk_and_then_the_width(monkeypatch):
    def needed(limit, **options):
        program = compile_trials(wide, key(), 8000, mesh=default_mesh(1), limit=limit, **options)
        return program.layout, program.bytes

    monkeypatch.setattr(layout, "CACHE_BYTES", 2**23)
    usual, most = needed(None)
    assert usual.width > 4
    assert usual.chunk > 8 * usual.width
    shorter, less = needed(most - usual.chunk * 512)
    assert (shorter.width, shorter.chunk % usual.width) == (usual.width, 0)
    assert shorter.chunk < usual.chunk
    narrower, least = needed(2**23)
    assert 1 <= narrower.width == narrower.chunk < usual.width
    assert least <= 2**23
    assert least < less < most


def test_results_that_no_host_could_hold_are_refused(monkeypatch):
    monkeypatch.setattr(_program, "host_bytes", lambda: 10**6)
    with pytest.raises(InputError, match=r"^the results of 2000 trials need .*; run fewer trials"):
        simulate(2000, trial=wide, batch=1, chunk=1)


@pytest.mark.parametrize(
    ("files", "room"),
    [
        (
            {"memory.max": "5000", "memory.current": "1500", "memory.stat": "inactive_file 500"},
            4000,
        ),
        (
            {
                "memory/memory.limit_in_bytes": "9000",
                "memory/memory.usage_in_bytes": "4000",
                "memory/memory.stat": "cache 7\ntotal_inactive_file 1000",
            },
            6000,
        ),
        ({}, None),
    ],
)
def test_a_container_has_the_memory_that_its_limit_leaves(tmp_path, files, room):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert container_room(tmp_path) == room


# The store


def firsts(folder):
    return [first for first, _, _ in Chunks(folder).spans()]


@pytest.fixture(scope="module")
def full_store(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    simulate(chunk=8, store=store)
    assert firsts(store) == list(range(0, 50, 8))
    return store


@pytest.fixture
def folder(full_store, tmp_path):
    """A store of its own with all seven chunks."""
    return shutil.copytree(full_store, tmp_path / "chunks")


@pytest.mark.bits
@pytest.mark.parametrize("lost", [(), (16, 40)])
def test_resuming_computes_what_is_missing_to_the_same_bits(folder, reference, lost):
    for first in lost:
        (path,) = folder.glob(f"{first:06d}-*.npz")
        path.unlink()
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    outcome = simulate(chunk=8, store=folder)
    assert before.items() <= {path: path.stat().st_mtime_ns for path in folder.iterdir()}.items()
    assert firsts(folder) == list(range(0, 50, 8))
    chex.assert_trees_all_equal(outcome.arrays, reference)
    if not lost:
        assert outcome.seconds[1:] == (0, 0)
    assert outcome.computed == sum(min(8, 50 - first) for first in lost)


def test_nothing_is_stored_before_all_is_planned(tmp_path):
    chunks = Chunks(tmp_path / "chunks")
    plan = planned(walk, key(), TRIALS, batch=WIDTH, chunk=8, mesh=default_mesh(1), chunks=chunks)
    assert not chunks.spans()
    outcome = computed(plan, progress=False)
    assert (plan.layout, plan.program) == (outcome.layout, outcome.program)
    assert digest_of(chunks.identity()) == plan.program


def test_a_store_has_one_writer(tmp_path):
    with (
        locked(tmp_path / "chunks"),
        pytest.raises(InputError, match=r"chunks is in use by process .*choose another store"),
    ):
        simulate(chunk=8, store=tmp_path / "chunks")
    assert simulate(chunk=8, store=tmp_path / "chunks").computed
    assert not (tmp_path / "chunks" / LOCK).exists()
    assert simulate(chunk=8, store=tmp_path / "chunks").computed == 0


# What a trial returns


class Pair(NamedTuple):
    first: jax.Array
    second: float


def test_dicts_of_dicts_and_numbers_are_arrays():
    def trial(trial_key):
        number = jax.random.uniform(trial_key)
        inner = {"own": number, "deep": {"flag": True}}
        return {"inner": inner, "half": 0.5, "pair": Pair(number, 2.0), "two": np.arange(2)}

    arrays = simulate(6, trial=trial, batch="auto").arrays
    assert {name: (value.shape, value.dtype.name) for name, value in arrays.items()} == {
        "inner/own": ((6,), "float32"),
        "inner/deep/flag": ((6,), "bool"),
        "half": ((6,), "float32"),
        "pair/first": ((6,), "float32"),
        "pair/second": ((6,), "float32"),
        "two": ((6, 2), "int32"),
    }
    np.testing.assert_array_equal(arrays["pair/first"], arrays["inner/own"])
    np.testing.assert_array_equal(arrays["two"], [[0, 1]] * 6)
    assert list(arrays)[-2:] == ["pair/second", "two"]  # in the trial's order


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ({"a": None}, "None as 'a'; leave it out."),
        ({"a": [1.0, 2.0]}, "a list as 'a'; make it one array, or a dict of arrays."),
        ({"a": {"b": 1.0}, "a/b": 2.0}, "two arrays of the name 'a/b'."),
        ({"a": jax.random.key(0)}, "a key as 'a'; return jax.random.key_data of it."),
    ],
)
def test_what_is_no_array_is_told_in_one_sentence(returned, sentence):
    with pytest.raises(InputError) as caught:
        simulate(4, trial=lambda trial_key: returned)
    assert str(caught.value) == f"trial must return a dict of arrays, but it returns {sentence}"
    assert caught.value.argument == "trial"
