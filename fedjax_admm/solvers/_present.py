"""What solvers with one server share: work for those who take part alone, and steps of one's own.

A round of a star is: those who take part read the server's model, compute something from it and
from what they keep, and send a message; everybody else keeps everything. What happens to messages
is said by the solver's exchange. Where the participation draws a fixed number of clients
(`Turn.selected`) and the problem can leave the others out (`Subset`), only the drawn ones are
computed: gather, update, scatter. The work of a round then grows with them and not with all
clients.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, one_line
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import Gradients, Minibatches, Subset, has
from fedjax_admm.messages import Exchange, Mailbox, at_rows, check_exchange, put_rows
from fedjax_admm.participation import where_active
from fedjax_admm.penalties import Penalty, zero
from fedjax_admm.traffic import Traffic

Clients = TypeVar("Clients")

# Of all clients so many, evenly spaced, are looked at for their curvature.
_LOOKED_AT = 32
_POWER_STEPS = 20


class StarSolver:
    """A solver whose clients talk to one server: dim numbers up and down per participant."""

    exchange: Exchange

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return `(clients,)`."""
        return (problem.num_clients,)

    def traffic(self, problem: Any) -> Traffic:
        """Return dim numbers up and dim down."""
        dim = problem.start.shape[-1]
        # One's own solver need not have the field.
        exchange = check_exchange(getattr(self, "exchange", None))
        return exchange.traffic(up=[(dim,)], down=[(dim,)])

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Return the number of active clients: one message each way."""
        return jnp.sum(active, dtype=jnp.int32)


@short_repr
class Message(NamedTuple):
    """What clients send in a round, stacked over them."""

    values: tuple[jax.Array, ...] = ()  # arrays (clients, ...), each of which passes the exchange
    # shape=(clients,): how much a client counts where the server averages; 1 if None. For what is
    # averaged over those who are heard it is 0 or 1, and the values are 0 where it is 0
    weights: jax.Array | None = None
    sums: Any = ()  # arrays (clients, ...) that are added up over those who take part, and that
    # nothing happens to


@short_repr
class Post(NamedTuple):
    """What a star remembers of its messages."""

    up: tuple[Mailbox, ...]  # one for every array that a client sends
    down: Any  # of the links down


@short_repr
class Mail(NamedTuple):
    """What a round of messages leaves."""

    clients: Any  # what every client keeps after the round
    values: tuple[Any, ...]  # of every array that is sent what the server makes of it: the sum over
    # those who are heard; or, of what it keeps, the mean over what it heard last of everybody, and
    # None where nothing happens to messages
    number: jax.Array  # shape=(): the weight of those who are heard; int32 without the exchange
    weight: Any  # shape=(): that of everybody; None without the exchange
    sums: Any  # as in the message, the axis of clients is gone
    post: Any  # a Post; () without the exchange
    arrived: Any = None  # shape=(clients,), bool: whose message is heard in this
    # round; None where nothing happens to messages


def open_post(
    exchange: Exchange,
    key: jax.Array,
    values: tuple[jax.Array, ...],
    sends: Any,
    weights: jax.Array | None = None,
) -> Post | tuple[()]:
    """Return the post before the first round; nothing where nothing happens to messages.

    Args:
      exchange: of the solver.
      key: of `init`; it may be used for other things, too.
      values: what the server knows of everybody at the start: arrays (clients, ...) as in the
        messages.
      sends: what the server sends, a pytree of arrays.
      weights: of the values, shape (clients,); 1 if None.
    """
    if exchange.plain:
        return ()
    # Liars are the same in all parts of a message: they are drawn from one key.
    boxes = tuple(exchange.open(key, value, weights) for value in values)
    return Post(boxes, exchange.open_down(sends, values[0].shape[0]))


def exchanged(
    problem: Any,
    turn: Any,
    exchange: Exchange,
    post: Any,
    clients: Clients,
    sends: Any,
    update: Callable[[Any, Clients, Any, jax.Array], tuple[Clients, Message]],
    *,
    kept: tuple[bool, ...] = (False,),
    absorb: Callable[[Clients, tuple[jax.Array, ...]], Clients] | None = None,
    talking: jax.Array | None = None,
) -> Mail:
    """Let the clients that take part in a round read, work and send.

    A server either averages what it hears in a round, or keeps what it heard last of everybody and
    averages that. Of the second kind are the methods with dual variables: what a client sends, its
    upload u = w + y / s, then stands for the client until the next one. Where u^ arrives in its
    place the client's state must follow (`absorb`), or both ends hold different things. It goes on
    with the model w^ with which the step of its dual variable gives u^,

        w^ = w - (u - u^) / 2,    y^ = y - s (u - u^) / 2.

    With all of the loss in y, what is not sent would pull at w again in every round: a compressor
    that leaves out most coordinates makes ADMM diverge so.

    Args:
      problem: of all clients.
      turn: of the round.
      exchange: what happens to messages.
      post: what it remembers.
      clients: what every client keeps, a pytree of arrays (clients, ...).
      sends: what the server sends, a pytree of arrays; () where clients read nothing before they
        work (and perhaps an answer later, by `answered`).
      update: `(problem, clients, read, key) -> (clients, message)` for the clients of the problem
        that it is given, which may be some of all; `read` is what each of them reads, stacked. It
        may close over nothing else with an axis of clients.
      kept: of every array in a message, whether the server keeps it.
      absorb: `(clients, values) -> clients`: what clients make of it that the server reads these
        values in the place of those that they sent. Liars do not care.
      talking: whether those who take part speak in this round, shape (), bool; True if None. Sums
        do not ask where nothing happens to messages.

    Returns:
      What everybody keeps, and what the server hears.
    """
    rows = turn.selected if has(problem, Subset) else None
    own, active = at_rows(rows, (clients, turn.active))
    present = problem if rows is None else problem.take(rows)
    if exchange.plain:
        read = jax.tree.map(lambda leaf: copies(leaf, present), sends)
        new, message = update(present, own, read, turn.key)
        values, weights, sums = _sums(active, rows, message)
        number = jnp.sum(turn.active, dtype=jnp.int32) if weights is None else weights
        heard = tuple(None if keeps else value for keeps, value in zip(kept, values, strict=True))
        return Mail(_put(rows, active, new, clients), heard, number, None, sums, ())

    read, down = (), post.down
    if jax.tree.leaves(sends):
        read, down = exchange.read(turn.key, down, sends, active, problem.num_clients, rows)
    new, message = update(present, own, read, turn.key)
    speaks = active if talking is None else active & talking
    sent = [
        exchange.send(turn.key, turn.index, box, value, speaks, message.weights, rows, part)
        for part, (value, box) in enumerate(zip(message.values, post.up, strict=True))
    ]
    if absorb is not None:
        taken = absorb(new, tuple(delivery.coded for delivery, _ in sent))
        new = where_active(speaks & ~sent[0][0].bad, taken, new)
    first, box = sent[0]
    heavy = jnp.where(first.arrived, first.weights, 0)
    number = jnp.sum(heavy)
    arrived = first.arrived
    if rows is not None and not post.up[0].transit:
        arrived = jnp.zeros_like(turn.active).at[rows].set(arrived)
    values, boxes = [], []
    for keeps, (delivery, box) in zip(kept, sent, strict=True):
        if keeps:
            last = exchange.aggregate(box.known, box.weights, box.last)
            values.append(last[0])
        else:
            last = exchange.aggregate(delivery.values, heavy, box.last)
            values.append(number.astype(last.dtype) * last[0])
        boxes.append(box._replace(last=last))
    return Mail(
        _put(rows, active, new, clients),
        tuple(values),
        number,
        jnp.sum(box.weights),
        _sums(active, rows, Message(sums=message.sums)).sums,
        Post(tuple(boxes), down),
        arrived,
    )


def answered(
    problem: Any,
    turn: Any,
    exchange: Exchange,
    post: Any,
    clients: Clients,
    sends: Any,
    take: Callable[[Clients, Any], Clients],
    *,
    talking: jax.Array,
) -> tuple[Clients, Post | tuple[()]]:
    """Let the clients that take part read what the server sends at the end of a round.

    Args:
      problem: of all clients.
      turn: of the round.
      exchange: what happens to messages.
      post: what it remembers, from `exchanged`, whose clients read nothing.
      clients: what every client keeps, a pytree of arrays (clients, ...).
      sends: what the server sends, a pytree of arrays.
      take: `(clients, read) -> clients` for some clients of all; `read` is what each of them reads,
        stacked.
      talking: whether the server sends anything in this round, shape (), bool.

    Returns:
      What everybody keeps, and what the exchange remembers.
    """
    if exchange.plain:

        def work(present: Any, own: Clients, key: jax.Array) -> Clients:
            taken = take(own, jax.tree.map(lambda leaf: copies(leaf, present), sends))
            return jax.tree.map(partial(jnp.where, talking), taken, own)

        return work_present(problem, turn, clients, work), post

    rows = turn.selected if has(problem, Subset) else None
    own, active = at_rows(rows, (clients, turn.active & talking))
    read, down = exchange.read(turn.key, post.down, sends, active, problem.num_clients, rows)
    return put_rows(rows, active, take(own, read), clients), post._replace(down=down)


def work_present(
    problem: Any,
    turn: Any,
    clients: Clients,
    work: Callable[[Any, Clients, jax.Array], Clients],
) -> Clients:
    """Let the clients that take part in a round work, without a word to anybody.

    Args:
      problem: of all clients.
      turn: of the round.
      clients: what every client keeps, a pytree of arrays (clients, ...).
      work: `(problem, clients, key) -> clients` for the clients of the problem that it is given,
        which may be some of all. It may close over nothing with an axis of clients.
    """
    rows = turn.selected if has(problem, Subset) else None
    own, active = at_rows(rows, (clients, turn.active))
    present = problem if rows is None else problem.take(rows)
    return _put(rows, active, work(present, own, turn.key), clients)


def _put(rows: jax.Array | None, active: jax.Array, new: Any, old: Any) -> Any:
    """Return what everybody keeps, with what is new of those who take part."""
    if rows is None:
        return where_active(active, new, old)
    # Whoever is drawn takes part.
    return jax.tree.map(lambda leaf, row: leaf.at[rows].set(row), old, new)


def _sums(active: jax.Array, rows: jax.Array | None, message: Message) -> Message:
    """Return a message without the axis of clients: sums over those who take part."""
    if rows is None:
        message = where_active(active, message, jax.tree.map(jnp.zeros_like, message))
    return jax.tree.map(lambda leaf: jnp.sum(leaf, 0), message)


def copies(model: jax.Array, problem: Any) -> jax.Array:
    """Return a model (dim,) for every client of a problem, shape (clients, dim)."""
    return jnp.broadcast_to(model, (problem.num_clients, *model.shape))


def descend(
    problem: Any,
    start: jax.Array,
    key: jax.Array,
    rate: jax.Array,
    steps: int,
    pull: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """Take gradient steps `w <- w - rate (g_l(w) + pull(w))`, each with its own minibatch.

    Args:
      problem: of the clients that take part.
      start: shape (clients, dim).
      key: is split, one key per step; a problem with minibatches takes them from it in turn.
      rate: shape () or (clients, 1).
      steps: how many.
      pull: what is added to the gradients, (clients, dim) to the same; nothing if None.

    Returns:
      Shape (clients, dim).
    """

    def step(w: jax.Array, key: Any) -> tuple[jax.Array, None]:
        slope = problem.gradients(w, key)
        return w - rate * (slope if pull is None else slope + pull(w)), None

    return jax.lax.scan(step, start, draws(problem, key, steps))[0]


def draws(problem: Any, key: jax.Array, steps: int) -> Any:
    """Return what `problem.gradients` takes for a key in each of some steps, stacked: (steps,)."""
    return (
        problem.batches(key, steps) if has(problem, Minibatches) else jax.random.split(key, steps)
    )


def check_regularizer(regularizer: Any) -> Penalty:
    """Return what the server adds to the mean of the losses, no penalty if it is None.

    Raises:
      InputError: it has no prox.
    """
    if regularizer is None:
        return zero()
    if isinstance(regularizer, type) or not hasattr(regularizer, "prox"):
        raise InputError(
            f"must be a penalty such as penalties.l1(0.1), but it is {one_line(regularizer)}",
            argument="regularizer",
            value=regularizer,
        )
    return regularizer


def largest_curvature(problem: Any, points: jax.Array) -> jax.Array:
    """Estimate the largest curvature of the clients' losses, by which steps are chosen.

    It is the largest |eigenvalue| that 20 steps of the power method find in the Hessians of up to
    32 clients (evenly spaced ones, where the problem can leave the others out), at the given points
    and one gradient step further, with a margin of 5 %. It is an estimate and no bound: the
    curvature elsewhere may be larger. Where there is none, as for piecewise linear losses, it is 1,
    and so it is where a problem has a prox and no gradients.

    Args:
      problem: with gradients, if it has them.
      points: shape (clients, dim) or (dim,): models near which the solver begins.

    Returns:
      Shape ().
    """
    points = copies(points, problem) if points.ndim == 1 else points
    if not has(problem, Gradients):
        return jnp.ones((), points.dtype)
    if has(problem, Subset) and problem.num_clients > _LOOKED_AT:
        spaced = [i * problem.num_clients // _LOOKED_AT for i in range(_LOOKED_AT)]
        looked_at = jnp.asarray(spaced, jnp.int32)
        problem, points = problem.take(looked_at), points[looked_at]
    at_start = _curvatures(problem, points)
    slopes = problem.gradients(points)
    onwards = points - slopes / jnp.where(at_start > 0, at_start, 1)[:, None]
    found = 1.05 * jnp.max(jnp.maximum(at_start, _curvatures(problem, onwards)))
    usable = jnp.isfinite(found) & (found > jnp.sqrt(jnp.finfo(found.dtype).tiny))
    return jax.lax.stop_gradient(jnp.where(usable, found, 1))


def _curvatures(problem: Any, points: jax.Array) -> jax.Array:
    """Return the largest |eigenvalue| of each client's Hessian, about, shape (clients,)."""
    direction = jax.random.normal(jax.random.key(0), points.shape, points.dtype)

    def length(v: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(v * v, -1))

    def power(v: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        size = length(v)[:, None]
        v = v / jnp.where(size > 0, size, 1)
        bent = jax.jvp(problem.gradients, (points,), (v,))[1]
        return bent, length(bent)

    return jax.lax.scan(power, direction, length=_POWER_STEPS)[1][-1]
