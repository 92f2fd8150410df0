"""Several processes that run one experiment together, on one host or on many.

Every process runs the same program. JAX's own runtime joins them; the mesh then spans the devices
of all, each process computes its share of every chunk, and the first one alone reads and writes
files. The processes exchange what only the first one knows, and whether one of them has to stop,
between chunks, so that no process waits for one that has left.

Every exchange is one collective on one array of bytes: on CPUs a collective costs some
milliseconds, however little it carries.
"""

import contextlib
import json
import math
import os
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

from fedjax_admm._checks import InputError, count
from fedjax_admm._host import _store

HEARTBEAT_SECONDS = 30
"""A process that sends no sign of life for so many seconds counts as lost."""

JOIN_SECONDS = 300
"""Seconds for which processes wait for each other to come."""

_BIND = "JAX_COORDINATOR_BIND_ADDRESS"
_ROOM = 1024  # bytes of the smallest message: most are smaller, and share one compiled program


class State:
    """Whether this process belongs to several, and how it ends."""

    joined = False  # whether there are other processes
    end_is_known = False  # whether the others know that this process ends


state = State()


class StoppedElsewhereError(RuntimeError):
    """Another process has stopped the run, and says why."""


class LostProcessError(RuntimeError):
    """Another process does not answer any more."""

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        super().__init__(f"another process of this run was lost ({reason})")


def _end_alone(address: str | None, seconds: int) -> None:
    """Say that the other processes have not come, and end this one."""
    where = "" if address is None else f" at {address}"
    print(
        f"fedjax-admm: the other processes have not joined{where} within {seconds} seconds; start "
        "all of them, or give more time by --join-timeout.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(2)


@contextmanager
def joined(
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    *,
    seconds: int | None = None,
) -> Iterator[None]:
    """Join the other processes of a run, if there are any, and part from them in the end.

    Enter it before JAX computes anything. Without arguments, JAX finds the others where a launcher
    has set its variables: under Slurm (`srun` with more than one task), or JAX_COORDINATOR_ADDRESS
    with JAX_NUM_PROCESSES and JAX_PROCESS_ID.

    Process 0 listens at the address of the coordinator alone, and the collectives of CPUs at the
    address from which this process reaches it. Where a launcher chooses the address, JAX listens
    on every interface, unless the variable JAX_COORDINATOR_BIND_ADDRESS says otherwise.

    Where the others do not come in time, this process says so and ends with exit code 2: JAX's
    runtime would abort it. Where process 0 is lost later, that runtime may still end it.

    Args:
      coordinator: HOST:PORT of the first process, free there and reachable from the others; "auto"
        lets JAX ask the launcher (Slurm, Open MPI, Kubernetes, TPU).
      processes: the number of processes.
      process: the number of this one, from 0.
      seconds: how long to wait for the others; `JOIN_SECONDS` if None.

    Raises:
      InputError: an argument is missing or does not fit, or the others have other numbers of
        devices.
    """
    arguments = launch_arguments(os.environ, coordinator, processes, process)
    if arguments is None:
        yield
        return
    address = arguments.get("coordinator_address")
    if address is not None:
        if not os.environ.get(_BIND):
            arguments["coordinator_bind_address"] = address
            if arguments.get("process_id") == 0:
                _check_free(address)
        listen_towards(address)
    state.joined, state.end_is_known = True, False
    seconds = JOIN_SECONDS if seconds is None else seconds
    late = threading.Timer(seconds, _end_alone, (address, seconds))
    late.daemon = True
    late.start()
    try:
        jax.distributed.initialize(
            **arguments,
            initialization_timeout=2 * seconds,  # `late` comes first
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except Exception as error:  # JAX reads variables of launchers, too
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, KeyError):
            reason = f"the variable {reason} is not set"
        where = address or "the coordinator that the launcher names"
        raise InputError(
            f"the processes could not be joined at {where} ({reason})",
            value=where,
            remedy="check that process 0 runs there, that the port is free, and that all processes "
            "were started",
        ) from None
    finally:
        late.cancel()
    try:
        _check_devices()
        yield
    except BaseException:
        if state.end_is_known:
            jax.distributed.shutdown()
        raise
    jax.distributed.shutdown()
    state.joined = False


def _check_devices() -> None:
    devices = Counter(device.process_index for device in jax.devices())
    if len(set(devices.values())) > 1:
        numbers = ", ".join(str(devices[index]) for index in sorted(devices))
        state.end_is_known = True
        raise InputError(
            f"every process must have the same number of devices, but they have {numbers}",
            value=numbers,
            remedy="give --devices to each of them",
        )


def waited_for() -> bool:
    """Return whether other processes wait for this one and do not know that it ends."""
    return state.joined and not state.end_is_known


def _check_free(address: str) -> None:
    """Check that process 0 can listen at an address, because JAX crashes where it cannot."""
    host, _, port = address.rpartition(":")
    try:
        place = (host.strip("[]"), int(port))
        socket.create_server(place, family=socket.getaddrinfo(*place)[0][0]).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise InputError(
            f"process 0 cannot listen at {address} ({getattr(error, 'strerror', error)})",
            value=address,
            remedy="name a free port and an address of its machine, or set the variable "
            f"{_BIND} to the one where it shall listen",
        ) from None


def listen_towards(address: str) -> None:
    """Have Gloo, which joins CPUs, listen where this machine reaches an address from.

    JAX has no public option for it. By itself Gloo listens at the address that the machine's own
    name stands for. Nothing changes where JAX makes its CPUs in another way than 0.10 does.
    """
    if jax.config.values["jax_cpu_collectives_implementation"] != "gloo":
        return
    host, _, port = address.rpartition(":")
    with contextlib.suppress(ImportError, AttributeError, OSError, UnicodeError, OverflowError):
        family, _, _, _, place = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing
            own = probe.getsockname()[0]
        from jax._src import distributed, xla_bridge
        from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]

        make, listen = xla_bridge.make_cpu_client, _jax.make_gloo_tcp_collectives

        def client() -> Any:
            service = distributed.global_state.client
            return make(listen(distributed_client=service, hostname=own) if service else None)

        xla_bridge.register_backend_factory("cpu", client, priority=0, fail_quietly=False)


