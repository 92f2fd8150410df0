"""Read XLA's optimised programs, and estimate the bytes and flops of their instructions."""

import math
import re
from dataclasses import dataclass, field

_BITS = {"pred": 8, "bf16": 16}  # the others say theirs: f32, s8, u64
_MOVES = (
    *("parameter", "constant", "broadcast", "reshape", "bitcast", "bitcast-convert", "transpose"),
    *("copy", "slice", "dynamic-slice", "dynamic-update-slice", "gather", "concatenate", "pad"),
    *("tuple", "get-tuple-element", "iota", "convert", "reverse", "partition-id", "replica-id"),
)
_SLICES = ("slice", "dynamic-slice", "gather")
_VIEWS = ("bitcast", "reshape")


@dataclass
class Instruction:
    """An instruction: its result's shape, its operation, its operands' names, and the rest."""

    name: str
    shape: str
    operation: str
    operands: list[str]
    rest: str
    root: bool = False


@dataclass
class Hlo:
    """A program: instructions by name, and the names in every computation."""

    instructions: dict[str, Instruction] = field(default_factory=dict)
    computations: dict[str, list[str]] = field(default_factory=dict)


def parse_hlo(text: str) -> Hlo:
    """Return a dumped program."""
    program = Hlo()
    inside: list[str] = []
    for line in text.splitlines():
        header = re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .*{$", line)
        if header:
            inside = program.computations.setdefault(header[1], [])
            continue
        match = re.match(r"\s+(ROOT )?%?([\w.\-]+) = (.*)$", line)
        if match is None:
            continue
        shape, rest = _split_shape(match[3])
        called = re.match(r"([\w\-]+)\(", rest)
        if called is None:
            continue
        end = _closing(rest, called.end() - 1)
        operands = re.findall(r"%([\w.\-]+)", rest[called.end() : end])
        if called[1] in ("parameter", "constant"):
            operands = []
        instruction = Instruction(
            match[2], shape, called[1], operands, rest[called.end() :], bool(match[1])
        )
        program.instructions[match[2]] = instruction
        inside.append(match[2])
    return program


def instruction_cost(program: Hlo, instruction: Instruction) -> tuple[float, float]:
    """Return how many bytes a launched instruction reads and writes, and its flops."""
    called = re.search(r"calls=%?([\w.\-]+)", instruction.rest)
    if called is None:
        given = sum(nbytes(program.instructions[one].shape) for one in instruction.operands)
        return given + nbytes(instruction.shape), _flops(program, instruction)
    body = [program.instructions[name] for name in program.computations[called[1]]]
    flops = sum(_flops(program, one) for one in body)
    users: dict[str, list[Instruction]] = {}
    for one in body:
        for operand in one.operands:
            users.setdefault(operand, []).append(one)
    moved = sum(_read(one, users) for one in body if one.operation == "parameter")
    root = next(one for one in body if one.root)
    return moved + _written(program, root), flops


def _read(given: Instruction, users: dict[str, list[Instruction]]) -> float:
    """Return how much of a parameter is read."""
    whole, part = nbytes(given.shape), 0.0
    pending = [(given.name, user) for user in users.get(given.name, [])]
    while pending:
        name, user = pending.pop()
        first = bool(user.operands) and user.operands[0] == name
        if user.operation in _VIEWS:
            pending += [(user.name, one) for one in users.get(user.name, [])]
        elif user.operation in _SLICES and first:
            part += nbytes(user.shape)
        elif user.operation not in ("dynamic-update-slice", "scatter") or not first:
            return whole  # else it is changed in place
    return min(whole, part)


def _written(program: Hlo, root: Instruction) -> float:
    """Return how much a fusion writes: of what it updates in place, the updates alone."""
    while root.operation in _VIEWS:
        root = program.instructions[root.operands[0]]
    if root.operation == "tuple":
        return sum(_written(program, program.instructions[name]) for name in root.operands)
    if root.operation == "dynamic-update-slice":
        return nbytes(program.instructions[root.operands[1]].shape)
    if root.operation == "scatter":  # what is there is read, added to, and written
        return 2 * nbytes(program.instructions[root.operands[-1]].shape)
    return nbytes(root.shape)


def _flops(program: Hlo, instruction: Instruction) -> float:
    if instruction.operation in _MOVES:
        return 0.0
    if instruction.operation == "dot":
        contracted = re.search(r"lhs_contracting_dims={([\d,]*)}", instruction.rest)
        sizes = _sizes(program.instructions[instruction.operands[0]].shape)
        over = [int(one) for one in contracted[1].split(",") if one] if contracted else []
        return 2.0 * elements(instruction.shape) * math.prod(sizes[one] for one in over)
    if instruction.operation in ("reduce", "reduce-window", "sort"):
        return float(elements(program.instructions[instruction.operands[0]].shape))
    if instruction.operation == "scatter":
        return float(elements(program.instructions[instruction.operands[-1]].shape))
    return float(elements(instruction.shape))


def nbytes(shape: str) -> float:
    """Return the bytes of a shape, or of all shapes in a tuple."""
    return sum(
        _itemsize(kind) * math.prod(int(size) for size in sizes.split(",") if size)
        for kind, sizes in re.findall(r"([a-z]+[0-9a-z]*)\[([\d,]*)\]", shape)
    )


def elements(shape: str) -> int:
    """Return how many numbers the first shape has."""
    return math.prod(_sizes(shape))


def _sizes(shape: str) -> list[int]:
    found = re.search(r"\[([\d,]*)\]", shape)
    return [int(size) for size in found[1].split(",") if size] if found else [0]


def _itemsize(kind: str) -> float:
    bits = re.search(r"\d+", kind)
    return (_BITS.get(kind) or (int(bits[0]) if bits else 0)) / 8


def _split_shape(text: str) -> tuple[str, str]:
    end = _closing(text, 0) + 1 if text.startswith("(") else text.index(" ")
    return text[:end], text[end:].lstrip()


def _closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position
    return len(text)
