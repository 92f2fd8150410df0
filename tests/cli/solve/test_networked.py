"""`solve networked`: models for the nodes of a person's own network, from a file."""

import dataclasses
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.graphs import from_edges
from fedjax_admm.trials.solve.networked._figure import draw_networked
from fedjax_admm.trials.solve.networked._fit import clusters, fit_networked
from fedjax_admm.trials.solve.networked._rows import draw_splits, held_out_rows, rows_needed
from fedjax_admm.trials.solve.networked._settings import PENALTIES, NetworkedSettings
from fedjax_admm.trials.tables._node_graphs import NodeGraph, build_graph, node_distances
from fedjax_admm.trials.tables._observations import Observations, read_observations
from tests.cli.reading import config_of, models_of, rows_of

TRUTH = np.array([[2.0, 1.0, 5.0], [-2.0, 1.0, -5.0]])  # a, b, intercept of the two clusters
BASIC = ("--node", "site", "--target", "y", "--features", "a,b")


@pytest.fixture(autouse=True)
def _double_precision(x64):
    """The command computes in float64."""


# Node i belongs to cluster i % 2; most tests share these shapes, so that they compile once.
CLIQUES = [(i, j) for i in range(12) for j in range(i + 2, 12, 2)]


def measured(nodes=12, rows=12, *, truth=TRUTH, noise=1.0, seed=0):
    """Return rows (site, day, a, b, y) of nodes with the models of truth, in turn.

    `rows` is a number or one per node.
    """
    random = np.random.default_rng(seed)
    table = []
    for i, number in enumerate(np.broadcast_to(rows, nodes).tolist()):
        x = np.column_stack([random.normal(size=(number, 2)), np.ones(number)])
        y = x @ truth[i % len(truth)] + noise * random.normal(size=number)
        table += [(f"n{i}", t, *x[t, :2].tolist(), y[t].item()) for t in range(number)]
    return table


def cliques():
    return NodeGraph(from_edges(12, CLIQUES), "two cliques")


def settings(**given):
    return NetworkedSettings(node="site", target="y", features="a,b", **given)


def text(table, header="site,day,a,b,y"):
    return "\n".join([header, *(",".join(map(str, row)) for row in table)]) + "\n"


@pytest.fixture
def solve(command, tmp_path):
    """Write a file, and one of edges if there are any, and solve it."""

    def call(content, *options, name="mine.csv", edges=()):
        if edges:
            lines = ["weight,head,tail", *(f"1,n{tail},n{head}" for head, tail in edges)]
            (tmp_path / "edges.csv").write_text("\n".join(lines))
        if content is not None:
            path = tmp_path / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return command("solve", "networked", "--input", name, *options)

    return call


@pytest.fixture
def read(tmp_path):
    def call(content, **options):
        path = tmp_path / "mine.csv"
        path.write_text(content)
        return read_observations(
            path, **{"node": "site", "target": "y", "features": "a,b", **options}
        )

    return call


def least_squares(observations, node, weights=None):
    x, y = observations.features[node], observations.targets[node]
    root = np.sqrt(np.ones(len(y)) if weights is None else weights)
    return np.linalg.lstsq(root[:, None] * x, root * y)[0]


# Two clusters


