"""`solve localization --anchors`: a path from the files of a kit."""

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fedjax_admm.trials.solve.localization._figure import draw_path
from fedjax_admm.trials.solve.localization._path import locate_log, window_positions
from fedjax_admm.trials.solve.localization._report import path_text
from fedjax_admm.trials.tables._kits import KitLog, Plane, read_kit
from tests.cli.reading import rows_of

PLACES = {"a": (0.0, 0.0), "b": (40.0, 0.0), "c": (40.0, 30.0), "d": (0.0, 30.0)}
OFFSETS = {"a": 0.0, "b": 1.5, "c": 0.0, "d": 0.0}


@pytest.fixture(autouse=True)
def _double_precision(x64):
    """The command computes in float64."""


def drive(times):
    return np.stack([20 + 14 * np.sin(times / 10), 15 + 10 * np.sin(times / 5)], -1)


def write_kit(folder, *, rows=200, seed=0):
    """Write the files of a kit: ranges in centimetres and milliseconds, spoiled here and there."""
    random = np.random.default_rng(seed)
    times = np.sort(random.uniform(0, 90, rows))
    lines = ["Range (cm);tag;time_ms;rssi".replace(";", ",")]
    for i, (time, place) in enumerate(zip(times, drive(times), strict=True)):
        name = "abcd"[random.integers(4)]
        distance = np.linalg.norm(place - PLACES[name]) + OFFSETS[name] + 0.1 * random.normal()
        distance += 8.0 * (i in (50, 120))
        text = {30: "", 31: "0", 32: "nan"}.get(i, f"{100 * distance:.3f}")
        lines.append(f"{text},{'ghost' if i == 40 else name},{1000 * time:.3f},-60")
    lines[1:] = lines[1:][::-1]  # the last one first
    (folder / "ranges.csv").write_text("\n".join(lines) + "\n")
    anchors = [f"{name},{x},{y}" for name, (x, y) in PLACES.items()]
    (folder / "anchors.csv").write_text("\n".join(["tag,x_m,y_m", *anchors]) + "\n")
    fine = np.arange(0, 90.5, 0.5)
    truth = [f"{time},{x!r},{y!r}" for time, (x, y) in zip(fine, drive(fine).tolist(), strict=True)]
    (folder / "truth.csv").write_text("\n".join(["time_s,x,y", *truth]) + "\n")
    return times


def test_a_kit_gives_a_path_its_ellipses_and_the_biased_anchor(command, tmp_path):
    times = write_kit(tmp_path)
    words = ("--input", "ranges.csv", "--anchors", "anchors.csv", "--truth", "truth.csv")
    outcome = command("solve", "localization", *words, "--out", "out")
    assert outcome.code == 0, outcome.err
    assert "Anchors with an offset of more than 3 deviations: b." in outcome.out
    assert "2 ranges of 196 were rejected" in outcome.out
    assert "3 rows without a positive range were left out." in outcome.out
    assert "Anchors without a place were left out: ghost." in outcome.out
    assert "Column rssi is ignored." in outcome.out
    assert "The geometry is good enough" in outcome.out
    folder = tmp_path / "out"

    positions = rows_of(folder / "positions.csv")
    found = np.array([[float(row[name]) for name in ("time", "x", "y")] for row in positions])
    assert len(found) == 196
    assert np.all(np.diff(found[:, 0]) > 0)
    errors = np.linalg.norm(found[:, 1:] - drive(found[:, 0]), axis=1)
    assert np.median(errors) < 0.25
    half = np.array([[float(row[f"half_axis_{i}"]) for i in (1, 2)] for row in positions])
    assert np.all(half[:, 0] >= half[:, 1])
    # The axes of an ellipse and its standard deviations are of one matrix.
    deviations = np.array([[float(row[f"{axis}_deviation"]) for axis in "xy"] for row in positions])
    quantile = -2 * np.log(0.1)
    np.testing.assert_allclose(np.sum(half**2, 1) / quantile, np.sum(deviations**2, 1), rtol=1e-6)

    anchors = {row["anchor"]: row for row in rows_of(folder / "anchors.csv")}
    assert [name for name, row in anchors.items() if row["biased"] == "1"] == ["b"]
    assert abs(float(anchors["b"]["offset"]) - 1.5) < 0.3
    residuals = rows_of(folder / "residuals.csv")
    lost = [float(row["time"]) for row in residuals if row["rejected"] == "1"]
    np.testing.assert_allclose(lost, times[[50, 120]], atol=1e-5)
    config = json.loads((folder / "config.json").read_text())
    assert config["result"]["biased"] == ["b"]
    assert 0.75 < config["result"]["coverage"] <= 1
    assert config["data"]["unknown_anchors"] == ["ghost"]
    told = re.search(r"path +(\d+\.\d+) +(\d+\.\d+)\n", outcome.out)
    assert told
    assert abs(float(told[1]) - config["result"]["median"]) < 1e-3


