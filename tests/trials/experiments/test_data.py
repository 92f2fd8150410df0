"""Where real data are looked for."""

import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials.experiments._data import data_file

NAMES = ("set/u.data", "u.data")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of data that the variable names."""
    monkeypatch.setenv("FEDJAX_ADMM_DATA", str(tmp_path))
    return tmp_path


def found(data, names=NAMES):
    return data_file(data, names, "a file of ratings")


def test_what_is_named_goes_before_the_variable(folder):
    (folder / "u.data").touch()
    assert found("") == folder / "u.data"
    (folder / "set").mkdir()
    (folder / "set/u.data").touch()
    assert found("") == folder / "set/u.data"
    assert found(str(folder / "set")) == folder / "set/u.data"
    assert str(found("nowhere.csv")) == "nowhere.csv"
    assert found("synthetic") is None


def test_without_data_they_are_synthetic(folder, monkeypatch):
    assert found("") is None
    assert found("", ()) is None
    for value in ("", str(folder / "nowhere")):
        monkeypatch.setenv("FEDJAX_ADMM_DATA", value)
        assert found("") is None


@pytest.mark.parametrize(("names", "missing"), [(NAMES, "set/u.data"), ((), "such file")])
def test_a_named_folder_without_the_file_is_told(tmp_path, names, missing):
    with pytest.raises(InputError) as caught:
        found(str(tmp_path), names)
    assert str(caught.value) == (
        f"data must be a file of ratings or a folder that holds it, but {tmp_path} holds no "
        f"{missing}; name the file itself."
    )
