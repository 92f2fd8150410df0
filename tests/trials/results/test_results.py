"""The result contract: what others read, to the letter."""

import csv
import json

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.traffic import Traffic
from fedjax_admm.trials import experiments, results
from fedjax_admm.trials.experiments import _finding
from fedjax_admm.trials.running import Request, run_experiment
from tests.trials.small import CLIENTS, DIM, EXPERIMENT, FAULT_ROUND

HEADER = (
    "experiment,method,parameter,value,round,metric,"
    "trials,mean,standard_error,median,q10,q90,nonfinite"
)
TRIALS, ROUNDS, SHARES = 30, 20, (0.0, 0.4, 1.0)
METHODS = ("steady", "fragile", "exact")


def run(out, **request):
    request = {"batch": 4} | request
    return run_experiment(EXPERIMENT, Request(**request), out, resume=False, progress=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "consensus"
    run(out)
    return out


@pytest.fixture(scope="module")
def arrays(folder):
    with np.load(folder / "trials.npz", allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(scope="module")
def rows(folder):
    with open(folder / "summary.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def config(folder):
    return json.loads((folder / "config.json").read_text())


def test_the_folder_holds_the_files_of_the_contract_and_nothing_else(folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "chunks",
        "config.json",
        "figure.pdf",
        "figure.png",
        "figure.txt",
        "summary.csv",
        "trials.npz",
    ]
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_arrays_have_the_axes_sweep_trial_round(arrays):
    arrays = dict(arrays)
    np.testing.assert_array_equal(arrays.pop("sweep"), SHARES)
    np.testing.assert_array_equal(arrays.pop("round"), np.arange(2, 21, 2))
    flags = {name: arrays.pop(name) for name in list(arrays) if "nonfinite" in name}
    assert set(flags) == {f"first_nonfinite_round/{method}" for method in METHODS}
    assert {value.shape for value in flags.values()} == {(3, TRIALS)}
    metrics = {f"{method}/error" for method in METHODS}
    traffic = {f"{m}/numbers_{way}" for m in ("steady", "fragile") for way in ("up", "down")}
    assert set(arrays) == metrics | traffic
    assert {value.shape for value in arrays.values()} == {(3, TRIALS, 10)}


def test_traffic_is_counted_exactly(arrays):
    rounds = np.broadcast_to(arrays["round"], (3, TRIALS, 10))
    np.testing.assert_array_equal(arrays["steady/numbers_up"], rounds * CLIENTS * (DIM + 1))
    np.testing.assert_array_equal(arrays["steady/numbers_down"], rounds * CLIENTS * DIM)


def test_methods_and_sweep_share_each_trials_problem(arrays):
    assert not (arrays["exact/error"] > 0).any()
    # The points do not depend on the swept share: only who is faulty does.
    np.testing.assert_array_equal(arrays["steady/error"][0], arrays["steady/error"][2])
    np.testing.assert_array_equal(arrays["steady/error"][0], arrays["fragile/error"][0])


def test_the_errors_are_those_of_the_formula(arrays):
    error = arrays["steady/error"][0]
    expected = error[:, :1] * 0.75 ** (arrays["round"] - 2)
    np.testing.assert_allclose(error, expected, rtol=1e-4, atol=1e-6)


def test_a_planted_failure_is_counted_and_not_averaged(arrays, rows):
    flags = arrays["first_nonfinite_round/fragile"]
    broken = flags[1] > 0
    assert 3 <= broken.sum() <= 25
    assert set(flags[1][broken]) == {FAULT_ROUND}
    assert not flags[0].any()
    assert (flags[2] == FAULT_ROUND).all()
    assert not arrays["first_nonfinite_round/steady"].any()
    np.testing.assert_array_equal(
        np.isnan(arrays["fragile/error"][1]), broken[:, None] & (arrays["round"] >= FAULT_ROUND)
    )
    row = chosen(rows, method="fragile", value="0.4", round="20", metric="error")
    assert (row["trials"], row["nonfinite"]) == (str(TRIALS), str(broken.sum()))
    survivors = arrays["fragile/error"][1, ~broken, -1]
    assert float(row["mean"]) == pytest.approx(survivors.mean(), rel=1e-6)
    before = chosen(rows, method="fragile", value="0.4", round="6", metric="error")
    assert before["nonfinite"] == "0"
    # Where no trial is left the numbers are empty cells, not 0 and not "nan".
    none = chosen(rows, method="fragile", value="1", round="20", metric="error")
    assert none["nonfinite"] == str(TRIALS)
    assert {none[name] for name in ("mean", "standard_error", "median", "q10", "q90")} == {""}


def chosen(rows, **wanted):
    found = [row for row in rows if all(row[name] == text for name, text in wanted.items())]
    assert len(found) == 1
    return found[0]


def test_summary_has_the_columns_and_a_row_for_everything(folder, rows, arrays):
    assert (folder / "summary.csv").read_text().splitlines()[0] == HEADER
    metrics = [name for name in arrays if "/" in name and "nonfinite" not in name]
    assert len(rows) == len(metrics) * 3 * 10
    keys = {(r["method"], r["metric"], r["value"], r["round"]) for r in rows}
    assert len(keys) == len(rows)
    assert {(r["experiment"], r["parameter"], r["trials"]) for r in rows} == {
        ("consensus", "share", str(TRIALS))
    }


def test_every_number_of_the_summary_follows_from_the_arrays(rows, arrays):
    sweep = [f"{value:g}" for value in arrays["sweep"]]
    rounds = [str(value) for value in arrays["round"]]
    for row in rows:
        values = arrays[f"{row['method']}/{row['metric']}"].astype(float)
        values = values[sweep.index(row["value"]), :, rounds.index(row["round"])]
        kept = values[np.isfinite(values)]
        assert int(row["nonfinite"]) == TRIALS - len(kept)
        if not len(kept):
            continue
        expected = {
            "mean": kept.mean(),
            "standard_error": kept.std(ddof=1) / np.sqrt(len(kept)),
            "median": np.median(kept),
            "q10": np.quantile(kept, 0.1),
            "q90": np.quantile(kept, 0.9),
        }
        for name, number in expected.items():
            assert float(row[name]) == pytest.approx(number, rel=1e-8, abs=1e-12), (row, name)


def test_the_configuration_tells_everything(config):
    assert config["status"] == "finished"
    assert config["settings"] == {"share": list(SHARES), "clients": CLIENTS, "rate": 0.25}
    assert config["methods"] == list(METHODS)
    assert {name: config[name] for name in ("trials", "rounds", "seed", "width", "x64")} == {
        "trials": TRIALS,
        "rounds": ROUNDS,
        "seed": 2025,
        "width": 4,
        "x64": False,
    }
    assert config["chunk"] % 4 == 0
    assert set(config["versions"]) >= {"fedjax-admm", "python", "jax", "jaxlib", "numpy"}
    assert "not installed" not in config["versions"].values()
    assert config["device"]["platform"] == "cpu"
    assert config["device"]["count"] == 2
    assert set(config["seconds"]) == {"compile", "run", "transfer", "total"}
    assert config["seconds"]["total"] >= config["seconds"]["compile"] > 0
    assert config["traffic"]["steady"] == Traffic(DIM + 1, DIM)._asdict()
    assert config["traffic"]["exact"] is None


def test_another_seed_gives_other_trials(folder, tmp_path):
    other = run(tmp_path / "other", seed=2026)
    error = results.load(folder).arrays["steady/error"]
    assert (other.arrays["steady/error"] != error).mean() > 0.9


def test_results_are_read_back_as_they_were(folder):
    loaded = results.load(folder)
    assert loaded.methods == list(METHODS)
    assert loaded.values("steady", "error").shape == (3, TRIALS, 10)
    assert not loaded.has("exact", "numbers_up")
    with pytest.raises(InputError, match="there is no metric 'numbers_up' of 'exact'"):
        loaded.values("exact", "numbers_up")
    assert set(loaded.nonfinite) == set(METHODS)
    copy = folder.parent / "copy"
    loaded.save(copy)
    for name in ("trials.npz", "summary.csv"):
        assert (copy / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.json", None, "does not exist"),
        ("config.json", b"{", "cannot be read"),
        ("config.json", b"[]", "cannot be read"),
        ("trials.npz", None, "does not exist"),
        ("trials.npz", b"PK nonsense", "is damaged"),
    ],
)
def test_a_broken_result_is_named(folder, tmp_path, file, content, words):
    for name in ("config.json", "trials.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        results.load(tmp_path)
    assert str(tmp_path / file) in str(caught.value)


def test_results_draw_the_figure_of_their_experiment(folder, monkeypatch):
    found = results.load(folder)
    with pytest.raises(InputError, match="consensus"):
        experiments.find_again(found.config).draw(found)  # nothing that is installed
    monkeypatch.setattr(_finding, "built_in", lambda: {EXPERIMENT.name: EXPERIMENT})
    (line,) = experiments.find_again(found.config).draw(found).axes[0].lines
    np.testing.assert_array_equal(line.get_xdata(), found.rounds)
    np.testing.assert_array_equal(line.get_ydata(), found.values("steady", "error")[0].mean(0))


def test_tables_of_results_have_all_numbers(folder, rows):
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    found = results.load(folder)
    frame, whole = found.to_dataframe(), found.to_xarray()
    assert len(frame) == sum(
        np.size(values[..., :1]) * len(found.rounds) for values in found.arrays.values()
    )
    assert whole["error"].dims == ("method", "sweep", "trial", "round")
    np.testing.assert_array_equal(whole["round"], found.rounds)
    for method in METHODS:
        kept = frame[(frame.method == method) & (frame.metric == "error")]
        values = np.broadcast_to(found.values(method, "error"), whole["error"].shape[1:])
        np.testing.assert_array_equal(kept.value, np.ravel(values))
        np.testing.assert_array_equal(whole["error"].loc[method], values)
    assert len(found.to_dataframe(summary=True)) == len(rows)
    # Of a row the value and the swept number have 8 bytes each, all the rest has 8 at most.
    assert frame.memory_usage(index=False, deep=True).sum() < 24 * len(frame) + 2000
    one = results.load(str(folder)).to_dataframe(method=METHODS[0], metric="error")
    assert (set(one.method), set(one.metric)) == ({METHODS[0]}, {"error"})
    chosen = frame[(frame.method == METHODS[0]) & (frame.metric == "error")]
    np.testing.assert_array_equal(one.value, chosen.value)
    with pytest.raises(InputError, match=r"^these results have no 'magic'; they have "):
        found.to_dataframe(metric="magic")
