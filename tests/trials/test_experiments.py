"""Every registered experiment, small: runs, shapes, pairing, traffic, settings, figure."""

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest

from fedjax_admm.checks import InputError
from fedjax_admm.trials.experiments import all_experiments, find
from fedjax_admm.trials.results import Results
from fedjax_admm.trials.runner import Request, run_experiment

NAMES = list(all_experiments())
TRIALS, ROUNDS, CLIENTS, DIM = 3, 20, 21, 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run an experiment at its smallest, once for all tests."""
    kept = {}

    def finish(name):
        if name not in kept:
            out = tmp_path_factory.mktemp(name) / "run"
            request = Request(trials=TRIALS, rounds=ROUNDS, batch=TRIALS)
            kept[name] = run_experiment(find(name), request, out, resume=False, progress=False), out
        return kept[name]

    return finish


@pytest.fixture(params=NAMES)
def outcome(request, finished):
    return finished(request.param)


def test_arrays_are_complete_finite_and_float32(outcome):
    results, _ = outcome
    shape = (len(results.sweep), TRIALS, len(results.rounds))
    assert results.rounds[-1] == ROUNDS
    for method in results.methods:
        error, failure = results.values(method, "error"), results.values(method, "failure")
        assert error.shape == failure.shape == shape
        assert error.dtype == np.float32
        assert np.isfinite(error).all()
        assert (error >= 0).all()
        np.testing.assert_array_equal(failure, error > 3)
        assert results.nonfinite[method].shape == shape[:2]
        assert not results.nonfinite[method].any()


def test_the_figure_is_drawn(outcome):
    results, out = outcome
    image = matplotlib.image.imread(out / "figure.png")
    height, width, _ = image.shape
    assert width > height > 400
    ink = (image[..., :3] < 0.9).any(-1)
    assert 0.02 < ink.mean() < 0.7
    border = np.concatenate([ink[0], ink[-1], ink[:, 0], ink[:, -1]])
    assert not border.any()  # nothing is cut off
    figure = find(results.config["experiment"]).figure(results)
    shown = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    names = results.methods if "asynchrony" not in str(out) else [f"{v:g}" for v in results.sweep]
    assert len(shown) == len(names)
    for axes in figure.axes:
        assert axes.lines
        assert axes.get_title()


def test_methods_differ(outcome):
    results, _ = outcome
    last = [results.values(method, "error")[..., -1].tobytes() for method in results.methods]
    assert len(set(last)) == len(last)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_words_are_sane(name):
    experiment = find(name)
    assert experiment.name == name
    assert experiment.trials >= 1000
    assert 1 <= experiment.quick["trials"] <= 100
    assert 1 <= experiment.quick["rounds"] <= experiment.rounds
    assert "\n" not in experiment.title
    assert "arXiv:2503.09497" in experiment.paper
    assert experiment.findings.endswith(".")
    assert {"error", "failure", "numbers_up", "numbers_down"} <= set(experiment.metrics)


EVERYBODY = [name for name in NAMES if "asynchrony" not in name]


@pytest.mark.parametrize("name", EVERYBODY)
def test_traffic_by_hand(finished, name):
    results, _ = finished(name)
    rounds = np.broadcast_to(results.rounds, (len(results.sweep), TRIALS, len(results.rounds)))
    for method in results.methods:
        if method == "centralised":
            assert not results.has(method, "numbers_up")
            assert not results.has(method, "numbers_down")
            continue
        up, down = results.values(method, "numbers_up"), results.values(method, "numbers_down")
        sent = DIM + 1 if method.startswith("FSMDM") else DIM  # FSMDM sends its weight too
        np.testing.assert_array_equal(up, rounds * CLIENTS * sent)
        np.testing.assert_array_equal(down, rounds * CLIENTS * DIM)


def test_absent_clients_send_nothing(finished):
    results, _ = finished("fsmdm-asynchrony")
    for method in results.methods:
        size = DIM + 1 if method.startswith("FSMDM") else DIM
        up, down = results.values(method, "numbers_up"), results.values(method, "numbers_down")
        np.testing.assert_array_equal(up % size, 0)
        np.testing.assert_array_equal(up // size, down // DIM)
        share = up[..., -1].mean(1) / (size * CLIENTS * ROUNDS)
        # 3 x 21 x 20 draws: four standard deviations are below 0.06.
        np.testing.assert_allclose(share, results.sweep, atol=0.06)
    # All methods see the same absences.
    first, *others = (results.values(m, "numbers_down") for m in results.methods)
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("name", NAMES)
def test_all_swept_values_share_the_geometry(name):
    experiment = find(name)
    settings = experiment.defaults()
    low, high = (
        experiment.problem(settings, jnp.float32(value), jax.random.key(1)) for value in (0.1, 0.9)
    )
    np.testing.assert_array_equal(low.anchors, high.anchors)
    np.testing.assert_array_equal(low.target, high.target)
    exact = np.linalg.norm(np.asarray(low.anchors) - np.asarray(low.target), axis=1)
    far = [np.abs(np.asarray(problem.distances) - exact) for problem in (low, high)]
    if name == "fsmdm-asynchrony":  # the noise is the same: who is active varies
        np.testing.assert_array_equal(*far)
    else:  # the same draws, more of them or larger
        assert (far[0] <= far[1] + 1e-4).all()
        assert far[0].sum() < far[1].sum()


def test_settings_reach_the_problem_and_the_methods(finished, tmp_path):
    usual, _ = finished("fsmdm-outliers")
    settings = {"clients": "6", "probability": "0.1,0.1", "active": "0.5", "omega": "5"}
    request = Request(trials=2, rounds=10, batch=2, settings=settings)
    experiment = find("fsmdm-outliers")
    results = run_experiment(experiment, request, tmp_path / "run", resume=False, progress=False)
    assert results.config["settings"] == {
        **usual.config["settings"],
        "clients": 6,
        "probability": [0.1, 0.1],
        "active": 0.5,
        "omega": 5.0,
    }
    down = results.values("FSMDM", "numbers_down")[..., -1]
    assert (down < 6 * DIM * 10).all()
    assert (down % DIM == 0).all()
    # Equal swept values: equal problems, equal absences, equal numbers.
    for values in results.arrays.values():
        assert values.shape == (2, 2, 10)
        np.testing.assert_array_equal(values[0], values[1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"colour": "red"}, "has no setting 'colour'"),
        ({"clients": "2.5"}, "clients must be a whole number, but it is '2.5'"),
        ({"omega": "ten"}, "omega must be a number, but it is 'ten'"),
        ({"probability": "0.1;0.2"}, "probability must be numbers with commas"),
        ({"probability": "0.1,"}, "probability must be numbers with commas"),
    ],
)
def test_a_wrong_setting_is_told(given, words):
    with pytest.raises(InputError, match=words):
        find("fsmdm-outliers").resolve(given)


# Figures of unusual results


@pytest.mark.parametrize("name", ["fsmdm-outliers", "fsmdm-convergence", "fsmdm-asynchrony"])
@pytest.mark.parametrize(
    "unusual", ["failed", "one trial", "one record", "one value", "tiny", "zero"]
)
def test_unusual_results_are_drawn_without_warnings(finished, name, unusual):
    results, _ = finished(name)
    arrays = {key: value.copy() for key, value in results.arrays.items()}
    rounds, sweep = results.rounds, results.sweep
    if unusual == "one trial":
        arrays = {key: value[:, :1] for key, value in arrays.items()}
    elif unusual == "one record":
        arrays, rounds = {key: value[..., :1] for key, value in arrays.items()}, rounds[:1]
    elif unusual == "one value":
        arrays, sweep = {key: value[:1] for key, value in arrays.items()}, sweep[:1]
    else:
        factor = {"failed": np.nan, "tiny": 1e-6, "zero": 0.0}[unusual]
        for key in arrays:
            if key.endswith("/error") and (unusual != "failed" or key.startswith("FSMDM/")):
                arrays[key] *= factor
    figure = find(name).figure(Results(results.config, sweep, rounds, arrays, results.nonfinite))
    figure.draw_without_rendering()
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert low < high
