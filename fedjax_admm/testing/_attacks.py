"""Checks of an attack: that nobody but Byzantine senders sends false messages, and its memory."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count
from fedjax_admm._shown import short_repr
from fedjax_admm.testing._messages import (
    both_precisions,
    check_part,
    demand_derivatives,
    demand_one_trace,
    demand_pure,
    demand_same_state,
    demand_vmap,
    fresh,
    normal,
)
from fedjax_admm.testing._shared import (
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    make,
    name_of,
)


@short_repr
class _Bench(NamedTuple):
    attack: Any
    senders: int
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return name_of(self.attack)

    @property
    def masks(self) -> tuple[jax.Array, jax.Array]:
        """Return which senders are Byzantine, and present: 1 and 4 are both."""
        rows = np.arange(self.senders)
        return jnp.asarray((rows % 3 == 1) | (rows == 0)), jnp.asarray((rows != 0) & (rows != 3))

    def values(self, dtype: Any, seed: int = 0) -> jax.Array:
        return normal((self.senders, *self.shape), dtype, seed)


def check_attack(
    attack: Any,
    *,
    senders: int = 8,
    shape: tuple[int, ...] = (3,),
    only: str | Sequence[str] | None = None,
) -> None:
    """Check an attack: `who`, `init`, and what is told in the place of the truth.

    - `who`: bool, one per sender, the same for the same key; one sender at least is honest.
    - `kind`: what is told has the shape and the dtype of the values, float32 and float64, and is
      finite; the memory keeps its structure, shapes and dtypes, stacked over senders.
    - `rows`: only who is Byzantine and present sends anything false; nobody does where nobody is
      Byzantine; what stands in the rows of the absent does not matter.
    - `some`: it can be called for some senders, with their rows of the memory.
    - `scan`: rounds in a `jax.lax.scan` are the same as one by one.
    - `jit`: the same numbers under `jax.jit`, and one trace for all numbers of the attack.
    - `vmap`: the same in many trials as in each alone, also if each has its own numbers.
    - `derivatives`: finite by values and numbers; also where values are equal, or zero.
    - `keys`: the same key gives the same; no key is used twice.

    Args:
      attack: a pytree, as `messages.sign_flip(0.2)` is.
      senders: at least 5; where Byzantine senders are named, as many as there are names.
      shape: of one message.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: it has not these members, is no pytree, or there are fewer senders.
    """
    wanted = "an attack such as messages.sign_flip(0.2)"
    check_part("attack", attack, ("who", "init", "__call__"), wanted)
    bench = _Bench(attack, count("senders", senders, at_least=5), tuple(shape))
    make(bench, _CHECKS, only)


def _told(attack, values, byzantine, present, memory, key):
    return attack(values, byzantine, present, memory, key)


_tell = jax.jit(_told)


def _after_another(attack, values, byzantine, present, key):
    """Return what is told after a round in which everybody said something else."""
    first, key = jax.random.split(key)
    memory = attack.init(values)
    memory = attack(values + 1, byzantine, present | True, memory, first)[1]
    return attack(values, byzantine, present, memory, key)


def _who(b: _Bench) -> None:
    draw = jax.jit(lambda attack, key: attack.who(key, b.senders))
    with doing(f"{b.name}.who of {b.senders} senders"):
        byzantine = draw(b.attack, fresh(0))
    _demand_mask(f"{b.name}.who", byzantine, (b.senders,))
    with doing(f"{b.name}.who under jax.vmap, over keys"):
        many = jax.jit(jax.vmap(lambda key: b.attack.who(key, b.senders)))(
            jax.random.split(fresh(1), 64)
        )
    honest = np.sum(~np.asarray(many), -1)
    demand(
        np.all(honest >= 1),
        f"{b.name}.who must leave one sender honest, but in {np.sum(honest == 0)} of 64 draws all "
        f"{b.senders} are Byzantine.",
    )
    demand_pure(f"{b.name}.who", lambda key: b.attack.who(key, b.senders), lambda: (fresh(0),))


def _demand_mask(where: str, found: Any, shape: tuple[int, ...]) -> None:
    """Demand a bool array of a shape."""
    dtype = getattr(found, "dtype", type(found).__name__)
    demand(
        dtype == np.bool_ and found.shape == shape,
        f"{where} must return a bool array of shape {shape}, but it returns {dtype} of shape "
        f"{getattr(found, 'shape', None)}.",
    )


def _kind(b: _Bench) -> None:
    byzantine, present = b.masks
    for attack, dtype in both_precisions(b.attack):
        values = b.values(dtype)
        with doing(f"{b.name}.init"):
            memory = attack.init(values)
        for path, leaf in jax.tree.leaves_with_path(memory):
            demand(
                leaf.shape[:1] == (b.senders,),
                f"{b.name}.init must return what is remembered of each of {b.senders} senders, "
                f"stacked, but {jax.tree_util.keystr(path) or 'it'} has shape {leaf.shape}.",
            )
        with doing(f"{b.name} of values of dtype {np.dtype(dtype).name}"):
            told, new = _tell(attack, values, byzantine, present, memory, fresh(0))
        demand_kind(b.name, told, values.shape, dtype)
        demand_finite(f"What {b.name} tells", told)
        demand_same_state(b.name, "a memory", memory, new)


def _rows(b: _Bench) -> None:
    byzantine, present = b.masks
    values, memory = b.values(np.float32), b.attack.init(b.values(np.float32))
    told = np.asarray(_tell(b.attack, values, byzantine, present, memory, fresh(0))[0])
    quiet = np.asarray(~(byzantine & present))
    changed = np.flatnonzero(quiet & np.any(told != np.asarray(values), tuple(range(1, told.ndim))))
    if changed.size:
        row = int(changed[0])
        why = "is not Byzantine" if not byzantine[row] else "is absent"
        raise AssertionError(
            f"{b.name} must change the rows of present Byzantine senders alone, but it changes row "
            f"{row}, which {why}; take jnp.where over byzantine & present."
        )
    nobody = jnp.zeros_like(byzantine)
    truth = _tell(b.attack, values, nobody, present, memory, fresh(0))[0]
    where = f"{b.name} where nobody is Byzantine, and the truth,"
    demand_close(where, truth, values, 0.0, 0.0)

    rows = jnp.expand_dims(present, range(1, values.ndim))
    for what in (1e3, np.nan):
        wild = jnp.where(rows, values, what)
        with doing(f"{b.name} where some are absent"):
            other = _tell(b.attack, wild, byzantine, present, memory, fresh(0))[0]
        demand_close(
            f"Byzantine messages under {b.name} with {what:g} in absent rows, and without,",
            other[~quiet],
            told[~quiet],
            0.0,
            0.0,
            "Statistics are those of present & ~byzantine, by jnp.where and not by a product.",
        )
    everybody = _tell(b.attack, values, ~nobody, ~nobody, memory, fresh(0))[0]
    demand_finite(f"What {b.name} tells where everybody is Byzantine", everybody)


def _some(b: _Bench) -> None:
    byzantine, present = b.masks
    rows = jnp.asarray([4, 1, 2], jnp.int32)
    values = b.values(np.float32)
    memory = jax.tree.map(lambda leaf: leaf[rows], b.attack.init(values))
    with doing(f"{b.name} of 3 senders of {b.senders}"):
        told, new = _tell(b.attack, values[rows], byzantine[rows], present[rows], memory, fresh(0))
    demand_kind(f"{b.name} of 3 senders", told, values[rows].shape, values.dtype)
    demand_same_state(f"{b.name} of 3 senders", "a memory", memory, new)


def _scan(b: _Bench) -> None:
    byzantine, present = b.masks
    values = jnp.stack([b.values(np.float32, seed) for seed in range(4)])
    first = b.attack.init(values[0])

    def tell(memory, given):
        told, memory = b.attack(given[0], byzantine, present, memory, given[1])
        return memory, told

    with doing(f"{b.name} in a jax.lax.scan"):
        last, found = jax.jit(lambda *given: jax.lax.scan(tell, given[0], given[1:]))(
            first, values, jax.random.split(fresh(2), 4)
        )
    memory, alone = first, []
    for row, key in zip(values, jax.random.split(fresh(2), 4), strict=True):
        told, memory = _tell(b.attack, row, byzantine, present, memory, key)
        alone.append(told)
    where = f"Four rounds of {b.name} in a jax.lax.scan and one by one"
    demand_close(where, (found, last), (jnp.stack(alone), memory), 1e-5, 1e-5)


def _jit(b: _Bench) -> None:
    given = b.values(np.float32), *b.masks
    demand_one_trace(b.name, b.attack, _after_another, lambda: (*given, fresh(3)), 1e-5)
    who = f"{b.name}.who"
    demand_one_trace(who, b.attack, lambda a, key: a.who(key, b.senders), lambda: (fresh(3),), 0.0)


def _vmap(b: _Bench) -> None:
    def given(trial):
        return b.values(np.float32, 10 + trial), *b.masks, fresh(trial)

    demand_vmap(b.name, b.attack, _after_another, given, 1e-5)


def _derivatives(b: _Bench) -> None:
    byzantine, present = b.masks
    for attack, dtype in both_precisions(b.attack):
        values = b.values(dtype)
        demand_derivatives(
            f"what {b.name} tells",
            lambda attack, rows: _after_another(attack, rows, byzantine, present, fresh(5))[0],
            {
                "values": (attack, values),
                "equal values": (attack, jnp.ones_like(values)),
                "zeros": (attack, jnp.zeros_like(values)),
            },
            (0, 1),
        )


def _keys(b: _Bench) -> None:
    given = b.values(np.float32), *b.masks
    memory = b.attack.init(given[0])
    demand_pure(b.name, lambda *rest: b.attack(*given, memory, *rest), lambda: (fresh(6),))


_CHECKS = {
    "who": _who,
    "kind": _kind,
    "rows": _rows,
    "some": _some,
    "scan": _scan,
    "jit": _jit,
    "vmap": _vmap,
    "derivatives": _derivatives,
    "keys": _keys,
}
ATTACK_CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the checks that `check_attack` makes."""
