"""Which keys have hidden something in this process, and what.

The noise of a round follows from the key and the number of the round. Whoever gets the messages of
two runs that had the same noise takes their difference, and the noise is gone: with two clipping
norms c and 2 c, whose noise is that of one and twice that, `2 v - v'` is exact. So a key serves for
one course of events: the same solver, problem and participation in the same rounds. To repeat that
is harmless, since the messages are the same.

Seen are concrete calls of this process. Traced keys, solvers, problems and states cannot be told
apart, nor do other processes tell; and the last `_KEYS` keys are remembered.
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
from fedjax_admm._run._noise import hides
from fedjax_admm._shown import short_repr

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
"""What ran, and from which round; before a state of unknown origin, the digest of the state."""


@short_repr
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

    Elsewhere two private runs of one process whose noise is the same and whose messages are not
    are refused, since the difference of their messages shows what the noise hides. What is seen:
    calls with concrete arrays, in one process, of the last 1024 keys. Inside `jax.jit`, `jax.vmap`
    and trials nothing is seen, and nothing of other processes.

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
    """Return the use that a run makes of its key; None where there is nothing to see.

    Args:
      solver: of the run.
      problem: of the run.
      key: of the run.
      participation: of the run.
      start: of the run.
      rounds: how many there will be; with `total`, those before the start included.
      total: see there.

    Raises:
      InputError: the same noise has been used in another course of events.
    """
    given = (solver, problem, key, participation, start)
    if not hides(solver) or _ALLOWED.get():
        return None
    if not is_concrete(given) or not _readable(given):
        return None
    first = 0 if start is None else int(start.index)
    last = max(rounds if total else first + rounds, first)
    if last == first:
        return None
    made = _digest((solver, problem, participation))
    name = _digest(key)
    with _LOCK:
        uses = list(_USED.get(name, ()))
    course: Course = ()
    if start is not None:
        origin = _digest(start._replace(fingerprint=None))
        found = [use.course for use in uses if origin in use.ends]
        course = found[0] if found else ((origin, first),)
    if not course or course[-1][0] != made:
        course = (*course, (made, first))
    for use in uses:
        if use.first < last and first < use.last and use.course != course:
            again = max(first, use.first) + 1
            raise InputError(
                f"must be used once, but a private run of this process has used it from round "
                f"{again} on for something else: the difference of the two runs' messages shows "
                "what the noise hides",
                argument="key",
                value=key,
                remedy="take another, as jax.random.split gives; for synthetic data there is "
                "fedjax_admm.key_reuse_allowed",
            )
    return KeyUse(name, first, last, course)


def _readable(tree: Any) -> bool:
    """Tell whether all arrays can be read here: some of several processes' cannot."""
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
