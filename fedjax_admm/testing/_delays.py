"""Checks of a delay: whole waits, a depth that is static, and links that bring what was sent."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count
from fedjax_admm._shown import short_repr
from fedjax_admm.messages import Exchange
from fedjax_admm.testing._messages import (
    check_part,
    demand_one_trace,
    demand_pure,
    demand_vmap,
    fresh,
    normal,
)
from fedjax_admm.testing._shared import cast, demand, demand_close, doing, make, name_of, unfit


@short_repr
class _Bench(NamedTuple):
    delay: Any
    senders: int
    rounds: int

    @property
    def name(self) -> str:
        return name_of(self.delay)


def check_delay(
    delay: Any,
    *,
    senders: int = 5,
    rounds: int = 16,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check a delay: `depth`, `loses`, `in_order`, and `draw(key, index, number)`.

    - `kind`: the depth is a whole number of Python, also where the delay is traced, at least 0;
      `loses` and `in_order` are bools; waits are int32, one per sender, with and without x64.
    - `waits`: none is negative; none is longer than the depth if no message is lost.
    - `links`: what is heard was said no longer ago than the depth, by that sender, and is newer
      than what was heard before; if no message is lost, something as new is heard within the depth
      (with a depth of 0 at once).
    - `resumes`: half of the rounds and the other half are all rounds, to the same bits.
    - `jit`: the same waits under `jax.jit`, and one trace for all numbers of the delay.
    - `vmap`: the same in many trials as in each alone, also if each has its own numbers.
    - `keys`: the same key and round give the same; no key is used twice.

    Args:
      delay: a pytree, as `messages.bounded_delay(3)` is.
      senders: as many as it has numbers for, if it has one for each.
      rounds: even, at least 2.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: it has not these members, is no pytree, or a count is out of range.
    """
    wanted = "a delay such as messages.bounded_delay(3)"
    check_part("delay", delay, ("depth", "loses", "in_order", "draw"), wanted)
    if count("rounds", rounds, at_least=2) % 2:
        raise unfit("rounds", rounds, "even")
    make(_Bench(delay, count("senders", senders), rounds), _CHECKS, only)


def _wait(b: _Bench, delay: Any, key: jax.Array, index: Any) -> jax.Array:
    return delay.draw(key, jnp.asarray(index, jnp.int32), b.senders)


def _kind(b: _Bench) -> None:
    traced = []

    def look(delay):
        traced.append(delay.depth)
        return 0

    with doing(f"{b.name}.depth of a delay that is traced"):
        jax.jit(look)(b.delay)
    for what, depth in (("", b.delay.depth), (" of a delay that is traced", traced[0])):
        demand(
            type(depth) is int and depth >= 0,
            f"{b.name}.depth{what} must be a whole Python number that is not negative, but it is "
            f"{depth!r}; register it as a static field.",
        )
    for name in ("loses", "in_order"):
        demand(
            type(getattr(b.delay, name)) is bool,
            f"{b.name}.{name} must be True or False, a part of the structure, but it is "
            f"{getattr(b.delay, name)!r}.",
        )
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            with doing(f"{b.name}.draw for {b.senders} senders"):
                waits = _wait(b, cast(b.delay, dtype), fresh(0), 0)
            found = getattr(waits, "dtype", type(waits).__name__)
            demand(
                found == jnp.int32 and waits.shape == (b.senders,),
                f"{b.name}.draw must return int32 of shape ({b.senders},), whole rounds, but it "
                f"returns {found} of shape {getattr(waits, 'shape', None)}.",
            )


def _waits(b: _Bench) -> None:
    indices = jnp.arange(b.rounds, dtype=jnp.int32)
    keys = jax.random.split(fresh(1), b.rounds)
    with doing(f"{b.name}.draw under jax.vmap, over rounds"):
        draws = jax.jit(jax.vmap(lambda key, index: _wait(b, b.delay, key, index)))(keys, indices)
    waits = np.asarray(draws)
    demand(
        np.all(waits >= 0),
        f"{b.name} must let messages wait 0 rounds or more, but one waits {waits.min()}.",
    )
    demand(
        b.delay.loses or np.all(waits <= b.delay.depth),
        f"{b.name} has loses=False, but a message waits {waits.max()} rounds, which is more than "
        f"its depth of {b.delay.depth}, and is never heard; cut waits to the depth, or let loses "
        "be True.",
    )