def simulated(kind, rows=400):
    """Return a log whose errors are 0.1 m, and which is spoiled in a way that is known."""
    random = np.random.default_rng(3)
    anchors = np.array([*PLACES.values(), (20.0, 45.0)])
    anchors = anchors * (1, 0) if kind == "line" else anchors
    times = np.sort(random.uniform(0, 120, rows))
    truth = drive(times)
    if kind == "targets":
        truth = np.where(random.uniform(size=(rows, 1)) < 0.5, truth, drive(times + 15) + 4)
    which = random.integers(0, len(anchors), rows)
    ranges = np.linalg.norm(truth - anchors[which], axis=1) + 0.1 * random.normal(size=rows)
    ranges += 0.2 * times * (kind == "clock")
    told = {"moved": anchors + np.eye(5)[2][:, None] * (6, -8), "names": anchors[[0, 2, 1, 3, 4]]}
    return KitLog(
        names=tuple("abcde"),
        anchors=told.get(kind, anchors),
        plane=None,
        times=times,
        anchor=which,
        ranges=ranges,
        sigma=None,
        lines=np.arange(rows) + 2,
        missing=0,
        unknown=(),
        odometry=None,
        truth=np.column_stack([times, truth]),
    )


@pytest.mark.kin(1)
@pytest.mark.parametrize("kind", ["moved", "names", "line", "targets", "clock"])
def test_what_a_log_cannot_tell_is_told(kind):
    found = locate_log(simulated(kind, 2000 if kind == "targets" else 400))
    text, errors = path_text(found), found.errors(found.path.positions)
    if kind in ("moved", "names"):
        assert set(found.choice.moved) == {"moved": {"c"}, "names": {"b", "c"}}[kind]
        assert errors["rmse"] < 0.3
        assert found.coverage() > 0.75
        sentence = {"moved": "Anchor c does not stand", "names": "are exchanged in one of"}[kind]
        assert sentence in text
    if kind == "line":
        assert found.doubts.axes.tolist() == [False, True]
        assert "The anchors lie in or near one line" in text
        assert np.isinf(found.ellipses(np.arange(3))[0]).all()
        assert np.isfinite(found.deviations(np.arange(3))[:, 0]).all()
    if kind == "targets":
        assert found.doubts.rows.all()
        assert "They may be of several targets" in text
    if kind == "clock":
        assert "try --clock" in text


def test_latitudes_and_longitudes_are_places_in_a_plane(tmp_path):
    write_kit(tmp_path)
    flat = read_kit(tmp_path / "ranges.csv", tmp_path / "anchors.csv")
    plane = Plane(60.0, 25.0)
    rows = [
        f"{name},{longitude!r},{latitude!r}"
        for name, (latitude, longitude) in zip(
            flat.names, plane.degrees(flat.anchors).tolist(), strict=True
        )
    ]
    (tmp_path / "globe.csv").write_text("\n".join(["anchor,lon,lat", *rows]) + "\n")
    round_ = read_kit(tmp_path / "ranges.csv", tmp_path / "globe.csv")
    middle = flat.anchors.mean(0)
    np.testing.assert_allclose(round_.anchors, flat.anchors - middle, atol=1e-3)
    # A degree of latitude at 60 degrees is 111.41 km long, one of longitude 55.80 km.
    np.testing.assert_allclose(plane.metres(), (55800, 111412), rtol=1e-4)


