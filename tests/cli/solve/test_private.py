"""`solve private`: a person's own clients, fitted under differential privacy, from a file."""

import json
import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from fedjax_admm._run._rounds import run
from fedjax_admm.losses import squared
from fedjax_admm.privacy import NOMINAL, accountant, approximate_plan, exact_release, zcdp_plan
from fedjax_admm.privacy._plans import rounded_up
from fedjax_admm.problems import ConsensusRegression, consensus_regression
from fedjax_admm.schedules import power_decay
from fedjax_admm.solvers import private_networked_admm
from fedjax_admm.trials.solve.private._clients import (
    build_client_graph,
    read_clients,
    samples_per_row,
)
from fedjax_admm.trials.solve.private._figure import UNPROTECTED, draw_private_fit
from fedjax_admm.trials.solve.private._fit import clipped_share, fit_private, noise_key
from fedjax_admm.trials.solve.private._report import limits, summary, title_of
from fedjax_admm.trials.solve.private._settings import METHODS, PrivateSettings
from tests.cli.reading import config_of, models_of, rows_of

CLIENTS, ROUNDS = 6, 20
SIZES = [20, 21, 22, 20, 20, 20]
BASIC = ("--client", "site", "--target", "y", "--features", "a,b")
SMALL = (*BASIC, "--rounds", ROUNDS, "--clip", 1)
RING = [(i, (i + 1) % CLIENTS) for i in range(CLIENTS)]
PUBLIC = {
    *("models.csv", "ledger.csv", "curve.csv", "config.json"),
    *("figure.png", "figure.pdf", "figure.txt"),
}


@pytest.fixture(autouse=True)
def _double_precision(x64):
    """All tests with these shapes and a method in common share the programs that one compiles."""


@pytest.fixture
def single_precision(_double_precision):
    """The command's own: what runs by default has it in common."""
    with jax.enable_x64(False):
        yield


def measured(seed=0, sizes=SIZES):
    """Return rows (site, day, a, b, y, sick, vote): y is a number, sick 0 or 1, vote -1 or 1."""
    random = np.random.default_rng(seed)
    table = []
    for k, number in enumerate(sizes):
        a, b, noise = random.normal(size=(3, number))
        y = 2 * a - b + 0.5 + 0.3 * noise
        sick = (y + noise > 0).astype(int)
        table += [
            (f"s{k}", t, a[t].item(), b[t].item(), y[t].item(), sick[t], 2 * sick[t] - 1)
            for t in range(number)
        ]
    return table


def text(table, header="site,day,a,b,y,sick,vote"):
    return "\n".join([header, *(",".join(map(str, row)) for row in table)]) + "\n"


@pytest.fixture
def solve(command, tmp_path):
    """Write a file, and a ring of edges, and solve it."""

    def call(content, *options):
        lines = ["head,tail", *(f"s{head},s{tail}" for head, tail in RING)]
        (tmp_path / "ring.csv").write_text("\n".join(lines))
        if content is not None:
            (tmp_path / "mine.csv").write_text(content)
        return command("solve", "private", "--input", "mine.csv", *options)

    return call


def private_settings(**given):
    columns = {"client": "site", "target": "y", "features": "a,b"}
    return PrivateSettings(**{**columns, "epsilon": 1.0, "clip": 1.0, "rounds": ROUNDS, **given})


@pytest.fixture
def fit(tmp_path):
    """Fit in this process, without the command line."""

    def call(key=0, content=None, **given):
        (tmp_path / "direct.csv").write_text(content or text(measured()))
        settings = private_settings(**given)
        seen = read_clients(tmp_path / "direct.csv", settings)
        network = build_client_graph(seen.nodes, settings)
        return seen, network, fit_private(seen, network, settings, jax.random.key(key))

    return call


# What is printed and written


