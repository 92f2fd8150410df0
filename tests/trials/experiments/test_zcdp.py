"""Experiments on private networks: what methods share, which settings they take, what is said."""

import json
from functools import lru_cache
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, losses
from fedjax_admm._run._rounds import run
from fedjax_admm.measures import consensus_error
from fedjax_admm.privacy import _plans as plans, approximate_plan, zcdp_plan
from fedjax_admm.privacy._plans import rounded_up
from fedjax_admm.problems import _consensus as consensus
from fedjax_admm.trials import figures
from fedjax_admm.trials.cli import _environment as environment
from fedjax_admm.trials.experiments import (
    ROUNDS,
    _zcdp_settings as zcdp_settings,
    find,
    trial_keys,
    zcdp,
)
from fedjax_admm.trials.experiments._zcdp_settings import UNACCOUNTED, PrivateSetting
from fedjax_admm.trials.experiments.zcdp import ADVANCED, BASIC, GRAD, P_ADMM, TASKS, ZCDP
from fedjax_admm.trials.results import Results, load
from fedjax_admm.trials.running import Request, run_experiment
from tests.cli.outcomes import called
from tests.reference import zcdp as reference

NAMES = [experiment.name for experiment in zcdp.EXPERIMENTS]
SILENT = ["zcdp-clipping", "zcdp-convergence"]
NETWORK = {"clients": "6", "edges": "8", "samples": "9", "dim": "3"}
TRIALS, FEW, DELTA = 2, 6, 1e-5


def normal_equations(x, y, shares, loss, l1, l2):
    """A model to measure errors from; the true optimum takes seconds to compile for every loss."""
    x, y, shares = x.reshape(-1, x.shape[-1]), y.reshape(-1), shares.reshape(-1)
    gram = x.T @ (shares[:, None] * x) + (l2 + 0.1) * jnp.eye(x.shape[-1], dtype=x.dtype)
    return jnp.linalg.solve(gram, x.T @ (shares * y))


@pytest.fixture(scope="module", autouse=True)
def quick_optimum():
    with mock.patch.object(consensus, "pooled_optimum", normal_equations):
        yield


def request_of(rounds=FEW, **settings):
    settings = NETWORK | settings
    return Request(trials=TRIALS, rounds=rounds, batch=TRIALS, devices=1, settings=settings)


def small_run(name, out, rounds=FEW, **settings):
    request = request_of(rounds, **settings)
    return run_experiment(find(name), request, out, resume=False, progress=False)


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """A finished run of the learning curves, and its folder."""
    out = tmp_path_factory.mktemp("curves") / "run"
    return small_run("zcdp-curves", out, epsilon="1,3"), out


def settings_of(name, rounds=FEW, **changed):
    """The settings that methods get, of the right types."""
    return {**find(name).resolve(NETWORK), **changed, ROUNDS: rounds}


def methods_of(name, value, rounds=FEW, **changed):
    return find(name).methods(settings_of(name, rounds, **changed), value)


@lru_cache
def drawing():
    """How a trial's tasks are drawn: (shift, key) -> tasks; compiled once for all tests."""
    settings = settings_of("zcdp-heterogeneous")
    return jax.jit(lambda *drawn: find("zcdp-heterogeneous").problem(settings, *drawn))


def tasks_of(seed, shift=0.0):
    return drawing()(jnp.float32(shift), jax.random.key(seed))


def setting_of(method):
    """What a built method was built from, as far as it has it."""
    solver = method.solver
    step_size = getattr(solver, "step_size", None)
    clip = solver.release.clip
    return {
        "step": None if step_size is None else float(step_size.scale),
        "power": None if step_size is None else float(step_size.power),
        "rho": float(solver.rho) if hasattr(solver, "rho") else None,
        "clip": None if clip is None else float(clip),
    }


def same_setting(method, expected: PrivateSetting):
    for name, value in setting_of(method).items():
        if value is not None:
            assert value == pytest.approx(getattr(expected, name), rel=1e-6), name


