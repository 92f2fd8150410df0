"""Users' files are read only where they are files, fit the memory and stay as they are."""

import gzip
import os

import pytest

from fedjax_admm._checks import InputError
from fedjax_admm._host import _input_files as input_files
from fedjax_admm.graphs import read_edges
from fedjax_admm.ratings import read_ratings
from fedjax_admm.trials.tables import read_csv

READERS = {"edges": read_edges, "ratings": read_ratings, "table": lambda path: read_csv(path, "")}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_has_no_end_is_not_opened(read, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for path, kind in (
        (tmp_path / "fifo", "a pipe"),
        (tmp_path / "link", "a pipe"),
        ("/dev/zero", "a device"),
        (tmp_path, "a folder"),
    ):
        with pytest.raises(InputError, match=f"is {kind}, not a file"):
            read(path)


def test_a_name_that_comes_to_mean_a_pipe_is_not_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "mine.csv"
    path.write_text("a\n1\n")
    before = os.stat(path)
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(input_files.os, "stat", lambda _: before)
    with pytest.raises(InputError, match="is a pipe, not a file"):
        read_csv(path, "")


@pytest.mark.parametrize("change", ["longer", "empty", "touched", "gone"])
def test_a_file_that_changes_while_it_is_read_is_told(change, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a\n1\n")

    def read():
        with input_files.opened(path) as file:
            file.readline()
            if change == "longer":
                path.write_text("a\n1\n2\n")
            elif change == "empty":
                os.truncate(path, 0)
            elif change == "touched":
                os.utime(path, (1, 1))
            else:
                path.unlink()

    if change == "gone":
        read()  # what is open stays
    else:
        with pytest.raises(InputError, match="was changed while it was read; try again when"):
            read()


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "mine.csv"
    path.write_text("head,tail\n" + "a,b\n" * 100)
    monkeypatch.setattr(input_files, "host_bytes", lambda: 100)
    with pytest.raises(InputError, match="would take 410 bytes of memory, but 100 bytes are free"):
        read_edges(path)
    monkeypatch.setattr(input_files, "host_bytes", lambda: None)
    with pytest.raises(InputError, match="joined in line 2 already"):
        read_edges(path)


def test_short_rows_that_become_larger_than_the_memory_are_told_early(tmp_path, monkeypatch):
    path = tmp_path / "mine.csv"
    path.write_text("a\n" + "1\n" * 5000)
    monkeypatch.setattr(input_files, "LOOK_EVERY", 10_000)
    monkeypatch.setattr(input_files, "host_bytes", lambda: 20_000)
    with pytest.raises(InputError, match=r"would take .* KiB of memory, but 19\.5 KiB"):
        read_csv(path, "")


def test_ratings_that_unpack_to_more_than_the_memory_are_told(tmp_path, monkeypatch):
    path = tmp_path / "mine.gz"
    path.write_bytes(gzip.compress(b"1,1,1\n" * 200_000))
    monkeypatch.setattr(input_files, "host_bytes", lambda: 10**6)
    with pytest.raises(InputError, match=r"would take .* MiB of memory, but 976\.6 KiB"):
        read_ratings(path)
