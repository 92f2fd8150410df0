"""Folders of results: one writer at a time, and nothing of somebody else's is lost."""

import json
import multiprocessing
import os

import pytest

from fedjax_admm._checks import InputError
from fedjax_admm._host import _files as files, _store as store


def hold(folder, together, told, end):
    """Take the lock of a folder with others, and keep it until the end: the target of a process."""
    together.wait()
    try:
        with store.locked(folder):
            told.put("held")
            end.wait(30)
    except InputError as error:
        told.put(str(error))


@pytest.fixture
def holders(tmp_path):
    """Start processes that take the lock of a folder at the same moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedjax_admm._host._store", __name__])
    started = []

    def call(number):
        together, told, end = context.Barrier(number), context.Queue(), context.Event()
        for _ in range(number):
            words = (tmp_path / "out", together, told, end)
            started.append(context.Process(target=hold, args=words))
            started[-1].start()
        return started[-number:], [told.get(timeout=60) for _ in range(number)], end

    yield call
    for process in started:
        process.kill()
        process.join()


def snapshot(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


# The lock


def test_a_lock_is_there_while_it_is_held(tmp_path):
    folder = tmp_path / "deeper" / "out"
    with store.locked(folder):
        assert [path.name for path in folder.iterdir()] == [store.LOCK]
        with (
            pytest.raises(InputError, match=rf"out is in use by process {os.getpid()} of .*; wait"),
            store.locked(folder),
        ):
            pass
        assert (folder / store.LOCK).exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError])
def test_a_lock_ends_however_its_work_ends(tmp_path, error):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        with pytest.raises(error), store.locked(tmp_path / name):
            raise error("told")
    assert set(snapshot(tmp_path)) == {"empty"}


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_folder_and_a_file_for_the_owner_alone_are_so_from_the_first_byte_on(tmp_path):
    def mode(path):
        return path.stat().st_mode & 0o777

    def write(file):
        assert [mode(path) for path in stage.iterdir()] == [0o600]
        file.write(b"w")

    before = os.umask(0)
    try:
        (tmp_path / "old").mkdir()
        for name in ("old", "deep/new"):
            out = tmp_path / name
            with store.locked(out, owner_only=True), store.staged(out) as stage:
                assert [mode(out), mode(stage)] == [0o700, 0o700]
                files.write_atomically(stage / "file", write, owner_only=True)
                assert mode(stage / "file") == 0o600
                files.write_text(out / "public", "v")
                assert mode(out / "public") == 0o666
        assert mode(tmp_path / "deep") == 0o777
    finally:
        os.umask(before)


@pytest.mark.thorough
def test_of_many_processes_one_takes_a_lock_and_a_killed_one_holds_none(holders, tmp_path):
    for _ in range(4):
        processes, told, _ = holders(6)
        assert sorted("is in use by" in text for text in told) == [False] + [True] * 5
        assert "held" in told
        for process in processes:
            process.kill()
            process.join()
        # The file that it leaves bars nobody.
        assert set(snapshot(tmp_path)) == {"out", f"out/{store.LOCK}"}


def test_of_two_starts_each_gets_a_new_folder_of_its_own(tmp_path):
    with (
        store.locked(tmp_path / "results/name", new=True) as first,
        store.locked(tmp_path / "results/name", new=True) as second,
    ):
        assert [first.name, second.name] == ["name", "name-2"]
        (second / "kept").touch()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["name-2"]


# Whose files


NAMES = ("a.csv", "b.csv", "config.json")


def written(folder, texts, **options):
    """Write a result with files of the given texts."""
    with store.locked(folder), store.staged(folder) as stage:
        for name, text in texts.items():
            files.write_text(stage / name, text)
        store.publish(stage, folder, {"texts": len(texts)}, **options)


def test_files_of_a_result_are_listed_and_replaced(tmp_path):
    written(tmp_path, {"a.csv": "one", "b.csv": "two"})
    (tmp_path / "notes").write_text("mine")
    written(tmp_path, {"a.csv": "three"}, stale=["b.csv", "notes"])
    contents = snapshot(tmp_path)
    config = json.loads(contents.pop("config.json"))
    assert contents == {"a.csv": b"three", "notes": b"mine"}
    assert config == {"texts": 1, "files": ["a.csv", "config.json"]}


def test_a_file_of_somebody_else_is_not_replaced_unless_it_is_asked_for(tmp_path):
    written(tmp_path, {"a.csv": "one"})
    (tmp_path / "b.csv").write_text("mine")
    before = snapshot(tmp_path)

    def rewrite(**options):
        with store.locked(tmp_path), store.staged(tmp_path) as stage:
            files.write_text(stage / "b.csv", "ours")
            store.publish(stage, tmp_path, **options)

    for write in (rewrite, lambda: written(tmp_path, {"b.csv": "ours"})):
        with pytest.raises(InputError, match=r"b\.csv is not of this result: .* choose another"):
            write()
        assert snapshot(tmp_path) == before
    rewrite(overwrite=True)
    rewrite()  # it is ours now
    assert (tmp_path / "b.csv").read_text() == "ours"
    written(tmp_path, {"a.csv": "two", "b.csv": "ours"})


@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_result_that_was_killed_while_it_was_written_is_ours(tmp_path, monkeypatch, moment):
    written(tmp_path, {"a.csv": "one"})
    replace, calls = os.replace, []

    def killed(source, target):
        calls.append(target)
        if len(calls) == moment + 2:  # two files are staged, the configuration, and both renamed
            raise KeyboardInterrupt
        return replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, {"a.csv": "three", "b.csv": "four"})
    monkeypatch.undo()
    written(tmp_path, {"a.csv": "three", "b.csv": "four"})
    assert (tmp_path / "b.csv").read_text() == "four"


def test_inputs_are_never_written_over(tmp_path):
    (tmp_path / "input").write_text("read")
    os.link(tmp_path / "input", tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"a\.csv would be written over, but it is read"):
        store.check_places(tmp_path, NAMES, inputs=[tmp_path / "input"])


def test_only_what_killed_processes_of_ours_left_is_removed(tmp_path):
    ours = [".config.json.7.fedjax-admm.tmp", ".files.fedjax-admm.tmp/a.csv"]
    others = [".x.tmp", ".config.json.7.tmp", "a.fedjax-admm.tmp", ".a.fedjax-admm.tmp.bak"]
    for name in (*ours, *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    with store.locked(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == set(others)
