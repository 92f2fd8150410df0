"""`solve localization`: one problem of a person's own, from a file."""

import json
import re
import shlex

import numpy as np
import pytest

from fedjax_admm.trials.solve.localization._figure import draw_location
from fedjax_admm.trials.solve.localization._fit import locate
from fedjax_admm.trials.solve.localization._report import report
from fedjax_admm.trials.tables._ranges import RangeTable, read_ranges
from tests.cli.reading import rows_of

FAR = (4e5, 6e6, 150.0)  # like map coordinates in metres
AXES = ("x", "y", "z")
FILES = {
    *("models.csv", "residuals.csv", "config.json"),
    *("figure.png", "figure.pdf", "figure.txt"),
}


@pytest.fixture(autouse=True)
def _double_precision(x64):
    """The command computes in float64."""


def measured(dim, *, seed=0, sensors=12, size=1000.0, offset=FAR, wrong=(), target=None):
    """Return sensors (sensors, dim), exact ranges except the wrong ones, and the target."""
    random = np.random.default_rng(seed)
    anchors = random.uniform(-size, size, (sensors, dim))
    inside = random.uniform(-size, size, dim) * 0.8
    target = inside if target is None else np.asarray(target, float)
    distances = np.linalg.norm(anchors - target, axis=1)
    for place in wrong:
        distances[place] += 0.4 * size
    shift = np.asarray(offset[:dim])
    return anchors + shift, distances, target + shift


def table(anchors, distances, header=None):
    names = AXES[: anchors.shape[1]]
    lines = [",".join((*names, "range")) if header is None else header]
    for anchor, distance in zip(anchors, distances, strict=True):
        lines.append(",".join(repr(float(number)) for number in (*anchor, distance)))
    return "\n".join(lines) + "\n"


@pytest.fixture
def solve(command, tmp_path):
    """Write a file and solve it."""

    def call(content, *options, name="ranges.csv"):
        if content is not None:
            path = tmp_path / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return command("solve", "localization", "--input", name, *options)

    return call


def position(outcome):
    first = outcome.out.splitlines()[0]
    assert first.startswith("position (m): x = ")
    return np.array([float(number) for number in re.findall(r"= (-?[\d.]+)", first)])


def marked(outcome):
    return [int(line.split()[0]) for line in outcome.out.splitlines() if line.endswith("outlier?")]


@pytest.mark.kin(2)
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(
    "case",
    [
        {},
        {"offset": (0.0, 0.0, 0.0), "size": 0.5},
        {"wrong": (2, 7)},
        {"sensors": "fewest"},
        {"target": (20000.0, 15000.0, 9000.0)},
    ],
    ids=["map", "small", "outliers", "fewest", "far outside"],
)
def test_exact_ranges_give_the_target(solve, tmp_path, dim, case):
    case = dict(case)
    if case.get("sensors") == "fewest":
        case["sensors"] = dim + 1
    if "target" in case:
        case["target"] = case["target"][:dim]
    anchors, distances, target = measured(dim, **case)
    outcome = solve(table(anchors, distances), "--rounds", 300)
    assert outcome.code == 0, outcome.err
    size = np.abs(anchors - anchors.mean(0)).max()
    assert np.linalg.norm(position(outcome) - target) < min(0.01, 1e-4 * size + 1e-4)
    # Line 1 of the file is the header.
    assert marked(outcome) == [place + 2 for place in case.get("wrong", ())]
    assert f"{len(case.get('wrong', ()))} of {len(distances)} sensors" in outcome.out
    folder = tmp_path / "results/localization-ranges"
    assert {path.name for path in folder.iterdir()} == FILES
    assert (folder / "figure.png").stat().st_size > 20_000


def read_from(text):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranges.csv"
        path.write_text(text)
        return read_ranges(path)


def test_order_of_columns_spelling_and_extra_columns_do_not_matter(solve):
    anchors, distances, target = measured(2)
    rows = [
        f"s{i}, {d!r} ,{float(y)!r},, {float(x)!r}"
        for i, ((x, y), d) in enumerate(zip(anchors, distances.tolist(), strict=True))
    ]
    text = "\ufeff" + "\r\n".join(["name, Range ,Y,note, X", *rows[:5], "", *rows[5:]]) + "\r\n"
    outcome = solve(text, "--rounds", 300)
    assert outcome.code == 0, outcome.err
    np.testing.assert_allclose(position(outcome), target, atol=1e-3)
    assert "\nColumns name, note are ignored.\n" in outcome.out
    # Lines are those of the file, the blank one counted.
    numbers = re.findall(r"^ +(\d+) +\d+\.\d{4} ", outcome.out, re.MULTILINE)
    assert [int(number) for number in numbers] == [2, 3, 4, 5, 6, *range(8, 15)]


