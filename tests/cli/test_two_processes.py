"""Two real processes on this machine compute what one process does, and stop together."""

import json
import signal
import socket

import pytest

from tests.cli.processes import SMALL, chunks, completed, same_results, wait_until

# As in test_kill_and_resume: about twenty chunks of one trial per device.
RUN = ("--trials", "40", "--rounds", "400000", "--batch", "1", "--set", "share=0,0.4")
NAME = ("run", "consensus", "--out", "run")
GO_ON = "go on with: fedjax-admm run consensus --out run --resume\n"


@pytest.fixture(scope="module")
def whole(environment, tmp_path_factory):
    """The same run of one process on two devices."""
    folder = tmp_path_factory.mktemp("whole")
    completed(environment, folder, SMALL, "run", "consensus", *RUN, "--out", "run", "--devices", 2)
    return folder / "run"


@pytest.fixture
def elsewhere(tmp_path):
    """A working directory for the second process: it shares no files with the first."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.fixture
def pair(start, tmp_path, elsewhere):
    """Start two processes; the first one works in the test's folder."""

    def call(*words, devices=(1, 1), more=((), ())):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words += ("--coordinator", f"127.0.0.1:{port}", "--num-processes", "2", "--process-id")
        return [
            start(
                *(*NAME, *words, i, "--devices", devices[i], *more[i]),
                program=SMALL,
                folder=folder,
            )
            for i, folder in enumerate((tmp_path, elsewhere))
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


def wait_for_a_chunk(processes, out):
    before = chunks(out)
    wait_until(lambda: chunks(out) != before, *processes)
    return chunks(out)


def finished_by(processes, out, whole):
    codes, printed, said = ended(processes)
    assert codes == [0, 0], said
    # The first one alone speaks.
    assert printed[0][0].startswith("40 trials in ")
    assert printed[1] == []
    config = json.loads((out / "config.json").read_text())
    assert (config["device"]["processes"], config["status"]) == (2, "finished")
    return same_results(out, whole)


@pytest.mark.bits
@pytest.mark.thorough
def test_two_processes_are_killed_and_stopped_and_equal_one(pair, whole, tmp_path, elsewhere):
    out = tmp_path / "run"
    processes = pair(*RUN)
    wait_for_a_chunk(processes, out)
    for process in processes:
        process.kill()
    codes, _, _ = ended(processes)
    assert codes == [-signal.SIGKILL] * 2
    kept = chunks(out)

    # Whichever process is asked, all stop after the chunk that has begun.
    processes = pair("--resume")
    wait_for_a_chunk(processes, out)
    processes[1].send_signal(signal.SIGINT)
    codes, printed, said = ended(processes)
    assert codes == [1, 130]
    assert printed == [[], []]
    assert said == [f"Stopped, because another process was; {GO_ON}", f"Interrupted; {GO_ON}"]
    assert kept.items() <= chunks(out).items()
    assert json.loads((out / "config.json").read_text())["status"] == "running"

    assert finished_by(pair("--resume"), out, whole)

    # What only the first one can see ends both.
    before = {path: path.read_bytes() for path in out.iterdir()}
    codes, printed, said = ended(pair(*RUN))
    assert codes == [2, 1]
    assert printed == [[], []]
    sentence = "fedjax-admm: run holds a finished run of consensus; choose another --out.\n"
    assert said == [sentence, ""]
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    assert list(elsewhere.iterdir()) == []


@pytest.mark.slow
def test_two_processes_that_nobody_stops_equal_one(pair, whole, tmp_path, elsewhere):
    assert finished_by(pair(*RUN), tmp_path / "run", whole)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_process_ends_the_other_and_the_run_goes_on(pair, whole, tmp_path, lost):
    out = tmp_path / "run"
    processes = pair(*RUN)
    wait_for_a_chunk(processes, out)
    processes[lost].kill()
    codes, _, _ = ended(processes)  # the second one's loss is noticed within half a minute
    assert codes[lost] == -signal.SIGKILL
    assert codes[1 - lost] != 0
    assert json.loads((out / "config.json").read_text())["status"] == "running"
    kept = chunks(out)
    processes = pair("--resume")
    wait_until(lambda: chunks(out) != kept or (out / "trials.npz").exists(), *processes)
    assert finished_by(processes, out, whole)


@pytest.mark.slow
def test_processes_with_other_numbers_of_devices_are_told(pair, tmp_path):
    codes, printed, said = ended(pair(*RUN, devices=(1, 2)))
    assert codes == [2, 2]
    assert printed == [[], []]
    sentence = (
        "fedjax-admm: every process must have the same number of devices, but they have 1, 2; "
        "give --devices to each of them.\n"
    )
    assert said == [sentence, sentence]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_processes_with_other_commands_are_told(pair, tmp_path):
    codes, printed, said = ended(pair(*RUN, more=((), ("--seed", "7"))))
    assert codes == [2, 2]
    assert printed == [[], []]
    assert said[0] == said[1]
    assert said[0].startswith("fedjax-admm: the processes were given different commands")
    assert not (tmp_path / "run").exists()