@pytest.mark.thorough
def test_two_clusters_are_found_and_beat_local_and_pooled_models(solve, tmp_path):
    outcome = solve(text(measured()), *BASIC, "--threshold", 20, "--lam", 2)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "144 rows read; 144 are left."
    assert lines[1] == "12 nodes with 12 rows each; coefficients: a, b, intercept."
    assert lines[2] == "Column day is ignored."
    assert lines[3].startswith("Features are standardised over all rows: lam acts on")
    assert lines[4].startswith("Graph (squared Wasserstein distance at most 20): 30 edges, 0 iso")
    assert "2 clusters of neighbours with the same model, of sizes 6, 6; 0 nodes" in outcome.out
    assert len(lines) <= 20
    folder = tmp_path / "results/networked-mine"
    assert re.search(r" in results/networked-mine after \d+\.\d s\.$", lines[-1])
    assert (folder / "figure.png").stat().st_size > 20_000
    assert config_of(folder)["settings"]["lam"] == 2

    models = rows_of(folder / "models.csv")
    assert list(models[0]) == ["node", "cluster", "a", "b", "intercept", "rows", "isolated"]
    assert [row["node"] for row in models] == [f"n{i}" for i in range(12)]
    assert [row["cluster"] for row in models] == ["1", "2"] * 6
    assert {(row["rows"], row["isolated"]) for row in models} == {("12", "0")}
    found = models_of(folder / "models.csv")
    assert np.abs(found - np.tile(TRUTH, (6, 1))).max() < 0.5

    comparison = {row["method"]: row for row in rows_of(folder / "comparison.csv")}
    assert list(comparison) == ["local", "pooled", "GTV"]
    splits = [f"split_{i}" for i in range(1, 6)]
    assert list(comparison["GTV"]) == ["method", "mean", "sd", "converged", *splits]
    for row in comparison.values():
        values = np.array([float(row[name]) for name in splits])
        np.testing.assert_allclose(float(row["mean"]), values.mean(), rtol=1e-9)
        np.testing.assert_allclose(float(row["sd"]), values.std(ddof=1), rtol=1e-9)
        printed = re.search(rf"^  {row['method']} +([\d.]+) \(([\d.]+)\)", outcome.out, re.M)
        np.testing.assert_allclose(float(printed[1]), values.mean(), atol=1e-4)
    error = {name: float(row["mean"]) for name, row in comparison.items()}
    assert error["GTV"] < error["local"] - 0.2 < error["pooled"] - 10
    assert "GTV predicts better than one pooled model: an error " in outcome.out
    assert "GTV predicts better than local models: an error " in outcome.out
    assert "The final fit has converged: after " in outcome.out
    assert {row["converged"] for row in comparison.values()} == {"1"}


# Reading

DAYS = """site,t,a,y,note
u,3,30,300,
v,1,-1,-10,
u,1,10,100,
u,2,nan,200,
u,4,40,400,
v,2,-2,,
v,3,-3,-30,
u,5, 50 ,500,x
v,4,NA,-40,
v,5,-5,-50,
w,1,,7,
"""


def test_lags_look_at_the_row_before_that_is_complete(read):
    seen = read(DAYS, features="a[-1], a", time="t")
    assert seen.nodes == ("u", "v")
    assert seen.columns == ("a[-1]", "a", "intercept")
    np.testing.assert_array_equal(seen.features[0], [[10, 30, 1], [30, 40, 1], [40, 50, 1]])
    np.testing.assert_array_equal(seen.targets[0], [300, 400, 500])
    np.testing.assert_array_equal(seen.features[1], [[-1, -3, 1], [-3, -5, 1]])
    np.testing.assert_array_equal(seen.targets[1], [-30, -50])
    assert seen.rows == {"read": 11, "incomplete": 4, "without_past": 2, "used": 5}
    assert seen.absent == ("w",)
    assert seen.order == "numbers"


def test_without_time_the_order_of_the_file_counts(read):
    seen = read(DAYS, features="a[-1],y[-2]", at_least=1)
    np.testing.assert_array_equal(seen.features[0], [[10, 300, 1], [40, 100, 1]])
    np.testing.assert_array_equal(seen.targets[0], [400, 500])
    assert seen.columns == ("a[-1]", "y[-2]", "intercept")
    assert seen.order == "file"


@pytest.mark.parametrize(
    ("times", "order"),
    [
        (["10", "9", "8.5"], "numbers"),
        (["2021-10-01T12:00", "2021-10-01T02:00+01:00", "2021-09-30"], "iso"),
        (["01/10/2021", "30/09/2021", "29/9/2021"], "day-first"),
    ],
)
def test_rows_are_ordered_by_their_times(read, times, order):
    table = [(site, time, place) for site in "uv" for place, time in enumerate(times)]
    seen = read(text(table, "site,when,y"), features="y[-1]", time="when")
    assert seen.order == order
    for part in (0, 1):
        np.testing.assert_array_equal(seen.features[part][:, 0], [2, 1])
        np.testing.assert_array_equal(seen.targets[part], [1, 0])


