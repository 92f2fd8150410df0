"""Checks of a run's arguments before it traces, and of users' functions while it does."""

import inspect
import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from fedjax_admm._checks import (
    InputError,
    function_of,
    instance,
    is_concrete,
    listed,
    not_deleted,
    one_line,
    refuse,
    registered,
    typed_key,
)
from fedjax_admm._host._programs import KEPT
from fedjax_admm._run._keys import fingerprint_of
from fedjax_admm._run._noise import check_wrapped, hides
from fedjax_admm._run._results import RoundState, Run
from fedjax_admm.capabilities import check_capabilities
from fedjax_admm.participation import check_process

# What a run calls of a solver, and what it records itself.
_METHODS = ("participants", "init", "step", "estimate", "messages")
_RECORDED = ("round", "messages")


@dataclass
class Call:
    """The last call of a structure whose arguments were right."""

    # The leaves of solver, problem and participation, which never change; None for others.
    arrays: tuple[weakref.ref | None, ...] = ()
    rounds: int = 0  # so many from the first one on fit these
    hides: bool = True  # whether its solver is private
    counts: bool = True  # whether inner solvers in its state count their shortfalls
    # Key, index and fingerprint of the state after the last run, and its number of rounds.
    end: tuple[weakref.ref, weakref.ref, weakref.ref, int] | None = None

    def knows(self, leaves: list[Any]) -> bool:
        """Return whether leaves of a call are those of the last one, but for key and start."""
        return len(self.arrays) == len(leaves) and all(
            array is None or (array() is leaf and not leaf.is_deleted())
            for array, leaf in zip(self.arrays, leaves, strict=True)
        )

    def remember(self, arguments: tuple, leaves: list[Any], rounds: int) -> None:
        """Remember the leaves of a call that was right, unless one of them is traced."""
        if all(isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) for leaf in leaves):
            ends = [len(jax.tree.leaves(arguments[:place])) for place in (2, 3, 4)]
            fixed = {*range(ends[0]), *range(ends[1], ends[2])}
            self.arrays = tuple(
                weakref.ref(leaf) if place in fixed else None for place, leaf in enumerate(leaves)
            )
            self.rounds = rounds

    def remember_end(self, key: Any, state: Any, rounds: int) -> None:
        """Remember the state after a run, whose arrays need not be computed yet."""
        if is_concrete((key, state.index, state.fingerprint)):
            key, index, fingerprint = map(weakref.ref, (key, state.index, state.fingerprint))
            self.end = key, index, fingerprint, rounds

    def done_before(self, key: Any, start: Any) -> int | None:
        """Return the rounds before `start` if the last run ended with it, under this key."""
        if self.end is None or start is None:
            return None
        last_key, index, fingerprint, rounds = self.end
        same = last_key() is key and index() is start.index and fingerprint() is start.fingerprint
        return rounds if same else None


@lru_cache(KEPT)
def _last_call(structure, name, function) -> Call:
    return Call()


def checked_call(
    arguments: tuple, name: str, function: Any, rounds: int, *, keeps: bool
) -> tuple[Call, int]:
    """Check the arguments of a call, unless they are those of the last one of its structure.

    Args:
      arguments: solver, problem, key, participation and start.
      name: "measure" or "residual".
      function: the measure or the residual, or None.
      rounds: of this call for a measure, of the run proper for a residual.
      keeps: whether the structure of the arguments may be kept, because no data belong to it.

    Returns:
      What is known of the call, and the rounds of the run proper.
    """
    solver, problem, key, participation, start = arguments
    leaves, structure = jax.tree.flatten(arguments)
    known = keeps and (function is None or callable(function))
    call = _last_call(structure, name, function) if known else Call()
    repeated = call.knows(leaves)
    if not repeated:
        _check_parts(solver, problem, participation, name, function)
    begun = _check_begun(solver, key, start, call.done_before(key, start))
    total = begun * (name == "measure") + rounds
    if not repeated:
        _check_rounds(solver, problem, participation, total)
        call.hides = hides(solver)
        call.remember(arguments, leaves, total)
    elif total > call.rounds:
        call.rounds = _lasting(partial(_check_rounds, solver, problem, participation), total)
    return call, total


def _check_begun(solver, key, start, done: int | None) -> int:
    """Check key and start; return the rounds that are done, 0 where they are traced.

    `done` is their number where start is known to be the state of a run under this key.
    """
    if done is None:
        typed_key(key)
        check_start(start, key)
    else:
        not_deleted("key", key)
        not_deleted("start", start)
    if start is None:
        return 0
    if hasattr(solver, "check_start"):
        solver.check_start(start.solver)
    if done is None:
        return int(start.index) if is_concrete(start.index) else 0
    return done


def check_start(start: Any, key: jax.Array) -> None:
    """Check that a start is the state of one run, with this key.

    Raises:
      InputError: it is not; a traced key or fingerprint is not looked at.
    """
    if start is None:
        return
    told = "must be the state of a Run, but it is the Run itself"
    refuse(isinstance(start, Run), "start", told, remedy="pass its .state")
    instance("start", start, RoundState, "the state of a Run")
    told = f"must be the state of one run, but it is a stack of shape {jnp.shape(start.index)}"
    refuse(jnp.ndim(start.index), "start", told, remedy="use jax.vmap over states")
    not_deleted("start", start)
    if start.fingerprint is not None and is_concrete((key, start.fingerprint)):
        other = int(start.fingerprint) != int(fingerprint_of(key))
        told = "must be the key of the run that is resumed, whose next rounds draw from it"
        refuse(other, "key", told, remedy="give the same key, or begin anew with start=None")