@pytest.mark.parametrize(
    ("dim", "flat", "told"),
    [(3, 1e-5, "plane"), (2, 0.0, "line"), (3, 1.0, None)],
)
def test_sensors_in_one_plane_are_ambiguous(x64, dim, flat, told):
    random = np.random.default_rng(5)
    anchors = random.uniform(-100, 100, (9, dim))
    anchors[:, -1] *= flat
    target = np.array([20.0, -30.0, 40.0])[-dim:]
    ranges = read_from(table(anchors, np.linalg.norm(anchors - target, axis=1)))
    location = locate(ranges, 300)
    text = report(location)
    if told is None:
        np.testing.assert_allclose(location.position, target, atol=1e-4)
        assert location.mirror is None
        assert "mirror" not in text
        return
    assert f"in or near one {told}, so the mirror image x = " in text
    both = np.stack([location.position, location.mirror])
    both = both[np.argsort(both[:, -1])]
    image = target * np.array([1.0] * (dim - 1) + [-1.0])
    np.testing.assert_allclose(both, np.stack([image, target]), atol=0.01)
    labels = [text.get_text() for text in draw_location(location, "").legends[0].get_texts()]
    assert "mirror image, fits as well" in labels


def test_scattered_sensors_have_no_mirror_image(x64):
    """A place near their principal axis and its image fit alike, as all places between them do."""
    random = np.random.default_rng(304)
    anchors = random.uniform(-50, 50, (7, 2))
    centre, across = anchors.mean(0), np.linalg.svd(anchors - anchors.mean(0))[2][1]
    distances = np.linalg.norm(anchors - centre - 1.5 * across, axis=1) + random.normal(size=7)
    location = locate(RangeTable(anchors, distances, np.arange(7)), 300)
    place = location.position
    image = place - 2 * across * (across @ (place - centre))
    assert np.linalg.norm(image - place) > location.threshold
    assert location.ranges.cost(image) < location.ranges.cost(place) + 7 * location.threshold / 3
    assert location.mirror is None


@pytest.mark.kin(1)
@pytest.mark.parametrize("dim", [3, 2])
def test_the_picture_holds_all_sensors_and_the_estimate(x64, dim):
    anchors, distances, target = measured(dim, wrong=(1,), target=(1500.0, 0.0, 0.0)[:dim])
    ranges = read_from(table(anchors, distances))
    figure = draw_location(locate(ranges, 300), "mine.csv")
    assert len(figure.axes) == dim - 1
    for axes, up in zip(figure.axes, (1, 2), strict=False):
        for place in (*anchors, target):
            assert axes.get_xlim()[0] < place[0] < axes.get_xlim()[1]
            assert axes.get_ylim()[0] < place[up] < axes.get_ylim()[1]
        assert axes.get_aspect() == 1
        assert axes.get_xlabel() == "x (m)"
        assert axes.get_ylabel() == f"{AXES[up]} (m)"
        dashed = [patch for patch in axes.patches if patch.get_linestyle() in ("--", "dashed")]
        assert (len(axes.patches), len(dashed)) == (len(anchors), 1)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["sensor and range", "suspected outlier (dashed)", "estimate"]