def rewritten(path, change):
    """Change the cells of the rows of a file, below its header."""
    head, *rows = path.read_text().splitlines()
    rows = [",".join(change(row.split(","))) for row in rows]
    path.write_text("\n".join([head, *rows]) + "\n")


def test_times_may_be_dates_and_rows_may_repeat(tmp_path):
    write_kit(tmp_path)
    files = [tmp_path / f"{name}.csv" for name in ("ranges", "anchors", "truth")]
    plain = read_kit(*files[:2], truth=files[2])

    def dated(seconds):
        return (datetime.fromtimestamp(1.7e9, UTC) + timedelta(seconds=seconds)).isoformat()

    rewritten(files[0], lambda row: [*row[:2], dated(float(row[2]) / 1000), row[3]])
    rewritten(files[2], lambda row: [dated(float(row[0])), *row[1:]])
    files[1].write_text(files[1].read_text() + "spare,500,500\n")
    head, *rows = files[0].read_text().splitlines()
    head = head.replace("tag", "Beacon ID").replace("time_ms", "DateTime")
    files[0].write_text("\n".join([head, *rows, *rows[4:8]]) + "\n")
    read = read_kit(*files[:2], truth=files[2])
    np.testing.assert_allclose(read.times - 1.7e9, plain.times, atol=1e-5)
    np.testing.assert_allclose(read.truth[:, 0] - 1.7e9, plain.truth[:, 0], atol=1e-5)
    np.testing.assert_array_equal(read.ranges, plain.ranges)
    assert (read.repeated, read.silent, read.names) == (4, ("spare",), plain.names)


def test_files_of_other_forms_are_the_same_log(tmp_path):
    """Other names, a column per anchor, anchors in the rows, a file per anchor, one tag of two."""
    write_kit(tmp_path)
    anchors = tmp_path / "anchors.csv"
    plain = read_kit(tmp_path / "ranges.csv", anchors)
    rows = list(zip(plain.times, plain.anchor, plain.ranges, strict=True))

    def written(name, header, lines):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = "\n".join("\t".join(map(str, line)) for line in [header, *lines])
        (tmp_path / name).write_text(text + "\n")
        return tmp_path / name

    renamed = written(
        "renamed.csv", ["field.stamp", "to", "mm"], [(t, "abcd"[k], 1000 * r) for t, k, r in rows]
    )
    named = {"time": "field.stamp", "anchor": "to", "range": "mm[mm]"}
    wide = written(
        "wide.csv",
        ["time", *"ABCD"],
        [(t, *("" if j != k else r for j in range(4))) for t, k, r in rows],
    )
    there = written(
        "there.csv",
        ["time", "anchor", "anchor_x", "anchor_y", "range"],
        [(t, "abcd"[k], *plain.anchors[k], r) for t, k, r in rows],
    )
    each = [
        written(
            f"each/log-{'abcd'[j]}.csv", ["time", "range"], [(t, r) for t, k, r in rows if k == j]
        )
        for j in range(4)
    ]
    tags = written(
        "tags.csv",
        ["time", "tag", "anchor", "range"],
        [(t, *both) for t, k, r in rows for both in (("p", "abcd"[k], r), ("q", "abcd"[k], r + 1))],
    )
    logs = [
        read_kit(renamed, anchors, named=named),
        read_kit(wide, anchors),
        read_kit(there, None),
        read_kit(each, anchors),
        read_kit(tags, anchors, tag="p"),
    ]
    for log in logs:
        np.testing.assert_array_equal(log.times, plain.times)
        assert [log.names[k] for k in log.anchor] == [plain.names[k] for k in plain.anchor]
        np.testing.assert_allclose(log.ranges, plain.ranges, rtol=1e-12)
        assert sorted(map(tuple, log.anchors)) == sorted(map(tuple, plain.anchors))


