"""Folders of results: one writer at a time, and nothing of somebody else's is lost."""

import json
import multiprocessing
import os
import socket
import subprocess
import threading

import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files, folders


def hold(folder, together, told, end):
    """Take the lock of a folder with others, and keep it until the end: the target of a process."""
    together.wait()
    try:
        with folders.locked(folder):
            told.put("held")
            end.wait(30)
    except InputError as error:
        told.put(str(error))


@pytest.fixture
def holders(tmp_path):
    """Start processes that take the lock of a folder at the same moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedjax_admm.trials.folders", __name__])
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


def record(**changes):
    """Return what the lock of this very process says, with changes."""
    own = {
        "process": os.getpid(),
        "started": folders.started(os.getpid()),
        "host": socket.gethostname(),
        "boot": folders.boot(),
        "since": "2026-11-22 14:03:12",
    }
    return json.dumps(own | changes)


def gone():
    """Return the number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def snapshot(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


# The lock


def test_a_lock_is_there_while_it_is_held(tmp_path):
    folder = tmp_path / "deeper" / "out"
    with folders.locked(folder):
        assert [path.name for path in folder.iterdir()] == [folders.LOCK]
        assert json.loads((folder / folders.LOCK).read_text())["process"] == os.getpid()
        with (
            pytest.raises(InputError, match=rf"in use by process {os.getpid()} of this machine"),
            folders.locked(folder),
        ):
            pass
        assert (folder / folders.LOCK).exists()
    assert not list(tmp_path.iterdir())


def test_what_was_written_stays_and_so_does_an_empty_folder_that_was_there(tmp_path):
    with folders.locked(tmp_path / "out"):
        (tmp_path / "out" / "file").touch()
    (tmp_path / "empty").mkdir()
    with folders.locked(tmp_path / "empty"):
        pass
    assert set(snapshot(tmp_path)) == {"out", "out/file", "empty"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, InputError])
def test_a_lock_ends_however_its_work_ends(tmp_path, error):
    with pytest.raises(error), folders.locked(tmp_path / "out"):
        raise error("told")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "changes",
    [
        {"process": "gone"},
        {"started": "12"},  # this number was another process's
        {"boot": "of an earlier start of the machine"},
    ],
)
def test_a_lock_that_was_left_is_taken_over(tmp_path, changes):
    if "process" in changes:
        changes = {"process": gone()}
    (tmp_path / folders.LOCK).write_text(record(**changes))
    with folders.locked(tmp_path):
        assert json.loads((tmp_path / folders.LOCK).read_text()) | {"since": ""} == json.loads(
            record(since="")
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (record(), r"in use by process \d+ of this machine since 2026-11-22 14:03:12; wait"),
        (
            record(host="node7", boot="another"),
            r"of the host node7 since 2026-11-22 14:03:12; .* delete .*\.lock if that process is",
        ),
        ("mine", r"\.lock is in the place of a lock and is none; remove it"),
        ("{}", r"\.lock is in the place of a lock and is none; remove it"),
        (record(process=-1), r"\.lock is in the place of a lock and is none; remove it"),
        ("[" * 3000, r"\.lock is in the place of a lock and is none; remove it"),
    ],
)
def test_a_lock_that_may_be_held_is_respected(tmp_path, text, sentence):
    (tmp_path / folders.LOCK).write_text(text)
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=sentence), folders.locked(tmp_path):
        pass
    assert snapshot(tmp_path) == before


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / folders.LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is none"), folders.locked(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [folders.LOCK]