@pytest.mark.usefixtures("single_precision")
def test_the_text_and_the_files_hold_models_plan_and_ledger(solve, tmp_path):
    outcome = solve(text(measured()), *SMALL, "--epsilon", 2)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    plan = zcdp_plan(2, 1e-5, ROUNDS)
    assert lines[0] == "123 rows read; 123 samples are left."
    assert lines[1] == "6 clients with 20 to 22 samples each; coefficients: a, b, intercept."
    assert lines.pop(2) == "Columns day, sick, vote are ignored."
    assert re.fullmatch(r"Graph \(drawn, mean degree 3, seed 2025\): 9 edges, .*", lines[2])
    assert lines[3].startswith(
        "Method zcdp-nfl: rho 3, step 1, power 0.5; loss squared, l1 0, l2 1"
    )
    assert "gradients of samples clipped to norm 1" in lines[3]
    assert plan.statement() in outcome.out
    assert "noise: pseudo-random, from a 64-bit key of the operating system" in outcome.out
    assert "also not covered: that a run was refused or failed" in outcome.out
    assert (
        f"Spent by each of 6 clients in 20 releases: budget {rounded_up(plan.budgets.sum())}, "
        f"epsilon 2, exact epsilon {rounded_up(plan.exact_epsilon)}." in outcome.out
    )
    assert "Warning" not in outcome.out
    assert NOMINAL not in outcome.out
    assert UNPROTECTED not in outcome.out

    folder = tmp_path / "results/private-mine"
    assert {path.name for path in folder.iterdir()} == PUBLIC
    assert all(name in lines[-1] for name in PUBLIC)

    models = rows_of(folder / "models.csv")
    columns = ["client", "a", "b", "intercept", "samples", "noise_deviation", "label"]
    assert list(models[0]) == columns
    assert [row["client"] for row in models] == [f"s{k}" for k in range(CLIENTS)]
    assert [int(row["samples"]) for row in models] == SIZES
    assert {row["label"] for row in models} == {""}
    mean = models_of(folder / "models.csv").mean(0)
    for name, value in zip(("a", "b", "intercept"), mean, strict=True):
        shown = re.search(rf"^  {name} +([-\d.e]+)$", outcome.out, re.M)
        np.testing.assert_allclose(float(shown[1]), value, rtol=1e-4)

    config = config_of(folder)
    assert config["seconds"] is None  # how long it took may depend on the data
    assert config["result"]["privacy"]["statement"] == plan.statement().splitlines()
    assert config["result"]["privacy"]["label"] == ""
    assert [config["data"][name] for name in ("clients", "samples", "edges")] == [6, 123, 9]
    assert config["versions"]["jax"]
    assert config["settings"]["rho"] == METHODS["zcdp-nfl"]["rho"]
    assert config["settings"]["seed"] is None


