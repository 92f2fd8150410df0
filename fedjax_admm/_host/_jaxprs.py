"""What a traced program holds: programs inside equations, and arrays that it closes over."""

from collections.abc import Iterator
from typing import Any

import jax


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """Yield the programs that an equation holds: bodies of loops, branches, inner functions.

    Each is as the equation holds it: with the arrays that it closes over, where there are some.
    """
    for parameter in jax.tree.leaves(
        list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")
    ):
        if hasattr(getattr(parameter, "jaxpr", parameter), "eqns"):
            yield parameter


def equations(program: Any) -> Iterator[Any]:
    """Yield every equation of a program, those of inner programs included."""
    for equation in getattr(program, "jaxpr", program).eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from equations(inner)


def constants(program: Any) -> Iterator[Any]:
    """Yield every array and number that a program and its inner programs hold, in order."""
    yield from getattr(program, "consts", ())
    own = getattr(program, "jaxpr", program)
    for equation in own.eqns:
        yield from _literals(equation.invars)
        for inner in inner_jaxprs(equation):
            yield from constants(inner)
    yield from _literals(own.outvars)


def _literals(operands: Any) -> Iterator[Any]:
    return (operand.val for operand in operands if hasattr(operand, "val"))
