"""How a process finds the others, and what they tell each other where there are none."""

import math

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from fedjax_admm._checks import InputError
from fedjax_admm.trials.engine import default_mesh, hosts

ADDRESS = "host-1:1234"
JOINED = {"coordinator_address": ADDRESS, "num_processes": 4, "process_id": 3}


def jax_variables(address=ADDRESS, processes=None, process=None):
    named = {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": processes,
        "JAX_PROCESS_ID": process,
    }
    return {name: value for name, value in named.items() if value is not None}


@pytest.mark.parametrize(
    ("environment", "arguments", "told"),
    [
        ({}, (None, None, None), None),
        ({}, (ADDRESS, 4, 3), JOINED),
        ({}, ("auto", None, None), {}),
        (jax_variables(processes="4", process="3"), (None, None, None), JOINED),
        (jax_variables(), (None, None, None), {"coordinator_address": ADDRESS}),
        # What is given goes before what the launcher has set.
        (jax_variables("other:1", "2", "1"), (ADDRESS, 4, 3), JOINED),
        ({"SLURM_STEP_NUM_TASKS": "2"}, (ADDRESS, 4, 3), JOINED),
        ({"SLURM_STEP_NUM_TASKS": "2"}, (None, None, None), {}),
        # `srun -n 1`, and `python` in a batch script without srun: one process.
        ({"SLURM_STEP_NUM_TASKS": "1"}, (None, None, None), None),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}, (None, None, None), None),
    ],
)
def test_jax_is_told_what_was_given_or_set(environment, arguments, told):
    assert hosts.launch_arguments(environment, *arguments) == told


@pytest.mark.parametrize(
    ("environment", "arguments", "sentence"),
    [
        (jax_variables(address="host"), (None,) * 3, "the variable JAX_COORDINATOR_ADDRESS must"),
        ({}, (None, 2, None), "--num-processes is 2, but --coordinator is missing; give HOST:PORT"),
        ({}, ("host", 2, 0), "--coordinator must be HOST:PORT or auto, but it is 'host'."),
        ({}, (ADDRESS, None, 0), f"--coordinator {ADDRESS} needs --num-processes and --process-id"),
        ({}, (ADDRESS, 2, 2), "--process-id must be at most 1, but it is 2."),
    ],
)
def test_a_mistake_is_told_in_one_sentence(environment, arguments, sentence):
    with pytest.raises(InputError) as caught:
        hosts.launch_arguments(environment, *arguments)
    message = str(caught.value)
    assert message.startswith(sentence)
    assert message.endswith(".")
    assert "\n" not in message


def test_a_process_that_is_told_of_no_others_is_alone(monkeypatch):
    def fail(**given):
        raise AssertionError(given)

    for name in (*jax_variables("", "", ""), "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jax.distributed, "initialize", fail)
    with hosts.joined(None, None, None):
        assert not hosts.waited_for()


def test_others_that_do_not_come_are_told_in_one_sentence(monkeypatch):
    def fail(**given):
        assert given["heartbeat_timeout_seconds"] == hosts.HEARTBEAT_SECONDS
        assert given["initialization_timeout"] > 7  # a sentence of ours comes first
        assert given.get("coordinator_bind_address") == given.get("coordinator_address")
        raise RuntimeError("DEADLINE_EXCEEDED: nobody came\nwith details")

    monkeypatch.setattr(jax.distributed, "initialize", fail)
    monkeypatch.setattr(hosts, "listen_towards", lambda address: None)
    monkeypatch.setattr(hosts, "state", hosts.State())
    with pytest.raises(InputError) as caught, hosts.joined(ADDRESS, 2, 1, seconds=7):
        pass
    assert str(caught.value) == (
        f"the processes could not be joined at {ADDRESS} (DEADLINE_EXCEEDED: nobody came); check "
        "that process 0 runs there, that the port is free, and that all processes were started."
    )
    launcher = pytest.raises(InputError, match="at the coordinator that the launcher names")
    with launcher, hosts.joined("auto", None, None, seconds=7):
        pass


def test_one_process_is_the_first_and_asks_itself():
    def fail():
        raise InputError("no.")

    assert hosts.first()
    kept = object()  # it is not even turned into JSON
    assert hosts.from_first(lambda: kept) is kept
    with pytest.raises(InputError, match="no"):
        hosts.from_first(fail)
    assert (hosts.anybody(False), hosts.anybody(True)) == (False, True)
    assert hosts.smallest(7) == 7.0
    assert hosts.smallest(None) == math.inf


@pytest.mark.parametrize("axes", [("trials",), ()])
def test_an_array_is_placed_on_all_devices(axes):
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    placed = hosts.placed(array, NamedSharding(default_mesh(2), PartitionSpec(*axes)))
    np.testing.assert_array_equal(placed, array)
    rows = 1 if axes else 2
    assert [shard.data.shape for shard in placed.addressable_shards] == [(rows, 3)] * 2
