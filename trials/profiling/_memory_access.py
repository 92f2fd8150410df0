"""What one iteration of a loop reads and writes, as if its body were a single pass.

Carry, constants, slices of the inputs and outputs; rows that are only gathered or scattered count
as rows.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

ACCUMULATIONS = ("scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
"""Primitives that add to some rows of their first operand."""

CALLING = ("jit", "closed_call", "checkpoint", "remat2", "custom_jvp_call", "custom_vjp_call")
"""Primitives that run a jaxpr once."""


def accessed_bytes(jaxpr: Jaxpr, first_carry: int, carries: int) -> int:
    """Return the bytes that a body reads of its operands and writes for its results.

    A carry that is returned as it came costs nothing but what is read of it.
    """
    operands = [*jaxpr.constvars, *jaxpr.invars]
    read = _reads(jaxpr)
    written = _writes(jaxpr, [0] * len(jaxpr.invars))
    for i, result in enumerate(jaxpr.outvars):
        kept = i < carries and result is jaxpr.invars[first_carry + i]
        if not kept and not isinstance(result, Literal) and result in operands:  # a copy
            read[result] = written[i] = _size(result)
    return sum(read.get(operand, 0) for operand in operands) + sum(written)


def _reads(jaxpr: Jaxpr) -> dict[Var, int]:
    """Return the bytes that are read of every variable: of what is only gathered, the rows."""
    read: dict[Var, int] = defaultdict(int)
    for equation in jaxpr.eqns:
        parts = _READS.get(equation.primitive.name, _all_read)(equation)
        for operand, part in zip(equation.invars, parts, strict=True):
            if not isinstance(operand, Literal):
                read[operand] = min(_size(operand), read[operand] + part)
    return read


def _all_read(equation: JaxprEqn) -> list[int]:
    return [_size(operand) for operand in equation.invars]


def _rows_read(equation: JaxprEqn) -> list[int]:
    return [_size(equation.outvars[0]), *_all_read(equation)[1:]]


def _accumulated_read(equation: JaxprEqn) -> list[int]:
    return [_size(equation.invars[2]), *_all_read(equation)[1:]]


def _overwritten_read(equation: JaxprEqn) -> list[int]:
    return [0, *_all_read(equation)[1:]]


def _call_read(equation: JaxprEqn) -> list[int]:
    return _operand_reads(called(equation))


def _scan_read(equation: JaxprEqn) -> list[int]:
    length = equation.params["length"]
    return [length * part for part in _operand_reads(equation.params["jaxpr"].jaxpr)]


def _cond_read(equation: JaxprEqn) -> list[int]:
    branches = [_operand_reads(branch.jaxpr) for branch in equation.params["branches"]]
    return [_size(equation.invars[0]), *map(max, zip(*branches, strict=True))]


def _operand_reads(jaxpr: Jaxpr) -> list[int]:
    read = _reads(jaxpr)
    return [read.get(operand, 0) for operand in jaxpr.invars]


_READS: Mapping[str, Callable[[JaxprEqn], list[int]]] = {
    **dict.fromkeys(("gather", "dynamic_slice", "slice"), _rows_read),
    **dict.fromkeys(("scatter", "dynamic_update_slice"), _overwritten_read),
    **dict.fromkeys(ACCUMULATIONS, _accumulated_read),
    **dict.fromkeys(CALLING, _call_read),
    "scan": _scan_read,
    "cond": _cond_read,
}


def _writes(jaxpr: Jaxpr, given: Sequence[int]) -> list[int]:
    """Return the bytes that are written for every result: rows are replaced in place.

    Args:
      jaxpr: what is run.
      given: the bytes that were written already for each of its operands.
    """
    written: dict[Var, int] = dict(zip(jaxpr.invars, given, strict=True))

    def of(variable: Var | Literal) -> int:
        return 0 if isinstance(variable, Literal) else written.get(variable, 0)

    for equation in jaxpr.eqns:
        rule = _WRITES.get(equation.primitive.name, _all_written)
        parts = rule(equation, [of(operand) for operand in equation.invars])
        for result, part in zip(equation.outvars, parts, strict=True):
            written[result] = min(_size(result), part)
    return [of(result) for result in jaxpr.outvars]


def _all_written(equation: JaxprEqn, before: Sequence[int]) -> list[int]:
    return [_size(result) for result in equation.outvars]


def _rows_written(equation: JaxprEqn, before: Sequence[int]) -> list[int]:
    return [before[0] + _size(equation.invars[2])]


def _slice_written(equation: JaxprEqn, before: Sequence[int]) -> list[int]:
    return [before[0] + _size(equation.invars[1])]


def _call_written(equation: JaxprEqn, before: Sequence[int]) -> list[int]:
    return _writes(called(equation), before)


def _scan_written(equation: JaxprEqn, before: Sequence[int]) -> list[int]:
    first, carries = equation.params["num_consts"], equation.params["num_carry"]
    body = equation.params["jaxpr"].jaxpr
    each = _writes(body, [0] * len(body.invars))[:carries]
    carried = [
        start + equation.params["length"] * part
        for start, part in zip(before[first : first + carries], each, strict=True)
    ]
    return [*carried, *(_size(result) for result in equation.outvars[carries:])]


def _cond_written(equation: JaxprEqn, before: Sequence[int]) -> list[int]:
    branches = [_writes(branch.jaxpr, before[1:]) for branch in equation.params["branches"]]
    return [max(column) for column in zip(*branches, strict=True)]


_WRITES: Mapping[str, Callable[[JaxprEqn, Sequence[int]], list[int]]] = {
    **dict.fromkeys(("scatter", *ACCUMULATIONS), _rows_written),
    **dict.fromkeys(CALLING, _call_written),
    "dynamic_update_slice": _slice_written,
    "scan": _scan_written,
    "cond": _cond_written,
}


def aval(variable: Var | Literal) -> Any:
    """Return shape, size and dtype, which the type of a variable does not promise."""
    return variable.aval


def _size(variable: Var | Literal) -> int:
    # A key has no item size of its own: two words.
    return aval(variable).size * getattr(aval(variable).dtype, "itemsize", 8)


def called(equation: JaxprEqn) -> Jaxpr:
    """Return what a call runs."""
    inner = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
    return getattr(inner, "jaxpr", inner)