def test_coordinates_are_those_of_the_first_row_that_has_them(read):
    table = [("u", 1, 2, "", ""), ("u", 2, 3, 25.5, 60), ("u", 3, 4, 0, 0)]
    table += [("v", i, i, 24, 61.5) for i in range(3)]
    content = text(table, "site,a,y,lon,lat")
    seen = read(content, features="a", coordinates="lon, lat")
    np.testing.assert_array_equal(seen.coordinates, [[25.5, 60], [24, 61.5]])
    assert seen.rows["incomplete"] == 0
    with pytest.raises(InputError, match=r"^coordinates must name two columns"):
        read(content, features="a", coordinates="lon")
    with pytest.raises(InputError, match="node 'u' has no lon and lat in any row"):
        read(text([("u", 1, 2, "", 5), ("u", 1, 2, "", 5), *table[3:]], "site,a,y,lon,lat"),
             features="a", coordinates="lon,lat")  # fmt: skip


# Splits and errors


def test_splits_hold_out_the_share_of_every_node():
    counts = np.array([2, 3, 9, 27, 30])
    held_out = draw_splits(counts, 0.33, 4, seed=5)
    assert held_out.shape == (4, 5, 30)
    np.testing.assert_array_equal(held_out.sum(-1), np.tile([1, 1, 3, 9, 10], (4, 1)))
    assert not (held_out & (np.arange(30) >= counts[:, None])).any()
    assert not (held_out[0] == held_out[1]).all()
    np.testing.assert_array_equal(held_out, draw_splits(counts, 0.33, 4, seed=5))
    # More splits do not change the first ones.
    np.testing.assert_array_equal(held_out[:2], draw_splits(counts, 0.33, 2, seed=5))
    assert held_out_rows(100, 0.07) == 7  # 0.07 * 100 is 7.000000000000001
    assert [rows_needed(share) for share in (0.01, 0.33, 0.5, 0.6, 0.9)] == [2, 2, 2, 3, 10]


def test_ragged_nodes_have_the_errors_that_numpy_finds(read):
    counts = [12, 5, 9, 4, 12, 7, 2, 3, 12, 6, 8, 11]
    seen = read(text(measured(12, counts)))
    np.testing.assert_array_equal(seen.counts, counts)
    # Nodes with fewer rows than columns have the model that is shortest in the units of the fit.
    fit = fit_networked(seen, cliques(), settings(validation=0.4, seed=3, raw=True))
    held_out = draw_splits(seen.counts, 0.4, 5, 3)
    for split in range(5):
        outside = [held_out[split, i, :count] for i, count in enumerate(counts)]
        x, y = seen.features, seen.targets
        weights = [~out / (~out).sum() for out in outside]
        local = [least_squares(seen, i, w) for i, w in enumerate(weights)]
        root = np.sqrt(np.concatenate(weights))
        pooled = np.linalg.lstsq(root[:, None] * np.vstack(x), root * np.concatenate(y))[0]
        for method, models in (("local", local), ("pooled", [pooled] * 12)):
            errors = [
                np.mean((x[i][out] @ models[i] - y[i][out]) ** 2) for i, out in enumerate(outside)
            ]
            np.testing.assert_allclose(fit.errors[method][split], np.mean(errors), rtol=1e-8)
    assert fit.reported == (1, 2, 3, 4, 5)
    assert fit.chosen_on == ()


