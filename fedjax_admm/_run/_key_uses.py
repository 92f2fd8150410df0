"""A record of the keys from which private runs of this process have drawn noise.

The noise of a round follows from the key and the number of the round. The messages of two runs with
one key can cancel the noise: with the clipping norms c and 2 c the noise is n and 2 n, and
`2 v - v'` is free of it. A key may therefore be used for one course of events only: the same
solver, problem and participation in the same rounds. A repetition does no harm, since its messages
are the same.

The record contains calls with concrete arrays in this process. It contains no traced keys, solvers,
problems and states, and no calls of other processes. It holds the last `_KEYS` keys.
"""

import contextlib
import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, is_concrete

_KEYS, _USES = 1024, 64
# Structure of a pytree, static parts included, and a digest of its arrays.
Digest = tuple[Any, bytes]
# Key -> its uses; neither keys nor data are kept, only digests.
_USED: "OrderedDict[Digest, list[KeyUse]]" = OrderedDict()
_LOCK = threading.Lock()
_ALLOWED: ContextVar[bool] = ContextVar("key_reuse_allowed", default=False)
# Digest of an array that is alive, by its identity: large data are read once.
_SEEN: dict[int, tuple[weakref.ref, bytes]] = {}

Course = tuple[tuple[Digest, int], ...]
"""Digests of what ran, with first rounds; of a state of unknown origin, that of the state first."""


@dataclass(eq=False)
class KeyUse:
    """The noise of some rounds, and the course of events in which it was used."""

    key: Digest
    first: int
    last: int  # after the last round
    course: Course
    ends: set[Digest] = field(default_factory=set)  # digests of the states that came out

    def remember(self, state: Any) -> None:
        """Remember the use, which has happened, and the state after it."""
        if not is_concrete(state) or not _readable(state):
            return
        self.last = int(state.index)
        self.ends.add(_digest(state._replace(fingerprint=None)))
        with _LOCK:
            uses = _USED.setdefault(self.key, [])
            _USED.move_to_end(self.key)
            uses.append(self)
            del uses[:-_USES]
            while len(_USED) > _KEYS:
                _USED.popitem(last=False)


@contextlib.contextmanager
def key_reuse_allowed() -> Iterator[None]:
    """Allow a key to be used again by private runs: for synthetic data, and for tests.

    Elsewhere a private run is refused whose noise is that of another run of this process and whose
    messages are not, since the difference of their messages cancels the noise. The record sees
    calls with concrete arrays, in one process, of the last 1024 keys; it sees nothing inside
    `jax.jit`, `jax.vmap` and trials, and nothing of other processes.

    Inside this context nothing is refused, and nothing is remembered:

        with fa.key_reuse_allowed():
            runs = [fa.run(solver, problem, key, rounds=100) for solver in solvers]
    """
    token = _ALLOWED.set(True)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def key_use(
    solver: Any,
    problem: Any,
    key: jax.Array,
    participation: Any,
    start: Any,
    rounds: int,
    total: bool = False,
) -> KeyUse | None:
    """Return the use of the key by a private run; None if it is allowed or cannot be seen.

    `rounds` is the number of this call; with `total`, that of the rounds before the start, too.

    Raises:
      InputError: the same noise has been used in another course of events.
    """
    arguments = (solver, problem, key, participation, start)
    if _ALLOWED.get() or not is_concrete(arguments) or not _readable(arguments):
        return None
    first = 0 if start is None else int(start.index)
    last = max(rounds if total else first + rounds, first)
    if last == first:
        return None
    current, name = _digest((solver, problem, participation)), _digest(key)
    with _LOCK:
        uses = list(_USED.get(name, ()))
    course: Course = ()
    if start is not None:
        origin = _digest(start._replace(fingerprint=None))
        course = next((use.course for use in uses if origin in use.ends), ((origin, first),))
    if not course or course[-1][0] != current:
        course = (*course, (current, first))
    for use in uses:
        if use.first < last and first < use.last and use.course != course:
            again = max(first, use.first) + 1
            told = "must be used once, but a private run of this process has used it from round "
            told += f"{again} on for something else: the difference of the two runs' messages shows"
            remedy = "take another, as jax.random.split gives; for synthetic data there is "
            remedy += "fedjax_admm.key_reuse_allowed"
            raise InputError(f"{told} what the noise hides", "key", remedy)
    return KeyUse(name, first, last, course)


def _readable(tree: Any) -> bool:
    """Return whether all arrays can be read in this process."""
    return all(getattr(leaf, "is_fully_addressable", True) for leaf in jax.tree.leaves(tree))


def _digest(tree: Any) -> Digest:
    leaves, structure = jax.tree.flatten(tree)
    together = hashlib.blake2b(digest_size=16)
    for leaf in leaves:
        together.update(_digest_of(leaf))
    return structure, together.digest()


def _digest_of(leaf: Any) -> bytes:
    seen = _SEEN.get(id(leaf))
    if seen is not None and seen[0]() is leaf:
        return seen[1]
    plain = leaf
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        plain = jax.random.key_data(leaf)
    host = np.asarray(plain)
    whole = hashlib.blake2b(f"{host.dtype}{host.shape}".encode(), digest_size=16)
    whole.update(np.ascontiguousarray(host).data if host.dtype.kind in "biufc" else host.tobytes())
    digest = whole.digest()
    if isinstance(leaf, jax.Array):
        place = id(leaf)
        _SEEN[place] = (weakref.ref(leaf, lambda _: _SEEN.pop(place, None)), digest)
    return digest