@pytest.mark.thorough
@pytest.mark.parametrize("accounting", ["zcdp", "advanced", "basic"])
def test_the_ledger_is_the_plan_s(solve, tmp_path, accounting):
    options = ("--epsilon", 0.5, "--delta", 1e-6, "--tau", 0.98, "--accounting", accounting)
    outcome = solve(text(measured()), *SMALL, *options)
    assert outcome.code == 0, outcome.err
    numbers = (0.5, 1e-6, ROUNDS, 0.98)
    plan = (
        zcdp_plan(*numbers)
        if accounting == "zcdp"
        else approximate_plan(*numbers, composition=accounting)
    )
    spent = plan.spent(ROUNDS)
    folder = tmp_path / "results/private-mine"
    ledger = rows_of(folder / "ledger.csv")
    columns = ["client", "releases", "budget", "epsilon", "exact_epsilon", "label"]
    assert list(ledger[0]) == columns
    assert len(ledger) == CLIENTS
    for row, entry in zip(ledger, config_of(folder)["result"]["privacy"]["ledger"], strict=True):
        assert row["client"] == entry["client"]
        assert int(row["releases"]) == entry["releases"] == ROUNDS
        for name in ("budget", "epsilon", "exact_epsilon"):
            # Of what was released, rounded up: never less than planned.
            planned = float(getattr(spent, name))
            assert planned * (1 - 1e-13) <= entry[name] <= planned * (1 + 1e-9)
            np.testing.assert_allclose(float(row[name]), entry[name], rtol=1e-11)
        assert row["label"] == entry["label"] == spent.label == ""
    np.testing.assert_allclose(float(spent.epsilon), 0.5, rtol=1e-9)
    curve = rows_of(folder / "curve.csv")
    assert [int(row["round"]) for row in curve] == list(range(1, ROUNDS + 1))
    all_spent = plan.spent(np.arange(1, ROUNDS + 1))
    for name in ("budget", "epsilon", "exact_epsilon"):
        found = np.array([float(row[name]) for row in curve])
        np.testing.assert_allclose(found, getattr(all_spent, name), rtol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_the_deviation_of_the_noise_is_that_of_the_plan(fit, method):
    _, network, found = fit(method=method, epsilon=2.0, clip=0.7, l2=0.6)
    sizes, degrees = np.array(SIZES), np.asarray(network.graph.degrees)
    step = {"zcdp-nfl": 1.0, "subgradient": 0.3}.get(method, 0.0) / np.sqrt(ROUNDS)
    gain = {
        "zcdp-nfl": lambda: 1 / (1 / step + 2 * 3.0 * degrees),
        "subgradient": lambda: step,
        "p-admm": lambda: 1 / (2 * 3.0 * degrees + 2 * 0.6 / CLIENTS),
    }[method]()
    budget = zcdp_plan(2.0, 1e-5, ROUNDS).budgets[-1]
    expected = 2 * 0.7 * gain / sizes / np.sqrt(2 * budget)
    np.testing.assert_allclose(found.noise, expected, rtol=1e-12)
    # Noise is that of the plan and room for rounding: never less, and here hardly more.
    assert (found.noise > expected).all()
    # The same draws of a normal distribution, whatever their scale.
    drawn = (found.released - found.private) / found.noise[:, None]
    other = fit(method="subgradient", epsilon=7.0)[2]
    reference = (other.released - other.private) / other.noise[:, None]
    # Both are rounded to grids no wider than 2^-25 deviations: each is within half of that.
    np.testing.assert_allclose(drawn, reference, rtol=1e-12, atol=2**-25)
    assert 1e-4 < norm.cdf(drawn).min() < 0.3
    assert 0.7 < norm.cdf(drawn).max() < 1 - 1e-4


# Methods and losses


def objective(w, table, target, loss, l1, l2):
    """The objective, written from its formula."""
    labels = [row[{"y": 4, "sick": 6}[target]] for row in table]  # votes are signs
    owners = [row[0] for row in table]
    p = np.array([row[2:4] for row in table]) @ w[:2] + w[2]
    y = np.array(labels, float)
    r = np.abs(p - y)
    values = {
        "squared": r**2,
        "absolute": r,
        "huber": np.where(r <= 1, r**2 / 2, r - 0.5),
        "logistic": np.logaddexp(0, -y * p),
    }[loss]
    weights = [1 / SIZES[int(owner[1:])] for owner in owners]
    return weights @ values + l1 * np.abs(w).sum() + l2 * w @ w


@pytest.mark.thorough
@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("method", "loss", "more"),
    [
        ("zcdp-nfl", "squared", ("--rho", 0.5, "--step", 0.3, "--power", 0, "--l1", 0.1)),
        ("zcdp-nfl", "absolute", ("--rho", 0.5, "--step", 3, "--power", 1)),
        ("zcdp-nfl", "logistic", ("--rho", 0.5)),
        ("subgradient", "squared", ("--step", 0.5)),
        ("p-admm", "huber", ("--rho", 0.5)),
    ],
)
def test_without_noise_the_minimiser_is_found(solve, tmp_path, method, loss, more):
    target = "sick" if loss == "logistic" else "y"
    options = ("--rounds", 400, "--epsilon", "inf", "--clip", 1e30, "--l2", 0.5)
    names = ("--method", method, "--loss", loss, "--target", target)
    basic = ("--client", "site", "--features", "a,b")
    outcome = solve(text(measured()), *basic, *options, *names, *more)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Method {method}: " in outcome.out
    assert f"loss {loss}" in outcome.out
    settings = config_of(tmp_path / "results/private-mine")["settings"]
    assert (settings["method"], settings["loss"]) == (method, loss)
    for name, value in zip(more[::2], more[1::2], strict=True):
        assert settings[name.removeprefix("--").replace("-", "_")] == value
    args = (measured(), target, loss, 0.1 if "--l1" in more else 0.0, 0.5)
    tight = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 4000}
    best = minimize(objective, np.ones(3), args, method="Nelder-Mead", options=tight)
    models = models_of(tmp_path / "results/private-mine/models.csv")
    gap = objective(models.mean(0), *args) - best.fun
    # The subgradient method is not finished after 400 rounds.
    assert -1e-8 <= gap < (0.1 if method == "subgradient" else 0.01)
    assert np.abs(models - best.x).max() < (0.15 if method == "subgradient" else 0.05)