def test_times_of_the_day_go_on_after_midnight(tmp_path):
    write_kit(tmp_path)
    plain = read_kit(tmp_path / "ranges.csv", tmp_path / "anchors.csv")
    lines = [
        f"{(time + 86_350) % 86_400!r},{'abcd'[k]},{length!r}"
        for time, k, length in zip(
            plain.times.tolist(), plain.anchor, plain.ranges.tolist(), strict=True
        )
    ]
    (tmp_path / "ranges.csv").write_text("\n".join(["time,anchor,range", *lines]) + "\n")
    log = read_kit(tmp_path / "ranges.csv", tmp_path / "anchors.csv")
    assert log.midnight
    np.testing.assert_allclose(log.times - 86_350, plain.times, atol=1e-9)


def test_anchors_on_both_sides_of_the_date_line_are_neighbours(tmp_path):
    (tmp_path / "ranges.csv").write_text(GOOD["ranges.csv"])
    rows = ["a,-17,179.9999", "b,-17,-179.9999", "c,-16.9999,180"]
    (tmp_path / "anchors.csv").write_text("\n".join(["anchor,lat,lon", *rows]) + "\n")
    log = read_kit(tmp_path / "ranges.csv", tmp_path / "anchors.csv")
    assert np.ptp(log.anchors, axis=0).max() < 25
    degrees = log.plane.degrees(log.anchors)
    np.testing.assert_allclose(np.abs(degrees[:, 1]), (179.9999, 179.9999, 180), atol=1e-9)


def test_files_of_two_clocks_are_told(command, tmp_path):
    write_kit(tmp_path)
    rewritten(tmp_path / "truth.csv", lambda row: [f"{1e6 + float(row[0])}", *row[1:]])
    words = ("--input", "ranges.csv", "--anchors", "anchors.csv", "--truth", "truth.csv")
    outcome = command("solve", "localization", *words)
    assert "the times of truth.csv, 1000000 to 1000090 s, are not those of" in outcome.mistake()


@pytest.mark.thorough
def test_the_ranges_choose_the_motion_and_the_scales(tmp_path):
    """Turns are clockwise, and one anchor has a scale of its own."""
    write_kit(tmp_path, rows=300)
    fine = np.arange(0, 90.5, 0.25)
    ahead = np.diff(drive(fine), axis=0)
    turn = np.diff(np.unwrap(np.arctan2(*ahead.T[::-1])), prepend=0)
    steps = zip(fine[1:], np.linalg.norm(ahead, axis=1), -turn, strict=True)
    text = "\n".join(["time,distance,turn", *(f"{t},{d!r},{a!r}" for t, d, a in steps)])
    (tmp_path / "odometry.csv").write_text(text.replace("np.float64(", "").replace(")", ""))
    files = [tmp_path / f"{name}.csv" for name in ("ranges", "anchors", "odometry", "truth")]
    log = read_kit(*files)
    longer = np.where(log.anchor == log.names.index("c"), 1.1, 1.0) * log.ranges
    found = locate_log(replace(log, ranges=longer))
    assert found.choice.motion == "odometry with clockwise turns"
    assert found.choice.own_scales
    assert abs(found.path.scales[log.names.index("c")] - 1.1) < 0.03
    assert found.errors(found.path.positions)["rmse"] < 0.2
    text = path_text(found)
    assert "The turns of the odometry are clockwise, as the ranges tell." in text
    assert "Anchors have scales of their own" in text


@pytest.mark.thorough
def test_pseudo_ranges_have_a_clock(command, tmp_path):
    write_kit(tmp_path)
    # A clock that is 35 m behind at first, and 17 m at last.
    rewritten(
        tmp_path / "ranges.csv",
        lambda row: [
            f"{float(row[0]) - 3500 + float(row[2]) / 50}" if row[0] not in ("", "0") else "",
            *row[1:],
        ],
    )
    words = ("--input", "ranges.csv", "--anchors", "anchors.csv", "--truth", "truth.csv")
    outcome = command("solve", "localization", *words, "--clock", "--out", "out")
    assert outcome.code == 0, outcome.err
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["result"]["median"] < 0.5
    rows = rows_of(tmp_path / "out" / "positions.csv")
    clock = np.array([float(row["clock"]) for row in rows])
    times = np.array([float(row["time"]) for row in rows])
    np.testing.assert_allclose(clock, times / 5 - 35, atol=2)


