"""Two real processes on this machine compute what one process does, and stop together."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from fedjax_admm.trials.experiments import _finding
from tests.cli.outcomes import called, stand_aside
from tests.cli.processes import SMALL, chunks, same_results, signalling, wait_until
from tests.trials.small import EXPERIMENT

# As in test_kill_and_resume: five chunks of two trials per device.
RUN = ("--trials", "20", "--batch", "2", "--set", "share=0,0.4")
NAME = ("run", "consensus", "--out", "run")
GO_ON = "go on with: fedjax-admm run consensus --out run --resume\n"
ELSEWHERE = "what is finished lies with process 0, which says how to go on.\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run of one process on two devices."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        stand_aside(patch)
        patch.setattr(_finding, "built_in", lambda: {"consensus": EXPERIMENT})
        outcome = called(folder, *NAME, *RUN, "--devices", 2)
    assert outcome.code == 0, outcome.err
    return folder / "run"


@pytest.fixture
def elsewhere(tmp_path):
    """A working directory for the second process: it shares no files with the first."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.fixture
def pair(start, tmp_path, elsewhere):
    """Start two processes, or one of them; the first one works in the test's folder."""

    def call(*words, devices=(1, 1), more=((), ()), started=(0, 1), first=SMALL, second=SMALL):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words += ("--coordinator", f"127.0.0.1:{port}", "--num-processes", "2", "--process-id")
        return [
            start(
                *(*NAME, *words, i, "--devices", devices[i], *more[i]),
                program=(first, second)[i],
                folder=folder,
            )
            for i, folder in enumerate((tmp_path, elsewhere))
            if i in started
        ]

    return call


def ended(processes):
    """Wait for both; return their codes, what they printed, and what they said."""
    told = [process.communicate(timeout=100) for process in processes]
    # The library that joins CPUs says on standard output that it has done so.
    printed = [
        [line for line in out.splitlines() if not line.startswith("[Gloo]")] for out, _ in told
    ]
    return [process.returncode for process in processes], printed, [err for _, err in told]


def listening(process):
    """Return the addresses at which a process listens, from the kernel's own table."""
    own = set()
    for path in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            own.add(os.readlink(path))
        except FileNotFoundError:  # closed since
            continue
    found = []
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/{process.pid}/net/{name}").read_text().splitlines()[1:]:
            place, state, inode = (line.split()[i] for i in (1, 3, 9))
            if state == "0A" and f"socket:[{inode}]" in own:
                words = bytes.fromhex(place.partition(":")[0])
                parts = (words[i : i + 4][::-1] for i in range(0, len(words), 4))
                found.append(socket.inet_ntop(family, b"".join(parts)))
    return found


@pytest.fixture
def held(pair, tmp_path):
    """Start two processes, the first of which holds still when it begins to write a chunk."""

    def call(chunk, *words):
        processes = pair(*words, first=signalling(chunk, signal.SIGSTOP))
        wait_until(lambda: [*(tmp_path / "run").rglob(f".{chunk}.*")], *processes)
        return processes

    return call


def finished_by(processes, out, whole):
    codes, printed, said = ended(processes)
    assert codes == [0, 0], said
    # The first one alone speaks.
    assert printed[0][0].startswith("20 trials in ")
    assert printed[1] == []
    config = json.loads((out / "config.json").read_text())
    assert (config["device"]["processes"], config["status"]) == (2, "finished")
    return same_results(out, whole)


@pytest.mark.bits
@pytest.mark.thorough
def test_two_processes_are_killed_and_stopped_and_equal_one(pair, held, whole, tmp_path, elsewhere):
    out = tmp_path / "run"
    # Process 0 is lost: the other ends too, by a sentence of ours or JAX's own message.
    codes, _, said = ended(pair(*RUN, first=signalling("000004-000008.npz", signal.SIGKILL)))
    assert codes[0] == -signal.SIGKILL
    assert codes[1] in (1, -signal.SIGABRT)
    assert "another process of this run was lost" in said[1] or "coordination service" in said[1]
    kept = chunks(out)
    assert len(kept) == 1

    # Whichever process is asked, all stop after the chunk that has begun.
    processes = held("000008-000012.npz", "--resume")
    if sys.platform == "linux":  # the coordinator and Gloo, at the address given alone
        addresses = [listening(process) for process in processes]
        assert all(addresses), addresses
        assert {each for some in addresses for each in some} <= {"127.0.0.1", "::ffff:127.0.0.1"}
    processes[1].send_signal(signal.SIGINT)
    processes[0].send_signal(signal.SIGCONT)
    codes, printed, said = ended(processes)
    assert codes == [1, 130]
    assert printed == [[], []]
    assert said == [f"Stopped, because another process was; {GO_ON}", f"Interrupted; {ELSEWHERE}"]
    assert kept.items() <= chunks(out).items()
    assert json.loads((out / "config.json").read_text())["status"] == "running"

    assert finished_by(pair("--resume"), out, whole)

    # What only the first one can see ends both.
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    codes, printed, said = ended(pair(*RUN))
    assert codes == [2, 1]
    assert printed == [[], []]
    assert said[0].startswith("fedjax-admm: run holds a finished run of consensus; add trials with")
    assert said[1] == ""
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert list(elsewhere.iterdir()) == []


@pytest.mark.thorough
def test_a_lost_process_ends_the_first_one_with_a_sentence(held, tmp_path):
    processes = held("000004-000008.npz", *RUN)
    processes[1].kill()
    processes[1].wait()
    processes[0].send_signal(signal.SIGCONT)
    codes, _, said = ended(processes)
    assert codes == [1, -signal.SIGKILL], said
    assert "fedjax-admm: another process of this run was lost (" in said[0]
    assert said[0].endswith(f"\n{GO_ON.capitalize()}")


@pytest.mark.thorough
@pytest.mark.parametrize("alone", [0, 1])
def test_a_process_alone_ends_with_a_sentence(pair, alone):
    codes, _, said = ended(pair("--join-timeout", 1, started=(alone,)))
    assert codes == [2]
    assert said[0].startswith("fedjax-admm: the other processes have not joined at 127.0.0.1:")


@pytest.mark.thorough
def test_processes_with_other_commands_are_told(pair, tmp_path):
    codes, printed, said = ended(pair(*RUN, more=((), ("--seed", "7"))))
    assert codes == [2, 2]
    assert printed == [[], []]
    assert said[0] == said[1]
    assert said[0].startswith("fedjax-admm: the processes were given different commands")
    assert not (tmp_path / "run").exists()
