"""Compile for an NVIDIA H100 where there is none, and count what a round of the loop costs there.

`compile_for_cuda` compiles with JAX's CUDA plugin and a description of the GPU in place of a GPU;
XLA dumps the order of its launches ("thunks"), the optimised program, and the PTX of its kernels.
`count_rounds` finds the loop over rounds by its number of turns, and adds up its launches, those of
loops inside as often as they turn. What XLA cannot know before it runs counts once: a loop whose
end depends on data has one turn, and of a conditional's branches the dearest counts.

**Bytes** of a kernel are its operands and its results, each once, but of what is sliced or gathered
only what is read, and of what is updated in place only what is written. **Flops** are one for every
element of an arithmetic operation, transcendental ones too, and two for every product in a dot.
**Registers, spills and shared memory** are those of `ptxas -v` (of the dumped PTX).

**Predicted time** of a kernel is the largest of its launch, its bytes over the memory's bandwidth
and its flops over the arithmetic's peak. Five or more launches in a row, XLA makes one CUDA graph
of them when it runs: there a launch takes 1 us, the overhead in XLA's own model of a GPU
(`kKernelLaunchOverhead`); outside a graph, and if graphs are off, the host takes 4 us for one. A
loop whose end depends on data waits for the host in each turn, 10 us. Nothing of this is measured.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cuda_hlo import Hlo, instruction_cost, parse_hlo

BANDWIDTH = 3.35232e12  # bytes per second of HBM3
PEAK = 132 * 128 * 2 * 1.98e9  # flops per second in float32: cores x lanes x fused multiply-add
MEMORY = 84_929_347_584
GRAPH_LAUNCH, HOST_LAUNCH, HOST_WAIT = 1e-6, 4e-6, 10e-6
GRAPH_FROM = 5  # XLA's default `xla_gpu_graph_min_graph_size`
TARGET = f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {BANDWIDTH:.0f}
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: {MEMORY}
  shared_memory_per_block_optin: 232448
  cuda_compute_capability {{ major: 9 }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 9 }}
device_description_str: "NVIDIA H100 80GB HBM3"
"""
# These take no time on the device by themselves.
_CONTAINERS = ("kSequential", "kWhile", "kConditional", "kCommandBuffer", "kDynamicSliceFusion")


class Kernel(NamedTuple):
    """What `ptxas` says of a kernel."""

    registers: int
    spilled: int  # bytes
    shared: int  # bytes


@dataclass
class Thunk:
    """A step of XLA's schedule: a launch, or a container of steps."""

    number: int
    kind: str
    name: str  # of the kernel
    shared: int = 0  # bytes asked for at the launch
    parts: dict[str, list["Thunk"]] = field(default_factory=dict)