@short_repr
class _Sent(NamedTuple):
    """What is sent in a run, and with which waits."""

    values: jax.Array  # shape=(rounds, senders, 2)
    weights: jax.Array  # shape=(rounds, senders)
    sends: jax.Array  # shape=(rounds, senders), bool
    # shape=(rounds,), int32
    index: jax.Array  # pyright: ignore[reportIncompatibleMethodOverride]

    @classmethod
    def of(cls, b: _Bench) -> "_Sent":
        rng = np.random.default_rng(0)
        return cls(
            normal((b.rounds, b.senders, 2), np.float32),
            jnp.asarray(rng.uniform(0.5, 2, (b.rounds, b.senders)), jnp.float32),
            jnp.asarray(rng.random((b.rounds, b.senders)) < 0.7),
            jnp.arange(b.rounds, dtype=jnp.int32),
        )


@jax.jit
def _heard(exchange: Exchange, box: Any, sent: _Sent) -> Any:
    """Return the links after some rounds, and what arrives in each."""

    def turn(box, now):
        key = jax.random.fold_in(fresh(1), now.index)
        post, box = exchange.send_up(key, now.index, box, now.values, now.sends, now.weights)
        return box, (post.values, post.weights, post.arrived)

    return jax.lax.scan(turn, box, sent)


def _linked(b: _Bench, sent: _Sent) -> tuple[Exchange, Any]:
    exchange = Exchange(delay=b.delay)
    with doing(f"Links with {b.name}"):
        return exchange, exchange.init_up(fresh(0), sent.values[0], sent.weights[0])


def _links(b: _Bench) -> None:
    sent = _Sent.of(b)
    exchange, box = _linked(b, sent)
    with doing(f"Messages on links with {b.name}"):
        _, heard = _heard(exchange, box, sent)
    values, weights, arrived = map(np.asarray, heard)
    speaks = np.asarray(sent.sends)
    newest = np.full(b.senders, -1)
    for now, sender in np.ndindex(b.rounds, b.senders):
        if arrived[now, sender]:
            same = np.all(np.asarray(sent.values[:, sender]) == values[now, sender], -1)
            before = np.flatnonzero(same & speaks[:, sender])
            what = f"What is heard of sender {sender} in round {now} on links with {b.name}"
            demand(
                before.size == 1 and now - b.delay.depth <= before[0] <= now,
                f"{what} must be what it said in one of the last {b.delay.depth} rounds or now, "
                "but it is not; the longest wait must be the depth.",
            )
            demand(before[0] > newest[sender], f"{what} must be newer than what was heard before.")
            heavy = sent.weights[before[0], sender], weights[now, sender]
            demand_close(f"The weights of sender {sender}, sent and heard,", *heavy, 0.0, 0.0)
            newest[sender] = before[0]
        due = now - b.delay.depth
        demand(
            b.delay.loses or due < 0 or not speaks[due, sender] or newest[sender] >= due,
            f"{b.name} has loses=False, but of what sender {sender} said in round {due} nothing is "
            f"heard by round {now}, and nothing newer, with a depth of {b.delay.depth}.",
        )


def _resumes(b: _Bench) -> None:
    sent = _Sent.of(b)
    exchange, box = _linked(b, sent)
    with doing(f"Messages on links with {b.name}, in two parts"):
        whole = _heard(exchange, box, sent)
        parts = [jax.tree.map(lambda leaf, at=at: leaf[at], sent) for at in _halves(b.rounds // 2)]
        middle, first = _heard(exchange, box, parts[0])
        last, second = _heard(exchange, middle, parts[1])
    both = jax.tree.map(lambda *pair: jnp.concatenate(pair), first, second)
    where = f"The links with {b.name} after {b.rounds} rounds in two parts and at once"
    remedy = "Waits must follow from the key and the absolute number of the round."
    demand_close(where, (last, both), whole, 0.0, 0.0, remedy)


def _halves(half: int) -> tuple[slice, slice]:
    return slice(0, half), slice(half, None)


def _jit(b: _Bench) -> None:
    demand_one_trace(
        f"{b.name}.draw",
        b.delay,
        lambda delay, key, index: _wait(b, delay, key, index),
        lambda: (fresh(3), jnp.int32(1)),
        0.0,
    )


def _vmap(b: _Bench) -> None:
    demand_vmap(
        f"{b.name}.draw",
        b.delay,
        lambda delay, key, index: _wait(b, delay, key, index),
        lambda trial: (fresh(trial), jnp.int32(trial)),
        0.0,
    )


def _keys(b: _Bench) -> None:
    demand_pure(
        f"{b.name}.draw",
        lambda key, index: _wait(b, b.delay, key, index),
        lambda: (fresh(6), jnp.int32(2)),
    )


_CHECKS = {
    "kind": _kind,
    "waits": _waits,
    "links": _links,
    "resumes": _resumes,
    "jit": _jit,
    "vmap": _vmap,
    "keys": _keys,
}
DELAY_CHECKS: tuple[str, ...] = tuple(_CHECKS)
"""The names of the checks that `check_delay` makes."""
