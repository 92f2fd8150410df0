"""The way of messages between clients and one server, which `StarSolver` gives to its roles."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._linear_algebra import compensated_sum
from fedjax_admm.messages import Exchange, Identity, at_rows, put_rows
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers._messages import (
    ExchangeState,
    Memory,
    Received,
    RoundMessage,
    Upload,
    add_up,
    at_groups,
    beside,
    is_per_client,
    known_uploads,
    over,
    parts,
    stacked,
    times,
    weighted,
)


class Round(NamedTuple):
    """Who takes part in a round."""

    info: RoundInfo
    rows: jax.Array | None  # shape=(drawn,), int32: which clients are computed; all if None
    active: jax.Array  # bool, of the clients that are computed: who takes part
    sending: jax.Array  # bool, likewise: who takes part and sends
    num_clients: int


class StarMessages:
    """What happens to messages, and what a server receives of them."""

    exchange: Exchange = Exchange()

    compensates: ClassVar[bool] = False  # sums of uploads keep what rounding cuts off

    def coin(self, key: jax.Array, /) -> tuple[jax.Array | None, jax.Array]:
        """Return whether messages are sent in a round, None for always, and the remaining key."""
        return None, key

    def groups(self) -> int | None:
        """Return the number of the server's models where messages are for one of several."""
        return None

    @property
    def reads_exactly(self) -> bool:
        """Return whether clients read what the server sends; a part of the structure."""
        return isinstance(self.exchange.down, Identity)

    def has_coin(self) -> bool:
        return type(self).coin is not StarMessages.coin

    def _down(self, memory: Any, sends: Any, reads: jax.Array, now: Round) -> tuple[Any, Any]:
        """Return the broadcast as clients read it, stacked over them, and the memory."""
        leaves, structure = jax.tree.flatten(sends, is_leaf=is_per_client)
        shared, _ = parts(sends)
        if self.exchange.plain:
            arrive = [stacked(leaf, len(reads)) for leaf in shared]
        else:
            arrive, down = self.exchange.send_down(
                now.info.key, memory.down, shared, reads, now.num_clients, now.rows
            )
            memory = memory._replace(down=down)
        arriving = iter(arrive)
        read = [at_rows(now.rows, x.rows) if is_per_client(x) else next(arriving) for x in leaves]
        return jax.tree.unflatten(structure, read), memory

    def _now(self, info: RoundInfo, rows: Any, active: jax.Array, num_clients: int) -> Round:
        talks, key = self.coin(info.key)
        sending = active if talks is None else active & talks
        return Round(info._replace(key=key), rows, active, sending, num_clients)

    def _up(self, memory, before: Upload, after: Upload, every: Upload, said, now: Round):
        """Return what the server receives as it was sent, and the memory.

        Args:
          memory: of the server.
          before: of the clients that are computed.
          after: likewise, after their work.
          every: of all clients, after the round.
          said: of the clients that are computed.
          now: the round.
        """
        rows, sending, known = now.rows, now.sending, memory.known
        groups = said.groups, self.groups()
        number = at_groups(sending, *groups)
        sums = tuple(at_groups(value, *groups, sending) for value in said.values)
        if self.has_coin():
            before = at_rows(rows, known)
            known = every = put_rows(rows, sending, after, known)
        lost = memory.lost
        if rows is None:
            totals, weight = add_up(every, now.num_clients, memory.weight.dtype)
            lost = tuple(map(jnp.zeros_like, lost))
        else:
            pairs = zip(weighted(before), weighted(after), strict=True)
            steps = [at_groups(b - a, None, None, sending) for a, b in pairs]
            if self.compensates:
                before_step = zip(memory.sums, lost, strict=True)
                totals, lost = zip(*map(compensated_sum, before_step, steps), strict=True)
            else:
                totals = tuple(map(jnp.add, memory.sums, steps))
            weight = memory.weight
            if after.weights is not None and before.weights is not None:
                weight += at_groups(after.weights - before.weights, None, None, sending)

        def changes() -> tuple[jax.Array, ...]:
            pairs = zip(before.values, after.values, strict=True)
            return tuple(over(at_groups(b - a, None, None, sending), number) for a, b in pairs)

        exact = tuple(map(jnp.add, totals, lost)) if lost else totals
        received = Received(
            (*(over(total, number) for total in sums), *(total / weight for total in exact)),
            sums,
            number,
            weight,
            now.num_clients,
            known_uploads(every, now.num_clients),
            changes,
            beside(said, sending),
        )
        return received, Memory(totals, weight, known, lost)

    def _send(self, memory, upload: Upload, said: RoundMessage, now: Round) -> list[Any]:
        """Return what the exchange delivers of every array, and its channels."""
        # The group of a message travels as its weight: a message said has no other.
        groups = None if said.groups is None else said.groups.astype(said.values[0].dtype)
        weights = [groups] * len(said.values) + [upload.weights] * len(upload.values)
        messages = zip((*said.values, *upload.values), weights, memory.up, strict=True)
        key, index, send = now.info.key, now.info.index, self.exchange.send_up
        return [
            send(key, index, channel, value, now.sending, weight, now.rows, part)
            for part, (value, weight, channel) in enumerate(messages)
        ]

    def _exchanged_up(self, memory, sent: list[Any], said: RoundMessage, now: Round):
        """Return what the server receives through the exchange, and the memory."""
        exchange, rows, count = self.exchange, now.rows, len(said.values)
        arrived = sent[0][0].arrived
        groups = sent[0][0].weights.astype(jnp.int32) if said.groups is not None else None
        number = at_groups(arrived, groups, self.groups())
        means, up = [], []
        for part, (delivery, channel) in enumerate(sent):
            if part < count:
                heard = arrived.astype(delivery.values.dtype)
                last = exchange.aggregate(delivery.values, heard, channel.last, groups)
            else:
                last = exchange.aggregate(channel.known, channel.weights, channel.last)
            means.append(last if part < count and groups is not None else last[0])
            up.append(channel._replace(last=last))

        def changes() -> tuple[jax.Array, ...]:
            found = []
            for (_, channel), old in zip(sent[count:], memory.up[count:], strict=True):
                there = arrived
                if rows is not None and not channel.transit:
                    there = jnp.zeros(now.num_clients, bool).at[rows].set(arrived)
                moved, none = channel.known - old.known, jnp.zeros_like(old.last)
                found.append(exchange.aggregate(moved, there, none)[0])
            return tuple(found)

        last = up[-1]
        received = Received(
            tuple(means),
            tuple(times(mean, number) for mean in means[:count]),
            number,
            jnp.sum(last.weights),
            now.num_clients,
            (*(channel.known for channel in up[count:]), last.weights),
            changes,
            beside(said, now.sending),
        )
        return received, ExchangeState(tuple(up), memory.down)
