"""Operations that Mosaic GPU has no instruction for, spelled with those that it has."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal


def _pow(x: jax.Array, y: jax.Array) -> jax.Array:
    y = jnp.asarray(y).astype(x.dtype)
    return jnp.where(y == 0, 1.0, jnp.exp(y * jnp.log(x)))


def _integer_pow(x: jax.Array, *, y: int) -> jax.Array:
    if y < 0:
        return 1 / _integer_pow(x, y=-y)
    return jax.lax.integer_pow(x, y) if y > 1 else jnp.ones_like(x) if y == 0 else x


SPELLINGS = {
    "sqrt": lambda x, **_: x * jax.lax.rsqrt(x),
    "pow": _pow,
    "integer_pow": _integer_pow,
    "log1p": lambda x, **_: jnp.log(1 + x),
    "expm1": lambda x, **_: jnp.exp(x) - 1,
}
"""Operations spelled with others, for positive arguments: counts, lengths and scales."""

INSTRUCTIONS = frozenset(
    {
        "abs",
        "add",
        "and",
        "broadcast_in_dim",
        "clamp",
        "convert_element_type",
        "cos",
        "div",
        "eq",
        "exp",
        "exp2",
        "ge",
        "gt",
        "le",
        "log",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "rem",
        "rsqrt",
        "select_n",
        "sign",
        "sin",
        "square",
        "sub",
        "tanh",
    }
)
"""Elementwise operations that Mosaic GPU lowers."""


def _inner(equation) -> ClosedJaxpr | None:
    """Return the program of a plain call, such as that of a function under `jax.jit`."""
    name = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr"}.get(equation.primitive.name)
    return None if name is None else equation.params[name]


def respelled(function: Callable) -> Callable:
    """Return the same function without the operations of `SPELLINGS`."""

    def evaluated(*arguments):
        program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _evaluate(program, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return evaluated


def _evaluate(program, arguments: list) -> list:
    """Evaluate a closed program operation by operation, respelling them on the way."""
    jaxpr = program.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom):
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        inputs = [value(atom) for atom in equation.invars]
        name = equation.primitive.name
        if (inner := _inner(equation)) is not None:
            results = _evaluate(inner, inputs)
        elif name in SPELLINGS:
            results = [SPELLINGS[name](*inputs, **equation.params)]
        else:
            results = equation.primitive.bind(*inputs, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
        known.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def operations(program) -> set[str]:
    """Return the names of all operations of a closed program."""
    names = set()
    for equation in program.jaxpr.eqns:
        inner = _inner(equation)
        names |= {equation.primitive.name} if inner is None else operations(inner)
    return names