def _check_parts(solver, problem, participation, name, function) -> None:
    """Check what can be checked before tracing; `function` is the measure or the residual."""
    if function is not None:
        function_of(name, function, "solver", "problem", "state")
    check_methods(solver, problem)
    check_wrapped(solver)
    check_process("participation", participation)
    check_capabilities(solver, problem, function)
    registered("solver", solver)
    registered("problem", problem)
    check_range(solver, problem)


def _check_rounds(solver, problem, participation, rounds) -> None:
    """Check that a run proper may have so many rounds."""
    participation.check(solver.participants(problem), rounds)
    if hasattr(solver, "check"):
        solver.check(problem, rounds)


def _lasting(check: Callable[[int], None], rounds: int) -> int:
    """Check twice as many rounds, so that a run that goes on is seldom checked; return how many."""
    try:
        check(2 * rounds)
    except InputError:
        check(rounds)
        return rounds
    return 2 * rounds


def check_methods(solver: Any, problem: Any) -> None:
    """Check that a solver has all methods of one, and is no function, class or problem."""
    if has_methods(solver):
        return
    told = "solver and problem are swapped: call run(solver, problem, key)"
    refuse(has_methods(problem), None, told)
    if isinstance(solver, type) or inspect.isroutine(solver):
        kind = "class" if isinstance(solver, type) else "function"
        told = f"must be a solver, but it is the {kind} {solver.__name__}"
        raise InputError(told, "solver", "pass what it returns when it is called")
    missing = listed(name for name in _METHODS if not hasattr(solver, name))
    told = f"must have the methods {listed(_METHODS)}, but {type(solver).__name__} has no {missing}"
    raise InputError(told, "solver")


def has_methods(thing: Any) -> bool:
    """Return whether something is an object with the methods of a solver."""
    return not isinstance(thing, type) and all(hasattr(thing, name) for name in _METHODS)


def check_range(solver: Any, problem: Any) -> None:
    """Check that no number of a solver vanishes or overflows in the dtype of the problem's data.

    A solver that was built in float64 may run on data in float32, to which it is cast.
    """
    kinds = {jnp.result_type(leaf) for leaf in jax.tree.leaves(problem)}
    kinds = {kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)}
    if not kinds:
        return
    data = jnp.finfo(jnp.result_type(*kinds))
    for path, leaf in jax.tree.leaves_with_path(solver):
        kind = jnp.result_type(leaf)
        wide = jnp.issubdtype(kind, jnp.floating) and jnp.finfo(kind).bits > data.bits
        if not wide or not is_concrete(leaf):
            continue
        size = np.abs(np.asarray(leaf))
        lost = (size > 0) & (size < float(data.tiny)) | (size > float(data.max)) & (size < np.inf)
        if np.any(lost):
            name, size = jax.tree_util.keystr(path).lstrip("."), size[lost].flat[0]
            told = f"has {name} = {size:g}, which {data.dtype}, the dtype of the problem, has not"
            raise InputError(told, "solver", "take another unit, or data in float64")


def measured(measure, solver, problem, state) -> dict[str, Any]:
    """Return the traced values of the measure; an empty dict without one."""
    if measure is None:
        return {}
    seen = measure(solver, problem, state)
    shown = "an array" if isinstance(seen, jax.Array) else one_line(seen)
    told, remedy = "must return a dict of arrays", 'give the value a name, as {"error": value}'
    wrong = not isinstance(seen, Mapping)
    refuse(wrong, "measure", f"{told}, but it returns {shown}", remedy=remedy)
    taken = [name for name in _RECORDED if name in seen]
    told = f"must leave the names {listed(map(repr, _RECORDED))} to the run"
    refuse(taken, "measure", f"{told}, but it returns {', '.join(map(repr, taken))}")
    return dict(seen)


def traced_residual(residual, solver, problem, state) -> jax.Array:
    """Return the traced residual, shape (); a measure of one number serves as one."""
    seen = residual(solver, problem, state)
    if isinstance(seen, Mapping) and len(seen) == 1:
        seen = next(iter(seen.values()))
    told = f"must return one number, but it returns {one_line(seen)}"
    refuse(isinstance(seen, Mapping), "residual", told)
    distance = jnp.asarray(seen)
    one = distance.shape == () and jnp.issubdtype(distance.dtype, jnp.floating)
    told = "must return one floating number, but it returns an array of dtype"
    refuse(not one, "residual", f"{told} {distance.dtype} and shape {distance.shape}")
    return distance


def check_kept(maker: Any, method: str, old: Any, new: Any) -> None:
    """Check that a step, or a draw, keeps the structure, shapes and dtypes of its state."""
    change = difference(old, new)
    told = f"{type(maker).__name__}.{method} must keep the structure, shapes and dtypes of a state"
    refuse(change, None, f"{told}, but {change}")


def difference(old: Any, new: Any) -> str:
    """Return the first difference of structure, shape or dtype of two states; "" if none."""
    kinds = jax.tree.map(jax.typeof, (old, new))
    if jax.tree.flatten(kinds[0]) == jax.tree.flatten(kinds[1]):
        return ""
    import chex  # a tenth of a second: only what may be a mistake is worth it

    try:
        chex.assert_trees_all_equal_shapes_and_dtypes(*kinds)
    except AssertionError as error:
        text = " ".join(str(error).partition("failed:")[2].split()).removesuffix(".")
        return re.sub(r"^Trees( \(arrays\))? 0 and 1", "they", text)
    return ""