def plan_of(method, epsilon, rounds, tau):
    if method in (ADVANCED, BASIC):
        rule = method.removeprefix("DP-NFL, ")
        return approximate_plan(epsilon, DELTA, rounds, tau, composition=rule)
    return zcdp_plan(epsilon, DELTA, rounds, tau)


def chosen(task, method, epsilon, curves=False):
    """The setting that a method should take."""
    published = zcdp_settings.PUBLISHED.get((task, method)) if curves else None
    return zcdp_settings.nearest(published or zcdp_settings.TUNED[task, method], epsilon)


# --- problems -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_tasks_of_a_trial_share_graph_and_data():
    tasks = tasks_of(3)
    assert tuple(sorted(tasks)) == tuple(sorted(TASKS))
    ridge = tasks["ridge"]
    assert ridge.graph.num_nodes == 6
    assert ridge.graph.num_edges == 8
    assert ridge.features.shape == (6, 9, 3)
    for task in tasks.values():
        for name in ("features", "targets", "sizes", "truth"):
            np.testing.assert_array_equal(getattr(task, name), getattr(ridge, name))
        for name in ("heads", "tails", "weights"):
            np.testing.assert_array_equal(getattr(task.graph, name), getattr(ridge.graph, name))
    kinds = {name: (type(task.loss), float(task.l2)) for name, task in tasks.items()}
    squared, absolute = losses.Squared, losses.Absolute
    assert kinds == {"elastic net": (squared, 1), "LAD": (absolute, 0), "ridge": (squared, 1)}
    x, y = (np.asarray(part, np.float64) for part in (ridge.features, ridge.targets))
    expected = reference.elastic_l1(x, y)  # 0.001 of the largest pooled correlation
    assert float(tasks["elastic net"].l1) == pytest.approx(expected, rel=1e-5)
    assert float(tasks["LAD"].l1) == float(ridge.l1) == 0


def test_a_shift_moves_the_true_models_only():
    same, shifted = (tasks_of(2, shift)["LAD"] for shift in (0.0, 2.0))
    np.testing.assert_array_equal(same.features, shifted.features)
    np.testing.assert_array_equal(same.graph.heads, shifted.graph.heads)
    assert not np.diff(same.truth, axis=0).any()
    assert np.abs(np.diff(shifted.truth, axis=0)).max() > 0.5
    swept = [name for name in NAMES if find(name).sweep.name == "shift"]
    assert swept == ["zcdp-heterogeneous"]


# --- settings -------------------------------------------------------------------------------------


def test_nearest():
    def table(*numbers):
        return {float(k): PrivateSetting(k, 0.5, 1.0, 1.0, 0.98) for k in numbers}

    # In ratio: 2 is as far from 1 as from 4, and 8 as far from 4 as from 16.
    for value, expected in [(1, 1), (1.9, 1), (2.1, 4), (7.9, 4), (8.1, 16), (1e9, 16), (0.5, 1)]:
        assert zcdp_settings.nearest(table(1, 4, 16), value).step == expected
    # Where zero is among them, there are no ratios.
    for value, expected in [(0, 0), (1e-3, 0), (0.4, 0), (0.6, 1), (2.4, 1), (2.6, 4)]:
        assert zcdp_settings.nearest(table(0, 1, 4), value).step == expected
    only = {2.0: PrivateSetting(7.0, 0.5, 1.0, 1.0, 0.98)}
    assert {zcdp_settings.nearest(only, value).step for value in (0.0, 1e-3, 5.0)} == {7.0}


def test_every_method_has_a_setting_of_its_own_at_every_number():
    pairs = {(task, method) for task in TASKS for method in (ZCDP, ADVANCED, BASIC, GRAD)}
    assert set(zcdp_settings.TUNED) == pairs | {("ridge", P_ADMM)}
    for table in zcdp_settings.TUNED.values():
        assert tuple(table) == zcdp.EPSILONS == find("zcdp-tradeoff").sweep.values
    assert set(zcdp_settings.HETEROGENEOUS) == {(t, m) for t in TASKS for m in (ZCDP, GRAD)}
    for table in zcdp_settings.HETEROGENEOUS.values():
        assert tuple(table) == find("zcdp-heterogeneous").sweep.values
    for table in zcdp_settings.PUBLISHED.values():
        assert tuple(table) == find("zcdp-curves").sweep.values
    tables = (zcdp_settings.TUNED, zcdp_settings.HETEROGENEOUS, zcdp_settings.PUBLISHED)
    for table in tables:
        for setting in (one for of_method in table.values() for one in of_method.values()):
            assert min(setting.step, setting.rho, setting.clip) > 0
            assert setting.power in (0.0, 0.5, 1.0)
            assert 0.9 < setting.tau <= 1


