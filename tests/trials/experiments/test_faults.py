"""Byzantine senders and late messages: choices by number, laws of delays, small runs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import messages
from fedjax_admm.trials.experiments._tuning import Setting
from fedjax_admm.trials.experiments.messages import (
    _by_number as by_number,
    byzantine,
    delay,
)
from fedjax_admm.trials.figures import attacks_figure, delays_figure
from tests.trials.results.made import made

(BYZANTINE,) = byzantine.EXPERIMENTS
(LATE,) = delay.EXPERIMENTS
SMALL = {"samples": "4", "dim": "3"}


# --- by number ---


@pytest.mark.thorough
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_of_several_attacks_is_that_attack(place):
    who = jnp.arange(5) < 2
    several = (
        messages.sign_flip(who=who),
        messages.mimic(who=who),
        messages.stale_replay(age=2, who=who),
    )
    chosen = by_number.AnAttack(several, jnp.asarray(place))
    values = jax.random.normal(jax.random.key(0), (5, 3))
    present, key = jnp.ones(5, bool), jax.random.key(1)
    memory, alone = chosen.init(values), several[place].init(values)
    np.testing.assert_array_equal(chosen.who(key, 5), who)
    for turn in range(3):
        told, memory = chosen(values + turn, who, present, memory, key)
        wanted, alone = several[place](values + turn, who, present, alone, key)
        np.testing.assert_array_equal(told, wanted)
        np.testing.assert_array_equal(told[2:], (values + turn)[2:])
    assert not np.array_equal(told[:2], (values + 2)[:2])
    if place == 2:
        np.testing.assert_array_equal(memory[2].sent, [3] * 5)
    else:
        assert not np.any(memory[2].sent)  # who was not chosen remembers nothing new


def test_rules_are_told_how_many_liars_to_expect():
    _, _, trimmed, _, krum, multi, *_ = byzantine.aggregators(21, 0.4, byzantine.Radii(1.0, 1.0))
    assert (krum.bad, multi.bad, multi.kept) == (8, 8, 13)
    assert float(trimmed.share) == pytest.approx(0.4)
    krum.check(21)  # as many as it needs
    for senders in {BYZANTINE.settings[target.senders] for target in byzantine.TARGETS.values()}:
        byzantine.aggregators(senders, byzantine.EXPECTED, byzantine.Radii(1.0, 1.0))[4].check(
            senders
        )


# --- Byzantine senders ---


@pytest.mark.parametrize(
    ("share", "number", "liars"),
    [(0.0, 21, 0), (0.1, 21, 2), (0.2, 10, 2), (0.3, 10, 3), (0.4, 21, 8), (0.45, 20, 9)],
)
def test_a_share_is_rounded_down(share, number, liars):
    np.testing.assert_array_equal(byzantine.first_of(share, number), np.arange(number) < liars)


def test_numbers_are_among_those_that_were_tried():
    for task, target in byzantine.TARGETS.items():
        assert set(byzantine.COLUMNS) <= set(byzantine.SHOWN[task]) <= set(byzantine.ATTACKS)
        number, *radii = byzantine.CHOSEN[task]
        assert len(target.grid) in (1, 12)
        assert number in target.grid
        assert set(radii) <= set(target.radii)
    for name, places in delay.CHOSEN.items():
        assert set(places) == set(LATE.sweep.values)
        grid = delay.SOLVERS[name].grid()
        assert len(grid) == 12
        assert all(0 <= place < 12 for place in places.values())


def run_small(experiment, given, rounds, names):
    """Return what a trial of some methods measures, "method/metric" -> (sweep, record)."""
    alone = replace(
        experiment,
        methods=lambda settings, value: {n: experiment.methods(settings, value)[n] for n in names},
    )
    trial = jax.jit(alone.trial(experiment.resolve(given), rounds))
    return jax.tree.map(np.asarray, trial(jax.random.key(1)))


@pytest.mark.thorough
def test_without_liars_attacks_are_nothing_and_with_them_the_mean_is_lost():
    attacks = ("constant", "label flip", "a little is enough")
    names = [f"FedADMM: {rule}, {each}" for rule in ("mean", "median") for each in attacks]
    found = run_small(BYZANTINE, {**SMALL, "shift": "0.2", "share": "0,0.3"}, 40, names)
    errors = {name: found[f"{name}/error"][:, -1] for name in names}
    for rule in ("mean", "median"):
        alike = [errors[f"FedADMM: {rule}, {each}"][0] for each in attacks]
        assert max(alike) - min(alike) < 1e-5
    assert errors["FedADMM: mean, constant"][0] < 0.02
    assert errors["FedADMM: mean, constant"][1] > 2
    assert errors["FedADMM: median, constant"][1] < 0.5
    last = [error[1] for error in errors.values()]
    assert len(set(last)) == len(last)


@pytest.mark.thorough
def test_a_method_by_number_is_the_solver_with_that_attack_and_rule():
    settings = {**BYZANTINE.resolve(SMALL), "rounds": 10}
    name, share = "FedADMM: geometric median, inner product", 0.3
    method = byzantine.methods_of(settings, share)[name]
    problem = {"FedADMM": byzantine.TARGETS["FedADMM"].draw(settings, share, jax.random.key(3))}
    asked = problem["FedADMM"]
    found = method(problem, jax.random.key(4), 10, 10)["error"]
    alone = byzantine.TARGETS["FedADMM"].build(
        asked.problem,
        method.chosen,
        exchange=messages.exchange(
            attack=messages.inner_product_manipulation(who=asked.byzantine),
            aggregator=messages.geometric_median(),
        ),
    )
    model = fa.run(alone, asked.problem, jax.random.key(4), rounds=10).estimate
    wanted = np.linalg.norm(model - asked.solution) / asked.unit
    np.testing.assert_allclose(found, [wanted], rtol=1e-4)


# --- late messages ---


@pytest.mark.parametrize(
    "mean", [5.0, *(pytest.param(each, marks=pytest.mark.thorough) for each in (0.0, 1.0, 20.0))]
)
def test_heavy_tails_have_the_mean_of_the_others(mean):
    scale = float(delay.delays(jnp.asarray(mean))[1].scale)
    waits = np.arange(1, delay.DEPTH + 1)
    assert np.sum((1 + waits / scale) ** -delay.EXPONENT) == pytest.approx(mean, rel=0.01, abs=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["LAD: FedADMM", "localisation: FSMDM"])
def test_without_delay_it_is_the_solver_alone(name):
    settings = LATE.resolve(SMALL)
    problem = delay.draw_problems(settings, 0.0, jax.random.key(2))
    asked = problem[delay.SOLVERS[name].task]
    setting = Setting(*map(jnp.asarray, delay.SOLVERS[name].grid()[3]))
    zero = jnp.zeros((), jnp.int32)
    model = fa.run(
        delay.SOLVERS[name].build(setting, exchange=messages.exchange()),
        asked.problem,
        jax.random.key(5),
        rounds=12,
    ).estimate
    wanted = np.linalg.norm(model - asked.solution) / asked.unit
    for in_order in (False, True):
        method = delay.Delayed(zero, jnp.asarray(0.0), setting, name, in_order)
        found = method(problem, jax.random.key(5), 12, 12)["error"]
        np.testing.assert_allclose(found, [wanted], rtol=1e-4)


@pytest.mark.thorough
def test_late_messages_slow_a_run_down():
    names = ["LAD: FedADMM", "LAD: FedADMM, lossy", "LAD: FedADMM, in order"]
    found = run_small(LATE, {**SMALL, "mean": "0,10"}, 20, names)
    for name in names:
        prompt, slow = found[f"{name}/error"]
        assert prompt[5] < slow[5]
    last = [found[f"{name}/error"][1, -1] for name in names]
    assert len(set(last)) == 3


# --- figures ---


def results_of(values):
    """Return made results, method -> errors of shape (2 swept values, 3 trials, 2 records)."""
    results = made(1.0, methods=tuple(values), figure={"everything": True})
    for name, errors in values.items():
        results.arrays[f"{name}/error"] = errors
    return results


def test_the_worst_of_all_attacks_has_a_column():
    ones = np.ones((2, 3, 2))
    results = results_of(
        {
            "a: mean, flip": ones,
            "a: mean, noise": 5 * ones,
            "a: median, flip": 2 * ones,
            "b: mean, flip": 3 * ones,
        }
    )
    figure = attacks_figure(results, metric="error", attacks=("flip",))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"{t}, {c}" for t in "ab" for c in ("flip", "worst of all attacks tried")]
    lines = [[line.get_ydata()[0] for line in axes.lines] for axes in figure.axes]
    assert lines == [[1, 2], [5, 2], [3], [3]]


def test_curves_are_of_the_nearest_mean_and_other_laws_stand_below():
    values = np.arange(12.0).reshape(2, 3, 2) + 1
    names = ("a: one", "a: one, slow", "a: one, lost", "b: two")
    results = results_of({name: (i + 1) * values for i, name in enumerate(names)})
    figure = delays_figure(results, metric="error", shown=1e9, beside=("slow",))
    first, _, second, _, third, _ = figure.axes
    assert first.get_title().startswith("a, last round")
    drawn = [[line.get_ydata() for line in axes.lines] for axes in (first, second, third)]
    last, curve = values[:, :, -1].mean(1), values[1].mean(0)
    np.testing.assert_allclose(drawn[0], [last, 2 * last])
    np.testing.assert_allclose(drawn[1], [3 * last])
    np.testing.assert_allclose(drawn[2], [curve, 2 * curve])
    assert first.lines[0].get_color() == second.lines[0].get_color()
    assert first.lines[0].get_linestyle() != first.lines[1].get_linestyle()
