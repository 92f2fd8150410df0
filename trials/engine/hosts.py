"""Several processes that run one experiment together, on one host or on many.

Every process runs the same program. JAX's own runtime joins them; the mesh then spans the devices
of all, each process computes its share of every chunk, and the first one alone reads and writes
files. What only the first one can know, and whether anybody has to stop, is told to the others
between chunks, so that no process waits for one that has left.

Whatever they tell each other is bytes in one array per call: on CPUs a collective costs some
milliseconds, however little it carries.
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

from fedjax_admm._checks import InputError, count
from fedjax_admm._shown import short_repr
from fedjax_admm.trials.engine._aborts import Farewell
from fedjax_admm.trials.engine._listening import BIND, check_free, gloo_at, here

HEARTBEAT_SECONDS = 30
"""After how many seconds without a sign of life a process counts as lost."""

JOIN_SECONDS = 300
"""How long processes wait for the others to come."""

_ROOM = 1024  # bytes of the smallest message: most are smaller, and share one compiled program


class _End:
    """What the processes know of each other's end."""

    known = False  # all know that this process ends, or why
    farewell: Farewell | None = None  # None where this process is alone


_end = _End()


class StoppedElsewhereError(RuntimeError):
    """Another process has stopped the run, and says why."""


class LostProcessError(RuntimeError):
    """Another process does not answer any more."""

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        super().__init__(f"another process of this run was lost ({reason}).")
        self.reason = reason


@contextmanager
def joined(
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    *,
    seconds: int | None = None,
    lost: Callable[[str], str] = "another process of this run was lost ({}).".format,
) -> Iterator[None]:
    """Join the other processes of a run, if there are any, and part from them in the end.

    Where another process is lost, this one says `lost(reason)` and ends with exit code 1, whatever
    it is doing.

    Args:
      coordinator: as in `join`.
      processes: as in `join`.
      process: as in `join`.
      seconds: as in `join`.
      lost: returns what is said.

    Raises:
      InputError: as `join`.
    """
    if launch_arguments(os.environ, coordinator, processes, process) is None:
        yield
        return
    came: list[bool] = []
    where = coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS") or "auto"
    waited = JOIN_SECONDS if seconds is None else seconds

    def sentence(reason: str) -> str:
        if came:
            return lost(reason)
        return (
            f"fedjax-admm: the processes did not all join at {where} within {waited} seconds; "
            "check that process 0 runs there and that all were started."
        )

    _end.known, _end.farewell = False, Farewell(sentence)
    with _end.farewell.instead_of_aborts():
        join(coordinator, processes, process, seconds=seconds)
        came.append(True)
        try:
            yield
        except BaseException:
            if _end.known:
                jax.distributed.shutdown()
            raise
        jax.distributed.shutdown()
        _end.farewell = None


def waited_for() -> bool:
    """Return whether other processes wait for this one and do not know that it ends."""
    return _end.farewell is not None and not _end.known


def end_as_lost(error: LostProcessError) -> None:
    """Say that another process was lost and end this one, if there are several."""
    if _end.farewell is not None:
        _end.farewell.end(str(error.reason))


