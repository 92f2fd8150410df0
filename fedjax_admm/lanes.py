"""Lanes: a batch of runs along the fastest axis, so that arithmetic fills the vector unit.

    jax.vmap(lanes(trial))(keys)

is `jax.vmap(trial)(keys)` with the same numbers up to the order of sums. `jax.vmap` puts the batch
first, so that XLA's loops on a CPU run along the short axes of one trial (3 coordinates, 21
clients), which leave a vector unit mostly empty. Here the loops (`jax.lax.scan`, and
`jax.lax.while_loop` where all trials stop together) are batched with the trials last: every
elementwise operation and every sum over clients runs along them. What all trials share (counts of
updates, schedules) is computed once for all, as under `jax.vmap`.

This pays where a round is elementwise work and short sums, and where the state of some sixteen
trials fits into a cache; products of matrices, sorting and indexing are better off with the batch
first (`suits_lanes` tells them apart, and such operations are batched by `jax.vmap` in lanes, too).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, jaxprs_in_params

_CALLS = {  # what holds a program that may stand in its place, and under which name
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
_ELEMENTWISE = frozenset(
    """abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp
    convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor
    ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or
    population_count pow reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh
    xor""".split()  # noqa: SIM905
)
_SUMS = frozenset(
    "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum".split()  # noqa: SIM905
)
# What `jax.vmap` batches well in the last place, too, or what is little work.
_LIGHT = frozenset(
    """bitcast_convert_type iota random_bits random_clone random_fold_in random_split random_unwrap
    random_wrap split""".split()  # noqa: SIM905
)


def lanes(function: Callable) -> Callable:
    """Return a function whose loops run with the batch last when it is batched by `jax.vmap`.

    On its own it computes what `function` computes, bit for bit. It has no derivative in reverse
    mode; derivatives inside of `function` are no matter.

    Args:
      function: a pure function of arrays, such as a trial of `monte_carlo`; traced at every call.

    Returns:
      A function of the same arguments, with the same results.
    """

    def with_lanes(*args: Any) -> Any:
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        results = _evaluate(traced, jax.tree.leaves(args))
        # What no argument decides comes back as a plain number.
        results = [
            result if isinstance(result, jax.Array) else jnp.asarray(result, aval.dtype)
            for result, aval in zip(results, traced.out_avals, strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return with_lanes


def computed_once(value: jax.Array) -> jax.Array:
    """Have XLA compute a value before what reads it, row by row; the value stays the same.

    XLA repeats whatever leads to a value in every loop that reads it: for each term of a sum, out
    of step with the vector unit, and for each row that is gathered. An optimisation barrier does
    not hinder it on a CPU; a layout that is asked for does.
    """
    return with_layout_constraint(value, Layout(tuple(range(value.ndim))))


def suits_lanes(program: ClosedJaxpr) -> bool:
    """Return whether a program has loops, and only of work that lanes do well.

    That is arithmetic entry by entry, sums, and rearrangements of known form.

    Args:
      program: what `jax.make_jaxpr` returns.
    """
    inside = [
        inner
        for equation in _equations(program.jaxpr)
        if equation.primitive.name in _LOOPS
        for body in jaxprs_in_params(equation.params)
        for inner in _equations(body)
    ]
    return bool(inside) and all(_is_suited(equation.primitive.name) for equation in inside)


def _is_suited(name: str) -> bool:
    return name in _ELEMENTWISE | _SUMS | _LIGHT or name in (*_CALLS, *_LOOPS, *_MOVES)


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from _equations(inner)


# --- as it was, but for the loops ---------------------------------------------------------------


def _evaluate(program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Compute a program whose loops are batched in lanes."""

    def compute(equation: Any, operands: list[Any]) -> Sequence[Any]:
        name = equation.primitive.name
        if name in _CALLS:
            return _evaluate(equation.params[_CALLS[name]], operands)
        if name in _LOOPS:
            return _loop(equation)(*operands)
        return _plain(equation)(*operands)

    return _through(program, args, compute)