@dataclass
class Cost:
    """What some steps cost, each time they run."""

    launches: int = 0
    submissions: int = 0  # what the host hands over, where runs of launches become CUDA graphs
    bytes: float = 0
    flops: float = 0
    fast: float = 0  # seconds, with graphs
    slow: float = 0  # seconds, launch by launch
    turns: int = 0  # launches in one turn of the loops whose end depends on data
    kernels: set[str] = field(default_factory=set)
    shared: int = 0

    def add(self, other: "Cost", times: int = 1) -> None:
        """Add steps that run so many times."""
        for name in ("launches", "submissions", "bytes", "flops", "fast", "slow", "turns"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        self.kernels |= other.kernels
        self.shared = max(self.shared, other.shared)


def ptxas() -> str:
    """Return where `ptxas` is: on the path, or in NVIDIA's Python package."""
    found = shutil.which("ptxas")
    if found is None:
        import nvidia.cuda_nvcc

        found = str(Path(nvidia.cuda_nvcc.__path__[0]) / "bin" / "ptxas")
    return found


def begin(name: str) -> Path:
    """Set JAX up, before it is imported; return the folder for dumps of the functions so named."""
    folder = Path(tempfile.mkdtemp(prefix="cuda-"))
    os.environ["JAX_PLATFORMS"] = "cpu"  # the plugin is for compiling; nothing runs on it
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_module_re=.*{name}.*"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    return folder


def compile_for_cuda(function: Callable, *shapes: Any) -> Any:
    """Return a function compiled for an H100 that is not there.

    Needs the packages jax-cuda12-plugin and jax-cuda12-pjrt (or those of CUDA 13) of JAX's version,
    and after `begin` a process of its own.
    """
    import jax
    from jax.experimental import topologies

    described = topologies.get_topology_desc(
        platform="cuda", target_config=TARGET, topology="1x1x1"
    )
    mesh = jax.sharding.Mesh(described.devices, ("one",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    placed = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), shapes
    )
    # Without a name, JAX asks which kind of GPU is here (jax-ml/jax issues 23971 and 28376).
    return jax.jit(function).trace(*placed).lower(lowering_platforms=("cuda",)).compile()


def count_rounds(folder: Path, rounds: int | None) -> tuple[Cost, dict[str, Kernel]]:
    """Return the cost of a turn of the loop over so many rounds, and its kernels by name.

    If `rounds` is None, the cost is that of the whole program.
    """
    (schedule,) = folder.glob("*.thunk_sequence.txt")
    stem = schedule.name.removesuffix(".thunk_sequence.txt")
    program = parse_hlo(next(folder.glob(f"{stem}.*gpu_after_optimizations.txt")).read_text())
    names = _annotations((folder / f"{stem}.thunk_metadata.txt").read_text())
    thunks = parse_thunks(schedule.read_text())
    if rounds is not None:
        loops = [
            thunk
            for thunk in _all(thunks)
            if thunk.kind == "kWhile" and _turns(thunk, names, program) == rounds
        ]
        if len(loops) != 1:
            raise ValueError(f"{len(loops)} loops turn {rounds} times, where one is the rounds'")
        thunks = loops[0].parts["body"]
    cost = _cost(thunks, names, program)
    compiled = _compile_kernels(folder, stem)
    return cost, {name: compiled[name] for name in cost.kernels if name in compiled}


def parse_thunks(text: str) -> list[Thunk]:
    """Return the steps of a dumped schedule, with those inside of them."""
    lines = [line for line in text.splitlines() if line.strip()]
    position = 0

    def indent(line: str) -> int:
        return len(line) - len(line.lstrip())

    def block(depth: int) -> list[Thunk]:
        nonlocal position
        steps: list[Thunk] = []
        while position < len(lines):
            line = lines[position]
            label = re.fullmatch(r"\s*([\w ]+):", line)
            if label is None and indent(line) < depth:
                break
            if label is None and indent(line) == depth:
                position += 1
                steps.append(_thunk(line))
            elif label is None:
                steps[-1].parts.setdefault("steps", []).extend(block(indent(line)))
            # The first label of a step stands at the margin, those that follow at its depth.
            elif steps and position + 1 < len(lines) and indent(lines[position + 1]) > depth:
                position += 1
                steps[-1].parts[label[1]] = block(indent(lines[position]))
            else:
                break
        return steps

    steps = block(0)
    if position < len(lines):
        raise ValueError(f"the schedule has a line that is not understood: {lines[position]!r}")
    return steps


def _thunk(line: str) -> Thunk:
    match = re.match(r"\s*(\d+): (k\w+)\s*(?:\[.*?\])?\s*([\w.\-]*)", line)
    if match is None:
        raise ValueError(f"the schedule has a line that is not understood: {line!r}")
    shared = re.search(r"shared_memory: (\d+) bytes", line)
    return Thunk(int(match[1]), match[2], match[3], int(shared[1]) if shared else 0)


def _annotations(text: str) -> dict[int, str]:
    """Return the instruction of every step, by the step's number."""
    pairs = re.findall(r'profile_annotation: "([^"]*)"\s*thunk_id: (\d+)', text)
    return {int(number): name for name, number in pairs}


def _all(thunks: list[Thunk]) -> list[Thunk]:
    inside = [step for thunk in thunks for part in thunk.parts.values() for step in _all(part)]
    return thunks + inside


def _turns(thunk: Thunk, names: dict[int, str], program: Hlo) -> int | None:
    """Return how often a loop turns; None if that depends on data."""
    instruction = program.instructions.get(names.get(thunk.number, ""))
    found = instruction and re.search(r'"known_trip_count":{"n":"(\d+)"', instruction.rest)
    return int(found[1]) if found else None


def _cost(thunks: list[Thunk], names: dict[int, str], program: Hlo) -> Cost:
    total = Cost()
    row: list[Cost] = []

    def close() -> None:
        graph = len(row) >= GRAPH_FROM
        for one in row:
            total.add(one)
            total.submissions += 0 if graph else 1
            total.fast += max(GRAPH_LAUNCH if graph else HOST_LAUNCH, one.fast)
            total.fast -= one.fast
        if graph:
            total.submissions += 1
            total.fast += HOST_LAUNCH
        row.clear()

    for thunk in thunks:
        if thunk.kind not in _CONTAINERS:
            row.append(_launch(thunk, names, program))
            continue
        close()
        if thunk.kind == "kWhile":
            turns = _turns(thunk, names, program)
            body = _cost(thunk.parts.get("body", []), names, program)
            total.add(body, turns or 1)
            if turns is None:
                condition = _cost(thunk.parts.get("condition", []), names, program)
                total.add(condition)
                total.turns += body.launches + condition.launches - body.turns
                total.fast += HOST_WAIT
                total.slow += HOST_WAIT
        elif thunk.kind == "kConditional":
            branches = [_cost(part, names, program) for part in thunk.parts.values()]
            total.add(max(branches, key=lambda one: one.slow, default=Cost()))
        else:
            for part in thunk.parts.values():
                total.add(_cost(part, names, program))
    close()
    return total


def _launch(thunk: Thunk, names: dict[int, str], program: Hlo) -> Cost:
    instruction = program.instructions.get(names.get(thunk.number, ""))
    moved, flops = (0.0, 0.0) if instruction is None else instruction_cost(program, instruction)
    busy = max(moved / BANDWIDTH, flops / PEAK)
    kernels = {thunk.name} if thunk.kind in ("kCustomKernel", "kKernel") else set()
    slow = max(HOST_LAUNCH, busy)
    return Cost(1, 0, moved, flops, busy, slow, 0, kernels, thunk.shared)


def _compile_kernels(folder: Path, stem: str) -> dict[str, Kernel]:
    """Return what `ptxas` says of every kernel in the dumped PTX, by name."""
    kernels = {}
    for source in folder.glob(f"{stem}.*ptx"):
        said = subprocess.run(
            [ptxas(), "-v", "-arch=sm_90a", str(source), "-o", os.devnull],
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for block in said.split("Compiling entry function ")[1:]:
            name = block.split("'")[1]
            registers = re.search(r"Used (\d+) registers", block)
            spilled = sum(map(int, re.findall(r"(\d+) bytes spill", block)))
            shared = re.search(r"(\d+) bytes smem", block)
            kernels[name] = Kernel(
                int(registers[1]) if registers else 0, spilled, int(shared[1]) if shared else 0
            )
    return kernels