@pytest.mark.parametrize("rounds", [60, 200])
def test_every_setting_can_be_planned(rounds):
    """Also for the quick run, whose few releases leave the classical mechanism little room."""
    for (_, method), table in zcdp_settings.TUNED.items():
        for epsilon, setting in table.items():
            plan = zcdp.RECIPES[method].plan(epsilon, DELTA, rounds, setting.tau)
            assert plan.epsilon == pytest.approx(epsilon, rel=1e-9)
            expected = plan_of(method, epsilon, rounds, setting.tau).multipliers
            np.testing.assert_array_equal(plan.multipliers, expected)
    assert find("zcdp-tradeoff").quick["rounds"] == 60


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["zcdp-curves", "zcdp-tradeoff"])
def test_a_swept_epsilon_has_settings_and_noise_of_its_own(name):
    values = (0.7, 3.0, 8.0)
    rounds = 40
    for value in values:
        methods = methods_of(name, value, rounds, epsilon=values)
        expected = {f"{task}: {method}" for task in TASKS for method in (ZCDP, ADVANCED, GRAD)}
        if name == "zcdp-tradeoff":
            expected |= {f"{task}: {BASIC}" for task in TASKS}
        assert set(methods) == expected | {f"ridge: {P_ADMM}"}
        for full, method in methods.items():
            task, bare = full.split(": ", 1)
            setting = chosen(task, bare, value, curves=name == "zcdp-curves")
            same_setting(method, setting)
            assert method.task == task
            assert method.solver.release.clipped
            plan = plan_of(bare, value, rounds, setting.tau)
            np.testing.assert_allclose(method.solver.release.multipliers, plan.multipliers, 1e-6)
            exact = plan.spent(np.arange(rounds + 1)).exact_epsilon
            np.testing.assert_allclose(method.spent, exact, rtol=1e-6)


def test_tau_changes_the_multipliers_and_nothing_else():
    values = (0.9, 0.97, 1.0)
    rounds = 30
    built = {value: methods_of("zcdp-tau", value, rounds, tau=values) for value in values}
    for name, usual in built[1.0].items():
        task, method = name.split(": ", 1)
        setting = zcdp_settings.TUNED[task, method][4.0]
        kept = []
        for value in values:
            other = built[value][name]
            same_setting(other, setting)
            plan = zcdp_plan(4.0, DELTA, rounds, value)
            np.testing.assert_allclose(other.solver.release.multipliers, plan.multipliers, 1e-6)
            for found in (other, usual):
                numbers = (found.solver.release.norm, found.solver.step_size)
                rho = getattr(found.solver, "rho", jnp.zeros(()))
                kept.append([*jax.tree.leaves(numbers), rho])
            # All of them spend the same in the end.
            assert float(other.spent[-1]) == pytest.approx(plan.exact_epsilon, rel=1e-6)
        np.testing.assert_array_equal(kept, kept[:1] * len(kept))
        ratios = [float(built[v][name].solver.release.multipliers[0]) for v in values]
        assert ratios == sorted(ratios, reverse=True)
        assert np.unique(usual.solver.release.multipliers).size == 1


def test_a_traced_number_finds_its_own_methods():
    """Inside a trial the swept number is traced."""
    values = (0.97, 0.98, 1.0)

    def multipliers(tau):
        method = methods_of("zcdp-tau", tau, tau=values)[f"ridge: {ZCDP}"]
        return method.solver.release.multipliers

    found = jax.jit(jax.vmap(multipliers))(jnp.float32(values))
    for tau, one in zip(values, found, strict=True):
        np.testing.assert_allclose(one, zcdp_plan(4.0, DELTA, FEW, tau).multipliers, rtol=1e-6)


