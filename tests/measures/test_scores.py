"""Accuracy of each client, of the worst tenth, and calibration: against plain NumPy."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import measures
from fedjax_admm.solvers import ditto, fed_avg, local_gradient

CLIENTS = 12
SIZES = tuple(3 + 2 * number for number in range(CLIENTS))


def predict(params, sample):
    return jax.nn.softmax(params @ sample[0]), sample[1]


def loss(params, sample):
    return -jnp.log(predict(params, sample)[0][sample[1]])


def right(params, sample):
    return jnp.argmax(params @ sample[0]).astype(jnp.int32) == sample[1]


def data():
    """Return clients with 3 to 25 samples of three numbers and one of four classes."""
    rng = np.random.default_rng(2)
    return [
        (rng.standard_normal((size, 3)), rng.integers(0, 4, size).astype(np.int32))
        for size in SIZES
    ]


def models():
    return 2 * np.random.default_rng(3).standard_normal((CLIENTS, 4, 3))


def probabilities(model, x):
    numbers = np.exp(x @ model.T)
    return numbers / numbers.sum(1, keepdims=True)


def expected_error(chances, labels, bins):
    """Return the expected calibration error of one client, bin by bin."""
    confidence, right = chances.max(1), chances.argmax(1) == labels
    error = 0.0
    for b in range(bins):
        here = (b / bins < confidence) & (confidence <= (b + 1) / bins)
        if here.any():
            error += here.mean() * abs(right[here].mean() - confidence[here].mean())
    return error


def measured(measure, problem, own):
    """Return the one value of a measure of clients' own models."""
    solver = SimpleNamespace(estimate=lambda state: state)
    flat = jnp.asarray(own.reshape(*own.shape[:-2], -1))
    (value,) = jax.jit(lambda state: measure(solver, problem, state))(flat).values()
    return np.asarray(value)


@pytest.fixture(params=["own samples", "held-out samples"])
def judged(request, x64):
    """Return a problem, and what each client is judged by."""
    clients = data()
    held_out = None if request.param == "own samples" else clients[-1]
    problem = fa.problems.federated(loss, clients, np.zeros((4, 3)), score=right, held_out=held_out)
    return problem, clients if held_out is None else [held_out] * CLIENTS


def test_they_are_the_formulas(judged):
    problem, samples = judged
    chances = [probabilities(w, x) for w, (x, _) in zip(models(), samples, strict=True)]
    labels = [y for _, y in samples]
    shares = [np.mean(p.argmax(1) == y) for p, y in zip(chances, labels, strict=True)]
    each = measured(measures.client_accuracy, problem, models())
    np.testing.assert_allclose(each, shares, rtol=1e-12)
    worst = measured(measures.worst_accuracy, problem, models())
    np.testing.assert_allclose(worst, np.mean(sorted(shares)[:2]), rtol=1e-12)
    np.testing.assert_allclose(
        measured(measures.accuracy, problem, models()), np.mean(shares), rtol=1e-12
    )
    for bins in (1, 15):
        wanted = [expected_error(p, y, bins) for p, y in zip(chances, labels, strict=True)]
        found = measured(
            partial(measures.calibration_error, predict=predict, bins=bins), problem, models()
        )
        np.testing.assert_allclose(found, np.mean(wanted), rtol=1e-12)


def always_sure(params, sample):
    """Predict class 0 with certainty, or none of the two more than the other."""
    return jnp.where(params[0, 0] > 0, jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5])), sample[1]


def test_what_is_calibrated_and_what_is_not():
    """Half of the labels are 0: certainty errs by a half, and one half by nothing."""
    labels = np.array([0, 1, 0, 1], np.int32)
    clients = [(np.ones((4, 3), np.float32), labels)] * 3
    problem = fa.problems.federated(loss, clients, np.zeros((4, 3), np.float32), score=right)
    measure = partial(measures.calibration_error, predict=always_sure)
    own = np.ones((4, 3), np.float32)
    assert measured(measure, problem, own) == 0.5
    assert measured(measure, problem, -own) == 0


CALIBRATION = partial(measures.calibration_error, predict=predict)


def seen(solver, problem, state):
    return {
        **measures.client_accuracy(solver, problem, state),
        **CALIBRATION(solver, problem, state),
    }


@pytest.mark.thorough
def test_in_a_run_and_on_other_samples_after_it():
    """Personal models fit their own clients' samples better than each other's."""
    clients = [(x.astype(np.float32), y) for x, y in data()]
    start = np.zeros((4, 3), np.float32)
    problem = fa.problems.federated(loss, clients, start, score=right)
    others = fa.problems.federated(loss, clients[1:] + clients[:1], start, score=right)
    solver = ditto(fed_avg(1.0), 0.01, local=local_gradient(1.0))
    run = fa.run(solver, problem, jax.random.key(0), rounds=100, every=50, measure=seen)
    assert run.trace["client_accuracy"].shape == (2, CLIENTS)
    assert run.trace["calibration_error"].shape == (2,)
    mine = measured_after(problem, solver, run)
    np.testing.assert_allclose(mine, np.mean(run.trace["client_accuracy"][-1]), rtol=1e-6)
    assert mine > measured_after(others, solver, run) + 0.2


def measured_after(problem, solver, run):
    return float(measures.accuracy(solver, problem, run.state.solver)["accuracy"])