@pytest.mark.parametrize("kind", ["no flock", "no links"])
def test_file_systems_that_can_do_less(tmp_path, monkeypatch, kind):
    from fedjax_admm.trials.folders import _lock

    if kind == "no flock":
        monkeypatch.setattr(_lock, "fcntl", None)
    else:

        def link(*paths):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(_lock.os, "link", link)
    for left in (None, record(process=gone())):
        if left is not None:
            (tmp_path / folders.LOCK).write_text(left)
        with folders.locked(tmp_path):
            with pytest.raises(InputError, match="in use by process"), folders.locked(tmp_path):
                pass
            assert [path.name for path in tmp_path.iterdir()] == [folders.LOCK]
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("changes", [{"boot": "another"}, {"host": "node7"}])
def test_without_flock_a_lock_of_another_machine_of_the_same_name_is_respected(
    tmp_path, monkeypatch, changes
):
    from fedjax_admm.trials.folders import _lock

    monkeypatch.setattr(_lock, "fcntl", None)
    (tmp_path / folders.LOCK).write_text(record(process=gone(), **changes))
    before = snapshot(tmp_path)
    name = changes.get("host", socket.gethostname())
    told = rf"of the host {name} since .* delete .*\.lock if that process is surely gone"
    with pytest.raises(InputError, match=told), folders.locked(tmp_path):
        pass
    assert snapshot(tmp_path) == before


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
            with folders.locked(out, owner_only=True), folders.staged(out) as stage:
                assert [mode(out), mode(stage)] == [0o700, 0o700]
                files.write_atomically(stage / "file", write, owner_only=True)
                assert mode(stage / "file") == 0o600
                files.write_text(out / "public", "v")
                assert mode(out / "public") == 0o666
        assert mode(tmp_path / "deep") == 0o777
    finally:
        os.umask(before)


@pytest.mark.parametrize("kind", ["new", "left", "left, no flock"])
def test_of_many_threads_one_takes_a_lock(tmp_path, monkeypatch, kind):
    if kind.endswith("flock"):
        from fedjax_admm.trials.folders import _lock

        monkeypatch.setattr(_lock, "fcntl", None)
    for _ in range(5):
        if kind != "new":
            (tmp_path / folders.LOCK).write_text(record(started="12"))
        told, ready, end = [], threading.Barrier(6), threading.Event()

        def take(told=told, ready=ready, end=end):
            ready.wait()
            try:
                with folders.locked(tmp_path):
                    told.append("held")
                    end.wait(10)
            except InputError:
                told.append("refused")
            if told.count("refused") == 5:
                end.set()

        threads = [threading.Thread(target=take) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == ["held"] + ["refused"] * 5
        assert not list(tmp_path.iterdir())


@pytest.mark.thorough
@pytest.mark.parametrize("left", [False, True])
def test_of_many_processes_one_takes_a_lock(holders, tmp_path, left):
    for _ in range(8):
        if left:
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / folders.LOCK).write_text(record(process=gone()))
        processes, told, end = holders(6)
        assert sorted("is in use by process" in text for text in told) == [False] + [True] * 5
        assert "held" in told
        end.set()
        for process in processes:
            process.join(30)
        # Who made the folder need not be who took its lock.
        assert set(snapshot(tmp_path)) <= {"out"}


@pytest.mark.thorough
def test_a_killed_process_holds_no_lock(holders, tmp_path):
    (process,), told, _ = holders(1)
    assert told == ["held"]
    with (
        pytest.raises(InputError, match=f"in use by process {process.pid} of this machine"),
        folders.locked(tmp_path / "out"),
    ):
        pass
    process.kill()
    process.join()
    assert (tmp_path / "out" / folders.LOCK).exists()
    with folders.locked(tmp_path / "out"):
        pass
    assert not (tmp_path / "out" / folders.LOCK).exists()


def test_of_two_starts_each_gets_a_new_folder_of_its_own(tmp_path):
    made = [folders.new_folder(tmp_path / "results", "name") for _ in range(3)]
    assert [paths[-1].name for paths in made] == ["name", "name-2", "name-3"]
    assert [len(paths) for paths in made] == [2, 1, 1]
    for paths in reversed(made):
        folders.remove_empty(paths)
    assert not list(tmp_path.iterdir())


# Whose files


NAMES, KIND = ("a.csv", "b.csv", "config.json"), {"family": "test"}


def written(folder, texts, **options):
    """Write a result with files of the given texts."""
    with folders.locked(folder):
        if not options.get("overwrite"):
            folders.check_free(folder, NAMES, KIND)
        with folders.staged(folder) as stage:
            for name, text in texts.items():
                files.write_text(stage / name, text)
            folders.publish(stage, folder, {**KIND, "texts": len(texts)}, KIND, **options)