def test_methods_without_noise_keep_clipping():
    """They show what noise costs, not what clipping costs."""
    methods = methods_of("zcdp-equal-speed", 8.0)
    noiseless = {name for name in methods if name.endswith(", no noise")}
    assert len(noiseless) == len(methods) / 2 == 6
    for name in noiseless:
        silent, noisy = methods[name], methods[name.removesuffix(", no noise")]
        task, method = name.removesuffix(", no noise").split(": ", 1)
        assert silent.spent is None
        assert not hasattr(silent.solver.release, "multipliers")
        assert setting_of(silent) == setting_of(noisy)
        same_setting(silent, zcdp.EQUAL_SPEED[task, method])
        assert silent.solver.release.clip is not None
        plan = zcdp_plan(8.0, DELTA, FEW, 0.985)
        np.testing.assert_allclose(noisy.solver.release.multipliers, plan.multipliers, 1e-6)
    for task in TASKS:  # a fair pair: the same clipping
        pair = [zcdp.EQUAL_SPEED[task, method] for method in (ZCDP, GRAD)]
        assert (pair[0].clip, pair[0].power, pair[1].power) == (pair[1].clip, 0.5, 0.0)


def test_clipping_norms_are_those_of_the_sweep():
    for value in (1.0, 3.0):
        methods = methods_of("zcdp-clipping", value)
        assert len(methods) == 6
        for name, method in methods.items():
            expected = None if name.endswith("not clipped") else value
            assert setting_of(method)["clip"] == expected
            assert method.spent is None
    traced = jax.jit(lambda clip: methods_of("zcdp-clipping", clip)["LAD: zCDP-NFL, clipped"])
    assert float(traced(jnp.float32(2.5)).solver.release.clip) == 2.5


def test_convergence_is_that_of_three_schedules():
    methods = methods_of("zcdp-convergence", 0.5)
    assert len(methods) == 9
    n = jnp.arange(1, 5, dtype=jnp.int32)
    expected = {
        "eta 0.3": np.full(4, 0.3),
        "eta 1 / sqrt(n)": 1 / np.sqrt([1, 2, 3, 4]),
        "eta 3 / n": 3 / np.array([1, 2, 3, 4]),
    }
    for name, method in methods.items():
        assert method.solver.release.clip is None
        assert float(method.solver.rho) == 0.5
        steps = method.solver.step_size(n)
        np.testing.assert_allclose(steps, expected[name.rsplit(", ", 1)[1]], rtol=1e-6)


# --- runs -----------------------------------------------------------------------------------------


ALONE = (f"elastic net: {GRAD}", f"LAD: {ZCDP}", f"LAD: {ADVANCED}", f"ridge: {P_ADMM}")


@pytest.mark.thorough
def test_methods_share_problem_and_draws(curves):
    """Each method again by itself, on the trial's problem with the trial's key."""
    results, _ = curves
    experiment = find("zcdp-curves")
    settings = settings_of("zcdp-curves", epsilon=(1.0, 3.0))
    assert len(results.methods) == 10
    key = jax.random.fold_in(jax.random.key(results.config["seed"]), 1)
    problem_key, method_key = trial_keys(key)
    tasks = drawing()(jnp.float32(0), problem_key)
    methods = experiment.methods(settings, 3.0)
    for name in ALONE:  # one of every kind
        method = methods[name]
        trace = run(
            method.solver,
            tasks[method.task],
            jax.random.clone(method_key),
            rounds=FEW,
            measure=consensus_error,
        ).trace
        for metric in ("unprotected_error", "released_error"):
            found = results.values(name, metric)
            assert found.shape == (2, TRIALS, FEW)
            np.testing.assert_allclose(found[1, 1], trace[metric], rtol=1e-3)