def test_labels_may_be_zero_and_one_or_their_signs(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(text(measured()))
    first, second = (
        read_clients(path, private_settings(target=target, features="a", loss="logistic"))
        for target in ("sick", "vote")
    )
    for labels, signs in zip(first.targets, second.targets, strict=True):
        np.testing.assert_array_equal(labels, signs)
    assert set(np.concatenate(second.targets)) == {-1.0, 1.0}
    as_they_are = read_clients(path, private_settings(target="sick", features="a"))
    assert set(np.concatenate(as_they_are.targets)) == {0.0, 1.0}


# Noise


@pytest.mark.thorough
def test_epsilon_inf_is_the_run_without_noise(solve, tmp_path):
    outcome = solve(text(measured()), *SMALL, "--epsilon", "inf", "--keep-private")
    assert outcome.code == 0, outcome.err
    assert "noise: none; nothing is protected" in outcome.out
    assert "epsilon inf, exact epsilon inf (no noise, no guarantee)" in outcome.out
    seen = read_clients(tmp_path / "mine.csv", private_settings())
    graph = build_client_graph(seen.nodes, private_settings()).graph
    problem = consensus_regression(graph, seen.features, seen.targets, squared(), l2=1.0)
    solver = private_networked_admm(exact_release(1.0), rho=3.0, step_size=power_decay(1.0, 0.5))
    done = run(solver, problem, jax.random.key(9), rounds=ROUNDS)
    folder = tmp_path / "results/private-mine"
    for name in ("models.csv", "private_models.csv"):
        np.testing.assert_allclose(models_of(folder / name), done.estimate, rtol=1e-6)
    config = config_of(folder)
    assert config["settings"]["epsilon"] == "inf"
    assert config["result"]["privacy"]["label"] == "no noise, no guarantee"
    assert {entry["epsilon"] for entry in config["result"]["privacy"]["ledger"]} == {"inf"}
    assert {row["noise_deviation"] for row in rows_of(folder / "models.csv")} == {"0"}


@pytest.mark.thorough
def test_noise_is_new_in_each_run_unless_a_seed_is_given(solve, tmp_path):
    runs = {}
    for out, more in {
        "first": (),
        "second": (),
        "seeded": ("--seed", 81726354),
        "again": ("--seed", 81726354),
    }.items():
        outcome = solve(text(measured()), *SMALL, "--epsilon", 1, "--out", out, *more)
        assert outcome.code == 0, outcome.err
        assert ("whoever knows it can take it away" in outcome.out) == bool(more)
        runs[out] = models_of(tmp_path / out / "models.csv")
        assert "81726354" not in outcome.out
        for path in (tmp_path / out).iterdir():
            assert b"81726354" not in path.read_bytes(), path
    np.testing.assert_array_equal(runs["seeded"], runs["again"])
    for one, other in (("first", "second"), ("first", "seeded")):
        assert (runs[one] != runs[other]).all()
    assert config_of(tmp_path / "seeded")["settings"]["seed"] == "given, not stored"


def test_keys_of_the_system_have_64_random_bits():
    words = np.array([jax.random.key_data(noise_key(None)) for _ in range(64)])
    assert words.shape == (64, 2)
    assert len({tuple(pair) for pair in words.tolist()}) == 64
    bits = (words[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    assert bits.any(0).all()
    assert not bits.all(0).any()


# What is protected, and what is not


@pytest.mark.thorough
def test_no_public_file_but_models_and_curve_depends_on_the_data(solve, tmp_path):
    told = []
    for seed in (0, 1):
        options = ("--epsilon", 1, "--out", "same", "--overwrite")
        outcome = solve(text(measured(seed)), *SMALL, *options)
        assert outcome.code == 0, outcome.err
        folder = tmp_path / "same"
        files = {name: (folder / name).read_bytes() for name in sorted(PUBLIC)}
        curve = [
            {name: cell for name, cell in row.items() if name != "disagreement"}
            for row in rows_of(folder / "curve.csv")
        ]
        models = [
            (row["client"], row["samples"], row["noise_deviation"], row["label"])
            for row in rows_of(folder / "models.csv")
        ]
        printed = outcome.out.partition("Mean of the released models")[0]
        config = json.loads(files["config.json"])
        assert "evaluation" not in config["result"]
        # Digests of files that are public: of the models, the curve and the figure.
        assert set(config.pop("files")) <= PUBLIC
        told.append((config, files["ledger.csv"], curve, models, printed))
    assert told[0] == told[1]


@pytest.mark.thorough
def test_evaluation_is_written_only_when_asked_for(solve, fit, tmp_path):
    folder = tmp_path / "results/private-mine"
    options = (*SMALL, "--epsilon", 1, "--seed", 3)
    plain = solve(text(measured()), *options)
    models, figure = (folder / "models.csv").read_bytes(), (folder / "figure.png").stat().st_size
    outcome = solve(None, *options, "--evaluate", "--keep-private", "--overwrite")
    assert outcome.code == 0, outcome.err
    unprotected = {"evaluation.csv", "private_models.csv"}
    assert {path.name for path in folder.iterdir()} == PUBLIC | unprotected
    assert [folder.stat().st_mode & 0o777, *modes_of(folder, unprotected)] == [0o700, 0o600, 0o600]
    np.testing.assert_allclose(
        models_of(folder / "models.csv"),
        models_of(_written(tmp_path / "before.csv", models)),
        rtol=1e-6,
    )
    assert f"Evaluated on the data (--evaluate), {UNPROTECTED}" in outcome.out
    assert f"private_models.csv holds the models without noise, which are {UNPROTECTED}" in (
        outcome.out
    )
    assert UNPROTECTED not in plain.out
    assert (folder / "figure.png").stat().st_size > 1.2 * figure

    curve = rows_of(folder / "evaluation.csv")
    assert list(curve[0]) == ["round", "unprotected_error", "released_error", "gap", "label"]
    assert {row["label"] for row in curve} == {UNPROTECTED}
    found = config_of(folder)["result"]["evaluation"]
    assert found["label"] == UNPROTECTED
    args = (measured(), "y", "squared", 0.0, 1.0)
    best = minimize(objective, np.ones(3), args, tol=1e-10)
    released, own = (models_of(folder / name) for name in ("models.csv", "private_models.csv"))
    for name, w in (("released_error", released), ("unprotected_error", own)):
        expected = np.sum((w - best.x) ** 2) / np.sum(best.x**2)
        np.testing.assert_allclose(found[name], expected, rtol=1e-4)
        np.testing.assert_allclose(float(curve[-1][name]), found[name], rtol=1e-6)
    np.testing.assert_allclose(found["optimal_value"], best.fun, rtol=1e-5)
    gap = objective(own.mean(0), *args) - best.fun
    np.testing.assert_allclose(found["gap"], gap, rtol=1e-3)
    assert "rounds without noise" in outcome.out
    assert "rounds without noise" not in plain.out
    assert found["shortfall"]["clipped"] > 0

    # Later runs leave nothing behind that is not protected.
    assert solve(None, *options, "--overwrite").code == 0
    assert {path.name for path in folder.iterdir()} == PUBLIC


def test_the_share_of_clipped_samples_counts_no_padding():
    features = np.array([[[3.0, 4.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]])
    targets = np.array([[0.1, 1.0], [2.0, 0.0]])  # gradients at zero: 1, 2 and 4 long
    sizes, zero = np.array([2, 1], np.int32), np.zeros(2)
    problem = ConsensusRegression(None, features, targets, sizes, squared(), 0.0, 0.0, zero)
    shares = [clipped_share(problem, np.zeros((2, 2)), clip) for clip in (0.9, 1.5, 3, 5)]
    np.testing.assert_allclose(shares, [1, 2 / 3, 1 / 3, 0])


@pytest.mark.thorough
def test_what_spoils_a_fit_is_measured_by_runs_without_noise(fit):
    seen, network, found = fit(evaluate=True, clip=0.01, epsilon=20.0)
    parts = {name: found.shortfall[name] for name in ("clipping", "rounds", "noise")}
    assert max(parts, key=parts.get) == "clipping"
    problem = consensus_regression(network.graph, seen.features, seen.targets, squared(), l2=1.0)
    ends = []
    for clip in (0.01, None):
        solver = private_networked_admm(
            exact_release(clip), rho=3.0, step_size=power_decay(1.0, 0.5)
        )
        models = np.asarray(run(solver, problem, jax.random.key(9), rounds=ROUNDS).estimate)
        ends.append(np.sqrt(np.mean(np.sum((models - np.asarray(problem.optimum)) ** 2, -1))))
    np.testing.assert_allclose(parts["rounds"], min(ends), rtol=1e-6)
    np.testing.assert_allclose(parts["clipping"], ends[0] - min(ends), rtol=1e-6, atol=1e-9)


def modes_of(folder, names):
    return [(folder / name).stat().st_mode & 0o777 for name in names]


def _written(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.thorough
@pytest.mark.usefixtures("single_precision")
def test_the_figure_has_a_panel_for_what_is_not_protected(fit):
    _, _, found = fit(evaluate=True)
    title = title_of(found, "mine.csv")
    figure = draw_private_fit(found, title)
    assert figure.get_suptitle() == title
    spent = "spent by each client"
    assert [axes.get_title() for axes in figure.axes] == ["released models", spent, UNPROTECTED]
    _, _, found = fit()
    figure = draw_private_fit(found, "")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["released models", "spent by each client"]
    lines = figure.axes[1].lines
    assert [line.get_label() for line in lines] == ["by zCDP", "exact"]
    # The ledger rounds up, in float32.
    np.testing.assert_allclose(lines[0].get_ydata()[-1], 1.0, rtol=1e-5)
    _, _, found = fit(epsilon=np.inf)
    figure = draw_private_fit(found, "")
    assert [text.get_text() for text in figure.axes[1].texts] == ["infinite: no noise"]
    assert len(figure.axes[0].lines) == 1


@pytest.mark.usefixtures("single_precision")
def test_a_row_in_several_samples_is_told(fit, tmp_path):
    _, _, found = fit()
    for features, samples in (("a,b", 1), ("a,b[-1]", 2), ("a[-1],b[-1],y[-3]", 3)):
        seen = read_clients(tmp_path / "direct.csv", private_settings(features=features))
        assert samples_per_row(seen) == samples
        told = [
            line for line in limits(replace(found, observations=seen)) if line.startswith("lags: ")
        ]
        epsilon = accountant.gaussian_epsilon(samples**2 * found.plan.budgets.sum(), 1e-5)
        line = (
            f"lags: one row of the file is part of up to {samples} samples; for a whole row the "
            f"exact epsilon is {rounded_up(epsilon)}"
        )
        assert told == ([line] if samples > 1 else [])
        read = summary(replace(found, observations=seen)).splitlines()[0]
        left = {1: 123, 2: 117, 3: 105}[samples]
        past = f"{123 - left} used only as the row before another"
        assert (
            read == f"123 rows read{', ' + past if samples > 1 else ''}; {left} samples are left."
        )
    for delta, warned in ((0.06, True), (0.05, False)):
        told = summary(replace(found, settings=replace(found.settings, delta=delta)))
        assert ("Warning: --delta 0.06 is above 1 / 20, one over the samples" in told) == warned


# Graphs, and repeating a run


def test_graphs_are_drawn_connected():
    for number, edges in ((6, 9), (2, 1), (120, round(np.log(120) * 60))):
        drawn = build_client_graph(tuple(map(str, range(number))), private_settings())
        assert drawn.graph.num_edges == edges


# Mistakes


GOOD = text(measured())
START = (*SMALL, "--epsilon", 1)


def started(*options):
    """Return the options of a good start, with others in their places: none may be given twice."""
    given = {options[i]: options[i + 1] for i in range(0, len(options), 2)}
    usual = {START[i]: START[i + 1] for i in range(0, len(START), 2)}
    return [word for option in (usual | given).items() for word in option]


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("site,a,b,y\nu,1,1,1\nv,,1,1\nw,1,1,1\n", START,
         "client 'v' has no complete row; fill in its values or remove its rows"),
        ("site,a,b,y\nu,1,1,1\nu,2,1,1\nv,1,1,1\n", started("--features", "a[-1]"),
         "client 'v' has 0 complete rows after the first 1, but the regression needs at least 1; "
         "add rows or remove the client"),
        ("site,a,b,y\nu,1,1,1\nu,1,1,2\n", START, "has one client only, 'u' in column site"),
    ],
)  # fmt: skip
def test_malformed_input_gets_one_sentence(solve, tmp_path, content, options, sentence):
    assert re.search(sentence, solve(content, *options).mistake())
    assert {path.name for path in tmp_path.iterdir()} <= {"mine.csv", "ring.csv"}


@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--clip", "some"), "'--clip': 'some' is not a number"),
        (("--accounting", "basic", "--epsilon", "99"), "epsilons must be at most 1 for the clas"),
        (("--method", "subgradient", "--rho", "1"), "--method subgradient has no --rho; leave it"),
        (("--method", "p-admm", "--loss", "absolute"), "p-admm needs a smooth loss, but --loss is"),
        (("--method", "p-admm", "--l1", "1"), "--method p-admm needs --l1 0, but it is 1; take"),
        (("--step", "50", "--rho", "0.001", "--power", "0"),
         r"--step must become safe, but it is 50 at release 20, and the largest safe step is 0\.\d+"
         r" for rho = 0.001; take less, or a larger --rho"),
        (("--method", "subgradient", "--step", "1e30", "--power", "0", "--clip", "1e9"),
         "the models leave the range of float32; take a smaller --step or a larger --tau, or bri"),
    ],
)  # fmt: skip
def test_wrong_options_get_one_sentence(solve, tmp_path, options, sentence):
    assert re.search(sentence, solve(GOOD, *started(*options)).mistake())
    assert not (tmp_path / "results/private-mine").exists()


def test_clip_and_epsilon_have_no_default(solve):
    sentence = solve(GOOD, *BASIC, "--epsilon", 1).mistake()
    assert "--clip" in sentence
    assert "--epsilon" in solve(GOOD, *SMALL).mistake()


def test_settings_are_completed_by_what_the_method_has():
    settings = private_settings(method="p-admm", loss="huber").complete()
    assert (settings.rho, settings.step, settings.power) == (3.0, None, None)
    given = private_settings(rho=7.0, power=0.0).complete()
    assert (given.rho, given.step, given.power) == (7.0, 1.0, 0.0)
    assert replace(given, rounds=3).complete().rounds == 3
