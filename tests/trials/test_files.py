"""Whole files: written or not there, without pickle, under any name."""

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files


def test_a_writer_that_fails_leaves_no_file(tmp_path):
    def fail(file):
        file.write(b"half")
        raise RuntimeError("out of ideas")

    path = tmp_path / "deep" / "file.bin"
    with pytest.raises(RuntimeError):
        files.write_atomically(path, fail)
    assert list(path.parent.iterdir()) == []
    files.write_atomically(path, lambda file: file.write(b"whole"))
    with pytest.raises(RuntimeError):
        files.write_atomically(path, fail)
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("here")
    path = tmp_path / "file" / "deeper" / "x.json"
    with pytest.raises(InputError, match="cannot write") as caught:
        files.write_json(path, {})
    assert str(path) in str(caught.value)


def test_what_is_not_json_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


def test_objects_are_never_pickled(tmp_path):
    with pytest.raises(ValueError, match="pickle"):
        files.write_arrays(tmp_path / "x.npz", {"a": np.array([None])})
    assert not list(tmp_path.iterdir())


NAMES = ("file", "allow_pickle", "args", "method, one/error", "a.npy")


def test_arrays_may_have_any_name(tmp_path):
    path = tmp_path / "x.npz"
    files.write_arrays(path, {name: np.arange(i) for i, name in enumerate(NAMES)})
    found = files.read_arrays(path)
    assert tuple(found) == NAMES
    assert [len(array) for array in found.values()] == list(range(len(NAMES)))


def test_no_option_is_taken_for_an_array(tmp_path, monkeypatch):
    """Before NumPy 2.2, every keyword of `savez` was the name of an array."""
    usual, told = np.savez, []

    def early(file, **arrays):
        told.extend(arrays)
        usual(file, **arrays)

    monkeypatch.setattr(np, "savez", early)
    files.write_arrays(tmp_path / "x.npz", {"a": np.ones(2)})
    assert set(told) <= {"a"}
    assert list(files.read_arrays(tmp_path / "x.npz")) == ["a"]


def test_arrays_are_written_as_numpy_writes_them(tmp_path):
    arrays = {"a/error": np.arange(6.0).reshape(2, 3), "flag": np.array(True)}
    files.write_arrays(tmp_path / "ours.npz", arrays)
    np.savez(tmp_path / "theirs.npz", **arrays)
    assert (tmp_path / "ours.npz").read_bytes() == (tmp_path / "theirs.npz").read_bytes()
