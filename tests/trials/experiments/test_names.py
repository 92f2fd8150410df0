"""What cannot be kept under its name, or read back, is refused before anything runs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials.experiments import DirectMethod, Sweep
from tests.trials.small import EXPERIMENT, mean_of


def swept(name="share", values=(0.0, 0.4), label="share"):
    return Sweep(name, label, values)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a/b"}, "the name of an experiment must be a printable text of 1 to 200"),
        ({"name": ".."}, "must not be '..', which means something else"),
        ({"metrics": {"a/b": "label"}}, "a metric of consensus must be a printable text"),
        ({"metrics": {"messages": "label"}}, "must not be 'messages'"),
        ({"sweep": swept("rate")}, "the sweep of consensus must not be 'rate'"),
        ({"sweep": swept(values=(1.0, 1.0))}, "must be a tuple of different finite numbers"),
    ],
)
def test_an_experiment_tells_what_does_not_fit(changes, words):
    with pytest.raises(InputError) as told:
        replace(EXPERIMENT, **changes)
    assert words in str(told.value)


def measured(**found):
    """Return the experiment with one more method, which measures what is told."""
    method = DirectMethod(mean_of, lambda problem, answer: {"error": jnp.sum(answer)} | found)
    return with_method("more", method)


def with_method(name, method=None):
    def methods(settings, value):
        usual = EXPERIMENT.methods(settings, value)
        return usual | {name: method or next(iter(usual.values()))}

    return replace(EXPERIMENT, methods=methods)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("details", "a method of consensus must not be 'details', which means something else"),
        ("first_nonfinite_round/a", "must not be 'first_nonfinite_round/a'"),
        ("a\nb", "a method of consensus must be a printable text"),
    ],
)
def test_methods_are_named_so_that_their_arrays_are_found_again(name, words):
    experiment = with_method(name)
    with pytest.raises(InputError) as told:
        experiment.traffic(experiment.defaults())
    assert words in str(told.value)


def trace(experiment):
    return jax.eval_shape(experiment.trial(experiment.defaults(), 4), jax.random.key(0))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"a/b": 0.0}, "a metric of the method 'more' of consensus must be a printable text"),
        ({"messages": 0.0}, "the result of a measure must not be 'messages'"),
    ],
)
def test_a_measure_loses_no_name(found, words):
    with pytest.raises(InputError) as told:
        trace(measured(**found))
    assert words in str(told.value)


def counting(solver, problem, state):
    return {"error": jnp.sum(state), "numbers_up": 1.0}


def test_numbers_that_are_sent_are_not_measured_too():
    usual = EXPERIMENT.methods(EXPERIMENT.defaults(), 0.0)["steady"]
    with pytest.raises(InputError, match="must not be 'numbers_up'"):
        trace(with_method("more", replace(usual, measure=counting)))


def test_a_flag_is_read_as_one():
    flagged = replace(EXPERIMENT, settings={**EXPERIMENT.settings, "fair": True})
    assert flagged.resolve({"fair": "False"})["fair"] is False
    with pytest.raises(InputError, match="fair must be True or False, but it is 'no'"):
        flagged.resolve({"fair": "no"})
