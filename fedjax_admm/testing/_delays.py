"""Checks of a delay: whole waits, a static depth, and links that deliver in time."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.messages import Exchange
from fedjax_admm.testing._parts import FOR_ALL, Bench, fresh, normal
from fedjax_admm.testing._shared import both_precisions, demand, demand_close, doing

_ROUNDS = 16


class Delay(Bench):
    """A delay, with a number of senders."""

    method = ".draw"
    rtol = 0.0

    def call(self, part: Any, *arguments: Any) -> Any:
        """Draw the waits of a round."""
        key, index = arguments
        return part.draw(key, jnp.asarray(index, jnp.int32), self.senders)

    def arguments(self, trial: int, dtype: Any = np.float32) -> tuple:
        """Return a key and a round."""
        return fresh(trial), jnp.int32(trial)


def _kind(b: Delay) -> None:
    traced = []

    def look(delay):
        traced.append(delay.depth)
        return 0

    with doing(f"{b.name}.depth of a delay that is traced"):
        jax.jit(look)(b.part)
    for what, depth in (("", b.part.depth), (" of a delay that is traced", traced[0])):
        demand(
            type(depth) is int and depth >= 0,
            f"{b.name}.depth{what} must be a whole Python number that is not negative, but it is "
            f"{depth!r}; register it as a static field.",
        )
    for name in ("loses", "in_order"):
        demand(
            type(getattr(b.part, name)) is bool,
            f"{b.name}.{name} must be True or False, a part of the structure, but it is "
            f"{getattr(b.part, name)!r}.",
        )
    for _, delay in both_precisions(b.part):
        with doing(f"{b.where} for {b.senders} senders"):
            waits = b.call(delay, *b.arguments(0))
        dtype, shape = getattr(waits, "dtype", type(waits)), getattr(waits, "shape", None)
        demand(
            dtype == jnp.int32 and shape == (b.senders,),
            f"{b.where} must return int32 of shape ({b.senders},), whole rounds, but it returns "
            f"{dtype} of shape {shape}.",
        )


def _waits(b: Delay) -> None:
    draw = jax.jit(jax.vmap(lambda key, index: b.call(b.part, key, index)))
    with doing(f"{b.where} under jax.vmap, over rounds"):
        keys = jax.random.split(fresh(1), _ROUNDS)
        waits = np.asarray(draw(keys, jnp.arange(_ROUNDS, dtype=jnp.int32)))
    demand(
        np.all(waits >= 0),
        f"{b.name} must let messages wait 0 rounds or more, but one waits {waits.min()}.",
    )
    demand(
        b.part.loses or np.all(waits <= b.part.depth),
        f"{b.name} has loses=False, but a message waits {waits.max()} rounds, which is more than "
        f"its depth of {b.part.depth}, and is never heard; cut waits to the depth, or let loses "
        "be True.",
    )


@jax.jit
def _deliver(exchange: Exchange, links: Any, sent: tuple) -> Any:
    """Return the values, the weights and the arrivals of all rounds."""

    def one_round(links, now):
        values, weights, sends, index = now
        key = jax.random.fold_in(fresh(1), index)
        post, links = exchange.send_up(key, index, links, values, sends, weights)
        return links, (post.values, post.weights, post.arrived)

    return jax.lax.scan(one_round, links, sent)[1]


def _links(b: Delay) -> None:
    rng = np.random.default_rng(0)
    values = normal((_ROUNDS, b.senders, 2))
    weights = jnp.asarray(rng.uniform(0.5, 2, (_ROUNDS, b.senders)), jnp.float32)
    sends = rng.random((_ROUNDS, b.senders)) < 0.7
    exchange = Exchange(delay=b.part)
    with doing(f"Messages on links with {b.name}"):
        links = exchange.init_up(fresh(0), values[0], weights[0])
        rounds = jnp.arange(_ROUNDS, dtype=jnp.int32)
        delivered = _deliver(exchange, links, (values, weights, jnp.asarray(sends), rounds))
    arrives, heavy, arrived = map(np.asarray, delivered)
    newest, depth = np.full(b.senders, -1), b.part.depth
    for now, sender in np.ndindex(_ROUNDS, b.senders):
        if arrived[now, sender]:
            same = np.all(np.asarray(values[:, sender]) == arrives[now, sender], -1)
            origin = np.flatnonzero(same & sends[:, sender])
            what = f"The message of sender {sender} in round {now} on links with {b.name}"
            demand(
                origin.size == 1 and now - depth <= origin[0] <= now,
                f"{what} must have been sent in one of the last {depth} rounds or now, but it was "
                "not; the longest wait must be the depth.",
            )
            demand(origin[0] > newest[sender], f"{what} must be newer than the one before it.")
            pair = weights[origin[0], sender], heavy[now, sender]
            demand_close(f"The weights of sender {sender}, sent and heard,", *pair, 0.0, 0.0)
            newest[sender] = origin[0]
        due = now - depth
        demand(
            b.part.loses or due < 0 or not sends[due, sender] or newest[sender] >= due,
            f"{b.name} has loses=False, but of what sender {sender} said in round {due} nothing is "
            f"heard by round {now}, and nothing newer, with a depth of {depth}.",
        )


DELAY_CHECKS = {"kind": _kind, "waits": _waits, "links": _links, **FOR_ALL}