@pytest.mark.thorough
def test_models_go_from_local_ones_to_one_per_component(solve, read, tmp_path):
    content = text(measured())
    outcome = solve(
        content, *BASIC, "--graph", "edges.csv", "--lam", 1e-7, "--gap", 1e-11, "--out", "tiny",
        edges=CLIQUES,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    seen = read(content)
    local = np.stack([least_squares(seen, i) for i in range(12)])
    np.testing.assert_allclose(models_of(tmp_path / "tiny/models.csv"), local, atol=1e-4)
    numbers = [row["cluster"] for row in rows_of(tmp_path / "tiny/models.csv")]
    assert numbers == [str(i) for i in range(1, 13)]
    huge = fit_networked(seen, cliques(), settings(lam=100.0, gap=1e-11))
    for cluster in range(2):
        part = slice(cluster, None, 2)
        x, y = np.vstack(seen.features[part]), np.concatenate(seen.targets[part])
        together = np.tile(np.linalg.lstsq(x, y)[0], (6, 1))
        np.testing.assert_allclose(huge.models[part], together, atol=1e-6)
    np.testing.assert_array_equal(huge.cluster, [1, 2] * 6)


def test_clusters_are_joined_by_edges_and_numbered_by_size():
    a, b = [1.0, 0.0], [0.0, 1.0]
    graph = from_edges(7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    models = np.array([a, b, b, b, a, a, a])
    # Nodes 0 and 6 have the model of 4 and 5, but no edge.
    np.testing.assert_array_equal(clusters(graph, models), [3, 1, 1, 1, 2, 2, 4])


@pytest.mark.thorough
def test_a_threshold_that_was_chosen_and_too_few_rounds_are_told(solve, read):
    content = text(measured())
    outcome = solve(content, *BASIC, "--rounds", 3, "--splits", 1)
    assert outcome.code == 0, outcome.err
    told = r"The final fit has not converged: after 3 rounds its objective may be [\d.e+-]+ % above"
    assert re.search(told, outcome.out)
    assert "--rounds" not in outcome.out
    assert "on 1 split\n" in outcome.out
    assert re.search(r"Squared Wasserstein distances: smallest .*, median .*, largest", outcome.out)
    chosen = build_graph(read(content)).threshold
    assert f"--threshold {chosen:.4g} was chosen: the smallest" in outcome.out
    assert "0 isolated nodes." in outcome.out


@pytest.mark.kin(1)
@pytest.mark.parametrize("penalty", list(PENALTIES))
def test_every_penalty_helps_and_an_isolated_node_keeps_its_local_model(
    solve, read, tmp_path, penalty
):
    content = text(measured())
    outcome = solve(
        content, *BASIC, "--graph", "edges.csv", "--penalty", penalty, "--lam", 2,
        "--out", "out", edges=[pair for pair in CLIQUES if 11 not in pair],
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "Graph (edges of edges.csv): 25 edges, 1 isolated node." in outcome.out
    models = rows_of(tmp_path / "out/models.csv")
    assert [row["isolated"] for row in models] == ["0"] * 11 + ["1"]
    alone = models_of(tmp_path / "out/models.csv")[11]
    np.testing.assert_allclose(alone, least_squares(read(content), 11), rtol=1e-9)
    rows = {row["method"]: float(row["mean"]) for row in rows_of(tmp_path / "out/comparison.csv")}
    assert rows["GTV"] < rows["local"]
    quadratic = penalty in ("mocha", "squared")
    assert len({row["cluster"] for row in models}) == (12 if quadratic else 3)
    assert (f"--penalty {penalty} makes models alike, never equal" in outcome.out) == quadratic


@pytest.mark.thorough
def test_auto_chooses_on_some_splits_and_reports_others(solve, tmp_path):
    outcome = solve(
        text(measured()), *BASIC, "--threshold", 20, "--lam", "auto", "--rounds", 1000,
        "--out", "auto",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    grid = rows_of(tmp_path / "auto/lam_grid.csv")
    assert len(grid) == 13
    assert {row["converged"] for row in grid} == {"1"}
    assert max(float(row["gap"]) for row in grid) <= 1e-6
    lams = np.array([float(row["lam"]) for row in grid])
    np.testing.assert_allclose(np.diff(np.log10(lams)), 5 / 12, atol=0.01)
    errors = np.array([[float(row[f"split_{i}"]) for i in range(1, 6)] for row in grid])
    choosing = errors[:, :2].mean(1)
    # Models of one component agree from some lam on, and errors with them.
    best = np.flatnonzero(choosing <= choosing.min() * (1 + 1e-8))[0]
    assert 0 < best < 12
    assert [row["chosen"] for row in grid] == ["1" if i == best else "0" for i in range(13)]
    reported = {row["method"]: row for row in rows_of(tmp_path / "auto/comparison.csv")}
    names = ["method", "mean", "sd", "converged", "split_3", "split_4", "split_5"]
    assert list(reported["GTV"]) == names
    np.testing.assert_allclose(float(reported["GTV"]["mean"]), errors[best, 2:].mean())
    result = json.loads((tmp_path / "auto/config.json").read_text())["result"]
    assert result["lam"] == lams[best]
    assert (result["lam_chosen_on_splits"], result["reported_splits"]) == ([1, 2], [3, 4, 5])
    assert (result["converged"], result["unfinished_lams"]) == (True, [])
    assert "over splits 3 to 5\n" in outcome.out
    assert "a trace of optimism remains" in outcome.out
    assert float(reported["GTV"]["mean"]) < float(reported["local"]["mean"])
    # A run without a grid leaves none of an earlier one behind.
    options = (*BASIC, "--threshold", 20, "--rounds", 200, "--out", "auto", "--overwrite")
    assert solve(None, *options).code == 0
    assert not (tmp_path / "auto/lam_grid.csv").exists()


# Graphs


def test_distances_are_those_of_the_features_and_the_target(read):
    seen = read(text(measured(12, [6, 9, 12] * 4)))
    distances = node_distances(seen)
    rows = [np.column_stack([seen.features[i][:, :2], seen.targets[i]]) for i in range(12)]

    def root(matrix):
        values, vectors = np.linalg.eigh(matrix)
        return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T

    for i, j in ((0, 1), (0, 2), (1, 2)):
        first, second = np.cov(rows[i].T), np.cov(rows[j].T)
        common = np.trace(root(root(first) @ second @ root(first)))
        shift = rows[i].mean(0) - rows[j].mean(0)
        expected = shift @ shift + np.trace(first + second) - 2 * common
        np.testing.assert_allclose(distances[i, j], expected, rtol=1e-7)
        assert distances[i, j] == distances[j, i]


def test_nearest_neighbours_have_the_inverse_distance_as_weight(read):
    seen = read(text(measured()))
    distances = node_distances(seen)
    network = build_graph(seen, "neighbours", neighbours=2)
    heads, tails = np.asarray(network.graph.heads), np.asarray(network.graph.tails)
    np.testing.assert_allclose(network.graph.weights, 1 / distances[heads, tails])
    nearest = (distances + np.diag(np.full(12, np.inf))).argsort(1)[:, :2]
    wanted = {tuple(sorted((i, int(j)))) for i in range(12) for j in nearest[i]}
    assert set(zip(heads.tolist(), tails.tolist(), strict=True)) == wanted
    assert build_graph(seen, "neighbours").made.startswith("5 nearest neighbours")


# The figure


@pytest.mark.kin(1)
@pytest.mark.parametrize("coordinates", [None, ("longitude", "latitude"), ("east", "north")])
def test_the_figure_shows_all_nodes_with_colour_and_marker(read, coordinates):
    seen = read(text(measured()))
    fit = fit_networked(seen, cliques(), settings())
    fit = dataclasses.replace(fit, cluster=np.array([1, 2, 1, 2, 1, 3, 1, 2, 1, 2, 1, 4]))
    places = np.random.default_rng(0).uniform(60, 65, (12, 2))
    if coordinates:
        seen = dataclasses.replace(seen, coordinates=places, coordinate_names=coordinates)
        fit = dataclasses.replace(fit, observations=seen)
    figure = draw_networked(fit, "what was run")
    left, right = figure.axes
    labels = [entry.get_text() for entry in figure.legends[0].get_texts()]
    assert labels == ["cluster 1 (6 nodes)", "cluster 2 (4 nodes)", "agrees with no neighbour (2)"]
    edges, *groups = left.collections
    assert len(edges.get_segments()) == 30
    assert sum(len(group.get_offsets()) for group in groups) == 12
    looks = {(tuple(group.get_facecolors()[0]), group.get_paths()[0].vertices.tobytes())
             for group in groups}  # fmt: skip
    assert len({colour for colour, _ in looks}) == len({shape for _, shape in looks}) == 3
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["local", "pooled", "GTV"]
    if coordinates:
        assert (left.get_xlabel(), left.get_ylabel()) == coordinates
        degrees = coordinates[0] == "longitude"
        latitude = np.radians(places[:, 1].mean())
        np.testing.assert_allclose(left.get_aspect(), 1 / np.cos(latitude) if degrees else 1)
    assert figure.get_suptitle() == "what was run"


# Mistakes

GOOD = text(measured(4, 4))
SITE = ("--node", "site", "--target", "y", "--features")


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("", BASIC, r"mine\.csv is empty"),
        ("site,a,b,a,y\nu,1,1,1,1\n", BASIC, "names the column a twice"),
        (GOOD, ("--node", "town", *BASIC[2:]),
         "has no column town; its columns are site, day, a, b, y"),
        (GOOD, (*BASIC, "--time", "day", "--time-format", "%d"), "must be a time written as %d"),
        (GOOD, (*SITE, "a[1]"),
         r"--features must say how many rows back, as a\[-1\] does, but it says a\[1\]\."),
        (GOOD, (*SITE, "a,y"), r"--features must not name the target y itself; .* is y\[-1\]"),
        ("site,a,b,y\nu,1,2,3\nu,1,x2,3\n", BASIC,
         "line 3: b must be a number, but it is 'x2'; repair it, or leave the cell empty"),
        ("site,a,b,y\nu,1,2,3\nu,2,2,3\nv,1,1,1\n", BASIC,
         "node 'v' has 1 complete row, but training and validation need at least 2"),
        (GOOD, (*BASIC, "--validation", "0.9"),
         "node 'n0' .and 3 more like it. has 4 complete rows, but .* need at least 10"),
        (GOOD, (*SITE, "a[-3]"), "has 1 complete row after the first 3, but"),
        ("site,t,y\nu,1,1\nu,2,1\nv,1,1\nu,1,5\n", (*SITE, "y[-1]", "--time", "t"),
         "line 5: site 'u' has a row of t '1' already in line 2"),
    ],
)  # fmt: skip
def test_malformed_input_gets_one_sentence(solve, tmp_path, content, options, sentence):
    before = set(tmp_path.iterdir())
    assert re.search(sentence, solve(content, *options).mistake())
    assert {path.name for path in set(tmp_path.iterdir()) - before} <= {"mine.csv"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--penalty", "lasso"), "--penalty must be one of 'nlasso', .* and 'squared', .* 'lasso'"),
        (("--graph", "neighbours", "--threshold", "1"), "--threshold goes with --graph wasserst"),
        (("--lam", "big"), "--lam must be a number or auto, but it is 'big'"),
        (("--graph", "wrong.csv"), r"wrong\.csv, line 2: node 'x' is unknown"),
    ],
)
def test_wrong_options_get_one_sentence(solve, tmp_path, options, sentence):
    (tmp_path / "wrong.csv").write_text("head,tail\nn0,x\n")
    assert re.search(sentence, solve(GOOD, *BASIC, *options).mistake())


# A process of its own; the real file


@pytest.fixture
def stations():
    folder = os.environ.get("FEDJAX_ADMM_DATA")
    if not folder:
        pytest.skip("FEDJAX_ADMM_DATA does not name the folder of the shared data files")
    path = Path(folder) / "fmi_daily_temperature_2021.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the folder that FEDJAX_ADMM_DATA names")
    return path


