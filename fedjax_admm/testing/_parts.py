"""Checks that all parts of an exchange share: batches, derivatives and keys."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.testing._shared import (
    SAFE,
    both_precisions,
    demand_close,
    demand_finite,
    demand_no_static_numbers,
    doing,
    is_float,
    name_of,
    stack,
    with_floats,
)


@dataclass(frozen=True)
class Bench:
    """A part with the arguments that it is called with; each kind has its own."""

    part: Any
    shape: tuple[int, ...] = (3,)  # of one message
    senders: int = 8
    values: Any = None  # of an aggregator, shape=(vectors, dim)

    method = ""  # that `call` calls
    rtol = 1e-5

    @property
    def name(self) -> str:
        """The name of the part in sentences."""
        return name_of(self.part)

    @property
    def where(self) -> str:
        """The name of what is called."""
        return self.name + self.method

    def call(self, part: Any, *arguments: Any) -> Any:
        """Call a part, and return arrays."""
        raise NotImplementedError

    def arguments(self, trial: int) -> tuple:
        """Return the arguments of `call` in a trial, with a new key."""
        raise NotImplementedError

    def smooth(self, part: Any, *arguments: Any) -> Any:
        """Return the arrays whose derivatives are checked."""
        raise NotImplementedError

    def places(self, dtype: Any) -> dict[str, tuple]:
        """Return the arguments of `smooth`, by what they are."""
        raise NotImplementedError


def normal(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> jax.Array:
    """Return normal numbers, the same for one seed in either precision."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _vmap(b: Bench) -> None:
    demand_no_static_numbers(b.part)

    def trials() -> list[tuple]:
        factors = (1.0, 0.9, 0.8)
        parts = [with_floats(b.part, lambda leaf, f=factor: leaf * f) for factor in factors]
        return [(part, *b.arguments(trial)) for trial, part in enumerate(parts)]

    with doing(f"{b.where} under jax.jit and jax.vmap, over arguments and numbers"):
        together = jax.jit(jax.vmap(lambda one: b.call(*one)))(stack(trials()))
    with doing(b.where):
        alone = stack([b.call(*one) for one in trials()])
    where = f"{b.where} under jax.jit and jax.vmap, and one by one,"
    demand_close(where, together, alone, b.rtol, b.rtol)


def _derivatives(b: Bench) -> None:
    def total(*arguments: Any) -> jax.Array:
        leaves = [leaf for leaf in jax.tree.leaves(b.smooth(*arguments)) if is_float(leaf)]
        return sum((jnp.sum(leaf**2) for leaf in leaves), jnp.zeros(()))

    for dtype, part in both_precisions(b.part):
        for what, arguments in b.places(dtype).items():
            where = f"The derivative of {b.where} of {what}"
            slope = jax.grad(total, tuple(range(1 + len(arguments))), allow_int=True)
            with doing(where):
                slopes = jax.jit(slope)(part, *arguments)
            demand_finite(where, slopes, SAFE)


def _keys(b: Bench) -> None:
    with doing(b.where):
        one, other = b.call(b.part, *b.arguments(0)), b.call(b.part, *b.arguments(0))
    remedy = "All that is random must follow from the key."
    demand_close(f"Two calls of {b.where} with the same key", one, other, 0.0, 0.0, remedy)
    with jax.debug_key_reuse(True), doing(b.where):
        jax.jit(lambda *arguments: b.call(b.part, *arguments))(*b.arguments(0))


FOR_ALL = {"vmap": _vmap, "keys": _keys}
FOR_SMOOTH = {**FOR_ALL, "derivatives": _derivatives}