def test_an_unchanged_result_of_the_same_kind_is_replaced(tmp_path):
    written(tmp_path / "out", {"a.csv": "one", "b.csv": "two"})
    (tmp_path / "out" / "notes").write_text("mine")
    written(tmp_path / "out", {"a.csv": "three"}, gone=["b.csv"])
    held = snapshot(tmp_path / "out")
    config = json.loads(held.pop("config.json"))
    assert held == {"a.csv": b"three", "notes": b"mine"}
    assert config["texts"] == 1
    assert set(config["files"]) == {"a.csv", "config.json"}
    assert config["files"]["a.csv"] == folders.digest(tmp_path / "out" / "a.csv")


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "edited"), ("b.csv", "put there"), ("config.json", '{"family": "test"}')],
)
def test_what_somebody_changed_is_not_replaced_unless_it_is_asked_for(tmp_path, name, text):
    written(tmp_path, {"a.csv": "one"})
    (tmp_path / name).write_text(text)
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=name):
        written(tmp_path, {"a.csv": "three", "b.csv": "four"})
    assert snapshot(tmp_path) == before
    written(tmp_path, {"a.csv": "three", "b.csv": "four"}, overwrite=True)
    assert (tmp_path / "b.csv").read_text() == "four"
    written(tmp_path, {"a.csv": "five"})  # it is ours again


def test_an_edited_setting_is_a_change(tmp_path):
    written(tmp_path, {"a.csv": "one"})
    config = json.loads((tmp_path / "config.json").read_text())
    files.write_json(tmp_path / "config.json", config | {"texts": 7})
    with pytest.raises(InputError, match=r"config\.json is not what was written there"):
        written(tmp_path, {"a.csv": "three"})


def test_what_is_not_written_this_time_goes_only_if_it_is_ours(tmp_path):
    written(tmp_path, {"a.csv": "one"})
    (tmp_path / "b.csv").write_text("mine")
    written(tmp_path, {"a.csv": "three"}, gone=["b.csv"], overwrite=True)
    assert (tmp_path / "b.csv").read_text() == "mine"


@pytest.mark.parametrize("moment", [1, 3, 4])
def test_a_result_that_was_killed_while_it_was_written_is_ours(tmp_path, monkeypatch, moment):
    written(tmp_path, {"a.csv": "one", "b.csv": "two"})
    replace, calls = os.replace, []

    def killed(source, target):
        if "files." in str(source):
            calls.append(target)
            if len(calls) == moment:
                raise KeyboardInterrupt
        return replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    for turn in range(2):  # two files are written, and then renamed
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            written(tmp_path, {"a.csv": f"three {turn}", "b.csv": f"four {turn}"})
    monkeypatch.undo()
    written(tmp_path, {"a.csv": "three", "b.csv": "four"})
    assert (tmp_path / "b.csv").read_text() == "four"


def test_files_are_written_again_and_recorded(tmp_path):
    written(tmp_path, {"a.csv": "one", "b.csv": "two"})
    folders.rewrite(tmp_path, lambda stage: files.write_text(stage / "b.csv", "new"))
    written(tmp_path, {"a.csv": "one"})  # all of it is ours still
    written(tmp_path, {"a.csv": "one", "b.csv": "two"}, overwrite=True)
    (tmp_path / "b.csv").write_text("mine")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"b\.csv is not what was written there"):
        folders.rewrite(tmp_path, lambda stage: files.write_text(stage / "b.csv", "new"))
    assert snapshot(tmp_path) == before


def test_links_and_inputs_are_never_written_over(tmp_path):
    (tmp_path / "input").write_text("read")
    os.link(tmp_path / "input", tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"a\.csv would be written over, but it is read"):
        folders.check_places(tmp_path, NAMES, inputs=[tmp_path / "input"])
    (tmp_path / "chunks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="chunks is a link"):
        folders.check_places(tmp_path, NAMES, subfolders=["chunks"])


def test_only_what_dead_processes_of_ours_left_is_removed(tmp_path):
    dead, alive = gone(), os.getpid()
    ours = [f".config.json.{dead}.tmp", f".000007.npz.{dead}.tmp"]
    others = [
        *(f".notes.{dead}.tmp", ".x.tmp", ".config.json.tmp", f".config.json.{alive}.tmp"),
        *(f"config.json.{dead}.tmp", f".7.npz.{dead}.tmp", f".config.json.{dead}.tmp.bak"),
    ]
    for name in (*ours, *others):
        (tmp_path / name).write_text("text")
    folders.remove_unfinished(tmp_path, r"config\.json|\d{6}\.npz")
    assert {path.name for path in tmp_path.iterdir()} == set(others)