def launch_arguments(
    environment: Mapping[str, str],
    coordinator: str | None,
    processes: int | None,
    process: int | None,
) -> dict[str, Any] | None:
    """Return the arguments of `jax.distributed.initialize`; None if this process is alone.

    Args:
      environment: the variables that a launcher may have set.
      coordinator: as in `joined`.
      processes: as in `joined`.
      process: as in `joined`.
    """
    names = ("--coordinator", "--num-processes", "--process-id")
    address: str | None = coordinator
    numbers: list[Any] = [processes, process]
    if coordinator is None:
        for name, value in zip(names[1:], numbers, strict=True):
            if value is not None:
                raise InputError(
                    f"is {value}, but --coordinator is missing",
                    argument=name,
                    value=value,
                    remedy="give HOST:PORT of process 0",
                )
        variables = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
        names = tuple(f"the variable {name}" for name in variables)
        address, *texts = map(environment.get, variables)
        if not address:
            return None if environment.get("SLURM_STEP_NUM_TASKS", "1") == "1" else {}
        numbers = [int(text) if text and text.isdecimal() else text for text in texts]
    elif coordinator == "auto":
        return {}
    address = str(address)
    if not address.rpartition(":")[2].isdecimal() or address.startswith(":"):
        auto = "" if coordinator is None else " or auto"
        raise InputError(
            f"must be HOST:PORT{auto}, but it is {address!r}", argument=names[0], value=address
        )
    if numbers[0] is None or numbers[1] is None:
        if coordinator is None:
            return {"coordinator_address": address}  # the launcher knows the numbers
        raise InputError(
            f"{address} needs --num-processes and --process-id",
            argument=names[0],
            value=address,
            remedy="give both, or --coordinator auto under a launcher that knows them",
        )
    number = count(names[1], numbers[0])  # pyright: ignore[reportArgumentType]
    last = number - 1
    place = count(names[2], numbers[1], at_least=0, at_most=last)  # pyright: ignore[reportArgumentType]
    return {"coordinator_address": address, "num_processes": number, "process_id": place}


def first() -> bool:
    """Return whether this process is the first one, which reads and writes files."""
    return jax.process_index() == 0


def alone() -> bool:
    """Return whether there is no other process."""
    return jax.process_count() == 1


@contextmanager
def together() -> Iterator[None]:
    """Do what needs all processes."""
    try:
        yield
    except Exception as error:
        if alone():
            raise
        reason = re.sub(r"\[\S+\.cc:\d+\] ", "", str(error).strip().partition("\n")[0])[:200]
        raise LostProcessError(reason) from error


def from_first(action: Callable[[], Any]) -> Any:
    """Do something in the first process only, and send the result to all.

    Args:
      action: returns what JSON can hold; it may raise `InputError`.

    Returns:
      What `action` returned, in every process.

    Raises:
      InputError: `action` raised it; in the first process.
      StoppedElsewhereError: `action` raised an `InputError`; in the other processes.
      LostProcessError: a process is gone.
    """
    if alone():
        return action()
    failure, text = None, ""
    if first():
        try:
            text = json.dumps(action())
        except InputError as error:
            failure = error
    content = np.frombuffer(text.encode(), np.uint8)
    size = exchanged(failure is not None, content.size)
    if failure is not None:
        raise failure
    if size.anybody:
        raise StoppedElsewhereError
    # The other processes send as many zeros.
    word = exchanged(False, 0.0, content if first() else np.zeros(int(size.largest), np.uint8))
    return json.loads(bytes(word.contents[0]))


