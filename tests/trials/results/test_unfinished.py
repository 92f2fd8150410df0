"""The trials that a run has so far: read as they will be in the end, and nothing is changed."""

from dataclasses import replace

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import figures, results
from fedjax_admm.trials.experiments._methods import recorded_rounds, recording_interval
from fedjax_admm.trials.results._reading import rounds_of_records
from tests.trials.results.made import begun_like, edit, finished_run
from tests.trials.small import EXPERIMENT


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def begun(whole, tmp_path):
    """A folder as a killed run leaves it: its first two chunks, and no results."""
    return begun_like(whole, tmp_path / "begun", chunks=2)


def everything(folder):
    """Return what tells whether anything in a folder was written, made or removed."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in paths}


def test_the_trials_so_far_are_the_first_of_the_finished_run(whole, begun):
    (begun / "chunks/.000016-000024.npz.1.tmp").write_bytes(b"half")  # being written, or left
    before = everything(begun)
    found, finished = results.load(begun, unfinished=True), results.load(whole)
    assert everything(begun) == before
    assert (found.extent, found.trials, found.finished) == ("16 of 30 trials", 16, False)
    assert (finished.extent, finished.trials, finished.finished) == ("30 trials", 30, True)
    assert set(found.arrays) == set(finished.arrays)
    assert "steady/numbers_up" in found.arrays
    for name, values in finished.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], values[:, :16])
    for method, flags in finished.nonfinite.items():
        np.testing.assert_array_equal(found.nonfinite[method], flags[:, :16])
    np.testing.assert_array_equal(found.rounds, finished.rounds)
    np.testing.assert_array_equal(found.sweep, finished.sweep)
    title = figures.usual_figure(found).get_suptitle()
    assert ": 16 of 30 trials, 20 rounds, seed 2025" in title


def test_trials_beyond_a_gap_are_not_counted(whole, tmp_path):
    begun = begun_like(whole, tmp_path / "begun", chunks=3)
    first, second, _ = sorted(begun.glob("chunks/0*.npz"))
    second.unlink()
    assert results.load(begun, unfinished=True).trials == 8
    first.unlink()
    with pytest.raises(InputError, match="holds none of the 30 trials of its run yet; wait"):
        results.load(begun, unfinished=True)


def test_chunks_of_another_run_and_damaged_ones_are_refused(begun):
    path = begun / "chunks/000008-000016.npz"
    sound = path.read_bytes()
    path.write_bytes(sound[:-200])
    with pytest.raises(InputError, match=r"000008-000016\.npz is damaged"):
        results.load(begun, unfinished=True)
    path.write_bytes(sound)
    edit(begun, program="0" * 64)
    with pytest.raises(
        InputError, match="holds trials of another run than the configuration beside it"
    ):
        results.load(begun, unfinished=True)


def test_rounds_follow_from_the_number_of_records():
    for rounds in (*range(1, 90), 997, 1000, 1009):
        for records in range(1, 40):
            expected = recorded_rounds(rounds, recording_interval(rounds, records))
            np.testing.assert_array_equal(rounds_of_records(rounds, len(expected)), expected)


def test_a_figure_of_more_than_metrics_is_the_usual_one_until_the_end(whole, begun):
    def fails(results):
        return results.detail("map", 2)

    mapped = replace(EXPERIMENT, details=lambda settings, rounds, key: {}, figure=fails)
    figure = mapped.draw(results.load(begun, unfinished=True))
    assert "16 of 30 trials" in figure.get_suptitle()
    with pytest.raises(InputError, match="the figure needs 'map'"):
        mapped.draw(results.load(whole))


def test_runs_are_paired_by_the_trials_that_both_have(whole, begun):
    found = results.compare([whole, begun], metric="error")
    assert [row.difference.trials for row in found.rows if "steady" in row.method] == [16] * 3
    assert all(row.difference.mean == 0 for row in found.rows if row.difference.trials)
    told = "(16 of 30 trials). Of two runs as many of the first trials are compared as both have."
    assert any(note.endswith(told) for note in found.notes)
    (note,) = results.compare([begun]).notes
    assert note == f"Not finished: {begun} (16 of 30 trials)."
    assert results.compare([whole]).notes == ()