def test_the_folder_holds_position_candidates_and_residuals(solve, command, tmp_path):
    anchors, distances, target = measured(2, wrong=(4,))
    outcome = solve(table(anchors, distances), "--rounds", 300, "--out", "new/place")
    assert outcome.code == 0, outcome.err
    assert re.search(r"FSMDM +x = .*sum of \|residuals\| [\d.]+ m", outcome.out)
    assert re.search(r"centralised +x = .*sum of \|residuals\| 400 m", outcome.out)
    last = outcome.out.splitlines()[-1]
    assert re.fullmatch(r"Wrote .* in new/place after \d+\.\d s\.", last)
    assert all(name in last for name in FILES)
    folder = tmp_path / "new" / "place"
    assert {path.name for path in folder.iterdir()} == FILES
    models = rows_of(folder / "models.csv")
    assert [row["method"] for row in models] == ["FSMDM", "centralised"]
    (chosen,) = [row for row in models if row["chosen"] == "1"]
    cheapest = min(models, key=lambda row: float(row["sum_of_absolute_residuals"]))
    assert chosen is cheapest
    found = np.array([float(chosen[axis]) for axis in "xy"])
    np.testing.assert_allclose(found, target, atol=1e-3)

    residuals = rows_of(folder / "residuals.csv")
    assert [int(row["line"]) for row in residuals] == list(range(2, 14))
    places = np.array([[float(row[axis]) for axis in "xy"] for row in residuals])
    np.testing.assert_allclose(places, anchors)
    expected = np.linalg.norm(anchors - found, axis=1) - distances
    told = [float(row["residual"]) for row in residuals]
    np.testing.assert_allclose(told, expected, atol=1e-4)
    rows = re.findall(r"^ +(\d+) +(\d+\.\d{4}) +([+-]\d+\.\d{4})", outcome.out, re.MULTILINE)
    np.testing.assert_allclose([float(row[1]) for row in rows], distances, atol=1e-4)
    np.testing.assert_allclose([float(row[2]) for row in rows], told, atol=1e-4)
    suspected = [row["line"] for row in residuals if row["suspected_outlier"] == "1"]
    assert suspected == ["6"]

    config = json.loads((folder / "config.json").read_text())
    parts = ["command", "family", "settings", "data", "result", "seconds", "versions", "files"]
    assert list(config) == parts
    assert set(config["files"]) == FILES
    drawn = {"style": None, "format": None, "columns": None}
    asked = {"input": "ranges.csv", "rounds": 300, "out": "new/place", "clock": False}
    asked |= dict.fromkeys(("anchors", "odometry", "truth", "tag", "map", "time_format"))
    assert config["settings"] == asked | drawn
    assert config["data"] == {"sensors": 12, "dimensions": 2, "left_out": 0}
    result = config["result"]
    np.testing.assert_allclose([result["position"][axis] for axis in "xy"], found)
    np.testing.assert_allclose(result["cost"], float(chosen["sum_of_absolute_residuals"]))
    assert (result["suspected_outliers"], result["ambiguous"]) == (1, False)
    assert min(config["seconds"].values()) > 0
    assert config["versions"]["jax"]
    before = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    assert command(*shlex.split(config["command"])[1:], "--overwrite").code == 0
    assert {path.name: path.read_bytes() for path in folder.glob("*.csv")} == before


def test_an_empty_cell_costs_its_range_alone(solve, tmp_path):
    anchors, distances, target = measured(2, sensors=8)
    lines = table(anchors, distances).splitlines()
    lines[3] = lines[3].rpartition(",")[0] + ","
    outcome = solve("\n".join(lines) + "\n", "--rounds", 300)
    assert outcome.code == 0
    np.testing.assert_allclose(position(outcome), target, atol=1e-2)
    assert "Rows without a range, which were left out: 1." in outcome.out
    rows = rows_of(tmp_path / "results/localization-ranges/residuals.csv")
    assert [int(row["line"]) for row in rows] == [2, 3, 5, 6, 7, 8, 9]


# Mistakes

GOOD = "x,y,range\n0,0,5\n10,0,6\n0,10,7\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "x,y,range\n0,0,5\n1,1,5\n",
            "2 sensors with a range, but 2 dimensions need at least 3",
        ),
        (GOOD.replace("10,0,6", "10,O,6"), r"line 3: y must be a number, but it is 'O'"),
        (GOOD.replace("10,0,6", "10,0,-6"), "line 3: range must be positive, but it is '-6'"),
        (GOOD.replace("10,0,6", "10,5,0,5,6,5"), "line 3: there are 6 cells, but line 1 has 3"),
        ("x,range\n0,5\n", "has no column y; its first line must name"),
        ("x;y\n0;0\n", "has no column range.*'x;y'"),
    ],
)
def test_malformed_input_gets_one_sentence_with_the_line(solve, tmp_path, content, sentence):
    before = set(tmp_path.iterdir())
    assert re.search(sentence, solve(content).mistake())
    assert {path.name for path in set(tmp_path.iterdir()) - before} <= {"ranges.csv"}
