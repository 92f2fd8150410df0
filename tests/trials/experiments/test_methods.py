"""Methods of experiments: when they are recorded, and what stands at every record."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from fedjax_admm.trials.experiments import recorded_rounds, recording_interval
from fedjax_admm.trials.running import Request, run_experiment
from tests.trials.small import CLIENTS, DIM, EXPERIMENT, FAULT_ROUND


@pytest.mark.parametrize(
    ("rounds", "records", "every"),
    [
        # Even intervals, as they have always been.
        *((1000, 10, 100), (1000, 100, 10), (200, 100, 2), (60, 200, 1), (40, 25, 2)),
        *((3200, 160, 20), (50, 10, 5), (12, 5, 3), (1, 10, 1), (7, 10, 1)),
        # The next divisor leaves at least half as many records.
        *((1001, 100, 11), (25, 9, 5), (35, 10, 5)),
        # It does not: the last interval is shorter.
        *((997, 100, 10), (1234, 100, 13), (14, 5, 3), (13, 10, 2)),
    ],
)
def test_a_run_is_recorded_about_as_often_as_is_asked(rounds, records, every):
    assert recording_interval(rounds, records) == every


@pytest.mark.parametrize("records", [1, 2, 10, 100])
def test_every_number_of_rounds_is_done_and_recorded_often(records):
    for rounds in range(1, 500):
        every = recording_interval(rounds, records)
        done = recorded_rounds(rounds, every)
        assert done[-1] == rounds
        assert (np.diff(done, prepend=0) <= every).all()
        most = len(recorded_rounds(rounds, -(-rounds // records)))
        assert most / 2 <= len(done) <= most <= records


def run(out, rounds, records=10, **request):
    experiment = replace(EXPERIMENT, records=records)
    request = Request(trials=6, rounds=rounds, batch=3, **request)
    return run_experiment(experiment, request, out, resume=False, progress=False)


@pytest.mark.thorough
def test_a_prime_number_of_rounds_gives_a_curve(tmp_path):
    """The rounds are those of a longer run; the last record comes sooner."""
    short, long = run(tmp_path / "short", 13), run(tmp_path / "long", 20)
    np.testing.assert_array_equal(short.rounds, [2, 4, 6, 8, 10, 12, 13])
    whole = run(tmp_path / "whole", 20, records=20)
    for method in short.methods:
        for metric in ("error", "numbers_up", "numbers_down"):
            if not short.has(method, metric):
                continue
            values = short.values(method, metric)
            np.testing.assert_array_equal(values[..., :-1], long.values(method, metric)[..., :6])
            np.testing.assert_array_equal(values[..., -1], whole.values(method, metric)[..., 12])
    np.testing.assert_array_equal(short.nonfinite["fragile"], long.nonfinite["fragile"])
    sent = short.values("steady", "numbers_up")[..., -1]
    np.testing.assert_array_equal(sent, 13 * CLIENTS * (DIM + 1))


def test_a_failure_after_the_last_even_record_is_counted(tmp_path):
    assert FAULT_ROUND == 7
    results = run(tmp_path / "run", 7, records=3, settings={"share": "1"})
    np.testing.assert_array_equal(results.rounds, [3, 6, 7])
    np.testing.assert_array_equal(results.nonfinite["fragile"], FAULT_ROUND)
    assert np.isfinite(results.values("fragile", "error")[..., :2]).all()
    assert np.isnan(results.values("fragile", "error")[..., 2]).all()


def test_a_trial_has_the_shape_that_its_experiment_tells():
    trial = EXPERIMENT.trial(EXPERIMENT.defaults(), 13)
    shapes = jax.eval_shape(trial, jax.random.key(0))
    assert {array.shape for name, array in shapes.items() if "nonfinite" not in name} == {(3, 7)}
    assert EXPERIMENT.recorded(13).shape == (7,)


def test_shapes_may_depend_on_a_static_value():
    def problem(settings, value, key):
        return EXPERIMENT.problem({"clients": int(value)}, 0.0, key)

    sweep = replace(EXPERIMENT.sweep, values=(4.0, 2.0), static=True)
    experiment = replace(EXPERIMENT, sweep=sweep, problem=problem)
    settings, key = experiment.defaults(), jax.random.key(3)
    both = experiment.trial(settings, 4)(key)
    for i, value in enumerate(sweep.values):
        alone = experiment.trial({**settings, sweep.name: (value,)}, 4)(key)
        for name, values in both.items():
            np.testing.assert_allclose(values[i], alone[name][0], rtol=1e-6)
    assert not np.allclose(*both["steady/error"][:, 0])  # of four and of two clients
