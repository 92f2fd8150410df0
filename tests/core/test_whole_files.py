"""Whole files: written or not there, without pickle, under any name."""

import io
import os
import pickle
import zipfile

import ml_dtypes
import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm._host import _files as files


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


NAMES = ("file", "allow_pickle", "args", "method, one/error", "a", "a.npy", "", "../x", "/x", "x/")
NAMES += ("about.json", "\N{SNOWMAN}", "\n", "x" * 60_000)


def test_arrays_may_have_any_name(tmp_path):
    path = tmp_path / "x.npz"
    files.write_arrays(path, {name: np.arange(i) for i, name in enumerate(NAMES)})
    found = files.read_archive(path).arrays
    assert tuple(found) == NAMES
    assert [len(array) for array in found.values()] == list(range(len(NAMES)))


def test_arrays_are_written_as_numpy_writes_them(tmp_path):
    arrays = {"a/error": np.arange(6.0).reshape(2, 3), "flag": np.array(True)}
    files.write_arrays(tmp_path / "ours.npz", arrays)
    np.savez(tmp_path / "theirs.npz", **arrays)
    assert (tmp_path / "ours.npz").read_bytes() == (tmp_path / "theirs.npz").read_bytes()


TYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint2")


@pytest.mark.parametrize("name", TYPES)
def test_types_of_other_packages_are_kept(tmp_path, name):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(getattr(ml_dtypes, name))
    shapes = {"a": array, "turned": array.T, "one": array[0, 1], "none": array[:0], "f": array[::2]}
    files.write_arrays(tmp_path / "x.npz", {**shapes, "usual": np.arange(3)})
    found = files.read_archive(tmp_path / "x.npz").arrays
    for key, expected in shapes.items():
        assert (found[key].dtype, found[key].shape) == (array.dtype, expected.shape)
        np.testing.assert_array_equal(found[key].astype(float), expected.astype(float))
    # Others read the same bits, as whole numbers.
    with np.load(tmp_path / "x.npz") as theirs:
        np.testing.assert_array_equal(theirs["a"].view(array.dtype), array)


@pytest.mark.parametrize("name", ["float16", "complex64", "bool", "<U3", ">i4", "M8[s]"])
def test_types_of_numpy_are_kept(tmp_path, name):
    array = np.zeros((2, 3), name)
    files.write_arrays(tmp_path / "x.npz", {"a": array})
    found = files.read_archive(tmp_path / "x.npz").arrays["a"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    found[0] = found[1]  # it can be written to


def test_what_goes_with_arrays_is_kept(tmp_path):
    path, about = tmp_path / "x.npz", {"first": 3, "made by": {"width": [1, 2]}}
    files.write_arrays(path, {"a": np.ones(2)}, about)
    assert files.read_archive(path).about == about
    arrays, told = files.read_archive(path, about_only=True)
    assert (arrays, told) == ({}, about)


# What is read may be anything


class Loud:
    def __reduce__(self):
        return os.mkdir, ("loud",)


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def claiming(shape):
    told = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(told).to_bytes(2, "little") + told.encode()


ARCHIVES = {
    "nothing": b"",
    "one array": npy(np.ones(2)),
    "pickle": pickle.dumps(Loud()),
    "objects": {"a.npy": npy(np.array([Loud()]))},
    "a pickle inside": {"a.npy": pickle.dumps(Loud())},
    "a program": {"run.py": b"import os"},
    "too large a shape": {"a.npy": claiming("(1000000000000,)")},
    "a negative shape": {"a.npy": claiming("(-1,)")},
    "deep": {"about.json": b"[" * 100_000},
    "types of nothing": {"about.json": b'{"dtypes": {"a": "int4"}}', "b.npy": npy(np.ones(2))},
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_bytes_of_any_kind_end_in_a_sentence(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, path = ARCHIVES[name], tmp_path / "x.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in content.items():
                archive.writestr(member, data)
    with pytest.raises(InputError, match=r"x\.npz is damaged \(") as caught:
        files.read_archive(path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "loud").exists()


TEXTS = {
    "nothing": b"",
    "a list": b"[]",
    "half": b'{"a": 1',
    "deep": b'{"a":' * 100_000,
    "no text": b"\xff\xfe{}",
    "endless digits": b'{"a": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("name", TEXTS)
def test_json_of_any_kind_ends_in_a_sentence(tmp_path, name):
    path = tmp_path / "x.json"
    path.write_bytes(TEXTS[name])
    with pytest.raises(InputError, match=r"x\.json cannot be read \(") as caught:
        files.read_json(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