def join(
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    *,
    seconds: int | None = None,
) -> bool:
    """Join the other processes of a run; call it before JAX computes anything.

    Without arguments, JAX finds them where a launcher has set its variables: under Slurm (`srun`
    with more than one task), or JAX_COORDINATOR_ADDRESS with JAX_NUM_PROCESSES and JAX_PROCESS_ID.

    Process 0 listens at the address of the coordinator alone, and what computes together on CPUs
    at the address from which this process reaches it. Where a launcher chooses the address, JAX
    listens on every interface, unless the variable JAX_COORDINATOR_BIND_ADDRESS says otherwise.

    Args:
      coordinator: HOST:PORT of the first process, free there and reachable from the others; "auto"
        lets JAX ask the launcher (Slurm, Open MPI, Kubernetes, TPU).
      processes: how many there are.
      process: which one this is, from 0.
      seconds: how long to wait for the others; `JOIN_SECONDS` if None.

    Returns:
      Whether there are others.

    Raises:
      InputError: an argument is missing or does not fit, the others did not come, or they have
        other numbers of devices.
    """
    given = launch_arguments(os.environ, coordinator, processes, process)
    if given is None:
        return False
    address = given.get("coordinator_address")
    if address is not None:
        if not os.environ.get(BIND):
            given["coordinator_bind_address"] = address
            if given.get("process_id") == 0:
                check_free(address)
        gloo_at(here(address))
    try:
        jax.distributed.initialize(
            **given,
            initialization_timeout=JOIN_SECONDS if seconds is None else seconds,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except Exception as error:  # of launchers' variables, as JAX reads them, too
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
    devices = Counter(device.process_index for device in jax.devices())
    if len(set(devices.values())) > 1:
        found = ", ".join(str(devices[index]) for index in sorted(devices))
        _end.known = True
        raise InputError(
            f"every process must have the same number of devices, but they have {found}",
            value=found,
            remedy="give --devices to each of them",
        )
    return jax.process_count() > 1


def launch_arguments(
    environment: Mapping[str, str],
    coordinator: str | None,
    processes: int | None,
    process: int | None,
) -> dict[str, Any] | None:
    """Return what `jax.distributed.initialize` is told; None if this process is alone.

    Args:
      environment: the variables that a launcher may have set.
      coordinator: as in `join`.
      processes: as in `join`.
      process: as in `join`.

    Raises:
      InputError: an argument or a variable is missing or does not fit.
    """
    if coordinator is None:
        lost = {"--num-processes": processes, "--process-id": process}
        for name, value in lost.items():
            if value is not None:
                raise InputError(
                    f"is {value}, but --coordinator is missing",
                    argument=name,
                    value=value,
                    remedy="give HOST:PORT of process 0",
                )
        if environment.get("JAX_COORDINATOR_ADDRESS"):
            return _from_variables(environment)
        tasks = environment.get("SLURM_STEP_NUM_TASKS", "1")
        if not tasks.isdecimal():
            raise InputError(
                f"must be a whole number, but it is {tasks!r}",
                argument="the variable SLURM_STEP_NUM_TASKS",
                value=tasks,
                remedy="correct or unset it",
            )
        return {} if int(tasks) > 1 else None
    if coordinator == "auto":
        return {}
    if not coordinator.rpartition(":")[2].isdecimal() or coordinator.startswith(":"):
        raise InputError(
            f"must be HOST:PORT or auto, but it is {coordinator!r}",
            argument="--coordinator",
            value=coordinator,
        )
    if processes is None or process is None:
        raise InputError(
            f"{coordinator} needs --num-processes and --process-id",
            argument="--coordinator",
            value=coordinator,
            remedy="give both, or --coordinator auto under a launcher that knows them",
        )
    return _numbered(coordinator, processes, process, ("--num-processes", "--process-id"))


def _from_variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """Read what JAX's own variables say; what they leave out, the launcher knows."""
    address = environment["JAX_COORDINATOR_ADDRESS"]
    if not address.rpartition(":")[2].isdecimal() or address.startswith(":"):
        raise InputError(
            f"must be HOST:PORT, but it is {address!r}",
            argument="the variable JAX_COORDINATOR_ADDRESS",
            value=address,
        )
    names = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
    texts = [environment.get(name) for name in names]
    if None in texts:
        return {"coordinator_address": address}
    for name, text in zip(names, texts, strict=True):
        if not str(text).isdecimal():
            raise InputError(
                f"must be a whole number, but it is {text!r}",
                argument=f"the variable {name}",
                value=text,
            )
    return _numbered(address, int(str(texts[0])), int(str(texts[1])), names)


def _numbered(address: str, processes: int, process: int, names: tuple[str, str]) -> dict[str, Any]:
    processes = count(names[0], processes)
    process = count(names[1], process, at_least=0, at_most=processes - 1)
    return {"coordinator_address": address, "num_processes": processes, "process_id": process}


def first() -> bool:
    """Return whether this process is the first one, which reads and writes files."""
    return jax.process_index() == 0


def alone() -> bool:
    """Return whether there is no other process."""
    return jax.process_count() == 1


@contextmanager
def together() -> Iterator[None]:
    """Do what needs all processes.

    Raises:
      LostProcessError: one of them is gone.
    """
    try:
        yield
    except Exception as error:
        if alone():
            raise
        reason = re.sub(r"\[\S+\.cc:\d+\] ", "", str(error).strip().partition("\n")[0])[:200]
        raise LostProcessError(reason) from error


def from_first(action: Callable[[], Any]) -> Any:
    """Do something in the first process only, and tell the result to all.

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
    size = told(failure is not None, content.size)
    if failure is not None:
        raise failure
    if size.anybody:
        raise StoppedElsewhereError
    # The first process speaks; the others send as many zeros.
    word = told(False, 0.0, content if first() else np.zeros(int(size.largest), np.uint8))
    return json.loads(bytes(word.contents[0]))


def agreed(content: Any) -> None:
    """Check that all processes have the same.

    Args:
      content: what JSON can hold.

    Raises:
      InputError: a process has something else.
    """
    text = json.dumps(content)
    if anybody(text != from_first(lambda: text)):
        raise InputError(
            "the processes were given different commands or versions",
            remedy="start all of them with the same, but for --process-id",
        )


def anybody(flag: bool) -> bool:
    """Return whether a flag is set in any process."""
    return told(flag).anybody


def smallest(size: int | None) -> float:
    """Return the smallest of the processes' numbers; infinity where it is None everywhere."""
    return -told(False, -math.inf if size is None else -float(size)).largest


@short_repr
class Word(NamedTuple):
    """What the processes have told each other."""

    anybody: bool  # whether a flag is set in any process
    largest: float  # of their numbers
    contents: np.ndarray  # (processes, bytes), uint8


def told(flag: bool, number: float = 0.0, content: np.ndarray | None = None) -> Word:
    """Tell all processes a flag, a number and some bytes, in one collective.

    Args:
      flag: whether this process has to stop.
      number: any number.
      content: uint8, one-dimensional, as many bytes in every process; none if None.

    Raises:
      LostProcessError: a process is gone.
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
    _end.known = _end.known or anybody
    return Word(anybody, float(heads[:, 1].max()), every[:, head.size : head.size + content.size])


def gathered(
    results: Mapping[str, jax.Array], used: int, mesh: Mesh, flag: bool, number: float
) -> tuple[Word, dict[str, np.ndarray]]:
    """Bring rows home that lie on the devices of all processes, in one collective.

    Args:
      results: arrays whose first axis is sharded over the mesh axis "trials".
      used: how many rows of every shard are wanted.
      mesh: the mesh.
      flag: as in `told`.
      number: as in `told`.

    Returns:
      What the processes have told each other, and the wanted rows of all shards, in order.

    Raises:
      LostProcessError: a process is gone.
    """
    shards = mesh.shape["trials"]
    if alone():
        host = jax.device_get(dict(results))  # sorted by name
        whole = {
            name: host[name].reshape(shards, -1, *host[name].shape[1:])[:, :used]
            for name in results
        }
        return told(flag, number), {name: _rows(array) for name, array in whole.items()}
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
    word = told(flag, number, np.concatenate(parts))
    home, begin = {}, 0
    for (name, (shape, dtype)), part in zip(kinds.items(), parts, strict=True):
        home[name] = np.empty((shards, *shape[1:]), dtype)
        for content, places in zip(word.contents, owned, strict=True):
            array = content[begin : begin + part.size].view(dtype).reshape(shape)
            home[name][places] = array[: len(places)]
        begin += part.size
    return word, {name: _rows(array) for name, array in home.items()}


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