@pytest.mark.thorough
def test_the_configuration_says_what_is_private(curves):
    results, out = curves
    statement = json.loads((out / "config.json").read_text())["statement"]
    assert load(out).config["statement"] == results.config["statement"] == statement
    first, *points = statement.splitlines()
    assert first.startswith(f"epsilon (exact epsilon) at delta 1e-05 of {FEW} releases by zCDP: ")
    shown = first.split(": ")[1]
    exact = [zcdp_plan(epsilon, DELTA, FEW).exact_epsilon for epsilon in (1.0, 3.0)]
    assert shown == f"1 ({rounded_up(exact[0], 3)}), 3 ({rounded_up(exact[1], 3)})"
    for line, said in zip(
        points,
        (plans.UNIT, plans.ADVERSARY, plans.PUBLIC, plans.NOT_COVERED, UNACCOUNTED),
        strict=True,
    ):
        assert line.endswith(said)


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_statement(name):
    experiment = find(name)
    statement = experiment.statement(experiment.defaults(), experiment.rounds)
    if name in SILENT:
        assert statement.startswith("Nothing is private")
        assert experiment.x64
        return
    assert not experiment.x64
    epsilons = experiment.defaults()["epsilon"]
    for epsilon in epsilons if isinstance(epsilons, tuple) else (epsilons,):
        exact = zcdp_plan(epsilon, DELTA, experiment.rounds).exact_epsilon
        assert f"{epsilon:g} ({rounded_up(exact, 3)})" in statement
    assert f"{experiment.rounds} releases" in statement
    assert plans.NOT_COVERED in statement
    assert UNACCOUNTED in statement


def test_the_statement_does_not_depend_on_tau():
    """So many rounds cannot be planned with the usual tau, but with another one they can."""
    experiment = find("zcdp-tau")
    exact = zcdp_plan(4.0, DELTA, 10).exact_epsilon
    statement = experiment.statement(settings_of("zcdp-tau", tau=(1.0,)), 50000)
    assert f"of 50000 releases by zCDP: 4 ({exact:.3g})" in statement


