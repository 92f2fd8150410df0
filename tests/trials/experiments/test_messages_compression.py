"""Compressed messages under all families: the channel by number, fair tuning, small runs, bits."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm.messages import differences, identity, low_rank, top_k
from fedjax_admm.trials.experiments.messages import (
    _by_number as by_number,
    _tasks as tasks,
    compression,
)
from fedjax_admm.trials.running import Request, run_experiment

(BITS,) = compression.EXPERIMENTS
SETTINGS = BITS.defaults()
SMALL = {"clients": "8", "edges": "2", "samples": "4", "dim": "6", "items": "8"}


# --- a channel by number ---


@pytest.mark.thorough
def test_the_channel_of_a_number_is_that_channel():
    channels = (identity(), differences(top_k(2)), differences(low_rank(1)))
    message = jax.random.normal(jax.random.key(0), (3, 4))

    @jax.jit
    def twice(channel, message):
        state = channel.init(jnp.ones_like(message))
        for step in range(2):
            arrives, state = channel.encode((1.0 + step) * message, state, jax.random.key(step))
        return arrives

    for place, channel in enumerate(channels):
        chosen = by_number.AChannel(channels, jnp.asarray(place))
        np.testing.assert_allclose(
            twice(chosen, message), twice(channel, message), rtol=1e-6, atol=1e-6
        )
        assert chosen.bits((3, 4)) == channel.bits((3, 4))
    assert chosen.in_order


def test_everybody_is_tuned_alike():
    wanted = {
        (name, channel)
        for name, task in tasks.TASKS.items()
        for channel in compression.channels_of(SETTINGS, task)
    }
    assert set(compression.CHOSEN) == wanted
    assert {len(set(task.grid())) for task in tasks.TASKS.values()} == {12}
    assert all(0 <= place < 12 for place in compression.CHOSEN.values())


def test_a_ring_with_chords_is_connected_and_has_each_edge_once():
    edges = tasks.ring_with_chords(20)
    assert len(edges) == len(set(edges)) == 40
    assert all(a < b for a, b in edges)
    assert {(a, a + 1) for a in range(19)} <= set(edges)


# --- bits ---


def methods_of(task):
    return {
        name.partition(": ")[2]: method
        for name, method in compression.methods_of(SETTINGS, 1e-3).items()
        if name.startswith(f"{task}: ")
    }


@pytest.mark.thorough
def test_bits_are_those_of_the_channel_per_message():
    shapes = jax.eval_shape(
        lambda key: compression.draw_problems(SETTINGS, 1e-3, key), jax.random.key(0)
    )
    dim = SETTINGS["dim"]
    sizes = {
        task: {name: method.traffic(shapes) for name, method in methods_of(task).items()}
        for task in tasks.TASKS
    }
    # 3 levels are two bits and a sign; a quarter of 32 entries, with places of 5 bits.
    assert sizes["FedADMM"]["none"].up_bits in (None, 32 * dim)
    assert sizes["FedADMM"]["float16"].up_bits == 16 * dim
    assert sizes["FedADMM"]["QSGD"].up_bits == 32 + 3 * dim
    assert sizes["FedADMM"]["sign"].up_bits == 32 + dim
    assert sizes["FedADMM"]["top-k"].up_bits == 8 * 37
    assert sizes["SCAFFOLD"]["sign"].up_bits == 2 * (32 + dim)  # a move and a control variate
    assert sizes["HFSAD"]["sign"].up_bits == 32 + dim + 32  # and its weight
    assert sizes["private ADMM"]["sign"].up_bits == 32 + dim
    assert sizes["FSMDM"]["float16"].up_bits == 16 * 3 + 32
    assert sizes["FedMC"]["low rank"].up_bits == 32 * (SETTINGS["items"] + tasks.RANK)
    for name, said in sizes["GTV"].items():
        assert said.up_bits == said.down_bits, name


# --- runs ---


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run three channels of four tasks."""
    kept = ("none", "sign", "top-k, no memory")
    names = ("FedADMM, smooth", "SCAFFOLD, smooth", "GTV", "FSMDM")

    def problem(settings, target, key):
        return compression.draw_problems(settings, target, key, names)

    def methods(settings, target):
        return {
            name: method
            for name, method in compression.methods_of(settings, target).items()
            if name.partition(": ")[0] in names and name.partition(": ")[2] in kept
        }

    experiment = replace(BITS, problem=problem, methods=methods)
    request = Request(trials=3, rounds=30, batch=3, settings={**SMALL, "target": "0.1"})
    out = tmp_path_factory.mktemp("compression") / "run"
    return run_experiment(experiment, request, out, resume=False, progress=False), out


@pytest.mark.thorough
def test_bits_to_the_target_are_those_of_the_first_round_that_reaches_it(finished):
    results, out = finished
    assert (out / "figure.png").exists()
    reached = {}
    for name in results.methods:
        error, bits, until, there = (
            results.values(name, metric)[0]
            for metric in ("error", "bits", "bits_to_target", "reached")
        )
        assert np.isfinite(error).all()
        assert error.shape == (3, 30)  # 30 rounds, 50 records at most: all of them
        below = error <= 0.1
        np.testing.assert_array_equal(there[:, -1], below.any(1))
        for trial in range(3):
            first = below[trial].argmax() if below[trial].any() else -1
            assert until[trial, -1] == bits[trial, first]
        sent = results.values(name, "bits_up")[0]
        if name.startswith("GTV"):
            sent = sent + results.values(name, "bits_down")[0]
        np.testing.assert_allclose(bits, sent, rtol=1e-6)
        reached[name] = there[:, -1].mean()
    assert reached["FedADMM, smooth: none"] == 1
    assert reached["FedADMM, smooth: sign"] == 1


@pytest.mark.thorough
def test_a_task_that_has_ended_stays_as_it_is():
    task = "FSMDM"
    ended = replace(tasks.TASKS[task], most=4)
    posed = ended.draw(
        SETTINGS,
        compression.draw_data({**SETTINGS, "dim": 3}, jax.random.key(1)),
        jax.random.key(2),
    )
    method = methods_of(task)["sign"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tasks.TASKS, task, ended)
        trace, _ = jax.jit(lambda posed, key: method.traced(posed, key, 6))(
            posed, jax.random.key(3)
        )
    whole, _ = jax.jit(lambda posed, key: method.traced(posed, key, 4))(posed, jax.random.key(3))
    for name in ("error", "bits", "reached"):
        np.testing.assert_allclose(trace[name][:4], whole[name], rtol=1e-5)
        np.testing.assert_array_equal(trace[name][4:], trace[name][3])
    np.testing.assert_array_equal(trace["messages"], [21] * 4 + [0] * 2)
