"""Checks that all parts of an exchange share: one trace, batches, derivatives and keys."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.testing._shared import (
    NO_BRANCH,
    SAFE,
    both_precisions,
    demand,
    demand_close,
    demand_finite,
    demand_no_static_numbers,
    demand_under_vmap,
    doing,
    is_float,
    name_of,
    with_floats,
)


@dataclass(frozen=True)
class Bench:
    """A part with what it is called with; each kind says how."""

    part: Any
    shape: tuple[int, ...] = (3,)  # of one message
    senders: int = 8
    values: Any = None  # of an aggregator, shape=(vectors, dim)

    method = ""  # that `call` calls
    rtol = 1e-5

    @property
    def name(self) -> str:
        """Return the name of the part in sentences."""
        return name_of(self.part)

    @property
    def where(self) -> str:
        """Return the name of what is called."""
        return self.name + self.method

    def call(self, part: Any, *arguments: Any) -> Any:
        """Call a part, and return arrays."""
        raise NotImplementedError

    def arguments(self, trial: int, dtype: Any = np.float32) -> tuple:
        """Return the arguments of `call` in a trial; keys are new ones, which count as unused."""
        raise NotImplementedError

    def smooth(self, part: Any, *arguments: Any) -> Any:
        """Return the arrays whose derivatives by the part and the arguments are checked."""
        raise NotImplementedError

    def places(self, dtype: Any) -> dict[str, tuple]:
        """Return the arguments of `smooth`, by what they are."""
        raise NotImplementedError


def fresh(number: int) -> jax.Array:
    """Return a typed key; a new array each time, from which nothing has been drawn."""
    return jax.random.key(number)


def normal(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> jax.Array:
    """Return normal numbers, the same for one seed in either precision."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _scaled(part: Any, factor: float) -> Any:
    return with_floats(part, lambda leaf: leaf * factor)


def _jit(b: Bench) -> None:
    demand_no_static_numbers(b.part)
    traces = 0

    @jax.jit
    def go(part: Any, *arguments: Any) -> Any:
        nonlocal traces
        traces += 1
        return b.call(part, *arguments)

    for factor in (1.0, 0.9):
        part = _scaled(b.part, factor)
        with doing(f"{b.where} under jax.jit", NO_BRANCH):
            compiled = go(part, *b.arguments(0))
        with doing(b.where):
            alone = b.call(part, *b.arguments(0))
        where = f"{b.where} with and without jax.jit"
        demand_close(where, compiled, alone, b.rtol, b.rtol)
    demand(
        traces == 1,
        f"{b.where} was traced {traces} times for two values of its numbers; make its numbers "
        "leaves that are arrays, not static fields.",
    )


def _vmap(b: Bench) -> None:
    def trials() -> list[tuple]:
        return [(_scaled(b.part, 1 - 0.1 * trial), *b.arguments(trial)) for trial in range(3)]

    demand_under_vmap(b.where, lambda one: b.call(*one), trials, b.rtol)


def _derivatives(b: Bench) -> None:
    def total(*arguments: Any) -> jax.Array:
        leaves = [leaf for leaf in jax.tree.leaves(b.smooth(*arguments)) if is_float(leaf)]
        return sum((jnp.sum(leaf**2) for leaf in leaves), jnp.zeros(()))

    for dtype, part in both_precisions(b.part):
        places = b.places(dtype)
        number = 1 + len(next(iter(places.values())))
        slope = jax.jit(jax.grad(total, tuple(range(number)), allow_int=True))
        for what, arguments in places.items():
            where = f"The derivative of {b.where} of {what}"
            with doing(where):
                slopes = slope(part, *arguments)
            demand_finite(where, slopes, SAFE)


def _keys(b: Bench) -> None:
    with doing(b.where):
        one, other = b.call(b.part, *b.arguments(0)), b.call(b.part, *b.arguments(0))
    remedy = "All that is random must follow from the key."
    demand_close(f"Two calls of {b.where} with the same key", one, other, 0.0, 0.0, remedy)
    with jax.debug_key_reuse(True), doing(b.where):
        jax.jit(lambda *arguments: b.call(b.part, *arguments))(*b.arguments(0))


FOR_ALL = {"jit": _jit, "vmap": _vmap, "keys": _keys}
FOR_SMOOTH = {**FOR_ALL, "derivatives": _derivatives}
