"""Private solvers, alone and inside other solvers.

The noise of a private solver covers how far one sample moves the messages of that solver. A solver
around it may move them further (parts of a model that stay with a client are fitted to the sample,
too), or publish more (an extrapolation mixes models without noise into the messages).
"""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import jax

from fedjax_admm._checks import InputError


def hides(solver: Any) -> bool:
    """Return whether a solver, or one inside it, hides something by what it draws."""
    return any(getattr(part, "noisy", hasattr(part, "release")) for part in _parts(solver))


def check_wrapped(solver: Any) -> None:
    """Check that no private solver is inside another one that has no `noisy` of its own."""
    inner = [part for part in _parts(solver) if part is not solver and _is_private(part)]
    # An attribute that is passed on from the solver inside says nothing of the one around it.
    if inner and inspect.getattr_static(solver, "noisy", None) is None:
        around, inside = type(solver).__name__, type(inner[0]).__name__
        told = f"must not be private inside {around}, because the noise of {inside} covers how far"
        remedy = f"run {inside} by itself, or give {around} a proved `noisy` of its own"
        raise InputError(f"{told} one sample moves its own messages, and no more", "solver", remedy)


def _is_private(part: Any) -> bool:
    return getattr(part, "noisy", False) or hasattr(part, "release")


def _parts(value: Any) -> Iterator[Any]:
    """Yield an object and all of its parts, static fields included."""
    yield value
    if is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, field.name) for field in fields(value)]
    else:
        inside = jax.tree.leaves(value, is_leaf=lambda part: part is not value)
    for part in inside:
        if part is not value:
            yield from _parts(part)