def test_windows_are_exact_where_ranges_are(tmp_path):
    write_kit(tmp_path)
    log = read_kit(tmp_path / "ranges.csv", tmp_path / "anchors.csv")
    exact = np.linalg.norm(np.array([18.0, 12.0]) - log.anchors[log.anchor], axis=1)
    start = np.full((len(exact), 2), 15.0)
    found = window_positions(log, exact, start)
    np.testing.assert_allclose(found, np.broadcast_to((18.0, 12.0), found.shape), atol=1e-6)


GOOD = {
    "ranges.csv": "time,anchor,range\n0,a,5\n1,b,6\n2,c,7\n3,a,5\n",
    "anchors.csv": "anchor,x,y\na,0,0\nb,10,0\nc,0,10\n",
}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("ranges.csv", "time,range\n0,5\n", "has no column anchor"),
        ("ranges.csv", "time,anchor,range\n0,q,5\n", "has 0 ranges of anchors in anchors.csv"),
        ("ranges.csv", "time,anchor,range\n0,a,x\n", "line 2: range must be a number"),
        ("anchors.csv", "anchor,x,y\na,0,0\na,1,1\n", "has two rows of anchor 'a'"),
        ("anchors.csv", "anchor,x,y\na,0,\nb,1,1\n", "line 2: y is missing"),
        ("anchors.csv", "anchor,x,y\n", "has no row below its header"),
        ("anchors.csv", "anchor,lat,lon\na,127,1\nb,2,3\n", "latitude is 127 degrees"),
        ("ranges.csv", "time,tag,anchor,range\n0,p,a,5\n1,q,b,6\n", "choose one by --tag"),
        ("ranges.csv", "time,anchor,range\n0,a,-60\n1,b,-71\n", "as signal strengths are"),
        (
            "ranges.csv",
            "time,anchor,range\n0,a,5000\n1,b,6000\n2,c,7000\n3,a,5100\n",
            "the ranges of ranges.csv are 5550 m in the median, and its anchors are 10 to",
        ),
    ],
)
def test_malformed_files_get_one_sentence(command, tmp_path, name, content, sentence):
    for each, text in {**GOOD, name: content}.items():
        (tmp_path / each).write_text(text)
    outcome = command("solve", "localization", "--input", "ranges.csv", "--anchors", "anchors.csv")
    assert sentence in outcome.mistake()


def test_an_odometer_belongs_to_a_path(command, tmp_path):
    (tmp_path / "ranges.csv").write_text("x,y,range\n0,0,5\n10,0,6\n0,10,7\n")
    outcome = command("solve", "localization", "--input", "ranges.csv", "--odometry", "o.csv")
    assert "--odometry belongs to a path, which has --anchors" in outcome.mistake()


# The real file


@pytest.fixture(scope="module")
def plaza():
    folder = os.environ.get("FEDJAX_ADMM_DATA")
    if not folder:
        pytest.skip("FEDJAX_ADMM_DATA does not name the folder of the shared data files")
    path = Path(folder) / "plaza1"
    if not (path / "ranges.csv").exists():
        pytest.skip("plaza1 is not in the folder that FEDJAX_ADMM_DATA names")
    return path


@pytest.mark.data
@pytest.mark.thorough
@pytest.mark.parametrize("odometer", [False, True])
def test_a_lawn_mower_is_located_with_the_regions_that_are_told(plaza, odometer):
    others = plaza / "odometry.csv" if odometer else None
    log = read_kit(plaza / "ranges.csv", plaza / "tags.csv", others, plaza / "truth.csv")
    found = locate_log(log)
    errors, windows = found.errors(found.path.positions), found.errors(found.corrected)
    assert errors["median"] < 0.6 * windows["median"]
    assert errors["rmse"] < 0.6 * windows["rmse"]
    assert found.errors(found.windows)["median"] > 2  # as they were measured
    assert abs(found.path.scale - 1.07) < 0.01
    assert not found.biased.any()
    last = np.arange(len(log.times)) >= len(log.times) // 5
    inside = np.asarray(found.region().contains(found.truth))
    assert 0.85 < inside[last & np.isfinite(found.truth).all(1)].mean() < 0.95
    assert len(draw_path(found, "plaza").axes) == 2
