"""Checks of an attack: it changes the messages of present Byzantine senders, and no others."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.testing._parts import FOR_SMOOTH, Bench, normal
from fedjax_admm.testing._shared import (
    both_precisions,
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    demand_same_form,
    demand_stacked,
    doing,
)


class Attack(Bench):
    """An attack, with a number of senders and the shape of their messages."""

    @property
    def masks(self) -> tuple[jax.Array, jax.Array]:
        """Return who is Byzantine, and who is present: 1 and 4 are both."""
        rows = np.arange(self.senders)
        return jnp.asarray((rows % 3 == 1) | (rows == 0)), jnp.asarray((rows != 0) & (rows != 3))

    def messages(self, dtype: Any = np.float32, seed: int = 0) -> jax.Array:
        """Return honest messages."""
        return normal((self.senders, *self.shape), dtype, seed)

    def call(self, part: Any, *arguments: Any) -> Any:
        values, key = arguments
        first, key = jax.random.split(key)
        byzantine, present = self.masks
        memory = part(values + 1, byzantine, present | True, part.init(values), first)[1]
        return part(values, byzantine, present, memory, key)

    def arguments(self, trial: int) -> tuple:
        return self.messages(seed=10 + trial), jax.random.key(trial)

    def smooth(self, part: Any, *arguments: Any) -> Any:
        return self.call(part, *arguments, jax.random.key(5))[0]

    def places(self, dtype: Any) -> dict[str, tuple]:
        values = self.messages(dtype)
        ones = jnp.ones_like(values)
        return {"values": (values,), "equal values": (ones,), "zeros": (0 * ones,)}


@jax.jit
def _attack(attack, values, byzantine, present, memory, key):
    return attack(values, byzantine, present, memory, key)


def _who(b: Attack) -> None:
    with doing(f"{b.name}.who of {b.senders} senders under jax.vmap, over keys"):
        draw = jax.jit(jax.vmap(lambda key: b.part.who(key, b.senders)))
        byzantine = np.asarray(draw(jax.random.split(jax.random.key(1), 64)))
    demand(
        byzantine.dtype == np.bool_ and byzantine.shape[1:] == (b.senders,),
        f"{b.name}.who must return a bool array of shape {(b.senders,)}, but it returns "
        f"{byzantine.dtype} of shape {byzantine.shape[1:]}.",
    )
    honest = np.sum(~byzantine, -1)
    demand(
        np.all(honest >= 1),
        f"{b.name}.who must leave one sender honest, but in {np.sum(honest == 0)} of 64 draws all "
        f"{b.senders} are Byzantine.",
    )


def _kind(b: Attack) -> None:
    for dtype, attack in both_precisions(b.part):
        values = b.messages(dtype)
        with doing(f"{b.name}.init"):
            memory = attack.init(values)
        demand_stacked(f"{b.name}.init, the memory of senders,", memory, b.senders)
        with doing(f"{b.name} of values of dtype {np.dtype(dtype).name}"):
            result, new = _attack(attack, values, *b.masks, memory, jax.random.key(0))
        demand_kind(b.name, result, values.shape, dtype)
        demand_finite(f"The messages of {b.name}", result)
        demand_same_form(b.name, "a memory", memory, new)


def _rows(b: Attack) -> None:
    byzantine, present = b.masks
    values, key = b.messages(), jax.random.key(0)
    memory = b.part.init(values)
    result = np.asarray(_attack(b.part, values, byzantine, present, memory, key)[0])
    truthful = np.asarray(~(byzantine & present))
    changes = np.any(result != np.asarray(values), tuple(range(1, result.ndim)))
    for row in np.flatnonzero(truthful & changes):
        why = "is not Byzantine" if not byzantine[row] else "is absent"
        raise AssertionError(
            f"{b.name} must change the rows of present Byzantine senders alone, but it changes row "
            f"{row}, which {why}; take jnp.where over byzantine & present."
        )
    for what in (1e3, np.nan):
        wild = jnp.where(jnp.expand_dims(present, range(1, values.ndim)), values, what)
        with doing(f"{b.name} where some are absent"):
            other = _attack(b.part, wild, byzantine, present, memory, key)[0]
        where = f"Byzantine messages under {b.name} with {what:g} in absent rows, and without,"
        remedy = "Statistics are those of present & ~byzantine, by jnp.where and not by a product."
        demand_close(where, other[~truthful], result[~truthful], 0.0, 0.0, remedy)
    everybody = jnp.ones_like(byzantine)
    result = _attack(b.part, values, everybody, everybody, memory, key)[0]
    demand_finite(f"The messages of {b.name} where everybody is Byzantine", result)


ATTACK_CHECKS = {"who": _who, "kind": _kind, "rows": _rows, **FOR_SMOOTH}