WEATHER = {"node": "station", "time": "date", "target": "max_temp"}


@pytest.mark.data
def test_weather_stations_are_read_and_joined(stations):
    seen = read_observations(stations, **WEATHER, features="max_temp[-1],min_temp")
    assert isinstance(seen, Observations)
    assert len(seen.nodes) == 203
    assert sorted(seen.counts)[:3] == [24, 24, 27]
    assert (seen.rows["read"], seen.rows["incomplete"], seen.order) == (5768, 90, "iso")
    network = build_graph(seen, threshold=5.0)
    assert (network.num_edges, network.isolated.sum()) == (3254, 2)


@pytest.mark.data
@pytest.mark.slow
def test_weather_stations_gain_by_pooling(command, stations):
    outcome = command(
        "solve", "networked", "--input", stations, "--node", "station", "--time", "date",
        "--target", "max_temp", "--features", "max_temp[-1],min_temp", "--threshold", 5,
        "--coordinates", "longitude,latitude", "--out", "weather",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "3254 edges, 2 isolated nodes" in outcome.out
    rows = {row["method"]: float(row["mean"]) for row in rows_of("weather/comparison.csv")}
    # Means over five other splits: 6.51 (0.21), 5.45 (0.19) and 5.41 (0.18).
    np.testing.assert_allclose([rows["local"], rows["pooled"], rows["GTV"]], [6.51, 5.45, 5.41],
                               atol=0.3)  # fmt: skip
    assert "GTV predicts better than one pooled model: an error " in outcome.out
    assert "GTV predicts better than local models: an error " in outcome.out


@pytest.mark.thorough
def test_a_second_process_finds_the_traced_program(shell, environment, tmp_path):
    (tmp_path / "rows.csv").write_text(text(measured()))
    kept, found = Path(environment["XDG_CACHE_HOME"], "fedjax-admm/compiled/traced"), []
    for out in ("first", "second"):
        assert shell("solve", "networked", "--input", "rows.csv", *BASIC, "--out", out).code == 0
        found.append({file.name: file.stat().st_mtime_ns for file in kept.iterdir()})
    assert found[0]
    assert found[0] == found[1]
    for name in ("models.csv", "comparison.csv"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()