@contextmanager
def locked(folder: Path | None, argument: str = "out", *, new: bool = False) -> Iterator[str]:
    """Have the first process lock a folder for all of them, if there is one, and give it."""
    with contextlib.ExitStack() as held:
        if folder is None:
            yield ""
            return
        lock = partial(_store.locked, folder, argument, new=new)
        yield from_first(lambda: str(held.enter_context(lock())))


def agreed(content: Any) -> None:
    """Check that all processes have the same.

    Args:
      content: what JSON can hold.
    """
    text = json.dumps(content)
    if anybody(text != from_first(lambda: text)):
        raise InputError(
            "the processes were given different commands or versions",
            remedy="start all of them with the same, but for --process-id",
        )


def anybody(flag: bool) -> bool:
    """Return whether a flag is set in any process."""
    return exchanged(flag).anybody


def smallest(size: int | None) -> float:
    """Return the smallest of the processes' numbers; infinity where it is None everywhere."""
    return -exchanged(False, -math.inf if size is None else -float(size)).largest


class Word(NamedTuple):
    """Result of an exchange between all processes."""

    anybody: bool  # whether a flag is set in any process
    largest: float  # of their numbers
    contents: np.ndarray  # (processes, bytes), uint8


def exchanged(flag: bool, number: float = 0.0, content: np.ndarray | None = None) -> Word:
    """Exchange a flag, a number and some bytes between all processes, in one collective.

    Args:
      flag: whether this process has to stop.
      number: any number.
      content: uint8, one-dimensional, as many bytes in every process; none if None.
    """
    content = np.zeros(0, np.uint8) if content is None else content
    if alone():
        return Word(flag, number, content[None])
    head = np.array([flag, number], np.float64).view(np.uint8)
    # A power of two, so that few sizes are compiled.
    room = np.zeros(max(_ROOM, 1 << (head.size + content.size - 1).bit_length()), np.uint8)
    room[: head.size], room[head.size : head.size + content.size] = head, content
    with together():
        every = np.asarray(multihost_utils.process_allgather(room))
    heads = np.ascontiguousarray(every[:, : head.size]).view(np.float64)
    anybody = bool(heads[:, 0].any())
    state.end_is_known = state.end_is_known or anybody
    return Word(anybody, float(heads[:, 1].max()), every[:, head.size : head.size + content.size])


def gathered(
    results: Mapping[str, jax.Array], used: int, mesh: Mesh, flag: bool, number: float
) -> tuple[Word, dict[str, np.ndarray]]:
    """Collect rows that lie on the devices of all processes, in one collective.

    Args:
      results: arrays whose first axis is sharded over the mesh axis "trials".
      used: rows of every shard that are returned.
      mesh: the mesh.
      flag: as in `exchanged`.
      number: as in `exchanged`.

    Returns:
      The result of the exchange, and the first `used` rows of all shards, in order.
    """
    shards = mesh.shape["trials"]
    if alone():
        host = jax.device_get(dict(results))  # sorted by name
        whole = {
            name: host[name].reshape(shards, -1, *host[name].shape[1:])[:, :used]
            for name in results
        }
        return exchanged(flag, number), {name: _rows(array) for name, array in whole.items()}
    owned = _owned(mesh)
    most = max(map(len, owned))
    kinds = {
        name: ((most, used, *array.shape[1:]), np.dtype(array.dtype))
        for name, array in results.items()
    }
    parts = []
    for name, (shape, dtype) in kinds.items():
        own = np.zeros(shape, dtype)
        length = results[name].shape[0] // shards
        for shard in results[name].addressable_shards:
            place = owned[jax.process_index()].index((shard.index[0].start or 0) // length)
            own[place] = np.asarray(shard.data)[:used]
        parts.append(own.reshape(-1).view(np.uint8))
    word = exchanged(flag, number, np.concatenate(parts))
    collected, begin = {}, 0
    for (name, (shape, dtype)), part in zip(kinds.items(), parts, strict=True):
        collected[name] = np.empty((shards, *shape[1:]), dtype)
        for content, places in zip(word.contents, owned, strict=True):
            array = content[begin : begin + part.size].view(dtype).reshape(shape)
            collected[name][places] = array[: len(places)]
        begin += part.size
    return word, {name: _rows(array) for name, array in collected.items()}


def _owned(mesh: Mesh) -> list[list[int]]:
    """Return which shards of the mesh axis "trials" lie with each process."""
    by_shard = np.moveaxis(mesh.devices, mesh.axis_names.index("trials"), 0)
    owners = [{device.process_index for device in shard.flat} for shard in by_shard]
    return [
        [shard for shard, their in enumerate(owners) if process in their]
        for process in range(jax.process_count())
    ]


def _rows(shards: np.ndarray) -> np.ndarray:
    """Join (shards, rows, ...) to (rows, ...)."""
    return shards.reshape(-1, *shards.shape[2:])


def placed(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    """Place an array that every process holds on the devices of all."""
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
