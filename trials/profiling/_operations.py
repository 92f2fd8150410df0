"""How much a function computes, reads and writes, counted by a model from its jaxpr.

**Arithmetic** is one per element of every floating-point operation, scans multiplied by their
length. **Bytes** are what each iteration of a loop must read and write (`accessed_bytes`). A loop
whose body holds loops costs the larger of its own bytes and theirs, so that nothing is counted
twice. What a loop keeps in a cache never reaches the memory: there the bytes may exceed what the
machine copies.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn

from fedjax_admm._shown import short_repr
from fedjax_admm.trials.profiling._memory_access import (
    ACCUMULATIONS,
    CALLING,
    accessed_bytes,
    aval,
    called,
)


@short_repr
class OperationCounts(NamedTuple):
    """Arithmetic and bytes of a program, by the model at the top of this module."""

    flops: int  # floating-point operations
    bytes: int  # read and written
    unknown_loops: int = 0  # loops of unknown length, counted once: all else is "at least"

    def times(self, number: int) -> "OperationCounts":
        """Return the counts of a program that runs so many times."""
        return OperationCounts(self.flops * number, self.bytes * number, self.unknown_loops)


def count_operations(function: Callable, *args: Any) -> OperationCounts:
    """Count what a function computes, and what its loops read and write, without compiling it.

    Flops: one per element of a floating-point elementwise operation (a root or an exponential
    too), one per operand of a sum or another reduction, `2 m n k` for a product of matrices, the
    textbook counts of factorisations. Comparisons, selections, moves, integers and the bits of
    random numbers count nothing.

    Scans are multiplied by their length, which XLA's own `cost_analysis` is not: it counts the body
    of a loop once (a scan of 2 and of 100 products of matrices have the same count there). A loop
    that ends by a condition on data is counted once and reported; of a `cond` the dearest branch
    counts.

    Args:
      function: as for `jax.make_jaxpr`, such as a trial.
      *args: its arguments, or their shapes (`jax.ShapeDtypeStruct`).

    Returns:
      The counts of one call: of all devices together where the function spreads over several.
    """
    return _repeated_once(jax.make_jaxpr(function)(*args).jaxpr)


def _repeated_once(jaxpr: Jaxpr, first_carry: int = 0, carries: int = 0) -> OperationCounts:
    """Return the counts of one iteration: its own bytes, or those of its loops if they are more."""
    inside = _sum(jaxpr)
    return inside._replace(bytes=max(inside.bytes, accessed_bytes(jaxpr, first_carry, carries)))


def _sum(jaxpr: Jaxpr) -> OperationCounts:
    """Add up the equations; only loops read and write."""
    return _added([_COUNTS.get(one.primitive.name, _nothing)(one) for one in jaxpr.eqns])


def _added(parts: Sequence[OperationCounts]) -> OperationCounts:
    return OperationCounts(*map(sum, zip(OperationCounts(0, 0), *parts, strict=True)))


def _nothing(equation: JaxprEqn) -> OperationCounts:
    return OperationCounts(0, 0)


def _scan(equation: JaxprEqn) -> OperationCounts:
    constants, carries = equation.params["num_consts"], equation.params["num_carry"]
    body = _repeated_once(equation.params["jaxpr"].jaxpr, constants, carries)
    return body.times(equation.params["length"])


def _while(equation: JaxprEqn) -> OperationCounts:
    constants, results = equation.params["body_nconsts"], len(equation.outvars)
    body = _repeated_once(equation.params["body_jaxpr"].jaxpr, constants, results)
    test = _sum(equation.params["cond_jaxpr"].jaxpr)
    return _added([body, test, OperationCounts(0, 0, unknown_loops=1)])


def _cond(equation: JaxprEqn) -> OperationCounts:
    branches = [_sum(branch.jaxpr) for branch in equation.params["branches"]]
    return OperationCounts(*(max(column) for column in zip(*branches, strict=True)))


def _call(equation: JaxprEqn) -> OperationCounts:
    return _sum(called(equation))


def _shard_map(equation: JaxprEqn) -> OperationCounts:
    shape, by_hand = equation.params["mesh"].shape, equation.params["newly_manual_axes"]
    return _sum(equation.params["jaxpr"]).times(math.prod(shape[axis] for axis in by_hand))


def _linear_solve(equation: JaxprEqn) -> OperationCounts:
    return _sum(equation.params["jaxprs"].solve.jaxpr)


def _floating(count: Callable[[JaxprEqn], int]) -> Callable[[JaxprEqn], OperationCounts]:
    """Count an operation on floating-point numbers; on integers it counts nothing."""

    def counted(equation: JaxprEqn) -> OperationCounts:
        floating = any(jnp.issubdtype(aval(one).dtype, jnp.inexact) for one in equation.invars)
        return OperationCounts(count(equation) if floating else 0, 0)

    return counted


def _per_result(equation: JaxprEqn) -> int:
    return aval(equation.outvars[0]).size


def _per_operand(equation: JaxprEqn) -> int:
    return aval(equation.invars[0]).size


def _per_update(equation: JaxprEqn) -> int:
    return aval(equation.invars[2]).size


def _product(equation: JaxprEqn) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = aval(equation.invars[0])
    depth = math.prod(left.shape[axis] for axis in contracted)
    return 2 * aval(equation.outvars[0]).size * depth


def _cholesky(equation: JaxprEqn) -> int:
    matrix = aval(equation.invars[0])
    return matrix.size * matrix.shape[-1] // 3


def _lu(equation: JaxprEqn) -> int:
    return 2 * _cholesky(equation)


def _triangular_solve(equation: JaxprEqn) -> int:
    matrix, right = (aval(operand) for operand in equation.invars)
    return right.size * matrix.shape[-1]


# fmt: off
_ELEMENTWISE = (
    "abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atan2", "atanh", "cbrt",
    "ceil", "clamp", "cos", "cosh", "digamma", "div", "erf", "erfc", "erf_inv", "exp", "exp2",
    "expm1", "floor", "integer_pow", "lgamma", "log", "log1p", "logistic", "max", "min", "mul",
    "neg", "pow", "rem", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan",
    "tanh",
)
_REDUCTIONS = (
    "argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce_max",
    "reduce_min", "reduce_prod", "reduce_sum",
)
# fmt: on
_COUNTS: Mapping[str, Callable[[JaxprEqn], OperationCounts]] = {
    **dict.fromkeys(_ELEMENTWISE, _floating(_per_result)),
    **dict.fromkeys(_REDUCTIONS, _floating(_per_operand)),
    **dict.fromkeys(ACCUMULATIONS, _floating(_per_update)),
    **dict.fromkeys(CALLING, _call),
    "dot_general": _floating(_product),
    "cholesky": _floating(_cholesky),
    "lu": _floating(_lu),
    "triangular_solve": _floating(_triangular_solve),
    "custom_linear_solve": _linear_solve,
    "shard_map": _shard_map,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
