"""The check of a part of an exchange, by its kind."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, count
from fedjax_admm.testing._aggregators import AGGREGATOR_CHECKS, Aggregator
from fedjax_admm.testing._attacks import ATTACK_CHECKS, Attack
from fedjax_admm.testing._channels import CHANNEL_CHECKS, DELAY_CHECKS, Channel, Delay
from fedjax_admm.testing._shared import demand_pytree, make, unfit

VALUES = np.random.default_rng(0).standard_normal((7, 3))
EXCHANGE_CHECKS = {
    "channel": CHANNEL_CHECKS,
    "aggregator": AGGREGATOR_CHECKS,
    "attack": ATTACK_CHECKS,
    "delay": DELAY_CHECKS,
}
# Kind -> its members, its bench, and the shapes of messages that are looked at. An attack can be
# called like an aggregator, and comes first.
_KINDS = {
    "channel": (("init", "encode", "bits", "in_order"), Channel, ((6,), (2, 3))),
    "attack": (("who", "init", "__call__"), Attack, ((3,),)),
    "delay": (("depth", "loses", "in_order", "draw"), Delay, ((),)),
    "aggregator": (("__call__",), Aggregator, ((),)),
}


def check_exchange_part(
    part: Any,
    *,
    shapes: Sequence[tuple[int, ...]] | None = None,
    senders: int = 8,
    values: ArrayLike = VALUES,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check a channel, an aggregator, an attack or a delay: its members tell the kind.

    All kinds:

    - `kind`: shapes and dtypes, float32 and float64; finite numbers; a state keeps its structure.
    - `vmap`: the same numbers under `jax.jit` and `jax.vmap`, in a batch of trials, each with its
      own numbers of the part, as one by one; no float is a static field.
    - `keys`: the same key gives the same, and no key is used twice (not of an aggregator).
    - `derivatives`: finite by all arguments and numbers, at ties and zeros too (not of a delay).

    A channel (`init`, `encode`, `bits`, `in_order`), for one message of one sender:

    - `bits`: a whole number.
    - `zeros`: zeros arrive as zeros.

    An aggregator, `(values, weights, groups, number, previous) -> one vector per group`:

    - `absent`: vectors of weight 0 do not matter, even if they are not finite.
    - `empty`: a group in which nobody is present keeps its previous vector.
    - `groups`: many groups give the same as one by one.

    An attack (`who`, `init` and a call that returns the messages and the memory):

    - `who`: bool, one per sender; one sender at least is honest.
    - `rows`: only present Byzantine senders send anything false; absent rows do not matter.

    A delay (`depth`, `loses`, `in_order` and `draw(key, index, number)`):

    - `waits`: none is negative, nor longer than the depth if no message is lost.

    Args:
      part: a pytree, as `messages.qsgd(4)` is.
      shapes: of a channel's or an attack's messages; if None, (6,) and (2, 3), or (3,).
      senders: of an attack or a delay, at least 5; where they are named, the number of names.
      values: of an aggregator, shape (vectors, dim), all different, as many as a group needs.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the part is of no kind or no pytree, or another argument does not fit.
    """
    kind = next((kind for kind, row in _KINDS.items() if all(hasattr(part, m) for m in row[0])), "")
    if not kind or isinstance(part, type):
        kinds = "a channel, an aggregator, an attack or a delay, as messages.qsgd(4) is one"
        raise unfit("part", part, kinds)
    demand_pytree("part", part)
    senders = count("senders", senders, at_least=5)
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or not np.all(np.isfinite(matrix)):
        raise InputError(
            f"must have the axes (vectors, dim), with two vectors or more, and be finite, but "
            f"their shape is {matrix.shape}",
            argument="values",
            value=values,
        )
    _, bench, usual = _KINDS[kind]
    for shape in usual if shapes is None else shapes:
        make(bench(part, tuple(shape), senders, matrix), EXCHANGE_CHECKS[kind], only)