def _through(
    program: ClosedJaxpr, args: Sequence[Any], compute: Callable[[Any, list[Any]], Sequence[Any]]
) -> list[Any]:
    """Go through the equations of a program; return what it returns."""
    jaxpr = program.jaxpr
    values = dict(zip(jaxpr.constvars, program.consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))

    def read(operand: Any) -> Any:
        return operand.val if hasattr(operand, "val") else values[operand]

    for equation in jaxpr.eqns:
        results = compute(equation, [read(operand) for operand in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [read(operand) for operand in jaxpr.outvars]


def _plain(equation: Any) -> Callable[..., Sequence[Any]]:
    """Return what an equation computes, as a function of its operands."""
    primitive = equation.primitive
    if primitive.multiple_results:
        return partial(primitive.bind, **equation.params)
    return lambda *operands: [primitive.bind(*operands, **equation.params)]


def _loop(equation: Any) -> Callable[..., Sequence[Any]]:
    """Return a loop that runs with the batch last when it is batched."""
    plain = _plain(equation)
    loop = custom_vmap(lambda *operands: tuple(plain(*operands)))

    @loop.def_vmap
    def _(size: int, batched: Sequence[bool], *operands: Any) -> tuple[Any, Any]:
        turned = [
            jnp.moveaxis(operand, 0, -1) if one else operand
            for operand, one in zip(operands, batched, strict=True)
        ]
        results, flags = _in_lanes(equation, turned, list(batched), size)
        turned = [
            jnp.moveaxis(result, -1, 0) if one else result
            for result, one in zip(results, flags, strict=True)
        ]
        return tuple(turned), tuple(flags)

    return loop


# --- with the batch last ------------------------------------------------------------------------


def _in_lanes(
    equation: Any, operands: Sequence[Any], flags: list[bool], size: int
) -> tuple[Sequence[Any], list[bool]]:
    """Compute an equation whose operands have the batch last, where their flags say so."""
    if not any(flags):
        return _plain_call(equation, operands), [False] * len(equation.outvars)
    name = equation.primitive.name
    out = _flags(equation, flags)
    if name in _CALLS:
        program = equation.params[_CALLS[name]]
        return _program_in_lanes(program, operands, flags, size), out
    if name in _RULES:
        return _RULES[name](equation, operands, flags, size), out
    if name in _ELEMENTWISE:
        shape = (*equation.outvars[0].aval.shape, size)
        spread = [_spread(*pair, shape) for pair in zip(operands, flags, strict=True)]
        return _plain(equation)(*spread), out
    if name in _SUMS:
        return _plain(equation)(computed_once(operands[0])), out
    return _batched_by_jax(equation, operands, flags), out


def _batched_by_jax(equation: Any, operands: Sequence[Any], flags: list[bool]) -> list[Any]:
    axes = [-1 if flag else None for flag in flags]
    results = jax.vmap(_plain(equation), axes, -1)(*operands)
    # JAX's check of reused keys takes a key whose axes were moved for the key that it was.
    return [jax.random.clone(result) if _is_key(result) else result for result in results]


def _is_key(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _plain_call(equation: Any, operands: Sequence[Any]) -> Sequence[Any]:
    name = equation.primitive.name
    if name in _CALLS:
        return jaxpr_as_fun(equation.params[_CALLS[name]])(*operands)
    return _plain(equation)(*operands)


def _program_in_lanes(
    program: ClosedJaxpr, args: Sequence[Any], flags: Sequence[bool], size: int
) -> list[Any]:
    known = dict(zip(program.jaxpr.invars, flags, strict=True))

    def compute(equation: Any, operands: list[Any]) -> Sequence[Any]:
        own = [known.get(o, False) if not hasattr(o, "val") else False for o in equation.invars]
        results, out = _in_lanes(equation, operands, own, size)
        known.update(zip(equation.outvars, out, strict=True))
        return results

    return _through(program, args, compute)


def _flags(equation: Any, flags: Sequence[bool]) -> list[bool]:
    """Return which results of an equation depend on the batch."""
    name = equation.primitive.name
    if name in _CALLS:
        return _program_flags(equation.params[_CALLS[name]], flags)
    if name == "scan":
        consts, carry = equation.params["num_consts"], equation.params["num_carry"]
        body = equation.params["jaxpr"]
        batched = _settled(
            body, flags[:consts], flags[consts : consts + carry], flags[consts + carry :]
        )
        rest = _program_flags(body, [*flags[:consts], *batched, *flags[consts + carry :]])[carry:]
        return [*batched, *rest]
    if name == "while":
        return _while_flags(equation, flags)
    return [any(flags)] * len(equation.outvars)


def _program_flags(program: ClosedJaxpr, flags: Sequence[bool]) -> list[bool]:
    def compute(equation: Any, operands: list[Any]) -> list[bool]:
        return _flags(equation, [operand is True for operand in operands])

    empty = ClosedJaxpr(program.jaxpr, [False] * len(program.consts))
    return [value is True for value in _through(empty, flags, compute)]


def _settled(body: ClosedJaxpr, before: Any, carry: Any, after: Any) -> list[bool]:
    """Return which entries of a carry depend on the batch in any turn."""
    while True:
        new = _program_flags(body, [*before, *carry, *after])[: len(carry)]
        wider = [one or other for one, other in zip(carry, new, strict=True)]
        if wider == list(carry):
            return wider
        carry = wider


def _while_flags(equation: Any, flags: Sequence[bool]) -> list[bool]:
    outer, inner = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    consts, carry = flags[outer : outer + inner], flags[outer + inner :]
    batched = _settled(equation.params["body_jaxpr"], consts, carry, [])
    stops = _program_flags(equation.params["cond_jaxpr"], [*flags[:outer], *batched])[0]
    return [True] * len(batched) if stops else batched


def _spread(value: Any, flag: bool, shape: tuple[int, ...]) -> Any:
    """Return a value in the shape of a whole lane; numbers and what has no batch are repeated."""
    rank = jnp.ndim(value)
    if jnp.shape(value) == shape:
        return value
    axes = (len(shape) - 1,) if flag and rank == 1 else tuple(range(rank))  # a number per trial
    return lax.broadcast_in_dim(value, shape, axes)


def _scan(equation: Any, operands: Sequence[Any], flags: list[bool], size: int) -> list[Any]:
    params = equation.params
    consts, carry = params["num_consts"], params["num_carry"]
    body, batched = params["jaxpr"], _flags(equation, flags)[: params["num_carry"]]
    inner = [*flags[:consts], *batched, *flags[consts + carry :]]
    first = _widened(
        operands[consts : consts + carry], flags[consts : consts + carry], batched, size
    )

    def turn(state: Any, row: Any) -> tuple[Any, Any]:
        results = _program_in_lanes(body, [*operands[:consts], *state, *row], inner, size)
        out = _program_flags(body, inner)
        return tuple(_widened(results[:carry], out[:carry], batched, size)), tuple(results[carry:])

    last, rows = lax.scan(
        turn,
        tuple(first),
        tuple(operands[consts + carry :]),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*last, *rows]


def _while(equation: Any, operands: Sequence[Any], flags: list[bool], size: int) -> Sequence[Any]:
    params = equation.params
    outer, inner = params["cond_nconsts"], params["body_nconsts"]
    start, batched = outer + inner, _while_flags(equation, flags)
    tests = _program_flags(params["cond_jaxpr"], [*flags[:outer], *batched])
    if tests[0]:  # every trial stops by itself
        return _batched_by_jax(equation, operands, flags)
    first = _widened(operands[start:], flags[start:], batched, size)
    body = [*flags[outer:start], *batched]

    def turn(state: Any) -> Any:
        program = params["body_jaxpr"]
        results = _program_in_lanes(program, [*operands[outer:start], *state], body, size)
        return tuple(_widened(results, _program_flags(program, body), batched, size))

    def unfinished(state: Any) -> Any:
        known = [*flags[:outer], *batched]
        return _program_in_lanes(params["cond_jaxpr"], [*operands[:outer], *state], known, size)[0]

    return lax.while_loop(unfinished, turn, tuple(first))


def _widened(values: Any, flags: Any, widened: Any, size: int) -> list[Any]:
    """Repeat what has no batch yet but will have one."""
    return [
        _spread(value, flag, (*jnp.shape(value), size)) if want and not flag else value
        for value, flag, want in zip(values, flags, widened, strict=True)
    ]


def _one(rule: Callable) -> Callable:
    """Return a rule for an operation of one operand, which has the batch."""
    return lambda equation, operands, flags, size: [rule(operands[0], equation.params, size)]


def _joined(equation: Any, operands: Any, flags: Any, size: int) -> list[Any]:
    whole = [
        _spread(value, flag, (*operand.aval.shape, size))
        for value, flag, operand in zip(operands, flags, equation.invars, strict=True)
    ]
    return [lax.concatenate(whole, equation.params["dimension"])]


def _sliced(value: Any, params: Any, size: int) -> Any:
    strides = params["strides"]
    return lax.slice(
        value,
        (*params["start_indices"], 0),
        (*params["limit_indices"], size),
        None if strides is None else (*strides, 1),
    )


def _broadcast(value: Any, params: Any, size: int) -> Any:
    shape, dimensions = params["shape"], params["broadcast_dimensions"]
    return lax.broadcast_in_dim(value, (*shape, size), (*dimensions, len(shape)))


_MOVES: dict[str, Callable] = {
    "broadcast_in_dim": _one(_broadcast),
    "reshape": _one(lambda value, params, size: lax.reshape(value, (*params["new_sizes"], size))),
    "squeeze": _one(lambda value, params, _: lax.squeeze(value, params["dimensions"])),
    "transpose": _one(
        lambda value, params, _: lax.transpose(value, (*params["permutation"], value.ndim - 1))
    ),
    "slice": _one(_sliced),
    "concatenate": _joined,
    "layout_constraint": _one(lambda value, *_: computed_once(value)),
}
_LOOPS: dict[str, Callable] = {"scan": _scan, "while": _while}
_RULES = {**_MOVES, **_LOOPS}
