"""The deep models of the benchmark of digits: their formulas, and small runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError
from fedjax_admm.solvers import fed_avg
from fedjax_admm.trials.experiments.peers import _networks as networks, federated
from tests.trials.experiments.test_peers import SMALL, run_small

(DIGITS,) = federated.EXPERIMENTS
DEEP = {**SMALL, "models": "deep", "smallest": "3"}
MODELS = ("batch norm", "convolution")


def random(shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


def test_a_convolution_is_that_of_jax(x64):
    params = networks.start_convolved(81, jax.random.key(0))
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    images = random((5, 81)) / 9
    inner = jnp.asarray(9 * images).reshape(5, 9, 9, 1)
    for (filters, bias), inputs in zip(params["filters"], (1, 8), strict=True):
        kernel = filters.reshape(3, 3, inputs, -1)
        kinds = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
        padding = [(1, 1), (1, 1)]
        inner = jax.lax.conv_general_dilated(inner, kernel, (2, 2), padding, **kinds)
        inner = np.maximum(np.asarray(inner) + np.asarray(bias), 0)
    last, bias = map(np.asarray, params["last"])
    expected = inner.reshape(5, -1) @ last + bias
    found = networks.convolved(params, jnp.asarray(images))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_batch_norm_is_by_the_minibatch_with_a_key_and_by_the_state_without(x64):
    params = networks.start_normalized(6, 4, jax.random.key(0))
    images = random((5, 6))
    state = {"mean": np.arange(4.0), "var": 1 + np.arange(4.0)}
    hidden = images @ np.asarray(params["first"])

    def outputs(mean, var, kept):
        scaled = np.maximum((hidden - mean) / np.sqrt(var + 1e-5), 0) * kept
        return scaled @ np.asarray(params["last"])

    key = jax.random.key(3)
    found, after = networks.normalized(params, jnp.asarray(images), state, key)
    kept = np.asarray(jax.random.bernoulli(key, 0.8, (5, 4))) / 0.8
    assert 0 < (kept > 0).sum() < kept.size
    np.testing.assert_allclose(found, outputs(hidden.mean(0), hidden.var(0), kept), atol=1e-9)
    np.testing.assert_allclose(after["mean"], 0.9 * state["mean"] + 0.1 * hidden.mean(0), atol=1e-9)
    wanted = 0.9 * state["var"] + 0.1 * hidden.var(0, ddof=1)
    np.testing.assert_allclose(after["var"], wanted, atol=1e-9)

    found, after = networks.normalized(params, jnp.asarray(images), state)
    np.testing.assert_allclose(found, outputs(state["mean"], state["var"], 1), atol=1e-9)
    assert after is state


@pytest.fixture(scope="module")
def drawn():
    """Draw the small problems of both models."""
    settings = DIGITS.resolve(DEEP)
    return jax.jit(lambda key: DIGITS.problem(settings, 10.0, key))(jax.random.key(1))


@pytest.mark.kin(1)
@pytest.mark.parametrize("model", MODELS)
def test_a_measure_is_the_error_and_the_loss_of_all_images(drawn, model):
    problem = jax.tree.map(lambda leaf: leaf[0], drawn[model])
    solver = fed_avg(0.1)
    state = solver.init(problem, jax.random.key(2))
    found = federated.measure(solver, problem, state)
    params, images = problem.parameters(problem.start), problem.held_out
    if model == "batch norm":
        start = networks.statistics(3)
        outputs, _ = networks.normalized(params, images["image"], start)
    else:
        outputs = networks.convolved(params, images["image"])
    digits = np.asarray(images["digit"])
    outputs = np.asarray(outputs)
    np.testing.assert_allclose(found["error"], np.mean(outputs.argmax(1) != digits), rtol=1e-6)
    logarithms = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
    expected = -logarithms[np.arange(len(digits)), digits].mean()
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-5)


def test_the_deep_tasks_are_those_of_the_setting():
    settings = DIGITS.resolve(DEEP)
    names = DIGITS.methods(settings, 0.1)
    assert set(names) == {f"{m}: {name}" for m in MODELS for name in federated.recipes(m)}
    assert len(names) == 12
    shapes = jax.eval_shape(lambda key: DIGITS.problem(settings, 0.1, key), jax.random.key(0))
    assert set(shapes) == set(MODELS)
    plain = DIGITS.methods(DIGITS.defaults(), 0.1)
    assert not set(plain) & set(names)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"models": "wide"}, "models must be one of"),
        ({"smallest": "1"}, "smallest must be at least 2"),
    ],
)
def test_a_setting_that_no_deep_model_takes_is_told(given, words):
    settings = DIGITS.resolve({**DEEP, **given})
    with pytest.raises(InputError, match=words):
        DIGITS.problem(settings, 0.1, jax.random.key(0))


@pytest.mark.thorough
def test_a_method_trains_a_deep_model():
    name = "batch norm: SCAFFOLD"
    found = run_small(DIGITS, {**DEEP, "split": "10", "drawn": "6"}, 12, name)
    assert not found[f"{name}/first_nonfinite_round"].any()
    losses = found[f"{name}/loss"][0]
    assert losses[-1] < losses[0]
    # Five minibatches of three images for each of six clients.
    np.testing.assert_allclose(found[f"{name}/gradients"][0], 90 * np.arange(1, 13), rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "method"),
    [*((MODELS[0], method) for method in federated.recipes(MODELS[0])), (MODELS[1], "FedDR")],
)
def test_every_method_trains_and_every_deep_model_is_trained(model, method):
    name = f"{model}: {method}"
    small = {**DEEP, "split": "10", "drawn": "6", "hidden": "16"}
    found = run_small(DIGITS, small, 60, name)
    assert not found[f"{name}/first_nonfinite_round"].any()
    assert found[f"{name}/error"][0, -1] < (0.9 if method == "FedDR" else 0.7)
