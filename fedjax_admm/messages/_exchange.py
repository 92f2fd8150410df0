"""The exchange: everything that can happen to messages between senders and receivers.

    attack       what a Byzantine sender sends in the place of its message
    channel      compression on the way up; another channel on the way down
    delay        when a message arrives, if ever
    aggregator   one vector from the last messages of all senders, or from those of a round

Every solver whose clients send has a field `exchange`. Its memory is a `ChannelState`, stacked over
senders, in the solver's state. The default exchange is `plain`: messages arrive as they are, and
nothing is remembered.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import build, declared, having, instance, refuse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._threefry import fold_in, split
from fedjax_admm.messages._channels import Channel, Identity
from fedjax_admm.messages.aggregators._aggregators import Aggregator, Mean
from fedjax_admm.messages.attacks._attacks import Attack, NoAttack
from fedjax_admm.messages.delays._delays import Delay, Prompt, Transit, move, open_transit
from fedjax_admm.participation import where_active
from fedjax_admm.traffic import NUMBER, Traffic

# Folded into the key of a round, of which solvers take small numbers if any.
_EXCHANGE = 0x6D657373
_CHANNEL = ("init", "encode", "bits", "in_order")


class ChannelState(NamedTuple):
    """Memory of the messages of one direction, stacked over senders."""

    channel: Any  # of the channel, of every sender
    memory: Any  # of the attack
    transit: Transit | tuple[()]  # what is on its way; nothing without delays
    known: jax.Array  # shape=(senders, ...): what was heard last of everybody
    weights: jax.Array  # shape=(senders,): with which weight
    byzantine: jax.Array  # shape=(senders,), bool
    last: Any  # shape=(receivers, ...): what the aggregator returned last


class Delivery(NamedTuple):
    """Result of sending the messages of a round."""

    coded: jax.Array  # shape=(sending, ...): what the channel leaves of every message, which its
    # sender knows, too
    byzantine: jax.Array  # shape=(sending,), bool: which of them are false
    values: jax.Array  # shape=(heard of, ...): what may arrive in this round
    weights: jax.Array  # shape=(heard of,)
    arrived: jax.Array  # shape=(heard of,), bool: what does


def _part(default: type, *methods: str, kind: str) -> Any:
    """Declare a part of an exchange; None stands for the default, which does nothing."""
    check_methods = having(*methods, kind=kind, default=default)

    def check(name: str, value: Any) -> Any:
        refuse(name == "aggregator" and hasattr(value, "who"), name, f"must be {kind}", value)
        return check_methods(name, value)

    return declared(check, default=default)


@pytree_dataclass
class Exchange:
    """Attack, channels, delay and aggregator of messages; build it with `exchange`."""

    up: Channel = _part(Identity, *_CHANNEL, kind="a channel such as qsgd(4)")
    down: Channel = _part(Identity, *_CHANNEL, kind="a channel such as qsgd(4)")
    aggregator: Aggregator = _part(Mean, "__call__", kind="an aggregator such as trimmed_mean(0.2)")
    attack: Attack = _part(NoAttack, "who", "init", kind="an attack such as sign_flip(0.1)")
    delay: Delay = _part(
        Prompt, "draw", "depth", "loses", "in_order", kind="a delay such as bounded_delay(3)"
    )

    @property
    def plain(self) -> bool:
        """Return whether nothing happens; a part of the structure, no number."""
        return (
            isinstance(self.up, Identity)
            and isinstance(self.down, Identity)
            and isinstance(self.aggregator, Mean)
            and isinstance(self.attack, NoAttack)
            and isinstance(self.delay, Prompt)
        )

    def byzantine(self, key: jax.Array, number: int) -> jax.Array:
        """Return which senders are Byzantine, bool, shape (number,)."""
        return self.attack.who(fold_in(jax.random.clone(key), _EXCHANGE), number)

    def init_up(
        self,
        key: jax.Array,
        values: jax.Array,
        weights: jax.Array | None = None,
        receivers: int = 1,
        byzantine: jax.Array | None = None,
    ) -> ChannelState:
        """Return what both ends remember before the first round.

        Args:
          key: of `init`; it may be used for other things, too. `byzantine` are drawn from it.
          values: shape (senders, ...): what both ends know at the start.
          weights: with which weight, shape (senders,); 1 if None.
          receivers: how many average what they hear. The only one begins at the mean of the values,
            each of several at zero.
          byzantine: which senders are Byzantine, bool, shape (senders,); drawn by the attack if
            None. It is given where senders are no clients, such as the ends of edges.
        """
        senders = values.shape[0]
        if receivers == 1 and hasattr(self.aggregator, "check"):
            self.aggregator.check(senders)
        weights = jnp.ones(senders, values.dtype) if weights is None else weights
        delayed = not isinstance(self.delay, Prompt)
        last = jnp.zeros((receivers, *values.shape[1:]), values.dtype)
        if receivers == 1:
            last = last + jnp.mean(values, 0)[None]
        return ChannelState(
            jax.vmap(self.up.init)(values),
            self.attack.init(values),
            open_transit(self.delay.depth, values, weights) if delayed else (),
            values,
            weights,
            self.byzantine(key, senders) if byzantine is None else byzantine,
            last,
        )

    def send_up(
        self,
        key: jax.Array,
        index: jax.Array,
        state: ChannelState,
        values: jax.Array,
        active: jax.Array,
        weights: jax.Array | None = None,
        rows: jax.Array | None = None,
        part: int = 0,
    ) -> tuple[Delivery, ChannelState]:
        """Send messages; the state then holds the last message of every sender.

        Args:
          key: of the round; it may be used for other things, too.
          index: of the round, shape (), int32.
          state: from before.
          values: honest messages, shape (senders, ...); of some only, with `rows`.
          active: which of them send, bool.
          weights: of the messages, shape (senders,); 1 if None.
          rows: which senders the values are of, shape (sending,), int32; all if None.
          part: which part of a message that has several arrays: attacks and codes draw each apart,
            while all parts are heard at once.
        """
        senders = state.byzantine.shape[0]
        delay_key, attack_key, code_keys = self.keys_up(key, part, senders)
        if weights is None:
            weights = jnp.ones(values.shape[0], state.weights.dtype)
        weights = weights.astype(state.weights.dtype)

        byzantine, memory, channel, keys = at_rows(
            rows, (state.byzantine, state.memory, state.channel, code_keys)
        )
        sent, memory = self.attack(values, byzantine, active, memory, attack_key)
        coded, channel = jax.vmap(self.up.encode)(sent, channel, keys)
        memories = put_rows(rows, active, (memory, channel), (state.memory, state.channel))
        state = state._replace(memory=memories[0], channel=memories[1])
        if isinstance(state.transit, Transit):
            sent_now, heavy = put_rows(rows, active, (coded, weights), (state.known, state.weights))
            speaks = active if rows is None else jnp.zeros(senders, bool).at[rows].set(active)
            heard, heavy, arrived, transit = move(
                self.delay, state.transit, sent_now, heavy, speaks, index, delay_key
            )
            known, old = where_active(arrived, (heard, heavy), (state.known, state.weights))
            state = state._replace(transit=transit, known=known, weights=old)
            return Delivery(coded, byzantine, heard, heavy, arrived), state
        known, heavy = put_rows(rows, active, (coded, weights), (state.known, state.weights))
        return Delivery(coded, byzantine, coded, weights, active), state._replace(
            known=known, weights=heavy
        )

    def keys_up(self, key: jax.Array, part: int, senders: int) -> tuple[jax.Array, ...]:
        """Return the keys of the delay, the attack, and the code of every sender.

        Args:
          key: of the round; it may be used for other things, too.
          part: which array of a message.
          senders: how many there are in all.
        """
        key = fold_in(jax.random.clone(key), _EXCHANGE)
        delay_key, key = split(key)
        attack_key, code_key = split(fold_in(key, part))
        return delay_key, attack_key, split(code_key, senders)

    def keys_down(self, key: jax.Array, part: int, clients: int) -> jax.Array:
        """Return the keys of the code for every client, shape (clients,); likewise."""
        key = fold_in(jax.random.clone(key), _EXCHANGE + 1)
        return split(fold_in(key, part), clients)

    def aggregate(
        self,
        values: jax.Array,
        weights: jax.Array,
        last: jax.Array,
        groups: jax.Array | None = None,
    ) -> jax.Array:
        """Return what receivers make of messages, shape (receivers, ...).

        Args:
          values: shape (messages, ...).
          weights: shape (messages,); 0 for what was not heard.
          last: what they made of those before, shape (receivers, ...); it stays where a receiver
            hears nobody.
          groups: the receiver of every message, shape (messages,), int32; the only one if None.
        """
        flat = values.reshape(values.shape[0], -1)
        if groups is None:
            groups = jnp.zeros(values.shape[0], jnp.int32)
        previous = last.reshape(last.shape[0], -1)
        weights = weights.astype(values.dtype)
        vectors = self.aggregator(flat, weights, groups, last.shape[0], previous)
        return vectors.reshape(last.shape)

    def init_down(self, sends: Any, clients: int) -> Any:
        """Return the memory of the links down, over which a server sends a pytree of arrays."""
        return [jax.vmap(self.down.init)(_copies(leaf, clients)) for leaf in jax.tree.leaves(sends)]

    def send_down(
        self,
        key: jax.Array,
        state: Any,
        sends: Any,
        active: jax.Array,
        clients: int,
        rows: jax.Array | None = None,
    ) -> tuple[Any, Any]:
        """Return what clients read of what a server sends, stacked over them, and the links.

        Args:
          key: of the round; it may be used for other things, too.
          state: of the links, as `init_down` and this function return it.
          sends: a pytree of arrays, the same to all clients.
          active: who reads, bool, of the clients in `rows`.
          clients: how many there are in all.
          rows: which clients, shape (reading,), int32; all if None.
        """
        leaves, structure = jax.tree.flatten(sends)
        reads, links = [], []
        for part, (leaf, old) in enumerate(zip(leaves, state, strict=True)):
            here, keys = at_rows(rows, (old, self.keys_down(key, part, clients)))
            copies = _copies(leaf, active.shape[0])
            arrives, new = jax.vmap(self.down.encode)(copies, here, keys)
            reads.append(arrives)
            links.append(put_rows(rows, active, new, old))
        return jax.tree.unflatten(structure, reads), links

    def traffic(
        self,
        up: Sequence[tuple[int, ...]],
        down: Sequence[tuple[int, ...]],
        *,
        more_up: int = 0,
        more_down: int = 0,
        before: int = 0,
        broadcast: int = 0,
    ) -> Traffic:
        """Return the traffic of messages of arrays of these shapes, in numbers and bits.

        Args:
          up: shapes of the arrays in a message up.
          down: shapes of those in a message down.
          more_up: numbers of 32 bits that no channel compresses, up.
          more_down: likewise, down.
          before: numbers sent up once before the first round, by all clients.
          broadcast: numbers sent down in every round besides messages.
        """
        sizes = {
            "up": sum(map(math.prod, up)) + more_up,
            "down": sum(map(math.prod, down)) + more_down,
            "before": before,
            "broadcast": broadcast,
        }
        if isinstance(self.up, Identity) and isinstance(self.down, Identity):
            return Traffic(**sizes)
        return Traffic(
            **sizes,
            up_bits=sum(map(self.up.bits, up)) + NUMBER * more_up,
            down_bits=sum(map(self.down.bits, down)) + NUMBER * more_down,
        )


def exchange(
    up: Channel | None = None,
    down: Channel | None = None,
    *,
    aggregator: Aggregator | None = None,
    attack: Attack | None = None,
    delay: Delay | None = None,
) -> Exchange:
    """Build `Exchange`; what is left out does nothing.

    Args:
      up: the channel towards the server (or the neighbours, on a graph).
      down: the channel towards the clients.
      aggregator: of the messages that a receiver has; the weighted mean if None.
      attack: of Byzantine senders; none if None.
      delay: of messages up; none if None.

    Raises:
      InputError: an argument is of another kind, or a channel whose receiver must read every
        message in order stands beside a delay that loses or reorders them.
    """
    built = build(Exchange, **locals())
    strict = built.up.in_order and not isinstance(built.delay, Prompt)
    loose = strict and (built.delay.loses or not built.delay.in_order)
    told = "must keep the order of messages and lose none, because their receiver adds them up"
    remedy = "give it in_order=True and no losses, or send whole messages"
    refuse(loose, "delay", told, remedy=remedy)
    return built


def check_exchange(given: Any) -> Exchange:
    """Return an exchange, the plain one if None; for builders of solvers."""
    given = Exchange() if given is None else given
    remedy = "write exchange(up=...) around a channel, exchange(aggregator=...) and so on"
    instance("exchange", given, Exchange, "messages.exchange(...)", remedy)
    return given


def at_rows(rows: jax.Array | None, tree: Any) -> Any:
    """Return the rows of a stacked pytree; all of them if None."""
    return tree if rows is None else jax.tree.map(lambda leaf: leaf[rows], tree)


def put_rows(rows: jax.Array | None, active: jax.Array, new: Any, old: Any) -> Any:
    """Return a stacked pytree with new rows where active; `new` and `active` are of the rows."""
    if rows is None:
        return where_active(active, new, old)
    updated = where_active(active, new, at_rows(rows, old))
    return jax.tree.map(lambda leaf, row: leaf.at[rows].set(row), old, updated)


def _copies(array: jax.Array, number: int) -> jax.Array:
    return jnp.broadcast_to(array, (number, *array.shape))
