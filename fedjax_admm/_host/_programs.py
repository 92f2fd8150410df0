"""How programs are compiled, and how long they are kept.

JAX keeps each program of a function for as long as the function is there: some 7 MB and 140 of the
65,530 memory maps that Linux gives a process. A notebook cell that runs again makes a new
lambda, and with it a new program; the old one is never used again. Each program therefore has a
function of its own here, and JAX drops the program with that function.
"""

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, wraps
from typing import Any, TypeVar

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, get_opaque_trace_state, jaxpr_as_fun

Result = TypeVar("Result")

NO_LIBRARY_REDUCTIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""For CPUs: XLA gives larger reductions to a library whose call costs 50 microseconds, 30 times
what a round of a small problem takes, and which passes over large arrays once more; its sums
depend on how many trials are computed together."""

with ThreadPoolExecutor(1) as _outside:  # a new thread traces nothing, wherever this is imported
    _NO_TRACE = _outside.submit(get_opaque_trace_state).result()

KEPT = 64
"""Programs of each function that are kept: those that were used last."""


def compiled(
    function: Callable[..., Result], *, donate: tuple[int, ...] = ()
) -> Callable[..., Result]:
    """Return what `jax.jit` makes of a function, with programs that are not kept for ever.

    Arguments by position are pytrees of arrays; those by name are static. The memory of the
    arguments whose places are in `donate` may serve for the result: they are deleted.
    """

    @lru_cache(KEPT)
    def program(structure: Any, kinds: tuple[Any, ...], alone: bool, **static: Hashable) -> Any:
        def of_leaves(*leaves: Any) -> Result:
            return function(*jax.tree.unflatten(structure, leaves), **static)

        of_leaves.__name__ = function.__name__
        options = _options() if alone else None
        given = leaves_at(donate, structure)
        return jax.jit(of_leaves, donate_argnums=given, compiler_options=options)

    @wraps(function)
    def call(*arrays: Any, **static: Hashable) -> Result:
        leaves, structure = jax.tree.flatten(arrays)
        # Inside of another program it is compiled with that one, whose options count.
        alone = get_opaque_trace_state() == _NO_TRACE
        return program(structure, tuple(map(_kind, leaves)), alone, **static)(*leaves)

    return call


def leaves_at(places: tuple[int, ...], structure: Any) -> list[int]:
    """Return the numbers of the leaves of some arguments in the structure of all."""
    ends = np.cumsum([0, *(part.num_leaves for part in structure.children())])
    return [leaf for place in places for leaf in range(ends[place], ends[place + 1])]


def compiled_alone(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return `compiled(function)` where nothing is traced, and the function itself where it is.

    Operations that run one by one outside of a program would each be compiled. The function itself
    also serves where an argument holds a function of a user's: what that reads may change.
    """
    program = compiled(function)

    @wraps(function)
    def call(*arrays: Any, **static: Hashable) -> Result:
        alone = get_opaque_trace_state() == _NO_TRACE
        known = all(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(arrays))
        return (program if alone and known else function)(*arrays, **static)

    return call


@cache
def known_options(**options: Any) -> dict[str, Any]:
    """Return options of the compiler, or none in a version of JAX that lacks one of them."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return {}
    return options


def _options() -> dict[str, Any]:
    return known_options(**NO_LIBRARY_REDUCTIONS)


def _kind(leaf: Any) -> tuple[Any, ...]:
    """Return shape and dtype; `jax.typeof` takes many times as long, and jit itself asks it."""
    return getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))


def compiled_once(function: Callable[..., Result], *arrays: Any) -> Result:
    """Compile a function, apply it to arrays, and keep no program.

    Arrays that it closes over are known while it is traced, but are no constants of the program.
    """
    program, shape = jax.make_jaxpr(function, return_shape=True)(*arrays)

    def evaluated(constants: list[Any], inputs: list[Any]) -> list[Any]:
        return jaxpr_as_fun(ClosedJaxpr(program.jaxpr, constants))(*inputs)

    alone = get_opaque_trace_state() == _NO_TRACE
    evaluated = jax.jit(evaluated, compiler_options=_options() if alone else None)
    leaves = evaluated(program.consts, jax.tree.leaves(arrays))
    return jax.tree.unflatten(jax.tree.structure(shape), leaves)