@pytest.mark.parametrize(
    ("name", "rounds", "given", "sentence"),
    [
        ("zcdp-curves", FEW, {"epsilon": "0,1"}, "epsilon must be greater than 0, but it is 0"),
        ("zcdp-tradeoff", 2, {"epsilon": "16"}, "at most 1 for the classical Gaussian mechanism"),
        ("zcdp-clipping", FEW, {"clip": "0"}, "clip must be greater than 0, but it is 0"),
        ("zcdp-heterogeneous", FEW, {"shift": "-1"}, "shift must be at least 0, but it is -1"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_written(
    tmp_path, name, rounds, given, sentence
):
    with pytest.raises(InputError, match=sentence):
        small_run(name, tmp_path / "run", rounds, **given)
    assert not (tmp_path / "run").exists()


# --- command line ---------------------------------------------------------------------------------


@pytest.mark.thorough
def test_fine_differences_are_computed_in_float64(monkeypatch, tmp_path):
    """Though nobody asks for it; the command that repeats the run does."""
    monkeypatch.setattr(zcdp, "TASKS", ("LAD",))  # one is enough, and quicker to compile
    monkeypatch.setattr(environment, "prepare", lambda **_: None)
    given = [word for key, value in NETWORK.items() for word in ("--set", f"{key}={value}")]
    sizes = ["--trials", "2", "--rounds", "5", "--batch", "2", "--devices", "1"]
    try:
        outcome = called(tmp_path, "run", "zcdp-convergence", *given, *sizes, "--out", "one")
    finally:
        jax.config.update("jax_enable_x64", False)
    assert outcome.code == 0, outcome.err
    assert "\nNothing is private: there is no noise" in outcome.out
    results = load(tmp_path / "one")
    assert results.config["x64"]
    assert results.config["command"].endswith(" --x64")
    for method in results.methods:
        assert not results.has(method, "epsilon")
        for metric in ("unprotected_error", "gap"):
            values = results.values(method, metric)
            assert values.dtype == np.float64
            assert (values != values.astype(np.float32)).any()
        # Everything is sent as it is.
        sent = results.values(method, "released_error")
        np.testing.assert_array_equal(sent, results.values(method, "unprotected_error"))


# --- figures --------------------------------------------------------------------------------------


def made_up(names=None, sweep=(1.0, 8.0), rounds=20, change=None):
    """Results of methods whose errors shrink, without running anything."""
    names = ["a: X", "a: Y", "b: X", "b: Y", "b: Z"] if names is None else names
    rng = np.random.default_rng(0)
    shape = (len(sweep), 7, rounds)
    arrays = {
        f"{name}/error": 10 ** (1 - 0.1 * np.arange(rounds) + 0.3 * rng.standard_normal(shape))
        for name in names
    }
    if change is not None:
        change(arrays)
    config = {
        "experiment": "made-up",
        "title": "nothing",
        "methods": names,
        "metrics": {"error": "error of the models"},
        "parameter_label": "epsilon",
        "trials": 7,
        "rounds": rounds,
        "seed": 1,
        "figure": {"everything": True},
    }
    flags = {name: np.zeros(shape[:2], int) for name in names}
    return Results(config, np.array(sweep), np.arange(1, rounds + 1), arrays, flags)


def titled(value):
    return f"value {value:g}"


def draw_curves(results, **options):
    return figures.task_curves_figure(results, metric="error", title=titled, **options)


def draw_sweep(results, **options):
    return figures.task_sweep_figure(results, metric="error", **options)


BANDS = "median, 10–90 % of trials"


def test_curves_have_a_column_per_task_and_a_row_per_value():
    results = made_up()
    figure = draw_curves(results)
    titles = [axes.get_title() for axes in figure.axes]
    shown = ["a, value 1", "b, value 1", "a, value 8", "b, value 8"]
    assert titles == [f"{title}, {BANDS}" for title in shown]
    assert [len(axes.lines) for axes in figure.axes] == [2, 3, 2, 3]
    for row, axes in ((0, figure.axes[1]), (1, figure.axes[3])):
        line = axes.lines[2]
        assert line.get_label() == "Z"
        np.testing.assert_array_equal(line.get_xdata(), results.rounds)
        medians = np.median(results.values("b: Z", "error")[row], axis=0)
        np.testing.assert_allclose(line.get_ydata(), 10 * np.log10(medians), rtol=1e-12)
    assert figure.axes[0].get_ylabel() == "error of the models (dB)"
    assert figure.axes[2].get_xlabel() == "global round"


def test_sweeps_have_a_column_per_task():
    results = made_up(sweep=(0.5, 2.0, 16.0))
    figure = draw_sweep(results)
    assert [axes.get_title() for axes in figure.axes] == [f"a, {BANDS}", f"b, {BANDS}"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 3]
    line = figure.axes[0].lines[1]
    np.testing.assert_array_equal(line.get_xdata(), [0.5, 2, 16])
    medians = np.median(results.values("a: Y", "error")[:, :, -1], axis=1)
    np.testing.assert_allclose(line.get_ydata(), 10 * np.log10(medians), rtol=1e-12)
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        assert axes.get_xlabel() == "epsilon"
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5", "2", "16"]
    assert figure.axes[0].get_ylabel() == "error of the models (dB)"
    assert draw_sweep(made_up(sweep=(0.9, 0.95, 1.0))).axes[0].get_xscale() == "linear"


def exact_zeros(arrays):
    arrays["a: X/error"][:, :, -3:] = 0


@pytest.mark.parametrize("draw", [draw_curves, draw_sweep])
def test_zeros_do_not_hide_the_others(draw):
    """No decibel is small enough for zero: the axis belongs to the other numbers."""
    low, high = draw(made_up(change=exact_zeros)).axes[0].get_ylim()
    assert -100 < low < high < 100
    figure = draw(made_up(change=exact_zeros), floor=-80.0)
    (line,) = (line for line in figure.axes[0].lines if line.get_label() == "X")
    assert line.get_ydata()[-1] == pytest.approx(-80)
    assert figure.axes[0].get_ylim()[0] < -80
    assert "below -80 dB" in figure.legends[0].get_title().get_text()
